"""Text is read as the training text is written, and what is around a sentence stays there."""

import pytest

from mt_cli.data.reading import ProfileBuilder, Reader, Sentence, Style, is_invisible
from mt_cli.data.spans import held, put_back

ENGLISH = [
    "I have a cat.",
    "Anna has 5 cats.",
    "Is Anna here?",
    "Do you see the house, Anna?",
    'He said: "No".',
    "It's late.",
]
CHINESE = ["我有一只猫。", "你好，安娜。", "这是5只猫吗？"]


def style_of(lines: list[str]) -> Style:
    counter = ProfileBuilder()
    for line in lines * 10:
        counter.add(line, "")
    return counter.style()


EN, ZH = style_of(ENGLISH), style_of(CHINESE)
FROM_EN, FROM_ZH = Reader(EN, ZH.characters, tgt_has_spaces=False), Reader(ZH, EN.characters)


def read(reader: Reader, line: str) -> tuple[Sentence, list[str]]:
    spans = list[str]()
    sentence = reader.sentence(reader.visible(line, spans), spans)
    return sentence._replace(before=put_back(sentence.before, spans), after=put_back(sentence.after, spans)), spans


def test_a_style_is_what_lines_begin_and_end_with_and_which_words_have_capitals():
    assert EN.ends == (".", "?", '".') and EN.starts == () and EN.has_ends and EN.has_capital_starts
    assert EN.capitals == {"anna": "Anna", "no": "No"}
    assert ZH.ends == ("。", "？") and not ZH.has_capital_starts and ZH.capitals == {}
    persian = "می\u200cروم."  # marks that training has stay
    assert read(Reader(style_of([persian])), persian)[0].text == persian
    assert is_invisible("\u200c") and is_invisible("\ufe0f") and not is_invisible("a")


@pytest.mark.parametrize("line", CHINESE)
def test_what_training_has_is_read_as_it_is(line):
    assert read(FROM_ZH, line) == (Sentence("", line, ""), [])


CAT, FIVE = "我有一只猫。", "我有5只猫。"


@pytest.mark.parametrize(
    ("line", "read_as"),
    [
        *((line, ("", CAT, "")) for line in ("\u200f我有一只猫。", "我有\u200d一只\u00ad猫。", "我有一只猫.")),
        *((line, ("", FIVE, "")) for line in ("我有５只猫。", "我有٥只猫。")),
        ("你好,安娜", ("", "你好，安娜。", "")),
        ("😀 我有一只猫。 😀", ("😀 ", "我有一只猫。", " 😀")),
        ("“我有一只猫。”", ('"', "我有一只猫。", '"')),
        ("（我有一只猫。）", ("(", "我有一只猫。", ")")),
        ("- 我有一只猫！！", ("- ", "我有一只猫。", "!!")),
    ],
)
def test_other_writings_are_read_as_those_of_training(line, read_as):
    assert read(FROM_ZH, line)[0][:3] == read_as


@pytest.mark.parametrize("line", ["😀", "...", "——", "42", "https://a.b", "3:30", "?!", "<br/>", "&nbsp;"])
def test_a_line_without_words_is_not_translated(line):
    sentence, _ = read(FROM_ZH, line)
    assert sentence.text == "" and sentence.before + sentence.after == line


@pytest.mark.parametrize(
    ("line", "span"),
    [
        ("我有囧猫。", "囧"), ("我有 %s 只猫。", "%s"), ("你好，Wałęsa。", "Wałęsa"), ("他说“你好”，安娜。", "“"),
        ("<b>我有</b>猫。", "</b>"), ("我有<i>猫</i>。", "</i>"), ("<b>我有猫。</b>", "<b>"),
    ],
)  # fmt: skip
def test_what_no_piece_spells_well_is_a_span(line, span):
    sentence, spans = read(FROM_ZH, line)
    assert span in spans and put_back(sentence.text, spans) == line and len(held(sentence.text)) == len(spans)


@pytest.mark.parametrize(
    ("line", "read_as", "written"),
    [
        ("ANNA HAS A CAT.", "Anna has a cat.", "ÉL TIENE."),
        ("anna has a cat.", "Anna has a cat.", "Él tiene."),
        ("Anna Has A Cat.", "Anna has a cat.", "Él tiene."),
        ("It’s late.", "It's late.", "Él tiene."),
        ("Anna has a cat", "Anna has a cat.", "Él tiene"),
        ("NO", "No.", "Él tiene"),
        ("He said: “No”.", 'He said: "No".', "Él tiene."),
        ("“It's late.”", "It's late.", "Él tiene."),
    ],
)
def test_capitals_and_ends_are_read_as_usual_and_written_back(line, read_as, written):
    sentence, _ = read(FROM_EN, line)
    assert sentence.text == read_as and sentence.written("Él tiene.") == written


def test_a_reader_without_a_style_finds_spans_and_changes_nothing_else():
    sentence, spans = read(Reader(None), "ÄÖ “囧” \u200f 😀!")
    assert sentence.before + put_back(sentence.text, spans) + sentence.after == "ÄÖ “囧” \u200f 😀!" and spans == ["😀"]
