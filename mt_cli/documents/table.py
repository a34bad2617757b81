"""Tables, CSV and workbooks (.xlsx): one column is translated, into another one or into a new one behind the last."""

import logging
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import reduce
from html import unescape
from typing import Any, NamedTuple

from mt_cli.data.spans import escaped
from mt_cli.documents.document import Archive, Changes, Edit, Segment, TextDocument, has_words
from mt_cli.documents.xml import Element, XmlDocument
from mt_cli.errors import DataError, MTError, UsageError

log = logging.getLogger(__name__)

_QUOTED = r'"(?:[^"]|"")*+"'


class Cell(NamedTuple):
    text: str
    row: int  # its line or its number
    place: str  # in messages
    start: int
    end: int
    element: Any = None  # of a workbook
    is_formula: bool = False


Row = dict[int, Cell]  # by column, from 0


class Table(TextDocument):
    """A text with rows; each format of tables says how a cell is written."""

    rows: list[Row]
    has_equal_rows = True  # whether all rows have as many cells

    def choose(self, column: str) -> None:
        """Adds the segments of columns by name or by number: `en`, `en,de`, `1,2`. Raises UsageError for one not there."""
        names, first_row = [one.strip() for one in column.split(",")], self.rows[0] if self.rows else {}
        if len(names) > 2:
            raise UsageError(f"{self.name}: --column has {len(names)} columns; give the source, or SOURCE,TARGET")
        self.has_header = not all(map(str.isdecimal, names))
        header = [first_row[i].text.strip() if i in first_row else "" for i in range(max(first_row, default=-1) + 1)]
        known = header if self.has_header else [str(n) for n in range(1, len(header) + 1)]
        if missing := [one for one in names if known.count(one) != 1]:
            found = f"--column {missing[0]} is not one column of it; its first row is: {', '.join(header[:10])}"
            raise UsageError(f"{self.name}: {found}")
        self.src = known.index(names[0])
        self.is_widened, self.is_bilingual = len(names) == 1, names[1:] != names[:1]
        self.tgt = max((max(row) + 1 for row in self.rows), default=0) if self.is_widened else known.index(names[1])
        for row in self.rows[self.has_header :]:
            cell, own = row.get(self.src), row.get(self.tgt)
            if cell and not (cell.is_formula or (own and own.is_formula)) and has_words(cell.text):
                target = own.text if own and self.is_bilingual else ""
                start, end, write = self.place_for(row)
                of_text = (cell.text, cell.place, None, target, not target.strip(), None, write)
                self.segments.append(Segment(start, end, *of_text, owner=id(row)))

    def marks(self, changes: Changes, tgt_lang: str) -> Iterator[Edit]:
        changed = {segment.owner for segment, _ in changes}
        for number, row in enumerate(self.rows if self.is_widened else ()):
            is_header = number == 0 and self.has_header
            if is_header or (self.has_equal_rows and id(row) not in changed):
                start, end, write = self.place_for(row)
                yield Edit(start, end, write(tgt_lang if is_header else ""))

    def place_for(self, row: Row) -> tuple[int, int, Callable[[str], str]]:
        """Where the cell of the target is written in a row, and as what."""
        raise NotImplementedError


class CsvTable(Table):
    def __init__(self, content: bytes, name: str, column: str):
        """Raises DataError for a quote that is not closed, and UsageError for a column that is not there."""
        super().__init__(content, name)
        first_line = re.sub(_QUOTED, "", self.text.partition("\n")[0])
        self.has_quotes = False
        self.delimiter = "\t" if name.lower().endswith(".tsv") else max(",;\t", key=first_line.count)
        self.rows = list(self._read_rows())
        self.choose(column)

    def _read_rows(self) -> Iterator[Row]:
        row, at = Row(), 0
        is_tsv = self.delimiter == "\t"
        # Where all lines of a .tsv have as many tabs, a quote is a letter: no cell goes on in the next line.
        n_tabs = {line.count("\t") for line in self.text.splitlines() if line}
        is_regular = is_tsv and len(n_tabs) == 1 and n_tabs != {0}
        quoted = _QUOTED.replace('[^"]', r'[^"\r\n]') if is_regular else _QUOTED
        spaces = "" if is_tsv else "[ ]*+"
        cell = re.compile(rf"({spaces}(?P<quoted>{quoted})|[^{self.delimiter}\r\n]*+)({self.delimiter}|\r?\n|\r|\Z)")
        while at < len(self.text) or row:
            found = cell.match(self.text, at)
            if not found or (not is_tsv and found[1].startswith('"') and found[1].count('"') % 2):
                raise self.error(at, "a quote that is not closed, or text behind one; correct the cell")
            is_quoted = found["quoted"] is not None
            text = found["quoted"][1:-1].replace('""', '"') if is_quoted else found[1]
            self.has_quotes |= is_quoted
            row[len(row)] = Cell(text, line := self.line(at), f"line {line}", *found.span(1))
            at = found.end()
            if found[3] != self.delimiter:
                if len(row) > 1 or found[1]:
                    yield row
                row = Row()

    def place_for(self, row: Row) -> tuple[int, int, Callable[[str], str]]:
        if self.tgt in row:
            return row[self.tgt].start, row[self.tgt].end, self._quoted
        end, delimiters = row[len(row) - 1].end, self.delimiter * (self.tgt - len(row) + 1)
        return end, end, lambda text: delimiters + self._quoted(text)

    def _quoted(self, text: str) -> str:
        special = "[\t\r\n]" if self.delimiter == "\t" else f'[{self.delimiter}\r\n"]'
        is_doubtful = text.startswith('"') and (self.has_quotes or self.delimiter != "\t")
        needs_quotes = is_doubtful or re.search(special, text)
        return '"{}"'.format(text.replace('"', '""')) if needs_quotes else text


def read_workbook(content: bytes, name: str, column: str) -> Archive:
    """Raises DataError for a workbook that is damaged or hostile, and UsageError for a column that no visible sheet has."""
    workbook, shared = Archive(content, name), list[str]()

    def root_of(part: str) -> tuple[XmlDocument, Element]:
        document = XmlDocument(workbook.read(part), f"{name} {part}")
        return document, document.root

    if "xl/sharedStrings.xml" in workbook.names():
        strings, root = root_of("xl/sharedStrings.xml")
        shared = [_text_in(strings, one) for one in root.all("si")]
    relations = root_of("xl/_rels/workbook.xml.rels")[1].children
    targets = {one.get("Id"): posixpath.join("/xl", one.get("Target"))[1:] for one in relations}
    problem: MTError = DataError(f"{name}: no visible sheet with cells; show the one that is to be translated")
    for sheet in root_of("xl/workbook.xml")[1].iter("sheet"):
        part, title = targets.get(sheet.get("id"), ""), unescape(sheet.get("name"))
        if sheet.get("state", "visible") == "visible" and "worksheets" in part:
            table = Sheet(workbook.read(part), f"{name} sheet {title}")
            table.rows = list(table.read_rows(title, shared))
            try:
                table.choose(column)
                workbook.parts[part] = table
            except UsageError as error:
                problem = error
                log.info(f"note: {error}; the sheet stays as it is")
    if not workbook.parts:
        raise problem
    return workbook


class Sheet(XmlDocument, Table):
    """A sheet of a workbook. Formulas stay as they are; a translated cell has the style of its source."""

    has_equal_rows = False

    def read_rows(self, title: str, shared: list[str]) -> Iterator[Row]:
        number = 0
        for row in self.root.iter("row"):
            number, column, cells = int(row.get("r") or number + 1), -1, Row()
            for cell in row.all("c"):
                column += 1
                if letters := re.sub("[^A-Z]", "", cell.get("r")):
                    column = reduce(lambda total, letter: 26 * total + ord(letter) - 64, letters, 0) - 1
                value = next((unescape(self.inner(one)) for one in cell.all("v")), "")
                value = "" if cell.get("t") == "e" else value  # an error such as #N/A
                if cell.get("t") == "s":
                    value = shared[int(value)] if value.isdecimal() and int(value) < len(shared) else ""
                text = _text_in(self, cell) if cell.get("t") == "inlineStr" else value
                place = f"cell {title}!{_letters(column)}{number}"
                cells[column] = Cell(text, number, place, cell.start, cell.end, cell, cell.find("f") is not None)
            if cells:
                yield cells

    def place_for(self, row: Row) -> tuple[int, int, Callable[[str], str]]:
        own, like = row.get(self.tgt), row.get(self.tgt) or row.get(self.src) or next(iter(row.values()))
        behind = next((cell.start for column, cell in sorted(row.items()) if column > self.tgt), row[max(row)].end)
        prefix, style = like.element.prefix, like.element.get("s")
        tag = f'{prefix}c r="{_letters(self.tgt)}{like.row}"' + (f' s="{style}"' if style else "")

        def write(text: str) -> str:
            inner = f'<{prefix}is><{prefix}t xml:space="preserve">{escaped(text)}</{prefix}t></{prefix}is>'
            return f'<{tag} t="inlineStr">{inner}</{prefix}c>'

        return (own.start, own.end, write) if own else (behind, behind, write)


def _letters(column: int) -> str:
    return (_letters(column // 26 - 1) if column >= 26 else "") + chr(65 + column % 26)


def _text_in(document: XmlDocument, element: Element) -> str:
    """Without the pronunciation of Japanese names."""
    own = (one for one in element.iter("t") if one.parent is None or one.parent.name != "rPh")
    return "".join(unescape(document.inner(one)) for one in own)
