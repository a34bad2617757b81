"""The strings of a program: JSON and Java's .properties. Of ICU's plurals and selects the branches are translated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape, unescape

from mt_cli.documents.document import Segment, Written
from mt_cli.documents.ranges import Code, Edit, Slot, Source, TextDocument, coded, edited, has_words, replaced
from mt_cli.errors import DataError

_JSON = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?')
_PROPERTY = re.compile(
    r"^[ \t\f]*+(?:[#!][^\r\n]*+|(?:[^\\\s=:]|\\(?:\r\n|.))++[ \t\f]*+[=:]?[ \t\f]*+((?:[^\\\r\n]|\\(?:\r\n|.))*+))",
    re.MULTILINE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:(\r?\n[ \t\f]*)|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f"})
_ARGUMENT = re.compile(r"\{\s*[\w.-]+\s*,")
_CHOICE = re.compile(r"\{\s*[\w.-]+\s*,\s*(plural|select|selectordinal)\s*,\s*(?:offset:\d+)?")
_BRANCH, _END = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{"), re.compile(r"\s*\}")
_SPECIAL = re.compile(r"'[{}#][^']*'|\{[^{}]*\}|[{}#]")


def read(content: bytes, name: str) -> TextDocument:
    """Raises DataError for what is no JSON, and for an escape that .properties have not."""
    if name.lower().endswith(".json"):
        source = Source.decoded(content, name)
        try:
            json.loads(source.text)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            raise DataError(f"{name}:{line}: no JSON ({getattr(error, 'msg', error)}); correct the file") from None
        keeps_ascii = "\\u" in source.text and source.text.isascii()
        values = [
            (*found.span(1), json.loads(f'"{found[1]}"')) for found in _JSON.finditer(source.text) if not found[2]
        ]
        return StringsDocument(source, values, lambda text: json.dumps(text, ensure_ascii=keeps_ascii)[1:-1])
    try:
        content.decode()
        source = Source.decoded(content, name)
    except UnicodeDecodeError:
        source = Source.decoded(content, name, "iso-8859-1")
    values = [(*found.span(1), _property(source, found)) for found in _PROPERTY.finditer(source.text) if found[1]]
    is_ascii = source.encoding != "utf-8" or source.text.isascii()  # which all versions of Java read
    return StringsDocument(source, values, partial(_escaped, is_ascii))


class StringsDocument(TextDocument):
    """Each value is a text that has slots of its own. `write`: with the escapes of the format."""

    def __init__(self, source: Source, values: Sequence[tuple[int, int, str]], write: Callable[[str], str]):
        self._values, self._write = values, write
        self._slots_of = [_slots(value, f"line {source.line(start)}") for start, _, value in values]
        super().__init__(source, [slot for slots in self._slots_of for slot in slots])

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        edits, rest = list[Edit](), iter(translations)
        for (start, end, value), slots in zip(self._values, self._slots_of, strict=True):
            changed = replaced(value, slots, [next(rest) for _ in slots])
            if changed != value:
                edits.append(Edit(start, end, self._write(changed)))
        return self.source.encoded(edited(self.source.text, edits))


def _slots(value: str, place: str) -> list[Slot]:
    is_doubled = "''" in value and "{" in value  # an apostrophe of a message with arguments

    def read(text: str) -> str:
        return text.replace("''", "'") if is_doubled else text

    def write(text: str) -> str:
        return text.replace("'", "''") if is_doubled else text

    def parse(start: int, plural: str) -> int:
        """Adds the slots from `start` to the end, or to the brace that closes a branch of `plural`, and returns its place."""
        codes, at = list[Code](), start
        while special := _SPECIAL.search(value, at):
            if special[0] == "}" and plural:
                break
            end = special.end()
            if choice := _CHOICE.match(value, special.start()):
                end = choice.end()
                while branch := _BRANCH.match(value, end):
                    end = parse(branch.end(), choice[1]) + 1
                if not (closing := _END.match(value, end)):
                    raise ValueError
                end = closing.end()
            elif special[0] in "{}":
                raise ValueError
            if special[0] != "#" or plural.endswith(("plural", "ordinal")):
                codes.append(Code(special.start(), end))
            at = end
        end = special.start() if special else len(value)
        if plural and not special:
            raise ValueError
        text, tags = coded(value, start, end, codes, lambda text: escape(read(text), quote=False))
        if has_words(text):
            slots.append(Slot(start, end, Segment(text, place, "xml"), lambda text: write(unescape(text)), tags))
        return end

    slots = list[Slot]()
    if _ARGUMENT.search(value):
        try:
            parse(0, "")
            return slots
        except (ValueError, RecursionError):  # a text with braces
            slots.clear()
    return [Slot(0, len(value), Segment(read(value), place), write)] if has_words(value) else []


def _property(source: Source, found: re.Match[str]) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[3] == "u":
            raise source.error(found.start(1) + escape.start(), "\\u without four hexadecimal digits; correct it")
        return chr(int(escape[2], 16)) if escape[2] else "" if escape[1] else _CONTROLS.get(escape[3], escape[3])

    text = _ESCAPE.sub(character, found[1])
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # pairs of \u escapes are one character


def _escaped(is_ascii: bool, text: str) -> str:
    text = re.sub("^ ", r"\\ ", text.translate(_ESCAPES))
    return re.sub(r"[^\x00-\x7f]", lambda char: json.dumps(char[0])[1:-1], text) if is_ascii else text
