"""The strings of a program. PO files of gettext: the msgstr of each entry is filled, and the entry marked as fuzzy, for a
person to look at. Android's strings.xml, JSON and Java's .properties; of ICU's plurals and selects the branches."""

import gettext
import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import unescape

from mt_cli.data.spans import escaped
from mt_cli.data.units import PoEntry, po_entries, po_header
from mt_cli.documents.document import Changes, Code, Edit, Segment, TextDocument, remarks_of
from mt_cli.documents.xml import Element, XmlDocument
from mt_cli.errors import DataError

log = logging.getLogger(__name__)

_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_ESCAPES = str.maketrans({"\\": "\\\\"} | {control: f"\\{letter}" for letter, control in _CONTROLS.items()})

# PO --------------------------------------------------------------------------------------------------------------------

_REMARK = "# mt: "  # begins a remark of this program about an entry
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_PIECE = re.compile(r"[^\n]{1,75}(?:[\n ]|\Z)|[^\n ]+[\n ]?|[\n ]")  # of a text on several lines
# Of all formats that msgfmt checks; also what is not one in C, such as "100 %.".
_DIRECTIVES = re.compile(
    r"%(?:\(\w+\)|\d+\$)?[-+ #0']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh|ll|[hlqLjzt])?[A-Za-z%@]|%<\w+>|%\d*|[$#]?\{[^{}]*\}|[{}]|\$\w+"
)


class PoDocument(TextDocument):
    is_bilingual = True

    def __init__(self, content: bytes, name: str):
        """Raises DataError also for a line that PO files have not, for no header and for plurals without a formula."""
        charset = declared[1].decode() if (declared := _CHARSET.search(content)) else "utf-8"
        super().__init__(content, name, "utf-8" if charset == "CHARSET" else charset)
        entries = list(po_entries(self.text, name))
        if not entries or entries[0].strings["msgid"].text or "msgctxt" in entries[0].strings:
            found = "no header, which is an entry with an empty msgid"
            raise DataError(f"{name}:1: {found}; add one that says charset and Plural-Forms, as msginit does")
        self._header, *rest = entries
        self.src_lang, self.tgt_lang = (po_header(self._header, key) for key in ("X-Source-Language", "Language"))
        plurals = re.fullmatch(r"nplurals=(\d+); *plural=([^;]+);?", po_header(self._header, "Plural-Forms"))
        try:
            n_forms, form_of = (int(plurals[1]), gettext.c2py(plurals[2])) if plurals else (1, lambda n: 0)
            forms = [form_of(n) for n in range(200)]
        except (ValueError, ArithmeticError, RecursionError):
            problem = "Plural-Forms is no formula of n; copy that of the language"
            raise self.error(self._header.keywords, problem) from None
        odd = list[int]()  # lines of entries with other forms than the header says
        for entry in rest:
            keys = [f"msgstr[{n}]" for n in range(n_forms)] if "msgid_plural" in entry.strings else ["msgstr"]
            if {*keys} == {key for key in entry.strings if key.startswith("msgstr")}:
                self.segments += [self._segment(entry, n, forms) for n in range(len(keys))]
            else:
                odd.append(entry.targets[0].line)
        if odd:
            found = f"plural forms of another number than the header's {n_forms if plurals else 0}"
            remedy = "they stay as they are; complete them, or run msgmerge"
            log.warning(f"{name}:{odd[0]}: {found}, in {len(odd):,} entries; {remedy}")

    def _segment(self, entry: PoEntry, form: int, forms: Sequence[int]) -> Segment:
        strings, target = entry.strings, entry.targets[form]
        text, several = strings["msgid"].text, strings.get("msgid_plural")
        if several is not None:
            # As msgfmt has it: a form of few numbers may leave out the number.
            is_like_several = _DIRECTIVES.findall(text) == _DIRECTIVES.findall(several.text)
            is_of_one = max(forms) > 0 and forms[1] == form and (forms.count(form) <= 5 or is_like_several)
            text = text if is_of_one else several.text
        is_format = re.search(r"(?m)^[ \t]*#,.*(?<![\w-])(?!no-)[a-z-]+-format", entry.comments)
        given = (None, target.text, not target.text, _DIRECTIVES if is_format else None)
        write = partial(_quoted, text, self.newline)
        return Segment(target.start, target.end, text, f"line {target.line}", *given, write, owner=entry)

    def marks(self, changes: Changes, tgt_lang: str) -> Iterator[Edit]:
        newline = self.newline
        for entry, remark in remarks_of(changes).items():
            start = entry.keywords - len(entry.comments)
            if remark:
                old = re.search(rf"(?m)^{_REMARK}.*\n", entry.comments)
                place = (start + old.start(), start + old.end()) if old else (entry.start, entry.start)
                yield Edit(*place, f"{_REMARK}{remark}{newline}")
            if not entry.is_fuzzy:
                found = re.search(r"(?m)^[ \t]*#,", entry.comments)
                before = re.split(r"(?m)^[ \t]*#\|", entry.comments)[0]  # the old msgid comes behind the flags
                flags = start + (found.end() if found else len(before))
                yield Edit(flags, flags, " fuzzy," if found else f"#, fuzzy{newline}")
        header = self._header.targets[0]
        for pattern, value in ((r"charset=(CHARSET)\b", "UTF-8"), (r'Language:( *)(?=\\n|")', f" {tgt_lang}")):
            if found := re.compile(pattern).search(self.text, header.start, header.end):
                yield Edit(*found.span(1), value)


def _quoted(source: str, newline: str, text: str) -> str:
    """The text in quotes, on lines of its own if it is long or has several; with the line ends around it of its source."""
    n_before, n_after = (len(source) - len(one) for one in (source.lstrip("\n"), source.rstrip("\n")))
    text = "\n" * n_before + text.strip("\n") + "\n" * n_after
    lines = ['"{}"'.format(line.translate(_ESCAPES).replace('"', r"\"")) for line in _PIECE.findall(text)]
    return lines[0] if len(lines) == 1 else newline.join(['""', *lines])


# Android ---------------------------------------------------------------------------------------------------------------

_OF_XML = re.compile(r"(?<!\\)((?:\\\\)*)\\u(003[CcEe]|0026)")  # which XML has as entities
_ANDROID_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<char>.))|\"|\s+", re.DOTALL)


class AndroidStrings(XmlDocument):
    root_name, has_html = "resources", True

    def __init__(self, content: bytes, name: str):
        super().__init__(content, name)
        for one in self.root.all("string", "string-array", "plurals"):
            for number, item in enumerate([one] if one.name == "string" else one.all("item")):
                kind = "" if item is one else f" {item.get('quantity', str(number))}"
                self._read(f"{one.name} {one.get('name')}{kind}", item, one)

    def _read(self, place: str, element: Element, owner: Element) -> None:
        """Escapes, quotes and runs of whitespace are read as Android shows them, which drops spaces at the ends."""
        start, end, codes, read, write = self.content(element, lambda one: not one.prefix)  # xliff:g is not translated
        is_reference = re.match(r"\s*(?:@[\w:+.]+/|\?[\w:]+\s*\Z)", self.inner(element)) and not codes
        is_kept = is_reference or any(one.get("translatable") == "false" for one in (element, *element.ancestors()))

        def written(text: str) -> str:
            text = re.sub(r"(['\"])", r"\\\1", write(text).translate(_ESCAPES))
            return re.sub(r"^(?=[@?])", r"\\", text)

        def plain(raw: str) -> str:
            if "<![CDATA[" not in self.inner(element):
                raw = _OF_XML.sub(lambda one: one[1] + escaped(chr(int(one[2], 16))), raw)
            return read(_plain(_ANDROID_ESCAPE, raw))

        wrap = lambda text: text if text == text.strip() else f'"{text}"'
        self.add(start, end, codes, plain, written, owner=owner, place=place, is_asked=not is_kept, wrap=wrap)

    def marks(self, changes: Changes, tgt_lang: str) -> Iterator[Edit]:
        for above, remark in remarks_of(changes).items():  # of strings, arrays and plurals
            if remark:
                shown = remark.replace("--", "- -")
                yield Edit(above.start, above.start, f"<!-- mt: {shown} -->{self.newline}    ")


def _plain(escapes: re.Pattern[str], text: str) -> str:
    """What the escapes stand for; a space for whitespace among them, nothing for others."""

    def meant(found: re.Match[str]) -> str:
        if found["code"] or found["char"]:
            return chr(int(found["code"], 16)) if found["code"] else _CONTROLS.get(found["char"], found["char"])
        return " " if found[0].isspace() else ""

    return _whole(escapes.sub(meant, text))


def _whole(text: str) -> str:
    """A pair of \\u escapes is one character, half of one is none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# JSON and .properties --------------------------------------------------------------------------------------------------

_JSON = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?')
_PROPERTY = re.compile(
    r"^[ \t\f]*+(?:[#!][^\r\n]*+|(?:[^\\\s=:]|\\(?:\r\n|.))++[ \t\f]*+[=:]?[ \t\f]*+((?:[^\\\r\n]|\\(?:\r\n|.))*+))",
    re.MULTILINE | re.DOTALL,
)
_PROPERTY_ESCAPE = re.compile(r"\\(?:\r?\n[ \t\f]*|u(?P<code>[0-9A-Fa-f]{4})|(?P<char>.))", re.DOTALL)
_S = r"(?:\\[ntr]|\\\r?\n|\s)*"  # space, as it is written
CHOICE = re.compile(rf"\{{{_S}[\w.-]+{_S},{_S}(plural|select|selectordinal){_S},{_S}(?:offset:\d+)?")
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
        decode: Change = lambda raw: _whole(json.loads(f'"{raw}"'))
        encode: Change = lambda text: json.dumps(text, ensure_ascii=keeps_ascii)[1:-1]
    else:
        try:
            document = TextDocument(content, name)
        except DataError:
            document = TextDocument(content, name, "iso-8859-1")
        is_ascii = document.encoding != "utf-8" or document.text.isascii()  # which all versions of Java read
        pattern, decode = _PROPERTY, partial(_plain, _PROPERTY_ESCAPE)

        def encode(text: str) -> str:
            text = re.sub("^ ", r"\\ ", text.translate(_ESCAPES))
            return re.sub(r"[^\x00-\x7f]", lambda char: json.dumps(char[0])[1:-1], text) if is_ascii else text

    for found in pattern.finditer(document.text):
        if found.lastindex == 1:  # no key, and no comment
            if pattern is _PROPERTY and (bad := re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})", found[1])):
                raise document.error(found.start(1) + bad.start(), "\\u without four hexadecimal digits; correct it")
            # Java shows no apostrophe of a message with arguments that is not doubled.
            is_java = pattern is _PROPERTY and re.search(r"\{\d", found[1]) and "'" not in found[1]
            is_doubled = is_java or ("''" in found[1] and "{" in found[1])
            _add_message(document, *found.span(1), decode, encode, bool(is_doubled))
    return document


def _add_message(
    document: TextDocument, start: int, end: int, decode: Change, encode: Change, is_doubled: bool
) -> None:
    """A message is a segment, or each branch of its choices. `is_doubled`: each apostrophe."""
    text = document.text

    def read(raw: str) -> str:
        return decode(raw.replace("''", "'") if is_doubled else raw)

    def write(translation: str) -> str:
        return encode(translation.replace("'", "''") if is_doubled else translation)

    def parse(start: int, plural: str) -> int:
        """Adds what is from `start` to the end, or to the brace that closes a branch of `plural`, and returns its place."""
        codes, at = list[Code](), start
        while special := _SPECIAL.search(text, at, end):
            if special[0] == "}" and plural:
                break
            at = special.end()
            if choice := CHOICE.match(text, special.start(), end):
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
        document.add(start, last, codes, lambda raw: escaped(read(raw)), lambda text: write(unescape(text)))
        return last

    n_before = len(document.segments)
    if re.search(r"\{\s*[\w.-]+\s*,", text[start:end]) and not re.search(r"\\[{}#']", text[start:end]):
        try:
            parse(start, "")
            return
        except (LookupError, RecursionError):  # a text with braces
            del document.segments[n_before:]
    document.add(start, end, (), read, write, markup=None)
