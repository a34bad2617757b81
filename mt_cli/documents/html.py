"""HTML: the text between the tags of blocks, with the tags within as codes, and what attributes say to readers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape, unescape

from mt_cli.documents.document import Code, Edit, Slot, TextDocument, Written
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
INLINE = frozenset(re.findall(r"\w+", """
    a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark math q ruby rb rp rt s samp
    small span strike strong sub sup svg time tt u var wbr"""))  # fmt: skip
_COPIED = frozenset(["code", "kbd", "samp", "var", "pre", "svg", "math"])
_VOID = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta source track wbr"))
_FORBIDS = re.compile(
    r"""translate\s*=\s*["']?no\b|class\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b)""", re.I
)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.I)
_LANG = re.compile(r"""<html\b[^>]*?\slang\s*=\s*["']?([\w-]+)""", re.I)
_LINE_BREAK = re.compile(r"[ \t\r\f]*\n[ \t\r\n\f]*")


def read(content: bytes, name: str) -> TextDocument:
    """Raises DataError for a file in another encoding than it declares, and for one without tags."""
    declared = _CHARSET.search(content[:4096])
    page = HtmlDocument(content, name, declared[1].decode("ascii", "replace") if declared else "utf-8")
    if not _TOKEN.search(page.text):
        raise DataError(f"{name}:1: no tag, expected HTML; save plain text as .txt")
    page.slots = list(slots_of(page, 0, len(page.text)))
    page.src_lang = found[1] if (found := _LANG.search(page.text)) else ""
    return page


class HtmlDocument(TextDocument):
    def marks(self, changes: Sequence[tuple[Slot, Written]], tgt_lang: str) -> Iterable[Edit]:
        """The page says that it is in the language of its translation."""
        return [Edit(*found.span(1), tgt_lang) for found in [_LANG.search(self.text)] if found]


def slots_of(page: TextDocument, start: int, end: int) -> Iterator[Slot]:
    """The slots of a stretch that is HTML."""
    first, codes = start, list[Code]()  # of the text since the last tag of a block
    copied, depth, copied_from = "", 0, 0  # an element that stays as it is, and how many of its name are open
    for token in _TOKEN.finditer(page.text, start, end):
        name, is_end = (token["name"] or "").lower(), bool(token["close"])
        is_single = name in _VOID or token[0].endswith("/>")
        if copied:
            if name == copied and not is_single:
                depth += -1 if is_end else 1
            if not depth:
                copied, first = "", first if name in INLINE else token.end()
                codes += [Code(copied_from, token.end())] if name in INLINE else []
            continue
        if not name:  # a comment, a script
            codes.append(Code(*token.span()))
            continue
        if name not in INLINE:
            yield from page.slot(first, token.start(), codes, _one_line, str)
            first, codes = token.end(), []
        if not (is_end or is_single) and (name in _COPIED or _FORBIDS.search(token["attributes"])):
            copied, depth, copied_from = name, 1, token.start()
            continue
        for found in _NAMED.finditer(page.text, *token.span("attributes")) if not is_end else ():
            if found[1].lower() in _READ and (found[2] or found[3]):
                place = f"line {page.line(token.start('attributes'))}, {found[1]}"
                span = found.span(2 if found[2] else 3)
                yield from page.slot(*span, (), unescape, escape, markup=None, place=place)
        if name in INLINE:
            codes.append(Code(*token.span(), "" if is_single else "-" if is_end else "+", name))
    if not copied:
        yield from page.slot(first, end, codes, _one_line, str)


def _one_line(text: str) -> str:
    return _LINE_BREAK.sub(" ", text)
