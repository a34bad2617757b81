"""Spans that are copied are found whole, symbols stand for them and are put back; tags go around the words that belong to theirs."""

import random
import re
import time
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mt_cli.augment.variation import varied
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spans import N_SYMBOLS, SYMBOLS, held, hold, hold_pair, numbered_anew, numbered_back, put_back
from mt_cli.data.tokenizer import EOS_ID
from mt_cli.decoding.alignment import Word, placed
from mt_cli.decoding.beam import Constraints
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.parts import Mark
from mt_cli.decoding.translator import Translator
from mt_cli.evaluation.robustness import with_typing_errors


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("%s of %d, %1$s %(name)s, 100% sure, 5%s, %<PRIuMAX>", ["%s", "%d", "%1$s", "%(name)s", "%<PRIuMAX>"]),
        ("{user_name} {{ x }} {% tag %} ${x} $1 $5.00 {two words}", ["{user_name}", "{{ x }}", "{% tag %}", "${x}", "$1"]),
        ('<x id="2"/> <b>a</b> a < b > c & d &amp; e', ['<x id="2"/>', "<b>", "</b>", "&amp;"]),
        ("[X7X] a\\nb [see] #tag @me C# #1", ["[X7X]", "\\n", "#tag", "@me"]),
        ("see https://a.b/c?d=e, or me@x.org. (www.x.y)", ["https://a.b/c?d=e", "me@x.org", "www.x.y"]),
        ("你好https://a.b。给我写信me@x.org吧 @me와 #tag의 $name을", ["https://a.b", "me@x.org", "@me", "#tag", "$name"]),
        ("%count% of %1, %L2 %n: <1>see</1> <2/> $USER$ $t(a.b)", ["%count%", "%1", "%L2", "%n", "<1>", "</1>", "<2/>", "$USER$", "$t(a.b)"]),
        ("10% and %5,2 % or %50 and 1 <3", []),
        ("A4 B-52 ISO-8859-1 MP3 3:30 123456 v1.2.3 3月20号 USA 2024", ["A4", "B-52", "ISO-8859-1", "MP3", "3:30", "123456", "v1.2.3"]),
        ("Hi 😀 👨‍👩‍👧 x 👍🏽 🇩🇪 5️⃣!", ["😀 👨‍👩‍👧", "👍🏽 🇩🇪 5️⃣"]),
        ("a \ue000 b, you\ufe0f", ["\ue000"]),
        ("Hi 🙂\u200d↔\ufe0f there ▶\ufe0f ‼\ufe0f ℹ\ufe0f x", ["🙂\u200d↔\ufe0f", "▶\ufe0f ‼\ufe0f ℹ\ufe0f"]),
        ("Nothing (here) at all, 12.5 times!", []),
    ],
)  # fmt: skip
def test_spans_are_found_whole(text, spans):
    found = hold(text)
    assert found[1] == spans and len(held(found[0])) == len(spans)
    assert put_back(*found) == text
    for span in spans:  # also where a line has nothing else that spans have
        assert hold(span)[1] == [span]


@given(st.text(alphabet=st.sampled_from("ab %s{}<>&;😀\ue000\U000f0000\U00100000@.-1:/")))
def test_every_text_comes_back_as_it_was(text):
    assert put_back(*hold(text)) == text


def test_long_lines_take_little_time():
    started = time.process_time()
    text = "%" + "0" * 20_000
    assert put_back(*hold(text)) == text
    for unit in ("😀", "< ", "<a ", "{", "a.b@", "w.-", "A1-", "1.", "<!--", "%", "\\", "😀 a "):
        assert put_back(*hold(unit * 20_000)) == unit * 20_000
    assert time.process_time() - started < 60  # a quadratic pattern takes minutes


def test_a_line_has_so_many_spans_and_the_others_are_text():
    for n_before in (0, 65_530, 65_534, 70_000):
        text, spans = hold("%s, " * 70_000, n_before=n_before)
        assert len(spans) == len(held(text)) == max(0, 65_534 - n_before)
        assert put_back(text, [*[""] * n_before, *spans]) == "%s, " * 70_000


def test_the_spans_of_a_sentence_get_the_first_symbols():
    text, spans = hold("%s a %d b %s")
    part, own = numbered_anew(text[2:])
    assert part == f"a {SYMBOLS[0]} b {SYMBOLS[1]}"
    assert put_back(numbered_back(f"{SYMBOLS[1]}, {SYMBOLS[0]}{SYMBOLS[5]}", own), spans) == "%s, %d"


def test_a_pair_has_symbols_for_what_both_sides_have():
    a, b = SYMBOLS[:2]
    assert hold_pair("%s und %d, siehe a@b.de", "%d and %s %s, see a@b.com") == (f"{a} und {b}, siehe a@b.de", f"{b} and {a} %s, see a@b.com")  # fmt: skip
    assert hold_pair("%s %s", "%s, %s") == (f"{a} {b}", f"{a}, {b}")
    assert hold_pair("x \ue000 {a}", "x \ue001 {a}") == (f"x  {a}", f"x  {a}")
    assert hold_pair("x y", "x \ue001 y") == ("x y", "x  y"), "it would be learnt as a symbol"
    many = " ".join(f"{{n{i}}}" for i in range(N_SYMBOLS + 2))
    src, tgt = hold_pair(many, many)
    assert src == tgt and len(held(src)) == N_SYMBOLS and "{n9}" in src


MADE_UP = {f"{a}a{b}o": f"{b}u{a}e" for a in "bdfgkl" for b in "mnprst"}


def made_up_pairs(n_pairs: int) -> list[SentencePair]:
    """Of a language that is translated word by word."""
    rng = random.Random(0)
    chosen = [rng.sample(list(MADE_UP), rng.randint(3, 5)) for _ in range(n_pairs)]
    return [SentencePair(" ".join(one), " ".join(MADE_UP[w] for w in one), i) for i, one in enumerate(chosen, 1)]


def test_symbols_stand_at_words_that_translate_each_other_in_the_order_of_the_source():
    n_right = n_all = 0
    for pair in varied(made_up_pairs(600), has_symbols=True):
        symbols = held(pair.src)
        assert symbols == list(SYMBOLS[: len(symbols)]) and sorted(held(pair.tgt)) == symbols
        src, tgt = pair.src.split(), pair.tgt.split()
        for symbol in symbols:
            n_all += 1
            before = [MADE_UP[word] for word in src[: src.index(symbol)] if word in MADE_UP]
            n_right += before == [word for word in tgt[: tgt.index(symbol)] if word not in SYMBOLS]
    assert n_all > 300 and n_right > 0.95 * n_all


def test_typing_errors_are_in_a_share_of_the_letters_of_the_source_alone():
    found = list(varied(made_up_pairs(600), has_symbols=False))
    originals = {pair.line: pair for pair in made_up_pairs(600)}
    assert len(found) > 300 and found == list(varied(made_up_pairs(600), has_symbols=False)), "the same each time"
    assert all(pair.tgt == originals[pair.line].tgt and pair.src != originals[pair.line].src for pair in found)
    text, rng = "The quick brown fox, 42 times. " * 50, random.Random(1)
    changed = with_typing_errors(text, 0.05, rng)
    assert changed != text and re.sub(r"[a-zA-Z]", "", changed) == re.sub(r"[a-zA-Z]", "", text)
    assert abs(len(changed) - len(text)) < 0.05 * len(text)
    assert with_typing_errors("我有一只猫。42", 1.0, rng) == "我有一只猫。42"


def test_a_sentence_gets_its_own_symbols_once_and_no_others():
    constraints = Constraints(symbols=[[5], [5, 6]], all_symbols=[5, 6, 7])
    tokens = torch.tensor([[4, 4], [4, 5], [5, 6]])
    allowed = constraints.apply(torch.zeros(3, 9), tokens, [0, 1, 1]).isfinite()
    assert allowed[:, [EOS_ID, 5, 6, 7, 8]].int().tolist() == [[0, 1, 0, 0, 1], [0, 0, 1, 0, 1], [1, 0, 0, 0, 1]]


WORDS = [Word(" " if i else "", word) for i, word in enumerate(["A", "B", "D", "C1", "C2"])]
LINKS = [(0, 0), (1, 1), (2, 3), (3, 2), (4, 2)]  # of A B D C1 C2 to a b c d: the last two changed places
WEIGHTS = np.full((5, 4), 0.05)
WEIGHTS[tuple(zip(*LINKS, strict=True))] = 1


def marks_of(source: str) -> list[Mark]:
    marks, place, tokens = list[Mark](), 0, re.findall(r"<[^>]+>|%s|[^\s<]+|\s+", source)
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        if token.startswith("<") or token == "%s":
            marks.append(Mark(token, token, place, before.isspace(), after.isspace()))
        elif not token.isspace():
            place += 1
    return marks


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a <b>b</b> c d", "A <b>B</b> D C1 C2"),
        ("<b>a b c d</b>", "<b>A B D C1 C2</b>"),
        ("<b><i>a b c d</i></b>", "<b><i>A B D C1 C2</i></b>"),
        ("a b <i>c</i> <b>d</b>", "A B <b>D</b> <i>C1 C2</i>"),
        ("a <b>b <i>c</i></b> d", "A <b>B D <i>C1 C2</i></b>"),
        ("<a href='x'>a</a> <b>b c d</b>", "<a href='x'>A</a> <b>B D C1 C2</b>"),
        ("a<br/> b c d", "A<br/> B D C1 C2"),
        ("a %s b c d", "A %s B D C1 C2"),
        ("a b c d <br>", "A B D C1 C2 <br>"),
        ("<br>a b c d", "<br>A B D C1 C2"),
        ("a <b>b c d", "A <b>B D C1 C2"),
        ("a b</i> c d", "A B</i> D C1 C2"),
        ("<b></b>a b c d", "<b></b>A B D C1 C2"),
        ("<x/>a <x/>b c d", "<x/>A <x/>B D C1 C2"),
    ],
)
def test_tags_are_around_the_words_that_theirs_are_aligned_with(source, expected):
    assert placed(WORDS, marks_of(source), WEIGHTS) == expected


def test_tags_around_all_stay_around_words_that_are_linked_with_none():
    assert placed(WORDS, marks_of("<b>a b c d</b>"), np.diag([0, 1, 1, 1, 0])[:, :4]) == "<b>A B D C1 C2</b>"


def test_a_full_stop_between_the_words_of_a_content_does_not_end_it_and_none_behind_them_belongs_to_it():
    words = [Word("", "Dr"), Word("", "."), Word(" ", "Zhao"), Word(" ", "sleeps"), Word("", ".")]
    weights = np.array([[8, 1, 0.5, 0], [0, 0, 0, 1], [2, 5, 2.5, 0], [0, 1, 8, 0], [0, 0, 0, 1]])
    assert placed(words, marks_of("<b>a b</b> c d"), weights) == "<b>Dr. Zhao</b> sleeps."
    assert placed(words, marks_of("a b <b>c</b> d"), weights) == "Dr. Zhao <b>sleeps</b>."


def test_all_pairs_of_nested_tags_are_well_formed_and_lose_no_word():
    """Every two pairs of tags, one in the other or one after the other, around any words of the source."""
    n_right = n_all = 0
    for start, end, inner_start, inner_end in product(range(4), range(1, 5), range(4), range(1, 5)):
        if not (start <= inner_start < inner_end <= end):
            continue
        words = list("abcd")
        for place, tag in ((inner_start, "<i>"), (start, "<b>")):
            words[place] = tag + words[place]
        for place, tag in ((inner_end - 1, "</i>"), (end - 1, "</b>")):
            words[place] += tag
        result = placed(WORDS, marks_of(" ".join(words)), WEIGHTS)
        assert re.sub("<[^>]+>", "", result) == "A B D C1 C2"
        found = re.fullmatch(r"[^<]*<b>[^<]*<i>([^<]*)</i>[^<]*</b>[^<]*", result)
        assert found, (words, result)
        inside = {WORDS[tgt].text for tgt, src in LINKS if inner_start <= src < inner_end}
        n_all += 1
        n_right += inside <= set(found[1].split())
    assert n_right == n_all == 35


def test_a_translation_without_words_has_the_spans_of_its_source(trained_run):
    translator = Translator.load(trained_run, device="cpu")
    translator.search = lambda requests, *rest: [[Hypothesis([], 0.0)] for _ in requests]  # type: ignore[method-assign]
    assert translator.translate("the cat sees https://a.org") == "https://a.org"


def test_a_tag_may_have_a_line_break_and_what_ends_a_tag_in_quotes(trained_run):
    translator = Translator.load(trained_run, device="cpu")
    for tag in ('<a\nhref="x > y">', "<!-- a\r\nb -->", "<a title=it's>"):
        for markup in ("html", "xml"):
            [found] = translator.translations([f"the {tag}red cat\nthe dog"], markup=markup)
            assert found.text.count(tag) == 1 and "die Hund" in found.text, found.text
    [found] = translator.translations(['the <a href="x>red</a> cat <a href="y">dog</a>'], markup="html")
    assert "rot" in found.text, "a quote is missing"
