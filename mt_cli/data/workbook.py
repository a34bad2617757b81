"""Reads the rows of an .xlsx workbook: the only file that knows openpyxl, and what damaged workbooks do to it."""

from __future__ import annotations

import contextlib
import re
import warnings
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from mt_cli.errors import DataError, missing_extra

_MAX_UNPACKED = 1 << 30  # bytes: a sheet of a million long sentence pairs has a third of it
_STRINGS, _MAX_STRINGS = "sharedStrings.xml", 1 << 28  # bytes of the texts, all of which are read before the first row
_MAX_ROWS = 1 << 20  # of a sheet, by the format
_MAX_COLUMNS = 100
_CHUNK = 1024  # rows read at once; divides _MAX_ROWS
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")  # a UTF-16 code unit that XML cannot hold


def read_workbook(file: Path) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """What to tell of the sheets, and each row of the first one that is not hidden, with its number, counted from 1. A
    formula is its value as it was saved, so that `#REF!` is text; an empty cell is "". Raises DataError for a file that cannot
    be read, UsageError if openpyxl is missing."""
    try:
        import openpyxl  # noqa: F401
    except ImportError:
        raise missing_extra(f"{file}: reading .xlsx", "openpyxl", "xlsx") from None
    rows = _rows(file)
    told = next(rows)
    assert isinstance(told, str)
    return told, cast(Iterator[tuple[int, list[str]]], rows)


def _rows(file: Path) -> Iterator[str | tuple[int, list[str]]]:
    """First what to tell of the sheets, then the rows."""
    try:
        with file.open("rb") as handle, contextlib.ExitStack() as stack:
            with _explained(file):
                workbook = _open(file, handle)
                stack.callback(workbook.close)
                sheets = workbook.worksheets
                if not sheets:
                    raise DataError(f"{file}: no sheet with cells; save the table as .csv")
                sheet = next((one for one in sheets if one.sheet_state == "visible"), sheets[0])
                sheet.reset_dimensions()  # some programs write wrong ones
                rows = sheet.iter_rows(values_only=True)
                others = len(sheets) - 1
                title = " ".join(str(sheet.title).split())
            yield f'sheet "{title}" ({others} other{"s" * (others > 1)} not read)' if others else ""
            for start in range(1, _MAX_ROWS + 2, _CHUNK):
                with _explained(file):
                    chunk = [_cells_of(row) for row in islice(rows, _CHUNK)]
                yield from enumerate(chunk, start)
                if len(chunk) < _CHUNK:
                    return
                if start > _MAX_ROWS:
                    raise DataError(f"{file}: more than {_MAX_ROWS:,} rows, which no workbook has; save it as .csv")
    except OSError as error:
        raise DataError(f"{file}: {error.strerror or error}; give the path of a table") from None


def _open(file: Path, handle: IO[bytes]) -> Any:
    import openpyxl

    with zipfile.ZipFile(handle) as archive:
        n_bytes = sum(member.file_size for member in archive.infolist())
        n_strings = sum(member.file_size for member in archive.infolist() if member.filename.endswith(_STRINGS))
    if n_bytes > _MAX_UNPACKED:
        raise DataError(f"{file}: unpacks to {n_bytes >> 20:,} MiB, expected at most 1,024; save the table as .csv")
    if n_strings > _MAX_STRINGS:
        raise DataError(f"{file}: {n_strings >> 20:,} MiB of texts, expected at most 256; save the table as .csv")
    return openpyxl.load_workbook(handle, read_only=True, data_only=True, keep_links=False)


@contextlib.contextmanager
def _explained(file: Path) -> Iterator[None]:
    """Where openpyxl is at work: it warns of what it leaves out, such as colours, and answers damage with a dozen kinds of
    exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (DataError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:100]
        raise DataError(
            f"{file}: cannot be read as a workbook ({reason}); save it anew as .xlsx without a password, or as .csv"
        ) from None


def _cells_of(row: tuple[object, ...]) -> list[str]:
    """Without the empty cells at the end."""
    row = row[:_MAX_COLUMNS]
    n_cells = max((i for i, value in enumerate(row, 1) if value is not None), default=0)
    return [_text_of(value) for value in row[:n_cells]]


def _text_of(value: object) -> str:
    text = "" if value is None else str(value)
    if not _ESCAPED.search(text):
        return text
    unescaped = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
