"""PO files of gettext: the msgstr of each entry is filled, and the entry marked as fuzzy, for a person to look at."""

import gettext
import logging
import re
from collections.abc import Iterator, Sequence
from functools import partial

from mt_cli.data.units import PoEntry, po_entries, po_header
from mt_cli.documents.document import Edit, Segment, Slot, TextDocument, Written, remarks_of
from mt_cli.errors import DataError

log = logging.getLogger(__name__)

_REMARK = "# mt: "  # begins a remark of this program about an entry
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_PIECE = re.compile(r"[^\n]{1,75}(?:[\n ]|\Z)|[^\n ]+[\n ]?|[\n ]")  # of a text on several lines
# Of all formats that msgfmt checks; also what is not one in C, such as "100 %.".
_DIRECTIVES = re.compile(
    r"%(?:\(\w+\)|\d+\$)?[-+ #0']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh|ll|[hlqLjzt])?[A-Za-z%@]|%<\w+>|%\d*|[$#]?\{[^{}]*\}|[{}]|\$\w+"
)


class PoDocument(TextDocument):
    is_bilingual = True

    def __init__(self, content: bytes, name: str):
        """Raises DataError also for a line that PO files have not, for no header and for a formula of plurals that is
        none."""
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
            raise self.error(
                self._header.keywords, "Plural-Forms is no formula of n; copy that of the language"
            ) from None
        odd = list[int]()  # lines of entries with other forms than the header says
        for entry in rest:
            keys = [f"msgstr[{n}]" for n in range(n_forms)] if "msgid_plural" in entry.strings else ["msgstr"]
            if {*keys} == {key for key in entry.strings if key.startswith("msgstr")}:
                self.slots += [self._slot(entry, n, forms) for n in range(len(keys))]
            else:
                odd.append(entry.targets[0].line)
        if odd:
            found = f"plural forms of another number than the header's {n_forms if plurals else 0}"
            remedy = "they stay as they are; complete them, or run msgmerge"
            log.warning(f"{name}:{odd[0]}: {found}, in {len(odd):,} entries; {remedy}")

    def _slot(self, entry: PoEntry, form: int, forms: Sequence[int]) -> Slot:
        strings, target = entry.strings, entry.targets[form]
        text, several = strings["msgid"].text, strings.get("msgid_plural")
        if several is not None:
            # As msgfmt has it: a form of few numbers may leave out the number.
            is_like_several = _DIRECTIVES.findall(text) == _DIRECTIVES.findall(several.text)
            is_of_one = max(forms) > 0 and forms[1] == form and (forms.count(form) <= 5 or is_like_several)
            text = text if is_of_one else several.text
        is_format = re.search(r"(?m)^[ \t]*#,.*(?<!no-)\b[a-z-]+-format", entry.comments)
        directives = _DIRECTIVES if is_format else None
        segment = Segment(text, f"line {target.line}", None, target.text, not target.text, directives)
        return Slot(target.start, target.end, segment, partial(_quoted, text, self.newline), owner=entry)

    def marks(self, changes: Sequence[tuple[Slot, Written]], tgt_lang: str) -> Iterator[Edit]:
        newline = self.newline
        for entry, remark in remarks_of(changes).items():
            start = entry.keywords - len(entry.comments)
            if remark:
                old = re.search(rf"(?m)^{_REMARK}.*\n", entry.comments)
                place = (start + old.start(), start + old.end()) if old else (entry.start, entry.start)
                yield Edit(*place, f"{_REMARK}{remark}{newline}")
            if not entry.is_fuzzy:
                flags = (
                    start + found.end() if (found := re.search(r"(?m)^[ \t]*#,", entry.comments)) else entry.keywords
                )
                yield Edit(flags, flags, " fuzzy," if found else f"#, fuzzy{newline}")
        header = self._header.targets[0]
        for pattern, value in ((r"charset=(CHARSET)\b", "UTF-8"), (r'Language:( *)(?=\\n|")', f" {tgt_lang}")):
            if found := re.compile(pattern).search(self.text, header.start, header.end):
                yield Edit(*found.span(1), value)


def _quoted(source: str, newline: str, text: str) -> str:
    """The text in quotes, on lines of its own if it is long or has several; with the line ends around it that its
    source has."""
    n_before, n_after = (len(source) - len(one) for one in (source.lstrip("\n"), source.rstrip("\n")))
    text = "\n" * n_before + text.strip("\n") + "\n" * n_after
    lines = [f'"{line.translate(_ESCAPES)}"' for line in _PIECE.findall(text)]
    return lines[0] if len(lines) == 1 else newline.join(['""', *lines])
