"""Writes a run as a CTranslate2 model, the engine that many translation services run, fast on a CPU, 8 bits included; or as
an `.argosmodel`, the package of Argos Translate and LibreTranslate: a zip with such a model and the tokenizer.

Weights go through `ctranslate2.specs`, as NumPy arrays. What the format cannot express is folded into weights
(temperature, scale of the projection) or refused by name.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from mt_cli.data.languages import english_name
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError, missing_extra
from mt_cli.export.marian import FORBIDDEN_BIAS, write_tokenizer
from mt_cli.model.embeddings import Embeddings
from mt_cli.model.positions import SinusoidPositions


def write_ctranslate2(translator: Translator, folder: Path, quantization: str = "float32") -> None:
    """The model in `folder`, which must exist, and its tokenizer beside it (`source.spm`, `target.spm`).

    Raises UsageError when ctranslate2 is not installed or the run has a part that the format cannot hold.
    """
    try:
        from ctranslate2 import specs
    except ImportError:
        raise missing_extra("a CTranslate2 model", "ctranslate2", "ct2") from None
    tokenizer, model = translator.tokenizer, translator.config.model
    for value, supported, key in (
        (model.layer_norm, ("variance",), "layer_norm"),
        (model.positions, ("rotary", "sinusoid"), "positions"),
        (model.d_v, (model.d_k,), "value_dim"),
    ):
        if value not in supported:
            others = " or ".join(map(repr, supported))
            raise UsageError(f"model.{key} '{value}' has no place in a CTranslate2 model; train with {others}")
    common = {
        "num_heads": model.n_heads,
        "pre_norm": model.norm == "pre",
        "activation": specs.common_spec.Activation[model.activation.upper()],
        "layernorm_embedding": model.embedding_norm,
        "head_dim": model.head_dim,
        "rotary_dim": 0 if model.positions == "rotary" else None,  # 0: all of a head
        "rotary_interleave": False,
    }
    encoder = specs.TransformerEncoderSpec(model.n_encoder_layers, **common)
    spec = specs.TransformerSpec(encoder, specs.TransformerDecoderSpec(model.n_decoder_layers, **common))
    _fill(spec, translator)
    spec.register_source_vocabulary(tokenizer.src_vocabulary())
    spec.register_target_vocabulary(tokenizer.tgt_vocabulary())
    [unk, bos, eos] = tokenizer.tgt_pieces([UNK_ID, BOS_ID, EOS_ID])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unk, bos, eos
    spec.config.decoder_start_token = bos
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.layer_norm_epsilon
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(folder))
    write_tokenizer(tokenizer, folder)


def write_argos(translator: Translator, folder: Path, quantization: str = "int8") -> None:
    """`translate-SRC_TGT.argosmodel` in `folder`. Raises UsageError for a run with a tokenizer for each language, as the
    package has room for one, and for a run with tags."""
    tokenizer, data = translator.tokenizer, translator.config.data
    if not tokenizer.is_joint:
        raise UsageError("an Argos package holds one tokenizer, this run has two; train with tokenizer.joint: true")
    if tokenizer.src_tags:
        remedy = f"train a run of {data.src_lang} to {data.tgt_lang} alone, or export --to ctranslate2"
        raise UsageError(f"an Argos package has no place for the tag {' '.join(tokenizer.src_tags)}; {remedy}")
    name = f"translate-{data.src_lang}_{data.tgt_lang}"
    metadata = {
        "package_version": "1.0",
        "argos_version": "1.9.0",
        "from_code": data.src_lang,
        "from_name": english_name(data.src_lang),
        "to_code": data.tgt_lang,
        "to_name": english_name(data.tgt_lang),
    }
    with tempfile.TemporaryDirectory() as model_folder, zipfile.ZipFile(folder / f"{name}.argosmodel", "w") as package:
        write_ctranslate2(translator, Path(model_folder), quantization)
        for file in sorted(Path(model_folder).iterdir()):
            if file.suffix != ".spm":
                package.write(file, f"{name}/model/{file.name}", zipfile.ZIP_DEFLATED)
        package.writestr(f"{name}/metadata.json", json.dumps(metadata, indent=2))
        package.writestr(f"{name}/sentencepiece.model", tokenizer.models[0])


def _fill(spec: Any, translator: Translator) -> None:
    model = translator.model
    _fill_ends(spec.encoder, spec.encoder.embeddings[0], model.src_embeddings, model.encoder_norm)
    _fill_ends(spec.decoder, spec.decoder.embeddings, model.tgt_embeddings, model.decoder_norm)
    for stack, layers in ((spec.encoder, model.encoder_layers), (spec.decoder, model.decoder_layers)):
        layer: Any
        for own, layer in zip(stack.layer, layers, strict=True):
            attention, cross = layer.self_attention, getattr(layer, "cross_attention", None)
            _fill_norm(own.self_attention.layer_norm, layer.self_attention_norm.norm)
            own.self_attention.queries_scale = np.float32(1 / attention.temperature)
            _fill_linears(own.self_attention.linear[0], attention.w_q, attention.w_k, attention.w_v)
            _fill_linears(own.self_attention.linear[1], attention.w_o)
            _fill_norm(own.ffn.layer_norm, layer.feed_forward_norm.norm)
            _fill_linears(own.ffn.linear_0, layer.feed_forward.w_1)
            _fill_linears(own.ffn.linear_1, layer.feed_forward.w_2)
            if cross is not None:
                _fill_norm(own.attention.layer_norm, layer.cross_attention_norm.norm)
                own.attention.queries_scale = np.float32(1 / cross.temperature)
                _fill_linears(own.attention.linear[0], cross.w_q)
                _fill_linears(own.attention.linear[1], cross.w_k, cross.w_v)
                _fill_linears(own.attention.linear[2], cross.w_o)
    spec.decoder.projection.weight = _array(model.scaled_projection())
    bias = model.projection.bias
    n_pieces = translator.tokenizer.tgt_vocab_size
    spec.decoder.projection.bias = np.zeros(n_pieces, np.float32) if bias is None else _array(bias).copy()
    spec.decoder.projection.bias[[PAD_ID, UNK_ID, BOS_ID]] = FORBIDDEN_BIAS


def _fill_ends(spec: Any, embeddings_spec: Any, embeddings: Embeddings, final_norm: nn.Module) -> None:
    """What stands before and after the layers of encoder or decoder."""
    embeddings_spec.weight = _array(embeddings.token.weight * embeddings.scale)
    spec.scale_embeddings = False
    if isinstance(embeddings.positions, SinusoidPositions):
        spec.position_encodings.encodings = _array(embeddings.positions.table[1:])  # row 0 is for padding
    elif hasattr(spec, "position_encodings"):  # an encoder of this format always has some
        spec.position_encodings.encodings = np.zeros(
            (embeddings.positions.n_positions, embeddings.token.embedding_dim), np.float32
        )
    if hasattr(embeddings.norm, "gamma"):
        _fill_norm(spec.layernorm_embedding, embeddings.norm)
    if hasattr(final_norm, "gamma"):
        _fill_norm(spec.layer_norm, final_norm)


def _fill_linears(spec: Any, *linears: Any) -> None:
    """Several matrices with one input as one. A convolution of kernel 1 is a matrix with one more dimension."""
    spec.weight = np.concatenate([_array(linear.weight.flatten(1)) for linear in linears])
    if linears[0].bias is not None:
        spec.bias = np.concatenate([_array(linear.bias) for linear in linears])


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.gamma), _array(norm.beta)


def _array(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.detach().float().cpu().contiguous().numpy()
