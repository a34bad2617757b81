"""Reads a corpus as pairs of normalized text, and says what was left out. Knows nothing of tokens."""

from __future__ import annotations

import hashlib
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from mt_cli.data.lines import SAVE_AS_UTF_8, NotUtf8Error, decode_line, raw_lines, refuse_special_files
from mt_cli.data.normalize import normalize
from mt_cli.errors import DataError

Place = tuple[int, int]  # where a pair is: the number of its corpus, from 0, and its line there, from 1
_Row = tuple[int, tuple[bytes, ...]]  # the line where it begins; source and target, or a line of one file

_SAVE_FILE = "fix the line, or save the file as UTF-8"
_LEAVE_OUT = ", or leave such lines out: --set data.on_bad_line=skip"
_N_DUPLICATES_REMEMBERED = 1_000_000  # bounds the memory of counting repetitions at about 60 MB


class SentencePair(NamedTuple):
    src: str
    tgt: str
    line: int  # in the file that it came from, counted from 1
    corpus: int = 0  # where the training text has several

    @property
    def place(self) -> Place:
        return self.corpus, self.line


class UnequalLinesError(DataError):
    """Two files have not the same number of lines, which shows after the last pair."""

    files: tuple[str, str]


@dataclass
class CorpusReport:
    """What was read and what was left out, for people to see."""

    n_pairs: int = 0
    n_kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # by reason
    n_duplicates: int = 0
    notes: list[str] = field(default_factory=list)
    bad_lines: array[int] = field(default_factory=lambda: array("q"))  # that are not UTF-8 and were skipped

    def describe(self, name: str) -> list[str]:
        line = f"{name}: {self.n_kept:,} of {self.n_pairs:,} pairs kept"
        if self.dropped:
            line += f" ({', '.join(f'{count:,} {reason}' for reason, count in self.dropped.items())})"
        if self.n_duplicates:
            line += f"; {self.n_duplicates:,} of these repeated"
        return [line, *(f"{name}: {note}" for note in self.notes)]


def read_pairs(
    files: list[str],
    *,
    columns: str | None = None,
    on_bad_line: str = "error",
    dedup: bool = False,
    report: CorpusReport | None = None,
    sha256: str | None = None,
    corpus: int = 0,
) -> Iterator[SentencePair]:
    """The normalized pairs of two aligned files or a table; targets keep no-break spaces. Raises DataError for unequal
    or unreadable files, too many empty sides, no pair, and, after the last, files whose hash is not `sha256`."""
    report = CorpusReport() if report is None else report
    seen: set[int] = set()
    for pair in read_raw_pairs(files, columns, on_bad_line, report, corpus, _LEAVE_OUT):
        src, tgt = normalize(pair.src), normalize(pair.tgt, keep_no_break_spaces=True)
        if not src or not tgt:
            report.dropped["with an empty side"] += 1
            continue
        key = hash((src, normalize(tgt)))  # pairs that only differ in no-break spaces are repetitions
        if key in seen:
            if dedup:
                report.dropped["repeated"] += 1
                continue
            report.n_duplicates += 1
        elif dedup or len(seen) < _N_DUPLICATES_REMEMBERED:
            seen.add(key)
        report.n_kept += 1
        yield SentencePair(src, tgt, pair.line, corpus)
    n_empty, n_pairs = report.dropped["with an empty side"], report.n_pairs
    if n_pairs == 0:
        raise DataError(f"{files[0]}: no lines; give a file with a sentence on each line")
    if n_empty * 2 > n_pairs:
        found = f"{n_empty:,} of {n_pairs:,} pairs have an empty side"
        raise DataError(f"{files[0]}: {found}; check that the files belong together")
    if report.n_kept == 0:
        raise DataError(f"{files[0]}: no pair is left of {n_pairs:,}, most are not UTF-8; save the file as UTF-8")
    if sha256 is not None and sha256_of(files) != sha256:
        found = "changed while it was read"
        raise DataError(f"{' or '.join(files)}: {found}; run the same command again when it is complete")


def read_raw_pairs(
    files: list[str],
    columns: str | None = None,
    on_bad_line: str = "error",
    report: CorpusReport | None = None,
    corpus: int = 0,
    more_advice: str = "",
) -> Iterator[SentencePair]:
    """The pairs as they are in the files: not normalized, with those that have an empty side."""
    refuse_special_files(files)
    report = CorpusReport() if report is None else report
    is_table = len(files) == 1
    rows = _rows_of_table(files[0], columns, report) if is_table else _rows_of_two(*files)
    advice = (SAVE_AS_UTF_8 if is_table else _SAVE_FILE) + more_advice
    for line, (src, tgt) in _decoded(rows, [files[0], files[-1]], on_bad_line, report, advice):
        yield SentencePair(src, tgt, line, corpus)


def read_lines(path: Path) -> list[str]:
    """All lines of a small file, such as a test set. Raises DataError for a device, which may have no end."""
    if not path.is_fifo() and path != Path(os.devnull):
        refuse_special_files([path])
    return [text for _, (text,) in _decoded(_rows_of_text(path), [str(path)], "error", CorpusReport(), _SAVE_FILE)]


def read_monolingual(files: Iterable[str], *, on_bad_line: str, report: CorpusReport) -> Iterator[str]:
    """The lines as they are in the files, counted in `report`. Raises DataError for files without any."""
    for file in files:
        refuse_special_files([file])
        n_before, rows = report.n_pairs, _rows_of_text(Path(file))
        for _, (text,) in _decoded(rows, [file], on_bad_line, report, _SAVE_FILE + _LEAVE_OUT):
            yield text
        if report.n_pairs == n_before:
            raise DataError(f"{file}: no lines; give a file with a sentence on each line")


def _decoded(
    rows: Iterable[_Row], files: list[str], on_bad_line: str, report: CorpusReport, advice: str
) -> Iterator[tuple[int, list[str]]]:
    """The rows as text, counted in `report`; those that are not UTF-8 are left out or raise DataError."""
    for line, raw in rows:
        report.n_pairs += 1
        try:
            yield line, [decode_line(side, line, file) for side, file in zip(raw, files, strict=True)]
        except NotUtf8Error as error:
            if on_bad_line == "error":
                raise DataError(f"{error}; {advice}") from None
            report.dropped["not UTF-8"] += 1
            report.bad_lines.append(line)


def _rows_of_text(file: Path) -> Iterator[_Row]:
    return ((number, (raw,)) for number, raw in enumerate(raw_lines(file), 1))


def _rows_of_two(src_file: str, tgt_file: str) -> Iterator[_Row]:
    rows = zip_longest(raw_lines(Path(src_file)), raw_lines(Path(tgt_file)))
    for number, (src, tgt) in enumerate(rows, 1):
        if src is None or tgt is None:
            n_longer = number + sum(1 for _ in rows)
            n_src, n_tgt = (number - 1, n_longer) if src is None else (n_longer, number - 1)
            error = UnequalLinesError(f"{src_file} has {n_src} lines, {tgt_file} has {n_tgt}; make them parallel")
            error.files = src_file, tgt_file
            raise error
        yield number, (src, tgt)


def _rows_of_table(file: str, columns: str | None, report: CorpusReport) -> Iterator[_Row]:
    """The rows of a table; says in `report` how the table was read. A line end within a cell becomes a space."""
    from mt_cli.data.tables import find_layout, read_rows  # here, because translations need no tables

    layout = find_layout(Path(file), columns)
    if not layout.is_plain:
        report.notes.append(str(layout))
    for line, *cells in read_rows(layout):
        src, tgt = (re.sub("\r?\n|\r", " ", cell).encode("utf-8", "surrogateescape") for cell in cells)
        yield line, (src, tgt)


def write_copy(pairs: Iterable[SentencePair], file: Path) -> None:
    """Writes normalized pairs to a new file, from which `read_copy` reads them faster than `read_pairs` did."""
    with file.open("x", encoding="utf-8", newline="\n") as handle:  # normalized text has no tabs
        handle.writelines(f"{pair.corpus}\t{pair.line}\t{pair.src}\t{pair.tgt}\n" for pair in pairs)


def read_copy(file: Path) -> Iterator[SentencePair]:
    with file.open(encoding="utf-8", newline="\n") as handle:
        for row in handle:
            corpus, line, src, tgt = row.removesuffix("\n").split("\t")
            yield SentencePair(src, tgt, int(line), int(corpus))


def sha256_of(files: Iterable[str]) -> str:
    """One hash of the bytes of all files, in order. Raises DataError when one cannot be read."""
    files, digest = list(files), hashlib.sha256()
    refuse_special_files(files)
    for name in files:
        try:
            with Path(name).open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
        except OSError as error:
            raise DataError(f"{name}: {error.strerror}; give the path of a text file, plain or .gz") from None
        digest.update(b"\0")
    return digest.hexdigest()
