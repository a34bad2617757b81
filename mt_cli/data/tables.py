"""Reads a table of sentence pairs (.tsv, .csv, or a workbook) as spreadsheets save it.

Finds out how the table is written, whether its first row is a header, and which two columns are source and target. This
file knows rows and columns; which pairs are left out is decided in `corpus.py`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import statistics
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mt_cli.data.languages import code_of_name, may_be_a_word
from mt_cli.data.lines import UTF_16_MARKS, open_text, raw_lines, refuse_other_formats, unreadable
from mt_cli.data.words import is_letter
from mt_cli.data.workbook import read_workbook
from mt_cli.display import shortened
from mt_cli.errors import DataError, UsageError, further_lines

Cells = list[str]
Row = tuple[int, Cells]  # the line where the row begins, counted from 1, or the number of the spreadsheet's row

SAVE_AS_UTF_8 = "save the table as UTF-8: in Excel by Save As, CSV UTF-8 (Comma delimited)"
WORKBOOKS = {".xlsx", ".xls", ".ods"}
TABLES = {".tsv", ".csv", *WORKBOOKS}

COLUMNS_OPTION = "--columns {} (in a config columns: {})"  # how a user names the two

_MAX_SAMPLE_ROWS = 1000
_MAX_SAMPLE_CHARS = 1 << 20
_MAX_CELL_LINES = 100
_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma"}  # where rows agree on several: the one that text has least


@dataclass(frozen=True)
class TableLayout:
    """How a table is written, and where source and target are."""

    file: Path
    delimiter: str  # a tab, a semicolon, a comma; "" in a workbook
    is_quoted: bool  # cells may stand in quotes, and those within are doubled
    header: tuple[str, ...] | None
    columns: tuple[int, int]  # of source and target, counted from 0
    n_columns: int
    encoding: str  # utf-8-sig, utf-16; "" in a workbook
    sheet: str = ""  # of a workbook: which one is read

    @property
    def is_plain(self) -> bool:
        """Whether each line is source, tab, target and nothing else has to be known."""
        is_bare = not self.is_quoted and self.header is None and self.encoding == "utf-8-sig"
        return is_bare and self.delimiter == "\t" and self.n_columns <= 2 and self.columns == (0, 1)

    @property
    def names(self) -> tuple[str, str]:
        """Of the columns of source and target, by the header; "" where it has none."""
        names = [*(self.header or ()), *[""] * self.n_columns]
        return names[self.columns[0]], names[self.columns[1]]

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The codes of the languages that the header gives source and target."""
        src, tgt = self.names
        return code_of_name(src), code_of_name(tgt)

    def __str__(self) -> str:
        """What was found, and which columns are taken."""
        src, tgt = (
            f"column {i + 1}{f' ({_shown(name)})' if name else ''}"
            for i, name in zip(self.columns, self.names, strict=True)
        )
        form = [
            self.sheet,
            "UTF-16" if self.encoding == "utf-16" else "",
            f"{_DELIMITERS[self.delimiter]}s between columns" if self.delimiter else "",
            "quoted cells" if self.is_quoted else "",
            "no header row" if self.header is None else "a header row",
        ]
        others = "; other columns with --columns" if self.n_columns > 2 else ""
        return f"{self.file}: {', '.join(filter(None, form))}; source is {src}, target is {tgt}{others}"


def suffix_of(file: Path) -> str:
    """The ending of the name that says what the file is: .csv of a.CSV.gz."""
    return Path(file.name.removesuffix(".gz")).suffix.lower()


def _shown(cell: str) -> str:
    return shortened(cell.encode("utf-8", "replace").decode(), 30)


def find_layout(file: Path, columns: str | None = None, option: str = COLUMNS_OPTION) -> TableLayout:
    """How the table is written, judged by its first 1,000 rows. `columns` names source and target by their headers or
    numbers: es,gn or 1,3; `option` tells users how.

    Raises DataError for a file that is no table and where it is not clear which columns are source and target, UsageError
    for `columns` that are missing.
    """
    delimiter, is_quoted, encoding, sheet = "", False, "", ""
    if (suffix := suffix_of(file)) in WORKBOOKS:
        sheet, found = read_workbook(file)
        rows = [cells for _, cells in islice(found, _MAX_SAMPLE_ROWS)]
    else:
        encoding = _encoding_of(file)
        delimiter, is_quoted, rows = _form_of(file, encoding, suffix == ".csv")
    rows = [row for row in rows if any(map(str.strip, row))]
    if not rows:
        raise DataError(f"{file}: no rows; give a table with a sentence pair in each row")
    is_bare = delimiter == "\t" and not is_quoted and max(map(len, rows)) <= 2
    if not is_bare and any("\ud800" <= char <= "\udfff" for cell in rows[0] for char in cell):
        raise DataError(f"{file}: its first row is not UTF-8; {SAVE_AS_UTF_8}")
    if columns is None and len(rows) > 1 and sum(map(bool, rows[0])) == 1 and _names_columns(rows[1:]):
        raise DataError(
            f"{file}: its first row is a title, and its second one has the names of the columns; delete the first row"
        )
    widths = Counter(map(len, rows))
    width = widths.most_common(1)[0][0] if delimiter else max(widths)
    given = {name.strip().casefold() for name in (columns or "").split(",") if not name.strip().isdecimal()} - {""}
    names = {cell.strip().casefold() for cell in rows[0]}
    is_headed = _names_columns(rows) or _is_above_numbers(rows) or bool(given & names)
    header = tuple(cell.strip() for cell in rows[0]) if is_headed else None
    table = _Columns(file, option, header, rows[is_headed:], max(2, width, len(header or ())))
    chosen = table.guess() if columns is None else table.named(columns)
    return TableLayout(file, delimiter, is_quoted, header, chosen, table.n_columns, encoding, sheet)


def read_rows(layout: TableLayout) -> Iterator[tuple[int, str, str]]:
    """The line where each row begins, its source cell and its target cell; without the header and without empty rows.

    Bytes that are not UTF-8 are lone surrogates in the cells (PEP 383), and `corpus.py` says where they are. Raises
    DataError for a row without one of the columns, for a comma or semicolon too many, and for a quote that is not closed.
    """
    file = layout.file
    rows = _rows_of_text(file, layout.encoding, layout.delimiter, layout.is_quoted)
    rows = (
        (line, cells)
        for line, cells in (rows if layout.delimiter else read_workbook(file)[1])
        if any(map(str.strip, cells))
    )
    src, tgt = layout.columns
    for line, cells in islice(rows, layout.header is not None, None):
        if not layout.delimiter:
            cells += [""] * layout.n_columns  # empty cells at the end of a row are not saved
        elif fault := _fault_of(cells, layout):
            lines: list[int] = []
            with contextlib.suppress(DataError):  # of another mistake
                lines.extend(line for line, cells in rows if _fault_of(cells, layout))
            expected = f"{len(cells)} columns, expected {layout.n_columns}"
            raise DataError(f"{file}:{line}: {expected}{further_lines(lines)}; {fault}")
        yield line, cells[src], cells[tgt]


# Rows -----------------------------------------------------------------------------------------------------------------


def _fault_of(cells: Cells, layout: TableLayout) -> str | None:
    """What to do about a row that has too few or too many columns."""
    if len(cells) <= max(layout.columns):
        return "complete the row or delete it"
    # A comma that belongs to the text moves what comes after it into the next column.
    if any(map(str.strip, cells[layout.n_columns :])):
        if layout.delimiter == "\t":
            return "put a space in the place of a tab within the text, or name the last column in the header"
        return f"put quotes around a cell that has a {_DELIMITERS[layout.delimiter]} in it"
    return None


class _QuoteError(DataError):
    """A quote that opens a cell is not closed, or text follows the one that closes it."""


_REMEDY = "close the cell with a quote, or write a quote that belongs to the text twice and its cell in quotes"
_FAULTS = {  # of a row, by words of Python's message
    "end of data": f"a quote opens a cell in this row and nothing closes it; {_REMEDY}",
    "field limit": f"a cell of more than {_MAX_CELL_LINES} lines or {csv.field_size_limit():,} characters begins in this row; {_REMEDY}",
    "expected after": f"text comes after the quote that closes a cell in this row, expected the next column; {_REMEDY}",
    "new-line": "a carriage return within a row, expected it at line ends only; delete it, or save the table anew",
}


def _rows_of_text(file: Path, encoding: str, delimiter: str, is_quoted: bool) -> Iterator[Row]:
    if not is_quoted:
        for number, line in enumerate(_lines(file, encoding), 1):
            yield number, line.removesuffix("\n").removesuffix("\r").split(delimiter)
        return
    start, n_read = 1, 0

    def count() -> Iterator[str]:
        nonlocal n_read
        for line in _lines(file, encoding):
            n_read += 1
            if n_read - start >= _MAX_CELL_LINES:
                raise csv.Error("field limit")
            yield line

    reader = csv.reader(count(), delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        start = n_read + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            reason = next((reason for name, reason in _FAULTS.items() if name in str(error)), str(error))
            raise _QuoteError(f"{file}:{start}: {reason}") from None
        if cells is None:
            return
        yield start, cells


_SEPARATOR = re.compile(r"sep=.\s*", re.IGNORECASE)  # a first line that tells some spreadsheets the delimiter


def _lines(file: Path, encoding: str) -> Iterator[str]:
    """The lines with their ends, which are `\\n` alone. What is not UTF-8 becomes lone surrogates."""
    errors = "strict" if encoding == "utf-16" else "surrogateescape"
    n_lines = 0
    try:
        with io.TextIOWrapper(open_text(file), encoding=encoding, errors=errors, newline="\n") as text:
            for n_lines, line in enumerate(text, 1):
                yield line if n_lines > 1 or not _SEPARATOR.fullmatch(line) else "\n"
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(file, error) from None
    except UnicodeDecodeError:
        raise DataError(f"{file}:{n_lines + 1}: invalid UTF-16 here or below; save the table as UTF-8") from None


def _encoding_of(file: Path) -> str:
    """Raises DataError for what is no text."""
    for number, raw in enumerate(islice(raw_lines(file), 2), 1):
        if number == 1 and raw.startswith(UTF_16_MARKS):
            return "utf-16"
        refuse_other_formats(raw, number, str(file))
    return "utf-8-sig"


# Delimiter and quotes -------------------------------------------------------------------------------------------------


def _form_of(file: Path, encoding: str, is_csv: bool) -> tuple[str, bool, list[Cells]]:
    """The delimiter, whether cells may stand in quotes, and the first rows."""
    if not is_csv:
        bare, _ = _sample(file, encoding, "\t", is_quoted=False)
        quoted, fault = _sample(file, encoding, "\t", is_quoted=True)
        is_quoted = fault is None and _is_surely_quoted(quoted, bare)
        delimiter, rows, fault = "\t", quoted if is_quoted else bare, None
    else:
        samples = {delimiter: _sample(file, encoding, delimiter, is_quoted=True) for delimiter in _DELIMITERS}

        def rank(delimiter: str) -> tuple[bool, bool, bool, float]:
            rows, fault = samples[delimiter]
            widths = Counter(len(row) for row in rows if any(map(str.strip, row)))
            width, n_alike = widths.most_common(1)[0] if widths else (0, 0)
            agreement = n_alike / max(1, widths.total())
            return width >= 2, agreement >= 0.9, fault is None, agreement

        delimiter, is_quoted = max(_DELIMITERS, key=rank), True  # the first of equals
        rows, fault = samples[delimiter]
    if not rows and fault is not None:
        raise fault
    if rows and (is_csv or encoding == "utf-16") and max(map(len, rows)) < 2:
        raise DataError(
            f"{file}:1: one column, expected source and target; put a comma, a semicolon or a tab between them"
        )
    return delimiter, is_quoted, rows


def _sample(file: Path, encoding: str, delimiter: str, is_quoted: bool) -> tuple[list[Cells], _QuoteError | None]:
    """The first rows, and the fault that ends them."""
    rows: list[Cells] = []
    n_chars = 0
    try:
        for _, cells in islice(_rows_of_text(file, encoding, delimiter, is_quoted), _MAX_SAMPLE_ROWS):
            rows.append(cells)
            n_chars += sum(map(len, cells))
            if n_chars > _MAX_SAMPLE_CHARS:
                break
    except _QuoteError as error:
        return rows, error
    return rows, None


def _is_surely_quoted(quoted: list[Cells], bare: list[Cells]) -> bool:
    """Of text with tabs, in which quotes can belong to the text: not where every one of them follows the rules of
    spreadsheets, and quotes were needed or all cells have them."""
    if any("\n" in cell for row in quoted for cell in row):
        # In lines that are rows by themselves, a quote that ends some lines later is a speech that goes on.
        return len({len(row) for row in bare if any(row)}) > 1
    if any("\t" in cell for row in quoted for cell in row):
        return True
    cells = [cell for row in bare for cell in row if cell and not cell.isnumeric()]
    begun = [cell for cell in cells if cell.startswith('"')]
    return bool(begun) and (len(begun) == len(cells) or any('""' in cell[1:-1] for cell in begun))


# Header and columns ---------------------------------------------------------------------------------------------------

_SOURCE_NAMES = {"source", "src", "original", "origin", "origen", "fuente", "quelle", "oryginal", "sentence1", "text1"}
_TARGET_NAMES = {
    "target", "tgt", "trg", "translation", "traducción", "traduccion", "traduction", "übersetzung", "sentence2", "text2",
}  # fmt: skip
_SENTENCE_ENDS = tuple(".!?…。！？;,")
_NUMBERED = re.compile(r"[\d/_@\\]")  # John 3:16, clips/7.wav, CC-BY 2.0
_NUMBER = re.compile(r"[-+]?[\d.,]+")


def _role(name: str) -> str | None:
    """What a cell of a header says of its column: the code of a language, or source or target."""
    name = name.strip()
    if len(name) > 40 or len(name.split()) > 4 or name.endswith(_SENTENCE_ENDS):
        return None
    roles = {"source": _SOURCE_NAMES, "target": _TARGET_NAMES}
    return next((role for role, names in roles.items() if name.casefold() in names), None) or code_of_name(name)


def _names_columns(rows: list[Cells]) -> bool:
    """Whether the first of these rows names two languages, or source and target: one alone may be a word, as hi and no are.
    A code of three letters may be a word, too, unless the cells below are much longer."""
    roles = set[str | None]()
    for i, name in enumerate(rows[0]):
        role = _role(name)
        if role and may_be_a_word(role):
            below = [len(row[i]) for row in rows[1:] if i < len(row)]
            role = role if below and statistics.median(below) > 2 * len(name) else None
        roles.add(role)
    return len(roles - {None}) >= 2


def _is_above_numbers(rows: list[Cells]) -> bool:
    """Whether the first of some rows with more than two columns has a word above a column of numbers."""
    for i, name in enumerate(rows[0] if len(rows[0]) > 2 else []):
        below = [row[i].strip() for row in rows[1:] if i < len(row) and row[i].strip()]
        if name.strip() and not _NUMBERED.search(name) and below and all(map(_NUMBER.fullmatch, below)):
            return True
    return False


class _Columns:
    """The columns of a table's first rows, of which two are looked for."""

    def __init__(self, file: Path, option: str, header: tuple[str, ...] | None, rows: list[Cells], n_columns: int):
        self._file, self._option, self.n_columns = file, option, n_columns
        self._names = [*(header or ()), *[""] * n_columns][:n_columns]
        self._roles = list(map(_role, self._names))
        self._cells = [[row[i].strip() for row in rows if i < len(row) and row[i].strip()] for i in range(n_columns)]
        self._weights = [self._n_letters(cells) / max(1, len(rows)) for cells in self._cells]

    def _n_letters(self, cells: Cells) -> int:
        """0 of columns that have numbers in nearly all cells, or where few cells differ: those are no text."""
        if 10 * sum(map(bool, map(_NUMBERED.search, cells))) > 9 * len(cells) or 10 * len(set(cells)) <= len(cells):
            return 0
        return sum(sum(map(is_letter, cell[:200])) for cell in cells)

    def named(self, columns: str) -> tuple[int, int]:
        """The two that `--columns` names."""
        given = [name.strip() for name in columns.split(",")]
        if len(given) != 2 or not all(given):
            raise UsageError(self._unclear(f"columns {columns}: {len(given)} columns, expected 2"))
        src, tgt = map(self._index, given)
        if src == tgt:
            raise UsageError(self._unclear(f"columns {columns}: one column twice, expected two columns"))
        return src, tgt

    def _index(self, name: str) -> int:
        if name.isdecimal() and 1 <= int(name) <= self.n_columns:
            return int(name) - 1
        found = [i for i, other in enumerate(self._names) if other.casefold() == name.casefold()]
        if len(found) != 1:
            number = "no column is" if not found else f"{len(found)} columns are"
            raise UsageError(self._unclear(f"{number} called {name}"))
        return found[0]

    def guess(self) -> tuple[int, int]:
        """The only two; or those that the header calls source and target, or two languages; or the two with the most letters,
        if no third one has a quarter as many. Raises DataError if it is unclear."""
        columns = range(self.n_columns)
        filled = [i for i in columns if self._cells[i] or self._names[i] or self.n_columns == 2]
        roles = [i for role in ("source", "target") for i in filled if self._roles[i] == role]
        named = [i for i in filled if self._roles[i]]
        texts = [i for i in named if self._weights[i]]  # "id" and "nr" are codes of languages, too
        for found in (roles, filled, named, texts):
            if len(found) == 2:
                return found[0], found[1]
        by_weight = sorted(filled, key=lambda i: -self._weights[i])
        if len(filled) > 2 and self._weights[by_weight[1]] > 4 * self._weights[by_weight[2]]:
            first, second = sorted(by_weight[:2])
            return first, second
        raise DataError(self._unclear(f"{self.n_columns} columns, and which are source and target is not clear"))

    def _unclear(self, problem: str) -> str:
        """Also which columns there are, with a sample of each."""
        columns = []
        for i, cells in enumerate(self._cells[:10]):
            name = f" ({_shown(self._names[i])})" if self._names[i] else ""
            columns.append(f"column {i + 1}{name} {_shown(cells[0]) if cells else 'is empty'}")
        more = f" and {self.n_columns - 10:,} more" if self.n_columns > 10 else ""
        example = self._option.replace("{}", self._example())
        advice = f"give the two by name or number, such as {example}"
        return f"{self._file}: {problem}; {advice}: {'; '.join(columns)}{more}"

    def _example(self) -> str:
        """The first two columns of text; of two languages, where the header tells."""
        texts = [i for i in range(self.n_columns) if self._weights[i]]
        others = [i for i in texts if self._roles[i] != self._roles[texts[0]]] or texts[1:]
        chosen = (texts[0], others[0]) if others else (0, 1)
        names = [self._names[i] for i in chosen]
        is_plain = all(re.fullmatch(r"\w*[^\W\d]\w*", name) and self._names.count(name) == 1 for name in names)
        return ",".join(names) if is_plain else f"{chosen[0] + 1},{chosen[1] + 1}"
