"""What the formats of text share: a file as characters, stretches of it that are translated, and tags for the codes in these.

All that lies outside of a replaced stretch stays as it is, byte for byte.
"""

from __future__ import annotations

import codecs
import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mt_cli.documents.document import Segment, Written
from mt_cli.errors import DataError

_TAG = re.compile(r"(</?g\d+>|<x\d+/>)")
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF8, "utf-8"))


class Edit(NamedTuple):
    start: int
    end: int
    text: str


class Code(NamedTuple):
    """A stretch within a segment that is copied. Those of kind + open what the next - of the same name closes."""

    start: int
    end: int
    kind: str = ""
    name: str = ""


@dataclass(frozen=True)
class Slot:
    """A stretch of a text that is a segment. Other slots may lie within its codes."""

    start: int
    end: int
    segment: Segment
    write: Callable[[str], str] = str  # of what is between the tags of a translation
    tags: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # which stretch each of them stands for


@dataclass(frozen=True)
class Source:
    """The characters of a file; encoded again they are its bytes."""

    text: str
    name: str
    encoding: str = "utf-8"
    mark: bytes = b""  # of the byte order, before the text

    @classmethod
    def decoded(cls, content: bytes, name: str, encoding: str = "utf-8") -> Source:
        """Raises DataError for bytes that are not in the encoding; a byte order mark counts more than what is declared."""
        mark, encoding = next(((mark, own) for mark, own in _MARKS if content.startswith(mark)), (b"", encoding))
        content = content.removeprefix(mark)
        try:
            text = content.decode(encoding)
            if text.encode(encoding) != content:
                raise DataError(f"{name}: {encoding} text in a form that is not kept; save the file as UTF-8")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            found = f"{name}:{line}: byte 0x{content[error.start]:02x}, which {encoding} text cannot have here"
            raise DataError(f"{found}; save the file as UTF-8, and let it declare so") from None
        except LookupError:
            raise DataError(f"{name}: the encoding {encoding!r} is not known; save the file as UTF-8") from None
        return cls(text, name, encoding, mark)

    def encoded(self, text: str) -> bytes:
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            line, char = text.count("\n", 0, error.start) + 1, text[error.start]
            found = f"{self.name}:{line}: the translation has {char!r}, which {self.encoding} cannot write"
            raise DataError(f"{found}; save the file as UTF-8, and let it declare so") from None

    @cached_property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(end.end() for end in re.finditer("\n", self.text))]

    def line(self, at: int) -> int:
        return bisect_right(self._line_starts, at)

    def error(self, at: int, problem: str) -> DataError:
        return DataError(f"{self.name}:{self.line(at)}: {problem}")


class TextDocument:
    """A text file with slots, each of which is replaced by its translation."""

    def __init__(self, source: Source, slots: Iterable[Slot], src_lang: str = "", tgt_lang: str = ""):
        self.source, self.slots, self.src_lang, self.tgt_lang = source, list(slots), src_lang, tgt_lang

    @property
    def segments(self) -> Sequence[Segment]:
        return [slot.segment for slot in self.slots]

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        return self.source.encoded(replaced(self.source.text, self.slots, translations))


def replaced(text: str, slots: Sequence[Slot], translations: Sequence[Written | None]) -> str:
    """The text with the translations in its slots. One that is equal to what is there leaves it as it is written."""
    edits = list[Edit]()  # the first one is the last of the list
    for slot, one in sorted(
        zip(slots, translations, strict=True), key=lambda pair: (-pair[0].start, pair[0].end)
    ):  # what lies within a slot comes before it
        inner = list[Edit]()
        while edits and edits[-1].start < slot.end:
            inner.append(edits.pop())
        if one is None or one.text == slot.segment.text:
            edits += reversed(inner)
            continue
        pieces = _TAG.split(one.text) if slot.tags else [one.text]
        for n, piece in enumerate(pieces):
            start, end = slot.tags.get(piece, (0, 0))
            own = (edit for edit in inner if start <= edit.start and edit.end <= end)
            pieces[n] = edited(text, own, start, end) if n % 2 else slot.write(piece)
        edits.append(Edit(slot.start, slot.end, "".join(pieces)))
    return edited(text, reversed(edits))


def edited(text: str, edits: Iterable[Edit], start: int = 0, end: int | None = None) -> str:
    """The text from `start` to `end` with these edits, which come in order."""
    pieces = list[str]()
    for edit in edits:
        pieces += [text[start : edit.start], edit.text]
        start = edit.end
    return "".join([*pieces, text[start:end]])


def coded(
    text: str, start: int, end: int, codes: Iterable[Code], read: Callable[[str], str]
) -> tuple[str, dict[str, tuple[int, int]]]:
    """The stretch of a text as XML with tags for its codes, and what each tag stands for. `read` makes XML of the rest."""
    pieces, tags, open_ones = list[str](), dict[str, tuple[int, int]](), list[tuple[str, int]]()
    for number, code in enumerate(codes):
        tag = f"<x{number}/>"
        if code.kind == "+":
            tag = f"<g{number}>"
            open_ones.append((code.name, number))
        elif code.kind == "-" and any(code.name == name for name, _ in open_ones):
            while (last := open_ones.pop())[0] != code.name:
                pass
            tag = f"</g{last[1]}>"
        pieces += [read(text[start : code.start]), tag]
        tags[tag] = code.start, code.end
        start = code.end
    return "".join([*pieces, read(text[start:end])]), tags


def has_words(coded_text: str) -> bool:
    return any(map(str.isalpha, html.unescape(_TAG.sub("", coded_text))))
