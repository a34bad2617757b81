"""XML from other people: parsed without what it refers to, and elements with inline codes as text with tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PARSER_OPTIONS: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
UNTRANSLATED = {"new", "needs-translation", "initial"}  # states of XLIFF whose target is at most a copy of the source
_PAIRED = {"g", "pc"}
_WITHOUT_TAGS = {"hi", "mrk"}  # what they mark is not of use to other programs
_OPENING, _CLOSING = {"bpt", "bx", "sc"}, {"ept", "ex", "ec"}


def local_name(element: Any) -> str:
    """Without the namespace; '' of comments, processing instructions and entities."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def text_with_codes(element: Any) -> str:
    """The text of a TMX `seg` or an XLIFF `source` or `target`: `<g id="1">` and `</g>` stand for codes in pairs, `<x id="2"/>`
    for others, with the numbers that match them between languages, or else their order. Raises ValueError for entities of the file's own."""
    from lxml import etree  # here, because only XML needs it

    n_codes = 0

    def parts(parent: Any) -> Iterator[str]:
        nonlocal n_codes
        yield parent.text or ""
        for child in parent:
            name, get = local_name(child), child.get
            if name in _WITHOUT_TAGS:
                yield from parts(child)
            elif name == "cp":
                yield chr(int(get("hex", "20"), 16))
            elif name in _CLOSING:
                yield "</g>"
            elif name in _PAIRED | _OPENING:
                n_codes += 1
                yield f'<g id="{get("x") or get("id") or get("i") or n_codes}">'
                if name in _PAIRED:
                    yield from parts(child)
                    yield "</g>"
            elif name:
                n_codes += 1
                yield f'<x id="{get("x") or get("id") or n_codes}"/>'
            elif child.tag is etree.Entity:
                raise ValueError(f"the entity {child.text} is not read")
            yield child.tail or ""

    return "".join(parts(element))
