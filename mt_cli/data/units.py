"""Reads what translators keep and datasets have, one unit, a text in several languages, at a time: .tmx, .xlf, .xliff,
.po, .jsonl, .json."""

import gettext
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mt_cli.data.languages import language
from mt_cli.data.lines import decode_line, raw_lines
from mt_cli.errors import DataError

# Its line or its number in the file, from 1; its texts by language as the file names it.
Unit = tuple[int, dict[str, str]]

OBJECTS = (".jsonl", ".json")  # a file with an object on each line
UNNAMED = ("source", "target")  # languages that a file does not name
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_N_SURVEYED = 1000
_PO_STRING = r'(?:[ \t]*"(?:[^"\\\n]|\\.)*+"[ \t]*(?:\r?\n|\Z))++'
_PO_KEYWORD = rf"[ \t]*(msgctxt|msgid|msgid_plural|msgstr(?:\[\d{{1,3}}\])?)({_PO_STRING})"
_PO_ENTRY = re.compile(
    rf"(?P<comments>(?:[ \t]*(?:#(?!~)[^\n]*)?\r?\n)*+)(?P<strings>(?:[ \t]*msgctxt{_PO_STRING})?[ \t]*msgid{_PO_STRING}"
    rf"(?:[ \t]*msgid_plural{_PO_STRING})?(?:[ \t]*msgstr(?:\[\d{{1,3}}\])?{_PO_STRING})++)?"
)
_PO_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))")
_PO_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
PARSER_OPTIONS: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
_BY_MACHINE = "needs-review-translation"  # as PO's fuzzy: a program wrote it, or a person has to look at it again
UNTRANSLATED = {"new", "needs-translation", "initial"}  # states of XLIFF whose target is at most a copy of the source
_PAIRED = {"g", "pc"}
_WITHOUT_TAGS = {"hi", "mrk"}  # what they mark is not of use to other programs
_OPENING, _CLOSING = {"bpt", "bx", "sc"}, {"ept", "ex", "ec"}


class PoString(NamedTuple):
    line: int
    start: int  # of its first quote
    end: int  # behind its last one
    text: str


@dataclass(eq=False)
class PoEntry:
    start: int  # of its comments
    keywords: int  # where they begin
    comments: str
    strings: dict[str, PoString]  # by their keywords

    @property
    def targets(self) -> list[PoString]:
        return [string for key, string in sorted(self.strings.items()) if key.startswith("msgstr")]

    @property
    def is_fuzzy(self) -> bool:
        return re.search(r"(?m)^[ \t]*#,.*\bfuzzy\b", self.comments) is not None


def suffix_of(file: Path) -> str:
    """The ending of the name that says what the file is: .csv of a.CSV.gz."""
    return Path(file.name.removesuffix(".gz")).suffix.lower()


def read_units(file: Path) -> Iterator[Unit]:
    """The units that have a text in two languages or more. Raises DataError for a file that is damaged."""
    suffix = suffix_of(file)
    read = _json_units if suffix in OBJECTS else _po_units if suffix == ".po" else _xml_units
    return ((number, texts) for number, texts in read(file) if len(texts) > 1)


def languages_of_units(file: Path, wanted: Sequence[str] | None) -> tuple[list[str], tuple[int, int]]:
    """The languages of a file of units, and which of these are source and target: those `wanted`, or the only two. Raises
    DataError, which names the languages, where that is not clear."""
    counts = Counter[str]()
    for n, (_, texts) in enumerate(read_units(file), 1):
        counts.update(texts.keys())
        if n >= _N_SURVEYED and (wanted is None or None not in _indexes(list(counts), wanted)):
            break
    names = list(counts)
    src, tgt = range(2) if wanted is None and len(names) == 2 else _indexes(names, wanted or ())
    if src is not None and tgt is not None:
        return names, (src, tgt)
    if not names:
        raise DataError(f"{file}: no unit has a text and its translation; give a file that is translated")
    found = ", ".join(f"{name} ({n:,})" for name, n in counts.most_common(20))
    asked = f"expected {' and '.join(wanted)}" if wanted else "which are source and target is not clear"
    example = " ".join(f"--{side}-lang {name}" for side, name in zip(("src", "tgt"), names, strict=False))
    raise DataError(f"{file}: units in {found}; {asked}; choose two with {example}")


def texts_of(unit: dict[str, str], wanted: Sequence[str]) -> list[str]:
    """The unit's texts in these languages, '' where it has none."""
    texts = list(unit.values())
    return ["" if i is None else texts[i] for i in _indexes(list(unit), wanted)]


def _indexes(names: list[str], wanted: Sequence[str]) -> list[int | None]:
    """Of each of two languages: by its whole code, or else by the language without the region, or as one that is not
    named."""
    codes = [name.casefold().replace("_", "-") for name in names]
    found = list[int | None]()
    for code in (one.strip().casefold().replace("_", "-") for one in wanted):
        alike = (i for i, own in enumerate(codes) if language(own) == language(code) and i not in found)
        found.append(codes.index(code) if code in codes else next(alike, None))
    left = [i for i, code in enumerate(codes) if code in UNNAMED and i not in found]
    found = [left.pop(0) if i is None and left else i for i in found]
    return found if len(found) == 2 else [None, None]


def _xml_units(file: Path) -> Iterator[Unit]:
    from lxml import etree  # here, because only these files need it

    tags = ("{*}tu", "{*}trans-unit", "{*}segment")
    number = 0
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as handle:
            for _, element in etree.iterparse(handle, tag=tags, **PARSER_OPTIONS):
                number += 1
                yield number, _of_memory(element) if local_name(element) == "tu" else _of_xliff(element)
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
    except (etree.XMLSyntaxError, ValueError, OverflowError) as error:
        reason = str(error).partition(" (")[0]
        found = f"{file}: cannot be read after unit {number:,}: {reason}"
        raise DataError(f"{found}; export it anew from the program that wrote it") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: {getattr(error, 'strerror', None) or error}; give the path of a file") from None


def local_name(element: Any) -> str:
    """Without the namespace; '' of comments, processing instructions and entities."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def text_with_codes(element: Any) -> str:
    """The text of a TMX `seg` or an XLIFF `source` or `target`: `<g id="1">` and `</g>` stand for codes in pairs, `<x
    id="2"/>` for others, with the numbers that match them between languages, or else their order. Raises ValueError for
    entities of the file's own."""
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


def _of_memory(unit: Any) -> dict[str, str]:
    texts = dict[str, str]()
    for variant in unit.iterchildren("{*}tuv"):
        code = variant.get(_XML_LANG) or variant.get("lang") or ""
        for seg in variant.iterchildren("{*}seg"):
            if code and (text := text_with_codes(seg)).strip():
                texts.setdefault(code, text)
    return texts


def _of_xliff(unit: Any) -> dict[str, str]:
    texts, above = dict[str, str](), list(unit.iterancestors("{*}file", "{*}xliff"))
    keys = [("source-language", "srcLang"), ("target-language", "trgLang")]
    state = _BY_MACHINE if unit.get("subState") == "mt:needs-review" else unit.get("state")
    for side, names, unnamed in zip(("source", "target"), keys, UNNAMED, strict=True):
        code = next((code for one in above for name in names if (code := one.get(name))), unnamed)
        for element in unit.iterchildren(f"{{*}}{side}"):
            text, state = text_with_codes(element), element.get("state", state)
            if text.strip() and (side == "source" or state not in {*UNTRANSLATED, _BY_MACHINE}):
                texts[code] = text
    return texts


def po_entries(text: str, name: str) -> Iterator[PoEntry]:
    """The entries of a PO file, obsolete ones left out. Raises DataError for a line that these files have not."""
    line, at = 1, 0
    for found in [*(one for one in _PO_ENTRY.finditer(text) if one["strings"]), None]:
        gap = text[at : found.start() if found else len(text)]
        if odd := re.search(r"^[ \t]*[^#\s]", gap, re.MULTILINE):
            line += gap.count("\n", 0, odd.end())
            raise DataError(f'{name}:{line}: expected msgid "..." and msgstr "..."; check it with msgfmt')
        if found:
            line, at, strings = line + gap.count("\n"), found.start(), dict[str, PoString]()
            for own in re.compile(_PO_KEYWORD).finditer(text, found.start("strings"), found.end("strings")):
                line, at = line + text.count("\n", at, own.start(1)), own.start(1)
                quoted = own[2].strip()
                start = text.index(quoted, own.start(2))
                content = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*+)"', quoted))
                string = PoString(line, start, start + len(quoted), _PO_ESCAPE.sub(_po_character, content))
                strings[own[1]] = string
            line, at = line + text.count("\n", at, found.end()), found.end()
            start = found.end("comments") - len(found["comments"].lstrip())
            yield PoEntry(start, found.start("strings"), found["comments"], strings)


def po_header(header: PoEntry, key: str) -> str:
    found = re.search(rf"^{key}:(.*)$", header.targets[0].text, re.MULTILINE | re.IGNORECASE)
    return found[1].strip() if found else ""


def _po_character(escape: re.Match[str]) -> str:
    if code := escape[1] or escape[2]:
        return chr(int(code, 8 if escape[1] else 16))
    return _PO_CONTROLS.get(escape[3], escape[3])


def _po_units(file: Path) -> Iterator[Unit]:
    """Of entries that are translated and not fuzzy; an entry with a plural has two."""
    tgt, lines = UNNAMED[1], (decode_line(raw, number, str(file)) for number, raw in enumerate(raw_lines(file), 1))
    of_one = 0  # the form of a single thing
    for entry in po_entries("\n".join(lines), str(file)):
        src, several, targets = entry.strings["msgid"], entry.strings.get("msgid_plural"), entry.targets
        if not src.text:
            tgt = po_header(entry, "Language") or tgt
            with suppress(ValueError, ArithmeticError, RecursionError):  # a formula that nobody could compute
                of_one = gettext.c2py(po_header(entry, "Plural-Forms").partition("plural=")[2].rstrip("; ") or "0")(1)
        elif not entry.is_fuzzy:
            of_several = [(several, targets[-1])] if several and targets[1:] else []
            for own, target in ((src, targets[max(0, min(of_one, len(targets) - 1))]), *of_several):
                if own.text and target.text:
                    yield own.line, {UNNAMED[0]: own.text, tgt: target.text}


def _json_units(file: Path) -> Iterator[Unit]:
    """Of lines with an object: its strings, and those of an object in it such as {"translation": {"de": ..., "en": ...}}."""
    for number, raw in enumerate(raw_lines(file), 1):
        try:
            value = json.loads(line) if (line := decode_line(raw, number, str(file)).strip()) else {}
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file}:{number}: no JSON ({error}); expected an object on each line") from None
        if not isinstance(value, dict):
            raise DataError(f'{file}:{number}: expected an object such as {{"src": "...", "tgt": "..."}} on each line')
        inner = (more for one in value.values() if isinstance(one, dict) for more in one.items())
        strings = {key: text for key, text in [*value.items(), *inner] if isinstance(text, str)}
        yield number, strings
