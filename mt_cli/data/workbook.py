"""Reads the rows of a workbook (.xlsx, .xls, .ods) by calamine, in a process of its own: a damaged or hostile file makes
calamine ask for any amount of memory, or abort."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mt_cli.display import shortened
from mt_cli.errors import DataError, missing_extra

_MAX_UNPACKED = 1 << 30  # bytes: a sheet of a million long sentence pairs has a third of it
_MAX_MEMORY = 2 << 30  # bytes of the process that reads
_MAX_COLUMNS = 100
_DAMAGED = "cannot be read as a workbook ({}); save it anew as .xlsx without a password, or as .csv"


def read_workbook(file: Path) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """Which sheet is read, if there are others, and each row that is not empty of the first visible one, with its number,
    counted from 1. A formula is its value as it was saved; an error such as #REF! is an empty cell. Raises DataError for
    a file that cannot be read, UsageError if calamine is missing."""
    if importlib.util.find_spec("python_calamine") is None:
        raise missing_extra(f"{file}: reading {file.suffix}", "python-calamine", "xlsx")
    rows = _rows(file)
    _, [sheet] = next(rows)
    return sheet, rows


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """What `_write_rows` writes in another process."""
    try:
        with file.open("rb") as handle:
            is_zip = zipfile.is_zipfile(handle)
            n_bytes = sum(one.file_size for one in zipfile.ZipFile(handle).infolist()) if is_zip else 0
    except zipfile.BadZipFile as error:
        raise DataError(f"{file}: {_DAMAGED.format(error)}") from None
    except OSError as error:
        raise DataError(f"{file}: {error.strerror or error}; give the path of a table") from None
    if n_bytes > _MAX_UNPACKED:
        raise DataError(f"{file}: unpacks to {n_bytes >> 20:,} MiB, expected at most 1,024; save the table as .csv")
    command = [sys.executable, "-P", "-c", f"from {__name__} import _write_rows; _write_rows()", str(file)]
    same_modules = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=same_modules) as child:
        assert child.stdout is not None
        failure = _DAMAGED.format("calamine crashed, or needs more than 2 GiB of memory")
        try:
            for line in child.stdout:
                number, content = json.loads(line)
                if number is None:
                    failure = content
                    break
                yield number, content
        finally:
            child.kill()
    if failure:
        raise DataError(f"{file}: {failure}")


def _write_rows() -> None:
    """Writes a line for each row: its number and its cells; before them 0 and which sheet it is, at the end None and what
    went wrong."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # where memory cannot be limited
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    error = ""
    try:
        from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

        with CalamineWorkbook.from_path(sys.argv[1]) as workbook:
            sheets = [sheet for sheet in workbook.sheets_metadata if sheet.typ == SheetTypeEnum.WorkSheet]
            if not sheets:
                raise DataError("no sheet with cells; save the table as .csv")
            name = next((sheet for sheet in sheets if sheet.visible == SheetVisibleEnum.Visible), sheets[0]).name
            others = f" ({len(sheets) - 1} other{'s' * (len(sheets) > 2)} not read)"
            _write(0, [f'sheet "{shortened(name)}"{others}' if len(sheets) > 1 else ""])
            sheet = workbook.get_sheet_by_name(name)
            left = [""] * (sheet.start or (0, 0))[1]  # the empty columns before the first one
            for number, row in enumerate(sheet.iter_rows(), 1):
                values = (
                    int(one) if isinstance(one, float) and one.is_integer() else one for one in row[:_MAX_COLUMNS]
                )
                cells = left + list(map(str, values))
                while cells and not cells[-1]:
                    cells.pop()
                if cells:
                    _write(number, cells)
    except DataError as problem:
        error = str(problem)
    except BaseException as problem:  # also a panic of the library in Rust
        error = _DAMAGED.format(shortened(f"{type(problem).__name__}: {problem}", 100))
    _write(None, error)


def _write(number: int | None, content: list[str] | str) -> None:
    sys.stdout.writelines(f"{json.dumps((number, content))}\n")
