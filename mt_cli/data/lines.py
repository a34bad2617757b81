"""Opens text files and decides what a line is, the only place that does: it ends at `\\n` and nowhere else, as `wc -l`
counts. Each is decoded by itself, so that an error names file and line; a file whose name ends in `.gz` is unpacked."""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, cast

from mt_cli.errors import DataError

SAVE_AS_UTF_8 = "save the table as UTF-8: in Excel by Save As, CSV UTF-8 (Comma delimited)"
_PACKED = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<bzip2>BZh[1-9]1AY&SY)|(?P<xz>\xfd7zXZ\0)|(?P<zstd>\x28\xb5\x2f\xfd)|(?P<zip>PK\x03\x04)"
)
# The first line of a file in UTF-16: it has a byte order mark, begins with four characters, or is shorter.
_UTF_16 = re.compile(
    rb"\xff\xfe|\xfe\xff|(?:[^\0]\0){4}|[\x20-\xff]\0(?:[^\0]\0){0,2}\n?\Z|(?:\0[^\0]){4}|\0[\x20-\xff](?:\0[^\0]){0,3}\0?\Z"
)
_MANY_LINES = 30  # of a file that has no other line ends: fewer carriage returns may be dirt in a line
_MAX_LINE = 1 << 26  # bytes: a small .gz can hold a line that no memory does


class NotUtf8Error(DataError):
    """The bytes of a line are not UTF-8; a caller may skip the line or decode it in another way."""


def decode_line(raw: bytes, number: int, name: str) -> str:
    """The text of line `number`. Raises NotUtf8Error, and DataError if the first line is UTF-16 or packed."""
    if number == 1:
        if _UTF_16.match(raw):
            raise DataError(f"{name}:1: UTF-16 text, expected UTF-8; save the file as UTF-8")
        if found := _PACKED.match(raw):
            as_table = "give it alone as a whole corpus, or save its sentences as text, one on each line"
            remedy = as_table if name.lower().endswith((".xlsx", ".ods")) else "unpack it"
            raise DataError(f"{name}:1: {found.lastgroup} file, expected text; {remedy}")
        raw = raw.removeprefix(b"\xef\xbb\xbf")  # a byte order mark, which would become part of the first word
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"{name}:{number}: invalid UTF-8 at byte {error.start + 1} (0x{raw[error.start]:02x})"
        raise NotUtf8Error(where) from None


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines with their ends. Raises DataError for a file that cannot be read, and for lines without end."""
    try:
        with cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(iter(partial(file.readline, _MAX_LINE), b""), 1):
                if number == 1 and line.count(b"\r") >= _MANY_LINES and not line.endswith(b"\n"):
                    raise DataError(f"{path}:1: lines end in carriage returns alone; save it with other line ends")
                if len(line) == _MAX_LINE:
                    raise DataError(f"{path}:{number}: a line of 64 MiB or more, expected a sentence on each line")
                yield line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or f"damaged gzip file ({error})"
        raise DataError(f"{path}: {reason}; give the path of a text file, plain or .gz") from None


def refuse_special_files(files: Iterable[str | Path]) -> None:
    """Raises DataError for a pipe or a device, which may have no end. What is missing is named when it is opened."""
    for file in map(Path, files):
        if file.exists() and not file.is_file() and not file.is_dir():
            raise DataError(f"{file}: is not a regular file; give the path of a text file, plain or .gz")
