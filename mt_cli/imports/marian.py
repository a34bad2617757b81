"""Makes a run of a Hugging Face Marian folder, the form in which OPUS-MT publishes its translators: the way back of
`export/marian.py`, which knows the names and the order of the weights.

A Marian model has one vocabulary, `vocab.json`, that the pieces of its two sentencepiece models share. The run has a
vocabulary for each language. That of the source has the pieces of `source.spm`; one that `vocab.json` lacks begins with
the row of `<unk>`, as which Marian reads it. That of the target has all of `vocab.json`, so that the probabilities stay
what they were; what `target.spm` lacks may be written, but is never read. Marian begins a translation with a symbol that
is often `<pad>`; its row becomes that of our `<s>`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from mt_cli.checkpoint import build_model, load_foreign_weights, meta_model, save_checkpoint
from mt_cli.config import MAX_HEADS, Config, DataConfig, DecodingConfig, ModelConfig, TokenizerConfig, contradictions
from mt_cli.config_file import explain_errors
from mt_cli.errors import CheckpointError, UsageError
from mt_cli.export.marian import marian_order, reordered, weight_names
from mt_cli.files import refuse_special_file
from mt_cli.model.positions import sinusoid_table
from mt_cli.model.transformer import Transformer
from mt_cli.provenance import record_start
from mt_cli.run_dir import RunDir
from mt_cli.text.piece_model import SYMBOLS, UNUSED, WHOLE, algorithm_of, with_our_symbols
from mt_cli.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer

_MAX_JSON_BYTES, _MAX_SPM_BYTES = 1 << 24, 1 << 26  # several times those of the largest vocabulary
_NEVER = -100.0  # a logit beside which that of any other token is all
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}  # their names and ours


class _Architecture(BaseModel):
    """The keys of `config.json` that say what the network computes, with the defaults of `transformers`."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    model_type: Literal["marian"]
    vocab_size: int = Field(58101, ge=8, le=1_000_000)
    decoder_vocab_size: int | None = None
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    d_model: int = Field(1024, ge=2, le=8192)
    encoder_layers: int = Field(12, ge=1, le=64)
    decoder_layers: int = Field(12, ge=1, le=64)
    encoder_attention_heads: int = Field(16, ge=1, le=MAX_HEADS)
    decoder_attention_heads: int = 16
    encoder_ffn_dim: int = Field(4096, ge=1, le=65536)
    decoder_ffn_dim: int = 4096
    activation_function: Literal["relu", "swish", "silu", "gelu"] = "gelu"
    scale_embedding: bool = False
    max_position_embeddings: int = Field(1024, ge=8, le=65536)
    dropout: float = Field(0.1, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    activation_dropout: float = Field(0.0, ge=0, lt=1)
    pad_token_id: int = Field(58100, ge=0)
    eos_token_id: int = Field(0, ge=0)
    decoder_start_token_id: int = Field(58100, ge=0)


class _Search(BaseModel):
    """The keys of `generation_config.json` that say how translations are searched for."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    num_beams: int = Field(1, ge=1, le=1000)
    length_penalty: float = Field(1.0, ge=0, le=10)
    no_repeat_ngram_size: int = Field(0, ge=0, le=100)


class _Languages(BaseModel):
    """The keys of `tokenizer_config.json` that say what is translated."""

    model_config = ConfigDict(strict=True, frozen=True)

    source_lang: str = ""
    target_lang: str = ""
    separate_vocabs: Literal[False] = False


def import_marian(folder: Path, run: RunDir, src_lang: str | None, tgt_lang: str | None, command: str) -> None:
    """Writes the run into its directory, which must exist and be empty. The languages are those of the folder, where they
    are None.

    Raises CheckpointError for a folder that is not whole or not Marian's, UsageError where the languages are not known or
    wrong.
    """
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        raise CheckpointError(f"{folder}: {error.strerror}; give a folder with the files of a Marian model") from None
    architecture = _checked(_Architecture, folder / "config.json", own := _read_json(folder / "config.json"))
    _refuse_unsupported(architecture, folder / "config.json")
    ids = _read_ids(folder / "vocab.json", architecture)
    # In the order of our ids.
    symbols = [architecture.pad_token_id, ids["<unk>"], architecture.decoder_start_token_id, architecture.eos_token_id]
    tokenizer, rows = _tokenizer(folder, ids, symbols)
    search, data = _search(folder, own), _data(folder, architecture, src_lang, tgt_lang)
    weights = _Weights(_file_of_weights(folder))
    matrices = _matrices(weights, architecture)
    config = _config(folder, architecture, data, search, tokenizer, matrices.is_tied)
    model = _network(weights, config, tokenizer, matrices, rows)

    run.begin(config)
    run.text.save_tokenizer(tokenizer)
    run.make_checkpoints_folder()
    content = {"model": model.state_dict(), "weights": "model", "progress": {"step": 0}, "config": config.model_dump()}
    hashes = {"data_sha256": {}, "tokenizer_sha256": tokenizer.sha256}
    save_checkpoint(run.checkpoint_file(0), {**content, **hashes})
    run.point("last", 0)
    run.point("best", 0)
    record_start(run, command=command, imported_from=str(folder.resolve()), sha256=_sha256_of(folder, weights.file))


# The files of the folder ----------------------------------------------------------------------------------------------


def _read(file: Path, max_bytes: int) -> bytes:
    refuse_special_file(file)
    try:
        with file.open("rb") as handle:
            content = handle.read(max_bytes + 1)
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror}; it belongs to a Marian model") from None
    if len(content) > max_bytes:
        raise CheckpointError(f"{file}: more than {max_bytes:,} bytes, which no Marian model has there")
    return content


def _read_json(file: Path, is_optional: bool = False) -> dict[str, Any]:
    """The keys with a value that is not null."""
    if is_optional and not file.exists():
        return {}
    content = _read(file, _MAX_JSON_BYTES)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:100]
        raise CheckpointError(f"{file}: damaged, not JSON ({reason}); fetch it again") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{file}: expected keys with values, found {type(found).__name__}; fetch it again")
    return {key: value for key, value in found.items() if value is not None}


_Keys = TypeVar("_Keys", bound=BaseModel)


def _checked(keys: type[_Keys], file: Path, found: Mapping[str, Any]) -> _Keys:
    try:
        return keys.model_validate({key: found[key] for key in keys.model_fields if key in found})
    except ValidationError as error:
        section = "folder"  # which the lines begin with
        lines = [line.removeprefix(f"{section}.") for line in explain_errors(error, section)]
        raise CheckpointError(*(f"{file}: {line}" for line in lines)) from None
    except RecursionError:
        raise CheckpointError(f"{file}: nested too deeply; fetch it again") from None


def _refuse_unsupported(architecture: _Architecture, file: Path) -> None:
    a = architecture
    if not a.share_encoder_decoder_embeddings:
        raise CheckpointError(
            f"{file}: share_encoder_decoder_embeddings is false, expected true; only such are imported"
        )
    if a.d_model % 2 or a.d_model % a.encoder_attention_heads:
        heads = a.encoder_attention_heads
        raise CheckpointError(f"{file}: d_model {a.d_model} is odd or no multiple of encoder_attention_heads {heads}")
    for one, other, name in (
        (a.encoder_attention_heads, a.decoder_attention_heads, "decoder_attention_heads"),
        (a.encoder_ffn_dim, a.decoder_ffn_dim, "decoder_ffn_dim"),
        (a.vocab_size, a.decoder_vocab_size or a.vocab_size, "decoder_vocab_size"),
    ):
        if one != other:
            raise CheckpointError(f"{file}: {name} is {other}, expected {one} as in the encoder; no run can hold both")


def _read_ids(file: Path, architecture: _Architecture) -> dict[str, int]:
    """The ids of all pieces. Raises CheckpointError unless they are 0 to vocab_size - 1, each once."""
    ids = _read_json(file)
    size = architecture.vocab_size
    for piece, number in ids.items():
        if type(number) is not int or not 0 <= number < size:
            raise CheckpointError(
                f"{file}: {piece[:40]!a} has no id from 0 to {size - 1}, as vocab_size in config.json asks"
            )
        if not piece or any("\ud800" <= character <= "\udfff" for character in piece):
            raise CheckpointError(f"{file}: {piece[:40]!a} is no text; fetch it again")
    if len(ids) != size or len(set(ids.values())) != size:
        n_ids = len(set(ids.values()))
        raise CheckpointError(f"{file}: {len(ids)} pieces with {n_ids} ids, vocab_size in config.json is {size}")
    if "<unk>" not in ids:
        raise CheckpointError(f"{file}: no piece '<unk>'; it belongs to a Marian model")
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        if getattr(architecture, key) >= size:
            raise CheckpointError(f"{file.parent / 'config.json'}: {key} is not below vocab_size {size}")
    if len({ids["<unk>"], architecture.pad_token_id, architecture.eos_token_id}) < 3:
        raise CheckpointError(
            f"{file.parent / 'config.json'}: pad_token_id, eos_token_id and <unk> are not three tokens"
        )
    return ids


def _file_of_weights(folder: Path) -> Path:
    names = "model.safetensors", "pytorch_model.bin"
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise CheckpointError(f"{folder}: no {' or '.join(names)}; a Marian model has its weights in one of them")


def _sha256_of(folder: Path, weights: Path) -> dict[str, str]:
    hashes = {}
    for name in ("config.json", "generation_config.json", "tokenizer_config.json", "vocab.json", "source.spm", "target.spm", weights.name):  # fmt: skip
        if (folder / name).is_file():
            with (folder / name).open("rb") as handle:
                hashes[name] = hashlib.file_digest(handle, "sha256").hexdigest()
    return hashes


# What becomes of them -------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """For each piece of our vocabularies, the row of Marian's matrices that it has."""

    src: Tensor
    tgt: Tensor


def _tokenizer(folder: Path, ids: Mapping[str, int], symbols: list[int]) -> tuple[Tokenizer, _Rows]:
    # Marian takes a language code off the text and puts it before the pieces; ours stands where the first space would.
    codes = {f"▁{piece}": number for piece, number in ids.items() if piece.startswith(">>") and piece.endswith("<<")}
    names = {piece: number for piece, number in ids.items() if number not in symbols}
    for name in SYMBOLS:  # a piece that has the name of one of ours gets another
        if name in names:
            names[f"{name}▁"] = names.pop(name)
    models = []
    for side in ("source", "target"):
        file = folder / f"{side}.spm"
        model = _read(file, _MAX_SPM_BYTES)
        try:
            if side == "source":
                adapted = with_our_symbols(model, kept=None, added=codes, kind=WHOLE)
            else:
                adapted = with_our_symbols(model, kept=names, added=names, kind=UNUSED)
            Tokenizer([adapted])
        except CheckpointError as error:
            raise CheckpointError(f"{file}: {error}") from None
        models.append(adapted)
    tokenizer = Tokenizer(models)
    own = len(SYMBOLS)
    src = [codes.get(piece, ids.get(piece, ids["<unk>"])) for piece in tokenizer.src_vocabulary()[own:]]
    tgt = [names[piece] for piece in tokenizer.tgt_vocabulary()[own:]]
    return tokenizer, _Rows(torch.tensor(symbols + src), torch.tensor(symbols + tgt))


def _search(folder: Path, architecture: Mapping[str, Any]) -> DecodingConfig:
    """transformers divides the score of a beam by length ** penalty, as `average` does. Folders of its older versions have
    the keys of the search in `config.json`, which newer ones do not read where there is a file for them."""
    file = folder / "generation_config.json"
    found = _checked(_Search, file, _read_json(file) if file.exists() else architecture)
    return DecodingConfig(
        beam_size=found.num_beams,
        length_normalization="average",
        length_penalty=found.length_penalty,
        no_repeat_ngram=found.no_repeat_ngram_size,
    )


def _data(folder: Path, architecture: _Architecture, src_lang: str | None, tgt_lang: str | None) -> DataConfig:
    file = folder / "tokenizer_config.json"
    found = _checked(_Languages, file, _read_json(file, is_optional=True))
    src, tgt = src_lang or found.source_lang, tgt_lang or found.target_lang
    for key, option, language in (("source_lang", "--src-lang", src), ("target_lang", "--tgt-lang", tgt)):
        if not language:
            raise UsageError(f"{file}: no {key} in it; give {option}, a language code such as en")
    train = [f"unknown.{src}", f"unknown.{tgt}"]  # the folder does not say what the model was trained on
    max_length = min(architecture.max_position_embeddings - 1, 4096)
    try:
        return DataConfig(src_lang=src, tgt_lang=tgt, train=train, max_length=max_length)
    except ValidationError as error:
        raise UsageError(
            *(f"{line}; give --src-lang and --tgt-lang" for line in explain_errors(error, "data"))
        ) from None


def _config(
    folder: Path,
    architecture: _Architecture,
    data: DataConfig,
    search: DecodingConfig,
    tokenizer: Tokenizer,
    is_tied: bool,
) -> Config:
    a = architecture
    model = {
        "d_model": a.d_model,
        "ffn_dim": a.encoder_ffn_dim,
        "n_heads": a.encoder_attention_heads,
        "n_encoder_layers": a.encoder_layers,
        "n_decoder_layers": a.decoder_layers,
        "dropout": a.dropout,
        "attention_dropout": a.attention_dropout,
        "ffn_dropout": a.activation_dropout,
        "norm": "post",
        "activation": _ACTIVATIONS[a.activation_function],
        "tie_embeddings": "target" if is_tied else "none",
        "projection_bias": True,
        "embedding_scale": "embedding" if a.scale_embedding else "none",
        "embedding_init": "normal" if a.scale_embedding else "xavier",
        "max_positions": a.max_position_embeddings,
    }
    n_pieces = min(max(tokenizer.tgt_vocab_size, 300), 256_000)  # what the key may be; the tokenizer is as it is
    config = Config(
        data=data,
        tokenizer=TokenizerConfig(algorithm=algorithm_of(tokenizer.models[0]), joint=False, vocab_size=n_pieces),
        model=ModelConfig.model_validate(model),
        decoding=search,
    )
    for keys, problem in contradictions(config):
        if keys[0][0] == "data":
            raise UsageError(f"{problem}; give --src-lang and --tgt-lang")
        raise CheckpointError(f"{folder / 'config.json'}: {problem}")
    return config


class _Weights:
    """The weights of a file. Whoever takes one says its shape; in the end none may be left."""

    def __init__(self, file: Path):
        self.file, self._found = file, load_foreign_weights(file)

    def has(self, name: str) -> bool:
        return name in self._found

    def take(self, name: str, *shape: int) -> Tensor:
        """Raises CheckpointError when it is not there, has another shape, or is not finite."""
        weight = self._found.pop(name, None)
        if not isinstance(weight, Tensor) or not weight.is_floating_point() or weight.layout != torch.strided:
            raise CheckpointError(f"{self.file}: no {name} in it, config.json asks for one")
        if weight.shape != torch.Size(shape):
            raise CheckpointError(f"{self.file}: {name} is {tuple(weight.shape)}, config.json asks for {shape}")
        if weight.nbytes > weight.untyped_storage().nbytes():  # one stored number may claim to be any shape
            raise CheckpointError(f"{self.file}: {name} is not stored in full; fetch it again")
        weight = weight.float()  # first, as a large float64 becomes infinite
        if not bool(weight.isfinite().all()):
            raise CheckpointError(f"{self.file}: {name} has values that are not finite; fetch it again")
        return weight

    def refuse_rest(self) -> None:
        for name in sorted(map(str, self._found)):
            raise CheckpointError(f"{self.file}: {name[:80]} has no place in the model that config.json describes")


class _Matrices(NamedTuple):
    """A row for each piece of `vocab.json`, the dimensions in our order."""

    src: Tensor
    tgt: Tensor
    projection: Tensor
    bias: Tensor

    @property
    def is_tied(self) -> bool:
        return torch.equal(self.tgt, self.projection)


def _matrices(weights: _Weights, architecture: _Architecture) -> _Matrices:
    """Matrices that are one and the same have one name in the file, or each its own."""
    size, order = architecture.vocab_size, marian_order(architecture.d_model).argsort()
    names = {role: f"model.{role}.weight" for role in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")}
    shared, src, tgt = names.values()
    names["projection"] = projection = "lm_head.weight"
    found = {
        name: weights.take(name, size, architecture.d_model)[:, order] for name in names.values() if weights.has(name)
    }
    if projection not in found and not architecture.tie_word_embeddings:
        weights.take(projection, size, architecture.d_model)  # which refuses the file
    if not found:
        weights.take(shared, size, architecture.d_model)
    usual = found.get(shared, next(iter(found.values())))
    bias = weights.take("final_logits_bias", 1, size)[0] if weights.has("final_logits_bias") else torch.zeros(size)
    return _Matrices(found.get(src, usual), found.get(tgt, usual), found.get(projection, usual), bias)


def _network(weights: _Weights, config: Config, tokenizer: Tokenizer, matrices: _Matrices, rows: _Rows) -> Transformer:
    order = marian_order(config.model.d_model)
    shapes = {name: weight.shape for name, weight in meta_model(config, tokenizer).state_dict().items()}
    own = {
        mine: reordered(weights.take(theirs, *shapes[mine]), dimensions, order.argsort())
        for mine, theirs, dimensions in weight_names(config.model)
    }
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"):
        if weights.has(name):
            table = sinusoid_table(config.model.max_positions, config.model.d_model)[1:, order]
            if not torch.allclose(weights.take(name, *table.shape), table, atol=1e-3):
                raise CheckpointError(f"{weights.file}: {name} is no table of sinusoids, which Marian's positions are")
    weights.refuse_rest()
    own["src_embeddings.token.weight"] = matrices.src[rows.src]
    own["tgt_embeddings.token.weight"] = matrices.tgt[rows.tgt]
    own["projection.weight"], own["projection.bias"] = matrices.projection[rows.tgt], matrices.bias[rows.tgt]
    if int(rows.tgt[BOS_ID]) in rows.tgt[[PAD_ID, UNK_ID, EOS_ID]]:  # the same token a second time
        own["projection.bias"][BOS_ID] = _NEVER
    model = build_model(config, tokenizer)
    model.load_state_dict(own)
    return model
