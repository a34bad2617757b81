"""Writes a run as a Hugging Face folder, which `transformers` loads: as Marian, whose norms come after the sublayers
(post-norm), or as Pegasus, which has the same parts with the norms before them, both with Marian's tokenizer. And makes
a run of a Marian folder, the form in which OPUS-MT publishes its translators."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from mt_cli.config import Config, ModelConfig
from mt_cli.config_file import explain_errors
from mt_cli.data.tokenizer import (
    BOS_ID,
    CONTROL,
    EOS_ID,
    PAD_ID,
    RESERVED,
    UNK_ID,
    UNUSED,
    Tokenizer,
    algorithm_of,
    tag_of,
    with_our_symbols,
)
from mt_cli.decoding.translator import Translator
from mt_cli.errors import CheckpointError, UsageError, missing_extra
from mt_cli.files import refuse_special_file, sha256_of_file
from mt_cli.model.layers import dropout_rate
from mt_cli.model.positions import SinusoidPositions
from mt_cli.run.checkpoint import build_model, load_foreign_weights, meta_model, save_checkpoint, shape_of
from mt_cli.run.logs import record_start
from mt_cli.run.run_dir import RunDir

FORBIDDEN_BIAS = -1e4  # gives symbols that are no part of a translation probability 0, also in float16


def write_marian(translator: Translator, folder: Path) -> None:
    """The files, in a folder that exists. Raises UsageError without safetensors or for what the formats cannot hold."""
    try:
        from safetensors.torch import save
    except ImportError:
        raise missing_extra("mt export --to marian", "safetensors", "marian") from None
    model = translator.config.model
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


_RENAMED = {  # parts of our names, and Marian's for them
    "encoder_layers": "model.encoder.layers", "decoder_layers": "model.decoder.layers",
    "encoder_norm": "model.encoder.layer_norm", "decoder_norm": "model.decoder.layer_norm",
    "_norm.norm": "_layer_norm", "feed_forward_layer_norm": "final_layer_norm",
    "self_attention": "self_attn", "cross_attention": "encoder_attn",
    "w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj",
    "feed_forward.w_1": "fc1", "feed_forward.w_2": "fc2", "gamma": "weight", "beta": "bias",
}  # fmt: skip


def _is_of_layers(name: str) -> bool:
    """Whether a weight of our network is none of embeddings, positions and projection."""
    return name.startswith(("encoder_", "decoder_"))


def _marian_name(name: str) -> str:
    """Marian's name of a weight of the layers."""
    for mine, theirs in _RENAMED.items():
        name = name.replace(mine, theirs)
    return name


def _marian_order(d_model: int) -> Tensor:
    """Our numbers of the dimensions of d_model in Marian's order. It makes its own sinusoids, all sines first, then all
    cosines; ours alternate. Nothing else depends on the order, so all weights with this dimension are permuted."""
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def _reordered(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """The weight with its dimension of d_model in another order: of what a part gives, or is given."""
    if re.search(r"gamma|beta|w_o|w_2", name):
        return weight[order]
    return weight[:, order] if weight.dim() == 2 else weight


def _weights(translator: Translator) -> dict[str, Tensor]:
    config, model = translator.config.model, translator.model
    order = _marian_order(config.d_model)
    own = {name: tensor.detach().float().cpu() for name, tensor in model.state_dict().items()}
    weights: dict[str, Tensor] = {}
    # Marian divides by sqrt(head_dim); another temperature is folded into the queries.
    fold = math.sqrt(config.d_model // config.n_heads) / (config.attention_temperature or math.sqrt(config.d_k))
    for mine, weight in own.items():
        if _is_of_layers(mine):
            weight = weight.flatten(1) if weight.dim() == 3 else weight  # of a convolution with kernel size 1
            weights[_marian_name(mine)] = _reordered(mine, weight, order) * (fold if ".w_q." in mine else 1.0)
            if not config.attention_bias and "attention.w_" in mine:
                weights[_marian_name(mine).replace("weight", "bias")] = torch.zeros(len(weight))
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


_KEYS = {  # of our sections, and what the JSON files call them
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
        **{theirs: getattr(model, mine) for mine, theirs in _KEYS["model"].items()},
        "decoder_attention_heads": model.n_heads,
        "decoder_ffn_dim": model.ffn_dim,
        "activation_function": model.activation,
        "attention_dropout": dropout_rate(model.attention_dropout, model.dropout),
        "activation_dropout": dropout_rate(model.ffn_dropout, model.dropout),
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }
    search = {theirs: getattr(decoding, mine) for mine, theirs in _KEYS["decoding"].items()}
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


# Import --------------------------------------------------------------------------------------------------------------

_MAX_BYTES = 1 << 26  # that are read of a small file: several times those of the largest vocabulary
_LFS_POINTER = b"version https://git-lfs"
_NEVER = -100.0  # a logit beside which that of any other token is all
_CODE = re.compile(r">>([A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*)<<")  # with a language code as a config's
_POSITIONS = {f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}  # always the same sinusoids
# The defaults of `transformers`. Where there is no such file, config.json may have the keys.
_DROPOUTS: dict[str, object] = {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "generation_config.json": {"num_beams": 1, "length_penalty": 1.0, "no_repeat_ngram_size": 0},
    "tokenizer_config.json": {"source_lang": "", "target_lang": "", "separate_vocabs": False},
}
_Value = TypeVar("_Value")
_Values = Mapping[str, Any]  # by the keys of the JSON files


def import_marian(path: Path, run: RunDir, src_lang: str | None, tgt_lang: str | None, command: str) -> None:
    """Writes the run into its directory, which must be there and empty. Languages: by the folder where None; `tgt_lang`
    chooses among codes. Raises CheckpointError and UsageError."""
    keys = _DROPOUTS | _read_json(path / "config.json", object)
    for name, defaults in _DEFAULTS.items():
        own = _read_json(path / name, object) if (path / name).exists() else keys
        keys |= {key: own.get(key, default) for key, default in defaults.items()}
    if keys.get("model_type") != "marian":
        raise CheckpointError(f"{path / 'config.json'}: model_type is {keys.get('model_type')}, expected marian")
    src_ids = tgt_ids = _read_ids(path / "vocab.json", keys)
    if keys["separate_vocabs"]:
        tgt_ids = _read_ids(path / "target_vocab.json", keys)
    codes = {match[1]: number for piece, number in src_ids.items() if (match := _CODE.fullmatch(piece))}
    config = _imported_config(path, keys, list(codes), src_lang, tgt_lang)
    language = config.data.tgt_lang
    tags = {tag_of(language): codes.get(language, min(codes.values()))} if codes else {}  # a single one has any name
    tokenizer, src_rows, tgt_rows = _tokenizer(path, keys, src_ids, tgt_ids, tags)
    file, pickled = path / "model.safetensors", path / "pytorch_model.bin"
    if pickled.exists() and not file.exists():
        file = pickled
    weights = _read_weights(file, keys, config, tokenizer, len(src_ids), len(tgt_ids))
    changes: dict[str, Any] = {"algorithm": algorithm_of(tokenizer.models[0])}
    changes["vocab_size"] = min(max(tokenizer.tgt_vocab_size, 300), 256_000)  # what the key may be
    is_tied = torch.equal(weights["tgt_embeddings.token.weight"], weights["projection.weight"])
    network = config.model.model_copy(update={"tie_embeddings": "target" if is_tied else "none"})
    config = config.model_copy(update={"tokenizer": config.tokenizer.model_copy(update=changes), "model": network})
    weights["src_embeddings.token.weight"] = weights["src_embeddings.token.weight"][src_rows]
    for name in ("tgt_embeddings.token.weight", "projection.weight", "projection.bias"):
        weights[name] = weights[name][tgt_rows]
    if int(tgt_rows[BOS_ID]) in tgt_rows[[PAD_ID, UNK_ID, EOS_ID]]:  # the same token a second time
        weights["projection.bias"][BOS_ID] = _NEVER
    model = build_model(config, tokenizer)
    model.load_state_dict(weights)

    run.begin(config)
    run.manifest.product("tokenizer", {}, {}, lambda: run.save_tokenizer(tokenizer))
    content = {"model": model.state_dict(), "weights": "model", "progress": {"step": 0}, "config": config.model_dump()}
    save_checkpoint(run.checkpoint_file(0), {**content, "manifest_sha256": run.manifest.sha256})
    run.point("last", 0)
    run.point("best", 0)
    names = ("config.json", *_DEFAULTS, "vocab.json", "target_vocab.json", "source.spm", "target.spm", file.name)
    hashes = {name: sha256_of_file(path / name) for name in names if (path / name).is_file()}
    facts = {"command": command, "imported_from": str(path.resolve()), "sha256": hashes}
    record_start(run.provenance_file, n_threads=torch.get_num_threads(), **facts)


def _read(file: Path, n_bytes: int = _MAX_BYTES) -> bytes:
    """The beginning of a file. Raises CheckpointError for one that is missing or not fetched, RunDirError for no file."""
    try:
        refuse_special_file(file)
        with file.open("rb") as handle:
            content = handle.read(n_bytes)
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror}; it belongs to a Marian model") from None
    if content.startswith(_LFS_POINTER):
        raise CheckpointError(f"{file}: a pointer of Git LFS in place of the file; fetch it with git lfs pull")
    return content


def _read_json(file: Path, values: type[_Value]) -> dict[str, _Value]:
    """An object with such values; those that are null are left out."""
    content = _read(file)
    try:
        found = TypeAdapter(dict[str, values]).validate_json(content, strict=True)  # type: ignore[valid-type]
    except ValidationError:
        raise CheckpointError(f"{file}: damaged, or not a JSON object with such values; fetch it again") from None
    return {key: value for key, value in found.items() if value is not None}


def _read_ids(file: Path, keys: _Values) -> dict[str, int]:
    """The id of each piece. Raises CheckpointError unless they are 0, 1, 2 and so on, with those of config.json."""
    ids = _read_json(file, int)
    symbols = {"<unk>": ids.get("<unk>"), "<pad>": keys.get("pad_token_id"), "</s>": keys.get("eos_token_id")}
    for name, number in {**symbols, "": keys.get("decoder_start_token_id")}.items():
        if type(number) is not int or not 0 <= number < len(ids) or ids.get(name, number) != number:
            raise CheckpointError(f"{file}: expected {name or 'a first symbol'} with the id {number} of config.json")
    if sorted(ids.values()) != list(range(len(ids))) or len({*symbols.values()}) < 3 or "" in ids:
        raise CheckpointError(f"{file}: {len(ids)} pieces, expected one for each id from 0 to {len(ids) - 1}")
    return ids


def _imported_config(path: Path, keys: _Values, codes: list[str], src_lang: str | None, tgt_lang: str | None) -> Config:
    """Of the tokenizer and of the ties of its matrices config.json says nothing."""
    src = src_lang or keys["source_lang"]
    tgt = tgt_lang or (codes[0] if len(codes) == 1 else keys["target_lang"])
    if len(codes) > 1 and tgt not in codes:
        raise UsageError(f"{path} translates into {', '.join(codes)}; give one of these as --tgt-lang")
    for key, option, language in (("source_lang", "--src-lang", src), ("target_lang", "--tgt-lang", tgt)):
        if not language:
            raise UsageError(f"{path / 'tokenizer_config.json'}: no {key} in it; give {option}, a code such as en")
    problems, positions = list[str](), keys.get("max_position_embeddings")
    expected = {f"decoder_{key}": keys.get(f"encoder_{key}") for key in ("attention_heads", "ffn_dim")}
    problems += [f"{key} is {keys.get(key)}, expected {x}" for key, x in expected.items() if keys.get(key) != x]
    scale, init = ("embedding", "normal") if keys.get("scale_embedding") else ("none", "xavier")
    train = [f"unknown-source.{src}", f"unknown-target.{tgt}"]  # the folder does not name the training text
    max_length = max(1, min(positions - 1, 4096)) if isinstance(positions, int) else 1
    values: dict[str, dict[str, object]] = {
        name: {mine: keys.get(theirs) for mine, theirs in of_section.items()} for name, of_section in _KEYS.items()
    }
    values["data"] = {"src_lang": src, "tgt_lang": tgt, "train": train, "max_length": max_length}
    values["decoding"] |= {"length_normalization": "average"}  # score / length ** penalty, as transformers has it
    values["model"] |= {
        "norm": "post",
        "activation": str(keys.get("activation_function")).replace("silu", "swish"),
        "tie_embeddings": "none",
        "projection_bias": True,
        "embedding_scale": scale,
        "embedding_init": init,
    }
    try:
        config = Config.model_validate(values | {"tokenizer": {"joint": False}})
        problems += [problem for _, problem in config.contradictions()]
    except ValidationError as error:
        problems += explain_errors(error)
    if any(problem.startswith("data.") for problem in problems):
        raise UsageError(f"{problems[0]}; give --src-lang and --tgt-lang")
    if problems:
        raise CheckpointError(*(f"{path / 'config.json'}: {problem}" for problem in problems))
    return config


def _tokenizer(
    path: Path, keys: _Values, src_ids: dict[str, int], tgt_ids: dict[str, int], tags: dict[str, int]
) -> tuple[Tokenizer, Tensor, Tensor]:
    """Our tokenizer, and for each piece of its two vocabularies the row of Marian's matrices that it has. The source's has the
    pieces of `source.spm`; one that Marian's lacks has the row of `<unk>`. The target's has all of Marian's, so that the
    probabilities stay; what `target.spm` lacks is written, but never read. A code such as `>>fr<<` becomes our tag `<2fr>`."""
    # In the order of our ids. No source has a begin symbol, so any row will do there.
    pad, start, eos = keys["pad_token_id"], keys["decoder_start_token_id"], keys["eos_token_id"]
    src_symbols, tgt_symbols = [pad, src_ids["<unk>"], pad, eos], [pad, tgt_ids["<unk>"], start, eos]
    names = {piece: number for piece, number in tgt_ids.items() if number not in tgt_symbols}
    for name in RESERVED:  # a piece that has the name of one of ours gets another
        if name in names:
            names[f"{name}▁"] = names.pop(name)
    models = []
    for file, kept, added, kind in (("source.spm", None, tags, CONTROL), ("target.spm", names, names, UNUSED)):
        model = _read(path / file)
        try:
            models.append(with_our_symbols(model, kept, added, kind))
        except CheckpointError as error:
            raise CheckpointError(f"{path / file}: {error}") from None
    tokenizer, own = Tokenizer(models), len(RESERVED)
    src = [tags.get(piece, src_ids.get(piece, src_ids["<unk>"])) for piece in tokenizer.src_vocabulary()[own:]]
    tgt = [names[piece] for piece in tokenizer.tgt_vocabulary()[own:]]
    return tokenizer, torch.tensor(src_symbols + src), torch.tensor(tgt_symbols + tgt)


def _read_weights(
    file: Path, keys: _Values, config: Config, tokenizer: Tokenizer, n_src: int, n_tgt: int
) -> dict[str, Tensor]:
    """By our names, dimensions in our order; embeddings and projection with Marian's rows. Raises CheckpointError."""
    _read(file, len(_LFS_POINTER))
    found = load_foreign_weights(file)
    for name, weight in found.items():
        if type(weight) is Tensor and weight.is_contiguous() and weight.dtype in (torch.float16, torch.bfloat16):
            found[name] = weight.float()
    wanted = {
        name: tuple(w.shape) for name, w in meta_model(config, tokenizer).state_dict().items() if _is_of_layers(name)
    }
    expected = {_marian_name(name): shape for name, shape in wanted.items()}
    # Matrices that are one and the same have one name in the file, or each its own.
    shared, src, tgt = (f"model.{role}.weight" for role in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"))
    projection, bias = "lm_head.weight", "final_logits_bias"
    is_shared, is_tied = keys.get("share_encoder_decoder_embeddings", True), keys.get("tie_word_embeddings", True)
    one = {tgt, *((shared, src) if is_shared else ()), *((projection,) if is_tied else ())}
    chosen = {
        mine: next((name for name in (own, *sorted(one if own in one else ())) if name in found), own)
        for mine, own in (("src_embeddings.token", src), ("tgt_embeddings.token", tgt), ("projection", projection))
    }
    rows, width = {shared: n_src, src: n_src, tgt: n_tgt, projection: n_tgt}, config.model.d_model
    sizes = {name: (n, width) for name, n in rows.items()} | {bias: (1, n_tgt)}
    expected |= {name: size for name, size in sizes.items() if name in found or name in chosen.values()}
    for name in sorted((expected.keys() | found.keys()) - _POSITIONS, key=str):
        shape = shape_of(found[name]) if name in found else "missing"
        if shape != expected.get(name):
            right = f"expected {expected.get(name, 'no such weight')} by config.json and the vocabulary"
            raise CheckpointError(f"{file}: {str(name)[:80]} is {shape}, {right}")
        if not found[name].isfinite().all():
            raise CheckpointError(f"{file}: {name} has values that are not finite; fetch it again")
    order = _marian_order(width).argsort()
    own = {mine: _reordered(mine, found[_marian_name(mine)], order) for mine in wanted}
    own |= {f"{mine}.weight": found[theirs][:, order] for mine, theirs in chosen.items()}
    own["projection.bias"] = found[bias][0] if bias in found else torch.zeros(n_tgt)
    return own
