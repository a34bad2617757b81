"""XLIFF 1.2 and 2.x (OASIS): a segment is a `trans-unit`, or a `segment` of a unit. One that is not translated yet is
filled."""

from collections.abc import Iterator, Sequence

from mt_cli.data.spans import escaped
from mt_cli.data.units import UNTRANSLATED
from mt_cli.documents.document import Edit, Segment, Slot, Written
from mt_cli.documents.xml import Element, XmlDocument, attribute_of
from mt_cli.errors import DataError


class Xliff(XmlDocument):
    root_name, is_bilingual, has_html = "xliff", True, True

    def __init__(self, content: bytes, name: str):
        """Raises DataError also for a file in more than two languages."""
        super().__init__(content, name)
        self._is_new = self.root.get("version").startswith("2")
        languages = list[str]()
        for names in (("source-language", "srcLang"), ("target-language", "trgLang")):
            found = {self.root.get(names[1]), *(one.get(names[0]) for one in self.root.iter("file"))} - {""}
            if len(found) > 1:
                listed = " and ".join(sorted(found))
                raise DataError(f"{name}: {names[0]} is {listed}, expected one; make a file of each language")
            languages.append(next(iter(found), ""))
        self.src_lang, self.tgt_lang = languages
        self.slots = [
            self._slot(unit, source)
            for unit in self.root.iter("trans-unit", "segment")
            if (source := unit.find("seg-source") or unit.find("source"))
        ]

    def _slot(self, unit: Element, source: Element) -> Slot:
        """In 1.2 `source` is the segmented one where there is one, since its target has the same segments."""
        target, owner = unit.find("target"), unit
        if unit.name == "segment":
            owner = next((one for one in unit.ancestors() if one.name == "unit"), unit)
        start, end, codes, read, write = self.content(source, _is_around_words)
        text, tags = self.coded(start, end, codes, read)
        given = ""
        if target and (target.get("state") or unit.get("state")) not in UNTRANSLATED:
            given_start, given_end, given_codes, read, _ = self.content(target, _is_around_words)
            given, _ = self.coded(given_start, given_end, given_codes, read)
            given = given if given.strip() else ""
        wanted = next((one for above in (unit, *unit.ancestors()) if (one := above.get("translate"))), "yes")
        segment = Segment(text, f"unit {owner.get('id')}", "xml", given, wanted != "no" and not given)
        name, like = f"{source.prefix}target", target or source
        attributes = like.tag[1 + len(like.prefix + like.name) : -1].rstrip("/ ")
        for attribute in ["state", *([] if target else ["lang"])]:
            attributes = attribute_of(attribute).sub("", attributes)
        lead = "" if target else self.indent(unit.first, source.start)
        attributes += "" if self._is_new else ' state="needs-review-translation"'

        def wrap(content: str) -> str:
            before, behind = self.text[source.first : start], self.text[end : source.last]
            return f"{lead}<{name}{attributes}>{before}{content}{behind}</{name}>"

        place = (target.start, target.end) if target else (source.end, source.end)
        return Slot(*place, segment, write, wrap, tags, (unit, owner))

    def marks(self, changes: Sequence[tuple[Slot, Written]], tgt_lang: str) -> Iterator[Edit]:
        notes = dict[Element, list[str]]()  # of the units of XLIFF 2
        for slot, one in changes:
            unit, owner = slot.owner
            note = f'<{unit.prefix}note {{}}="mt">{escaped(one.remark)}</{unit.prefix}note>' if one.remark else ""
            if self._is_new:
                yield unit.put("state", "translated")
                yield unit.put("subState", "mt:needs-review")
                notes.setdefault(owner, []).append(note.format("category"))
            else:
                yield from [unit.put("approved", "")] if unit.get("approved") else []
                yield Edit(slot.end, slot.end, note.format("from"))
        for owner, own in notes.items():
            if old := owner.find("notes"):
                yield Edit(old.last, old.last, "".join(own))
            elif any(own):
                first = owner.all("originalData", "segment", "ignorable")[0]
                yield Edit(first.start, first.start, f"<{owner.prefix}notes>{''.join(own)}</{owner.prefix}notes>")
        if not self.tgt_lang:
            for file in [self.root] if self._is_new else self.root.iter("file"):
                yield file.put("trgLang" if self._is_new else "target-language", tgt_lang)


def _is_around_words(element: Element) -> bool:
    return element.name in ("g", "pc", "mrk") and element.get("translate") != "no"
