"""From raw text to ids on disk: trains the tokenizer, builds the datasets of a run and describes its text, once.

The training text alone decides the tokenizer. What is there already and was made from the same bytes is used again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mt_cli.config import Config
from mt_cli.errors import DataError
from mt_cli.evaluation.metrics import bleu_tokenizer, refuse_tokenizer
from mt_cli.files import cannot_write
from mt_cli.run_dir import RunDir
from mt_cli.text.corpus import CorpusReport, SentencePair, read_pairs, sha256_of
from mt_cli.text.dataset import TokenDataset, TokenPair
from mt_cli.text.profile import CorpusProfile
from mt_cli.text.splitting import sentences
from mt_cli.text.tokenizer import Tokenizer, train_tokenizer

log = logging.getLogger(__name__)

_OUTLIERS = 0.001  # the share of pairs, at either end, that is not taken for usual: a corpus has a few misaligned ones


@dataclass
class PreparedData:
    tokenizer: Tokenizer
    profile: CorpusProfile
    train: TokenDataset
    dev: TokenDataset
    dev_pairs: list[SentencePair]
    sha256: dict[str, str]  # of the training and the dev files


def prepare(config: Config, run: RunDir) -> PreparedData:
    """Raises DataError when a file is not as it should be, before anything is trained."""
    data = config.data
    refuse_tokenizer(bleu_tokenizer(data.bleu_tokenize, data.tgt_lang))
    sha256 = {"train": sha256_of(data.train), "dev": sha256_of(data.dev)}
    is_begun = run.is_prepared
    if is_begun:
        tokenizer = run.load_tokenizer(config.tokenizer.joint)
        run.refuse_other_data({**sha256, "tokenizer": tokenizer.sha256})
    else:
        _look_through(config)
        tokenizer = _train_tokenizer(config)
    dev_pairs = list(read_pairs(data.dev, on_bad_line=data.on_bad_line))

    def dataset(name: str, files: list[str]) -> TokenDataset:
        meta = {"data": sha256[name], "tokenizer": tokenizer.sha256, "max_length": str(data.max_length)}
        meta["reading"] = f"dedup {data.dedup and name == 'train'}, bad lines {data.on_bad_line}"
        found = TokenDataset.open(run.cache / name, tokenizer.vocab_sizes, meta)
        if found is None:
            report = CorpusReport()
            pairs = read_pairs(files, on_bad_line=data.on_bad_line, dedup=data.dedup and name == "train", report=report)
            encoded = _encode(pairs, tokenizer, data.max_length, report)
            found = _build(run.cache / name, encoded, tokenizer.vocab_sizes, meta)
            for line in report.describe(name):
                log.info(line)
            if name == "dev" and 0 < len(found) < len(dev_pairs):
                log.info(
                    f"dev: the loss is that of these {len(found):,} pairs, BLEU and chrF are those of {len(dev_pairs):,}"
                )
        if len(found) == 0:
            use = "train" if name == "train" else "validate"
            raise DataError(f"{files[0]}: no pair is left to {use} on; see data.max_length and the counts above")
        return found

    train, dev = dataset("train", data.train), dataset("dev", data.dev)
    profile = run.load_profile() if is_begun else None
    if profile is None:
        profile = _profile(train, tokenizer)
        run.save_profile(profile)
    if not is_begun:  # What is wrong with text or config has been said by now and could still be corrected.
        run.save_config(config)
        run.save_tokenizer(tokenizer)
        run.save_data({**sha256, "tokenizer": tokenizer.sha256})  # the last: now the run is prepared
    return PreparedData(tokenizer, profile, train, dev, dev_pairs, sha256)


def _build(
    folder: Path, pairs: Iterator[TokenPair], vocab_sizes: tuple[int, int], meta: dict[str, str]
) -> TokenDataset:
    try:
        return TokenDataset.build(folder, pairs, vocab_sizes, meta)
    except OSError as error:
        raise cannot_write(folder, error) from None


def _train_tokenizer(config: Config) -> Tokenizer:
    data, settings = config.data, config.tokenizer

    def read() -> Iterator[SentencePair]:
        return read_pairs(data.train, on_bad_line=data.on_bad_line, dedup=data.dedup)

    sides: list[Callable[[], Iterator[str]]] = [
        lambda: (pair.src for pair in read()),
        lambda: (pair.tgt for pair in read()),
    ]
    if settings.joint:
        sides = [lambda: (text for pair in read() for text in (pair.src, pair.tgt))]
    return train_tokenizer(sides, settings.algorithm, settings.vocab_size)


def _look_through(config: Config) -> None:
    """Reads every set once. Raises DataError with what is wrong in each; warns of test sentences that are trained on,
    for which a score means little."""
    data, problems = config.data, list[str]()
    known: dict[tuple[str, str], dict[str, int]] = {}  # the sets that a pair is in, and its line there
    first: dict[str, tuple[int, int]] = {}
    counts: dict[str, int] = {}
    for name, files in {"dev": data.dev, **data.test}.items():
        for pair in _read_as_far_as_possible(files, data.on_bad_line, problems):
            known.setdefault((pair.src, pair.tgt), {})[name] = pair.line
    for pair in _read_as_far_as_possible(data.train, data.on_bad_line, problems):
        for name, line in known.get((pair.src, pair.tgt), {}).items():
            first.setdefault(name, (pair.line, line))
            counts[name] = counts.get(name, 0) + 1
    if problems:
        raise DataError("\n".join(problems))
    for name, count in counts.items():
        log.warning(
            f"{count:,} training pairs are also in {name} (train line {first[name][0]} is line {first[name][1]})"
        )


def _read_as_far_as_possible(files: list[str], on_bad_line: str, problems: list[str]) -> Iterator[SentencePair]:
    try:
        yield from read_pairs(files, on_bad_line=on_bad_line)
    except DataError as error:
        problems.append(str(error))


def _encode(
    pairs: Iterator[SentencePair], tokenizer: Tokenizer, max_length: int, report: CorpusReport
) -> Iterator[TokenPair]:
    for pair in pairs:
        src, tgt = tokenizer.encode_src(pair.src), tokenizer.encode_tgt(pair.tgt)
        if max(len(src), len(tgt)) > max_length:
            report.n_kept -= 1
            report.drop(f"longer than {max_length} tokens")
            continue
        yield TokenPair(src, tgt, pair.line)


def _profile(dataset: TokenDataset, tokenizer: Tokenizer) -> CorpusProfile:
    src, tgt = (lengths + 1 for lengths in dataset.lengths(0, len(dataset)))
    ratio = tgt.sum() / src.sum()
    deviations = (tgt - ratio * src) / np.sqrt(src)
    characters, n_several = set[str](), 0
    for index in range(len(dataset)):
        text = tokenizer.decode_src(dataset.src(index).tolist())
        characters.update(text)
        n_several += len(sentences(text)) > 1
    return CorpusProfile(
        longest_src=int(src.max()),
        several_sentences=n_several / len(dataset),
        length_ratio=float(ratio),
        shortest_deviation=float(np.quantile(deviations, _OUTLIERS)),
        longest_deviation=float(np.quantile(deviations, 1 - _OUTLIERS)),
        characters="".join(sorted(characters)),
    )
