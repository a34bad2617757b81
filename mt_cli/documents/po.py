"""PO files of gettext: the msgstr of each entry is filled, and the entry marked as fuzzy, for a person to look at."""

from __future__ import annotations

import gettext
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from mt_cli.documents.document import Segment, Written
from mt_cli.documents.ranges import Edit, Slot, Source, TextDocument, edited
from mt_cli.errors import DataError

_LINE = re.compile(
    r"[ \t]*(?:(?P<comment>\#[^\n]*)|(?:(?P<key>msgctxt|msgid|msgid_plural|msgstr)(?:\[(?P<form>\d{1,3})\])?[ \t]*)?"
    r'(?P<string>"(?:[^"\\\n]|\\.)*+")[ \t]*)?\r?(?:\n|\Z)'
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_MARK = "# mt: "  # begins the remark about an entry


@dataclass
class String:
    line: int
    start: int  # of its first quote
    end: int  # behind its last one
    text: str = ""


@dataclass
class Entry:
    start: int = -1
    keywords: int = -1  # where they begin
    flags: int = -1  # behind the #, of a comment that has them
    is_fuzzy: bool = False
    remark: tuple[int, int] = (-1, -1)
    strings: dict[str, String] = field(default_factory=dict)
    forms: dict[int, String] = field(default_factory=dict)  # each msgstr


def read(content: bytes, name: str) -> TextDocument:
    """Raises DataError for a line that PO files have not, for a file without header and for a wrong number of plural forms."""
    declared = _CHARSET.search(content)
    charset = declared[1].decode() if declared else "utf-8"
    source = Source.decoded(content, name, "utf-8" if charset == "CHARSET" else charset)
    return PoDocument(source, _entries(source))


class PoDocument(TextDocument):
    def __init__(self, source: Source, entries: Sequence[Entry]):
        if not entries or entries[0].strings["msgid"].text or "msgctxt" in entries[0].strings:
            found = "no header, which is an entry with an empty msgid"
            raise DataError(f"{source.name}:1: {found}; add one that says charset and Plural-Forms, as msginit does")
        self._header, *rest = entries
        header = self._header.forms[0].text
        super().__init__(source, (), _value(header, "X-Source-Language"), _value(header, "Language"))
        plurals = re.fullmatch(r"nplurals=(\d+); *plural=([^;]+);?", _value(header, "Plural-Forms"))
        try:
            self._n_forms, of_one = (int(plurals[1]), gettext.c2py(plurals[2])(1)) if plurals else (0, 0)
        except (ValueError, ArithmeticError, RecursionError):
            raise source.error(
                self._header.start, "Plural-Forms is no formula of n; copy that of the language"
            ) from None
        self._of_one = of_one if self._n_forms > 1 else -1  # the form for a single thing
        self._entries = [(entry, form) for entry in rest for form in self._checked(entry)]
        self.slots = [self._slot(entry, form) for entry, form in self._entries]

    def _checked(self, entry: Entry) -> Sequence[int]:
        forms, first = sorted(entry.forms), min(string.line for string in entry.forms.values())
        expected = list(range(self._n_forms if "msgid_plural" in entry.strings else 1))
        if forms != expected:
            said = f"{len(expected)}" if expected else "no Plural-Forms, or no number in it"
            remedy = "complete the header, or run msgmerge"
            raise DataError(f"{self.source.name}:{first}: {len(forms)} plural forms, the header has {said}; {remedy}")
        return forms

    def _slot(self, entry: Entry, form: int) -> Slot:
        target, is_plural = entry.forms[form], "msgid_plural" in entry.strings
        text = entry.strings["msgid_plural" if is_plural and form != self._of_one else "msgid"].text
        context = [entry.strings["msgctxt"].text] if "msgctxt" in entry.strings else []
        context += [f"plural form {form}"] if is_plural else []
        place = f"line {target.line}"
        segment = Segment(text, place, None, target.text, not target.text, ", ".join(context))
        return Slot(target.start, target.end, segment)

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        source, edits, newline = self.source, list[Edit](), self.source.newline
        marked = dict[int, list[str]]()  # the remarks on each entry that changes, by its place in the file
        of_place = {entry.start: entry for entry, _ in self._entries}
        for (entry, _), slot, one in zip(self._entries, self.slots, translations, strict=True):
            if one is None or one.text == slot.segment.target:
                continue
            head, _, tail = (text := slot.segment.text).partition(text.strip("\n"))  # msgfmt wants the same line ends
            translation = f"{head}{one.text.strip(chr(10))}{tail}"
            edits.append(Edit(slot.start, slot.end, _quoted(translation, newline)))
            marked.setdefault(entry.start, []).append(" ".join(one.remark.split()))
        for start, remarks in marked.items():
            entry, remark = of_place[start], "; ".join(filter(None, dict.fromkeys(remarks)))
            if remark:
                place = entry.remark if entry.remark[0] >= 0 else (start, start)
                edits.append(Edit(*place, f"{_MARK}{remark}{newline}"))
            if not entry.is_fuzzy:
                at, flag = (entry.flags, " fuzzy,") if entry.flags >= 0 else (entry.keywords, f"#, fuzzy{newline}")
                edits.append(Edit(at, at, flag))
        if marked:
            header = self._header.forms[0]
            for pattern, value in ((r"charset=(CHARSET)\b", "UTF-8"), (r'Language:( *)(?=\\n|")', f" {tgt_lang}")):
                if found := re.compile(pattern).search(source.text, header.start, header.end):
                    edits.append(Edit(*found.span(1), value))
        return source.encoded(edited(source.text, sorted(edits, key=lambda edit: edit.start)))


def _entries(source: Source) -> list[Entry]:
    entries, entry, string, at = list[Entry](), Entry(), None, 0
    while at < len(source.text):
        found, line = _LINE.match(source.text, at), source.line(at)
        if not found:
            raise source.error(at, "no line of a PO file: expected a keyword such as msgid with a text in quotes")
        comment, key, start = found["comment"], found["key"], at
        at = found.end()
        if (comment and entry.keywords >= 0) or (key in ("msgctxt", "msgid") and entry.forms):
            entries.append(_whole(source, entry))
            entry, string = Entry(), None
        if comment and comment.startswith("#~"):  # an obsolete entry, whose comments are not those of the next one
            entry = Entry()
        elif comment:
            entry.start = start if entry.start < 0 else entry.start
            if comment.startswith("#,"):
                entry.flags = found.start("comment") + 2
                entry.is_fuzzy |= re.search(r"\bfuzzy\b", comment) is not None
            elif comment.startswith(_MARK):
                entry.remark = start, at
        elif key:
            entry.start = start if entry.start < 0 else entry.start
            entry.keywords = start if entry.keywords < 0 else entry.keywords
            string = String(line, *found.span("string"))
            if key == "msgstr":
                entry.forms[int(found["form"] or 0)] = string
            else:
                entry.strings[key] = string
        if found["string"]:
            if string is None:
                raise source.error(start, "a text in quotes without a keyword such as msgid before it")
            string.end = found.end("string")
            string.text += _ESCAPE.sub(_character, found["string"][1:-1])
    return [*entries, _whole(source, entry)] if entry.keywords >= 0 else entries


def _whole(source: Source, entry: Entry) -> Entry:
    if "msgid" not in entry.strings or not entry.forms:
        raise source.error(entry.keywords, "an entry without msgid or msgstr; complete it")
    return entry


def _value(header: str, key: str) -> str:
    found = re.search(rf"^{key}:(.*)$", header, re.MULTILINE | re.IGNORECASE)
    return found[1].strip() if found else ""


def _character(escape: re.Match[str]) -> str:
    if code := escape[1] or escape[2]:
        return chr(int(code, 8 if escape[1] else 16))
    return _CONTROLS.get(escape[3], escape[3])


def _quoted(text: str, newline: str) -> str:
    """The text in quotes; on lines of its own if it is long or has several."""
    lines = [
        f'"{line.translate(_ESCAPES)}"' for line in re.findall(r"[^\n]{1,75}(?:[\n ]|\Z)|[^\n ]+[\n ]?|[\n ]", text)
    ]
    return lines[0] if len(lines) == 1 else newline.join(['""', *lines])
