"""Tables: the cells of one column are translated, into another one or into a new one behind the last. CSV and tab-separated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mt_cli.documents.document import Edit, Segment, Slot, TextDocument, Written, has_words
from mt_cli.errors import UsageError

_QUOTED = r'"(?:[^"]|"")*+"'


class Cell(NamedTuple):
    text: str
    row: int  # its line or its number
    start: int
    end: int
    element: Any = None


Row = dict[int, Cell]  # by column, from 0


class Table(TextDocument):
    """A text with rows; each format of tables says how a cell is written."""

    rows: list[Row]
    has_equal_rows = True  # whether all rows have as many cells

    def choose(self, column: str) -> None:
        """Makes the slots: of columns by their names in the first row, or by numbers, and then the first row is text: `en`,
        `en,de`, `1,2`. Raises UsageError for one that is not there."""
        names, first_row = [one.strip() for one in column.split(",")], self.rows[0] if self.rows else {}
        if len(names) > 2:
            raise UsageError(f"{self.name}: --column has {len(names)} columns; give the source, or SOURCE,TARGET")
        self.has_header = not all(map(str.isdecimal, names))
        header = [first_row[i].text if i in first_row else "" for i in range(max(first_row, default=-1) + 1)]
        known = header if self.has_header else [str(n) for n in range(1, len(header) + 1)]
        if missing := [one for one in names if known.count(one) != 1]:
            found = f"--column {missing[0]} is not one column of it; its first row is: {', '.join(header[:10])}"
            raise UsageError(f"{self.name}: {found}")
        self.src = known.index(names[0])
        self.is_widened, self.is_bilingual = len(names) == 1, names[1:] != names[:1]
        self.tgt = max((max(row) + 1 for row in self.rows), default=0) if self.is_widened else known.index(names[1])
        for row in self.rows[self.has_header :]:
            if self.src in row and has_words(text := self.source_text(row[self.src])):
                target = row[self.tgt].text if self.is_bilingual and self.tgt in row else ""
                segment = Segment(text, self.place(row[self.src]), None, target, not target)
                start, end, write = self.place_for(row)
                self.slots.append(Slot(start, end, segment, write, owner=id(row)))

    def marks(self, changes: Sequence[tuple[Slot, Written]], tgt_lang: str) -> Iterator[Edit]:
        changed = {slot.owner for slot, _ in changes}
        for number, row in enumerate(self.rows if self.is_widened else ()):
            is_header = number == 0 and self.has_header
            if is_header or (self.has_equal_rows and id(row) not in changed):
                start, end, write = self.place_for(row)
                yield Edit(start, end, write(tgt_lang if is_header else ""))

    def source_text(self, cell: Cell) -> str:
        return cell.text

    def place(self, cell: Cell) -> str:
        return f"line {cell.row}"

    def place_for(self, row: Row) -> tuple[int, int, Callable[[str], str]]:
        """Where the cell of the target is written in a row, and as what."""
        raise NotImplementedError


def read(content: bytes, name: str, column: str) -> TextDocument:
    """Raises DataError for a quote that is not closed, and UsageError for a column that is not there."""
    table = CsvTable(content, name)
    first_line = re.sub(_QUOTED, "", table.text.partition("\n")[0])
    table.delimiter = "\t" if name.lower().endswith(".tsv") else max(",;\t", key=first_line.count)
    table.rows = list(table.read_rows())
    table.choose(column)
    return table


class CsvTable(Table):
    delimiter: str

    def read_rows(self) -> Iterator[Row]:
        row, at = Row(), 0
        cell = re.compile(rf"({_QUOTED}|[^{self.delimiter}\r\n]*+)({self.delimiter}|\r?\n|\r|\Z)")
        while at < len(self.text) or row:
            found = cell.match(self.text, at)
            if not found or (found[1].count('"') % 2 and found[1].startswith('"') and self.delimiter != "\t"):
                raise self.error(at, "a quote that is not closed, or text behind one; correct the cell")
            text = found[1][1:-1].replace('""', '"') if re.fullmatch(_QUOTED, found[1]) else found[1]
            row[len(row)] = Cell(text, self.line(at), *found.span(1))
            at = found.end()
            if found[2] != self.delimiter:
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
        needs_quotes = text.startswith('"') or re.search(special, text)
        return '"{}"'.format(text.replace('"', '""')) if needs_quotes else text
