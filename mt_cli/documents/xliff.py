"""XLIFF 1.2 and 2.x (OASIS): a segment is a `trans-unit`, or a `segment` of a unit."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from lxml import etree

from mt_cli.data.markup import UNTRANSLATED, local_name
from mt_cli.documents.document import Segment, Written
from mt_cli.documents.inline import fill, marked_text, parse, serialized
from mt_cli.errors import DataError


def read(content: bytes, name: str) -> Xliff:
    return Xliff(content, name)


class Xliff:
    """An open file. A target that is not translated yet counts as empty."""

    def __init__(self, content: bytes, name: str):
        """Raises DataError for damaged XML, for other formats and for files in more than two languages."""
        self._content, self._name = content, name
        tree = parse(content, name)
        root = tree.getroot()
        if local_name(root) != "xliff":
            raise DataError(f"{name}: the root element is {root.tag}, expected xliff; give an XLIFF file")
        languages = []
        for names in (("source-language", "srcLang"), ("target-language", "trgLang")):
            found = {root.get(names[1]), *(one.get(names[0]) for one in root.iter("{*}file"))} - {None}
            if len(found) > 1:
                listed = " and ".join(sorted(found))
                raise DataError(f"{name}: {names[0]} is {listed}, expected one; make a file of each language")
            languages.append(next(iter(found), ""))
        self.src_lang, self.tgt_lang = languages
        self.segments = [_segment(unit) for unit in _units(tree)]

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        tree = parse(self._content, self._name)
        root = tree.getroot()
        is_new = root.get("version", "").startswith("2")
        for unit, segment, translation in zip(list(_units(tree)), self.segments, translations, strict=True):
            if translation is None or translation.text == segment.target:
                continue
            target = _put_target(unit, translation.text)
            if is_new:
                unit.set("state", "translated")
                unit.set("subState", "mt:needs-review")
            else:
                target.set("state", "needs-review-translation")
                unit.attrib.pop("approved", None)
            if translation.remark:
                _add_note(unit, target, translation.remark, is_new)
        if not self.tgt_lang:
            for one in [root] if is_new else root.iter("{*}file"):
                one.set("trgLang" if is_new else "target-language", tgt_lang)
        return serialized(tree, self._content)


def _units(tree: Any) -> Any:
    return (one for one in tree.iter("{*}trans-unit", "{*}segment") if one.find("{*}source") is not None)


def _is_around_words(element: Any) -> bool:
    return local_name(element) in ("g", "pc", "mrk") and element.get("translate") != "no"


def _segment(unit: Any) -> Segment:
    text, _ = marked_text(_source(unit), _is_around_words)
    target, state = unit.find("{*}target"), unit.get("state")
    wanted = next((one for above in (unit, *unit.iterancestors()) if (one := above.get("translate"))), "yes")
    given = ""
    if target is not None and target.get("state", state) not in UNTRANSLATED:
        given, _ = marked_text(target, _is_around_words)
    owner = unit if local_name(unit) == "trans-unit" else next(unit.iterancestors("{*}unit"), unit)
    number = owner.get("id", "")
    is_asked = wanted != "no" and not given.strip()
    return Segment(text, f"unit {number}", "xml", given if given.strip() else "", is_asked, number)


def _source(unit: Any) -> Any:
    """In 1.2 the segmented source where there is one, since its target has the same segments."""
    segmented = unit.find("{*}seg-source")
    return unit.find("{*}source") if segmented is None else segmented


def _put_target(unit: Any, text: str) -> Any:
    """A target made from the source, in place of the one that is there."""
    source, old = _source(unit), unit.find("{*}target")
    target = copy.deepcopy(source)
    target.tag = source.tag.replace("seg-source", "target").replace("source", "target")
    target.attrib.pop("{http://www.w3.org/XML/1998/namespace}lang", None)
    target.tail = source.tail
    if old is not None:
        target.attrib.update(old.attrib)
        target.tail = old.tail
        unit.replace(old, target)
    else:
        source.addnext(target)
    fill(target, text, _is_around_words)
    return target


def _add_note(unit: Any, target: Any, remark: str, is_new: bool) -> None:
    note = etree.Element(target.tag.replace("target", "note"))
    note.text = remark
    if not is_new:
        note.set("from", "mt")
        note.tail = target.tail
        target.addnext(note)
        return
    owner = next(unit.iterancestors("{*}unit"), None)
    if owner is None:
        return
    note.set("category", "mt")
    notes = owner.find("{*}notes")
    if notes is None:
        notes = etree.Element(target.tag.replace("target", "notes"))
        first = next(one for one in owner if local_name(one) in ("originalData", "segment", "ignorable"))
        first.addprevious(notes)
    notes.append(note)
