"""Markdown: paragraphs, headings, items and the cells of tables, with emphasis, links and inline code as codes.

A translated paragraph is one line. Code, front matter, formulas and the targets of links stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape, unescape

from mt_cli.documents.document import Segment
from mt_cli.documents.html import INLINE, slots_of
from mt_cli.documents.ranges import Code, Slot, Source, TextDocument, coded, has_words

_LINE = re.compile(r"([^\r\n]*+)(?:\r?\n|\r|\Z)")
_PREFIX = re.compile(
    r"(?:[ ]{0,3}>[ ]?)*+(?P<indent>[ \t]*+)(?P<marker>(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*+(?:\[[ xX]\][ \t]+)?)"
    r"(?P<heading>\#{1,6}[ \t]+)?(?P<note>\[\^[^\]\s]+\]:[ \t]*)?"
)
_END = re.compile(r"(?:[ \t]+\#+)?[ \t\\]*\Z")
_FENCE = re.compile(r"`{3,}|~{3,}|\$\$")
_RULE = re.compile(r"[ >]*+(?:=+|(?:-[ \t]*)+|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})\Z")
_TABLE_RULE = re.compile(r"[ >]*+\|?[ ]*:?-+:?[ ]*(?:\|[ ]*:?-+:?[ ]*)*\|?[ ]*\Z")
_CELL = re.compile(r"(?:[^|\\`]|\\.|`[^`]*`|`)+")
_DEFINITION = re.compile(r"[ ]{0,3}\[([^\]^][^\]]*)\]:[ \t]", re.MULTILINE)
_HTML = re.compile(r"<(!--|[!?]|/?(?P<name>[A-Za-z][\w-]*)(?=[\s/>]|\Z))")
_RAW = {"!--": "-->", **{name: f"</{name}" for name in ("pre", "script", "style", "textarea")}}
_CODE = re.compile(
    r"(?P<single>(?<!`)(?P<ticks>`+)(?!`).{1,2000}?(?<!`)(?P=ticks)(?!`)|\\[!-/:-@\[-`{-~]|<[^<>\s]{0,500}[:@][^<>\s]{0,500}>"
    r"|<!--.{0,2000}?-->|\[\^[^\]\s]+\]|(?<!\w):[a-z0-9_+-]+:(?!\w))"
    r"|<(?P<end>/?)(?P<tag>[A-Za-z][\w-]*)(?:\s[^<>]*)?>"
    r"|(?P<open>!?\[)|(?P<close>\](?:\((?:[^()\\]|\\.|\([^()]*\)){0,2000}+\)|\[[^\]]*\])?)"
    r"|(?P<run>\*{1,3}|_{1,3}|~~)",
    re.DOTALL,
)
_BREAK = re.compile(r"[ \t]*(?:\r?\n|\r)[ \t>]*")


def read(content: bytes, name: str) -> TextDocument:
    source = Source.decoded(content, name)
    return TextDocument(source, _slots(source))


def _slots(source: Source) -> Iterator[Slot]:
    spans = [found.span(1) for found in _LINE.finditer(source.text)]
    lines = [source.text[start:end] for start, end in spans]
    names = frozenset(found[1].lower() for found in _DEFINITION.finditer(source.text))
    paragraph = list[int]()  # its start, and the end of its last line
    indent, number = 0, 0  # of the text of the last item of a list; of the line

    def behind(first: int, is_last: Callable[[str], bool]) -> int:
        return next((n + 1 for n in range(first, len(lines)) if is_last(lines[n])), len(lines))

    def flush() -> Iterator[Slot]:
        if paragraph:
            yield from _slot(source, paragraph[0], paragraph[-1], names)
            paragraph.clear()

    if lines[0] == "---":  # front matter
        number = behind(1, lambda line: line in ("---", "..."))
    while number < len(lines):
        line, (start, end) = lines[number], spans[number]
        prefix = _PREFIX.match(line)
        assert prefix is not None
        rest, width = line[prefix.end() :], len(prefix["indent"].expandtabs(4))
        fence, tag = _FENCE.match(rest), _HTML.match(rest)
        if prefix["marker"]:
            indent = width + len(prefix["marker"])
        elif rest and not width and not paragraph:
            indent = 0
        is_beginning = bool(prefix["marker"] or prefix["heading"] or prefix["note"])
        if is_beginning or fence or not rest.strip() or _RULE.match(line):
            yield from flush()
        if fence:
            mark = fence[0]
            number = behind(number + (rest.count(mark) == 1), lambda line, mark=mark: mark in line)  # type: ignore[misc]
        elif not rest.strip() or _RULE.match(line) or (width >= indent + 4 and not paragraph and not is_beginning):
            number += 1  # indented text is code
        elif tag and (tag["name"] or "").lower() not in INLINE:
            yield from flush()
            last = _RAW.get(tag[1].lower(), "")
            first, number = (
                start + prefix.end(),
                behind(
                    number,
                    lambda line, last=last: last in line.lower() if last else not line.strip(),  # type: ignore[misc]
                ),
            )
            yield from slots_of(source, first, spans[number - 1][1])
        elif (
            "|" in rest
            and number + 1 < len(lines)
            and "-" in lines[number + 1]
            and _TABLE_RULE.match(lines[number + 1])
        ):
            yield from flush()
            end_of_table = next((n for n in range(number + 2, len(lines)) if "|" not in lines[n]), len(lines))
            for row in (number, *range(number + 2, end_of_table)):
                for cell in _CELL.finditer(source.text, *spans[row]):
                    yield from _slot(source, *cell.span(), names, lambda text: unescape(text).replace("|", "\\|"))
            number = end_of_table
        else:
            if not _DEFINITION.match(line):
                ending = _END.search(rest)
                paragraph += [start + prefix.end(), end - len(ending[0] if ending else "")]
            if prefix["heading"] or rest.endswith(("  ", "\\")):
                yield from flush()
            number += 1
    yield from flush()


def _slot(
    source: Source, start: int, end: int, names: frozenset[str], write: Callable[[str], str] = unescape
) -> Iterator[Slot]:
    content = source.text[start:end]
    start, end = start + len(content) - len(content.lstrip()), end - len(content) + len(content.rstrip())
    codes = _codes(source.text, start, end, names)
    coded_text, tags = coded(source.text, start, end, codes, lambda text: escape(_BREAK.sub(" ", text), quote=False))
    if has_words(coded_text):
        yield Slot(start, end, Segment(coded_text, f"line {source.line(start)}", "xml"), write, tags)


def _codes(text: str, start: int, end: int, names: frozenset[str]) -> list[Code]:
    """The codes of a paragraph. Brackets and stars that belong to no pair are text; `names` of links are copied."""
    codes, open_ones = (
        list[Code](),
        list[tuple[int, int, str, int]](),
    )  # what may open a pair; how many codes come before
    for found in _CODE.finditer(text, start, end):
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
            if found["run"] or len(found["close"]) > 2:
                codes += [Code(first, behind, "+", kind), Code(*here, "-", kind)]
            elif text[behind : here[0]].lower() in names:
                codes[n_codes:] = [Code(first, here[1])]
        elif found["run"] and not is_in_word and after.strip():
            open_ones.append((*here, kind, len(codes)))
    return sorted(codes)
