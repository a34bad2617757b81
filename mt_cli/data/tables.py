"""Reads a table of sentence pairs (.tsv, .csv or .xlsx) as spreadsheets save it.

Finds out how the table is written, whether its first row is a header, and which two columns are source and target. This
file knows rows and columns; what a line of plain text is, and which pairs are left out, is decided in `corpus.py`.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import statistics
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, cast

from mt_cli.data.languages import code_of_name
from mt_cli.data.workbook import read_workbook
from mt_cli.errors import DataError, further_lines

Cells = list[str]
Row = tuple[
    int, Cells
]  # the line of the file where the row begins, counted from 1, or the number of the spreadsheet's row

_MAX_SAMPLE_ROWS = 1000
_MAX_SAMPLE_CHARS = 1 << 20
_MAX_CELL_LINES = 100
_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma"}  # where rows agree on several: the one that text has least


@dataclass(frozen=True)
class TableLayout:
    """How a table is written, and where source and target are."""

    file: Path
    delimiter: str  # a tab, a semicolon, a comma; "" in .xlsx
    is_quoted: bool  # cells may stand in quotes, and those within are doubled
    header: tuple[str, ...] | None
    columns: tuple[int, int]  # of source and target, counted from 0
    n_columns: int
    encoding: str  # utf-8-sig, utf-16; "" in .xlsx
    skips_spaces: bool = False  # a quoted cell may begin with spaces: "Hello", "Hola"
    sheet: str = ""  # of .xlsx: which one is read

    @property
    def is_plain(self) -> bool:
        """Whether each line is source, tab, target and nothing else has to be known."""
        is_bare = not self.is_quoted and self.header is None and self.encoding == "utf-8-sig"
        return is_bare and self.delimiter == "\t" and self.n_columns <= 2 and self.columns == (0, 1)


def find_layout(file: Path, columns: str | None = None) -> TableLayout:
    """How the table is written, judged by its first 1,000 rows. `columns` names source and target by their headers or
    numbers, as `--columns` does: es,gn or 1,3.

    Raises DataError for a file that is no table, and where it is not clear which columns are source and target.
    """
    suffix = Path(file.name.removesuffix(".gz")).suffix.lower()
    if suffix in {".xls", ".ods"}:
        raise DataError(f"{file}: a spreadsheet of another format; save it as .xlsx or .csv")
    delimiter, is_quoted, skips_spaces, encoding, sheet = "", False, False, "", ""
    if suffix == ".xlsx":
        sheet, found = read_workbook(file)
        rows = [cells for _, cells in islice(found, _MAX_SAMPLE_ROWS)]
    else:
        encoding = _encoding_of(file)
        form = _form_of(file, encoding, is_csv=suffix == ".csv")
        delimiter, is_quoted, skips_spaces, rows = form.delimiter, form.is_quoted, form.skips_spaces, form.rows
    rows = [row for row in rows if any(map(str.strip, row))]
    if not rows and (suffix in {".csv", ".xlsx"} or encoding == "utf-16"):
        raise DataError(f"{file}: no rows; give a table with a sentence pair in each row")
    if columns is None and _has_title(rows):
        raise DataError(
            f"{file}: its first row is a title, and its second one has the names of the columns; delete the first row"
        )
    widths = Counter(map(len, rows))
    width = widths.most_common(1)[0][0] if delimiter and rows else max(widths, default=0)
    is_bare = delimiter == "\t" and not is_quoted and width <= 2
    is_headed = _is_named(rows, columns) or _is_header(rows, is_bare)
    header = tuple(cell.strip() for cell in rows[0]) if is_headed else None
    table = _Columns(file, header, rows[is_headed:], max(width, len(header or ())))
    if columns is not None:
        chosen = table.named(columns)
    elif is_bare and header is None:
        chosen = 0, 1
    else:
        chosen = table.guess()
    n_columns = max(2, table.n_columns)
    return TableLayout(file, delimiter, is_quoted, header, chosen, n_columns, encoding, skips_spaces, sheet)


def _has_title(rows: list[Cells]) -> bool:
    """Whether the first row has one cell alone, and the second one names two languages."""
    if len(rows) < 2 or sum(bool(cell.strip()) for cell in rows[0]) != 1:
        return False
    return len({code_of_name(cell) for cell in rows[1]} - {None}) >= 2


def languages_of(layout: TableLayout) -> tuple[str | None, str | None]:
    """The codes of the languages that the headers of source and target tell, or None."""
    src, tgt = layout.columns
    names = [""] * layout.n_columns if layout.header is None else [*layout.header, *[""] * layout.n_columns]
    return code_of_name(names[src]), code_of_name(names[tgt])


def describe(layout: TableLayout) -> str:
    """One line for people: what was found, and which columns were taken."""
    names = [""] * layout.n_columns if layout.header is None else [*layout.header, *[""] * layout.n_columns]
    src, tgt = (f"column {i + 1}{f' ({names[i]})' if names[i] else ''}" for i in layout.columns)
    form = [
        layout.sheet,
        "UTF-16" if layout.encoding == "utf-16" else "",
        f"{_DELIMITERS[layout.delimiter]}s between columns" if layout.delimiter else "",
        "quoted cells" if layout.is_quoted else "",
        "a header row" if layout.header is not None else "no header row",
    ]
    others = "; other columns with --columns" if layout.n_columns > 2 else ""
    return f"{layout.file}: {', '.join(filter(None, form))}; source is {src}, target is {tgt}{others}"


def read_rows(file: Path, layout: TableLayout) -> Iterator[tuple[int, str, str]]:
    """The line where each row begins, its source cell and its target cell; without the header and without empty rows.

    Bytes that are not UTF-8 are lone surrogates in the cells (PEP 383), and `corpus.py` says where they are. Raises
    DataError for a row without one of the columns, for a comma or semicolon too many, and for a quote that is not closed.
    """
    rows = _rows_of_text(file, layout) if layout.delimiter else read_workbook(file)[1]
    src, tgt = layout.columns
    is_header = layout.header is not None
    for line, cells in rows:
        if not any(map(str.strip, cells)):
            continue
        if is_header:
            is_header = False
            continue
        if not layout.delimiter:
            cells += [""] * layout.n_columns  # empty cells at the end of a row are not saved
        elif fault := _fault_of(cells, layout):
            others = _further_faults(rows, layout)
            raise DataError(f"{file}:{line}: {len(cells)} columns, expected {layout.n_columns}{others}; {fault}")
        yield line, cells[src], cells[tgt]


# Rows -----------------------------------------------------------------------------------------------------------------


def _fault_of(cells: Cells, layout: TableLayout) -> str | None:
    """What to do about a row that has too few or too many columns."""
    if len(cells) <= max(layout.columns):
        return "complete the row or delete it"
    # A comma that belongs to the text moves what comes after it into the next column.
    if any(map(str.strip, cells[layout.n_columns :])):
        name = _DELIMITERS[layout.delimiter]
        if layout.delimiter == "\t":
            return "put a space in the place of a tab within the text, or name the last column in the header"
        return f"put quotes around a cell that has a {name} in it, or save the table with another delimiter"
    return None


def _further_faults(rows: Iterator[Row], layout: TableLayout) -> str:
    lines: list[int] = []
    with contextlib.suppress(DataError):  # of another mistake
        lines.extend(line for line, cells in rows if any(map(str.strip, cells)) and _fault_of(cells, layout))
    return further_lines(lines)


def _rows_of_text(file: Path, layout: TableLayout) -> Iterator[Row]:
    lines = _lines(file, layout.encoding)
    if not layout.is_quoted:
        for number, line in enumerate(lines, 1):
            yield number, _split(line, layout.delimiter)
        return
    start, n_read = 1, 0

    def count() -> Iterator[str]:
        nonlocal n_read
        for line in lines:
            n_read += 1
            if n_read - start >= _MAX_CELL_LINES:
                raise _unclosed(file, start, f"{_MAX_CELL_LINES} lines")
            yield line

    reader = csv.reader(count(), delimiter=layout.delimiter, skipinitialspace=layout.skips_spaces, strict=True)
    while True:
        start = n_read + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise _explain(error, file, start, n_read) from None
        if cells is None:
            return
        yield start, cells


def _unclosed(file: Path, line: int, extent: str) -> DataError:
    return DataError(
        f"{file}:{line}: a cell of more than {extent} begins in this row, expected a closing quote;"
        " close its quote, or write the quote twice and the cell in quotes if it belongs to the text"
    )


def _explain(error: csv.Error, file: Path, start: int, line: int) -> DataError:
    """What is wrong with the row that begins in line `start`, of which `line` was read last."""
    reason = str(error)
    if "end of data" in reason:
        return DataError(
            f"{file}:{start}: a quote opens a cell in this row and nothing closes it, expected a closing quote;"
            " close it, or write it twice and the cell in quotes if it belongs to the text"
        )
    if "field limit" in reason:
        return _unclosed(file, start, f"{csv.field_size_limit():,} characters")
    if "expected after" in reason:
        where = f" (in line {line})" if line > start else ""
        return DataError(
            f"{file}:{start}: text comes after the quote that closes a cell{where}, expected the next column;"
            " close the cell before it, or write quotes within a cell twice"
        )
    return DataError(f"{file}:{line}: a carriage return within a row, expected it at line ends only; delete it")


def _lines(file: Path, encoding: str) -> Iterator[str]:
    """The lines with their ends, which are `\\n` alone. What is not UTF-8 becomes lone surrogates."""
    errors = "strict" if encoding == "utf-16" else "surrogateescape"
    n_lines = 0
    try:
        with io.TextIOWrapper(open_text(file), encoding=encoding, errors=errors, newline="\n") as text:
            for line in text:
                n_lines += 1
                yield line if n_lines > 1 or not _SEPARATOR.fullmatch(line) else "\n"
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(file, error) from None
    except UnicodeDecodeError:
        raise DataError(f"{file}:{n_lines + 1}: invalid UTF-16 here or below; save the table as UTF-8") from None


def _encoding_of(file: Path) -> str:
    try:
        with open_text(file) as raw:
            return "utf-16" if raw.read(2) in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(file, error) from None


def open_text(file: Path) -> IO[bytes]:
    """Plain or packed by gzip."""
    return cast(IO[bytes], gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _unreadable(file: Path, error: Exception) -> DataError:
    reason = getattr(error, "strerror", None) or f"damaged gzip file ({error})"
    return DataError(f"{file}: {reason}; give the path of a table, such as .tsv or .csv, plain or .gz")


def _split(line: str, delimiter: str) -> Cells:
    return line.removesuffix("\n").removesuffix("\r").split(delimiter)


_SEPARATOR = re.compile(r"sep=.\s*", re.IGNORECASE)  # a first line that tells some spreadsheets the delimiter


# Delimiter and quotes -------------------------------------------------------------------------------------------------


def _form_of(file: Path, encoding: str, is_csv: bool) -> _Trial:
    """The first rows, read with the delimiter that suits them best."""
    lines: list[str] = []
    n_chars, is_whole = 0, True
    for line in _lines(file, encoding):
        if len(lines) == _MAX_SAMPLE_ROWS or n_chars > _MAX_SAMPLE_CHARS:
            is_whole = False
            break
        lines.append(line)
        n_chars += len(line)
    trials = [_Trial(lines, delimiter, is_csv, is_whole) for delimiter in (_DELIMITERS if is_csv else "\t")]
    best = max(trials, key=_Trial.rank)  # the first of equals
    if lines and (is_csv or encoding == "utf-16"):  # what is wrong with another .tsv is said when it is read
        if sum(line.count("\0") for line in lines) * 10 > n_chars:
            raise DataError(
                f"{file}:1: zero bytes, expected text; save the table as UTF-8, and unpack it if it is packed"
            )
        if len(lines) == 1 and "\r" in lines[0].rstrip("\r\n"):
            raise DataError(f"{file}:1: lines end in carriage returns alone; save the table with line ends of Windows")
        if best.width < 2:
            raise DataError(
                f"{file}:1: one column, expected source and target; put a comma, a semicolon or a tab between them"
            )
    return best


class _Trial:
    """The first lines of a table, read with one delimiter."""

    def __init__(self, lines: list[str], delimiter: str, is_csv: bool, is_whole: bool):
        self.delimiter = delimiter
        self._n_quoted = self._n_bare = self._n_open = self._n_escaped = self._n_after_spaces = 0
        parsed = self._parse("".join(lines), is_whole)
        bare = [_split(line, delimiter) for line in lines]
        # A .csv has quotes as spreadsheets write them, unless most of its cells contradict that.
        may_be_quoted = self._n_open <= self._n_quoted and (self._n_quoted > 0 or not is_whole)
        self.is_quoted = may_be_quoted if is_csv else self._is_surely_quoted(parsed, bare)
        self.skips_spaces = self.is_quoted and 2 * self._n_after_spaces > len(parsed)  # of nearly every row
        self.rows = parsed if self.is_quoted else bare
        widths = Counter(len(row) for row in self.rows if any(map(str.strip, row)))
        self.width, n_alike = widths.most_common(1)[0] if widths else (0, 0)
        self._agreement = n_alike / max(1, widths.total())

    def rank(self) -> tuple[bool, bool, bool, float]:
        return self.width >= 2, self._agreement >= 0.9, self._n_open == 0, self._agreement

    def _parse(self, text: str, is_whole: bool) -> list[Cells]:
        """The rows if cells are quoted, and in passing the counts of cells that are, and of those that only begin so."""
        d = self.delimiter
        cell = re.compile(rf'(?: *+"((?:[^"]++|"")*+)"|([^{d}\n]*?))({d}|\r?\n|\Z)')
        rows: list[Cells] = []
        row: Cells = []
        for match in cell.finditer(text):
            quoted, bare, end = match.groups()
            if quoted is not None:
                self._n_quoted += 1
                self._n_after_spaces += match[0].startswith(" ")
                self._n_escaped += '""' in quoted or "\n" in quoted or d in quoted
            elif bare.startswith('"'):
                if not is_whole and _is_cut(text, match.start()):
                    break
                self._n_open += 1
            elif bare.strip() and not bare.strip().isnumeric():
                self._n_bare += 1
            row.append(bare if quoted is None else quoted.replace('""', '"'))
            if end != d:
                rows.append(row)
                row = []
                if match.end() == len(text):
                    break
        return rows

    def _is_surely_quoted(self, parsed: list[Cells], bare: list[Cells]) -> bool:
        """In text with tabs, quotes can belong to the text. They do not where every one of them follows the rules of
        spreadsheets, and where quotes were needed or all cells have them."""
        if self._n_open or not self._n_quoted or not (self._n_escaped or self._n_bare == 0):
            return False
        # Lines that are rows by themselves: then a quote that ends some lines later is a speech that goes on.
        return len(parsed) == len(bare) or len({len(row) for row in bare if any(row)}) > 1


def _is_cut(text: str, start: int) -> bool:
    """Whether the quoted cell that begins at `start` may go on after the end of the text."""
    tail = text[start : start + (1 << 17)]
    return tail.count("\n") <= _MAX_CELL_LINES and re.fullmatch(r'"(?:[^"]++|"")*+', tail) is not None


# Header and columns ---------------------------------------------------------------------------------------------------

_SOURCE_NAMES = {"source", "src", "original", "origin", "origen", "fuente", "quelle", "oryginal", "sentence1", "text1"}
_TARGET_NAMES = {
    "target",
    "tgt",
    "trg",
    "translation",
    "traducción",
    "traduccion",
    "traduction",
    "übersetzung",
    "sentence2",
    "text2",
}
_ENDS = tuple(".!?…。！？;,")  # of sentences
# Numbers, dates, file names, addresses: no running text. Text of scripts without spaces is not ASCII.
_IDENTIFIER = re.compile(r"[!-~]*[\d/_\\@:][!-~]*")


def _is_named(rows: list[Cells], columns: str | None) -> bool:
    """Whether a name that `--columns` gives is in the first row."""
    names = [name.strip().casefold() for name in (columns or "").split(",")]
    return (
        columns is not None
        and bool(rows)
        and any(cell.strip().casefold() in names and not cell.strip().isdecimal() for cell in rows[0])
    )


def _is_header(rows: list[Cells], is_bare: bool) -> bool:
    """Whether the first row names the columns. In a table of bare cells and two tabs only names of languages, of source
    and of target say so; elsewhere also numbers below a word, or short cells above long ones."""
    first = [cell.strip() for cell in rows[0]] if rows else []
    names = [name for name in first if name]
    columns = [[row[i].strip() for row in rows[1:] if i < len(row) and row[i].strip()] for i in range(len(first))]
    if len(names) < 2 or any(len(name) > 40 for name in names):
        return False
    numbers = [bool(cells) and all(map(_is_number, cells)) for cells in columns]
    if any(name.endswith(_ENDS) and not is_number for name, is_number in zip(first, numbers, strict=True)):
        return False  # but for "No." above numbers
    if any(name in cells for name, cells in zip(first, columns, strict=True)):
        return False
    roles = _SOURCE_NAMES | _TARGET_NAMES
    known = [name for name in names if name.casefold() in roles or code_of_name(name)]
    sure = [name for name in known if name.casefold() in roles or len(name) > 3]  # "no" and "it" are words, too
    if len(known) == len(names):
        has_codes = not is_bare and all(len(name) == 2 for name in names)
        return bool(sure) or has_codes or _times_longer(columns, names, 0.5) >= 2
    if is_bare:
        return False
    if any(name and not _has_digit(name) and is_number for name, is_number in zip(first, numbers, strict=True)):
        return True
    return all(len(name.split()) <= 3 for name in names) and _times_longer(columns, names, 0.1) >= (1 if sure else 2)


def _times_longer(columns: list[Cells], names: Cells, share: float) -> float:
    """How many times as long as the names the cells below are, all but a `share` of them, in the two longest columns."""
    lengths = sorted(sorted(map(len, cells))[int(len(cells) * share)] if cells else 0 for cells in columns)
    return lengths[-2] / statistics.median(map(len, names))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?[\d.,]+", text) is not None


class _Columns:
    """The columns of a table's first rows, of which two are looked for."""

    def __init__(self, file: Path, header: tuple[str, ...] | None, rows: list[Cells], n_columns: int):
        self._file, self._header, self.n_columns = file, header, n_columns
        self._names = [*(header or ()), *[""] * n_columns][:n_columns]
        self._cells = [[row[i].strip() for row in rows if i < len(row) and row[i].strip()] for i in range(n_columns)]
        self._n_rows = len(rows)

    def named(self, columns: str) -> tuple[int, int]:
        """The two that `--columns` names."""
        given = [name.strip() for name in columns.split(",")]
        if len(given) != 2 or not all(given):
            raise self._unclear(f"--columns {columns} names {len(given)} columns, expected source and target")
        src, tgt = map(self._index, given)
        if src == tgt:
            raise self._unclear(f"--columns {columns} names one column twice, expected source and target")
        return src, tgt

    def _index(self, name: str) -> int:
        if name.isdecimal() and 1 <= int(name) <= self.n_columns:
            return int(name) - 1
        found = [i for i, other in enumerate(self._names) if other.casefold() == name.casefold()]
        if len(found) != 1:
            number = "no column" if not found else f"{len(found)} columns"
            raise self._unclear(f"--columns: {number} {name}")
        return found[0]

    def guess(self) -> tuple[int, int]:
        """The two that the header calls source and target, or that are running text. Raises DataError if unclear."""
        names = [name.casefold() for name in self._names]
        src, tgt = ([i for i, name in enumerate(names) if name in roles] for roles in (_SOURCE_NAMES, _TARGET_NAMES))
        if len(src) == len(tgt) == 1:
            return src[0], tgt[0]
        for found in self._likely():
            if len(found) == 2:
                return found[0], found[1]
        raise self._unclear(f"{self.n_columns} columns, and which are source and target is not clear")

    def _likely(self) -> Iterator[list[int]]:
        filled = [i for i, cells in enumerate(self._cells) if cells or self._names[i]]
        yield filled
        # "id" and "nr" are codes of languages, too.
        yield [i for i in filled if code_of_name(self._names[i]) and not self._is_numbered(i)]
        texts = [i for i in filled if self._is_text(i)]
        yield texts
        yield self._longest(texts)

    def _is_text(self, i: int) -> bool:
        """Whether most cells are filled, have more letters than other signs, and differ from each other."""
        cells = self._cells[i]
        n_texts = sum(not _IDENTIFIER.fullmatch(cell) and 2 * _n_letters(cell) >= len(cell) for cell in cells)
        is_text = 5 * n_texts >= 4 * len(cells) and not self._is_numbered(i)
        return is_text and 2 * len(cells) >= self._n_rows and 10 * len(set(cells)) > len(cells)

    def _is_numbered(self, i: int) -> bool:
        """Whether nearly all cells have digits: 17, John 3:16, CC-BY 2.0."""
        return 10 * sum(map(_has_digit, self._cells[i])) > 9 * len(self._cells[i])

    def _longest(self, texts: list[int]) -> list[int]:
        """The two with the most letters, if no other has a quarter as many."""
        n_letters = {i: statistics.fmean(map(_n_letters, self._cells[i])) for i in texts}
        by_length = sorted(texts, key=lambda i: -n_letters[i])
        is_clear = len(texts) > 2 and n_letters[by_length[2]] * 4 < n_letters[by_length[1]]
        return sorted(by_length[:2]) if is_clear else []

    def _unclear(self, problem: str) -> DataError:
        told = [f"{self._title(i)} {_shorten(cells[0]) if cells else 'empty'}" for i, cells in enumerate(self._cells)]
        example = self._example()
        return DataError(
            f"{self._file}: {problem}; give the two by name or number, such as --columns {example}: {'; '.join(told)}"
        )

    def _title(self, i: int) -> str:
        return f"column {i + 1}{f' ({_shorten(self._names[i])})' if self._names[i] else ''}"

    def _example(self) -> str:
        likely = [i for i in range(self.n_columns) if self._is_text(i)][:2]
        if len(likely) < 2:
            return f"1,{max(2, self.n_columns)}"
        names = [self._names[i] for i in likely]
        is_plain = all(re.fullmatch(r"\w*[^\W\d]\w*", name) and self._names.count(name) == 1 for name in names)
        return ",".join(names) if is_plain else ",".join(str(i + 1) for i in likely)


def _n_letters(text: str) -> int:
    # isalnum leaves out the vowel signs of Indic scripts and other marks, which are letters to their readers.
    return sum(char.isalpha() or (not char.isascii() and not char.isspace()) for char in text)


def _shorten(text: str) -> str:
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    return text if len(text) <= 30 else f"{text[:29]}…"
