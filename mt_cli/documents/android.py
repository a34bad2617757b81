"""Android's strings.xml: strings, arrays and plurals; the text of an element is written with backslashes."""

import re
from collections.abc import Iterator, Sequence

from mt_cli.data.languages import language
from mt_cli.documents.document import Edit, Slot, Written, edited, remarks_of
from mt_cli.documents.xml import Element, XmlDocument

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


class AndroidStrings(XmlDocument):
    root_name, has_html = "resources", True

    def __init__(self, content: bytes, name: str):
        super().__init__(content, name)
        for one in self.root.all("string", "string-array", "plurals"):
            for number, item in enumerate([one] if one.name == "string" else one.all("item")):
                kind = "" if item is one else f" {item.get('quantity', str(number))}"
                self.slots += self._slot(f"{one.name} {one.get('name')}{kind}", item, one)

    def _slot(self, place: str, element: Element, owner: Element) -> Iterator[Slot]:
        start, end, codes, read, write = self.content(element, lambda one: not one.prefix)  # xliff:g is not translated
        is_reference = re.match(r"\s*(?:@[\w:+.]+/|\?[\w:]+\s*\Z)", self.inner(element)) and not codes
        is_kept = is_reference or any(one.get("translatable") == "false" for one in (element, *element.ancestors()))
        change = lambda raw: read(_plain(raw)), lambda text: _escaped(write(text))
        return self.slot(start, end, codes, *change, owner=owner, place=place, is_asked=not is_kept)

    def marks(self, changes: Sequence[tuple[Slot, Written]], tgt_lang: str) -> Iterator[Edit]:
        remarks = remarks_of(changes)  # of strings, arrays and plurals
        for above, remark in remarks.items():
            if remark:
                shown = remark.replace("--", "- -")
                yield Edit(above.start, above.start, f"<!-- mt: {shown} -->{self.newline}    ")
        # Of the target's categories those that the source lacks are as its other, and the rest is left out.
        names = _CATEGORIES.get(language(tgt_lang), ["one", "other"])
        for plurals in remarks:
            items = {item.get("quantity"): item for item in plurals.all("item")}
            if plurals.name == "plurals" and (other := items.get("other")):
                own_change = self.filled(one for one in changes if other.start < one[0].start < other.end)
                content = edited(self.text, own_change, other.start, other.end)
                lead = self.indent(plurals.first, other.start)
                for name in names:
                    if name not in items:
                        item = re.sub(r"(quantity\s*=\s*.)other", rf"\1{name}", content, count=1)
                        yield Edit(other.start, other.start, item + lead)
                for gone in (item for name, item in items.items() if name not in names):
                    yield Edit(gone.start, gone.end + len(lead), "")


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
