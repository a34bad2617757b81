"""Opens text files and decides what a line is: the only place that does.

A line ends at `\\n` and nowhere else, as `wc -l` counts; a last line without one still is a line. Files are read as
bytes, `.gz` by its name, and decoded as UTF-8 line by line, so that an error names file and line. Every line of text
that is trained on or translated passes `normalize`; what is scored by `mt evaluate` stays as it is. This file knows
nothing of tokens.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import IO, NamedTuple, cast

from mt_cli.errors import DataError


class SentencePair(NamedTuple):
    src: str
    tgt: str
    line: int  # in the file it came from, counted from 1


# Everything that some program takes for a line end, and every other control character: a space to the model.
# U+2581 is how sentencepiece writes a space, so it is one here already.
_FOLDED = re.compile("[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u2581\u3000\ufeff]+")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f]")


_PACKED = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<bzip2>BZh[1-9]1AY&SY)|(?P<xz>\xfd7zXZ\0)|(?P<zstd>\x28\xb5\x2f\xfd)|(?P<zip>PK\x03\x04)"
)
_UTF_16 = re.compile(rb"(?P<LE>(?:[^\0]\0){4})|(?P<BE>(?:\0[^\0]){4})")  # four characters of it, without a mark


def normalize(text: str) -> str:
    """The text as the model sees it: canonically composed (NFC), one space where any run of whitespace or control
    characters was, none at the ends. What a reader would see as another character is never changed."""
    return _FOLDED.sub(" ", unicodedata.normalize("NFC", text)).strip(" ")


class NotUtf8Error(DataError):
    """A line's bytes are no UTF-8; a caller may leave the line out or read on."""


def decode_line(raw: bytes, number: int, name: str) -> str:
    """One line's text, not normalized. Raises NotUtf8Error, and DataError for a file of another kind."""
    if number == 1:
        _refuse_other_files(raw, name)
        raw = raw.removeprefix(b"\xef\xbb\xbf")  # a byte order mark, which would be part of the first word
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"{name}:{number}: invalid UTF-8 at byte {error.start + 1} (0x{raw[error.start]:02x})"
        raise NotUtf8Error(where) from None


def _refuse_other_files(beginning: bytes, name: str) -> None:
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{name}:1: UTF-16 file; convert with: iconv -f UTF-16 -t UTF-8")
    if found := _UTF_16.match(beginning):
        raise DataError(f"{name}:1: UTF-16 file; convert with: iconv -f UTF-16{found.lastgroup} -t UTF-8")
    if found := _PACKED.match(beginning):
        raise DataError(f"{name}:1: {found.lastgroup} file, expected text; unpack it")


def read_lines(path: Path) -> list[str]:
    """All lines of a small file, such as a test set."""
    try:
        return [decode_line(raw, number, str(path)) for number, raw in enumerate(_raw_lines(path), 1)]
    except NotUtf8Error as error:
        raise DataError(f"{error}; fix the line") from None


def _raw_lines(path: Path) -> Iterator[bytes]:
    try:
        with _open(path) as file:
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or f"damaged gzip file ({error})"
        raise DataError(f"{path}: {reason}; give the path of a text file, plain or .gz") from None


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


@dataclass
class CorpusReport:
    """What was read and what was left out, for people to see. Lines count from 1."""

    n_pairs: int = 0
    n_kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    n_duplicates: int = 0
    notes: list[str] = field(default_factory=list)

    def drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def note_once(self, kind: str, text: str) -> None:
        if not any(note.startswith(kind) for note in self.notes):
            self.notes.append(f"{kind}{text}")

    def describe(self, name: str) -> list[str]:
        lines = [f"{name}: {self.n_kept:,} of {self.n_pairs:,} pairs kept"]
        if self.dropped:
            lines[0] += f" ({', '.join(f'{count:,} {reason}' for reason, count in self.dropped.items())})"
        if self.n_duplicates:
            lines[0] += f"; {self.n_duplicates:,} repeated"
        return lines + [f"{name}: {note}" for note in self.notes]


_N_DUPLICATES_REMEMBERED = 1_000_000  # bounds the memory of counting repetitions at about 60 MB


def read_pairs(
    files: list[str], *, on_bad_line: str = "error", dedup: bool = False, report: CorpusReport | None = None
) -> Iterator[SentencePair]:
    """The normalized pairs of two aligned files or of one TSV, one at a time.

    Pairs with an empty side are dropped and counted in `report`. Raises DataError when a file cannot be read, the two
    have different numbers of lines, a TSV row has not two columns, more than half of the pairs have an empty side, or no
    pair is left.
    """
    report = CorpusReport() if report is None else report
    seen: set[int] = set()
    for pair in _decoded_pairs(files, on_bad_line, report, "fix the line or set data.on_bad_line: skip"):
        src, tgt = normalize(pair.src), normalize(pair.tgt)
        if not src or not tgt:
            report.drop("with an empty side")
            continue
        key = hash((src, tgt))
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
            f"{files[0]}: no pair is left, {n_undecoded:,} of {report.n_pairs:,} are not UTF-8; convert with: iconv -t UTF-8"
        )


def read_test_set(files: list[str], *, on_bad_line: str, report: CorpusReport) -> list[SentencePair]:
    """`read_pairs` for what is to be scored: the pairs as they stand in the files, blank ones too."""
    for file in map(Path, files):
        if file.exists() and not file.is_file():  # a pipe would wait for ever, a device may have no end
            raise DataError(f"{file}: is not a regular file; give the path of a text file, plain or .gz")
    pairs = list(_decoded_pairs(files, on_bad_line, report, "fix the line"))
    if not pairs:
        raise DataError(f"{files[0]}: no lines to score; give a file with a sentence on each line")
    return pairs


def _decoded_pairs(files: list[str], on_bad_line: str, report: CorpusReport, remedy: str) -> Iterator[SentencePair]:
    rows = _rows_of_tsv(files[0]) if len(files) == 1 else _rows_of_two(files[0], files[1])
    for number, sides in enumerate(rows, 1):
        report.n_pairs += 1
        try:
            src, tgt = (decode_line(raw, number, name) for raw, name in sides)
        except NotUtf8Error as error:
            if on_bad_line == "skip":
                report.drop("not UTF-8")
                continue
            others = _likewise(
                n for n, later in enumerate(rows, number + 1) if not all(_is_utf_8(raw) for raw, _ in later)
            )
            raise DataError(f"{error}{others}; {remedy}") from None
        for (raw, name), text in zip(sides, (src, tgt), strict=True):
            if raw.endswith(b"\r\n"):
                report.note_once(f"{name} has Windows line ends", "; the carriage returns are left out")
            if _CONTROL.search(text):
                report.note_once(f"{name} has control characters", f" (first in line {number}); read as spaces")
        yield SentencePair(src, tgt, number)


def _is_utf_8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _likewise(lines: Iterable[int]) -> str:
    """Further lines with the same mistake, so that one look at the file mends them all."""
    numbers = list(lines)
    if not numbers:
        return ""
    more = f" and {len(numbers) - 10:,} more" if len(numbers) > 10 else ""
    return f", likewise line{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:10]))}{more}"


Side = tuple[bytes, str]  # the raw line, and the file's name for messages


def _rows_of_two(src_file: str, tgt_file: str) -> Iterator[tuple[Side, Side]]:
    first_empty = ""
    src_lines, tgt_lines = _raw_lines(Path(src_file)), _raw_lines(Path(tgt_file))
    for n_lines, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines)):
        if src is None or tgt is None:
            n_rest = 1 + sum(1 for _ in (tgt_lines if src is None else src_lines))
            n_src, n_tgt = (n_lines, n_lines + n_rest) if src is None else (n_lines + n_rest, n_lines)
            hint = f" (first empty line: {first_empty})" if first_empty else ""
            raise DataError(f"{src_file} has {n_src} lines, {tgt_file} has {n_tgt}; make them parallel{hint}")
        if not first_empty and not (src.strip() and tgt.strip()):
            first_empty = f"{tgt_file if src.strip() else src_file}:{n_lines + 1}"
        yield (src, src_file), (tgt, tgt_file)


def _rows_of_tsv(file: str) -> Iterator[tuple[Side, Side]]:
    rows = enumerate(_raw_lines(Path(file)), 1)
    for number, raw in rows:
        if number == 1:
            _refuse_other_files(raw, file)
        columns = raw.split(b"\t")  # the last with its line end, which is told and taken off where text is decoded
        if len(columns) != 2:
            others = _likewise(n for n, later in rows if later.count(b"\t") != 1)
            raise DataError(f"{file}:{number}: {len(columns)} columns, expected 2 (source, a tab, target){others}")
        yield (columns[0], file), (columns[1], file)


def sha256_of(files: Iterable[str]) -> str:
    """One hash of the bytes of all files, in order."""
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
