"""Reads a corpus as pairs of normalized text, and says what was left out.

Every line that is trained on or translated passes `normalize`; what `mt evaluate` scores stays as it is. This file knows
nothing of tokens, and of tables only the rows that `tables.py` reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from mt_cli.data.lines import NotUtf8Error, decode_line, raw_lines, refuse_special_files
from mt_cli.data.tables import SAVE_AS_UTF_8, find_layout, read_rows
from mt_cli.errors import DataError, further_lines


class SentencePair(NamedTuple):
    src: str
    tgt: str
    line: int  # in the file it came from, counted from 1


# Everything that some program takes for a line end, and every other control character: a space to the model.
# sentencepiece writes a space as U+2581, so U+2581 is a space here, too.
_SPACES = re.compile("[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u2581\u3000\ufeff]+")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f]")
NO_BREAK_SPACES = "\u00a0\u202f"  # the wide and the narrow one: French has them before ! ? : ; and within « »
_NO_BREAK_SPACE = re.compile(f"[{NO_BREAK_SPACES}]")

_SAVE_FILE = "fix the line, or save the file as UTF-8 (mt check lists such lines)"
_LEAVE_OUT = ", or leave such lines out: --set data.on_bad_line=skip"


def normalize(text: str, keep_no_break_spaces: bool = False) -> str:
    """The text as the model sees it: canonically composed (NFC), one space for any run of whitespace or control
    characters, no space at the ends. A character that a reader sees is never changed.

    Where no-break spaces are kept, a run of whitespace that has one becomes the first one that it has.
    """
    if keep_no_break_spaces and _NO_BREAK_SPACE.search(text):
        return _SPACES.sub(_one_space, _compose(text)).strip(f" {NO_BREAK_SPACES}")
    return _SPACES.sub(" ", _compose(text)).strip(" ")


def _one_space(run: re.Match[str]) -> str:
    found = _NO_BREAK_SPACE.search(run[0])
    return found[0] if found else " "


def edge_spaces(line: str) -> tuple[str, str]:
    """The spaces, tabs and no-break spaces at the beginning and at the end of a line that is not blank."""
    spaces = f" \t{NO_BREAK_SPACES}"
    return line[: len(line) - len(line.lstrip(spaces))], line[len(line.rstrip(spaces)) :]


_MAX_MARKS = 30  # combining marks in a row; Unicode's stream-safe text format (UAX #15) has the same bound
_MAYBE_MANY_MARKS = re.compile(rf"[^\w\x00-\u02ff]{{{_MAX_MARKS + 1}}}")  # quick: matches all long runs of marks


def _compose(text: str) -> str:
    """NFC, which takes quadratic time for combining marks in a row. No script needs more than a few; longer runs than
    `_MAX_MARKS` stay as they are."""
    if not _MAYBE_MANY_MARKS.search(text):
        return unicodedata.normalize("NFC", text)
    pieces = _runs_of_many_marks().split(text)  # every other piece is such a run
    pieces[::2] = [unicodedata.normalize("NFC", piece) for piece in pieces[::2]]
    return "".join(pieces)


@cache
def _runs_of_many_marks() -> re.Pattern[str]:
    marks = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(char)]
    marks += ["\u0f73", "\u0f75", "\u0f81"]  # of class 0 themselves, but each is composed of two marks
    return re.compile(f"([{''.join(marks)}]{{{_MAX_MARKS + 1},}})")


class UnequalLinesError(DataError):
    """Two files have not the same number of lines, which shows after the last pair."""

    files: tuple[str, str]


def read_lines(path: Path) -> list[str]:
    """All lines of a small file, such as a test set. Raises DataError for a device, which may have no end."""
    if not path.is_fifo() and path != Path(os.devnull):
        refuse_special_files([path])
    try:
        return [decode_line(raw, number, str(path)) for number, raw in enumerate(raw_lines(path), 1)]
    except NotUtf8Error as error:
        raise DataError(f"{error}; fix the line, or save the file as UTF-8") from None


@dataclass
class CorpusReport:
    """What was read and what was left out, for people to see. Lines count from 1."""

    n_pairs: int = 0
    n_kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    n_duplicates: int = 0
    notes: list[str] = field(default_factory=list)
    bad_lines: array[int] = field(default_factory=lambda: array("q"))  # that are not UTF-8 and were skipped

    def drop(self, reason: str, n: int = 1) -> None:
        if n:
            self.dropped[reason] = self.dropped.get(reason, 0) + n

    def note_once(self, kind: str, text: str) -> None:
        if not any(note.startswith(kind) for note in self.notes):
            self.notes.append(f"{kind}{text}")

    def describe(self, name: str) -> list[str]:
        lines = [f"{name}: {self.n_kept:,} of {self.n_pairs:,} pairs kept"]
        if self.dropped:
            lines[0] += f" ({', '.join(f'{count:,} {reason}' for reason, count in self.dropped.items())})"
        if self.n_duplicates:
            lines[0] += f"; {self.n_duplicates:,} of these repeated"
        return lines + [f"{name}: {note}" for note in self.notes]


_N_DUPLICATES_REMEMBERED = 1_000_000  # bounds the memory of counting repetitions at about 60 MB


def read_pairs(
    files: list[str],
    *,
    columns: str | None = None,
    on_bad_line: str = "error",
    dedup: bool = False,
    report: CorpusReport | None = None,
    sha256: str | None = None,
) -> Iterator[SentencePair]:
    """The normalized pairs of two aligned files or of one table, one at a time. `columns` names those of a table.

    Targets keep their no-break spaces; `Tokenizer.normalize_tgt` says whether those of a run have them.

    Pairs with an empty side are dropped and counted in `report`. Raises DataError when a file cannot be read, the two
    have different numbers of lines, a row of a table has not its columns, more than half of the pairs have an empty side, no
    pair is left, or, after the last pair, when the files are no longer those whose `sha256_of` is `sha256`.
    """
    refuse_special_files(files)
    report = CorpusReport() if report is None else report
    seen: set[int] = set()
    for pair in _decoded_pairs(files, columns, on_bad_line, report, may_leave_out=True):
        src, tgt = normalize(pair.src), normalize(pair.tgt, keep_no_break_spaces=True)
        if not src or not tgt:
            report.drop("with an empty side")
            continue
        key = hash((src, normalize(tgt)))  # pairs that only differ in no-break spaces are repetitions
        if key in seen:
            if dedup:
                report.drop("repeated")
                continue
            report.n_duplicates += 1
        elif dedup or len(seen) < _N_DUPLICATES_REMEMBERED:
            seen.add(key)
        report.n_kept += 1
        yield SentencePair(src, tgt, pair.line)
    n_empty = report.dropped.get("with an empty side", 0)
    if report.n_pairs == 0:
        raise DataError(f"{files[0]}: no lines; give a file with a sentence on each line")
    if n_empty * 2 > report.n_pairs:
        raise DataError(
            f"{files[0]}: {n_empty:,} of {report.n_pairs:,} pairs have an empty side; check that the files belong together"
        )
    n_undecoded = report.dropped.get("not UTF-8", 0)
    if n_empty + n_undecoded == report.n_pairs:
        raise DataError(
            f"{files[0]}: no pair is left, {n_undecoded:,} of {report.n_pairs:,} are not UTF-8; save the file as UTF-8"
        )
    if sha256 is not None and sha256_of(files) != sha256:
        raise DataError(
            f"{' or '.join(files)}: changed while it was read; run the same command again when it is complete"
        )


def write_copy(pairs: Iterable[SentencePair], file: Path) -> None:
    """Writes normalized pairs to a new file, from which `read_copy` reads them faster than `read_pairs` did."""
    with file.open("x", encoding="utf-8", newline="\n") as handle:
        handle.writelines(f"{pair.line}\t{pair.src}\t{pair.tgt}\n" for pair in pairs)  # normalized text has no tabs


def read_copy(file: Path) -> Iterator[SentencePair]:
    """The pairs that `write_copy` wrote."""
    with file.open(encoding="utf-8", newline="\n") as handle:
        for row in handle:
            line, src, tgt = row.removesuffix("\n").split("\t")
            yield SentencePair(src, tgt, int(line))


def read_test_set(
    files: list[str], *, columns: str | None = None, on_bad_line: str, report: CorpusReport
) -> list[SentencePair]:
    """The pairs of a set that is to be scored: not normalized, with those that have an empty side."""
    pairs = list(read_raw_pairs(files, columns=columns, on_bad_line=on_bad_line, report=report))
    if not pairs:
        raise DataError(f"{files[0]}: no lines to score; give a file with a sentence on each line")
    return pairs


def read_raw_pairs(
    files: list[str], *, columns: str | None = None, on_bad_line: str, report: CorpusReport
) -> Iterator[SentencePair]:
    """The pairs as they are in the files, one at a time: not normalized, with those that have an empty side."""
    refuse_special_files(files)
    yield from _decoded_pairs(files, columns, on_bad_line, report)


def read_monolingual(files: Iterable[str], *, on_bad_line: str, report: CorpusReport) -> Iterator[str]:
    """The lines of text in one language as they are in its files, which are counted in `report` as pairs are. Raises DataError
    when a file cannot be read or has no lines."""
    for file in files:
        refuse_special_files([file])
        n_before = report.n_pairs
        rows = ((number, ((raw, file),)) for number, raw in enumerate(raw_lines(Path(file)), 1))
        for _, (text,) in _decoded(rows, on_bad_line, report, _SAVE_FILE + _LEAVE_OUT):
            yield text
        if report.n_pairs == n_before:
            raise DataError(f"{file}: no lines; give a file with a sentence on each line")


def _decoded_pairs(
    files: list[str], columns: str | None, on_bad_line: str, report: CorpusReport, may_leave_out: bool = False
) -> Iterator[SentencePair]:
    rows = enumerate(_rows_of_two(*files), 1) if len(files) == 2 else _rows_of_one(files[0], columns, report)
    remedy = (_SAVE_FILE if len(files) == 2 else SAVE_AS_UTF_8) + (_LEAVE_OUT if may_leave_out else "")
    for number, (src, tgt) in _decoded(rows, on_bad_line, report, remedy):
        yield SentencePair(src, tgt, number)


def _decoded(
    rows: Iterator[tuple[int, tuple[Side, ...]]], on_bad_line: str, report: CorpusReport, remedy: str
) -> Iterator[tuple[int, list[str]]]:
    for number, sides in rows:
        report.n_pairs += 1
        try:
            texts = [decode_line(raw, number, name) for raw, name in sides]
        except NotUtf8Error as error:
            if on_bad_line == "skip":
                report.drop("not UTF-8")
                report.bad_lines.append(number)
                continue
            raise DataError(f"{error}{further_lines(_further_bad_lines(rows))}; {remedy}") from None
        for (raw, name), text in zip(sides, texts, strict=True):
            if raw.endswith(b"\r\n"):
                report.note_once(f"{name} has Windows line ends", "; the carriage returns are left out")
            if _CONTROL.search(text):
                report.note_once(f"{name} has control characters", f" (first in line {number}); read as spaces")
        yield number, texts


def _further_bad_lines(rows: Iterator[tuple[int, tuple[Side, ...]]]) -> Iterator[int]:
    with contextlib.suppress(DataError):  # of another mistake
        for number, sides in rows:
            try:
                for raw, _ in sides:
                    raw.decode()
            except UnicodeDecodeError:
                yield number


Side = tuple[bytes, str]  # the raw line, and the file's name for messages


def _rows_of_two(src_file: str, tgt_file: str) -> Iterator[tuple[Side, Side]]:
    for src, tgt in zip_longest(raw_lines(Path(src_file)), raw_lines(Path(tgt_file))):
        if src is None or tgt is None:
            raise _unequal_lines(src_file, tgt_file)
        yield (src, src_file), (tgt, tgt_file)


def _unequal_lines(*files: str) -> UnequalLinesError:
    counts = list[str]()
    first_empty = list[tuple[int, str]]()
    for file in files:
        number = 0
        for number, line in enumerate(raw_lines(Path(file)), 1):
            if not line.strip() and not (first_empty and first_empty[0][0] <= number):
                first_empty = [(number, file)]
        counts.append(f"{file} has {number} lines")
    hint = "".join(f" (first empty line: {file}:{number})" for number, file in first_empty)
    error = UnequalLinesError(f"{counts[0]}, {counts[1].removesuffix(' lines')}; make them parallel{hint}")
    error.files = files[0], files[1]
    return error


def _rows_of_one(file: str, columns: str | None, report: CorpusReport) -> Iterator[tuple[int, tuple[Side, Side]]]:
    """The rows of a table, each with the line where it begins; says in `report` how the table was read."""
    layout = find_layout(Path(file), columns)
    if not layout.is_plain:
        report.notes.append(str(layout))
    for line, *cells in read_rows(layout):
        src, tgt = ((_LINE_END.sub(" ", cell).encode("utf-8", "surrogateescape"), file) for cell in cells)
        yield line, (src, tgt)


_LINE_END = re.compile("\r?\n|\r")  # within a cell: a pair has a line on either side


def sha256_of(files: Iterable[str]) -> str:
    """One hash of the bytes of all files, in order. Raises DataError when one cannot be read."""
    files = list(files)
    refuse_special_files(files)
    digest = hashlib.sha256()
    for name in files:
        try:
            with Path(name).open("rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
        except OSError as error:
            raise DataError(f"{name}: {error.strerror}; give the path of a text file, plain or .gz") from None
        digest.update(b"\0")
    return digest.hexdigest()
