"""Where a line is cut into sentences; each is read as the training text is written, and what is around it stays there."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mt_cli.data import reading
from mt_cli.data.reading import CorpusProfile, ProfileBuilder, Reader, Sentence, Style, halves, sentences
from mt_cli.data.spans import held, put_back


def test_a_sentence_ends_after_all_its_marks_and_closing_quotes():
    for parts in (
        ["你好。", "再见。"],
        ["真的吗？！", "是的。"],
        ["他说：“你好。”", "我说：“再见！”"],
        ["你好。", '"再见"'],
        ["他说：“你好。”"],
        ["वह आया।", "क्या तुम ठीक हो?", "हाँ।"],
        ["مرحبا بالعالم؟", "نعم."],
        ["ሰላም።", "እንዴት ነህ፧", "ደህና።"],
        ["បាទ។", "ទេ។"],
        ["ते जातात.", "ते येतात.", "आम्ही करतोय.", "ती.", "ते."],
        ["הוּא שָׁלוֹם.", "הִיא בָּאָה."],
        ["ok . . .", "yes"],
        ["Hi!", "Bye! 😀"],
        ["Dr. Berg came on 3. May with St. Nick, i.e. at 12. o'clock.", "He went.", "It is.", "So?"],
        ["Three men.", 'One said "no!"', "(Two did not.)", "Why...", "V1.2 it is"],
        ['"Stop!" he said.', "“Well... why?” asked… she.", '"No".', "it is"],
    ):
        between = "" if re.search("[。！？။។]", parts[0]) else " "
        assert sentences(between.join(parts)) == parts


def test_a_known_abbreviation_ends_no_sentence_and_a_half_ends_at_a_comma():
    marks = "。" * 300_000
    assert sentences(marks + "好") == [marks, "好"] and sentences(marks) == [marks]  # it took hours
    text = 'Mrs. Liu met (Prof. Wu). "Mrs." is short! Mrs? So Mrs.'
    assert sentences(text, ("Mrs", "Prof")) == ["Mrs. Liu met (Prof. Wu).", '"Mrs." is short!', "Mrs?", "So Mrs."]
    assert sentences("Mrs. Liu", ("rs", "Mr", "mrs")) == ["Mrs.", "Liu"]
    for text in ("abcdef, gh ij kl mn", "你好，再见", "مرحبا بك، لا نعم لا شكرا", "ሰላም ናችሁ፣ ደህ ና ነህ እንዴት"):
        assert halves(text)[0][-1] in ",，،፣"
    assert halves("it costs 12,500 euros in all") == ["it costs 12,500", "euros in all"]


TEXT = st.text(alphabet="ab ,，.!?。！？”」\"'…", min_size=2, max_size=30).map(lambda text: " ".join(text.split()))


@given(TEXT)
def test_sentences_and_halves_are_all_of_the_text(text):
    for parts in (sentences(text), halves(text)) if len(text) >= 2 else (sentences(text),):
        assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    assert all(sentences(text)) or not text


def learnt(lines: list[str]) -> tuple[str, ...]:
    counter = reading.AbbreviationCounter()
    for line in lines:
        counter.add(line)
    return counter.abbreviations()


ORDINARY = ["The lamp is on.", "She has a lamp and a cat.", "Where is the lamp?", "This is a lamp."] * 20


def test_a_word_that_stands_before_full_stops_inside_lines_is_an_abbreviation():
    assert learnt([*ORDINARY, *["Mrs. Liu has a lamp."] * 5, "I met Mrs. Wu."]) == ("Mrs",)
    more = [*["Cats, dogs (esp. large ones)."] * 6, *["A lamp etc. is here."] * 6, *["Dogs etc."] * 5]
    assert learnt([*ORDINARY, *more]) == ("esp", "etc")
    assert learnt([*ORDINARY, *["डॉक. वर्मा आए।"] * 5]) == ("डॉक",), "vowel signs are parts of words"


def test_what_is_no_new_abbreviation():
    for lines in (
        ["Timbuktu. Where is it?"] * 4,  # a few sightings are not enough
        [*["Oho! It is on."] * 6, *['"Oho." It is on.'] * 6, *["Oho... It is on."] * 6],
        ["Dr. Wu has 3. place."] * 9,  # known already
        ["I see a lamp. It is on."] * 5,  # the last word of an inner sentence
        [*["Stop it. It is on."] * 5, *["I said stop it."] * 5],  # not more often inside than at the end
    ):
        assert learnt([*ORDINARY, *lines]) == learnt([]) == (), lines
    # nothing is learnt from lines of several sentences, but by the rest of the lines they hold one each
    thanks, others = ["Thanks. It is on."] * 9, [f"The lamp is big{chr(0x61 + i)}. It is on." for i in range(12)]
    assert learnt([*thanks, *others, *ORDINARY]) == ()
    assert learnt([*thanks, *others[:8], *ORDINARY]) == ("Thanks",)


def test_memory_of_words_is_bounded_and_frequent_ones_are_kept(monkeypatch):
    monkeypatch.setattr(reading, "_MAX_WORDS", 50)
    counter = reading.AbbreviationCounter()
    for i in range(3000):
        one, other = chr(0x4E00 + i), chr(0x9000 - i)
        counter.add(f"Mrs. {one} has a {other}." if i % 10 == 0 else f"A {one} has a lamp.")
        assert len(counter._all) <= 55 and len(counter._before_stop) <= 55
    assert counter.abbreviations() == ("Mrs",)
    monkeypatch.setattr(reading, "MAX_ABBREVIATIONS", 2)
    lines = [f"{word}. Wu is here." for word, n in (("Abc", 5), ("Zyx", 7), ("Mno", 6)) for _ in range(n)]
    assert learnt([*ORDINARY, *lines]) == ("Mno", "Zyx")
    counter = reading.AbbreviationCounter()
    counter.add("x" * 100_000 + ". y")
    assert all(len(word) <= 20 for word in counter._all) and not counter._before_stop


TEXTS = ["Mrs. Liu came.", "She sat. He stood.", "Oh!", "Where is Mrs. Liu?"]


def built(abbreviations: tuple[str, ...] = ()) -> CorpusProfile:
    builder = ProfileBuilder(abbreviations)
    for text in TEXTS:
        builder.add(text, text.upper())
    return builder.profile(np.array([4, 6, 2, 5]), np.array([5, 8, 2, 6]), 6, {})


def test_a_profile_describes_characters_lengths_and_how_many_lines_have_several_sentences():
    profile = built()
    assert profile.characters == "".join(sorted(set("".join(TEXTS))))
    assert profile.tgt_characters == "".join(sorted(set("".join(TEXTS).upper())))
    assert (profile.longest_src, profile.several_sentences) == (7, 0.75)
    known = built(("Mrs",))
    assert (known.several_sentences, known.abbreviations) == (0.25, ("Mrs",))
    assert profile.length_ratio == pytest.approx((6 + 9 + 3 + 7) / (5 + 7 + 3 + 6))
    deviations = [(t - profile.length_ratio * s) / s**0.5 for s, t in ((5, 6), (7, 9), (3, 3), (6, 7))]
    assert min(deviations) <= profile.shortest_deviation < profile.longest_deviation <= max(deviations)
    assert profile.shortest_deviation == pytest.approx(min(deviations), abs=0.01)


def test_abbreviations_that_no_run_wrote_are_refused():
    written = built(("Mrs", "Prof")).model_dump_json()
    assert CorpusProfile.model_validate_json(written) == built(("Mrs", "Prof"))
    for abbreviations in (["a"] * 1001, [1], "Mrs", None):
        with pytest.raises(ValidationError, match="abbreviations"):
            CorpusProfile.model_validate_json(json.dumps({**json.loads(written), "abbreviations": abbreviations}))


ENGLISH = [
    *["I have a cat.", "Anna has 5 cats.", "Is Anna here?", "Do you see the house, Anna?", "It's late."],
    'He said: "No".',
]
CHINESE = ["我有一只猫。", "你好，安娜。", "这是5只猫吗？"]


def style_of(lines: list[str]) -> Style:
    counter = ProfileBuilder()
    for line in lines * 10:
        counter.add(line, "")
    return counter.style()


EN, ZH = style_of(ENGLISH), style_of(CHINESE)
FROM_EN, FROM_ZH = Reader(EN, ZH.characters, tgt_lang="zh"), Reader(ZH, EN.characters)


def read(reader: Reader, line: str) -> tuple[Sentence, list[str]]:
    spans = list[str]()
    sentence = reader.sentence(reader.visible(line, spans), spans)
    return sentence._replace(before=put_back(sentence.before, spans), after=put_back(sentence.after, spans)), spans


def test_a_style_is_what_lines_begin_and_end_with_and_which_words_have_capitals():
    assert EN.ends == (".", "?", '".') and EN.starts == () and EN.has_ends and EN.has_capital_starts
    assert EN.capitals == {"anna": "Anna", "no": "No"}
    assert ZH.ends == ("。", "？") and not ZH.has_capital_starts and ZH.capitals == {}
    persian = "می\u200cروم."  # marks that training has stay, but for those that it hardly has
    marked = persian.replace("ر", "ر\u200f")
    assert read(Reader(style_of([*[persian] * 1200, marked])), marked)[0].text == persian
    assert reading.is_invisible("\u200c") and reading.is_invisible("\ufe0f") and not reading.is_invisible("a")


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
        ("Anna hasⁿ a cat.", "Anna \U000f0000 a cat.", "Él tiene."),
    ],
)
def test_capitals_and_ends_are_read_as_usual_and_written_back(line, read_as, written):
    sentence, _ = read(FROM_EN, line)
    assert sentence.text == read_as and sentence.written("Él tiene.") == written


def test_turkish_has_an_i_with_and_one_without_a_dot():
    style = style_of(["Irak büyük.", "Bu Irak, ısınıyor.", "İyi, Irak ve İzmir."] * 50)
    sentence, _ = read(Reader(style, src_lang="tr", tgt_lang="az"), "İYİ IRAK VE ISINIYOR.")
    assert sentence.text == "İyi Irak ve ısınıyor." and sentence.written("Bakı içində.") == "BAKI İÇİNDƏ."
    assert read(Reader(style, src_lang="tr"), "ısınıyor iyi.")[0].text == "Isınıyor iyi."
    assert read(Reader(style, src_lang="en", tgt_lang="en"), "IRAK IS BIG.")[0].written("it is") == "IT IS"


def test_a_word_in_capitals_says_nothing_of_words_without():
    for line in ("我在NASA工作有一只猫。", "우리는 지금 Samsung 집에 간다.", "أنا الآن في Samsung هنا."):
        reader = Reader(style_of([line, "samsung nasa"] * 50))
        sentence, _ = read(reader, line)
        assert ("NASA" in sentence.text or "Samsung" in sentence.text) and not sentence.is_in_capitals
    assert read(FROM_EN, "ANNA HAS A CAT (東京).")[0].is_in_capitals, "which training has not"


def test_a_reader_without_a_style_finds_spans_and_changes_nothing_else():
    sentence, spans = read(Reader(None), "ÄÖ “囧” \u200f 😀!")
    assert sentence.before + put_back(sentence.text, spans) + sentence.after == "ÄÖ “囧” \u200f 😀!" and spans == ["😀"]
