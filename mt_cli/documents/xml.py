"""XML as a text whose elements know where they stand in it. A parser has checked it before, without what it refers to.
XLIFF 1.2 and 2.x (OASIS): a segment is a `trans-unit`, or a `segment` of a unit; one not translated yet is filled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape, unescape

from lxml import etree

from mt_cli.data.spans import escaped
from mt_cli.data.units import PARSER_OPTIONS, UNTRANSLATED
from mt_cli.documents.document import TAG, Changes, Code, Edit, Segment, TextDocument
from mt_cli.errors import DataError

_QUOTED = r"""\"[^\"]*+\"|'[^']*+'"""
_TOKEN = re.compile(
    rf"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[.*?\]\]>|<!DOCTYPE(?:[^\[>\"']|{_QUOTED})*+(?:\[(?:<!--.*?-->|[^\]\"']|{_QUOTED})*+\]\s*)?>"
    rf"|<(?P<close>/?)(?P<prefix>(?:[^\s:/>]+:)?)(?P<name>[^\s/>]+)(?:[^\"'/>]|{_QUOTED})*+(?P<single>/?)>",
    re.DOTALL,
)
_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)""")
# Within the text of an element: entities of the file's own, and the tags of HTML that is written as text.
_CODE = re.compile(
    r"&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z][\w.:-]*;"
    r"|(?:&lt;|<)(?P<close>/?)(?P<name>[A-Za-z][\w:.-]*)(?:\s+[\w:-]+=(?:(?!&[lg]t;)[^<>])*?)?\s*(?P<single>/?)(?:&gt;|>)"
)
_SECTION = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)

Content = tuple[int, int, list[Code], Callable[[str], str], Callable[[str], str]]


@dataclass(eq=False, slots=True)
class Element:
    """Where an element begins and ends, and its content; comments and the like have no name."""

    name: str
    prefix: str  # of its name, with the colon
    tag: str  # that begins it
    parent: Element | None
    start: int
    first: int  # of the content
    last: int = -1
    end: int = -1
    children: list[Element] = field(default_factory=list)

    def get(self, attribute: str, default: str = "") -> str:
        """The value of an attribute, with any prefix."""
        found = _attribute(attribute).search(self.tag)
        return found[2][1:-1] if found else default

    def iter(self, *names: str) -> Iterator[Element]:
        """Itself and all in it, in their order."""
        found = [self]
        while found:
            one = found.pop()
            found += reversed(one.children)
            if one.name in names:
                yield one

    def all(self, *names: str) -> list[Element]:
        return [child for child in self.children if child.name in names]

    def find(self, name: str) -> Element | None:
        return next(iter(self.all(name)), None)

    def ancestors(self) -> Iterator[Element]:
        if self.parent is not None:
            yield self.parent
            yield from self.parent.ancestors()

    def put(self, attribute: str, value: str) -> Edit:
        """Gives it the attribute; '' takes it away."""
        own = f' {attribute}="{escape(value)}"' if value else ""
        if found := _attribute(attribute).search(self.tag):
            return Edit(self.start + found.start(), self.start + found.end(), own)
        at = self.start + 1 + len(self.prefix + self.name)
        return Edit(at, at, own)


def _attribute(name: str) -> re.Pattern[str]:
    return re.compile(rf"\s([\w.-]+:)?{name}\s*=\s*({_QUOTED})")


class XmlDocument(TextDocument):
    """A text that is an element, `root`."""

    root_name = ""  # that it must have
    has_html = False  # whether tags of HTML are written as text

    def __init__(self, content: bytes, name: str):
        """Raises DataError with the line of what is damaged, and for another root than `root_name`."""
        try:
            etree.fromstring(content, etree.XMLParser(**PARSER_OPTIONS))
        except (etree.XMLSyntaxError, ValueError) as error:
            line, reason = getattr(error, "lineno", None) or 1, " ".join(str(error).partition(", line ")[0].split())
            found = f"{name}:{line}: damaged XML: {reason}"
            raise DataError(f"{found}; save it anew by the program that wrote it") from None
        super().__init__(content, name, declared[1].decode() if (declared := _ENCODING.match(content)) else "utf-8")
        at = top = Element("", "", "", None, 0, 0)
        for token in _TOKEN.finditer(self.text):
            if token["close"]:
                at.last, at.end = token.span()
                at = at.parent or top
                continue
            start, end = token.span()
            one = Element(token["name"] or "", token["prefix"] or "", token[0], at, start, end, end, end)
            at.children.append(one)
            if one.name and not token["single"]:
                at = one
        [self.root] = (one for one in top.children if one.name)
        self.root.parent = None
        if self.root_name not in ("", self.root.name):
            found = f"{name}: the root element is {self.root.name}, expected {self.root_name}"
            raise DataError(f"{found}; give a file of this format")

    def inner(self, element: Element) -> str:
        return self.text[element.first : element.last]

    def content(self, element: Element, is_around_words: Callable[[Element], bool]) -> Content:
        """What `coded` and `add` take. Of an element that is a CDATA section: its content, which may be HTML."""
        start, end = element.first, element.last
        section = _SECTION.fullmatch(self.text, start, end)
        if not section:
            read = lambda text: _SECTION.sub(lambda one: escaped(one[1]), text)
            return start, end, list(self._codes(element, is_around_words)), read, str
        codes = [code for code in self._codes_of_text(*section.span(1), "") if code.name]
        is_html = codes or re.search(r"&#?\w+;", section[1])
        return *section.span(1), codes, *((str, str) if is_html else (escaped, unescape))

    def _codes(self, element: Element, is_around_words: Callable[[Element], bool]) -> Iterator[Code]:
        at = element.first
        for child in element.children:
            yield from self._codes_of_text(at, child.start, str(element.start))
            at = child.end
            if child.name and is_around_words(child):
                yield Code(child.start, child.first, "+", str(child.start))
                yield from self._codes(child, is_around_words)
                yield Code(child.last, child.end, "-", str(child.start))
            elif not self.text.startswith("<![", child.start):
                yield Code(child.start, child.end)
        yield from self._codes_of_text(at, element.last, str(element.start))

    def _codes_of_text(self, start: int, end: int, level: str) -> Iterator[Code]:
        for code in _CODE.finditer(self.text, start, end):
            kind = "" if code["single"] or not code["name"] else "-" if code["close"] else "+"
            if self.has_html or not code["name"]:
                yield Code(*code.span(), kind, code["name"] and f"{level} {code['name']}")


class Xliff(XmlDocument):
    root_name, is_bilingual, has_html = "xliff", True, True

    def __init__(self, content: bytes, name: str):
        """Raises DataError also for a file in more than two languages."""
        super().__init__(content, name)
        self._is_new = self.root.get("version").startswith("2")
        languages = list[str]()
        for names in (("source-language", "srcLang"), ("target-language", "trgLang")):
            found = {self.root.get(names[1]), *(one.get(names[0]) for one in self.root.iter("file"))} - {""}
            if len(found) > 1:
                listed = " and ".join(sorted(found))
                raise DataError(f"{name}: {names[0]} is {listed}, expected one; make a file of each language")
            languages.append(next(iter(found), ""))
        self.src_lang, self.tgt_lang = languages
        self.segments = [
            self._segment(unit, source)
            for unit in self.root.iter("trans-unit", "segment")
            if (source := unit.find("seg-source") or unit.find("source"))
        ]

    def _segment(self, unit: Element, source: Element) -> Segment:
        """In 1.2 `source` is the segmented one where there is one, since its target has the same segments."""
        target, owner = unit.find("target"), unit
        if unit.name == "segment":
            owner = next((one for one in unit.ancestors() if one.name == "unit"), unit)
        start, end, codes, read, write = self.content(source, _is_around_words)
        text, tags = self.coded(start, end, codes, read)
        given, wanted = "", next((one for above in (unit, *unit.ancestors()) if (one := above.get("translate"))), "yes")
        if wanted != "no" and target and (target.get("state") or unit.get("state")) not in UNTRANSLATED:
            given_start, given_end, given_codes, read, _ = self.content(target, _is_around_words)
            given, _ = self.coded(given_start, given_end, given_codes, read)
            given = given if TAG.sub("", given).strip() else ""
        tag, like = f"{source.prefix}target", target or source
        attributes = like.tag[1 + len(like.prefix + like.name) : -1].rstrip("/ ")
        for attribute in ["state", *([] if target else ["lang"])]:
            attributes = _attribute(attribute).sub("", attributes)
        indent = self.text[unit.first + len(self.text[unit.first : source.start].rstrip()) : source.start]
        lead = "" if target else indent
        attributes += "" if self._is_new else ' state="needs-review-translation"'

        def wrap(content: str) -> str:
            before, behind = self.text[source.first : start], self.text[end : source.last]
            return f"{lead}<{tag}{attributes}>{before}{content}{behind}</{tag}>"

        place = (target.start, target.end) if target else (source.end, source.end)
        is_asked, name = wanted != "no" and not given, f"unit {owner.get('id')}"
        return Segment(*place, text, name, "xml", given, is_asked, None, write, wrap, tags, (unit, owner))

    def marks(self, changes: Changes, tgt_lang: str) -> Iterator[Edit]:
        notes = dict[Element, list[str]]()  # of the units of XLIFF 2
        by = "category" if self._is_new else "from"
        for segment, one in changes:
            unit, owner = segment.owner
            note = f'<{unit.prefix}note {by}="mt">{escaped(one.remark)}</{unit.prefix}note>' if one.remark else ""
            if self._is_new:
                yield unit.put("state", "translated")
                yield unit.put("subState", "mt:needs-review")
                notes.setdefault(owner, []).append(note)
            else:
                yield from [unit.put("approved", "")] if unit.get("approved") else []
                yield Edit(segment.end, segment.end, note)
        for owner, own in notes.items():
            if old := owner.find("notes"):
                yield Edit(old.last, old.last, "".join(own))
            elif any(own):
                first = owner.all("originalData", "segment", "ignorable")[0]
                yield Edit(first.start, first.start, f"<{owner.prefix}notes>{''.join(own)}</{owner.prefix}notes>")
        if not self.tgt_lang:
            for file in [self.root] if self._is_new else self.root.iter("file"):
                yield file.put("trgLang" if self._is_new else "target-language", tgt_lang)


def _is_around_words(element: Element) -> bool:
    is_kept = element.get("translate") == "no" or element.get("mtype") == "protected"
    return element.name in ("g", "pc", "mrk") and not is_kept
