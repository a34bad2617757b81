"""Tables as spreadsheets save them: what is found out about them, what is read, and what each damaged one is told as."""

from __future__ import annotations

import csv
import gzip
import io
import warnings
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_cli.data import tables, workbook
from mt_cli.data.corpus import CorpusReport, read_pairs, read_test_set
from mt_cli.data.languages import code_of_name
from mt_cli.data.tables import describe, find_layout, languages_of, read_rows
from mt_cli.errors import DataError, UsageError

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
    return [(src, tgt) for _, src, tgt in read_rows(file, find_layout(file, columns))]


def message(name: str, content: str | bytes, columns: str | None = None) -> str:
    """The DataError of reading this as a corpus."""
    write(name, content)
    with pytest.raises(DataError) as caught:
        list(read_pairs([name], columns=columns))
    assert len(caught.value.args) == 1 and "\n" not in str(caught.value)
    return str(caught.value)


# How a table is written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_with_a_header_is_read_however_it_was_saved(delimiter, encoding, quoting):
    for name in ("a.csv", "a.tsv") if delimiter == "\t" else ("a.csv",):
        file = write(name, as_csv(TABLE, delimiter, quoting).encode(encoding))
        layout = find_layout(file)
        assert (layout.delimiter, layout.is_quoted, layout.columns) == (delimiter, True, (1, 3))
        assert (layout.header, languages_of(layout)) == (("n", "es", "nota", "gn"), ("es", "gn"))
        assert texts_of(file) == SENTENCES


def test_what_was_found_is_told_in_a_line_and_how_to_correct_it():
    layout = find_layout(write("corpus.csv", as_csv(TABLE, ";")))
    assert describe(layout) == (
        "corpus.csv: semicolons between columns, quoted cells, a header row; source is column 2 (es), target is column 4 (gn);"
        " other columns with --columns"
    )
    layout = find_layout(write("two.csv", "a b,c d\ne f,g h\n"))
    assert describe(layout) == (
        "two.csv: commas between columns, no header row; source is column 1, target is column 2"
    )
    assert languages_of(layout) == (None, None)


def test_a_set_tells_once_how_its_table_was_read():
    write("corpus.csv", as_csv(TABLE))
    report = CorpusReport()
    pairs = list(read_pairs(["corpus.csv"], report=report))
    assert [(pair.src, pair.tgt) for pair in pairs] == SENTENCES
    assert report.describe("train")[1:] == [f"train: {describe(find_layout(Path('corpus.csv')))}"]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_text_may_have_the_delimiters_of_others(delimiter, quoting):
    rows = [("uno, dos", "peteĩ; mokõi"), ("tres; cuatro, cinco", "mbohapy, irundy"), ("seis", "poteĩ")] * 5
    file = write("a.csv", as_csv(rows, delimiter, quoting))
    assert find_layout(file).delimiter == delimiter
    assert texts_of(file) == rows


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_quotes_tell_the_delimiter_where_every_row_has_others_too(delimiter):
    rows = [(f"uno; dos, {n}", f"tres\tcuatro {n}") for n in range(5)]
    assert texts_of(write("a.csv", as_csv(rows, delimiter, csv.QUOTE_ALL))) == rows


def test_a_packed_table_is_unpacked():
    for name, delimiter in (("a.csv.gz", ";"), ("a.tsv.gz", "\t")):
        assert texts_of(write(name, gzip.compress(as_csv(TABLE, delimiter).encode()))) == SENTENCES


def test_a_pair_has_the_line_where_its_row_begins_and_its_text_in_one_line():
    write("a.csv", 'es,gn\n"uno\ndos",x\n\n,\ntres,"y\r\nz"\ncuatro,v\n')
    for pairs in (
        list(read_pairs(["a.csv"])),
        read_test_set(["a.csv"], on_bad_line="error", report=CorpusReport()),
    ):
        assert [tuple(pair) for pair in pairs] == [("uno dos", "x", 2), ("tres", "y z", 6), ("cuatro", "v", 8)]


def test_an_empty_cell_is_an_empty_side_that_is_counted_and_an_empty_row_is_none():
    write("a.csv", "es,gn,\nuno,a,\n,b,\n;,c,\n,,\n,,\n")
    report = CorpusReport()
    list(read_pairs(["a.csv"], report=report))
    assert (report.n_pairs, report.dropped) == (3, {"with an empty side": 1})


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
    layout = tables.TableLayout(file, delimiter, True, ("source", "target"), (0, 1), 2, "utf-8-sig")
    expected = [row for row in rows[1:] if any(map(str.strip, row))]
    assert [(src, tgt) for _, src, tgt in read_rows(file, layout)] == expected
    if quoting == csv.QUOTE_ALL and not any("\0" in cell for row in rows for cell in row):
        assert texts_of(file, "source,target") == expected


# A .tsv as ever -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "one\teins\ntwo\tzwei\n",
        '"Hello."\tHallo.\nyes\tja\n',  # no spreadsheet would have put these in quotes
        '"Hello," she said\t„Hallo“\n"No"\tnein\n',
        '"Go\t„Geh\nnow."\tjetzt.“\n',  # a speech that goes on in the next line
        'a 5" nail\tx\n"b""c"\ty\n"d\tz\n',
        "no\tnein\nI can come with you tomorrow\tIch kann morgen mitkommen\n",
        "",
        "one\n",
    ],
)
def test_a_tsv_of_two_bare_columns_is_read_line_by_line(content):
    layout = find_layout(write("a.tsv", content))
    assert layout.is_plain
    assert describe(layout).endswith("source is column 1, target is column 2")
    report = CorpusReport()
    if content.count("\t") > 1:
        rows = [tuple(line.split("\t")) for line in content.splitlines()]
        pairs = read_test_set(["a.tsv"], on_bad_line="error", report=report)
        assert ([(pair.src, pair.tgt) for pair in pairs], report.notes) == (rows, [])


def test_a_tsv_with_quotes_as_spreadsheets_write_them_is_unquoted():
    text = 'say it\tx\n"She said ""hi"""\ty\nplain\tz\n'
    assert texts_of(write("a.tsv", text))[1] == ('She said "hi"', "y")
    assert not find_layout(write("a.tsv", text + '"a" b\tc\n')).is_quoted
    assert texts_of(write("a.tsv", 'a b\t"c\nd"\ne\tf\n')) == [("a b", "c\nd"), ("e", "f")]


# Header and columns ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        (["es", "gn"], True),
        (["en_US", "pt-BR"], True),
        (["Español", "Guaraní"], True),
        (["SOURCE", "Target"], True),
        (["English", "Translation"], True),
        (["Frase", "Oración"], True),  # short cells above long ones
        (["Buenos días, amigo.", "Mba'éichapa"], False),
        (["no", "nahániri"], False),
        (["¿Dónde está el libro?", "Moõpa oĩ kuatiañe'ẽ?"], False),
    ],
)
def test_a_header_is_told_from_a_first_sentence(first, is_header):
    rows = [(src * 3, tgt * 3) for src, tgt in SENTENCES] + [("sí", "héẽ")] * (not is_header)
    layout = find_layout(write("a.csv", as_csv([first, *rows])))
    assert (layout.header is not None) == is_header
    assert len(texts_of(Path("a.csv"))) == len(rows) + (not is_header)


def test_a_name_that_is_also_a_cell_below_is_no_header():
    assert find_layout(write("a.csv", "Spanish,español\nEnglish,inglés\nSpanish,castellano\n")).header is None


def test_numbers_below_a_word_show_a_header():
    assert find_layout(write("a.csv", "nr,frase,ñe'ẽ\n1,sí,héẽ\n2,no,nahániri\n")).header == ("nr", "frase", "ñe'ẽ")


def test_the_header_decides_which_of_two_columns_is_the_source():
    assert texts_of(write("a.csv", "target,source\nHallo du,hello you\n")) == [("hello you", "Hallo du")]


@pytest.mark.parametrize(
    "more",
    [
        lambda n: f"2024-05-{n}",
        lambda n: f"clips/es_{n}.wav",
        lambda n: ["saludo", "pregunta"][n % 2],  # too few that differ, or too short
        lambda n: "revisar" if n == 1 else "",
        lambda n: f"Génesis 1:{n}",
        lambda n: "abcdefghijklmnopqrstuvwxyz"[n] * 3,
    ],
    ids=["dates", "files", "topics", "notes", "places", "names"],
)
def test_two_columns_of_running_text_are_found_among_others(more):
    rows = [[more(n), src * 2, tgt * 2] for n, (src, tgt) in enumerate(SENTENCES * 5)]
    assert find_layout(write("a.csv", as_csv(rows))).columns == (1, 2)
    assert find_layout(write("a.tsv", as_csv([[b, a, c] for a, b, c in rows], "\t"))).columns == (0, 2)


def test_three_columns_of_text_are_listed_with_a_sample_and_the_option():
    rows = [
        ["en", "es", "gn"],
        *(("how are you", src, tgt) for src, tgt in SENTENCES[2:]),
        ("a house", "una casa", "óga"),
    ]
    assert message("a.csv", as_csv(rows)) == (
        "a.csv: 3 columns, and which are source and target is not clear; give the two by name or number, such as"
        " --columns en,es: column 1 (en) how are you; column 2 (es) La casa es grande; column 3 (gn) Pe óga tuicha"
    )
    assert texts_of(Path("a.csv"), "gn,ES")[-1] == texts_of(Path("a.csv"), "3, 2")[-1] == ("óga", "una casa")
    assert next(read_pairs(["a.csv"], columns="2,3")).src == "La casa es grande"


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            "es,fr",
            "a.csv: --columns: no column fr; give the two by name or number, such as --columns es,gn: column 1 (n) 0",
        ),
        ("1,5", "a.csv: --columns: no column 5; "),
        ("0,1", "a.csv: --columns: no column 0; "),
        ("es", "a.csv: --columns es names 1 columns, expected source and target; "),
        ("es,2", "a.csv: --columns es,2 names one column twice, expected source and target; "),
    ],
)
def test_columns_that_are_not_there_are_refused(columns, told):
    assert message("a.csv", as_csv(TABLE), columns).startswith(told)


def test_the_names_that_columns_gives_make_a_header():
    rows = [["uno dos tres", "vier fünf"], ["aaa aaa", "bbb bbb"]]
    assert texts_of(write("a.csv", as_csv(rows)), "vier fünf,uno dos tres") == [("bbb bbb", "aaa aaa")]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("es", "es"), ("EN", "en"), ("en_US", "en_US"), ("zh-Hant", "zh-Hant"), ("hch", "hch"), ("Spanish", "es"),
        ("ESPANOL", "es"), ("Español (México)", "es"), ("text_es", "es"), ("Avañe’ẽ", "gn"), ("हिन्दी", "hi"), ("中文", "zh"),
        ("source", None), ("src", None), ("Key", None), ("Spanish to English", None), ("", None), ("xx", None),
    ],
)  # fmt: skip
def test_the_name_of_a_column_tells_its_language(name, code):
    assert code_of_name(name) == code


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a b,c\n" * 9 + "d\n" + "a b,c\nx\n", "a.csv:10: 1 columns, expected 2, likewise line 12; complete the row or delete it"),
        (
            "a b,c\n" * 9 + "Well, yes,d\n",
            "a.csv:10: 3 columns, expected 2; put quotes around a cell that has a comma in it, or save the table with"
            " another delimiter",
        ),
        (
            '"a",b\n"c",d\n"e,f\n' + "g h,i\n" * 5,
            "a.csv:3: a quote opens a cell in this row and nothing closes it, expected a closing quote; close it, or write it"
            " twice and the cell in quotes if it belongs to the text",
        ),
        (
            '"a",b\n"c",d\n"e,f\n' + "g h,i\n" * 200,
            "a.csv:3: a cell of more than 100 lines begins in this row, expected a closing quote; ",
        ),
        (
            '"a",b\n' * 9 + f'"{"long " * 40_000}",b\n',
            "a.csv:10: a cell of more than 131,072 characters begins in this row, expected a closing quote; ",
        ),
        ('"a",b\n"c,d\n"e",f\n', "a.csv:2: text comes after the quote that closes a cell (in line 3), expected the next"),
        ('"a",b\n"c",d\n"e" f,g\n', "a.csv:3: text comes after the quote that closes a cell, expected the next column; "),
        ('"a",b\n"c",d\ne\rf,g\n', "a.csv:3: a carriage return within a row, expected it at line ends only; delete it"),
        ("a,b\rc,d\r", "a.csv:1: lines end in carriage returns alone; save the table with line ends of Windows"),
        ("one\ntwo\n", "a.csv:1: one column, expected source and target; put a comma, a semicolon or a tab between them"),
        ("", "a.csv: no rows; give a table with a sentence pair in each row"),
        ("es,gn\n", "a.csv: no lines; give a file with a sentence on each line"),
        ("a,b\n".encode("utf-16-le"), "a.csv:1: UTF-16 file; convert with: iconv -f UTF-16LE -t UTF-8"),
        ("a,b\n".encode("utf-16") + b"\x00\xd8", "a.csv:2: invalid UTF-16 here or below; save the table as UTF-8"),
        (gzip.compress(b"a,b\n", mtime=0), "a.csv:1: gzip file, expected text; unpack it"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_named_with_its_line(content, told):
    assert message("a.csv", content).startswith(told)


def test_a_column_may_be_named_by_an_abbreviation_with_a_full_stop():
    rows = [["No.", "Español", "Guaraní"], *([str(n), *pair] for n, pair in enumerate(SENTENCES))]
    layout = find_layout(write("a.csv", as_csv(rows)))
    assert (layout.header, layout.columns) == (("No.", "Español", "Guaraní"), (1, 2))
    short = [["Yes.", "Sí."], *(pair for pair in SENTENCES * 12)]
    assert find_layout(write("a.csv", as_csv(short))).header is None


def test_quotes_after_a_space_enclose_a_cell_too():
    rows = "".join(f'"{src.replace(chr(34), chr(34) * 2)}", "{tgt}, ko árape"\n' for src, tgt in SENTENCES)
    file = write("a.csv", rows)
    assert texts_of(file) == [(src, f"{tgt}, ko árape") for src, tgt in SENTENCES]
    spaced = write("b.csv", '"Hola, amigo"; "Mba\'éichapa"\n"Sí, claro"; "Héẽ, upéicha"\n')
    assert texts_of(spaced) == [("Hola, amigo", "Mba'éichapa"), ("Sí, claro", "Héẽ, upéicha")]
    speech = write("c.csv", 'Dijo, "no"; Ndaipóri\n"a; b"; c d\n"e; f"; g h\n')  # of few cells: they stay as they are
    assert texts_of(speech)[0] == ('Dijo, "no"', " Ndaipóri")


def test_the_line_that_tells_a_spreadsheet_the_delimiter_is_no_row():
    file = write("a.csv", "sep=;\r\nes;gn\r\n" + "".join(f"{src[:9]};{tgt[:9]}\r\n" for src, tgt in SENTENCES[2:]))
    assert find_layout(file).header == ("es", "gn") and len(texts_of(file)) == 2
    assert next(read_rows(file, find_layout(file)))[0] == 3


def test_a_tab_within_text_is_no_end_of_a_column():
    told = message("a.tsv", "es\tgn\n" + "Hola\tMba'éichapa\n" * 9 + "Hola\tamigo\tMba'éichapa\n")
    assert told == (
        "a.tsv:11: 3 columns, expected 2; put a space in the place of a tab within the text, or name the last column in the"
        " header"
    )


def test_bad_utf_8_is_named_with_all_lines_or_skipped():
    content = b"es,gn\na,b\nc\xe9,d\ne,f\ng,\xff\n"
    assert message("a.csv", content) == (
        "a.csv:3: invalid UTF-8 at byte 2 (0xe9), likewise line 5; save the table as CSV UTF-8, or leave such lines"
        " out: --set data.on_bad_line=skip"
    )
    report = CorpusReport()
    pairs = list(read_pairs(["a.csv"], on_bad_line="skip", report=report))
    assert ([pair.line for pair in pairs], report.dropped) == ([2, 4], {"not UTF-8": 2})


@pytest.mark.parametrize("name", ["a.xls", "a.ods", "a.XLS"])
def test_a_spreadsheet_of_another_format_is_to_be_saved_anew(name):
    with pytest.raises(DataError, match=r"^a\.\w+: a spreadsheet of another format; save it as \.xlsx or \.csv$"):
        find_layout(write(name, b"\xd0\xcf\x11\xe0"))


@pytest.mark.parametrize("content", ["", "one\n"])
def test_a_tsv_in_utf_16_without_two_columns_is_refused(content):
    told = "a.tsv:1: one column, expected source and target; " if content else "a.tsv: no rows; "
    assert message("a.tsv", content.encode("utf-16")).startswith(told)


def test_a_missing_table_is_named():
    for name in ("a.csv", "a.tsv.gz"):
        with pytest.raises(DataError, match=r"^a\.\S+ No such file or directory; give the path of a "):
            find_layout(Path(name))


BYTES = st.lists(
    st.sampled_from(
        [
            b'"',
            b'""',
            b",",
            b";",
            b"\t",
            b"\n",
            b"\r\n",
            b"\r",
            b"a",
            b"es",
            b"1",
            b"\xff",
            b"\xfe",
            b"\0",
            b"\xef\xbb\xbf",
        ]
    )
    | st.binary(max_size=4),
    max_size=40,
).map(b"".join)


@settings(max_examples=100, deadline=None)
@given(BYTES, st.sampled_from(["a.csv", "a.tsv", "a.csv.gz"]), st.sampled_from([None, "1,2", "es,a", "2,1"]))
def test_damaged_bytes_give_pairs_or_one_error(content, name, columns):
    write(name, gzip.compress(content) if name.endswith("gz") else content)
    for on_bad_line in ("error", "skip"):
        try:
            for pair in read_pairs([name], columns=columns, on_bad_line=on_bad_line):
                assert pair.src and pair.tgt and pair.line > 0
        except DataError as error:
            assert len(error.args) == 1 and len(str(error).splitlines()) == 1


# Workbooks ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def save():
    openpyxl = pytest.importorskip("openpyxl")

    def save(rows) -> Path:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.create_sheet("another")["A1"] = "not read"
        book.save("a.xlsx")
        return Path("a.xlsx")

    return save


def test_a_title_above_the_header_is_no_pair():
    pairs = [(f"texto número {n}", f"niuki {n} texto") for n in range(9)]
    told = "its first row is a title, and its second one has the names of the columns; delete the first row"
    for title in (["Corpus de frases", ""], ["", "Corpus de frases"]):
        assert message("a.csv", as_csv([title, ["es", "hch"], *pairs])) == f"a.csv: {told}"
    assert texts_of(write("b.csv", as_csv([["es", "hch"], *pairs]))) == pairs
    assert len(texts_of(write("c.csv", as_csv([["Corpus", ""], ["no se sabe", "nada"], *pairs])))) == 11


def test_an_empty_cell_in_the_first_row_makes_no_header():
    rows = [
        ["1", "Hello there", "Hallo du", ""],
        ["2", "Good day", "Guten Tag", "x"],
        ["3", "Bye then", "Bis bald", ""],
    ]
    assert texts_of(write("a.csv", as_csv(rows))) == [(row[1], row[2]) for row in rows]
    assert texts_of(write("b.tsv", "\tHallo du\nGood day\tGuten Tag\n")) == [
        ("", "Hallo du"),
        ("Good day", "Guten Tag"),
    ]


def test_a_hidden_sheet_is_not_the_one_that_is_read(save):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(save([["internal note", "nothing"]]))
    book.active.sheet_state = "hidden"
    for row in SENTENCES:
        book["another"].append(row)
    del book["another"]["A1"]
    book.save("a.xlsx")
    layout = find_layout(Path("a.xlsx"))
    assert layout.sheet == 'sheet "another" (1 other not read)'
    assert [src for _, src, _ in read_rows(Path("a.xlsx"), layout)] == [src for src, _ in SENTENCES]


def test_a_workbook_is_read_by_the_values_of_its_first_sheet(save):
    file = save([[], ["nr", "Español", "Guaraní"], [1, "Hola amigo", "Maitei che irũ"], [], [2, "#REF!", 3.5], [3, None, "x"], [4, "a_x000D_\nb", "y"], [5, "z"]])  # fmt: skip
    layout = find_layout(file)
    assert describe(layout) == (
        'a.xlsx: sheet "Sheet" (1 other not read), a header row; source is column 2 (Español), target is column 3 (Guaraní); other columns with --columns'
    )
    assert languages_of(layout) == ("es", "gn")
    report = CorpusReport()
    pairs = read_test_set(["a.xlsx"], on_bad_line="error", report=report)
    assert [tuple(pair) for pair in pairs] == [
        ("Hola amigo", "Maitei che irũ", 3), ("#REF!", "3.5", 5), ("", "x", 6), ("a b", "y", 7), ("z", "", 8)
    ]  # fmt: skip
    assert report.notes == [describe(layout)]


def test_a_workbook_without_rows_is_refused(save):
    save([])
    with pytest.raises(DataError, match=r"^a\.xlsx: no rows; "):
        list(read_pairs(["a.xlsx"]))


def test_a_file_that_is_no_workbook_is_refused(save):
    whole = save(SENTENCES * 50).read_bytes()
    for content in (b"", b"a,b\n", b"PK\x03\x04", whole[:-40], whole[: len(whole) // 2]):
        assert message("a.xlsx", content).startswith("a.xlsx: cannot be read as a workbook (")


def test_a_damaged_workbook_gives_pairs_or_one_error(save):
    whole = save(SENTENCES).read_bytes()
    with zipfile.ZipFile("a.xlsx") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, content in members.items():
        for damaged in (
            None,
            b"",
            content[: len(content) // 2],
            content.replace(b'"', b"'x"),
            content.replace(b"1", b"9"),
        ):
            with zipfile.ZipFile("a.xlsx", "w") as archive:
                for other, rest in members.items():
                    if other != name:
                        archive.writestr(other, rest)
                    elif damaged is not None:
                        archive.writestr(other, damaged)
            try_to_read("a.xlsx")
    for position in range(0, len(whole), 331):
        write("a.xlsx", whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try_to_read("a.xlsx")


def try_to_read(name: str) -> None:
    try:
        list(read_pairs([name]))
    except DataError as error:
        assert len(str(error).splitlines()) == 1


def test_a_workbook_that_unpacks_to_too_much_is_refused(save, monkeypatch):
    file = save(SENTENCES)
    monkeypatch.setattr(workbook, "_MAX_UNPACKED", 1000)
    with pytest.raises(DataError, match=r"^a\.xlsx: unpacks to .* expected at most .*; save the table as \.csv$"):
        find_layout(file)


def test_a_workbook_whose_last_row_is_far_away_is_refused(save, monkeypatch):
    monkeypatch.setattr(workbook, "_MAX_ROWS", 4096)
    save(SENTENCES)
    with zipfile.ZipFile("a.xlsx") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    members[sheet] = members[sheet].replace(b'<row r="4"', b'<row r="999999999"').replace(b'r="A4"', b'r="A999999999"')
    with zipfile.ZipFile("a.xlsx", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match=r"^a\.xlsx: more than 4,096 rows"):
        list(read_pairs(["a.xlsx"]))


def test_entities_of_a_workbook_are_not_expanded_without_end(save):
    save(SENTENCES)
    with zipfile.ZipFile("a.xlsx") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 8))
    sheet = members["xl/worksheets/sheet1.xml"].replace(b"La casa es grande", b"&e7;")
    members["xl/worksheets/sheet1.xml"] = f'<!DOCTYPE worksheet [<!ENTITY e0 "ha">{bomb}]>'.encode() + sheet
    with zipfile.ZipFile("a.xlsx", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert message("a.xlsx", Path("a.xlsx").read_bytes()).startswith("a.xlsx: cannot be read as a workbook (")


def test_what_openpyxl_warns_of_is_not_shown(save, monkeypatch):
    file = save(SENTENCES)
    openpyxl = pytest.importorskip("openpyxl")
    load = openpyxl.load_workbook

    def warn(*arguments, **settings):
        warnings.warn("Data Validation extension is not supported and will be removed", stacklevel=1)
        return load(*arguments, **settings)

    monkeypatch.setattr(openpyxl, "load_workbook", warn)
    assert texts_of(file) == SENTENCES


def test_a_workbook_needs_an_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(UsageError, match=r"^a\.xlsx: reading \.xlsx needs openpyxl; .*\"mt-cli\[xlsx\]\"$"):
        find_layout(write("a.xlsx", b""))
