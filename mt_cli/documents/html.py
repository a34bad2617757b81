"""HTML: the text between the tags of blocks, with the tags within as codes, and what attributes say to readers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape

from mt_cli.documents.document import Segment, Written
from mt_cli.documents.ranges import Code, Slot, Source, TextDocument, coded, has_words, replaced
from mt_cli.errors import DataError

# Possessive repeats keep it linear in the length of the file.
_ATTRIBUTE = r"""[^\s<>"'/=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'<>]++))?+"""
_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<[!?][^>]*+>"
    r"|<(?P<raw>script|style|textarea)\b[^>]*+>.*?(?:</(?P=raw)\s*+>|\Z)"
    rf"|<(?P<close>/?)(?P<name>[A-Za-z][\w:.-]*+)(?P<attributes>(?:[\s/]++|{_ATTRIBUTE})*+)>",
    re.DOTALL | re.IGNORECASE,
)
_NAMED = re.compile(r"""([^\s<>"'/=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|[^\s"'<>]++))?+""")
_READ = frozenset(["alt", "title", "placeholder", "aria-label"])  # attributes that readers see
INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark math q ruby rb rp rt s"
        " samp small span strike strong sub sup svg time tt u var wbr",
    )
)
_COPIED = frozenset(["code", "kbd", "samp", "var", "pre", "svg", "math"])
_VOID = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta source track wbr"))
_FORBIDS = re.compile(
    r"""translate\s*=\s*["']?no\b|class\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b)""", re.I
)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.I)
_SPACE = " \t\r\n\f"
_LINE_BREAK = re.compile(r"[ \t\r\f]*\n[ \t\r\n\f]*")
_LANG = re.compile(r"""<html\b[^>]*?\slang\s*=\s*["']?([\w-]+)""", re.I)


def read(content: bytes, name: str) -> TextDocument:
    """Raises DataError for a file in another encoding than it declares, and for one without tags."""
    declared = _CHARSET.search(content[:4096])
    source = Source.decoded(content, name, declared[1].decode("ascii", "replace") if declared else "utf-8")
    if not _TOKEN.search(source.text):
        raise DataError(f"{name}:1: no tag, expected HTML; save plain text as .txt")
    return HtmlDocument(source, slots_of(source, 0, len(source.text)))


class HtmlDocument(TextDocument):
    def __init__(self, source: Source, slots: Iterator[Slot]):
        self._lang = _LANG.search(source.text)
        super().__init__(source, slots, self._lang[1] if self._lang else "")

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        """The page says that it is in the language of its translation."""
        slots, given = list(self.slots), list(translations)
        changes = (one and one.text != slot.segment.text for one, slot in zip(given, slots, strict=True))
        if self._lang and any(changes):
            slots.append(Slot(*self._lang.span(1), Segment(self.src_lang, "the language")))
            given.append(Written(tgt_lang))
        return self.source.encoded(replaced(self.source.text, slots, given))


def slots_of(source: Source, start: int, end: int) -> Iterator[Slot]:
    """The slots of a stretch that is HTML."""
    first, codes = start, list[Code]()  # of the text since the last tag of a block
    copied, depth, copied_from = "", 0, 0  # an element that stays as it is, and how many of its name are open
    for token in _TOKEN.finditer(source.text, start, end):
        name, is_end = (token["name"] or "").lower(), bool(token["close"])
        is_single = name in _VOID or token[0].endswith("/>")
        if copied:
            if name == copied and not is_single:
                depth += -1 if is_end else 1
            if not depth:
                if name in INLINE:
                    codes.append(Code(copied_from, token.end()))
                else:
                    first = token.end()
                copied = ""
            continue
        if not name:  # a comment, a script
            codes.append(Code(*token.span()))
            continue
        is_copied = not (is_end or is_single) and (name in _COPIED or _FORBIDS.search(token["attributes"]) is not None)
        if name not in INLINE:
            yield from _run(source, first, token.start(), codes)
            first, codes = token.end(), []
        if is_copied:
            copied, depth, copied_from = name, 1, token.start()
            continue
        if not is_end:
            yield from _attributes(source, *token.span("attributes"))
        if name in INLINE:
            codes.append(Code(*token.span(), "" if is_single else "-" if is_end else "+", name))
    if not copied:
        yield from _run(source, first, end, codes)


def _run(source: Source, start: int, end: int, codes: list[Code]) -> Iterator[Slot]:
    """The slot of a text without tags of blocks. What stands at its edges and belongs to no pair stays outside."""
    text, codes = source.text, list(codes)
    while True:
        while start < end and text[start] in _SPACE:
            start += 1
        while start < end and text[end - 1] in _SPACE:
            end -= 1
        if codes and codes[0].start == start and codes[0].kind != "+":
            start = codes.pop(0).end
        elif codes and codes[-1].end == end and codes[-1].kind != "-":
            end = codes.pop().start
        else:
            break
    coded_text, tags = coded(text, start, end, codes, _one_line)
    if has_words(coded_text):
        yield Slot(start, end, Segment(coded_text, f"line {source.line(start)}", "xml"), tags=tags)


def _attributes(source: Source, start: int, end: int) -> Iterator[Slot]:
    for found in _NAMED.finditer(source.text, start, end):
        group = 2 if found[2] is not None else 3
        if found[1].lower() in _READ and found[group] and has_words(found[group]):
            segment = Segment(unescape(found[group]), f"line {source.line(start)}, {found[1]}")
            yield Slot(*found.span(group), segment, escape)


def _one_line(text: str) -> str:
    return _LINE_BREAK.sub(" ", text)
