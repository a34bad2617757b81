"""Reads a table of sentence pairs: .tsv, .csv, .txt with tabs, a workbook (.xlsx, .xls, .ods), .jsonl or .json, a memory
(.tmx, .xliff, .po). Finds out how the table is written, whether its first row is a header, and which two columns are
source and target."""

import contextlib
import csv
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from mt_cli.config import is_memory
from mt_cli.data.languages import code_of_name, may_be_a_word
from mt_cli.data.lines import SAVE_AS_UTF_8, NotUtf8Error, decode_line, raw_lines
from mt_cli.data.units import OBJECTS, languages_of_units, read_units, suffix_of, texts_of
from mt_cli.display import shortened
from mt_cli.errors import DataError, UsageError, missing_extra

Cells = list[str]
Row = tuple[int, Cells]  # the line where it begins, or its number

_MAX_UNPACKED = 1 << 30  # bytes: a sheet of a million long sentence pairs has a third of it
_MAX_MEMORY = 2 << 30  # bytes of the process that reads
_MAX_COLUMNS = 100
_DAMAGED = "cannot be read as a workbook ({}); save it anew as .xlsx without a password, or as .csv"
_MAX_SAMPLE_ROWS, _MAX_SAMPLE_CHARS = 1000, 1 << 20
_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma"}  # where rows agree on several: the one that text has least


@dataclass(frozen=True)
class TableLayout:
    """How a table is written, and where source and target are."""

    file: Path
    delimiter: str  # a tab, a semicolon, a comma; "" in a workbook and in what has units
    is_quoted: bool  # cells may stand in quotes, and those within are doubled
    header: tuple[str, ...] | None
    columns: tuple[int, int]  # of source and target, counted from 0
    n_columns: int
    sheet: str = ""  # of a workbook: which one is read

    @property
    def names(self) -> list[str]:
        """Of the columns of source and target, by the header; "" where it has none."""
        return [(self.header[i] if self.header is not None and i < len(self.header) else "") for i in self.columns]

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The codes of the languages that the header gives source and target."""
        src, tgt = map(code_of_name, self.names)
        return src, tgt

    def __str__(self) -> str:
        if is_memory(str(self.file)):
            return f"{self.file}: units in {', '.join(self.header or ())}; source is {self.names[0]}, target is {self.names[1]}"
        delimiters = f"{_DELIMITERS[self.delimiter]}s between columns" if self.delimiter else self.sheet
        header = "objects" if suffix_of(self.file) in OBJECTS else f"{'a' if self.header else 'no'} header row"
        form = [delimiters, "quoted cells" * self.is_quoted, header]
        names = [f" ({shortened(name, 30)})" if name else "" for name in self.names]
        src, tgt = (f"column {i + 1}{name}" for i, name in zip(self.columns, names, strict=True))
        return f"{self.file}: {', '.join(filter(None, form))}; source is {src}, target is {tgt}"


def find_layout(file: Path, columns: str | None = None) -> TableLayout:
    """How the table is written, by its first 1,000 rows. `columns` names source and target by header, number or (of a
    memory) language. Raises DataError for what is no table or where the columns are not clear, UsageError for `columns`
    that are missing."""
    if is_memory(str(file)):
        languages, pair = languages_of_units(file, columns.split(",") if columns else None)
        return TableLayout(file, "", False, tuple(languages), pair, len(languages))
    delimiter, is_quoted, sheet, suffix = "", False, "", suffix_of(file)
    if suffix in OBJECTS:
        keys = dict.fromkeys(key for _, texts in islice(read_units(file), _MAX_SAMPLE_ROWS) for key in texts)
        rows, _ = _sample(_rows_of_units(file, tuple(keys)))
    elif suffix == ".csv":
        is_quoted = True
        delimiter, rows = _delimiter_of(file)
    elif suffix in (".tsv", ".txt"):
        delimiter = "\t"
        rows, _ = _sample(_rows_of_text(file, delimiter, is_quoted))
        if is_quoted := _is_surely_quoted(rows):
            rows, _ = _sample(_rows_of_text(file, delimiter, is_quoted))
    else:
        found = read_workbook(file)
        _, [sheet] = next(found)
        rows, _ = _sample(found)
    if not rows:
        raise DataError(f"{file}: no rows; give a table with a sentence pair in each row")
    widths = Counter(map(len, rows))
    if delimiter and max(widths) < 2:
        between = "a comma, a semicolon or a tab" if suffix == ".csv" else "a tab"
        expected = f"expected source and target with {between} between them"
        raise DataError(f"{file}:1: one column, {expected}; give such a table, or two text files")
    n_columns = widths.most_common(1)[0][0] if delimiter else max(widths)
    given = {name.strip().casefold() for name in (columns or "").split(",") if not name.strip().isdecimal()} - {""}
    header = None
    if suffix in OBJECTS or _names_columns(rows) or not given.isdisjoint(cell.strip().casefold() for cell in rows[0]):
        header = tuple(cell.strip() for cell in rows.pop(0))
        n_columns = max(n_columns, len(header))
    n_columns = max(2, n_columns)
    names = [*(header or ()), *[""] * n_columns][:n_columns]
    chosen = _choose_columns(file, names, rows, columns)
    return TableLayout(file, delimiter, is_quoted, header, chosen, n_columns, sheet)


def read_rows(layout: TableLayout) -> Iterator[tuple[int, str, str]]:
    """Line, source and target of each row that is not empty. Bytes that are not UTF-8 are lone surrogates (PEP 383). Raises
    DataError for a row without one of the columns, for a delimiter too many, and for a quote that is not closed."""
    file, delimiter, n_columns = layout.file, layout.delimiter, layout.n_columns
    if is_memory(str(file)):
        for number, texts in read_units(file):
            if all(pair := texts_of(texts, layout.names)):
                yield number, pair[0], pair[1]
        return
    if delimiter:
        found = _rows_of_text(file, delimiter, layout.is_quoted)
    elif suffix_of(file) in OBJECTS:
        found = _rows_of_units(file, layout.header or ())
    else:
        next(found := read_workbook(file))
    rows = ((line, cells) for line, cells in found if any(map(str.strip, cells)))
    src, tgt = layout.columns
    for line, cells in islice(rows, layout.header is not None, None):
        if not delimiter:
            cells += [""] * n_columns  # empty cells at the end of a row are not saved
        elif len(cells) <= max(src, tgt) or any(map(str.strip, cells[n_columns:])):
            in_text = "delete the tab within the text", "put a cell with a comma or semicolon in quotes"
            advice = "complete the row or delete it" if len(cells) < n_columns else in_text[delimiter != "\t"]
            raise DataError(f"{file}:{line}: {len(cells)} columns, expected {n_columns}; {advice}")
        yield line, cells[src], cells[tgt]


# How it is written ----------------------------------------------------------------------------------------------------


def _rows_of_units(file: Path, header: tuple[str, ...]) -> Iterator[Row]:
    """Of objects: their keys as a header, and the values of each."""
    yield 0, list(header)
    yield from ((number, [texts.get(name, "") for name in header]) for number, texts in read_units(file))


class _QuoteError(DataError):
    """A quote that opens a cell is not closed, or text follows the one that closes it."""


def _rows_of_text(file: Path, delimiter: str, is_quoted: bool) -> Iterator[Row]:
    """Each row, with the line where it begins. What is not UTF-8 becomes lone surrogates; in the first line it is an
    error."""
    lines = raw_lines(file)
    try:
        first = f"{decode_line(next(lines, b''), 1, str(file))}\n"
    except NotUtf8Error as error:
        raise DataError(f"{error}; {SAVE_AS_UTF_8}") from None
    rows = chain([first], (raw.decode("utf-8", "surrogateescape") for raw in lines))
    if not is_quoted:
        for number, line in enumerate(rows, 1):
            yield number, line.removesuffix("\n").removesuffix("\r").split(delimiter)
        return
    reader, start = csv.reader(rows, delimiter=delimiter, skipinitialspace=True, strict=True), 1
    try:
        for cells in reader:
            yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        found = f"a row that begins here cannot be read ({str(error).partition(' - ')[0]})"
        advice = "close each cell that begins with a quote, and write a quote that belongs to the text twice"
        raise _QuoteError(f"{file}:{start}: {found}; {advice}") from None


def _sample(found: Iterator[Row]) -> tuple[list[Cells], _QuoteError | None]:
    """The cells of the first rows that are not empty, and the fault that ends them."""
    rows, n_chars = list[Cells](), 0
    try:
        for _, cells in islice(found, _MAX_SAMPLE_ROWS):
            rows += [cells] if any(map(str.strip, cells)) else []
            n_chars += sum(map(len, cells))
            if n_chars > _MAX_SAMPLE_CHARS:
                break
    except _QuoteError as error:
        return rows, error
    return rows, None


def _delimiter_of(file: Path) -> tuple[str, list[Cells]]:
    """The delimiter of a .csv file, by which most of the first rows have as many cells; and these rows."""
    samples = {delimiter: _sample(_rows_of_text(file, delimiter, is_quoted=True)) for delimiter in _DELIMITERS}

    def rank(delimiter: str) -> tuple[bool, bool, bool, float]:
        rows, fault = samples[delimiter]
        widths = Counter(map(len, rows))
        width, n_alike = widths.most_common(1)[0] if widths else (0, 0)
        agreement = n_alike / max(1, widths.total())
        return width >= 2, agreement >= 0.9, fault is None, agreement

    delimiter = max(_DELIMITERS, key=rank)  # the first of equals
    rows, fault = samples[delimiter]
    if not rows and fault is not None:
        raise fault
    return delimiter, rows


def _is_surely_quoted(rows: list[Cells]) -> bool:
    """Of a .tsv, whose text may have quotes: where all follow the rules of spreadsheets, and were needed or are
    everywhere."""
    cells = [cell for row in rows for cell in row if cell and not cell.isnumeric()]
    begun = [cell for cell in cells if cell.startswith('"')]
    is_regular = bool(begun) and all(re.fullmatch('"(?:[^"]|"")*"', cell) for cell in begun)
    return is_regular and (len(begun) == len(cells) or any('""' in cell[1:-1] for cell in begun))


# Header and columns ---------------------------------------------------------------------------------------------------

_SOURCE_NAMES = ["source", "src", "original", "origin", "origen", "fuente", "quelle", "oryginal", "sentence1", "text1"]
_TARGET_NAMES = [
    "target", "tgt", "trg", "translation", "traducción", "traduccion", "traduction", "übersetzung", "sentence2", "text2",
]  # fmt: skip
_ROLES = dict.fromkeys(_SOURCE_NAMES, "source") | dict.fromkeys(_TARGET_NAMES, "target")


def _role(name: str) -> str | None:
    """What a cell of a header says of its column: the code of a language, or source or target."""
    name = name.strip()
    if len(name) > 40 or len(name.split()) > 4 or name.endswith(tuple(".!?…。！？;,")):
        return None
    return _ROLES.get(name.casefold()) or code_of_name(name)


def _names_columns(rows: list[Cells]) -> bool:
    """Whether the first of these rows names two languages, or source and target: one alone may be a word, as hi and no are.
    A code of three letters may be a word, too, unless the cells below are much longer."""
    roles = set[str]()
    for i, name in enumerate(rows[0]):
        if role := _role(name):
            below = [len(row[i]) for row in rows[1:] if i < len(row)]
            if not may_be_a_word(role) or (below and statistics.median(below) > 2 * len(name)):
                roles.add(role)
    return len(roles) >= 2


def _choose_columns(file: Path, names: list[str], rows: list[Cells], columns: str | None) -> tuple[int, int]:
    """Source and target: those that `columns` names; or those that the header calls source and target; or the only two
    with text, which numbers, names of clips and Anki's attributions are not; or two languages."""
    cells = [[row[i].strip() for row in rows if i < len(row) and row[i].strip()] for i in range(len(names))]
    roles, all_columns = list(map(_role, names)), range(len(names))
    texts = [i for i in all_columns if len(names) == 2 or not all(re.search(r"\d", cell) for cell in cells[i])]
    named = [i for i in texts if roles[i]]
    if columns is None:
        found = [[i for role in ("source", "target") for i in all_columns if roles[i] == role], texts, named]
        problem = f"{len(names)} columns, and which are source and target is not clear"
    else:
        names_of = [{name.casefold(), str(i)} - {""} for i, name in enumerate(names, 1)]
        meant = [[i for i in all_columns if one.strip().casefold() in names_of[i]] for one in columns.split(",")]
        is_clear = [len(one) for one in meant] == [1, 1] and meant[0] != meant[1]
        found = [meant[0] + meant[1]] if is_clear else []
        problem = f"columns {columns}, expected two of its columns"
    for one in found:
        if len(one) == 2:
            return one[0], one[1]
    shown = [
        f"column {i + 1}{f' ({shortened(names[i], 30)})' if names[i] else ''} {shortened(own[0], 30) if own else 'is empty'}"
        for i, own in enumerate(cells[:10])
    ]
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    example = format_columns_option(*(named if len(named) > 1 else [0, 1])[:2])
    kind = DataError if columns is None else UsageError
    raise kind(f"{file}: {problem}; give the two by number or name, such as {example}: {'; '.join(shown)}{more}")


def format_columns_option(src: int, tgt: int) -> str:
    """How a user names two columns, counted from 0."""
    columns = f"{src + 1},{tgt + 1}"
    return f"--columns {columns} (of a list of words: --set data.words.columns={columns})"


# Workbooks ------------------------------------------------------------------------------------------------------------


def read_workbook(file: Path) -> Iterator[Row]:
    """0 and which sheet is read, if there are others; then each row that is not empty of the first visible one. A
    formula is its value as it was saved, an error such as #REF! an empty cell. `_write_rows` reads them in a process of
    its own: a damaged or hostile file makes calamine ask for any amount of memory, or abort. Raises DataError for a
    file that cannot be read."""
    if importlib.util.find_spec("python_calamine") is None:
        raise missing_extra(f"{file}: reading {file.suffix}", "python-calamine", "xlsx")
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
    """Writes each row of `read_workbook` as a line, at the end None and what went wrong."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # where memory cannot be limited
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))

    def write(number: int | None, content: Cells | str) -> None:
        sys.stdout.writelines(f"{json.dumps((number, content))}\n")

    error = ""
    try:
        from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

        with CalamineWorkbook.from_path(sys.argv[1]) as workbook:
            sheets = [sheet for sheet in workbook.sheets_metadata if sheet.typ == SheetTypeEnum.WorkSheet]
            if not sheets:
                raise DataError("no sheet with cells; save the table as .csv")
            name = next((sheet for sheet in sheets if sheet.visible == SheetVisibleEnum.Visible), sheets[0]).name
            others = f" ({len(sheets) - 1} other{'s' * (len(sheets) > 2)} not read)"
            write(0, [f'sheet "{shortened(name)}"{others}' if len(sheets) > 1 else ""])
            sheet = workbook.get_sheet_by_name(name)
            left = [""] * (sheet.start or (0, 0))[1]  # the empty columns before the first one
            for number, row in enumerate(sheet.iter_rows(), 1):
                own = row[:_MAX_COLUMNS]
                cells = left + [str(int(one) if isinstance(one, float) and one.is_integer() else one) for one in own]
                while cells and not cells[-1]:
                    cells.pop()
                if cells:
                    write(number, cells)
    except DataError as problem:
        error = str(problem)
    except BaseException as problem:  # also a panic of the library in Rust
        error = _DAMAGED.format(shortened(f"{type(problem).__name__}: {problem}", 100))
    write(None, error)
