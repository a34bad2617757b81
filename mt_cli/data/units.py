"""Reads what translators keep and datasets have, one unit at a time: .tmx, .xlf, .xliff, .po and .jsonl.

A unit is a text in several languages. This file knows units and their languages; `tables.py` makes pairs of them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from mt_cli.data.languages import language
from mt_cli.data.lines import decode_line, raw_lines
from mt_cli.data.markup import PARSER_OPTIONS, UNTRANSLATED, local_name, text_with_codes
from mt_cli.errors import DataError

Unit = tuple[
    int, dict[str, str]
]  # its line or its number in the file, from 1; its texts by language as the file names it

UNNAMED = ("source", "target")  # languages that a file does not name
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_N_SURVEYED = 1000
_PO_FIELD = re.compile(r'(?:(msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)\s*)?"(.*)"')
_PO_ESCAPE = re.compile(r"\\(.)")
_PO_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r"}


def read_units(file: Path) -> Iterator[Unit]:
    """The units that have a text in two languages or more. Raises DataError for a file that is damaged."""
    suffix = Path(file.name.removesuffix(".gz")).suffix.lower()
    read = {".jsonl": _json_units, ".po": _po_units}.get(suffix, _xml_units)
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
    """Of each of two languages: by its whole code, or else by the language without the region, or as one that is not named."""
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
    except (etree.XMLSyntaxError, ValueError) as error:
        reason = str(error).partition(" (")[0]
        raise DataError(
            f"{file}: cannot be read after unit {number:,}: {reason}; export it anew from the program that wrote it"
        ) from None
    except (OSError, EOFError) as error:
        raise DataError(f"{file}: {getattr(error, 'strerror', None) or error}; give the path of a file") from None


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
    state = unit.get("state")
    for side, names, unnamed in zip(("source", "target"), keys, UNNAMED, strict=True):
        code = next((code for one in above for name in names if (code := one.get(name))), unnamed)
        for element in unit.iterchildren(f"{{*}}{side}"):
            text, state = text_with_codes(element), element.get("state", state)
            if text.strip() and (side == "source" or state not in UNTRANSLATED):
                texts[code] = text
    return texts


def _po_units(file: Path) -> Iterator[Unit]:
    """Of entries that are translated and not fuzzy; an entry with a plural has two."""
    fields, last, is_fuzzy, tgt = dict[str, tuple[int, str]](), "", False, UNNAMED[1]

    def units() -> Iterator[Unit]:
        plurals = [text for key, (_, text) in fields.items() if key.startswith("msgstr[")]
        texts = {"msgid": fields.get("msgstr", (0, ""))[1]} if not plurals else {"msgid": plurals[0]}
        texts |= {"msgid_plural": plurals[-1]} if len(plurals) > 1 else {}
        for key, text in texts.items():
            line, src = fields.get(key, (0, ""))
            if src and text and not is_fuzzy:
                yield line, {UNNAMED[0]: src, tgt: text}

    for number, raw in enumerate(raw_lines(file), 1):
        line = decode_line(raw, number, str(file)).strip()
        found = _PO_FIELD.fullmatch(line)
        if found is None and line and not line.startswith("#"):
            raise DataError(f'{file}:{number}: expected msgid or msgstr and a text in "..."; check it with msgfmt')
        starts_entry = line.startswith("#") or (found is not None and found[1] in ("msgctxt", "msgid"))
        if starts_entry and any(key.startswith("msgstr") for key in fields):
            yield from units()
            fields, is_fuzzy = {}, False
        if line.startswith("#,"):
            is_fuzzy = is_fuzzy or "fuzzy" in line
        if found is not None:
            last = found[1] or last
            text = _PO_ESCAPE.sub(lambda escape: _PO_CHARACTERS.get(escape[1], escape[1]), found[2])
            begun, before = fields.get(last, (number, ""))
            fields[last] = begun, before + text
            if fields.get("msgid", (0, "?"))[1] == "" and (named := re.search(r"(?m)^Language: *([\w-]+)", text)):
                tgt = named[1]
    yield from units()


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


def first_keys(file: Path) -> tuple[str, ...]:
    """The keys of the first objects of a .jsonl file, which are the names of its columns."""
    return tuple(dict.fromkeys(key for _, texts in islice(_json_units(file), _N_SURVEYED) for key in texts))
