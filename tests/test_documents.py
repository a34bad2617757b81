"""Documents of text: what is translated changes, every other byte stays; and `mt translate` for documents and folders."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from mt_cli.decoding.translator import Translator
from mt_cli.documents import translate
from mt_cli.documents.document import Document, Written, open_document
from mt_cli.errors import MTError

PO = r"""# Translation of an app.
#, fuzzy
msgid ""
msgstr ""
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);\n"

# A note
#. extracted
#: app.c:1
#, c-format
#| msgid "old"
msgctxt "menu"
msgid "Say \"hi\" to %s\n"
msgstr ""

#| msgid "ones"
msgid "one"
msgid_plural ""
"%d of "
"them"
msgstr[0] ""
msgstr[1] "there"
msgstr[2] ""

#~ msgid "gone"
#~ msgstr "weg"

msgid "known"
msgstr "bekannt"
"""

# Name, content, and what has to be replaced in it where each text is put into capitals.
DOCUMENTS = [
    ("app.po", PO, [
        ("# A note", "# mt: doubtful\n# A note"), ("#, c-format", "#, fuzzy, c-format"), ('to %s\\n"\nmsgstr ""', 'to %s\\n"\nmsgstr "SAY \\"HI\\" TO %S\\n"'),
        ('#| msgid "ones"', '# mt: doubtful\n#, fuzzy\n#| msgid "ones"'), ('[0] ""', '[0] "%D OF THEM"'), ('[2] ""', '[2] "%D OF THEM"'),
    ]),
    ("template.pot", 'msgid ""\nmsgstr "charset=CHARSET\\nLanguage: \\n"\n\nmsgid "a \\t\\\\ b"\nmsgstr ""\n', [
        ("CHARSET", "UTF-8"), ("Language: ", "Language: xx"), ('msgid "a', '# mt: doubtful\n#, fuzzy\nmsgid "a'), ('msgstr ""', 'msgstr "A \\t\\\\ B"'),
    ]),
    ("talk.srt", "1\n00:00:01,000 --> 00:00:02,000 X1:4\nWhen I was young,\n\n2\n00:00:02,100 --> 00:00:04,100\nthe world & all\nwas another.\n\n"
     "3\n00:00:04,000 --> 00:00:05,000\n- <i>Yes</i>, he said.\n- No!\n\n4\n00:00:05,000 --> 00:00:06,000\n{\\an8}<i>and a sign</i>\n", [
        ("When I was young,", "WHEN I WAS YOUNG,"), ("the world & all\nwas another.", "THE WORLD & ALL WAS ANOTHER."),
        ("<i>Yes</i>, he said", "<i>YES</i>, HE SAID"), ("- No", "- NO"), ("and a sign", "AND A SIGN"),
    ]),
    ("talk.vtt", "WEBVTT\n\nNOTE not this\n\nSTYLE\n::cue { color: red }\n\nid\n00:01.000 --> 00:02.000 align:start\n"
     "<v Bob>A line that is longer than a screen is wide, so it is broken\n", [
        ("A line that is longer than a screen is wide, so it is broken", "A LINE THAT IS LONGER THAN A\nSCREEN IS WIDE, SO IT IS BROKEN"),
    ]),
    ("page.html", '<!DOCTYPE html>\n<html class="x" lang="en"><title>A &amp; b</title><script>if (a<b) "c"</script>\n<p>See\n <a href="/x?a=1&b=2" title=\'go "on"\'>the'
     ' <b>page</b></a> with <code>x</code>.<img src=i.png alt="a cat"><!-- n -->\n<pre>not this</pre><ul><li>one<li translate=no>two</li></ul>end<br>of it</html>\n', [
        ('lang="en"', 'lang="xx"'), ("A &amp; b", "A &amp; B"), ("See\n ", "SEE "), ('go "on"', "GO &quot;ON&quot;"), (">the", ">THE"), ("page<", "PAGE<"),
        (" with", " WITH"), ("a cat", "A CAT"), ("<li>one", "<li>ONE"), ("end<", "END<"), ("of it", "OF IT"),
    ]),
    ("notes.md", "---\ntitle: not this\n---\n# A *title* ##\n\nSome `code` and [a link](http://x.y/a_b)\nwith snake_case, see [ref].  \nA break\n\n    not this\n\n- [ ] item\n\n```\nnot\n\nthis\n```\n"
     "| a | b\\|c |\n|---|:-:|\n| 1 | ![alt](i.png) |\n\n<div>\nblock\n</div>\n\n> said\n> twice\n\n[ref]: http://z\n", [
        ("# A *title*", "# A *TITLE*"), ("Some", "SOME"), ("and [a link]", "AND [A LINK]"), ("\nwith snake_case, see", " WITH SNAKE_CASE, SEE"), ("A break", "A BREAK"), ("item", "ITEM"),
        ("| a | b\\|c", "| A | B\\|C"), ("alt", "ALT"), ("block", "BLOCK"), ("said\n> twice", "SAID TWICE"),
    ]),
    ("app.json", '{"a": "It\\u00e9 {name}", "n": ["{n, plural, one {a # {x}} other {all {g, select, m {his} other {their}} #}} left", "12", "{open"]}', [
        ("It\\u00e9", "IT\\u00c9"), ("{name}", "{NAME}"), ("a #", "A #"), ("all", "ALL"), ("his", "HIS"), ("their", "THEIR"), ("left", "LEFT"), ("{open", "{OPEN"),
    ]),
    ("app.properties", "# not this\na.b = one \\\n   two\nc=it''s {0} \\u00fc\nd\\ e: \\ space\n", [
        ("one \\\n   two", "ONE TWO"), ("it''s", "IT''S"), ("\\u00fc", "\\u00dc"), ("space", "SPACE"),
    ]),
    ("table.csv", 'en,de\n"a ""b"", c",\nknown,bekannt\n', [('c",\n', 'c","A ""B"", C"\n')]),
    ("table.tsv", "en\tde\na \"b\"\n", [('a "b"\n', 'a "b"\tA "B"\n')]),
]  # fmt: skip

ANDROID = '<resources>\n    <string name="a">{}</string>\n</resources>\n'
XLIFF = '<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="a"><source>{0}</source><target>{1}</target></trans-unit></body></file></xliff>'
NOTED = ("<string", "<!-- mt: doubtful -->\n    <string")


def target(text: str) -> tuple[str, str]:
    return (
        "<target></target>",
        f'<target state="needs-review-translation">{text}</target><note from="mt">doubtful</note>',
    )


# What others' users report as lost or broken, in the same form.
REPORTED = {
    "LibreTranslate#806": ("a.html", '<a href="#"><em><span style="color: red">View</span></em> <em><span>all</span></em></a>', [("View", "VIEW"), ("all", "ALL")]),
    "argos-translate-files#17": ("a.srt", "1\n00:00:16,851 --> 00:00:22,190\nTheir strength\n\n2\n00:00:22,399 --> 00:00:26,236\nquickly pushed\nus away.\n", [
        ("Their strength", "THEIR STRENGTH QUICKLY"), ("quickly pushed\nus away.", "PUSHED US AWAY.")]),
    "Speech-Translate#20": ("a.srt", "1\n00:00:00,000 --> 00:00:02,000\n4\n\n2\n00:00:06,400 --> 00:00:08,400\nTwo\n", [("Two", "TWO")]),
    "LibreTranslate#659": ("a.srt", "1\n00:00:02,830 --> 00:00:05,560\n<i>The hamster\ndescends.</i>\n", [("The hamster\ndescends.", "THE HAMSTER DESCENDS.")]),
    "subtitleedit#8223": ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000 line:0\n<c.yellow>Hi <b>you</b></c> me\n", [("Hi", "HI"), ("you", "YOU"), ("me\n", "ME\n")]),
    "translate#227": ("a.po", 'msgid ""\nmsgstr ""\n\n#  two  spaces\n#\n#. note\n#, no-wrap\nmsgid "Charset"\nmsgstr ""\n', [
        ("#  two", "# mt: doubtful\n#  two"), ("#, no-wrap", "#, fuzzy, no-wrap"), ('Charset"\nmsgstr ""', 'Charset"\nmsgstr "CHARSET"')]),
    "an empty msgctxt": ("a.po", 'msgid ""\nmsgstr ""\n\nmsgctxt ""\nmsgid "tab\\tquote\\""\nmsgstr ""\n', [
        ('msgctxt', '# mt: doubtful\n#, fuzzy\nmsgctxt'), ('quote\\""\nmsgstr ""', 'quote\\""\nmsgstr "TAB\\tQUOTE\\""')]),
    "MateCat-Filters#7": ("a.xlf", XLIFF.format("&lt;This is a test&gt;", ""), [target("&lt;THIS IS A TEST&gt;")]),
    "MateCat-Filters#13, xliff#30": ("a.xlf", XLIFF.format("<![CDATA[<p>An <b>x</b> & \n\n ]]>", ""), [target("<![CDATA[<p>AN <b>X</b> & \n\n ]]>")]),
    "OPUS-CAT#72": ("a.xlf", XLIFF.format('<bpt id="1">&lt;b></bpt>All<ept id="1">&lt;/b></ept>', ""), [target('<bpt id="1">&lt;b></bpt>ALL<ept id="1">&lt;/b></ept>')]),
    "tolgee-platform#3206": ("a.xml", ANDROID.format("<b>L\\'eau</b> de"), [("L\\'eau", "L\\'EAU"), (" de", " DE"), NOTED]),
    "escaped HTML": ("a.xml", ANDROID.format('&lt;a href="x"&gt;Web&lt;/a&gt; %1$s'), [("Web", "WEB"), ("%1$s", "%1$S"), NOTED]),
    "metaculus#2299": ("a.md", "un [<u>candidato</u>](https://x.y/a_(b)) y\n", [("un ", "UN "), ("candidato", "CANDIDATO"), (" y\n", " Y\n")]),
    "weblate#3649": ("a.md", "[My Page](http://x.com \"t\"), [a][b] `x` and ~~no~~\n\n[b]: http://y\n", [("My Page", "MY PAGE"), ("[a]", "[A]"), ("and", "AND"), ("no", "NO")]),
    "TOML before Markdown": ("a.md", '+++\ntitle = "Not"\ndraft = true\n+++\n\nhi\n', [("hi", "HI")]),
    "a picture that stays": ("a.html", '<p>hi</p><img alt="Coca Cola" translate="no">', [("hi", "HI")]),
    "a TSV without quotes": ("a.tsv", 'en\tde\n"Hi" you\n', [('"Hi" you', '"Hi" you\t"HI" YOU')]),
    "a quotation behind a paragraph": ("a.md", "He said:\n> be brave.\n> really.\n\n> [!NOTE]\n> some\n\n:::tip\ntext\n:::\n", [
        ("He said", "HE SAID"), ("be brave.\n> really", "BE BRAVE. REALLY"), ("some", "SOME"), ("text", "TEXT")]),
    "fences in code": ("a.md", '```\nx = "```"\nfoo\n```\nafter\n\n```code``` first\n\n$$ is money\n', [("after", "AFTER"), ("first", "FIRST"), ("is money", "IS MONEY")]),
    "what others add to Markdown": ("a.md", "import Tabs from '@theme/Tabs';\n\n!!! note \"Not\"\n    Look here.\n\n        not this\n\n{: .big }\nText [a].\n[a]:https://x.y\n\n{% include not.html %}\n\n{% a %}so{% b %}\n", [
        ("Look here", "LOOK HERE"), ("Text", "TEXT"), ("{% a %}so{% b %}", "{% A %}SO{% B %}")]),
    "a rule as the first line": ("a.md", "---\n\n# title\n", [("title", "TITLE")]),
    "the name of a link": ("a.md", "See [the guide][].\n\n[the guide]: http://x\n", [("See", "SEE")]),
    "an address with translate=no": ("a.html", '<a href="/x?translate=no">link</a><b data-translate="no">too</b>', [("link", "LINK"), ("too", "TOO")]),
    "Android's spaces": ("a.xml", ANDROID.format('" and "'), [('" and "', '" AND "'), NOTED]),
    "Android's tags as escapes": ("a.xml", ANDROID.format(r"one\u003cbr\u003etwo \u0026"), [(r"one\u003cbr\u003etwo \u0026", "ONE&lt;BR&gt;TWO &amp;"), NOTED]),
    "quotes over two lines of a TSV": ("a.tsv", 'en\tde\n"I came.\t\nI went."\t\n', [('"I came.\t', '"I came.\t"I CAME.'), ('I went."\t', 'I went."\tI WENT."')]),
    "a CSV with spaces before its quotes": ("a.csv", 'en, de\n "x, y", "z"\n "a, b",\nc, \n', [('"a, b",', '"a, b","A, B"'), ("c, ", "c,C")]),
    "Android's escapes in CDATA": ("a.xml", ANDROID.format(r"<![CDATA[one \u0026 two]]>"), [(r"one \u0026 two", "ONE & TWO"), NOTED]),
    "a backslash and u": ("a.xml", ANDROID.format(r"C:\\u0026 dir"), [(r"C:\\u0026 dir", r"C:\\U0026 DIR"), NOTED]),
    "an info string with code": ("a.md", "```{r, echo=`x`}\nx = 1\n```\n\ntext\n", [("text", "TEXT")]),
    "inches behind a space": ("a.csv", 'en,de,note\nhello,, "12 inch wide\n', [("hello,,", "hello,HELLO,")]),
    "half an emoji": ("a.json", '{"a": "dog \\ud83d runs"}', [("dog \\ud83d runs", "DOG \\ufffd RUNS")]),
    "JSON of other types": ("a.json", '{"a": "{{count}} item", "b": ["x <b>y</b>", null, 1.50]}', [("item", "ITEM"), ("{{count}}", "{{COUNT}}"), ("x <b>y", "X <b>Y")]),
}  # fmt: skip


def opened(file: Path) -> Document:
    return open_document(file, "en,de" if file.suffix in (".csv", ".tsv") else None)


def in_capitals(document: Document) -> list[Written | None]:
    """A translation of each segment that is asked for; tags and entities stay."""
    return [
        Written(re.sub(r"(<[^<>]*>|&\w+;)|[^<&]+", lambda one: one[1] or one[0].upper(), segment.text), "doubtful")
        if segment.is_asked
        else None
        for segment in document.segments
    ]


@pytest.mark.parametrize(("name", "content", "changes"), [*DOCUMENTS, *REPORTED.values()])
@pytest.mark.parametrize("is_windows", [False, True])
def test_only_what_is_translated_changes(tmp_path, is_windows, name, content, changes):
    assert all(old in content for old, _ in changes)
    expected = content
    for old, new in changes:
        expected = expected.replace(old, new)

    def encoded(text: str) -> bytes:
        return b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() if is_windows else text.encode()

    (file := tmp_path / name).write_bytes(encoded(content))
    document = opened(file)
    has_sources = file.suffix in (".po", ".pot", ".csv", ".tsv", ".xlf")
    itself = [Written(one.target or ("" if has_sources else one.text)) for one in document.segments]
    assert itself
    for translations in ([None] * len(itself), itself):
        assert document.written(translations, "xx") == file.read_bytes()
    assert document.written(in_capitals(document), "xx").decode() == encoded(expected).decode()


def test_what_is_written_can_be_read_and_asks_for_nothing_more(tmp_path):
    (tmp_path / "app.po").write_text(PO)
    document = open_document(tmp_path / "app.po")
    (tmp_path / "new.po").write_bytes(document.written([Written(one.text * 9) for one in document.segments], "de"))
    again = open_document(tmp_path / "new.po").segments
    assert [one.target.strip() for one in again] == [(one.text * 9).strip() for one in document.segments]
    assert not any(one.is_asked for one in again)


@pytest.mark.parametrize(("name", "content", "translation", "expected"), [
    ("a.properties", "a=keep {0}\n", "don't keep {0}", "a=don''t keep {0}\n"),  # to Java's MessageFormat
    ("a.properties", "a=keep\n", "don't", "a=don't\n"),
    ("a.po", '#, no-c-format\nmsgid "100% of it"\nmsgstr ""\n', "100% davon", "100% davon"),
    ("a.po", '#, c-format\nmsgid "100% of it"\nmsgstr ""\n', "100% davon", None),
    ("a.po", 'msgid "{n, plural, one {cat} other {cats}}"\nmsgstr ""\n', "{n, plural, one {Katze} other {Katzen}}", None),
    ("a.html", b'<meta charset=iso-8859-1><p>\x93hi\x94</p>', "“ho” –", b"\x93ho\x94 \x96"),  # as browsers read it
    ("a.html", b'<meta charset=iso-8859-1><p>\x81hi\xe9</p>', "\x81ho", b"\x81ho"),
])  # fmt: skip
def test_what_a_format_demands_is_written(tmp_path, name, content, translation, expected):
    header = 'msgid ""\nmsgstr ""\n\n' if name == "a.po" else ""
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else (header + content).encode())
    document = open_document(tmp_path / name)
    made = [translate.checked(one, Written(translation), name) for one in document.segments]
    assert (made == [None]) == (expected is None)
    assert expected is None or (expected if isinstance(expected, bytes) else expected.encode()) in document.written(
        made, "de"
    )


RUSSIAN = (
    'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: nplurals=3; plural=(n%10==1 && n%100!=11 ? 0'
    ' : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);\\n"\n\n'
)
DOGS = 'msgid "a dog"\nmsgid_plural "dogs"\nmsgstr[0] "die"\n'
TEXTS = {
    r"%s has %d\n": "c-format",
    "100%% of %s": "c-format",
    "{name} in {0}": "python-brace-format",
    "no format: 5 %s": "wrap",
}
FILES = '#, c-format\nmsgid "one file"\nmsgid_plural "%d files"\n' + "".join(f'msgstr[{n}] ""\n' for n in range(3))
ENTRIES = "".join(f'#, {kind}\nmsgid "{text}"\nmsgstr ""\n\n' for text, kind in TEXTS.items()) + FILES + "\n"


@pytest.mark.parametrize(("old", "new", "n_lost"), [("", "", 0), ("%s", "", 2), (r"(%s) has (%d)", r"\2 hat \1", 1), (r"%d|\{0}", "", 5), ("of", "50 % von", 1)])  # fmt: skip
def test_msgfmt_finds_no_fault_in_what_is_written(tmp_path, said, old, new, n_lost):
    if not shutil.which("msgfmt"):
        pytest.skip("no msgfmt")
    (tmp_path / "app.po").write_text(RUSSIAN + ENTRIES + DOGS)
    document = open_document(tmp_path / "app.po")
    assert "app.po:30: plural forms of another number than the header's 3, in 1 entries; they stay" in said()[-1]
    made = [translate.checked(one, Written(re.sub(old, new, one.text)), "app.po") for one in document.segments]
    assert made.count(None) == n_lost == sum("its placeholders are lost" in line for line in said())
    written = document.written(made, "ru").decode().replace(DOGS, "")
    command = ["msgfmt", "--check", "--use-fuzzy", "-o", "/dev/null", "-"]
    answer = subprocess.run(command, input=written, capture_output=True, text=True)
    assert answer.returncode == 0 and "error" not in answer.stderr, answer.stderr


@pytest.mark.parametrize(("name", "reader"), [
    ("app.po", "pypo.pofile"), ("app.properties", "properties.javafile"), ("app.json", "jsonl10n.JsonFile"),
    ("strings.xml", "aresource.AndroidResourceFile"), ("app.xlf", "xliff.xlifffile"),
])  # fmt: skip
def test_other_programs_read_what_is_written(tmp_path, name, reader):
    module = pytest.importorskip(f"translate.storage.{reader.partition('.')[0]}")
    extra = {"strings.xml": ANDROID.format("I\\'m <b>here</b>"), "app.xlf": XLIFF.format('A <g id="1">cat</g>', "")}
    content = extra.get(name) or next(one[1] for one in DOCUMENTS if one[0] == name)
    (tmp_path / name).write_text(content)
    document = opened(tmp_path / name)
    made = in_capitals(document)
    (tmp_path / name).write_bytes(document.written(made, "ru"))
    store = getattr(module, reader.partition(".")[2]).parsefile(str(tmp_path / name))
    sides = [(unit.source, *getattr(unit.target, "strings", [unit.target])) for unit in store.units]
    units = [str(text) for texts in sides for text in texts]
    expected = [re.sub("<.*?>", "", one.text).strip() for one in made if one is not None]
    found = " ".join(re.sub("<.*?>", "", one).replace("''", "'") for one in units)
    assert expected and all(one in found for one in expected), (expected, units)
    if name == "app.po":
        entries = pytest.importorskip("polib").pofile(str(tmp_path / name))
        assert [entry.msgid for entry in entries.fuzzy_entries()] == ['Say "hi" to %s\n', "one"]
        assert entries[0].msgstr == 'SAY "HI" TO %S\n' and entries[1].msgstr_plural[2] == "%D OF THEM"


@pytest.mark.parametrize(("column", "expected"), [
    ("en", 'id;en;xx\n1;"a; b";"A; B"\n\n2;;\n3;c;C'), ("en,en", 'id;en\n1;"A; B"\n\n2\n3;C'), ("2", 'id;en;EN\n1;"a; b";"A; B"\n\n2;;\n3;c;C'),
])  # fmt: skip
def test_translations_of_a_column_go_where_the_option_says(tmp_path, column, expected):
    (tmp_path / "a.csv").write_text('id;en\n1;"a; b"\n\n2\n3;c')
    document = open_document(tmp_path / "a.csv", column)
    assert document.written(in_capitals(document), "xx").decode() == expected


def test_a_table_of_one_column_may_have_cells_of_several_lines(tmp_path):
    (tmp_path / "a.tsv").write_text('en\n"Hello\nworld"\nbye\n')
    document = open_document(tmp_path / "a.tsv", "en")
    assert [one.text for one in document.segments] == ["Hello\nworld", "bye"]


def test_a_file_keeps_its_encoding(tmp_path):
    (tmp_path / "a.html").write_bytes('<meta charset="windows-1252"><p>é</p>'.encode("cp1252"))
    document = open_document(tmp_path / "a.html")
    assert document.written(in_capitals(document), "xx") == '<meta charset="windows-1252"><p>É</p>'.encode("cp1252")
    with pytest.raises(MTError, match=r"a\.html:1: the translation has '猫', which windows-1252 cannot write"):
        document.written([Written("猫")], "zh")
    (tmp_path / "a.srt").write_bytes("\ufeff1\n00:00:01,000 --> 00:00:02,000\né\n".encode("utf-16-le"))
    document = open_document(tmp_path / "a.srt")
    assert document.written(in_capitals(document), "xx").decode("utf-16").endswith("É\n")


HEADER = (
    'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
)
GERMAN = HEADER.replace("Content", "Language: de\\nContent")
BAD = [
    ("a.po", 'msgid "a"\nmsgstr ""\n', "1: no header"),
    ("a.po", "", "1: no header"),
    ("a.po", HEADER + "hello\n", "4: expected msgid"),
    ("a.po", HEADER + 'msgid "a"\n"b\nmsgstr ""\n', "4: expected msgid"),
    ("a.po", HEADER + 'msgid "a"\n', "4: expected msgid"),
    ("a.po", HEADER.replace("(n != 1)", "(n +* 1)"), "1: Plural-Forms is no formula"),
    ("a.po", HEADER.encode() + b'msgid "\xfc"\nmsgstr ""\n', "4: byte 0xfc, which UTF-8 text cannot have"),
    ("a.po", HEADER.replace("UTF-8", "KLINGON"), " the encoding 'KLINGON' is not known"),
    ("a.html", "plain text", "1: no tag, expected HTML"),
    ("a.html", b"<meta charset=utf-8>\n<p>\xff</p>", "2: byte 0xff"),
    ("a.srt", "Just text\n", "1: 'Just text' has no time stamps"),
    ("a.srt", "1\n00:00:01 --> 00:00:02\na\n", "2: no time stamps, expected such as 00:00:01,000"),
    ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\na\n2\n00:00:03,000 --> 00:00:04,000\n", "5: time stamps within a cue"),
    ("a.vtt", "1\n00:00:01.000 --> 00:00:02.000\na\n", "1: no WEBVTT at the beginning"),
    ("a.json", '{"a": "b",\n}', "2: no JSON"),
    ("a.json", "[" * 100_000, "1: no JSON"),
    ("a.properties", "a=\\u12\n", "1: \\u without four"),
    ("a.csv", 'en,de\n"a,b\n', "2: a quote that is not closed"),
    ("a.csv", "es,de\na,b\n", " --column en is not one column of it; its first row is: es, de"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "problem"), BAD)
def test_a_file_that_is_not_what_it_says_is_refused_with_its_line(tmp_path, name, content, problem):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(MTError) as error:
        opened(tmp_path / name)
    assert str(error.value).startswith(f"{tmp_path / name}:{problem}") and "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "frame", "unit"), [
    ("a.po", HEADER + "UNITS", 'msgid "text"\nmsgstr ""\n\n'), ("a.srt", "UNITS", "1\n00:00:01,000 --> 00:00:02,000\ntext <i>it</i>\n\n"),
    ("a.html", "UNITS", "<p>a <b>text</b>\n"), ("a.md", "UNITS", "a *text* `x`\n\n"), ("a.json", "[1UNITS]", ',"text"'),
    ("a.properties", "UNITS", "k=text\n"), ("a.csv", "en,de\nUNITS", "text,\n"),
])  # fmt: skip
def test_the_time_is_linear_in_the_number_of_segments(tmp_path, name, frame, unit):
    def seconds(n_units: int) -> float:
        (tmp_path / name).write_text(frame.replace("UNITS", unit * n_units))
        started = time.process_time()
        document = opened(tmp_path / name)
        assert len(document.segments) >= n_units
        document.written(in_capitals(document), "xx")
        return time.process_time() - started

    assert seconds(100_000) < 4 * 10 * max(seconds(10_000), 0.1)


# The command line ----------------------------------------------------------------------------------------------------

WEB = "<html lang=en><p>the <b>red</b> cat</p></html>"


@pytest.fixture
def documents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in/sub").mkdir(parents=True)
    entries = "".join(f'msgid "{text}"\nmsgstr ""\n\n' for text in ("red cat", "dog", "the house", "tree", "red"))
    Path("in/app.po").write_text(f'{GERMAN}{entries}msgid "cat"\nmsgstr "Kater"\n')
    Path("in/sub/page.html").write_text(WEB)
    Path("in/logo.png").write_bytes(b"\x89PNG")
    Path("in/sitemap.xml").write_text("<urlset></urlset>")
    return tmp_path


KILLED = """
import os, signal
from mt_cli.documents import translate

def killed(self, made, keep=translate.DocumentTranslator._keep):
    keep(self, made)
    if made:
        os.kill(os.getpid(), signal.SIGKILL)

translate._CHUNK, translate.DocumentTranslator._keep = 2, killed
"""


def test_a_folder_is_translated_and_continues_after_a_kill(mt, mt_process, trained_run, documents, monkeypatch):
    Path("terms.tsv").write_text("red\trot\n")
    of_terms = ["--glossary", "terms.tsv"]
    answer = mt("translate", trained_run, "in", "--output", "whole", *of_terms)
    assert (answer.code, answer.out) == (0, b"")
    counts = ["whole/app.po: 5 of 6 segments translated", "whole/sub/page.html: 1 of 1 segments translated"]
    assert answer.said == ["left out, of no format that is known: logo.png, sitemap.xml", *counts]
    translated = Path("whole/app.po").read_text()
    for entry in ('\n#, fuzzy\nmsgid "red cat"\nmsgstr "rot Katze"\n', 'msgid "cat"\nmsgstr "Kater"'):
        assert entry in translated
    assert re.fullmatch("<html lang=de><p>[^<]*<b>[^<]+</b>[^<]*</p></html>", Path("whole/sub/page.html").read_text())

    command, seen = ["translate", trained_run, "in", "--output", "parts", *of_terms], list[str]()

    def recorded(self, lines, *arguments, own=Translator.translations, **options):
        seen.extend(lines)
        return own(self, lines, *arguments, **options)

    for _ in range(2):
        with mt_process(*command, before=KILLED) as process:
            assert process.wait() == -9
    assert [file.name for file in Path("parts").rglob("*") if file.is_file()] == [".unfinished"]
    with Path("parts/.unfinished").open("a") as cut:
        cut.write('\n["0123')
    monkeypatch.setattr(translate, "_CHUNK", 2)
    monkeypatch.setattr(Translator, "translations", recorded)
    answer = mt(*command)
    assert answer.code == 0 and "continuing; 4 translations are made already" in answer.said
    assert seen == ["red", "the <g0>red</g0> cat"]
    for name in ("app.po", "sub/page.html"):
        assert Path("parts", name).read_bytes() == Path("whole", name).read_bytes()
    assert not Path("parts/.unfinished").exists() and mt(*command).code == 2


def test_existing_translations_are_replaced_when_all_is_said(mt, trained_run, documents):
    answer = mt("translate", trained_run, "in/app.po", "--output", "all.po", "--all", "--doubts")
    assert answer.code == 0 and '\n#, fuzzy\nmsgid "cat"\nmsgstr "Katze"\n' in Path("all.po").read_text()
    assert sorted(file.name for file in documents.iterdir()) == ["all.po", "in"]


@pytest.mark.parametrize(("arguments", "problem"), [
    (["in"], "in: a folder, and no run directory; say by --output"),
    (["in", "--output", "in/out"], "in/out exists already, or is in in;"),
    (["in/app.po", "--output", "in/app.po"], "in/app.po exists already"),
    (["in/app.po", "--output", "app.html"], "app.html: the format stays the same"),
    (["in/app.po", "--output", "a.po", "--column", "1"], "in/app.po: no table"),
    (["in/app.po", "--output", "a.po", "--json"], "only lines of text have these; leave out --json"),
    (["in/gone.po", "--output", "a.po"], "in/gone.po: No such file or directory"),
    (["--all"], "only documents have these; leave out --all"),
    (["in/app.po", "--output", "gone/a.po"], "cannot write gone/.a.po.unfinished: No such file or directory"),
])  # fmt: skip
def test_a_command_that_cannot_be_meant_is_refused(mt, trained_run, documents, arguments, problem):
    answer = mt("translate", trained_run, *arguments)
    assert answer.code in (1, 2) and answer.out == b"" and len(answer.said) == 1
    assert answer.said[0].startswith(f"error: {problem}")
    assert [file.name for file in documents.iterdir()] == ["in"]


def test_a_document_in_other_languages_is_refused(mt, trained_run, documents):
    Path("in/app.po").write_text(GERMAN.replace("Language: de", "Language: fr"))
    answer = mt("translate", trained_run, "in/app.po", "--output", "a.po")
    assert (answer.code, len(answer.said)) == (1, 1) and not Path("a.po").exists()
    assert answer.said[0].startswith("error: in/app.po: the file says fr, but the run translates en to de;")


def test_a_segment_whose_tags_are_lost_stays_as_it_is(mt, trained_run, documents, monkeypatch):
    def without_tags(self, lines, *rest, own=Translator.translations, **options):
        return own(self, [re.sub("<[^<>]*>", "", line) for line in lines], *rest, **options)

    monkeypatch.setattr(Translator, "translations", without_tags)
    answer = mt("translate", trained_run, "in/sub/page.html", "--output", "a.html")
    assert answer.code == 0 and Path("a.html").read_text() == WEB
    assert "note: in/sub/page.html: line 1: its tags are lost in translation, so it stays as it is" in answer.said


@pytest.mark.parametrize(("max_bytes", "file"), [(40, ".page.de.html.unfinished"), (2000, "page.de.html")])
def test_a_full_disk_costs_nothing_that_is_translated(mt, mt_process, trained_run, documents, max_bytes, file):
    Path("page.html").write_text(f"<!-- {'x' * 5000} --><p>the cat</p>")
    command = ["translate", trained_run, "page.html", "--output", "page.de.html"]
    full = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({max_bytes}, {max_bytes}))"
    with mt_process(*command, before=full) as process:
        said = process.communicate()[1].decode().splitlines()
    assert process.returncode == 1 and said[-1].startswith(f"error: cannot write {file}: File too large; free space")
    assert sorted(one.name for one in documents.iterdir()) == [".page.de.html.unfinished", "in", "page.html"]
    answer = mt(*command)
    assert answer.code == 0 and answer.err.count(b"continuing") == (max_bytes > 1000)
    assert "die Katze</p>" in Path("page.de.html").read_text()
