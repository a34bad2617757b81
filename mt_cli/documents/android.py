"""Android's strings.xml: strings, arrays and plurals; the text of an element is written with backslashes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lxml import etree

from mt_cli.data.languages import language
from mt_cli.data.markup import local_name
from mt_cli.documents.document import Segment, Written
from mt_cli.documents.inline import fill, marked_text, parse, serialized
from mt_cli.errors import DataError

# The categories of whole numbers that differ from one and other (CLDR).
_PLURALS = {
    "other": "zh ja ko th vi id ms lo my km bo dz",
    "one few many other": "ru uk be pl",
    "one few other": "sr hr bs ro cs sk lt",
    "one two few other": "sl",
    "zero one other": "lv",
    "one two few many other": "ga mt",
    "zero one two few many other": "ar cy",
    "one two other": "he iu",
}
_CATEGORIES = {code: names.split() for names, codes in _PLURALS.items() for code in codes.split()}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))|(?<!\\)\"|\s+", re.DOTALL)
_MEANT = {"n": "\n", "t": "\t"}


def read(content: bytes, name: str) -> AndroidStrings:
    return AndroidStrings(content, name)


class AndroidStrings:
    """An open file. It has one language, which it does not name."""

    src_lang = tgt_lang = ""

    def __init__(self, content: bytes, name: str):
        """Raises DataError for damaged XML and other files."""
        self._content, self._name = content, name
        tree = parse(content, name)
        if local_name(tree.getroot()) != "resources":
            raise DataError(f"{name}: the root element is {tree.getroot().tag}, expected resources; give a strings.xml")
        self.segments = [_segment(place, element) for place, element in _elements(tree)]

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        tree, changed = parse(self._content, self._name), set[Any]()
        for (_, element), segment, translation in zip(list(_elements(tree)), self.segments, translations, strict=True):
            if translation is None or translation.text == segment.text:
                continue
            if segment.markup == "html":
                is_section = _has_section(element)
                element.text = etree.CDATA(_escaped(translation.text)) if is_section else _escaped(translation.text)
            else:
                fill(element, translation.text, _is_around_words)
                _change_texts(element, _escaped)
            changed.add(element.getparent())
            if translation.remark:
                above = element if local_name(element) == "string" else element.getparent()
                above.addprevious(etree.Comment(f" mt: {translation.remark.replace('--', '- -')} "))
                above.getprevious().tail = "\n    "
        for plurals in changed.intersection(tree.getroot().iter("plurals")):
            _set_categories(plurals, _CATEGORIES.get(language(tgt_lang), ["one", "other"]))
        return serialized(tree, self._content)


def _elements(tree: Any) -> Iterator[tuple[str, Any]]:
    """The elements with text, and what they are called."""
    for one in tree.getroot():
        kind, name = local_name(one), one.get("name")
        if kind == "string":
            yield f"string {name}", one
        elif kind in ("string-array", "plurals"):
            for number, item in enumerate(one.iterchildren("item")):
                yield f"{kind} {name} {item.get('quantity', number)}", item


def _is_around_words(element: Any) -> bool:
    return isinstance(element.tag, str) and not element.tag.startswith("{")  # xliff:g is not translated


def _segment(place: str, element: Any) -> Segment:
    owners = (element, element.getparent())
    is_asked = not any(one.get("translatable") == "false" for one in owners)
    if not len(element) and re.search(r"<[A-Za-z/]", element.text or ""):
        return Segment(_plain(element.text), place, "html", is_asked=is_asked, context=place)
    shown = copy.deepcopy(element)
    _change_texts(shown, _plain)
    text, codes = marked_text(shown, _is_around_words)
    is_reference = re.match(r"@[\w:+.]+/|\?[\w:]+$", element.text or "") is not None and not codes
    return Segment(text, place, "xml", is_asked=is_asked and not is_reference, context=place)


def _change_texts(element: Any, change: Callable[[str], str]) -> None:
    for node in element.iter():
        if node is element or _is_around_words(node):
            node.text = change(node.text or "")
        if node is not element and node.tail:
            node.tail = change(node.tail)


def _has_section(element: Any) -> bool:
    return b"<![CDATA[" in etree.tostring(element)


def _plain(text: str) -> str:
    """Without escapes and quotes, and with one space for each run of whitespace, as Android shows it."""

    def meant(found: re.Match[str]) -> str:
        if found[1] or found[2]:
            return chr(int(found[1], 16)) if found[1] else _MEANT.get(found[2], found[2])
        return "" if found[0] == '"' else " "

    return _ESCAPE.sub(meant, text)


def _escaped(text: str) -> str:
    text = re.sub(r"([\\'\"])", r"\\\1", text).replace("\n", r"\n").replace("\t", r"\t")
    return re.sub(r"^(?=[@?])", r"\\", text)


def _set_categories(plurals: Any, names: list[str]) -> None:
    """Of the target's categories those that the source lacks are as its other, and the rest is left out."""
    items = {item.get("quantity"): item for item in plurals.iterchildren("item")}
    if "other" not in items or [*items] == names:
        return
    tail, inner = items["other"].tail, plurals.text
    made = [copy.deepcopy(items.get(name, items["other"])) for name in names]
    for item in items.values():
        plurals.remove(item)
    for name, item in zip(names, made, strict=True):
        item.set("quantity", name)
        item.tail = tail if name == names[-1] else inner
        plurals.append(item)
