"""Documents in XML and workbooks: what is a segment, what changes when one is translated, what is refused."""

import io
import re
import zipfile
from pathlib import Path

import pytest
from lxml import etree
from test_documents import in_capitals

from mt_cli.data.units import read_units
from mt_cli.documents.document import Document, Written, open_document
from mt_cli.errors import DataError, UsageError

X1 = """<?xml version="1.0"?>
<!-- kept --><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" original="x" datatype="plaintext"><body>
<group translate="no"><trans-unit id="0"><source>Keep</source></trans-unit></group>
<trans-unit id="1" approved="yes"><source>Yes</source><target state="final">Ja</target></trans-unit>
<trans-unit id="2"><source>A &amp; <g id="7">big <x id="8"/></g> one</source><target state="new">A</target><note>n</note></trans-unit>
<trans-unit id="3"><source>One.</source><seg-source><mrk mtype="seg" mid="4">One.</mrk></seg-source></trans-unit>
</body></file></xliff>
"""
X2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de"><file id="f"><unit id="u">
<segment><source>A <pc id="7">big <ph id="8"/></pc> one</source></segment><ignorable><source> </source></ignorable>
<segment state="final"><source>Yes</source><target>Ja</target></segment></unit></file></xliff>"""
ANDROID = r"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE resources [ <!ENTITY app "My App"> ]>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="hi">It\'s <b>my</b> world\n&app; <xliff:g id="n">%1$d</xliff:g> times</string>
    <string name="no" translatable="false">key_x</string>
    <string name="html"><![CDATA[Some <b>bold</b> & more]]></string>
    <string-array name="a"><item>One</item></string-array>
    <plurals name="files"><item quantity="one">a file</item><item quantity="other">%d files</item></plurals>
</resources>
"""
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BOLD = "<w:rPr><w:b/></w:rPr>"
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
PAGE = f"{FIELD.format('begin')}<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:t>1</w:t></w:r>{FIELD.format('end')}"
RUNS = f"""<w:r><w:t>A red </w:t></w:r><w:r>{BOLD}<w:t>bo</w:t></w:r><w:proofErr w:type="x"/><w:r w:rsidR="1">{BOLD}<w:t>ld</w:t></w:r><w:r><w:tab/><w:t>page </w:t></w:r>
{PAGE}<w:hyperlink r:id="r1" xmlns:r="urn:r"><w:r><w:rPr><w:u/></w:rPr><w:t>a link</w:t></w:r></w:hyperlink>
<w:r><w:drawing><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent></w:drawing></w:r>"""
CONTROL = "<w:sdt><w:sdtPr/><w:sdtContent><w:r><w:t>Name</w:t></w:r></w:sdtContent></w:sdt>"
DOCX = f'<w:document xmlns:w="{W}"><w:body><w:p><w:pPr><w:jc/></w:pPr>{RUNS}</w:p><w:p><w:r><w:t>Dear </w:t></w:r>{CONTROL}</w:p></w:body></w:document>'
ODT = """<office:document-content xmlns:office="urn:o" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><text:p>A<text:s/><text:span
text:style-name="T1">bold</text:span> word<text:note><text:p>A note</text:p></text:note>.<office:annotation><text:p>Remark</text:p></office:annotation></text:p></office:document-content>"""
SHEET = """<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>n</t></is></c><c r="B1" t="s"><v>0</v></c></row>
<row r="2"><c r="A2"><v>1</v></c><c r="B2" s="3" t="s"><v>1</v></c></row><row r="3"><c r="B3" t="str"><f>B2</f><v>Hello</v></c></row></sheetData></worksheet>"""
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PARTS = {
    "docx": {"word/document.xml": DOCX, "word/vbaProject.bin": "macro"},
    "odt": {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": ODT},
    "xlsx": {
        "xl/workbook.xml": f'<workbook xmlns:r="{R}"><sheet state="hidden" r:id="r0"/><sheet r:id="r1"/></workbook>',
        "xl/_rels/workbook.xml.rels": '<R><r Id="r0" Target="worksheets/s0.xml"/><r Id="r1" Target="worksheets/s1.xml"/></R>',
        "xl/sharedStrings.xml": "<sst xmlns='urn:s'><si><t>en</t></si><si><r><t>Hel</t></r><r><t>lo</t></r></si></sst>",
        "xl/worksheets/s1.xml": SHEET,
    },
}


def opened(name: str, content: str | bytes, column: str | None = None) -> Document:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return open_document(Path(name), column)


def packed(kind: str, changed: dict[str, str] | None = None) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in (PARTS[kind] | (changed or {})).items():
            archive.writestr(zipfile.ZipInfo(part, (2001, 2, 3, 4, 5, 6)), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def changed(document: Document, tgt_lang: str = "de") -> bytes:
    """Each segment that is asked for in capitals."""
    return document.written(in_capitals(document), tgt_lang)


def part_of(content: bytes, name: str) -> bytes:
    return zipfile.ZipFile(io.BytesIO(content)).read(name)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [("a.xlf", X1, None), ("a.xml", ANDROID, None), ("a.docx", packed("docx"), None), ("a.odt", packed("odt"), None), ("a.xlsx", packed("xlsx"), "en,en")],
)  # fmt: skip
def test_a_document_whose_segments_are_translated_into_themselves_stays_as_it_is(name, content, column):
    document = opened(name, content, column)
    same = [Written(one.text) if one.is_asked and not name.endswith("xlf") else None for one in document.segments]
    written = document.written(same, "ru")
    if isinstance(content, str):
        assert written.decode() == content
        return
    old, new = (zipfile.ZipFile(io.BytesIO(one)) for one in (content, written))
    for before, after in zip(old.infolist(), new.infolist(), strict=True):
        assert old.read(before) == new.read(after)
        assert all(getattr(before, key) == getattr(after, key) for key in ("filename", "date_time", "compress_type", "external_attr"))  # fmt: skip


def test_xliff_1_gets_targets_with_their_codes_to_be_reviewed():
    document = opened("a.xlf", X1)
    assert [one.text for one in document.segments][2:] == ["A &amp; <g0>big <x1/></g0> one", "<g0>One.</g0>"]
    assert [one.is_asked for one in document.segments] == [False, False, True, True]
    assert (document.src_lang, document.segments[1].target, document.segments[1].place) == ("en", "Ja", "unit 1")
    written = changed(document).decode()
    state, note = '<target state="needs-review-translation">', '<note from="mt">doubtful</note>'
    for expected in (
        f'{state}A &amp; <g id="7">BIG <x id="8"/></g> ONE</target>{note}',
        f'{state}<mrk mtype="seg" mid="4">ONE.</mrk></target>',
        'approved="yes"><source>Yes</source><target state="final">Ja</target>',
        "<!-- kept -->",
        'target-language="de"',
    ):
        assert expected in written
    written = document.written([Written("x", "{x} is lost")] * 4, "de").decode()
    assert "approved" not in written and '<note from="mt">{x} is lost</note>' in written
    done = X1.replace(
        "<source>Keep</source>", '<source>Keep <mrk mtype="protected">it</mrk></source><target>Da</target>'
    )
    document = opened("done.xlf", done)
    assert (document.segments[0].text, document.segments[0].target) == ("Keep <x0/>", ""), "nothing that --all replaces"


def test_xliff_2_gets_targets_and_notes_where_its_schema_has_them():
    written = changed(opened("a.xliff", X2)).decode()
    assert '<unit id="u"><notes><note category="mt">doubtful</note></notes>' in written.replace("\n", "")
    assert '<target>A <pc id="7">BIG <ph id="8"/></pc> ONE</target></segment><ignorable>' in written
    assert '<segment state="translated" subState="mt:needs-review">' in written
    assert '<segment state="final"><source>Yes</source><target>Ja</target>' in written
    with_state = X2.replace("<segment><source>A", '<segment state="initial"><source>A')
    assert '<segment subState="mt:needs-review" state="translated">' in changed(opened("b.xliff", with_state)).decode()


def test_what_nobody_has_reviewed_is_not_trained_on():
    """Nor is what is fuzzy in a PO file."""
    empty = '<target><mrk mtype="seg" mid="4"></mrk></target></trans-unit>'
    for name, content in (
        ("a.xliff", X2),
        ("a.xlf", X1.replace("</seg-source></trans-unit>", f"</seg-source>{empty}")),
    ):
        document = opened(name, content)
        assert document.segments[-1].is_asked or name == "a.xliff"
        Path(name).write_bytes(changed(document))
        assert [texts["en"] for _, texts in read_units(Path(name))] == ["Yes"]


def test_strings_of_android_keep_their_escapes():
    document = opened("strings.xml", ANDROID)
    assert document.segments[0].text == "It's <g0>my</g0> world\n<x2/> <x3/> times"
    assert [one.is_asked for one in document.segments] == [True, False, True, True, True, True]
    written = changed(document, "pl").decode()
    assert r"IT\'S <b>MY</b> WORLD\n&app; <xliff:g" in written and '<!ENTITY app "My App">' in written
    assert "<![CDATA[SOME <b>BOLD</b> & MORE]]>" in written and '"false">key_x<' in written
    assert re.findall(r'quantity="(\w+)">([^<]+)', written) == [("one", "A FILE"), ("other", "%D FILES")]


def test_runs_of_a_docx_are_tags_around_their_words():
    document = opened("a.docx", packed("docx"))
    assert [one.text for one in document.segments] == [
        "A red <g0>bold</g0><x1/>page <x2/><g3>a link</g3><x5/>", "In a box", "Dear <x0/>", "Name",
    ]  # fmt: skip
    written = changed(document)
    root = etree.fromstring(part_of(written, "word/document.xml"))
    runs = [("".join(run.itertext("{*}t")), run.find("{*}rPr/{*}b") is not None) for run in root.iter("{*}r")]
    assert [text for text, _ in runs if text] == ["A RED ", "BOLD", "PAGE ", "1", "A LINK", "IN A BOX", "IN A BOX", "DEAR ", "NAME"]  # fmt: skip
    assert [text for text, is_bold in runs if is_bold] == ["BOLD"]
    assert root[0][0][0].tag == f"{{{W}}}pPr" and root.find(".//{*}hyperlink/{*}r/{*}rPr/{*}u") is not None
    assert [one.get(f"{{{W}}}fldCharType") for one in root.iter("{*}fldChar")] == ["begin", "end"]
    assert not {"look", "kept"} & {etree.QName(one).localname for one in root.iter()}
    assert part_of(written, "word/vbaProject.bin") == b"macro"


def test_an_odt_is_translated_with_its_notes_and_without_its_comments():
    document = opened("a.odt", packed("odt"))
    assert [one.text for one in document.segments] == ["A <g0>bold</g0> word<x2/>.<x3/>", "A note"]
    written = part_of(changed(document), "content.xml").decode().replace("\n", " ")
    assert '>A <text:span text:style-name="T1">BOLD</text:span> WORD<text:note><text:p>A NOTE</text:p>' in written
    assert "<text:p>Remark</text:p>" in written


@pytest.mark.parametrize(("column", "added"), [("en", ["C1 de", "C2 HELLO"]), ("2,1", [])])
def test_a_workbook_gets_a_column(column, added):
    document = opened("a.xlsx", packed("xlsx"), column)
    sheet = etree.fromstring(part_of(changed(document), "xl/worksheets/s1.xml"))
    cells = {one.get("r"): one for one in sheet.iter("{*}c")}
    kept = ["A1 n", "A2 1", "B1 0", "B2 1", "B3 B2Hello"]
    assert sorted(f"{key} {''.join(one.itertext())}" for key, one in cells.items()) == kept + added
    assert (not added or cells["C2"].get("s") == "3") and document.segments[-1].place == "cell !B2"
    formula = SHEET.replace('<c r="A2"><v>1</v></c>', '<c r="A2"><f>IF(C2="","",C2)</f><v></v></c>')
    book = opened("b.xlsx", packed("xlsx", {"xl/worksheets/s1.xml": formula}), "2,1")
    assert formula != SHEET and [one.text for one in book.segments] == ["en"], "a formula is no empty cell"


def test_all_visible_sheets_are_translated_that_have_the_column(said):
    openpyxl = pytest.importorskip("openpyxl")
    sheets = {"A": ["en", "a cat"], "B": ["other", "a dog"], "C": ["en", "a tree"], "D": ["en", "x"]}
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, column in sheets.items():
        book.create_sheet(title)
        for text in column:
            book[title].append(["n", text])
    book["D"].sheet_state = "hidden"
    book.save("a.xlsx")
    document = open_document(Path("a.xlsx"), "en")
    assert [one.place for one in document.segments] == ["cell A!B2", "cell C!B2"]
    assert len(said()) == 1 and said()[0].startswith("note: a.xlsx sheet B: --column en is not one column of it;")
    Path("b.xlsx").write_bytes(changed(document))
    again = openpyxl.load_workbook("b.xlsx")
    found = {title: [[cell.value for cell in row] for row in again[title]] for title in sheets}
    for title, added in {"A": ["de", "A CAT"], "C": ["de", "A TREE"]}.items():
        assert found[title] == [["n", *texts] for texts in zip(sheets[title], added, strict=True)]
    for title in "BD":
        assert found[title] == [["n", text] for text in sheets[title]]
    with pytest.raises(UsageError, match=r"a\.xlsx sheet C: --column fr is not one column"):
        open_document(Path("a.xlsx"), "fr")


BOMB = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaaaaaaaaaaaaaaaa'>{}]>".format("".join(f"<!ENTITY a{n} '{f'&a{n - 1 or str()};' * 20}'>" for n in range(1, 9)))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.xlf", X1[:-20], "a.xlf:7: damaged XML: "),
        ("a.xlf", "<x/>", "a.xlf: the root element is x, expected xliff; give a file of this format"),
        ("a.xlf", X1.replace("</file>", '</file><file source-language="en" target-language="fr"/><file target-language="de" source-language="en"/>'),
         "a.xlf: target-language is de and fr, expected one; make a file of each language"),
        ("a.xlf", BOMB + X1.partition("-->")[2].replace('id="2"', 'id="&a8;"'), "a.xlf:4: damaged XML: "),
        ("a.xlf", BOMB + X1.partition("-->")[2].replace("big", "&a8;"), "a.xlf:1: damaged XML: Maximum entity amplification"),
        ("a.xml", "<x/>", "a.xml: the root element is x, expected resources; give a file of this format"),
        ("a.docx", b"no", "a.docx: damaged archive (File is not a zip file); save it anew, without a password"),
        ("a.docx", packed("docx", {"../x": "x"}), "a.docx: the part ../x leaves the archive; save the document anew"),
        ("a.docx", packed("docx", {"bomb": "\0" * (1 << 25)}), "a.docx: bomb unpacks to 32 MiB, 300 times its size or more; save the document anew"),
        ("a.docx", packed("xlsx"), "a.docx: an archive without a text document; give a .docx or .odt"),
        ("a.docx", packed("docx", {"word/document.xml": DOCX.replace("<w:tab/>", "<w:t>x</w:t></w:r><w:ins/><w:r>")}),
         "a.docx: word/document.xml has tracked changes (ins); accept or reject all of them in an office program first"),
        ("a.odt", packed("odt", {"content.xml": ODT[:99]}), "a.odt content.xml:1: damaged XML: "),
    ],
)  # fmt: skip
def test_a_file_that_is_hostile_or_damaged_is_refused_in_a_line(name, content, expected):
    with pytest.raises(DataError) as error:
        opened(name, content)
    assert str(error.value).startswith(expected) and "\n" not in str(error.value)


def test_entities_of_a_file_are_not_resolved():
    Path("secret").write_text("secret")
    text = X1.partition("-->")[2].replace("Yes", "Yes &a;")
    written = changed(opened("a.xlf", f'<!DOCTYPE x [<!ENTITY a SYSTEM "secret">]>{text}'))
    assert b"&a;" in written and b">secret" not in written
