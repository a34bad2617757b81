"""Writes a run as a Hugging Face folder, which `transformers` loads: as Marian, whose norms come after the sublayers
(post-norm), or as Pegasus, which has the same parts with the norms before them, both with Marian's tokenizer."""

import json
import math
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mt_cli.config import Config, ModelConfig
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError, missing_extra
from mt_cli.model.layers import dropout_rate
from mt_cli.model.positions import SinusoidPositions

FORBIDDEN_BIAS = -1e4  # gives symbols that are no part of a translation probability 0, also in float16


def write_marian(translator: Translator, folder: Path) -> None:
    """The files, in a folder that exists. Raises UsageError without safetensors or for what the formats cannot hold."""
    try:
        from safetensors.torch import save
    except ImportError:
        raise missing_extra("mt export --to marian", "safetensors", "marian") from None
    _refuse_unsupported(translator.config)
    (folder / "model.safetensors").write_bytes(save(_weights(translator), metadata={"format": "pt"}))
    tokenizer = translator.tokenizer
    write_tokenizer(tokenizer, folder)
    # To Marian's tokenizer `>>de<<` is a tag at the beginning of a source, as `<2de>` is to ours.
    pieces = [
        f">>{piece[2:-1]}<<" if piece in tokenizer.tags and piece.startswith("<2") else piece
        for piece in tokenizer.src_vocabulary()
    ]
    files = _configs(translator.config, tokenizer)
    files["vocab.json"] = {piece: number for number, piece in enumerate(pieces)}
    if not tokenizer.is_joint:
        files["target_vocab.json"] = {piece: number for number, piece in enumerate(tokenizer.tgt_vocabulary())}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """`source.spm` and `target.spm`, the names that engines look for."""
    (folder / "source.spm").write_bytes(tokenizer.models[0])
    (folder / "target.spm").write_bytes(tokenizer.models[-1])


def _refuse_unsupported(config: Config) -> None:
    model = config.model
    n_heads = max(n for n in range(1, model.n_heads + 1) if model.d_model % n == 0)
    needed = {  # the only values that the formats hold
        "n_heads": n_heads,
        "layer_norm": "variance",
        "layer_norm_epsilon": 1e-5,
        "embedding_norm": False,
        "positions": "sinusoid",
        "first_position": model.first_position if model.norm == "pre" else 0,
        "head_dim": model.d_model // n_heads,
        "value_dim": model.d_model // n_heads,
    }
    found = {**model.model_dump(), "head_dim": model.d_k, "value_dim": model.d_v}
    if wrong := [key for key, value in needed.items() if found[key] != value]:
        values = ", ".join(f"model.{key} is {found[key]}" for key in wrong)
        settings = " ".join(f"--set model.{key}={str(needed[key]).lower()}" for key in wrong)
        command = f"mt train RUN/config.yaml {settings} --run-dir OTHER"
        raise UsageError(f"the formats of Hugging Face cannot hold this run ({values}); train one that fits: {command}")


# Weights -------------------------------------------------------------------------------------------------------------

_RENAMED = {  # parts of our names, and Marian's for them
    "encoder_layers": "model.encoder.layers", "decoder_layers": "model.decoder.layers",
    "encoder_norm": "model.encoder.layer_norm", "decoder_norm": "model.decoder.layer_norm",
    "_norm.norm": "_layer_norm", "feed_forward_layer_norm": "final_layer_norm",
    "self_attention": "self_attn", "cross_attention": "encoder_attn",
    "w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj",
    "feed_forward.w_1": "fc1", "feed_forward.w_2": "fc2", "gamma": "weight", "beta": "bias",
}  # fmt: skip


def is_of_layers(name: str) -> bool:
    """Whether a weight of our network is none of embeddings, positions and projection."""
    return name.startswith(("encoder_", "decoder_"))


def marian_name(name: str) -> str:
    """Marian's name of a weight of the layers."""
    for mine, theirs in _RENAMED.items():
        name = name.replace(mine, theirs)
    return name


def marian_order(d_model: int) -> Tensor:
    """Our numbers of the dimensions of d_model in Marian's order. It makes its own sinusoids, all sines first, then all
    cosines; ours alternate. Nothing else depends on the order, so all weights with this dimension are permuted."""
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def reordered(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """The weight with its dimension of d_model in another order: of what a part gives, or is given."""
    if re.search(r"gamma|beta|w_o|w_2", name):
        return weight[order]
    return weight[:, order] if weight.dim() == 2 else weight


def _weights(translator: Translator) -> dict[str, Tensor]:
    config, model = translator.config.model, translator.model
    order = marian_order(config.d_model)
    own = {name: tensor.detach().float().cpu() for name, tensor in model.state_dict().items()}
    weights: dict[str, Tensor] = {}
    # Marian divides by sqrt(head_dim); another temperature is folded into the queries.
    fold = math.sqrt(config.d_model // config.n_heads) / (config.attention_temperature or math.sqrt(config.d_k))
    for mine, weight in own.items():
        if is_of_layers(mine):
            weight = weight.flatten(1) if weight.dim() == 3 else weight  # of a convolution with kernel size 1
            weights[marian_name(mine)] = reordered(mine, weight, order) * (fold if ".w_q." in mine else 1.0)
            if not config.attention_bias and "attention.w_" in mine:
                weights[marian_name(mine).replace("weight", "bias")] = torch.zeros(len(weight))
    src, tgt = own["src_embeddings.token.weight"][:, order], own["tgt_embeddings.token.weight"][:, order]
    projection = model.scaled_projection().float().cpu()[:, order]
    if config.norm == "pre":
        # Pegasus reads its positions from the file; Marian makes its own.
        positions = model.positions
        assert isinstance(positions, SinusoidPositions)  # others were refused
        for side in ("encoder", "decoder"):
            weights[f"model.{side}.embed_positions.weight"] = positions.table[1:, order].cpu()  # row 0: padding
        n_rows = max(len(src), len(tgt))  # all three need the same number
        src, tgt, projection = (F.pad(weight, (0, 0, 0, n_rows - len(weight))) for weight in (src, tgt, projection))
    weights["lm_head.weight"] = projection
    is_shared = config.tie_embeddings == "all"
    if config.norm == "pre" or is_shared:
        weights["model.shared.weight"] = src
    if not (is_shared and _is_tied(config)):
        weights |= {"model.encoder.embed_tokens.weight": src, "model.decoder.embed_tokens.weight": tgt}
    bias = torch.zeros(1, len(projection))
    if config.projection_bias:
        bias[0, : translator.tokenizer.tgt_vocab_size] = own["projection.bias"]
    bias[0, [PAD_ID, UNK_ID, BOS_ID]] = FORBIDDEN_BIAS
    bias[0, translator.tokenizer.tgt_vocab_size :] = FORBIDDEN_BIAS  # rows that only the source's embeddings have
    weights["final_logits_bias"] = bias
    return {name: tensor.contiguous().clone() for name, tensor in weights.items()}  # safetensors takes no shared memory


def _is_tied(config: ModelConfig) -> bool:
    """Whether the projection is an embedding: for Pegasus, that all three are one."""
    is_one = config.tie_embeddings == "all" or (config.tie_embeddings == "target" and config.norm == "post")
    return is_one and config.embedding_scale != "projection"


# Configs -------------------------------------------------------------------------------------------------------------


KEYS = {  # of our sections, and what the JSON files call them
    "model": {
        "d_model": "d_model", "ffn_dim": "encoder_ffn_dim", "n_heads": "encoder_attention_heads",
        "n_encoder_layers": "encoder_layers", "n_decoder_layers": "decoder_layers", "dropout": "dropout",
        "attention_dropout": "attention_dropout", "ffn_dropout": "activation_dropout",
        "max_positions": "max_position_embeddings",
    },
    "decoding": {
        "beam_size": "num_beams", "length_penalty": "length_penalty", "no_repeat_ngram": "no_repeat_ngram_size",
    },
}  # fmt: skip


def _configs(config: Config, tokenizer: Tokenizer) -> dict[str, dict[str, object]]:
    model, decoding = config.model, config.decoding
    sizes = {"vocab_size": tokenizer.src_vocab_size, "decoder_vocab_size": tokenizer.tgt_vocab_size}
    kind: dict[str, object] = {"architectures": ["MarianMTModel"], "model_type": "marian", **sizes}
    if model.norm == "pre":
        kind = {"architectures": ["PegasusForConditionalGeneration"], "model_type": "pegasus"}
        kind["vocab_size"] = max(sizes.values())
    symbols = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID}
    symbols["decoder_start_token_id"] = BOS_ID
    network = {
        "share_encoder_decoder_embeddings": model.tie_embeddings == "all",
        "tie_word_embeddings": _is_tied(model),
        "scale_embedding": model.embedding_scale == "embedding",
        "static_position_embeddings": True,
        **{theirs: getattr(model, mine) for mine, theirs in KEYS["model"].items()},
        "decoder_attention_heads": model.n_heads,
        "decoder_ffn_dim": model.ffn_dim,
        "activation_function": model.activation,
        "attention_dropout": dropout_rate(model.attention_dropout, model.dropout),
        "activation_dropout": dropout_rate(model.ffn_dropout, model.dropout),
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }
    search = {theirs: getattr(decoding, mine) for mine, theirs in KEYS["decoding"].items()}
    search["max_length"] = min(2 * config.data.max_length + 10, model.max_positions)
    if decoding.length_normalization != "average":  # transformers has nothing like `gnmt`
        del search["length_penalty"]
    of_tokenizer = {
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
    networks = {"config.json": {**kind, **network, **symbols}, "generation_config.json": {**symbols, **search}}
    return {**networks, "tokenizer_config.json": of_tokenizer}
