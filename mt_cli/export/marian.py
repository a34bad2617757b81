"""Writes a run as a Hugging Face folder, which `AutoModelForSeq2SeqLM` and `AutoTokenizer` of `transformers` load.

Two formats of that library hold the Transformer of the paper: Marian, whose norms come after the sublayers (post-norm),
and Pegasus, which has the same parts with the norms before them (pre-norm). Both have biases everywhere, heads of
d_model / n_heads, and here Marian's tokenizer. Marian makes its own sinusoids, from position 0, all sines first and then
all cosines; ours alternate. The rest of the network does not depend on the order of the d_model dimensions, so every
weight that has this dimension is permuted into Marian's order.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mt_cli.config import Config, DecodingConfig, ModelConfig
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError, missing_extra
from mt_cli.export.vocabulary import FORBIDDEN_BIAS, write_tokenizer
from mt_cli.model.layers import dropout_rate
from mt_cli.model.positions import SinusoidPositions

log = logging.getLogger(__name__)


def write_marian(translator: Translator, folder: Path) -> None:
    """The folder's files; it must exist. Raises UsageError when safetensors is not installed or the formats cannot hold
    the run."""
    try:
        from safetensors.torch import save
    except ImportError:
        raise missing_extra("mt export --to marian", "safetensors", "marian") from None
    _refuse_unsupported(translator.config)
    (folder / "model.safetensors").write_bytes(save(_weights(translator), metadata={"format": "pt"}))
    tokenizer = translator.tokenizer
    write_tokenizer(tokenizer, folder)
    files = {
        "config.json": _model_config(translator),
        "generation_config.json": _generation_config(translator.config),
        "tokenizer_config.json": _tokenizer_config(translator.config, tokenizer),
        "vocab.json": _ids(_with_language_codes(tokenizer)),
    }
    if not tokenizer.is_joint:
        files["target_vocab.json"] = _ids(tokenizer.tgt_vocabulary())
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    if lost := _lost_settings(translator.config.decoding):
        log.info(f"note: transformers searches without {', '.join(lost)}; so some translations will differ")


def _refuse_unsupported(config: Config) -> None:
    model = config.model
    n_heads = max(n for n in range(1, model.n_heads + 1) if model.d_model % n == 0)
    found = {  # key -> its value, and the only one that the formats hold
        "n_heads": (model.n_heads, n_heads),
        "layer_norm": (model.layer_norm, "variance"),
        "layer_norm_epsilon": (model.layer_norm_epsilon, 1e-5),
        "embedding_norm": (model.embedding_norm, False),
        "positions": (model.positions, "sinusoid"),
        "first_position": (model.first_position, model.first_position if model.norm == "pre" else 0),
        "head_dim": (model.d_k, model.d_model // n_heads),
        "value_dim": (model.d_v, model.d_model // n_heads),
    }
    if wrong := {key: (value, needed) for key, (value, needed) in found.items() if value != needed}:
        values = ", ".join(f"model.{key} is {value}" for key, (value, _) in wrong.items())
        settings = " ".join(f"--set model.{key}={str(needed).lower()}" for key, (_, needed) in wrong.items())
        raise UsageError(
            f"the formats of Hugging Face cannot hold this run ({values}); train one that it can: mt train RUN/config.yaml"
            f" {settings} --run-dir OTHER"
        )


def weight_names(config: ModelConfig) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """For each weight of the layers: our name, Marian's name, and which of its dimensions are d_model."""

    def norm(mine: str, theirs: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        yield f"{mine}.gamma", f"{theirs}.weight", (0,)
        yield f"{mine}.beta", f"{theirs}.bias", (0,)

    def linear(mine: str, theirs: str, *, writes_d_model: bool) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        yield f"{mine}.weight", f"{theirs}.weight", (0,) if writes_d_model else (1,)
        yield f"{mine}.bias", f"{theirs}.bias", (0,) if writes_d_model else ()

    for side, n_layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
        attentions = {"self_attention": "self_attn"} | (
            {"cross_attention": "encoder_attn"} if side == "decoder" else {}
        )
        for n in range(n_layers):
            layer, their_layer = f"{side}_layers.{n}", f"model.{side}.layers.{n}"
            for attention, their_attention in attentions.items():
                for mine, theirs in (("w_q", "q_proj"), ("w_k", "k_proj"), ("w_v", "v_proj"), ("w_o", "out_proj")):
                    names = f"{layer}.{attention}.{mine}", f"{their_layer}.{their_attention}.{theirs}"
                    yield from linear(*names, writes_d_model=mine == "w_o")
                yield from norm(f"{layer}.{attention}_norm.norm", f"{their_layer}.{their_attention}_layer_norm")
            yield from linear(f"{layer}.feed_forward.w_1", f"{their_layer}.fc1", writes_d_model=False)
            yield from linear(f"{layer}.feed_forward.w_2", f"{their_layer}.fc2", writes_d_model=True)
            yield from norm(f"{layer}.feed_forward_norm.norm", f"{their_layer}.final_layer_norm")
        if config.norm == "pre":
            yield from norm(f"{side}_norm", f"model.{side}.layer_norm")


def marian_order(d_model: int) -> Tensor:
    """Our numbers of the dimensions of d_model in Marian's order: all sines, then all cosines."""
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def reordered(weight: Tensor, dimensions: Sequence[int], order: Tensor) -> Tensor:
    """The weight whose rows, columns or both are in another order."""
    for dimension in dimensions:
        weight = weight.index_select(dimension, order)
    return weight


def _weights(translator: Translator) -> dict[str, Tensor]:
    config, model = translator.config.model, translator.model
    order = marian_order(config.d_model)
    own = {name: tensor.detach().float().cpu() for name, tensor in model.state_dict().items()}
    weights: dict[str, Tensor] = {}
    # Marian divides by sqrt(head_dim); another temperature is folded into the queries.
    fold = math.sqrt(config.d_model // config.n_heads) / (config.attention_temperature or math.sqrt(config.d_k))
    for mine, theirs, dimensions in weight_names(config):
        if mine not in own:  # a bias of an attention without biases
            weights[theirs] = torch.zeros(own[mine.replace(".bias", ".weight")].size(0))
            continue
        weight = own[mine].flatten(1) if own[mine].dim() == 3 else own[mine]  # of a convolution with kernel size 1
        weights[theirs] = reordered(weight, dimensions, order) * (fold if ".w_q." in mine else 1.0)
    if config.norm == "pre":
        # Pegasus reads its positions from the file; Marian makes its own.
        positions = model.positions
        assert isinstance(positions, SinusoidPositions)  # others were refused
        for side in ("encoder", "decoder"):
            weights[f"model.{side}.embed_positions.weight"] = positions.table[1:, order].cpu()  # row 0: padding

    weights |= _embeddings(translator, own, order)
    bias = torch.zeros(1, weights["lm_head.weight"].size(0))
    if config.projection_bias:
        bias[0, : translator.tokenizer.tgt_vocab_size] = own["projection.bias"]
    bias[0, [PAD_ID, UNK_ID, BOS_ID]] = FORBIDDEN_BIAS
    bias[0, translator.tokenizer.tgt_vocab_size :] = FORBIDDEN_BIAS  # rows that only the source's embeddings have
    weights["final_logits_bias"] = bias
    return {name: tensor.contiguous().clone() for name, tensor in weights.items()}  # safetensors takes no shared memory


def _embeddings(translator: Translator, own: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    config = translator.config.model
    src, tgt = own["src_embeddings.token.weight"][:, order], own["tgt_embeddings.token.weight"][:, order]
    projection = translator.model.scaled_projection().float().cpu()[:, order]
    if config.norm == "pre":  # all three need the same number of rows
        n_rows = max(len(src), len(tgt))
        src, tgt, projection = (F.pad(weight, (0, 0, 0, n_rows - len(weight))) for weight in (src, tgt, projection))
    weights = {"lm_head.weight": projection}
    if config.norm == "pre" or _is_shared(config):
        weights["model.shared.weight"] = src
    if not (_is_shared(config) and _is_tied(config)):
        weights |= {"model.encoder.embed_tokens.weight": src, "model.decoder.embed_tokens.weight": tgt}
    return weights


def _is_shared(config: ModelConfig) -> bool:
    return config.tie_embeddings == "all"


def _is_tied(config: ModelConfig) -> bool:
    """Whether the projection is an embedding: for Pegasus, that all three are one."""
    is_one = _is_shared(config) or (config.tie_embeddings == "target" and config.norm == "post")
    return is_one and config.embedding_scale != "projection"


def _model_config(translator: Translator) -> dict[str, object]:
    config, tokenizer = translator.config.model, translator.tokenizer
    sizes = {"vocab_size": tokenizer.src_vocab_size, "decoder_vocab_size": tokenizer.tgt_vocab_size}
    own: dict[str, object] = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        **sizes,
        "share_encoder_decoder_embeddings": _is_shared(config),
        "static_position_embeddings": True,
    }
    if config.norm == "pre":
        own = {
            "architectures": ["PegasusForConditionalGeneration"],
            "model_type": "pegasus",
            "vocab_size": max(sizes.values()),
        }
    return own | {
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.ffn_dim,
        "decoder_ffn_dim": config.ffn_dim,
        "activation_function": config.activation,
        "scale_embedding": config.embedding_scale == "embedding",
        "max_position_embeddings": config.max_positions,
        "tie_word_embeddings": _is_tied(config),
        "is_encoder_decoder": True,
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "forced_eos_token_id": None,
        "decoder_start_token_id": BOS_ID,
        "dropout": config.dropout,
        "attention_dropout": dropout_rate(config.attention_dropout, config.dropout),
        "activation_dropout": dropout_rate(config.ffn_dropout, config.dropout),
        "dtype": "float32",
    }


def _generation_config(config: Config) -> dict[str, object]:
    """transformers divides the score of a beam by length ** penalty, as `average` does; it has nothing like `gnmt`."""
    decoding = config.decoding
    penalty = {"length_penalty": decoding.length_penalty} if decoding.length_normalization == "average" else {}
    return {
        "decoder_start_token_id": BOS_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "pad_token_id": PAD_ID,
        "num_beams": decoding.beam_size,
        "no_repeat_ngram_size": decoding.no_repeat_ngram,
        **penalty,
        "max_length": min(2 * config.data.max_length + 10, config.model.max_positions),
    }


def _lost_settings(decoding: DecodingConfig) -> list[str]:
    """What a run's search has and `generation_config.json` does not."""
    held: dict[str, object] = {"max_length_ratio": None, "min_length": 0, "sample": False}
    if decoding.beam_size > 1:
        held["length_normalization"] = "average"
    found = {key: getattr(decoding, key) for key in held}
    return [f"decoding.{key}: {str(value).lower()}" for key, value in found.items() if value != held[key]]


def _tokenizer_config(config: Config, tokenizer: Tokenizer) -> dict[str, object]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.data.src_lang,
        "target_lang": config.data.tgt_lang,
        "separate_vocabs": not tokenizer.is_joint,
        "model_max_length": config.data.max_length,
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "split_special_tokens": True,  # the names of symbols in a source are ordinary text
    }


def _with_language_codes(tokenizer: Tokenizer) -> list[str]:
    """The vocabulary in which `<2de>` is `>>de<<`, which Marian's tokenizer takes for a tag at the beginning of a source."""
    return [
        f">>{piece[2:-1]}<<" if piece in tokenizer.tags and piece.startswith("<2") else piece
        for piece in tokenizer.src_vocabulary()
    ]


def _ids(pieces: list[str]) -> dict[str, object]:
    return {piece: number for number, piece in enumerate(pieces)}
