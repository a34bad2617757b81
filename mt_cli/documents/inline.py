"""XML documents: parsed safely, written as they were, and the content of an element as text with numbered tags.

`<g id="1">` and `</g>` stand for an element around words, `<x id="2"/>` for elements that no translation changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

from lxml import etree

from mt_cli.data.markup import PARSER_OPTIONS
from mt_cli.data.spans import escaped
from mt_cli.errors import DataError

Code = list[Any]  # the elements that a tag stands for: one around words, or neighbours that stay as they are
# What is before the root element: byte order mark, declaration, comments, document type.
_PROLOG = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*", re.DOTALL)
_PARSER = etree.XMLParser(**PARSER_OPTIONS)  # of translations
_TAGS = re.compile(r"</?[gx]\b[^<>]*>")


def parse(content: bytes, name: str) -> Any:
    """The tree, with its CDATA sections and entities as they are. Raises DataError with the line of what is damaged."""
    try:
        return etree.ElementTree(etree.fromstring(content, etree.XMLParser(strip_cdata=False, **PARSER_OPTIONS)))
    except (etree.XMLSyntaxError, ValueError) as error:
        line, reason = getattr(error, "lineno", None) or 1, " ".join(str(error).partition(", line ")[0].split())
        raise DataError(f"{name}:{line}: damaged XML: {reason}; save it anew by the program that wrote it") from None


def serialized(tree: Any, content: bytes) -> bytes:
    """The tree with what is around the root element, the encoding and the line ends of the file it was parsed from."""
    root, encoding, prolog = tree.getroot(), tree.docinfo.encoding or "UTF-8", _PROLOG.match(content)
    written: bytes = etree.tostring(root, encoding=encoding, xml_declaration=False, with_tail=False)
    if not content[prolog.end() if prolog else 0 :].startswith(b"<"):  # UTF-16
        return bytes(etree.tostring(tree, encoding=encoding, xml_declaration=True))
    written = re.sub(rb"\r?\n", b"\r\n", written) if b"\r\n" in content else written
    after = [etree.tostring(one, encoding=encoding, xml_declaration=False) for one in root.itersiblings()]
    return (prolog[0] if prolog else b"") + written + b"".join(after) + content[len(content.rstrip()) :]


def marked_text(element: Any, is_around_words: Callable[[Any], bool]) -> tuple[str, list[Code]]:
    """The content of an element as markup, and what its tags stand for."""
    codes = list[Code]()

    def parts(parent: Any) -> Iterator[str]:
        yield escaped(parent.text or "")
        is_open = False  # whether a neighbour joins the code before it
        for child in parent:
            if is_around_words(child):
                codes.append([child])
                yield f'<g id="{len(codes)}">'
                yield from parts(child)
                yield "</g>"
            elif is_open:
                codes[-1].append(child)
            else:
                codes.append([child])
                yield f'<x id="{len(codes)}"/>'
            is_open = not is_around_words(child) and not child.tail
            yield escaped(child.tail or "")

    return "".join(parts(element)), codes


def parsed_markup(text: str, codes: list[Code]) -> Any:
    """A translation as an element with children `g` and `x`, each code that no translation changes once. Where tags do not
    match, it has no `g`."""
    try:
        root = etree.fromstring(f"<r>{text}</r>", _PARSER)
        known = {str(number) for number in range(1, len(codes) + 1)}
        is_known = all(child.tag in ("g", "x") and child.get("id") in known for child in root.iterdescendants())
    except (etree.XMLSyntaxError, ValueError):
        is_known = False
    if not is_known:
        root = etree.Element("r")
        root.text = unescape(_TAGS.sub("", text))
    return root


def fill(element: Any, text: str, is_around_words: Callable[[Any], bool]) -> None:
    """Puts a translation of its `marked_text` in place of the element's content; what no translation changes is never lost."""
    _, codes = marked_text(element, is_around_words)
    opaque = {number for number, code in enumerate(codes, 1) if not is_around_words(code[0])}
    root, used = parsed_markup(text, codes), set[int]()
    for child in list(element):
        element.remove(child)
    element.text = None

    def put(target: Any, node: Any) -> None:
        add_text(target, node.text)
        for child in node:
            number = int(child.get("id"))
            originals = codes[number - 1]
            if number not in used and number in opaque:
                target.extend(originals)
            elif number not in opaque:
                is_again = number in used and originals[0].get("id") is not None  # which must be unique
                shell = target if is_again else etree.SubElement(target, originals[0].tag, originals[0].attrib)
                put(shell, child)
            used.add(number)
            add_text(target, child.tail)

    for code in codes:
        for one in code:
            one.tail = None
    put(element, root)
    for number in sorted(opaque - used):
        element.extend(codes[number - 1])


def add_text(element: Any, text: str | None) -> None:
    """Adds it behind the last child."""
    if text and len(element):
        element[-1].tail = (element[-1].tail or "") + text
    elif text:
        element.text = (element.text or "") + text
