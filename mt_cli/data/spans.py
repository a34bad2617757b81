"""Spans of a text that are copied and not translated, such as addresses, markup, emoji. Meanwhile a symbol stands for
each: one of plane 15, or of plane 16 where it may stay outside of a sentence; in a sentence one of the eight `SYMBOLS`,
which are pieces."""

import html
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal

from mt_cli.data.normalize import UNSPACED

N_SYMBOLS = 8  # spans that a sentence may have: it is split where it has more
SYMBOLS = "".join(chr(0xE000 + n) for n in range(N_SYMBOLS))
TERM_BEGIN, TERM_END = TERM_SYMBOLS = "\ue008\ue009"  # around the translation behind a word of a source
_INSIDE, _OUTSIDE, _MOST = 0xF0000, 0x100000, 0xFFFE
HELD = f"[{SYMBOLS}{chr(_INSIDE)}-{chr(_INSIDE + _MOST - 1)}{chr(_OUTSIDE)}-{chr(_OUTSIDE + _MOST - 1)}]"
_HELD, _OF_PIECES = re.compile(HELD), re.compile(f"[{SYMBOLS}]")

_PICTURE = "[\u231a-\u23ff\u25fd\u25fe\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff]"
_PICTURES = rf"(?:{_PICTURE}|(?:[^\w\s]|\u2139)\ufe0f)"  # the latter turns other signs into emoji
_EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}|[#*0-9]\ufe0f?\u20e3"  # flags, keycaps
    f"|{_PICTURES}(?:[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]|[\U000e0020-\U000e007f]+|\u200d{_PICTURES})*"
)
_NOT_OF_ADDRESS = rf"\s<>\"'“”‘’«»，。！？；：、（）「」{UNSPACED}"
_ENDS = rf"[^{_NOT_OF_ADDRESS}]*[^{_NOT_OF_ADDRESS}.,;:!?)\]}}]"  # of an address
_WORD = "A-Za-z0-9_"  # \w would go on into a language that is written without spaces
_KINDS = (
    r"</?(?:[A-Za-z][^<>\n]{0,2000}|\d{1,2} ?/?)>|<!--.{0,2000}?-->",  # markup
    r"&(?:\#\d+|\#x[0-9A-Fa-f]+|[A-Za-z][A-Za-z0-9]*);",
    rf"(?:https?|ftp|file)://{_ENDS}|(?:mailto:|www\.){_ENDS}",  # addresses
    rf"(?<![{_WORD}.+-])[{_WORD}.+-]{{1,64}}@[{_WORD}-]+(?:\.[{_WORD}-]+)+",
    r"\{\{.{0,200}?\}\}|\{%.{0,200}?%\}|[$#%]?\{[^{}\s]{0,200}\}|\$t?\([^()\s]{1,200}\)",  # placeholders
    rf"(?<!\d)%(?:[A-Za-z_][{_WORD}]+%(?![{_WORD}%])|L?[1-9](?![{_WORD}%$#]|[.,]\d)|n(?![A-Za-z]))",
    r"(?<!\d)%(?:\(\w+\)|\d+\$)?[-+#0]*(?:(?!0)\d+)?(?:\.\d+)?(?:(?:hh|ll|[hlz])?[diouxXeEfFgGcrs@%]|<PRI\w+>)",
    rf"\$(?:\d(?![\d.,])|[A-Za-z_][{_WORD}]*\$?)|\[[A-Z0-9_]+\]|\\[nrt\"'\\]|(?<!\w)[@#][A-Za-z_][{_WORD}]*",
    r"\d{1,2}:\d{2}(?::\d{2})?(?!\d)|v?\d+(?:\.\d+){2,}|\d{6,}",  # times, versions, long numbers
    r"(?<!\w)(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{2,}(?:[-_][A-Za-z0-9]+)*(?!\w)|(?<!\w)[A-Z]+(?:[-_]\d+)+(?!\w)",  # codes
    f"[\ue000-\uf8ff{chr(_INSIDE)}-\U0010ffff]",  # what would be taken for a symbol
)
_EMOJIS = rf"(?:{_EMOJI})(?:\s*(?:{_EMOJI}))*+"
Markup = Literal["html", "xml"]
# Of an attribute a value in quotes may have > in it, but no tag: then a quote is missing.
ATTRIBUTE = r"""=\s*+(?:"(?:[^"<]|<(?![/A-Za-z]))*+"|'(?:[^'<]|<(?![/A-Za-z]))*+')"""
_TAG = rf"</?[A-Za-z](?:{ATTRIBUTE}|[^<>]){{0,2000}}+>|<!--.{{0,2000}}?-->"
_CDATA = r"<!\[CDATA\[.{0,20000}?\]\]>"
TAG = re.compile(f"{_TAG}|{_CDATA}", re.DOTALL)
_PRIVATE = _KINDS[-1]
_XML = re.compile(f"{_TAG}|{_CDATA}|{_PRIVATE}", re.DOTALL)
_HTML = re.compile(
    rf"<(code|kbd|samp|var|pre|script|style)\b[^<>]*>.{{0,20000}}?</\1\s*>|{_TAG}|{_PRIVATE}", re.DOTALL | re.IGNORECASE
)
SPANS = re.compile(rf"(?:{_EMOJIS}|{'|'.join(_KINDS)})+")
# Every span has one of these. Most lines have none: looking for them takes a tenth of the time of looking for spans.
_IN_SPANS = re.compile(r"[<&:@{%$\[\\#\d\ufe0f\u20e3\u231a-\u2bff\ue000-\uf8ff\U0001f000-\U0010ffff]|www")


def hold(text: str, pattern: re.Pattern[str] = SPANS, n_before: int = 0) -> tuple[str, list[str]]:
    """The text with a symbol for each span, and the spans. `n_before`: that the line has had; beyond 65,534 they are text."""
    spans = list[str]()
    if n_before >= _MOST or (pattern is SPANS and not _IN_SPANS.search(text)):
        return text, spans

    def symbol(found: re.Match[str]) -> str:
        spans.append(found[0])
        may_be_outside = found[0][0] == "<" or not any(map(str.isalnum, found[0]))
        return chr((_OUTSIDE if may_be_outside else _INSIDE) + n_before + len(spans) - 1)

    return pattern.sub(symbol, text, count=_MOST - n_before), spans


def hold_tags(line: str, markup: Markup) -> tuple[str, list[str]]:
    """`hold` for the tags of a line of markup, which may have line breaks in them."""
    return hold(line, _HTML if markup == "html" else _XML)


def hold_between_tags(text: str, n_before: int) -> tuple[str, list[str]]:
    """`hold` for what is left of markup: plain text with entities, which `escaped` writes as markup again."""
    spans, pieces = list[str](), re.split(f"({HELD})", text)
    for i in range(0, len(pieces), 2):
        pieces[i], found = hold(html.unescape(pieces[i]), SPANS, n_before + len(spans))
        spans += map(escaped, found)
    return "".join(pieces), spans


def without_symbols(text: str) -> str:
    return re.sub(f"[{SYMBOLS}{TERM_SYMBOLS}]", "", text)


def escaped(text: str) -> str:
    return html.escape(text, quote=False)


def stays_inside(char: str) -> bool:
    """Whether it is a symbol of a span that belongs to its sentence also where it stands at the edge."""
    return char in SYMBOLS or _INSIDE <= ord(char) < _OUTSIDE


def held(text: str) -> list[str]:
    """The symbols of the text, in their order."""
    return _HELD.findall(text)


def put_back(text: str, spans: Sequence[str]) -> str:
    """The text with the spans that its symbols stand for; a symbol without a span is left out."""

    def span(found: re.Match[str]) -> str:
        number = (ord(found[0]) & 0xFFFF) if ord(found[0]) >= _INSIDE else SYMBOLS.index(found[0])
        return spans[number] if number < len(spans) else ""

    return _HELD.sub(span, text)


def numbered_anew(text: str) -> tuple[str, list[str]]:
    """A sentence with `SYMBOLS`, which come again where it has more spans, and the symbols that these stand for."""
    own = held(text)
    numbers = {symbol: SYMBOLS[n % N_SYMBOLS] for n, symbol in enumerate(own)}
    return _HELD.sub(lambda found: numbers[found[0]], text), own


def numbered_back(text: str, own: Sequence[str]) -> str:
    """The inverse for a translation; a symbol that the sentence has not is left out."""
    return _OF_PIECES.sub(lambda found: own[i] if (i := SYMBOLS.index(found[0])) < len(own) else "", text)


def hold_pair(src: str, tgt: str) -> tuple[str, str]:
    """A pair to train on: the same symbol stands for a span that both sides have, one that one side lacks stays. Private-use
    characters of the text itself are left out, so that a symbol always stands for a span."""
    if not (spans := SPANS.findall(src)) and not _HELD.search(tgt):
        return src, tgt
    common, symbols = Counter(spans) & Counter(SPANS.findall(tgt)), iter(SYMBOLS)
    chosen = defaultdict[str, str](str)  # the symbols of each span, one for each time that both sides have it
    for span in spans:
        if len(chosen[span]) < common[span]:
            chosen[span] += next(symbols, "")

    def with_symbols(text: str) -> str:
        own = {span: iter(of_span) for span, of_span in chosen.items()}
        return SPANS.sub(lambda found: next(own.get(found[0], iter("")), _HELD.sub("", found[0])), text)

    return with_symbols(src), with_symbols(tgt)
