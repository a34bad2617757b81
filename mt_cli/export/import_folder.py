"""Reads the files of a Hugging Face Marian folder, and refuses one that is not whole or that no run can hold."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from mt_cli.config import MAX_HEADS
from mt_cli.config_file import explain_errors
from mt_cli.errors import CheckpointError
from mt_cli.files import refuse_special_file
from mt_cli.run.checkpoint import load_foreign_weights

_MAX_JSON_BYTES, _MAX_SPM_BYTES = 1 << 24, 1 << 26  # several times those of the largest vocabulary
_LFS_POINTER = b"version https://git-lfs"
_CODE = re.compile(r">>([A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*)<<")  # with a language code as a config's


class Architecture(BaseModel):
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

    @property
    def tgt_vocab_size(self) -> int:
        return self.decoder_vocab_size or self.vocab_size


class SearchKeys(BaseModel):
    """The keys of `generation_config.json` that say how translations are searched for."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    num_beams: int = Field(1, ge=1, le=1000)
    length_penalty: float = Field(1.0, ge=0, le=10)
    no_repeat_ngram_size: int = Field(0, ge=0, le=100)


class TokenizerKeys(BaseModel):
    """The keys of `tokenizer_config.json` that say what is translated, and whether each language has its own pieces."""

    model_config = ConfigDict(strict=True, frozen=True)

    source_lang: str = ""
    target_lang: str = ""
    separate_vocabs: bool = False


def _not_fetched(file: Path) -> CheckpointError:
    return CheckpointError(f"{file}: a pointer of Git LFS in place of the file; fetch it with git lfs pull")


def _read(file: Path, max_bytes: int) -> bytes:
    refuse_special_file(file)
    try:
        with file.open("rb") as handle:
            content = handle.read(max_bytes + 1)
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror}; it belongs to a Marian model") from None
    if content.startswith(_LFS_POINTER):
        raise _not_fetched(file)
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


def read_architecture(folder: Path) -> Architecture:
    """Raises CheckpointError for a network that no run can hold."""
    file = folder / "config.json"
    keys = _read_json(file)
    if keys.get("model_type") == "pegasus":
        raise CheckpointError(
            f"{file}: model_type is pegasus, as mt export writes a run with model.norm: pre, expected marian; use the run that"
            " it came from"
        )
    a = _checked(Architecture, file, keys)
    if a.d_model % 2 or a.d_model % a.encoder_attention_heads:
        heads = a.encoder_attention_heads
        raise CheckpointError(f"{file}: d_model {a.d_model} is odd or no multiple of encoder_attention_heads {heads}")
    for one, other, name in (
        (a.encoder_attention_heads, a.decoder_attention_heads, "decoder_attention_heads"),
        (a.encoder_ffn_dim, a.decoder_ffn_dim, "decoder_ffn_dim"),
    ):
        if one != other:
            raise CheckpointError(f"{file}: {name} is {other}, expected {one} as in the encoder; no run can hold both")
    return a


class Vocabularies(NamedTuple):
    """The ids of all pieces: one mapping twice, or one for each side."""

    src: dict[str, int]
    tgt: dict[str, int]

    @property
    def codes(self) -> dict[str, int]:
        """The language codes that stand before a source to say what to translate into, without their brackets."""
        found = {_CODE.fullmatch(piece): number for piece, number in self.src.items()}
        return {code[1]: number for code, number in found.items() if code}


def read_vocabularies(folder: Path, architecture: Architecture) -> Vocabularies:
    """Raises CheckpointError where sizes, ids and symbols do not fit each other."""
    a, config = architecture, folder / "config.json"
    is_separate = read_tokenizer_keys(folder).separate_vocabs
    if a.tgt_vocab_size != a.vocab_size and (a.share_encoder_decoder_embeddings or not is_separate):
        raise CheckpointError(
            f"{config}: decoder_vocab_size is {a.tgt_vocab_size}, expected {a.vocab_size} as in the encoder; only with"
            " separate_vocabs and without share_encoder_decoder_embeddings they differ"
        )
    src = _read_ids(folder / "vocab.json", a.vocab_size, "vocab_size")
    tgt = _read_ids(folder / "target_vocab.json", a.tgt_vocab_size, "decoder_vocab_size") if is_separate else src
    for ids, size, keys in (
        (src, a.vocab_size, ("pad_token_id", "eos_token_id")),
        (tgt, a.tgt_vocab_size, ("pad_token_id", "eos_token_id", "decoder_start_token_id")),
    ):
        for key in keys:
            if getattr(a, key) >= size:
                raise CheckpointError(f"{config}: {key} is not below the {size} pieces of the vocabulary")
        if len({ids["<unk>"], a.pad_token_id, a.eos_token_id}) < 3:
            raise CheckpointError(f"{config}: pad_token_id, eos_token_id and <unk> are not three tokens")
        for key, piece in (("pad_token_id", "<pad>"), ("eos_token_id", "</s>")):
            if ids.get(piece, getattr(a, key)) != getattr(a, key):
                raise CheckpointError(
                    f"{config}: {key} is {getattr(a, key)}, the id of {piece} is {ids[piece]}; fetch it again"
                )
    _refuse_other_ids(folder, a)
    return Vocabularies(src, tgt)


def _refuse_other_ids(folder: Path, architecture: Architecture) -> None:
    """Raises CheckpointError where the search would begin or end with other tokens than the network has learnt."""
    file = folder / "generation_config.json"
    found = _read_json(file, is_optional=True)
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        own = getattr(architecture, key)
        if key in found and found[key] not in (own, [own]):
            raise CheckpointError(f"{file}: {key} is not {own}, as in config.json; fetch both again")


def _read_ids(file: Path, size: int, key: str) -> dict[str, int]:
    """The ids of all pieces. Raises CheckpointError unless they are 0 to size - 1, each once. `key` is that of the size."""
    ids = _read_json(file)
    for piece, number in ids.items():
        if type(number) is not int or not 0 <= number < size:
            raise CheckpointError(
                f"{file}: {piece[:40]!a} has no id from 0 to {size - 1}, as {key} in config.json asks"
            )
        if not piece or any("\ud800" <= character <= "\udfff" for character in piece):
            raise CheckpointError(f"{file}: {piece[:40]!a} is no text; fetch it again")
    if len(ids) != size or len(set(ids.values())) != size:
        n_ids = len(set(ids.values()))
        raise CheckpointError(f"{file}: {len(ids)} pieces with {n_ids} ids, {key} in config.json is {size}")
    if "<unk>" not in ids:
        raise CheckpointError(f"{file}: no piece '<unk>'; it belongs to a Marian model")
    return ids


def read_tokenizer_keys(folder: Path) -> TokenizerKeys:
    file = folder / "tokenizer_config.json"
    return _checked(TokenizerKeys, file, _read_json(file, is_optional=True))


def read_search_keys(folder: Path) -> SearchKeys:
    """Folders of older versions of transformers have the keys of the search in `config.json`, which newer ones do not read
    where there is a file for them."""
    file = folder / "generation_config.json"
    file = file if file.exists() else folder / "config.json"
    return _checked(SearchKeys, file, _read_json(file))


def read_pieces(file: Path) -> bytes:
    """A sentencepiece model, as it is."""
    return _read(file, _MAX_SPM_BYTES)


def file_of_weights(folder: Path) -> Path:
    names = "model.safetensors", "pytorch_model.bin"
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise CheckpointError(f"{folder}: no {' or '.join(names)}; a Marian model has its weights in one of them")


def sha256_of(folder: Path, weights: Path) -> dict[str, str]:
    hashes = {}
    for name in ("config.json", "generation_config.json", "tokenizer_config.json", "vocab.json", "target_vocab.json", "source.spm", "target.spm", weights.name):  # fmt: skip
        if (folder / name).is_file():
            with (folder / name).open("rb") as handle:
                hashes[name] = hashlib.file_digest(handle, "sha256").hexdigest()
    return hashes


class Weights:
    """The weights of a file. Whoever takes one says its shape; in the end none may be left."""

    def __init__(self, file: Path):
        refuse_special_file(file)
        with contextlib.suppress(OSError), file.open("rb") as handle:  # reading it all tells what is wrong
            if handle.read(len(_LFS_POINTER)) == _LFS_POINTER:
                raise _not_fetched(file)
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
