"""The corpora that a config trains on, as one text: their pairs one after another, each with a number of its own.

This number stands for the corpus and the line in its file, and is the line itself in the first corpus. So what is
remembered of a pair (held out, left out, found faulty) is one number, and a text of one corpus is read as its files are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from mt_cli.config import DataConfig
from mt_cli.data.corpus import CorpusReport, SentencePair, read_pairs, read_raw_pairs, sha256_of

Told = Callable[[int], str]
TOLD: Told = "line {}".format  # how a place is told where there is one corpus
_N_LINES = 1 << 40  # more than any file has


def place_of(corpus: int, line: int) -> int:
    """The number of a pair in the whole text. Corpora count from 0, lines from 1."""
    return corpus * _N_LINES + line


def corpus_of(place: int) -> int:
    return place // _N_LINES


def line_of(place: int) -> int:
    return place % _N_LINES


class TrainingText:
    """The training text of a config. The `line` of its pairs is a `place`."""

    def __init__(self, data: DataConfig):
        self.corpora, self._data = data.corpora, data

    @property
    def files(self) -> list[str]:
        return [file for corpus in self.corpora for file in corpus.files]

    @property
    def name(self) -> str:
        return ", ".join(" ".join(corpus.files) for corpus in self.corpora)

    @cached_property
    def corpus_names(self) -> list[str]:
        """What each corpus is called: its first file, or all of its files where others begin with the same one."""
        firsts = [corpus.files[0] for corpus in self.corpora]
        return [" ".join(one.files) if firsts.count(one.files[0]) > 1 else one.files[0] for one in self.corpora]

    def told(self, place: int) -> str:
        """`line 12`, or where there are several corpora `web.tsv:12`."""
        if len(self.corpora) == 1:
            return TOLD(place)
        return f"{self.corpus_names[corpus_of(place)]}:{line_of(place)}"

    def told_lines(self, first: int, last: int) -> str:
        """`lines 3 to 12`, or where there are several corpora `lines 3 to 12 of web.tsv`."""
        of = f" of {self.corpus_names[corpus_of(first)]}" if len(self.corpora) > 1 else ""
        return f"lines {line_of(first):,} to {line_of(last):,}{of}"

    def sha256(self) -> str:
        """Of all files: `sha256_of` those of one corpus, or a hash of these hashes."""
        return joined_sha256([sha256_of(corpus.files) for corpus in self.corpora])

    def read(self, on_bad_line: str | None = None) -> Iterator[SentencePair]:
        """The normalized pairs of all corpora, repetitions too. Raises DataError as `read_pairs` does."""
        for number, corpus in enumerate(self.corpora):
            pairs = read_pairs(
                corpus.files, columns=self._data.columns, on_bad_line=on_bad_line or self._data.on_bad_line
            )
            yield from placed(number, pairs)

    def read_raw(self, report: CorpusReport | None = None) -> Iterator[SentencePair]:
        """The pairs of all corpora as they are in their files, without those that are not UTF-8, which are in `report`."""
        for number, corpus in enumerate(self.corpora):
            one = CorpusReport()
            yield from placed(
                number, read_raw_pairs(corpus.files, columns=self._data.columns, on_bad_line="skip", report=one)
            )
            if report is not None:
                report.n_pairs += one.n_pairs
                report.notes += one.notes
                report.bad_lines.extend(place_of(number, line) for line in one.bad_lines)

    def table(self, rows: Iterable[tuple[str, SentencePair]], about: str = "reason") -> Iterator[str]:
        """The lines of a table of pairs, each with its line and what is said about it; of several corpora also with the
        number, from 1, and the name of its own. Text that a spreadsheet takes for a formula begins with an apostrophe."""
        is_one = len(self.corpora) == 1
        yield f"line\t{about}\tsource\ttarget{'' if is_one else CORPUS_COLUMNS}\n"
        for said, (src, tgt, place) in rows:
            corpus = corpus_of(place)
            own = "" if is_one else f"\t{corpus + 1}\t{self.corpus_names[corpus]}"
            src, tgt = (f"'{text}" if text.startswith(_FORMULA) else text for text in (src, tgt))
            yield f"{line_of(place)}\t{said}\t{src}\t{tgt}{own}\n"


_FORMULA = ("=", "+", "-", "@")  # at the beginning of a cell, which a spreadsheet would compute
CORPUS_COLUMNS = "\tcorpus\tfile"


def places_in_table(rows: Iterator[str]) -> set[int]:
    """Of the pairs of a table that `TrainingText.table` gave. Raises ValueError for another one."""
    if not (header := next(rows, "")):
        raise ValueError("empty")
    if not header.endswith(f"{CORPUS_COLUMNS}\n"):
        return {int(row.partition("\t")[0]) for row in rows}
    cells = (row.split("\t") for row in rows)
    return {place_of(int(number) - 1, int(line)) for line, _, _, _, number, _ in cells}


def placed(corpus: int, pairs: Iterator[SentencePair]) -> Iterator[SentencePair]:
    """The pairs of a corpus, with their places in the whole text for lines."""
    return (pair._replace(line=place_of(corpus, pair.line)) for pair in pairs) if corpus else pairs


def joined_sha256(sha256: list[str]) -> str:
    return sha256[0] if len(sha256) == 1 else hashlib.sha256(" ".join(sha256).encode()).hexdigest()
