"""Makes a run of a Hugging Face Marian folder, the form in which OPUS-MT publishes its translators; `export/marian.py`
knows the names and the order of the weights.

Most Marian models have one vocabulary, `vocab.json`, that the pieces of their two sentencepiece models share. The run
has a vocabulary for each language. That of the source has the pieces of `source.spm`; one that `vocab.json` lacks begins
with the row of `<unk>`, since Marian reads it as `<unk>`. That of the target has all of `vocab.json`, so that the
probabilities stay what they were; what `target.spm` lacks may be written, but is never read. Marian begins a translation
with a symbol that is often `<pad>`; its row becomes that of our `<s>`. A language code such as `>>fr<<` becomes our tag
`<2fr>`.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, model_validator
from torch import Tensor

from mt_cli.config import (
    MAX_HEADS,
    Config,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    SeveralPairs,
    TokenizerConfig,
    meant_language,
)
from mt_cli.config_file import explain_errors
from mt_cli.data.piece_model import SYMBOLS, algorithm_of, with_our_symbols
from mt_cli.data.tokenizer import BOS_ID, CONTROL, EOS_ID, PAD_ID, UNK_ID, UNUSED, Tokenizer, processor_of, tag_of
from mt_cli.errors import CheckpointError, UsageError
from mt_cli.export.marian import marian_order, reordered, weight_names
from mt_cli.files import refuse_special_file
from mt_cli.model.positions import sinusoid_table
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import build_model, load_foreign_weights, meta_model, save_checkpoint
from mt_cli.run.provenance import record_start
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

_MAX_JSON_BYTES, _MAX_SPM_BYTES = 1 << 24, 1 << 26  # several times those of the largest vocabulary
_LFS_POINTER = b"version https://git-lfs"
_NEVER = -100.0  # a logit beside which that of any other token is all
_LEAST_KNOWN = 0.5  # share of the pieces of a sentencepiece model; of a model's own all but a few are
_CODE = re.compile(r">>([A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*)<<")  # with a language code as a config's


# The files -----------------------------------------------------------------------------------------------------------


class _Keys(BaseModel):
    """Keys of a JSON file that matter here; the others and those that are null are left out."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _given(cls, keys: Any) -> Any:
        return {key: value for key, value in keys.items() if value is not None} if isinstance(keys, dict) else keys


class _Network(_Keys):
    """What the network computes: `config.json`, with the defaults of `transformers`."""

    model_type: Literal["marian"]
    vocab_size: int = Field(58101, ge=8, le=1_000_000)
    decoder_vocab_size: int = Field(0, ge=0, le=1_000_000)  # 0: as the encoder's
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    d_model: int = Field(1024, ge=2, le=8192, multiple_of=2)
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


class _Search(_Keys):
    """How translations are searched for: `generation_config.json`."""

    num_beams: int = Field(1, ge=1, le=1000)
    length_penalty: float = Field(1.0, ge=0, le=10)
    no_repeat_ngram_size: int = Field(0, ge=0, le=100)
    pad_token_id: Any = None
    eos_token_id: Any = None
    decoder_start_token_id: Any = None


class _Languages(_Keys):
    """What is translated, and whether each language has its own pieces: `tokenizer_config.json`."""

    source_lang: str = ""
    target_lang: str = ""
    separate_vocabs: bool = False


class _Ids(RootModel[dict[str, Any]]):
    """The id of each piece: `vocab.json`. The ids are checked by `_Folder`: pydantic would list each that is wrong."""


_File = TypeVar("_File", bound=BaseModel)


def _read_json(content: type[_File], file: Path, is_optional: bool = False) -> _File:
    """Raises CheckpointError for a file that is missing, damaged or not as `content` describes it."""
    try:
        return content.model_validate_json(b"{}" if is_optional and not file.exists() else _read(file, _MAX_JSON_BYTES))
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            raise CheckpointError(f"{file}: damaged, not JSON; fetch it again") from None
        lines = (line.removeprefix("file").lstrip(".: ") for line in explain_errors(error, "file")[:10])
        raise CheckpointError(*(f"{file}: {line}" for line in lines)) from None


def _read(file: Path, max_bytes: int) -> bytes:
    _refuse_unusable(file)
    if file.stat().st_size > max_bytes:
        raise CheckpointError(f"{file}: more than {max_bytes:,} bytes, which no Marian model has there")
    return file.read_bytes()


def _refuse_unusable(file: Path) -> None:
    """Raises CheckpointError for a file that is missing or not fetched, RunDirError for a folder, a pipe or a device."""
    try:
        refuse_special_file(file)
        with file.open("rb") as handle:
            is_pointer = handle.read(len(_LFS_POINTER)) == _LFS_POINTER
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror}; it belongs to a Marian model") from None
    if is_pointer:
        raise CheckpointError(f"{file}: a pointer of Git LFS in place of the file; fetch it with git lfs pull")


class _Weights:
    """The weights of a folder. Whoever takes one gives its shape; in the end none may be left."""

    def __init__(self, folder: Path):
        files = folder / "model.safetensors", folder / "pytorch_model.bin"
        self.file = next((file for file in files if file.exists()), files[0])
        _refuse_unusable(self.file)
        self._found = load_foreign_weights(self.file)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def take(self, name: str, *shape: int) -> Tensor:
        """Raises CheckpointError when it is missing, has another shape, or is not finite."""
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


@dataclass(frozen=True)
class _Folder:
    """The small files of a Marian folder, which fit each other."""

    path: Path
    network: _Network
    search: _Search
    languages: _Languages
    src_ids: dict[str, int]
    tgt_ids: dict[str, int]  # the same, or those of a vocabulary of its own

    @classmethod
    def read(cls, path: Path) -> _Folder:
        """Raises CheckpointError for a folder that is not whole or that no run can hold."""
        network = _read_json(_Network, path / "config.json")
        # transformers reads the search from config.json only where there is no file of its own.
        search_file = "generation_config.json" if (path / "generation_config.json").exists() else "config.json"
        search = _read_json(_Search, path / search_file)
        languages = _read_json(_Languages, path / "tokenizer_config.json", is_optional=True)
        src = tgt = _read_json(_Ids, path / "vocab.json").root
        if languages.separate_vocabs:
            tgt = _read_json(_Ids, path / "target_vocab.json").root
        folder = cls(path, network, search, languages, src, tgt)
        for file, problem in folder._contradictions(search_file):
            raise CheckpointError(f"{path / file}: {problem}")
        return folder

    def _contradictions(self, search_file: str) -> Iterator[tuple[str, str]]:
        """Where two values do not fit each other: the file, and what is wrong."""
        a, vocabularies = self.network, [("vocab.json", self.src_ids, self.network.vocab_size)]
        if self.tgt_ids is not self.src_ids or a.tgt_vocab_size != a.vocab_size:
            vocabularies += [("target_vocab.json", self.tgt_ids, a.tgt_vocab_size)]
        for file, ids, size in vocabularies:
            are_numbers = all(type(number) is int for number in ids.values())
            if not are_numbers or sorted(ids.values()) != list(range(size)) or "<unk>" not in ids or "" in ids:
                yield (
                    file,
                    f"{len(ids)} pieces, expected the ids 0 to {size - 1} as config.json says, and <unk> among them",
                )
                continue
            for key, symbol in (("pad_token_id", "<pad>"), ("eos_token_id", "</s>"), ("decoder_start_token_id", "")):
                own = getattr(a, key)
                if own >= size or ids.get(symbol, own) != own:
                    yield "config.json", f"{key} is {own}, which is not the id of {symbol or 'a piece'} in {file}"
                if getattr(self.search, key) not in (None, own, [own]):
                    yield search_file, f"{key} is not {own}, as in config.json; fetch both again"
            if len({ids["<unk>"], a.pad_token_id, a.eos_token_id}) < 3:
                yield "config.json", "pad_token_id, eos_token_id and <unk> are not three pieces"
        if a.d_model % a.encoder_attention_heads:
            yield "config.json", f"d_model {a.d_model} is no multiple of encoder_attention_heads"
        for key in ("attention_heads", "ffn_dim"):
            encoder, decoder = getattr(a, f"encoder_{key}"), getattr(a, f"decoder_{key}")
            if encoder != decoder:
                yield (
                    "config.json",
                    f"decoder_{key} is {decoder}, expected {encoder} as in the encoder; no run can hold both",
                )
        if self.search.num_beams >= len(self.tgt_ids):
            yield (
                search_file,
                f"num_beams is {self.search.num_beams}, expected fewer than the {len(self.tgt_ids)} pieces",
            )

    def hashes(self, weights: Path) -> dict[str, str]:
        names = "config.json generation_config.json tokenizer_config.json vocab.json target_vocab.json source.spm target.spm"
        files = [self.path / name for name in names.split()] + [weights]
        return {file.name: _sha256(file) for file in files if file.is_file()}


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


# The run -------------------------------------------------------------------------------------------------------------


def import_marian(path: Path, run: RunDir, src_lang: str | None, tgt_lang: str | None, command: str) -> None:
    """Writes the run into its directory, which must exist and be empty. The languages are those of the folder, where they
    are None; of a model with language codes `tgt_lang` chooses one.

    Raises CheckpointError for a folder that is not whole or not Marian's, UsageError where the languages are not known or
    wrong.
    """
    folder = _Folder.read(path)
    codes = {match[1]: number for piece, number in folder.src_ids.items() if (match := _CODE.fullmatch(piece))}
    if tgt_lang and len(codes) == 1:  # a single language may be called as people like
        codes = dict.fromkeys([tgt_lang], *codes.values())
    tokenizer, src_rows, tgt_rows = _tokenizer(folder, codes)
    data = _data(folder, list(codes), src_lang, tgt_lang)
    weights = _Weights(path)
    embeddings = _embeddings(weights, folder.network)
    config = _config(folder, data, tokenizer, is_tied=torch.equal(embeddings["tgt"], embeddings["projection"]))
    model = _model(weights, config, tokenizer, embeddings, src_rows, tgt_rows)

    run.begin(config)
    run.manifest.product("tokenizer", {}, {}, lambda: run.save_tokenizer(tokenizer))
    run.make_checkpoints_folder()
    content = {"model": model.state_dict(), "weights": "model", "progress": {"step": 0}, "config": config.model_dump()}
    save_checkpoint(run.checkpoint_file(0), {**content, "manifest_sha256": run.manifest.sha256})
    run.point("last", 0)
    run.point("best", 0)
    record_start(run, command=command, imported_from=str(path.resolve()), sha256=folder.hashes(weights.file))


def _tokenizer(folder: _Folder, codes: Mapping[str, int]) -> tuple[Tokenizer, Tensor, Tensor]:
    """Our tokenizer, and for each piece of its two vocabularies the row of Marian's matrices that it has."""
    a, src_ids, tgt_ids = folder.network, folder.src_ids, folder.tgt_ids
    # In the order of our ids. No source has a begin symbol, so any row will do there.
    src_symbols = [a.pad_token_id, src_ids["<unk>"], a.pad_token_id, a.eos_token_id]
    tgt_symbols = [a.pad_token_id, tgt_ids["<unk>"], a.decoder_start_token_id, a.eos_token_id]
    source, target = (_pieces(folder, side, ids) for side, ids in (("source", src_ids), ("target", tgt_ids)))
    if (start := next(piece for piece, i in tgt_ids.items() if i == a.decoder_start_token_id)) in target[1]:
        raise CheckpointError(
            f"{folder.path / 'config.json'}: decoder_start_token_id is {a.decoder_start_token_id}, the id of the word piece"
            f" {start[:40]!r}, expected that of a symbol such as <pad>; fetch it again"
        )
    tags = {tag_of(language): number for language, number in codes.items()}
    names = {piece: number for piece, number in tgt_ids.items() if number not in tgt_symbols}
    for name in SYMBOLS:  # a piece that has the name of one of ours gets another
        if name in names:
            names[f"{name}▁"] = names.pop(name)
    tokenizer = Tokenizer(
        [
            with_our_symbols(source[0], kept=None, added=tags, kind=CONTROL),
            with_our_symbols(target[0], kept=names, added=names, kind=UNUSED),
        ]
    )
    own = len(SYMBOLS)
    src = [tags.get(piece, src_ids.get(piece, src_ids["<unk>"])) for piece in tokenizer.src_vocabulary()[own:]]
    tgt = [names[piece] for piece in tokenizer.tgt_vocabulary()[own:]]
    return tokenizer, torch.tensor(src_symbols + src), torch.tensor(tgt_symbols + tgt)


def _pieces(folder: _Folder, side: str, ids: Mapping[str, int]) -> tuple[bytes, set[str]]:
    """A sentencepiece model, and its pieces but for the symbols. Raises CheckpointError for one of another model: most of
    its pieces are none of the vocabulary, which read and wrote them in training."""
    file = folder.path / f"{side}.spm"
    model = _read(file, _MAX_SPM_BYTES)
    try:
        with_our_symbols(model, kept=None, added=(), kind=CONTROL)  # refuses what is damaged
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {error}") from None
    processor = processor_of(model)
    numbers = range(processor.get_piece_size())
    pieces = {processor.id_to_piece(i) for i in numbers if not processor.is_control(i) and not processor.is_unknown(i)}
    if (n_known := len(pieces & ids.keys())) < _LEAST_KNOWN * len(pieces):
        raise CheckpointError(
            f"{file}: {len(pieces) - n_known:,} of its {len(pieces):,} pieces are not in the vocabulary, so they are of two"
            " models; fetch both again"
        )
    return model, pieces


def _data(folder: _Folder, codes: list[str], src_lang: str | None, tgt_lang: str | None) -> DataConfig | SeveralPairs:
    """A model with language codes translates into each of these, unless one is chosen."""
    languages, file = folder.languages, folder.path / "tokenizer_config.json"
    src, tgt = src_lang or languages.source_lang, tgt_lang or (codes[0] if codes else languages.target_lang)
    for key, option, language in (("source_lang", "--src-lang", src), ("target_lang", "--tgt-lang", tgt)):
        if not language:
            raise UsageError(f"{file}: no {key} in it; give {option}, a language code such as en")
    into = f"{folder.path} translates into {', '.join(codes)}"
    if codes and tgt not in codes:
        raise UsageError(f"{into}; expected one of these, found --tgt-lang {tgt}")
    targets = [tgt] if tgt_lang or len(codes) < 2 else _distinct(code for code in codes if code != src)
    if not targets:
        raise UsageError(f"{into}, none of them the code of another language; give --tgt-lang")
    # The folder does not say what the model was trained on.
    pairs = [
        {"src_lang": src, "tgt_lang": code, "train": [f"unknown-source.{src}", f"unknown-target.{code}"]}
        for code in targets
    ]
    shared: dict[str, Any] = {"max_length": min(folder.network.max_position_embeddings - 1, 4096)}
    try:
        if len(pairs) > 1:
            return SeveralPairs.model_validate({"pairs": pairs, **shared})
        return DataConfig.model_validate({**pairs[0], **shared})
    except ValidationError as error:
        lines = explain_errors(error, "data")
        raise UsageError(*(f"{line}; give --src-lang and --tgt-lang" for line in lines)) from None


def _distinct(codes: Iterable[str]) -> list[str]:
    """Those codes that name a language of their own: of pt_br and pt_BR the first, of zh and cn, which is that of a country,
    zh."""
    chosen = dict[str, str]()
    for code in codes:
        if code.lower() in chosen or meant_language(code):
            log.info(f"not among the languages of --to: {code}; --tgt-lang {code} imports it alone")
        else:
            chosen[code.lower()] = code
    return list(chosen.values())


def _config(folder: _Folder, data: DataConfig | SeveralPairs, tokenizer: Tokenizer, is_tied: bool) -> Config:
    a = folder.network
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
        "activation": "swish" if a.activation_function == "silu" else a.activation_function,
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
        decoding=DecodingConfig(
            beam_size=folder.search.num_beams,
            length_normalization="average",  # transformers divides the score of a beam by length ** penalty
            length_penalty=folder.search.length_penalty,
            no_repeat_ngram=folder.search.no_repeat_ngram_size,
        ),
    )
    for keys, problem in config.contradictions():
        if keys.startswith("data."):
            raise UsageError(f"{problem}; give --src-lang and --tgt-lang")
        raise CheckpointError(f"{folder.path / 'config.json'}: {problem}")
    return config


def _embeddings(weights: _Weights, a: _Network) -> dict[str, Tensor]:
    """A row for each piece of Marian's vocabularies, the dimensions in our order. Matrices that are one and the same have
    one name in the file, or each its own."""
    shared, src, tgt = (f"model.{role}.weight" for role in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"))
    projection, order = "lm_head.weight", marian_order(a.d_model).argsort()
    rows = {src: a.vocab_size, tgt: a.tgt_vocab_size, projection: a.tgt_vocab_size}
    if a.share_encoder_decoder_embeddings:
        rows[shared] = a.vocab_size
    found = {name: weights.take(name, n, a.d_model)[:, order] for name, n in rows.items() if name in weights}
    of_both = (shared, src, tgt) if a.share_encoder_decoder_embeddings else ()
    tied = (projection, tgt) if a.tie_word_embeddings else ()
    names = {
        "src": (src, *of_both, *(tied if of_both else ())),
        "tgt": (tgt, *of_both, *tied),
        "projection": (projection, *tied, *(of_both if tied else ())),
    }
    chosen = {role: next((name for name in own if name in found), own[0]) for role, own in names.items()}
    if missing := next((name for name in chosen.values() if name not in found), None):
        weights.take(missing)  # which refuses the file
    bias, n = "final_logits_bias", a.tgt_vocab_size
    embeddings = {role: found[name] for role, name in chosen.items()}
    return embeddings | {"bias": weights.take(bias, 1, n)[0] if bias in weights else torch.zeros(n)}


def _model(
    weights: _Weights,
    config: Config,
    tokenizer: Tokenizer,
    embeddings: dict[str, Tensor],
    src_rows: Tensor,
    tgt_rows: Tensor,
) -> Transformer:
    order = marian_order(config.model.d_model)
    shapes = {name: weight.shape for name, weight in meta_model(config, tokenizer).state_dict().items()}
    own = {
        mine: reordered(weights.take(theirs, *shapes[mine]), dimensions, order.argsort())
        for mine, theirs, dimensions in weight_names(config.model)
    }
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"):
        if name in weights:
            table = sinusoid_table(config.model.max_positions, config.model.d_model)[1:, order]
            if not torch.allclose(weights.take(name, *table.shape), table, atol=1e-3):
                raise CheckpointError(f"{weights.file}: {name} is no table of sinusoids, which Marian's positions are")
    weights.refuse_rest()
    own["src_embeddings.token.weight"] = embeddings["src"][src_rows]
    own["tgt_embeddings.token.weight"] = embeddings["tgt"][tgt_rows]
    own["projection.weight"], own["projection.bias"] = embeddings["projection"][tgt_rows], embeddings["bias"][tgt_rows]
    if int(tgt_rows[BOS_ID]) in tgt_rows[[PAD_ID, UNK_ID, EOS_ID]]:  # the same token a second time
        own["projection.bias"][BOS_ID] = _NEVER
    model = build_model(config, tokenizer)
    model.load_state_dict(own)
    return model
