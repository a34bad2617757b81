"""Makes a run of a Hugging Face Marian folder, the form in which OPUS-MT publishes its translators: the way back of
`export/marian.py`, which knows the names and the order of the weights.

Most Marian models have one vocabulary, `vocab.json`, that the pieces of their two sentencepiece models share. The run
has a vocabulary for each language. That of the source has the pieces of `source.spm`; one that `vocab.json` lacks begins
with the row of `<unk>`, since Marian reads it as `<unk>`. That of the target has all of `vocab.json`, so that the
probabilities stay what they were; what `target.spm` lacks may be written, but is never read. Marian begins a translation
with a symbol that is often `<pad>`; its row becomes that of our `<s>`. A language code such as `>>fr<<` becomes our tag
`<2fr>`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import ValidationError
from torch import Tensor

from mt_cli.config import (
    Config,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    SeveralPairs,
    TokenizerConfig,
    contradictions,
    meant_language,
)
from mt_cli.config_file import explain_errors
from mt_cli.data.piece_model import CONTROL, SYMBOLS, UNUSED, algorithm_of, processor_of, with_our_symbols
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, tag_of
from mt_cli.errors import CheckpointError, UsageError
from mt_cli.export.import_folder import (
    Architecture,
    Vocabularies,
    Weights,
    file_of_weights,
    read_architecture,
    read_pieces,
    read_search_keys,
    read_tokenizer_keys,
    read_vocabularies,
    sha256_of,
)
from mt_cli.export.marian import marian_order, reordered, weight_names
from mt_cli.model.positions import sinusoid_table
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import build_model, meta_model, save_checkpoint
from mt_cli.run.provenance import record_start
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

_NEVER = -100.0  # a logit beside which that of any other token is all
_LEAST_KNOWN = 0.5  # share of the pieces of a sentencepiece model; of a model's own all but a few are
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}  # their names and ours


def import_marian(folder: Path, run: RunDir, src_lang: str | None, tgt_lang: str | None, command: str) -> None:
    """Writes the run into its directory, which must exist and be empty. The languages are those of the folder, where they
    are None; of a model with language codes `tgt_lang` chooses one.

    Raises CheckpointError for a folder that is not whole or not Marian's, UsageError where the languages are not known or
    wrong.
    """
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        raise CheckpointError(f"{folder}: {error.strerror}; give a folder with the files of a Marian model") from None
    architecture = read_architecture(folder)
    vocabularies = read_vocabularies(folder, architecture)
    codes = vocabularies.codes
    if tgt_lang and len(codes) == 1:  # a single language may be called as people like
        codes = dict.fromkeys([tgt_lang], *codes.values())
    tokenizer, rows = _tokenizer(folder, vocabularies, codes, architecture)
    search, data = _search(folder), _data(folder, architecture, list(codes), src_lang, tgt_lang)
    weights = Weights(file_of_weights(folder))
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
    record_start(run, command=command, imported_from=str(folder.resolve()), sha256=sha256_of(folder, weights.file))


class _Rows(NamedTuple):
    """For each piece of our vocabularies, the row of Marian's matrices that it has."""

    src: Tensor
    tgt: Tensor


def _tokenizer(
    folder: Path, vocabularies: Vocabularies, codes: Mapping[str, int], architecture: Architecture
) -> tuple[Tokenizer, _Rows]:
    a, ids = architecture, vocabularies
    # In the order of our ids. No source has a begin symbol, so any row will do there.
    src_symbols = [a.pad_token_id, ids.src["<unk>"], a.pad_token_id, a.eos_token_id]
    tgt_symbols = [a.pad_token_id, ids.tgt["<unk>"], a.decoder_start_token_id, a.eos_token_id]
    tags = {tag_of(language): number for language, number in codes.items()}
    names = {piece: number for piece, number in ids.tgt.items() if number not in tgt_symbols}
    for name in SYMBOLS:  # a piece that has the name of one of ours gets another
        if name in names:
            names[f"{name}▁"] = names.pop(name)
    models = []
    for side in ("source", "target"):
        file = folder / f"{side}.spm"
        model = read_pieces(file)
        known = ids.src if side == "source" else ids.tgt
        try:
            if side == "source":
                adapted = with_our_symbols(model, kept=None, added=tags, kind=CONTROL)
            else:
                adapted = with_our_symbols(model, kept=names, added=names, kind=UNUSED)
            Tokenizer([adapted])
            _refuse_other_pieces(model, known, "vocab.json" if known is ids.src else "target_vocab.json")
        except CheckpointError as error:
            raise CheckpointError(f"{file}: {error}") from None
        models.append(adapted)
    tokenizer = Tokenizer(models)
    own = len(SYMBOLS)
    src = [tags.get(piece, ids.src.get(piece, ids.src["<unk>"])) for piece in tokenizer.src_vocabulary()[own:]]
    tgt = [names[piece] for piece in tokenizer.tgt_vocabulary()[own:]]
    return tokenizer, _Rows(torch.tensor(src_symbols + src), torch.tensor(tgt_symbols + tgt))


def _refuse_other_pieces(model: bytes, known: Mapping[str, int], name: str) -> None:
    """Raises CheckpointError where most pieces are none of the vocabulary, which read and wrote them in training."""
    processor = processor_of(model)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    n_known = sum(piece in known for piece in pieces)
    if n_known < _LEAST_KNOWN * len(pieces):
        raise CheckpointError(
            f"{len(pieces) - n_known:,} of its {len(pieces):,} pieces are not in {name}, so they are of two models; fetch both again"
        )


def _search(folder: Path) -> DecodingConfig:
    """transformers divides the score of a beam by length ** penalty, as `average` does."""
    found = read_search_keys(folder)
    return DecodingConfig(
        beam_size=found.num_beams,
        length_normalization="average",
        length_penalty=found.length_penalty,
        no_repeat_ngram=found.no_repeat_ngram_size,
    )


def _data(
    folder: Path, architecture: Architecture, codes: list[str], src_lang: str | None, tgt_lang: str | None
) -> DataConfig | SeveralPairs:
    """A model with language codes translates into each of these, unless one is chosen."""
    found, file = read_tokenizer_keys(folder), folder / "tokenizer_config.json"
    src, tgt = src_lang or found.source_lang, tgt_lang or (codes[0] if codes else found.target_lang)
    for key, option, language in (("source_lang", "--src-lang", src), ("target_lang", "--tgt-lang", tgt)):
        if not language:
            raise UsageError(f"{file}: no {key} in it; give {option}, a language code such as en")
    if codes and tgt not in codes:
        raise UsageError(f"{folder} translates into {', '.join(codes)}; expected one of these, found --tgt-lang {tgt}")
    targets = [tgt] if tgt_lang or len(codes) < 2 else _told_apart([code for code in codes if code != src])
    if not targets:
        raise UsageError(
            f"{folder} translates into {', '.join(codes)}, none of them the code of another language; give --tgt-lang"
        )
    # The folder does not say what the model was trained on.
    pairs = [{"src_lang": src, "tgt_lang": code, "train": [f"unknown.{src}", f"unknown.{code}"]} for code in targets]
    shared: dict[str, Any] = {"max_length": min(architecture.max_position_embeddings - 1, 4096)}
    try:
        if len(pairs) > 1:
            return SeveralPairs.model_validate({"pairs": pairs, **shared})
        return DataConfig.model_validate({**pairs[0], **shared})
    except ValidationError as error:
        raise UsageError(
            *(f"{line}; give --src-lang and --tgt-lang" for line in explain_errors(error, "data"))
        ) from None


def _told_apart(codes: list[str]) -> list[str]:
    """Those codes that name a language of their own: of pt_br and pt_BR the first, of zh and cn, which is that of a country,
    zh."""
    firsts = {code.lower(): code for code in reversed(codes)}
    chosen = [code for code in codes if firsts[code.lower()] == code and not meant_language(code)]
    if left_out := [code for code in codes if code not in chosen]:
        log.info(f"not among the languages of --to: {', '.join(left_out)}; --tgt-lang imports one of them")
    return chosen


def _config(
    folder: Path,
    architecture: Architecture,
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


class _Matrices(NamedTuple):
    """A row for each piece of Marian's vocabularies, the dimensions in our order."""

    src: Tensor
    tgt: Tensor
    projection: Tensor
    bias: Tensor

    @property
    def is_tied(self) -> bool:
        return torch.equal(self.tgt, self.projection)


def _matrices(weights: Weights, architecture: Architecture) -> _Matrices:
    """Matrices that are one and the same have one name in the file, or each its own."""
    a, order = architecture, marian_order(architecture.d_model).argsort()
    shared, src, tgt = (f"model.{role}.weight" for role in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"))
    projection = "lm_head.weight"
    rows = {src: a.vocab_size, tgt: a.tgt_vocab_size, projection: a.tgt_vocab_size}
    if a.share_encoder_decoder_embeddings:
        rows[shared] = a.vocab_size
    found = {name: weights.take(name, n, a.d_model)[:, order] for name, n in rows.items() if weights.has(name)}

    def first_of(*names: str) -> Tensor:
        for name in names:
            if name in found:
                return found[name]
        return weights.take(names[0], rows[names[0]], a.d_model)  # which refuses the file

    usual = (shared, src, tgt, projection) if a.share_encoder_decoder_embeddings else ()
    tied = (tgt, projection) if a.tie_word_embeddings else ()
    name, size = "final_logits_bias", a.tgt_vocab_size
    return _Matrices(
        src=first_of(src, *usual),
        tgt=first_of(tgt, *usual, *tied),
        projection=first_of(projection, *tied, *(usual if tied else ())),
        bias=weights.take(name, 1, size)[0] if weights.has(name) else torch.zeros(size),
    )


def _network(weights: Weights, config: Config, tokenizer: Tokenizer, matrices: _Matrices, rows: _Rows) -> Transformer:
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
