"""Memories and datasets as corpora: .tmx, .xliff, .po, .jsonl."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mt_cli.data.corpus import read_pairs
from mt_cli.data.spans import SYMBOLS, hold_pair
from mt_cli.data.tables import find_layout
from mt_cli.errors import DataError

TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="en"/><body>
<tu tuid="a"><tuv xml:lang="en-US"><seg>Press <bpt i="1" x="4">&lt;b></bpt>OK<ept i="1">&lt;/b></ept><ph x="2">{0}</ph>.</seg></tuv>
<tuv xml:lang="DE"><seg><hi type="t">Dann</hi> <ph x="2">{0}</ph> <bpt i="9" x="4">&lt;b></bpt>OK<ept i="9">&lt;/b></ept>.</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>Only English</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>Yes</seg></tuv><tuv xml:lang="DE"><seg>Ja</seg></tuv>MORE</tu></body></tmx>"""
FRENCH = '<tuv xml:lang="fr"><seg>Oui</seg></tuv>'
XLIFF_1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"
target-language="de-AT"><body><trans-unit id="u"><source>A <g id="7">big <x id="8"/></g> one</source>
<target>Ein <g id="7">großer <x id="8"/></g></target><alt-trans><target>Kein</target></alt-trans></trans-unit><trans-unit
id="v"><source>New</source><target state="new">New</target></trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de"><file><unit>
<segment><source>A <pc id="7">big <ph id="8"/></pc> one</source><target>Ein <pc id="7">großer <ph id="8"/></pc></target>
</segment><segment state="initial"><source>New</source><target>New</target></segment></unit></file></xliff>"""
PO = r"""msgid ""
msgstr ""
"Language: de\n"

#, c-format
msgid "Say \"%s\" "
"now"
msgstr "Sag \"%s\""

#, fuzzy
msgid "No"
msgstr "Ja"
#~ msgid "old"
#~ msgstr "alt"

msgctxt "x"
msgid "a file"
msgid_plural "%d files"
msgstr[0] "eine Datei"
msgstr[1] "%d Dateien"
msgid "none"
msgstr ""
"""
JSONL = (
    '{"id": "1", "translation": {"de": "Ja", "en": "Yes"}}\n\n{"translation": {"de": "Nein", "en": "No", "fr": ""}}\n'
)
TAGGED = [("A <g id=\"7\">big <x id=\"8\"/></g> one", "Ein <g id=\"7\">großer <x id=\"8\"/></g>", 1)]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def pairs_of(name: str, content: str | bytes, columns: str | None = None) -> list[tuple[str, str, int]]:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return [(pair.src, pair.tgt, pair.line) for pair in read_pairs([name], columns=columns)]


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [
        ("a.xlf", XLIFF_1, "en,de", TAGGED),
        ("a.xliff", XLIFF_2, None, TAGGED),
        ("a.po", PO, "en,de", [('Say "%s" now', 'Sag "%s"', 6), ("a file", "eine Datei", 17), ("%d files", "%d Dateien", 18)]),
        ("b.po", PO.replace("Language: de", "X: y"), "en,de", [('Say "%s" now', 'Sag "%s"', 6), ("a file", "eine Datei", 17), ("%d files", "%d Dateien", 18)]),
        ("a.po", PO, "de,en", [('Sag "%s"', 'Say "%s" now', 6), ("eine Datei", "a file", 17), ("%d Dateien", "%d files", 18)]),
        ("a.jsonl", JSONL, "en,de", [("Yes", "Ja", 1), ("No", "Nein", 3)]),
        ("a.jsonl", '{"src": "Ja", "tgt": "Yes"}\n', None, [("Ja", "Yes", 1)]),
        ("a.tmx", TMX.replace("MORE", FRENCH), "fr,de", [("Oui", "Ja", 3)]),
        ("deu.txt", "Go.\tGeh.\tCC-BY 2.0 (France) tatoeba.org #2877272 (CM)\nHi!\tHallo!\tCC-BY 2.0 (France) tatoeba.org #53 (CM)\n",
         None, [("Go.", "Geh.", 1), ("Hi!", "Hallo!", 2)]),
    ],
)  # fmt: skip
def test_units_are_read_as_pairs(name, content, columns, expected):
    assert pairs_of(name, content, columns) == expected


def test_codes_of_a_memory_have_the_same_symbols_on_both_sides():
    (src, tgt, number), (*yes, last) = pairs_of("a.tmx.gz", gzip.compress(TMX.replace("MORE", "").encode()))
    assert (src, number) == ('Press <g id="4">OK</g><x id="2"/>.', 1) and (yes, last) == (["Yes", "Ja"], 3)
    opened, closed = SYMBOLS[0], SYMBOLS[1]
    assert hold_pair(src, tgt) == (f'Press {opened}OK</g><x id="2"/>.', tgt.replace('<g id="4">', opened)), closed
    assert find_layout(Path("a.tmx.gz")).languages == ("en-US", "de")


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{}]>'.format("".join(f'<!ENTITY a{n} "{f"&a{n - 1 or str()};" * 10}">' for n in range(1, 9)))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [
        ("a.tmx", TMX.replace("MORE", FRENCH), None,
         "a.tmx: units in en-US (2), DE (2), fr (1); which are source and target is not clear; choose two with --src-lang en-US --tgt-lang DE"),
        ("a.tmx", TMX.replace("MORE", ""), "en,pl", "a.tmx: units in en-US (2), DE (2); expected en and pl; choose two with --src-lang en-US --tgt-lang DE"),
        ("a.tmx", TMX[:-60], "en,de", "a.tmx: cannot be read after unit 2: "),
        ("a.tmx", BOMB + TMX.partition('dtd">')[2].replace("MORE", "").replace("Yes", "&a8;"), "en,de", "a.tmx: cannot be read after unit "),
        ("a.tmx", '<!DOCTYPE x [<!ENTITY a SYSTEM "secret">]>' + TMX.partition('dtd">')[2].replace("MORE", "").replace("Yes", "&a;"), "en,de",
         "a.tmx: cannot be read after unit 3: the entity &a; is not read"),
        ("a.xlf", XLIFF_1.replace("<target>Ein", "<target state='new'>Ein"), None, "a.xlf: no unit has a text and its translation; give a file that is translated"),
        ("a.po", PO.replace('msgstr "Ja"', "msgstr Ja"), None, 'a.po:11: expected msgid "..." and msgstr "..."; check it with msgfmt'),
        ("a.jsonl", '{"a": "b", "c": "d"}\n["a"]\n', None, 'a.jsonl:2: expected an object such as {"src": "...", "tgt": "..."} on each line'),
        ("a.jsonl", '{"a": "b"\n', None, "a.jsonl:1: no JSON (Expecting ',' delimiter: line 1 column 10 (char 9)); expected an object on each line"),
        ("a.txt", "one\ntwo\n", None, "a.txt: no tabs; give two text files, source and target, or a table with a tab between the two"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_meant_is_refused_in_a_line(name, content, columns, expected):
    Path("secret").write_text("secret")
    with pytest.raises(DataError) as error:
        pairs_of(name, content, columns)
    assert str(error.value).startswith(expected) and "\n" not in str(error.value)


def test_a_memory_of_several_languages_is_checked_and_trained_on_by_one_command(mt: Callable[..., Any]):
    rng = random.Random(1)
    words = ["".join(rng.choices("abdefgiklmnoprstuv", k=6)) for _ in range(300)]
    unit = '<tu><tuv xml:lang="{}"><seg>{} <ph x="1">{{n}}</ph></seg></tuv><tuv xml:lang="{}"><seg><ph x="1"/> {}</seg></tuv></tu>'
    sides = [rng.choices(words, k=6) for _ in range(400)]
    rows = [unit.format("es", " ".join(src), "gn", " ".join(f"{word}ha" for word in src)) for src in sides]
    rows[9] = rows[8]
    Path("memory.tmx").write_text(f"<tmx><body>{''.join(rows)}{unit.format('es', 'uno', 'fr', 'un')}</body></tmx>")
    assert b"choose two with --src-lang es --tgt-lang gn" in mt("check", "memory.tmx").err
    languages = ["--src-lang", "es", "--tgt-lang", "gn"]
    checked = mt("check", "memory.tmx", *languages)
    assert checked.code == 0 and b"units in es, gn, fr; source is es, target is gn" in checked.out
    assert b"    10: " in checked.out
    small = [f"model.{key}=1" for key in ("n_encoder_layers", "n_decoder_layers")]
    small += ["model.d_model=16", "training.max_steps=2", "training.n_samples=0", "training.device=cpu"]
    answer = mt("train", "memory.tmx", *languages, *(word for one in small for word in ("--set", one)))
    assert answer.code == 0 and b"repeated, first in unit 10" in answer.err
    assert b"\tdev\t" in Path("runs/memory/left_out.tsv").read_bytes()
    assert all('<x id="1"/>' in line for line in Path("runs/memory/held_out/dev.es").read_text().splitlines())
