"""CTranslate2, a fast engine on a CPU: a run as its model, or as an `.argosmodel`, a zip of Argos Translate and
LibreTranslate with such a model and the tokenizer; and its search in place of ours, which finds the same."""

import json
import os
import platform
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from mt_cli.config import DecodingConfig
from mt_cli.data.languages import english_name
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.search import Request, usual_batch_size
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError, missing_extra
from mt_cli.export.marian import FORBIDDEN_BIAS, write_tokenizer
from mt_cli.model.positions import SinusoidPositions
from mt_cli.model.transformer import Embeddings

_SUPPORTED = {"beam_size", "n_best", "length_penalty", "max_length_ratio", "batch_size"}


class CTranslate2Translator(Translator):
    """A `Translator` of one model that leaves the search to CTranslate2; splitting, joining and forced scores stay its
    own. The model is exported at every start: a stored one could be that of another checkpoint, or a stranger's."""

    called, compute_type = "ctranslate2", "float32"

    def __init__(self, *arguments: Any, **named: Any):
        """Raises UsageError when ctranslate2 is not installed or cannot hold the model."""
        super().__init__(*arguments, **named)
        if len(self.models) > 1 or self.device.type != "cpu":
            raise UsageError(f"--engine {self.called} has one model, on the CPU; give one checkpoint and no --device")
        avoid_saturated_int8()
        with tempfile.TemporaryDirectory(prefix="mt-") as folder:
            write_ctranslate2(self, Path(folder))
            import ctranslate2

            self._engine = ctranslate2.Translator(
                folder, compute_type=self.compute_type, inter_threads=self.n_threads, intra_threads=1
            )

    def settings(self, **options: Any) -> DecodingConfig:
        """Raises UsageError, also for a search in which the engine would find or score something else than ours."""
        settings = super().settings(**options)
        # With min_length and no_repeat_ngram the engine gives the probability of forbidden tokens to the others.
        needed = {key: field.default for key, field in DecodingConfig.model_fields.items() if key not in _SUPPORTED}
        needed["length_normalization"] = "average"
        if settings.length_penalty == 0:
            needed["length_penalty"] = 1.0
        unused = settings.model_copy(update={"sample": False, "mbr": 0}).keys_without_effect()
        wrong = {key: value for key, value in needed.items() if key not in unused and value != getattr(settings, key)}
        if wrong:
            needs = " ".join(f"--set decoding.{key}={str(value).lower()}" for key, value in wrong.items())
            raise UsageError(f"--engine {self.called} needs {needs}; give that, or leave out --engine")
        return settings

    def search(
        self, requests: Sequence[Request], settings: DecodingConfig, on_batch: Callable[[int], None] | None = None
    ) -> list[list[Hypothesis]]:
        if any(one.prefix for one in requests):  # which the engine's search has not
            return super().search(requests, settings, on_batch)
        limits, is_beam = [one.max_length for one in requests], settings.beam_size > 1
        # It goes on, as our beam search does, until no partial hypothesis can win: above a penalty of 1 by growing longer.
        patience = max([10, *limits]) if settings.length_penalty > 1 else 10
        results = self._engine.translate_batch(
            [self.tokenizer.src_pieces(one.src_ids) for one in requests],
            max_batch_size=settings.batch_size or usual_batch_size(self.device),
            beam_size=settings.beam_size,
            num_hypotheses=settings.beam_size,
            patience=patience if is_beam else 1,
            length_penalty=settings.length_penalty if is_beam else 0,
            min_decoding_length=0,
            max_decoding_length=max(limits, default=1),
            max_input_length=0,
            return_scores=True,
        )
        # The engine has one limit for all sentences, and lets what has not ended there win in a beam; so a sentence that
        # reaches its own limit is searched again by our own search; and so is one with spans, which has to have each once.
        longest = [max(map(len, result.hypotheses)) for result in results]
        cut_off = [i for i, n in enumerate(limits) if longest[i] > n - is_beam or requests[i].symbols]
        hypotheses = dict(zip(cut_off, super().search([requests[i] for i in cut_off], settings), strict=True))
        if on_batch is not None:
            on_batch(len(requests))
        for i, (result, limit) in enumerate(zip(results, limits, strict=True)):
            found = zip(map(self.tokenizer.tgt_ids, result.hypotheses), result.scores, strict=True)
            hypotheses.setdefault(i, [Hypothesis(ids, score, is_complete=len(ids) < limit) for ids, score in found])
        return [hypotheses[i] for i in range(len(requests))]


class Int8Translator(CTranslate2Translator):
    called, compute_type = "ctranslate2-int8", "int8"


def avoid_saturated_int8() -> None:
    """To be called before ctranslate2 is imported. On processors without VNNI, oneDNN adds pairs of 8-bit products in
    16 bits, and about one pair in a hundred saturates; MKL adds them in 32 bits, and takes half as long again."""
    is_x86 = platform.machine().lower() in {"x86_64", "amd64"}
    may_use_vnni = os.environ.get("ONEDNN_MAX_CPU_ISA") not in {"SSE41", "AVX", "AVX2", "AVX512_CORE"}
    if is_x86 and not (torch.cpu._is_vnni_supported() and may_use_vnni):
        os.environ.setdefault("CT2_USE_MKL", "1")


def write_ctranslate2(translator: Translator, folder: Path, quantization: str = "float32") -> None:
    """The model in `folder`, which must exist, and its tokenizer beside it. Raises UsageError when ctranslate2 is not
    installed or the run has a part that the format cannot hold and no weight can take."""
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
    """`translate-SRC_TGT.argosmodel` in `folder`. Raises UsageError for a run with two tokenizers, or with tags."""
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
    model, n_pieces = translator.model, translator.tokenizer.tgt_vocab_size
    _fill_ends(spec.encoder, spec.encoder.embeddings[0], model.src_embeddings, model.encoder_norm)
    _fill_ends(spec.decoder, spec.decoder.embeddings, model.tgt_embeddings, model.decoder_norm)
    names = {"self_attention": "self_attention", "cross_attention": "attention", "feed_forward": "ffn"}
    for stack, layers in ((spec.encoder, model.encoder_layers), (spec.decoder, model.decoder_layers)):
        for layer, own in zip(layers, stack.layer, strict=True):
            for name, norm, linears in sublayers(layer):
                part = getattr(own, names[name])
                _fill_norm(part.layer_norm, norm)
                if name == "feed_forward":
                    matrices = [part.linear_0, part.linear_1]
                else:
                    matrices, part.queries_scale = part.linear, np.float32(1 / getattr(layer, name).temperature)
                for matrix, several in zip(matrices, linears.values(), strict=True):
                    # A convolution of kernel 1 is a matrix with one more dimension.
                    matrix.weight = np.concatenate([_array(linear.weight.flatten(1)) for linear in several])
                    if several[0].bias is not None:
                        matrix.bias = np.concatenate([_array(linear.bias) for linear in several])
    spec.decoder.projection.weight = _array(model.scaled_projection())
    bias = model.projection.bias
    spec.decoder.projection.bias = np.zeros(n_pieces, np.float32) if bias is None else _array(bias).copy()
    spec.decoder.projection.bias[[PAD_ID, UNK_ID, BOS_ID]] = FORBIDDEN_BIAS


def sublayers(layer: Any) -> Iterator[tuple[str, Any, dict[str, list[Any]]]]:
    """Name and norm of each, and its matrices: those with one input are one in most engines."""
    own, cross, network = layer.self_attention, getattr(layer, "cross_attention", None), layer.feed_forward
    yield "self_attention", layer.self_attention_norm.norm, {"w_qkv": [own.w_q, own.w_k, own.w_v], "w_o": [own.w_o]}
    yield "feed_forward", layer.feed_forward_norm.norm, {"w_1": [network.w_1], "w_2": [network.w_2]}
    if cross is not None:
        linears = {"w_q": [cross.w_q], "w_kv": [cross.w_k, cross.w_v], "w_o": [cross.w_o]}
        yield "cross_attention", layer.cross_attention_norm.norm, linears


def _fill_ends(spec: Any, embeddings_spec: Any, embeddings: Embeddings, final_norm: nn.Module) -> None:
    """What stands before and after the layers of encoder or decoder."""
    embeddings_spec.weight = _array(embeddings.token.weight * embeddings.scale)
    spec.scale_embeddings = False
    if isinstance(embeddings.positions, SinusoidPositions):
        spec.position_encodings.encodings = _array(embeddings.positions.table[1:])  # row 0 is for padding
    elif hasattr(spec, "position_encodings"):  # an encoder of this format always has some
        size = embeddings.positions.n_positions, embeddings.token.embedding_dim
        spec.position_encodings.encodings = np.zeros(size, np.float32)
    _fill_norm(getattr(spec, "layernorm_embedding", None), embeddings.norm)
    _fill_norm(getattr(spec, "layer_norm", None), final_norm)


def _fill_norm(spec: Any, norm: Any) -> None:
    if hasattr(norm, "gamma"):
        spec.gamma, spec.beta = _array(norm.gamma), _array(norm.beta)


def _array(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.detach().float().cpu().contiguous().numpy()
