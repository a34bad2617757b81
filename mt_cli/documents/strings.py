"""The strings of a program: JSON and Java's .properties. Of ICU's plurals and selects the branches are translated."""

import json
import re
from collections.abc import Callable
from html import unescape

from mt_cli.data.spans import escaped
from mt_cli.documents.document import Code, Slot, TextDocument
from mt_cli.errors import DataError

_JSON = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?')
_PROPERTY = re.compile(
    r"^[ \t\f]*+(?:[#!][^\r\n]*+|(?:[^\\\s=:]|\\(?:\r\n|.))++[ \t\f]*+[=:]?[ \t\f]*+((?:[^\\\r\n]|\\(?:\r\n|.))*+))",
    re.MULTILINE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:(\r?\n[ \t\f]*)|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f"})
_S = r"(?:\\[ntr]|\\\r?\n|\s)*"  # space, as it is written
_CHOICE = re.compile(rf"\{{{_S}[\w.-]+{_S},{_S}(plural|select|selectordinal){_S},{_S}(?:offset:\d+)?")
_BRANCH, _END = re.compile(rf"{_S}(?:=\d+|[\w-]+){_S}\{{"), re.compile(rf"{_S}\}}")
_SPECIAL = re.compile(r"'[{}#][^']*'|\{[^{}]*\}|[{}#]")

Change = Callable[[str], str]


def read(content: bytes, name: str) -> TextDocument:
    """Raises DataError for what is no JSON, and for an escape that .properties have not."""
    if name.lower().endswith(".json"):
        document, pattern = TextDocument(content, name), _JSON
        try:
            json.loads(document.text)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            raise DataError(f"{name}:{line}: no JSON ({getattr(error, 'msg', error)}); correct the file") from None
        keeps_ascii = "\\u" in document.text and document.text.isascii()
        decode: Change = lambda raw: json.loads(f'"{raw}"')  # noqa: E731
        encode: Change = lambda text: json.dumps(text, ensure_ascii=keeps_ascii)[1:-1]  # noqa: E731
    else:
        try:
            document = TextDocument(content, name)
        except DataError:
            document = TextDocument(content, name, "iso-8859-1")
        is_ascii = document.encoding != "utf-8" or document.text.isascii()  # which all versions of Java read
        pattern, decode = _PROPERTY, _property

        def encode(text: str) -> str:
            text = re.sub("^ ", r"\\ ", text.translate(_ESCAPES))
            return re.sub(r"[^\x00-\x7f]", lambda char: json.dumps(char[0])[1:-1], text) if is_ascii else text

    for found in pattern.finditer(document.text):
        if found.lastindex == 1:  # no key, and no comment
            if pattern is _PROPERTY and (bad := re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})", found[1])):
                raise document.error(found.start(1) + bad.start(), "\\u without four hexadecimal digits; correct it")
            document.slots += _slots(document, *found.span(1), decode, encode)
    return document


def _slots(document: TextDocument, start: int, end: int, decode: Change, encode: Change) -> list[Slot]:
    """A message is a slot, or each branch of its choices."""
    text = document.text
    is_doubled = "''" in text[start:end] and "{" in text[start:end]  # an apostrophe of a message with arguments

    def read(raw: str) -> str:
        return decode(raw.replace("''", "'") if is_doubled else raw)

    def write(translation: str) -> str:
        return encode(translation.replace("'", "''") if is_doubled else translation)

    def parse(start: int, plural: str) -> int:
        """Adds the slots from `start` to the end, or to the brace that closes a branch of `plural`, and returns its place."""
        codes, at = list[Code](), start
        while special := _SPECIAL.search(text, at, end):
            if special[0] == "}" and plural:
                break
            at = special.end()
            if choice := _CHOICE.match(text, special.start(), end):
                at = choice.end()
                while branch := _BRANCH.match(text, at, end):
                    at = parse(branch.end(), choice[1]) + 1
                if not (closing := _END.match(text, at, end)):
                    raise LookupError
                at = closing.end()
            elif special[0] in "{}":
                raise LookupError
            if special[0] != "#" or plural.endswith(("plural", "ordinal")):
                codes.append(Code(special.start(), at))
        if plural and not special:
            raise LookupError
        last = special.start() if special else end
        of_xml = lambda raw: escaped(read(raw)), lambda text: write(unescape(text))
        slots.extend(document.slot(start, last, codes, *of_xml))
        return last

    slots = list[Slot]()
    if re.search(r"\{\s*[\w.-]+\s*,", text[start:end]) and not re.search(r"\\[{}#']", text[start:end]):
        try:
            parse(start, "")
            return slots
        except (LookupError, RecursionError):  # a text with braces
            slots.clear()
    return list(document.slot(start, end, (), read, write, markup=None))


def _property(raw: str) -> str:
    def character(escape: re.Match[str]) -> str:
        return chr(int(escape[2], 16)) if escape[2] else "" if escape[1] else _CONTROLS.get(escape[3], escape[3])

    text = _ESCAPE.sub(character, raw)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # pairs of \u escapes are one character
