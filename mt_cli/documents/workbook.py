"""Workbooks (.xlsx): the cells of one column of each visible sheet, written into another column or into a new one."""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable
from functools import reduce
from html import unescape

from mt_cli.data.spans import escaped
from mt_cli.documents.archive import Archive
from mt_cli.documents.table import Cell, Row, Table
from mt_cli.documents.xml import Element, XmlDocument
from mt_cli.errors import DataError, MTError, UsageError

log = logging.getLogger(__name__)


def read(content: bytes, name: str, column: str) -> Archive:
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
            table.read_rows(title, shared)
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
    """Formulas stay as they are; a translated cell has the style of its source."""

    has_equal_rows = False

    def read_rows(self, title: str, shared: list[str]) -> None:
        self.title, self.rows, number = title, list[Row](), 0
        for row in self.root.iter("row"):
            number, column, cells = int(row.get("r") or number + 1), -1, Row()
            for cell in row.all("c"):
                column += 1
                if letters := re.sub("[^A-Z]", "", cell.get("r")):
                    column = reduce(lambda total, letter: 26 * total + ord(letter) - 64, letters, 0) - 1
                value = next((unescape(self.inner(one)) for one in cell.all("v")), "")
                if cell.get("t") == "s":
                    value = shared[int(value)] if value.isdecimal() and int(value) < len(shared) else ""
                text = _text_in(self, cell) if cell.get("t") == "inlineStr" else value
                cells[column] = Cell(text, number, cell.start, cell.end, cell)
            self.rows += [cells] if cells else []

    def source_text(self, cell: Cell) -> str:
        return "" if cell.element.find("f") else cell.text

    def place(self, cell: Cell) -> str:
        return f"cell {self.title}!{_letters(self.src)}{cell.row}"

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
