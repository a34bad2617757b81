"""HTML: the text of blocks, with the tags within as codes, and what attributes say to readers. Markdown: paragraphs,
headings, items, cells, with emphasis, links and inline code as codes; code, formulas and targets of links stay."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from html import escape, unescape

from mt_cli.data.spans import escaped
from mt_cli.documents.document import Changes, Code, Edit, TextDocument
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
_INLINE = frozenset(re.findall(r"\w+", """
    a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark math q ruby rb rp rt s samp
    small span strike strong sub sup svg time tt u var wbr"""))  # fmt: skip
_COPIED = frozenset(["code", "kbd", "samp", "var", "pre", "svg", "math"])
_VOID = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta source track wbr"))
_FORBIDS = re.compile(
    r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b)""", re.I
)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.I)
_READ_AS_CP1252 = {"iso-8859-1", "latin1", "us-ascii"}  # by browsers (WHATWG)
_LANG = re.compile(r"""<html\b[^>]*?\slang\s*=\s*["']?([\w-]+)""", re.I)
_LINE_BREAK = re.compile(r"[ \t\r\f]*\n[ \t\r\n\f]*")


class HtmlDocument(TextDocument):
    def __init__(self, content: bytes, name: str):
        """Raises DataError for a file in another encoding than it declares, and for one without tags."""
        declared = _CHARSET.search(content[:4096])
        encoding = declared[1].decode("ascii", "replace") if declared else "utf-8"
        if encoding.lower() in _READ_AS_CP1252:
            with suppress(UnicodeDecodeError):
                content.decode("cp1252")
                encoding = "cp1252"
        super().__init__(content, name, encoding)
        if not _TOKEN.search(self.text):
            raise DataError(f"{name}:1: no tag, expected HTML; save plain text as .txt")
        _read_html(self, 0, len(self.text))
        self.src_lang = found[1] if (found := _LANG.search(self.text)) else ""

    def marks(self, changes: Changes, tgt_lang: str) -> Iterable[Edit]:
        """The page says that it is in the language of its translation."""
        return [Edit(*found.span(1), tgt_lang) for found in [_LANG.search(self.text)] if found]


def _read_html(page: TextDocument, start: int, end: int) -> None:
    """Adds the segments of a stretch that is HTML."""
    first, codes = start, list[Code]()  # of the text since the last tag of a block
    copied, depth, copied_from = "", 0, 0  # an element that stays as it is, and how many of its name are open
    for token in _TOKEN.finditer(page.text, start, end):
        name, is_end = (token["name"] or "").lower(), bool(token["close"])
        is_single = name in _VOID or token[0].endswith("/>")
        if copied:
            if name == copied and not is_single:
                depth += -1 if is_end else 1
            if not depth:
                copied, first = "", first if name in _INLINE else token.end()
                codes += [Code(copied_from, token.end())] if name in _INLINE else []
            continue
        if not name:  # a comment, a script
            codes.append(Code(*token.span()))
            continue
        if name not in _INLINE:
            page.add(first, token.start(), codes, partial(_LINE_BREAK.sub, " "), str)
            first, codes = token.end(), []
        if not (is_end or is_single) and (name in _COPIED or _FORBIDS.search(token["attributes"])):
            copied, depth, copied_from = name, 1, token.start()
            continue
        is_read = not (is_end or _FORBIDS.search(token["attributes"]))
        for found in _NAMED.finditer(page.text, *token.span("attributes")) if is_read else ():
            if found[1].lower() in _READ and (found[2] or found[3]):
                place = f"line {page.line(token.start('attributes'))}, {found[1]}"
                span = found.span(2 if found[2] else 3)
                page.add(*span, (), unescape, escape, markup=None, place=place)
        if name in _INLINE:
            codes.append(Code(*token.span(), "" if is_single else "-" if is_end else "+", name))
    if not copied:
        page.add(first, end, codes, partial(_LINE_BREAK.sub, " "), str)


# Markdown --------------------------------------------------------------------------------------------------------------

_LINE = re.compile(r"([^\r\n]*+)(?:\r?\n|\r|\Z)")
_PREFIX = re.compile(
    r"(?P<quote>(?:[ ]{0,3}>[ ]?)*+)(?P<indent>[ \t]*+)(?P<marker>(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*+(?:\[[ xX]\][ \t]+)?)"
    r"(?P<heading>\#{1,6}[ \t]+)?(?P<note>\[\^[^\]\s]+\]:[ \t]*)?"
)
_END = re.compile(r"(?:[ \t]+\#+)?[ \t\\]*\Z")
_FENCE = re.compile(r"`{3,}(?!.*`{3})|~{3,}|\$\$")
_ABOVE = re.compile(r"(?:!!!|\?{3}\+?|={3})[ \t]")  # what MkDocs sets apart, with its text below by an indent of four
_RULE = re.compile(
    r"[ >]*+(?:=+|(?:-[ \t]*)+|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|\[!\w+\][-+]?[ \t]*|:{3,}.*|\{[:{%][^{}]*\}+[ \t]*"
    rf"|[ \t]*{_ABOVE.pattern}.*|import[ ].*[ ]from[ ]+['\"][^'\" ]+['\"];?)\Z"
)
_TABLE_RULE = re.compile(r"[ >]*+\|?[ ]*:?-+:?[ ]*(?:\|[ ]*:?-+:?[ ]*)*\|?[ ]*\Z")
_CELL = re.compile(r"(?:[^|\\`]|\\.|`[^`]*`|`)+")
_DEFINITION = re.compile(r"[ \t>]*\[([^\]^][^\]]*)\]:(?:[ \t]|(?=[<#/.]|\w+:))", re.MULTILINE)
_HTML = re.compile(r"<(!--|[!?]|/?(?P<name>[A-Za-z][\w-]*)(?=[\s/>]|\Z))")
_RAW = {"!--": "-->", **{name: f"</{name}" for name in ("pre", "script", "style", "textarea")}}
_MD_CODE = re.compile(
    r"(?P<single>(?<!`)(?P<ticks>`+)(?!`).{1,2000}?(?<!`)(?P=ticks)(?!`)|\\[!-/:-@\[-`{-~]|<[^<>\s]{0,500}[:@][^<>\s]{0,500}>"
    r"|<!--.{0,2000}?-->|\[\^[^\]\s]+\]|(?<!\w):[a-z0-9_+-]+:(?!\w))"
    r"|<(?P<end>/?)(?P<tag>[A-Za-z][\w-]*)(?:\s[^<>]*)?>"
    r"|(?P<open>!?\[)|(?P<close>\](?:\((?:[^()\\]|\\.|\([^()]*\)){0,2000}+\)|\[[^\]]*\])?)"
    r"|(?P<run>\*{1,3}|_{1,3}|~~)",
    re.DOTALL,
)
_BREAK = re.compile(r"[ \t]*(?:\r?\n|\r)[ \t>]*")


class MarkdownDocument(TextDocument):
    def __init__(self, content: bytes, name: str):
        super().__init__(content, name)
        self._names = frozenset(found[1].lower() for found in _DEFINITION.finditer(self.text))
        self._spans = [found.span(1) for found in _LINE.finditer(self.text)]
        self._lines = [self.text[start:end] for start, end in self._spans]
        self._paragraph = list[int]()  # where its lines begin and end
        self._depth = 0  # of quotations that it is in
        self._indent = 0  # of the text of the last item of a list
        mark = self._lines[0]
        behind = self._behind(1, (mark, "...").__contains__) if mark in ("---", "+++") else 0  # front matter
        number = behind if self._lines[behind - 1] in (mark, "...") else 0
        while number < len(self._lines):
            number = self._read_block(number)
        self._end_paragraph()

    def _behind(self, first: int, is_last: Callable[[str], bool], n_lines: int = 1) -> int:
        """The number of the line so many behind the one that is asked for."""
        return next((n + n_lines for n in range(first, len(self._lines)) if is_last(self._lines[n])), len(self._lines))

    def _read_block(self, number: int) -> int:
        """Reads a block, or a line of a paragraph, and returns the number of the line behind it."""
        line, (start, end) = self._lines[number], self._spans[number]
        prefix = _PREFIX.match(line)
        assert prefix is not None
        rest, width = line[prefix.end() :], len(prefix["indent"].expandtabs(4))
        if (depth := prefix["quote"].count(">")) > self._depth:  # a quotation ends a paragraph
            self._end_paragraph()
        if prefix["marker"] or _ABOVE.match(rest):
            self._indent = width + (len(prefix["marker"]) or 4)
        elif rest and not width and not self._paragraph:
            self._indent = 0
        fence, tag, is_blank = _FENCE.match(rest), _HTML.match(rest), not rest.strip() or _RULE.match(line)
        if fence and fence[0] == "$$" and self.text.find("$$", start + prefix.end() + 2) < 0:
            fence = None
        is_block = tag is not None and (tag["name"] or "").lower() not in _INLINE
        below = "".join(self._lines[number + 1 : number + 2])
        is_table = "|" in rest and "-" in below and _TABLE_RULE.match(below)
        is_beginning = prefix["marker"] or prefix["heading"] or prefix["note"]
        is_code = width >= self._indent + 4 and not self._paragraph and not is_beginning  # text with an indent
        if is_beginning or fence or is_blank or is_block or is_table:
            self._end_paragraph()
        if fence:
            if fence[0] == "$$":
                return self._behind(number + (rest.count("$$") == 1), lambda line: "$$" in line)
            end_of_code = re.compile(rf"[ \t>]*{fence[0]}{fence[0][0]}*[ \t]*")
            return self._behind(number + 1, lambda line: end_of_code.fullmatch(line) is not None)
        if is_blank or is_code:
            return number + 1
        if is_block and tag:
            closing = _RAW.get(tag[1].lower(), "")
            behind = self._behind(number, lambda line: closing in line.lower() if closing else not line.strip())
            _read_html(self, start + prefix.end(), self._spans[behind - 1][1])
            return behind
        if is_table:
            behind = self._behind(number + 2, lambda line: "|" not in line, 0)
            for row in (number, *range(number + 2, behind)):
                for cell in _CELL.finditer(self.text, *self._spans[row]):
                    self._add(*cell.span(), lambda text: unescape(text).replace("|", "\\|"))
            return behind
        self._depth = self._depth if self._paragraph else depth
        if not _DEFINITION.match(line):
            ending = _END.search(rest)
            self._paragraph += [start + prefix.end(), end - len(ending[0] if ending else "")]
        if prefix["heading"] or rest.endswith(("  ", "\\")):
            self._end_paragraph()
        return number + 1

    def _end_paragraph(self) -> None:
        if self._paragraph:
            self._add(self._paragraph[0], self._paragraph[-1])
            self._paragraph.clear()

    def _add(self, start: int, end: int, write: Callable[[str], str] = unescape) -> None:
        codes = _codes(self.text, start, end, self._names)
        self.add(start, end, codes, lambda text: escaped(_BREAK.sub(" ", text)), write)


def _codes(text: str, start: int, end: int, names: frozenset[str]) -> list[Code]:
    """The codes of a paragraph. Brackets and stars that belong to no pair are text; `names` of links are copied."""
    codes = list[Code]()
    open_ones = list[tuple[int, int, str, int]]()  # what may open a pair; how many codes come before
    for found in _MD_CODE.finditer(text, start, end):
        here, before, after = found.span(), text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        kind = "[" if found["close"] else found["run"] or ""
        is_in_word = kind.startswith("_") and (before.isalnum() and after.isalnum())
        n_open = next((n for n in reversed(range(len(open_ones))) if open_ones[n][2] == kind), None)
        if found["single"]:
            codes.append(Code(*here))
        elif found["tag"]:
            codes.append(Code(*here, "-" if found["end"] else "+", found["tag"].lower()))
        elif found["open"]:
            open_ones.append((*here, "[", len(codes)))
        elif n_open is not None and not is_in_word and (found["close"] or not before.isspace()):
            first, behind, _, n_codes = open_ones[n_open]
            del open_ones[n_open:]
            if found["run"] or found["close"] not in ("]", "][]"):
                codes += [Code(first, behind, "+", kind), Code(*here, "-", kind)]
            elif text[behind : here[0]].lower() in names:
                codes[n_codes:] = [Code(first, here[1])]
        elif found["run"] and not is_in_word and after.strip():
            open_ones.append((*here, kind, len(codes)))
    return sorted(codes)
