"""Text documents of office programs, .docx (ISO 29500) and .odt (ISO 26300): a segment is a paragraph."""

from __future__ import annotations

import copy
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from lxml import etree

from mt_cli.data.markup import local_name
from mt_cli.documents.archive import open_archive, read_part, with_parts
from mt_cli.documents.document import Segment, Written
from mt_cli.documents.inline import add_text, fill, marked_text, parse, serialized
from mt_cli.errors import DataError

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_PARTS = re.compile(r"word/(document\d*|header\d*|footer\d*|footnotes|endnotes)\.xml|(content|styles)\.xml")
_TRACKED = {"ins", "del", "moveFrom", "moveTo", "changed-region"}
_DROPPED = {"proofErr", "lastRenderedPageBreak", "rPr", "pPr"}
_UNSEEN = {"lang", "noProof", "webHidden"}  # properties of a run
# While a paragraph of a .docx is translated, text in its usual look stands in it as such. In `look` elements is text in other
# looks, whose properties are an attribute, and in `kept` elements are runs that no translation changes.
_SINGLE_SPACE = "single-space"
_LOOK, _KEPT, _PROPERTIES = f"{_W}look", f"{_W}kept", "properties"


def read(content: bytes, name: str) -> OfficeDocument:
    return OfficeDocument(content, name)


class OfficeDocument:
    """An open document. Its parts that have no text stay as they are, macros and pictures among them."""

    src_lang = tgt_lang = ""

    def __init__(self, content: bytes, name: str):
        """Raises DataError for an archive or XML that is damaged or hostile, and for tracked changes."""
        self._archive, self._name = open_archive(content, name), name
        self.segments, self._where = list[Segment](), list[tuple[str, int]]()
        parts = [part for part in self._archive.namelist() if _PARTS.fullmatch(part)]
        if not parts:
            raise DataError(f"{name}: an archive without a text document; give a .docx or .odt")
        for part in parts:
            tree = self._tree(part)
            if tracked := next((kind for one in tree.iter() if (kind := local_name(one)) in _TRACKED), None):
                found = f"{part} has tracked changes ({tracked})"
                raise DataError(f"{name}: {found}; accept or reject all of them in an office program first")
            for number, paragraph in enumerate(_paragraphs(tree)):
                _simplify(paragraph)
                text, _ = marked_text(paragraph, _is_around_words)
                if any(map(str.isalpha, re.sub("<[^<>]*>", "", text))):
                    self.segments.append(Segment(text, f"{part} paragraph {number + 1}", "xml"))
                    self._where.append((part, number))

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        of_part = defaultdict[str, dict[int, str]](dict)
        for segment, (part, number), translation in zip(self.segments, self._where, translations, strict=True):
            if translation is not None and translation.text != segment.text:
                of_part[part][number] = translation.text
        changed = dict[str, bytes]()
        for part, texts in of_part.items():
            tree = self._tree(part)
            paragraphs = _paragraphs(tree)
            for number, text in texts.items():
                _simplify(paragraphs[number])
                fill(paragraphs[number], text, _is_around_words)
                _restore(paragraphs[number])
            changed[part] = serialized(tree, read_part(self._archive, part, self._name))
        return with_parts(self._archive, self._name, changed)

    def _tree(self, part: str) -> Any:
        return parse(read_part(self._archive, part, self._name), f"{self._name} {part}")


def _paragraphs(tree: Any) -> list[Any]:
    """Those of text boxes, notes and tables, too, but none of comments. A content control in a paragraph counts as one."""
    found = tree.iter(f"{_W}p", f"{_W}sdtContent", "{*}h", "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}p")
    own = (one for one in found if local_name(one) != "sdtContent" or one.find(f"{_W}r") is not None)
    return [one for one in own if next(one.iterancestors("{*}annotation"), None) is None]


def _is_around_words(element: Any) -> bool:
    return local_name(element) in ("look", "hyperlink", "smartTag", "span", "a")


def _simplify(container: Any) -> None:
    """Of a paragraph of a .docx, or a link in it: runs become text and `look` elements. In an .odt single spaces become text."""
    if not container.tag.startswith(_W):
        for space in container.iter("{*}s"):
            if space.get(space.tag[:-1] + "c", "1") == "1":
                space.text, space.tag = " ", _SINGLE_SPACE
        etree.strip_tags(container, _SINGLE_SPACE)
        return
    pieces = list(_pieces(list(container)))
    n_letters = Counter[str]()
    for look, content in pieces:
        n_letters[look] += len(content) if isinstance(content, str) else 0
    usual = max(n_letters, key=n_letters.__getitem__, default="")
    properties = container.find(f"{_W}pPr")
    container.set("usual", usual)
    if properties is not None:
        container.set(_PROPERTIES, etree.tostring(properties, encoding="unicode", with_tail=False))
    for child in list(container):
        container.remove(child)
    container.text = None
    for look, content in pieces:
        last = container[-1] if len(container) else None
        if not isinstance(content, str):
            content.tail = None
            container.append(content)
        elif look == usual:
            add_text(container, content)
        elif last is not None and last.get(_PROPERTIES) == look and not last.tail:
            add_text(last, content)
        else:
            etree.SubElement(container, _LOOK, {_PROPERTIES: look}).text = content


def _pieces(children: list[Any]) -> Iterator[tuple[str, Any]]:
    """Texts with their looks, and elements."""
    while children:
        child = children.pop(0)
        name = local_name(child)
        if name in ("hyperlink", "smartTag"):
            _simplify(child)
            yield "", child
        elif n_runs := _field_length([child, *children]):
            kept = etree.Element(_KEPT)
            kept.extend([child, *children[: n_runs - 1]])
            del children[: n_runs - 1]
            yield "", kept
        elif name == "r":
            look = _look(child.find(f"{_W}rPr"))
            for one in child:
                if local_name(one) == "t":
                    yield look, one.text or ""
                elif local_name(one) not in _DROPPED:
                    kept = etree.Element(_KEPT)
                    kept.append(_run(look, one))
                    yield "", kept
        elif name not in _DROPPED:
            yield "", child


def _field_length(runs: list[Any]) -> int:
    """How many of these runs are a field that the office program computes, such as a page number; 0 for a link, or for none."""
    depth, code = 0, ""
    for number, run in enumerate(runs, 1):
        marks = [one.get(f"{_W}fldCharType") for one in run.iterchildren(f"{_W}fldChar")]
        depth += marks.count("begin") - marks.count("end")
        code += "".join(one.text or "" for one in run.iterchildren(f"{_W}instrText"))
        if depth <= 0:
            return number if marks and "HYPERLINK" not in code and number > 1 else 0
    return 0


def _look(properties: Any) -> str:
    if properties is None:
        return ""
    shown = copy.deepcopy(properties)
    for one in [one for one in shown if local_name(one) in _UNSEEN]:
        shown.remove(one)
    return etree.tostring(shown, encoding="unicode", with_tail=False) if len(shown) else ""


def _run(look: str, content: Any) -> Any:
    run = etree.Element(f"{_W}r")
    if look:
        run.append(etree.fromstring(look))
    if isinstance(content, str):
        text = etree.SubElement(run, f"{_W}t", {_SPACE: "preserve"})
        text.text = content
    else:
        run.append(content)
        content.tail = None
    return run


def _restore(container: Any) -> None:
    """The inverse of `_simplify`."""
    if not container.tag.startswith(_W):
        return

    def runs(node: Any, look: str) -> Iterator[Any]:
        if node.text:
            yield _run(look, node.text)
        for child in list(node):
            tail, child.tail = child.tail, None
            if child.tag == _LOOK:
                yield from runs(child, child.get(_PROPERTIES))
            elif child.tag == _KEPT:
                yield from list(child)
            else:
                if _is_around_words(child):
                    _restore(child)
                yield child
            if tail:
                yield _run(look, tail)

    made = list(runs(container, container.attrib.pop("usual", "")))
    container.text = None
    container[:] = made
    if properties := container.attrib.pop(_PROPERTIES, None):
        container.insert(0, etree.fromstring(properties))
