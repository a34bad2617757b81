"""CSV and tab-separated tables: the cells of one column are translated, into another one or into a new one behind the last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mt_cli.documents.document import Segment, Written
from mt_cli.documents.ranges import Edit, Slot, Source, TextDocument, edited, has_words
from mt_cli.errors import UsageError

_QUOTED = r'"(?:[^"]|"")*+"'

Row = list[tuple[int, int]]  # where its cells begin and end


class Columns(NamedTuple):
    """Which columns are read and written, counted from 0."""

    src: int
    tgt: int | None  # None for a new one
    has_header: bool

    @classmethod
    def named(cls, column: str, first_row: Sequence[str], name: str) -> Columns:
        """By names in the first row, or by numbers, and then the first row is text: `en`, `en,de`, `1,2`. Raises UsageError."""
        names = [one.strip() for one in column.split(",")]
        by_number = all(map(str.isdecimal, names))
        known = [str(n) for n in range(1, len(first_row) + 1)] if by_number else list(first_row)
        if missing := [one for one in names if known.count(one) != 1]:
            found = f"--column {missing[0]} is not one column of it; its first row is: {', '.join(first_row[:10])}"
            raise UsageError(f"{name}: {found}")
        if len(names) > 2:
            raise UsageError(f"{name}: --column has {len(names)} columns; give the source, or SOURCE,TARGET")
        return cls(known.index(names[0]), known.index(names[1]) if names[1:] else None, not by_number)


def read(content: bytes, name: str, column: str) -> TextDocument:
    """Raises DataError for a quote that is not closed, and UsageError for a column that is not there."""
    return TableDocument(Source.decoded(content, name), column)


class TableDocument(TextDocument):
    def __init__(self, source: Source, column: str):
        first_line = re.sub(_QUOTED, "", source.text.partition("\n")[0])
        self._delimiter = "\t" if source.name.lower().endswith(".tsv") else max(",;\t", key=first_line.count)
        self.source, self._rows = source, list(self._read_rows(source))
        header = [self._text(*cell) for cell in self._rows[0]] if self._rows else []
        self._columns = Columns.named(column, header, source.name)
        src, tgt, has_header = self._columns
        slots = list[Slot]()
        for row in self._rows[has_header:]:
            text = self._text(*row[src]) if src < len(row) else ""
            if has_words(text):
                target = self._text(*row[tgt]) if tgt is not None and tgt != src and tgt < len(row) else ""
                segment = Segment(text, f"line {source.line(row[src][0])}", None, target, not target)
                slots.append(Slot(row[0][0], row[-1][1], segment))
        super().__init__(source, slots)

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        (src, tgt, has_header), edits, text = self._columns, list[Edit](), self.source.text
        given = {slot.start: (slot.segment, one) for slot, one in zip(self.slots, translations, strict=True)}
        changes = {
            start: one.text
            for start, (segment, one) in given.items()
            if one is not None and one.text != (segment.text if src == tgt else segment.target)
        }
        width = len(self._rows[0]) if self._rows else 0
        for number, row in enumerate(self._rows if changes else ()):
            new = changes.get(row[0][0], tgt_lang if tgt is None and has_header and number == 0 else None)
            if tgt is not None and tgt < len(row):
                edits += [Edit(*row[tgt], self._cell(new))] if new is not None else []
            elif tgt is None or new is not None:
                at, n_missing = row[-1][1], (width if tgt is None else tgt) - len(row) + 1
                edits.append(Edit(at, at, self._delimiter * max(1, n_missing) + self._cell(new or "")))
        return self.source.encoded(edited(text, edits))

    def _read_rows(self, source: Source) -> Iterator[Row]:
        text, row, at = source.text, Row(), 0
        cell = re.compile(rf"({_QUOTED}|[^{self._delimiter}\r\n]*+)({self._delimiter}|\r?\n|\r|\Z)")
        while at < len(text) or row:
            found = cell.match(text, at)
            if not found or (found[1].count('"') % 2 and found[1].startswith('"') and self._delimiter != "\t"):
                raise source.error(at, "a quote that is not closed, or text behind one; correct the cell")
            row.append(found.span(1))
            at = found.end()
            if found[2] != self._delimiter:
                if len(row) > 1 or found[1]:
                    yield row
                row = Row()

    def _text(self, start: int, end: int) -> str:
        cell = self.source.text[start:end]
        return cell[1:-1].replace('""', '"') if re.fullmatch(_QUOTED, cell) else cell

    def _cell(self, text: str) -> str:
        needs_quotes = any(char in text for char in f"{self._delimiter}\r\n") or (
            text[:1] == '"' or (self._delimiter != "\t" and '"' in text)
        )
        return '"{}"'.format(text.replace('"', '""')) if needs_quotes else text
