"""Tables as spreadsheets save them, memories and datasets (.tmx, .xliff, .po, .jsonl): what is read, what is refused."""

import csv
import gzip
import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_cli.config_file import config_of
from mt_cli.data import tables
from mt_cli.data.corpus import CorpusReport, read_pairs, read_raw_pairs
from mt_cli.data.spans import SYMBOLS, hold_pair
from mt_cli.data.tables import TableLayout, find_layout, read_rows
from mt_cli.errors import DataError, MTError, UsageError
from mt_cli.evaluation.evaluate import read_set

SENTENCES = [
    ("Hola, amigo mío", "Mba'éichapa che irũ"),
    ('Dijo: "Sí; claro"', "He'i: «Héẽ»"),
    ("La casa es grande", "Pe óga tuicha"),
    ("¿Dónde está el río?", "Moõpa oĩ pe ysyry?"),
]
TABLE = [["n", "es", "nota", "gn"]] + [[str(n), src, "", tgt] for n, (src, tgt) in enumerate(SENTENCES)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def as_csv(rows, delimiter=",", quoting=csv.QUOTE_MINIMAL, end="\r\n") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
    return text.getvalue()


def write(name: str, content: str | bytes) -> Path:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(name)


def texts_of(file: Path, columns: str | None = None) -> list[tuple[str, str]]:
    return [(src, tgt) for _, src, tgt in read_rows(find_layout(file, columns))]


def try_to_read(name: str, **settings) -> None:
    try:
        assert all(pair.src and pair.tgt and pair.line > 0 for pair in read_pairs([name], **settings))
    except MTError as error:
        assert len(error.args) == 1 and len(str(error).splitlines()) == 1


def message(name: str, content: str | bytes, columns: str | None = None) -> str:
    """The error of reading this as a corpus: one line of a bounded length, without surrogates."""
    write(name, content)
    try:  # pytest.raises would keep the files open
        list(read_pairs([name], columns=columns))
    except MTError as error:
        text = str(error)
    else:
        pytest.fail("it was read")
    assert "\n" not in text and len(text) < 1500 and text.isprintable()
    return text


@pytest.mark.parametrize(("delimiter", "encoding"), [(";", "utf-8-sig"), ("\t", "utf-8")])
def test_a_table_with_a_header_is_read_however_it_was_saved(delimiter, encoding):
    content = as_csv(TABLE, delimiter, csv.QUOTE_ALL).encode(encoding)
    for name in ("a.csv", "a.csv.gz", "a.tsv", "a.tsv.gz")[: 4 if delimiter == "\t" else 2]:
        layout = find_layout(write(name, gzip.compress(content) if name.endswith("gz") else content))
        assert (layout.delimiter, layout.is_quoted, layout.columns) == (delimiter, True, (1, 3))
        assert (layout.header, layout.languages) == (("n", "es", "nota", "gn"), ("es", "gn"))
        assert texts_of(Path(name)) == SENTENCES


def test_text_may_have_delimiters_line_breaks_and_quotes():
    rows = [("uno, dos", "peteĩ; mokõi"), ("tres; cuatro, cinco", "mbohapy, irundy"), ("seis", "poteĩ")] * 5
    every = [(f"uno; dos, {n}", f"tres\tcuatro {n}") for n in range(5)]
    for delimiter in ",;\t":
        assert texts_of(write("a.csv", as_csv(rows, delimiter))) == rows
        assert texts_of(write("a.csv", as_csv(every, delimiter, csv.QUOTE_ALL))) == every
    write("a.csv", 'es,gn\n"uno\ndos",x\n\n,\ntres,"y\r\nz"\ncuatro,v\n')
    for pairs in (read_pairs(["a.csv"]), read_raw_pairs(["a.csv"])):
        assert [pair[:3] for pair in pairs] == [("uno dos", "x", 2), ("tres", "y z", 6), ("cuatro", "v", 8)]
    for content in (
        '"Hello."\tHallo.\nyes\tja\n',  # no spreadsheet would have put these in quotes
        '"Hello," she said\t„Hallo“\n"No"\tnein\n',
        'a 5" nail\tx\n"b""c"\ty\n"d\tz\n',
        "no\tnein\nI can come with you tomorrow\tIch kann morgen mitkommen\n",
    ):
        assert not find_layout(write("a.tsv", content)).is_quoted
        assert texts_of(Path("a.tsv")) == [tuple(line.split("\t")) for line in content.splitlines()]
    text = 'say it\tx\n"She said ""hi"""\ty\nplain\tz\n'
    assert texts_of(write("a.tsv", text))[1] == ('She said "hi"', "y")
    assert not find_layout(write("a.tsv", text + '"a" b\tc\n')).is_quoted
    rows = "".join(f'"{src.replace(chr(34), chr(34) * 2)}", "{tgt}, ko árape"\n' for src, tgt in SENTENCES)
    assert texts_of(write("a.csv", rows)) == [(src, f"{tgt}, ko árape") for src, tgt in SENTENCES]
    speech = write("c.csv", 'Dijo, "no"; Ndaipóri\n"a; b"; c d\n"e; f"; g h\n')
    assert texts_of(speech)[0] == ('Dijo, "no"', "Ndaipóri")


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r") | st.sampled_from('",;\t\n «a'), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8),
    st.sampled_from(",;\t"),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_is_written_as_csv_comes_back(rows, delimiter, quoting, end):
    rows = [("source", "target"), *rows, ('a, b;\tand "so"', "on")]  # so that something has to be quoted
    file = write("a.csv", as_csv(rows, delimiter, quoting, end))
    expected = [row for row in rows[1:] if any(map(str.strip, row))]
    if quoting == csv.QUOTE_MINIMAL:  # spaces before a cell without quotes are left out
        expected = [(src.lstrip(" "), tgt.lstrip(" ")) for src, tgt in expected]
    layout = TableLayout(file, delimiter, True, ("source", "target"), (0, 1), 2)
    assert [(src, tgt) for _, src, tgt in read_rows(layout)] == expected
    if quoting == csv.QUOTE_ALL and not any("\0" in cell for row in rows for cell in row):
        assert texts_of(file, "source,target") == expected


def test_a_first_row_is_a_header_if_it_names_two_languages():
    for first, is_header in (
        ("en_US,pt-BR", True), ("English,Translation", True), ("No.,Español,Guaraní", True), ("the,el", False),
        ("Do you speak English?,¿Habla usted español?", False), ("1,Hola,Hallo", False),
    ):  # fmt: skip
        numbered = first.count(",") == 2
        words = (
            [("casa", "óga"), ("sí", "héẽ"), ("perro", "jagua")] if first == "the,el" else [*SENTENCES, ("sí", "héẽ")]
        )
        rows = [[str(n), *pair] if numbered else pair for n, pair in enumerate(words, 2)]
        layout = find_layout(write("a.csv", f"{first}\n{as_csv(rows)}"))
        assert (layout.header is not None) == is_header and layout.columns == ((1, 2) if numbered else (0, 1))
        assert len(texts_of(Path("a.csv"))) == len(rows) + (not is_header)
        assert texts_of(write("b.csv", "Target,SOURCE\nHallo du,hello you\n")) == [("hello you", "Hallo du")]


def test_columns_of_numbers_do_not_count():
    rows = [[str(n), *pair] for n, pair in enumerate(SENTENCES)]
    assert find_layout(write("a.csv", as_csv(rows))).columns == (1, 2)
    assert find_layout(write("a.tsv", as_csv([["id", "en", "fr"], *rows], "\t"))).columns == (1, 2)


def test_columns_that_are_not_clear_are_listed_with_an_option_that_works():
    rows = [("how are you", src, tgt) for src, tgt in SENTENCES[2:]] + [("a house", "una casa", "óga")]
    text = message("a.csv", as_csv([["en", "es", "gn"], *rows]))
    assert text.startswith("a.csv: 3 columns, and which are source and target is not clear; ")
    assert "such as --columns 1,2 " in text and "column 2 (es) La casa es grande" in text
    assert texts_of(Path("a.csv"), "gn,ES")[-1] == texts_of(Path("a.csv"), "3, 2")[-1] == ("óga", "una casa")
    rows = [["uno dos tres", "vier fünf"], ["aaa aaa", "bbb bbb"]]
    assert texts_of(write("a.csv", as_csv(rows)), "vier fünf,uno dos tres") == [("bbb bbb", "aaa aaa")]
    for columns in ("es,fr", "1,5", "0,1", "es", "es,2", "es,gn,3", ",", "nota,"):
        with pytest.raises(UsageError, match=r"^a\.csv: columns .* such as --columns 2,4 "):
            find_layout(write("a.csv", as_csv(TABLE)), columns)
    text = message("a.tsv", "\t".join(f"{word} b c {'x' * 50}" for word in ["a"] * 100_000) + "\n")
    assert "column 10 " in text and "and 99,990 more" in text and "column 11" not in text


def test_a_tab_within_text_and_a_missing_file_are_named_and_bad_utf_8_can_be_skipped():
    text = message("a.tsv", "es\tgn\n" + "Hola\tMba'éichapa\n" * 9 + "Hola\tamigo\tMba'éichapa\n")
    assert text.startswith("a.tsv:11: 3 columns, expected 2; delete the tab within the text")
    for name in ("b.csv", "b.tsv.gz", "b.xlsx"):
        with pytest.raises(DataError, match=r"^b\.\S+ No such file or directory; give the path of a "):
            find_layout(Path(name))
    write("a.csv", b"es,gn\na,b\nc\xe9,d\ne,f\ng,\xff\n")
    report = CorpusReport()
    pairs = list(read_pairs(["a.csv"], on_bad_line="skip", report=report))
    assert ([pair.line for pair in pairs], report.dropped) == ([2, 4], {"not UTF-8": 2})


@pytest.fixture
def save():
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")

    def save(rows) -> Path:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.create_sheet("another")["A1"] = "not read"
        book.save("a.xlsx")
        return Path("a.xlsx")

    return save


def change(member: str, edit: Callable[[bytes], bytes]) -> None:
    """Changes a file within a.xlsx."""
    with zipfile.ZipFile("a.xlsx") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[member] = edit(members[member])
    with zipfile.ZipFile("a.xlsx", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


SHEET = "xl/worksheets/sheet1.xml"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns"


def write_ods(cell: str, n_rows: str = "1") -> Path:
    """A table of LibreOffice with two cells in a row, of which the second one has the attributes `cell`."""
    names = " ".join(f'xmlns:{name}="{OFFICE}:{name}:1.0"' for name in ("office", "table", "text"))
    filled = '<table:table-cell office:value-type="string"{}><text:p>{}</text:p></table:table-cell>'
    row = f"{filled.format('', 'uno')}{filled.format(cell, 'dos')}</table:table-row>"
    table = f'<table:table table:name="S"><table:table-row table:number-rows-repeated="{n_rows}">{row}</table:table>'
    content = f"<office:document-content {names}><office:body><office:spreadsheet>{table}"
    with zipfile.ZipFile("a.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<x/>")
        archive.writestr("content.xml", content + "</office:spreadsheet></office:body></office:document-content>")
    return Path("a.ods")


def test_a_workbook_is_read_by_the_values_of_its_first_sheet(save):
    rows = [[], ["nr", "Español", "Guaraní"], [1, "Hola amigo", "Maitei che irũ"], [], [2, "#REF!", 3.5], [3, None, "x"], [4, "a_x000D_\nb", 7.0], [5, "z"]]  # fmt: skip
    layout = find_layout(save([[None, *row] for row in rows]))
    found = 'a.xlsx: sheet "Sheet" (1 other not read), a header row; source is column 3 (Español)'
    assert str(layout).startswith(found)
    assert layout.languages == ("es", "gn")
    report = CorpusReport()
    pairs = read_raw_pairs(["a.xlsx"], report=report)
    assert [pair[:3] for pair in pairs] == [
        ("Hola amigo", "Maitei che irũ", 3), ("", "3.5", 5), ("", "x", 6), ("a b", "7", 7), ("z", "", 8)
    ]  # fmt: skip
    assert report.notes == [str(layout)]
    book = pytest.importorskip("openpyxl").load_workbook(save([["internal note", "nothing"]]))
    book.active.sheet_state = "hidden"
    book["another"]["B1"] = "is"
    book.save("a.xlsx")
    assert find_layout(Path("a.xlsx")).sheet == 'sheet "another" (1 other not read)'
    assert texts_of(Path("a.xlsx")) == [("not read", "is")]


def test_a_workbook_of_charts_alone_and_a_file_that_is_none_are_refused(save, monkeypatch):
    assert message("a.xlsx", save([]).read_bytes()).startswith("a.xlsx: no rows; ")
    book = pytest.importorskip("openpyxl").Workbook()
    book.create_chartsheet("chart")
    book.remove(book.active)
    book.save("a.xlsx")
    assert message("a.xlsx", Path("a.xlsx").read_bytes()) == "a.xlsx: no sheet with cells; save the table as .csv"
    whole = save(SENTENCES * 50).read_bytes()
    for content in (b"", b"a,b\n", b"PK\x03\x04", whole[:-40], whole[: len(whole) // 2]):
        assert message("a.xlsx", content).startswith("a.xlsx: cannot be read as a workbook (")
    assert message("a.xls", b"\xd0\xcf\x11\xe0").startswith("a.xls: cannot be read as a workbook (")
    monkeypatch.setattr(tables, "_MAX_UNPACKED", 1000)
    assert message("a.xlsx", whole).startswith("a.xlsx: unpacks to ")


def test_a_damaged_workbook_gives_pairs_or_one_error(save):
    whole = save(SENTENCES).read_bytes()
    with zipfile.ZipFile("a.xlsx") as archive:
        names = [name for name in archive.namelist() if name.endswith(".xml") and "docProps" not in name]
    for number, name in enumerate(names):
        write("a.xlsx", whole)
        change(name, lambda xml: xml[: len(xml) // 2] if number % 2 else xml.replace(b"1", b"9"))  # noqa: B023
        try_to_read("a.xlsx")
    for position in range(0, len(whole), 1321):
        write("a.xlsx", whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try_to_read("a.xlsx")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")
@pytest.mark.parametrize("cell", [b"XFD1048576", b"A999999999"])
def test_a_workbook_whose_last_cell_is_far_away_is_refused_before_it_takes_the_memory(save, cell):
    save(SENTENCES)
    row = cell.lstrip(b"XFDA")
    change(SHEET, lambda xml: xml.replace(b'<row r="4"', b'<row r="%b"' % row).replace(b'r="A4"', b'r="%b"' % cell))
    assert message("a.xlsx", Path("a.xlsx").read_bytes()).startswith("a.xlsx: cannot be read as a workbook (")


def test_a_table_of_libreoffice_is_read_and_repeated_cells_do_not_fill_the_memory():
    pytest.importorskip("python_calamine")
    assert texts_of(write_ods("", "2")) == [("uno", "dos")] * 2
    write_ods(' table:number-columns-repeated="16384"', "1048576")
    assert message("a.ods", Path("a.ods").read_bytes()).startswith("a.ods: cannot be read as a workbook (")


def test_entities_of_a_workbook_are_not_expanded(save):
    save(SENTENCES)
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 8))
    head = f'<!DOCTYPE worksheet [<!ENTITY e0 "ha">{bomb}]>'.encode()
    change(SHEET, lambda xml: head + xml.replace(b"La casa es grande", b"&e7;"))
    try:
        assert all(len(pair.src) < 100 for pair in read_pairs(["a.xlsx"]))
    except DataError as error:
        assert str(error).startswith("a.xlsx: cannot be read as a workbook (")


def test_a_workbook_needs_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(UsageError, match=r"^a\.xlsx: reading \.xlsx needs python-calamine; .*\"mt-cli\[xlsx\]\"$"):
        find_layout(write("a.xlsx", b""))


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
ARABIC = r"""msgid ""
msgstr "Plural-Forms: nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n<11 ? 3 : n<100 ? 4 : 5;\n"

msgid "a file"
msgid_plural "%d files"
msgstr[0] "none"
msgstr[1] "one"
msgstr[5] "%d"
"""
PO_PAIRS = [('Say "%s" now', 'Sag "%s"', 6), ("a file", "eine Datei", 17), ("%d files", "%d Dateien", 18)]
TAGGED = [("A <g id=\"7\">big <x id=\"8\"/></g> one", "Ein <g id=\"7\">großer <x id=\"8\"/></g>", 1)]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [
        ("a.xlf", XLIFF_1, "en,de", TAGGED),
        ("a.xliff", XLIFF_2, None, TAGGED),
        ("a.po", PO, "en,de", PO_PAIRS),
        ("b.po", PO.replace("Language: de", "X: y"), "en,de", PO_PAIRS),
        ("a.po", PO, "de,en", [(tgt, src, line) for src, tgt, line in PO_PAIRS]),
        ("a.po", ARABIC, None, [("a file", "one", 4), ("%d files", "%d", 5)]),
        ("a.po", ARABIC.replace("n==0 ? 0", "n-9; #"), None, [("a file", "none", 4), ("%d files", "%d", 5)]),
        ("a.jsonl", JSONL, "en,de", [("Yes", "Ja", 1), ("No", "Nein", 3)]),
        ("a.jsonl", '{"src": "Ja", "tgt": "Yes"}\n', None, [("Ja", "Yes", 1)]),
        ("a.json", '{"translation": {"en": "Yes", "yor": "Bẹ́ẹ̀ ni"}}\n', None, [("Yes", "Bẹ́ẹ̀ ni", 1)]),
        ("a.tmx", TMX.replace("MORE", FRENCH), "fr,de", [("Oui", "Ja", 3)]),
        ("deu.txt", "Go.\tGeh.\tCC-BY 2.0\nHi!\tHallo!\tCC-BY 2.0\n", None, [("Go.", "Geh.", 1), ("Hi!", "Hallo!", 2)]),
    ],
)  # fmt: skip
def test_units_are_read_as_pairs(name, content, columns, expected):
    write(name, content)
    assert [pair[:3] for pair in read_pairs([name], columns=columns)] == expected


def test_a_memory_is_scored_by_its_languages_and_not_by_their_order():
    write("a.tmx", TMX.replace("MORE", FRENCH))
    data = config_of({"src_lang": "de", "tgt_lang": "en", "train": ["a.de", "a.en"]}).data
    found = read_set(data, "x", ["a.tmx"])
    assert (found.sources[-1], found.references[0][-1]) == ("Ja", "Yes")


def test_codes_of_a_memory_have_the_same_symbols_on_both_sides():
    write("a.tmx.gz", gzip.compress(TMX.replace("MORE", "").encode()))
    (src, tgt, number), yes = (pair[:3] for pair in read_pairs(["a.tmx.gz"]))
    assert (src, number) == ('Press <g id="4">OK</g><x id="2"/>.', 1) and yes == ("Yes", "Ja", 3)
    assert hold_pair(src, tgt) == (f'Press {SYMBOLS[0]}OK</g><x id="2"/>.', tgt.replace('<g id="4">', SYMBOLS[0]))
    assert find_layout(Path("a.tmx.gz")).languages == ("en-US", "de")


SECRET = '<!DOCTYPE x [<!ENTITY a SYSTEM "secret">]>'
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{}]>'.format("".join(f'<!ENTITY a{n} "{f"&a{n - 1 or str()};" * 10}">' for n in range(1, 9)))  # fmt: skip
BROKEN = [  # tables
    ("a b,c\n" * 9 + "d\n" + "a b,c\nx\n", ":10: 1 columns, expected 2; complete the row or delete it"),
    ("a b,c\n" * 9 + "Well, yes,d\n", ":10: 3 columns, expected 2; "),
    ('"a",b\n"c",d\n"e,f\n' + "g h,i\n" * 5, ":3: a row that begins here cannot be read (unexpected end of data)"),
    ('"a",b\n' * 9 + f'"{"long " * 40_000}",b\n', ":10: a row that begins here cannot be read (field larger "),
    ('"a",b\n"c",d\ne\rf,g\n', ":3: a row that begins here cannot be read (new-line character seen "),
    ("a,b\r" * 40, ":1: lines end in carriage returns alone; "),
    ("one\ntwo\n", ":1: one column, expected source and target"),
    ("", ": no rows; give a table with a sentence pair in each row"),
    ("es,gn\n", ": no lines; give a file with a sentence on each line"),
    ("a,b\n".encode("utf-16-le"), ":1: UTF-16 text, expected UTF-8; "),
    (gzip.compress(b"a,b\n", mtime=0), ":1: gzip file, expected text; unpack it"),
    ("Español;Guaraní\nuno dos;tres\n".encode("cp1252"), ":1: invalid UTF-8 at byte 5 (0xf1); save the table as UTF-8: in Excel by"),
    ("es;gn\naño;tres\nseñor;b\n".encode("cp1252"), ":2: invalid UTF-8 at byte 2 (0xf1); save the table as UTF-8: in Excel by Save As"),
]  # fmt: skip
NOT_MEANT = [
    ("a.tmx", TMX.replace("MORE", FRENCH), None, "a.tmx: units in en-US (2), DE (2), fr (1); which are source and target is not clear; choose"),
    ("a.tmx", TMX.replace("MORE", ""), "en,pl", "a.tmx: units in en-US (2), DE (2); expected en and pl; choose two with --src-lang en-US "),
    ("a.tmx", TMX[:-60], "en,de", "a.tmx: cannot be read after unit 2: "),
    ("a.tmx", BOMB + TMX.partition('dtd">')[2].replace("MORE", "").replace("Yes", "&a8;"), "en,de", "a.tmx: cannot be read after unit "),
    ("a.tmx", SECRET + TMX.partition('dtd">')[2].replace("MORE", "").replace("Yes", "&a;"), "en,de", "a.tmx: cannot be read after unit 3: the entity &a; is"),
    ("a.xlf", XLIFF_1.replace("<target>Ein", "<target state='new'>Ein"), None, "a.xlf: no unit has a text and its translation; "),
    ("a.po", PO.replace('msgstr "Ja"', "msgstr Ja"), None, 'a.po:11: expected msgid "..." and msgstr "..."; check it with msgfmt'),
    ("a.jsonl", '{"a": "b", "c": "d"}\n["a"]\n', None, 'a.jsonl:2: expected an object such as {"src": "...", "tgt": "..."} on each line'),
    ("a.json", '[{"a": "b"}]\n', None, 'a.json:1: expected an object such as {"src": "...", "tgt": "..."} on each line'),
    ("a.jsonl", '{"a": "b"\n', None, "a.jsonl:1: no JSON (Expecting ',' delimiter: line 1 column 10 (char 9)); expected an object on each line"),
    ("a.jsonl", '{"src": "hola \\ud83d", "tgt": "maitei"}\n', None, "a.jsonl:1: invalid UTF-8 at byte 6 (0xed); "),
    ("a.tmx.gz", gzip.compress(TMX.encode(), mtime=0)[:12] + b"\xff" * 9, "en,de", "a.tmx.gz: Error -3 while decompressing data"),
    ("a.txt", "one\ntwo\n", None, "a.txt:1: one column, expected source and target with a tab between them; give such a table, or two text files"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [*NOT_MEANT, *(("a.csv", content, None, f"a.csv{begin}") for content, begin in BROKEN)],
)
def test_what_cannot_be_read_or_be_meant_is_refused_with_its_line(name, content, columns, expected):
    Path("secret").write_text("secret")
    assert message(name, content, columns).startswith(expected)


def test_a_memory_of_several_languages_is_checked_by_units_of_those_that_are_chosen(mt):
    again = TMX.splitlines()[-1].replace("MORE</tu></body></tmx>", "</tu>")
    write("memory.tmx", TMX.replace("MORE", FRENCH).replace("<body>", "<body>" + again))
    answer = mt("check", "memory.tmx", "--src-lang", "en", "--tgt-lang", "de")
    assert b"memory.tmx: units in en-US, DE, fr; source is en-US, target is DE\n" in answer.out
    assert b"1 repeated" in answer.out and b"\n    4: " in answer.out
