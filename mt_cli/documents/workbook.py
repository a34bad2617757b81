"""Workbooks (.xlsx): the cells of one column of the first visible sheet, written into another column or into a new one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any

from lxml import etree

from mt_cli.documents.archive import open_archive, read_part, with_parts
from mt_cli.documents.document import Segment, Written
from mt_cli.documents.inline import parse, serialized
from mt_cli.documents.table_text import Columns
from mt_cli.errors import DataError

_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"

Cells = dict[int, Any]  # elements of a row by their column, from 0


def read(content: bytes, name: str, column: str) -> Workbook:
    return Workbook(content, name, column)


class Workbook:
    """An open workbook. Formulas and other sheets stay as they are; a translated cell has the style of its source."""

    src_lang = tgt_lang = ""

    def __init__(self, content: bytes, name: str, column: str):
        """Raises DataError for a workbook that is damaged or hostile, and UsageError for a column that is not there."""
        self._archive, self._name = open_archive(content, name), name
        self._part = self._first_sheet()
        shared = list[str]()
        if "xl/sharedStrings.xml" in self._archive.namelist():
            shared = [_text_in(one) for one in self._tree("xl/sharedStrings.xml").getroot().iterchildren("{*}si")]
        rows = [
            (number, {i: _text_of(cell, shared) for i, cell in cells.items()}, cells)
            for number, _, cells in _rows(self._tree(self._part))
        ]
        first = rows[0][1] if rows else {}
        self._columns = Columns.named(column, [first.get(i, "") for i in range(max(first, default=-1) + 1)], name)
        self._width = max((max(cells, default=-1) + 1 for _, _, cells in rows), default=0)
        src, tgt, has_header = self._columns
        self.segments, self._numbers = list[Segment](), list[int]()
        for number, texts, cells in rows[has_header:]:
            if any(map(str.isalpha, text := texts.get(src, ""))) and cells[src].find("{*}f") is None:
                target = texts.get(tgt, "") if tgt is not None and tgt != src else ""
                self.segments.append(Segment(text, f"cell {_letters(src)}{number}", None, target, not target))
                self._numbers.append(number)
        self._header = rows[0][0] if rows and has_header else None

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        src, tgt, _ = self._columns
        texts = {
            number: one.text
            for number, segment, one in zip(self._numbers, self.segments, translations, strict=True)
            if one is not None and one.text != (segment.text if src == tgt else segment.target)
        }
        if not texts:
            return with_parts(self._archive, self._name, {})
        if tgt is None and self._header is not None:
            texts[self._header] = tgt_lang
        tree = self._tree(self._part)
        for number, row, cells in _rows(tree):
            if number in texts:
                _put(row, number, cells, src, self._width if tgt is None else tgt, texts[number])
        content = serialized(tree, read_part(self._archive, self._part, self._name))
        return with_parts(self._archive, self._name, {self._part: content})

    def _tree(self, part: str) -> Any:
        return parse(read_part(self._archive, part, self._name), f"{self._name} {part}")

    def _first_sheet(self) -> str:
        relations = self._tree("xl/_rels/workbook.xml.rels").getroot()
        targets = {one.get("Id"): posixpath.join("/xl", one.get("Target", ""))[1:] for one in relations}
        for sheet in self._tree("xl/workbook.xml").iter("{*}sheet"):
            if sheet.get("state", "visible") == "visible" and "worksheets" in targets.get(sheet.get(_RELATION), ""):
                return targets[sheet.get(_RELATION)]
        raise DataError(f"{self._name}: no visible sheet with cells; show the one that is to be translated")


def _rows(tree: Any) -> Iterator[tuple[int, Any, Cells]]:
    """The number of each row, from 1, its element and its cells."""
    number = 0
    for row in tree.iter("{*}row"):
        number, column, cells = int(row.get("r") or number + 1), -1, Cells()
        for cell in row.iterchildren("{*}c"):
            letters = re.sub("[^A-Z]", "", cell.get("r", ""))
            column = column + 1
            if letters:
                column = 0
                for letter in letters:
                    column = 26 * column + ord(letter) - 64
                column -= 1
            cells[column] = cell
        yield number, row, cells


def _letters(column: int) -> str:
    return (_letters(column // 26 - 1) if column >= 26 else "") + chr(65 + column % 26)


def _text_in(element: Any) -> str:
    """Without the pronunciation of Japanese names."""
    return "".join(one.text or "" for one in element.iter("{*}t") if not one.getparent().tag.endswith("}rPh"))


def _text_of(cell: Any, shared: list[str]) -> str:
    if cell.get("t") == "inlineStr":
        return _text_in(cell)
    value = cell.findtext("{*}v") or ""
    if cell.get("t") == "s":
        return shared[int(value)] if value.isdecimal() and int(value) < len(shared) else ""
    return value


def _put(row: Any, number: int, cells: Cells, src: int, column: int, text: str) -> None:
    cell = cells.get(column)
    if cell is None:
        cell = etree.Element(row.tag[: -len("row")] + "c", {"r": f"{_letters(column)}{number}"})
        if src in cells and (style := cells[src].get("s")):
            cell.set("s", style)
        row.insert(sum(one < column for one in cells), cell)
    for child in list(cell):
        cell.remove(child)
    cell.set("t", "inlineStr")
    inside = etree.SubElement(etree.SubElement(cell, row.tag[: -len("row")] + "is"), row.tag[: -len("row")] + "t")
    inside.set(_SPACE, "preserve")
    inside.text = text
