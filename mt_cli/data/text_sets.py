"""The sets of a language pair as files: the dev set, each corpus of the training text, the list of words. And their pairs as
token ids."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mt_cli.config import DataConfig
from mt_cli.data.corpora import TrainingText, line_of, placed
from mt_cli.data.corpus import CorpusReport, SentencePair, read_pairs, sha256_of
from mt_cli.data.dataset import TokenPair
from mt_cli.data.tokenizer import REAL, SYNTHETIC, Tokenizer
from mt_cli.errors import DataError


@dataclass(frozen=True)
class TextSet:
    """Files that are read in one way."""

    name: str  # dev, train, train-2 or words
    label: str  # in messages
    files: list[str]
    columns: str | None
    on_bad_line: str
    dedup: bool = False
    corpus: int = 0  # its number in the training text

    @classmethod
    def dev(cls, data: DataConfig, files: list[str], suffix: str = "") -> TextSet:
        return cls("dev", f"dev{suffix}", files, data.columns, data.on_bad_line)

    @classmethod
    def of_training(cls, data: DataConfig, suffix: str = "") -> list[TextSet]:
        text = TrainingText(data)
        is_one = len(text.corpora) == 1
        return [
            cls(
                "train" if is_one else f"train-{number + 1}",
                f"train{suffix}" if is_one else f"train{suffix} {name}",
                corpus.files,
                data.columns,
                data.on_bad_line,
                data.dedup,
                number,
            )
            for number, (corpus, name) in enumerate(zip(text.corpora, text.corpus_names, strict=True))
        ]

    @classmethod
    def of_words(cls, data: DataConfig) -> TextSet | None:
        words, number = data.words, len(data.corpora)
        if words is None:
            return None
        return cls("words", "words", words.files, words.columns, data.on_bad_line, dedup=True, corpus=number)

    @cached_property
    def sha256(self) -> str:
        return sha256_of(self.files)

    @property
    def reading(self) -> dict[str, object]:
        """The settings that reading depends on."""
        return {"columns": self.columns, "on_bad_line": self.on_bad_line, "dedup": self.dedup}

    def read(self, report: CorpusReport | None = None) -> Iterator[SentencePair]:
        """The normalized pairs, each with its place in the training text. Raises DataError, also after the last one, if the
        files no longer have the hash `sha256`."""
        pairs = read_pairs(
            self.files,
            columns=self.columns,
            on_bad_line=self.on_bad_line,
            dedup=self.dedup,
            report=report,
            sha256=self.sha256,
        )
        return placed(self.corpus, pairs)

    def describe(self, report: CorpusReport) -> list[str]:
        option = "--set data.words.columns=SOURCE,TARGET" if self.name == "words" else "--columns"
        return [line.replace("--columns", option) for line in report.describe(self.label)]

    def refuse_empty(self, n_pairs: int) -> None:
        if n_pairs == 0:
            use = "validate" if self.name == "dev" else "train"
            raise DataError(f"{self.files[0]}: no pair is left to {use} on; see data.max_length and the counts above")


def encoded(
    pairs: Iterable[SentencePair],
    tokenizer: Tokenizer,
    data: DataConfig,
    left_out: Container[int],
    report: CorpusReport,
) -> Iterator[tuple[SentencePair, TokenPair]]:
    """Those of `pairs` that are trained on, with their ids. Counts in `report` those that are left out, and those that are
    too long."""
    most = data.max_length
    # Each side may be a source; with its tags, it must not be longer than the model can read.
    n_src, n_tgt = (len(tokenizer.tags_for(language)) for language in (data.tgt_lang, data.src_lang))
    n_marks = not tokenizer.tags.keys().isdisjoint({REAL, SYNTHETIC})
    chunk = list[SentencePair]()

    def flushed() -> Iterator[tuple[SentencePair, TokenPair]]:
        ids = tokenizer.encode_pairs([pair[:2] for pair in chunk])
        for pair, (src, tgt) in zip(chunk, ids, strict=True):
            if len(src) <= most - n_src - n_marks and len(tgt) <= most - n_tgt:
                yield pair, TokenPair(src, tgt, line_of(pair.line))
            else:
                report.n_kept -= 1
                report.drop(f"longer than {most} tokens")
        chunk.clear()

    for pair in pairs:
        if pair.line in left_out:
            report.n_kept -= 1
            report.drop("held out or left out")
            continue
        chunk.append(pair)
        if len(chunk) == _CHUNK_SIZE:
            yield from flushed()
    yield from flushed()


_CHUNK_SIZE = 10_000  # pairs that are encoded at once, by several threads


def refuse_missing_files(data: DataConfig, key: str, is_trained: bool) -> list[str]:
    """What is wrong with the files that a language pair names; `key`: before the names of their keys. Test sets and
    monolingual text are read before the first checkpoint only."""
    named = {f"{key}train": data.corpora[0].files}
    if len(data.corpora) > 1:
        named = {f"{key}train.{number}": corpus.files for number, corpus in enumerate(data.corpora)}
    if data.dev is not None:
        named[f"{key}dev"] = data.dev
    if data.words is not None:
        named[f"{key}words.files"] = data.words.files
    if not is_trained:
        named |= {f"{key}test.{name}": files for name, files in data.test.items()}
        if data.monolingual is not None:
            named[f"{key}monolingual.tgt"] = data.monolingual.tgt
            named[f"{key}monolingual.src"] = data.monolingual.src or []
    problems, training_files = [], [Path(file) for corpus in data.corpora for file in corpus.files]
    for name, files in named.items():
        paths = [Path(file) for file in files]
        if len(paths) == 2 and all(path.is_file() for path in paths) and paths[0].samefile(paths[1]):
            problems.append(f"{files[0]} and {files[1]} are the same file; check data.{name}")
        for path in paths:
            if not path.is_file():
                found = "is not a regular file" if path.exists() else "no such file"
                option = _OPTIONS.get(name.removeprefix(key), "")
                problems.append(
                    f"{path}: {found}; check data.{name}{option} (paths are relative to where mt is started)"
                )
            elif not os.access(path, os.R_OK):
                problems.append(f"{path}: cannot be read; check its permissions (data.{name})")
            elif "monolingual" in name and any(file.exists() and file.samefile(path) for file in training_files):
                problems.append(
                    f"{path} is a file of data.train, too; give data.{name} text that is not translated yet"
                )
    return problems


_OPTIONS = {  # that set the key for files
    "dev": " or --dev", "test.test": " or --test", "words.files": " or --words",
    "monolingual.tgt": " or --monolingual", "monolingual.src": " or --monolingual",
}  # fmt: skip
