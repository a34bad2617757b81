"""Spans that are copied are found whole, and nothing else is; symbols stand for them and are put back."""

import random
import re
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mt_cli.augment.variation import varied
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spans import N_SYMBOLS, SYMBOLS, held, hold, hold_pair, numbered_anew, numbered_back, put_back
from mt_cli.data.tokenizer import EOS_ID
from mt_cli.decoding.beam import Constraints
from mt_cli.evaluation.robustness import with_typing_errors


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("%s of %d, %1$s %(name)s, 100% sure, 5%s, %<PRIuMAX>", ["%s", "%d", "%1$s", "%(name)s", "%<PRIuMAX>"]),
        ("{user_name} {{ x }} {% tag %} ${x} $1 $5.00 {two words}", ["{user_name}", "{{ x }}", "{% tag %}", "${x}", "$1"]),
        ('<x id="2"/> <b>a</b> a < b > c & d &amp; e', ['<x id="2"/>', "<b>", "</b>", "&amp;"]),
        ("[X7X] a\\nb [see] #tag @me C# #1", ["[X7X]", "\\n", "#tag", "@me"]),
        ("see https://a.b/c?d=e, or me@x.org. (www.x.y)", ["https://a.b/c?d=e", "me@x.org", "www.x.y"]),
        ("你好https://a.b。", ["https://a.b"]),
        ("A4 B-52 ISO-8859-1 MP3 3:30 123456 v1.2.3 3月20号 USA 2024", ["A4", "B-52", "ISO-8859-1", "MP3", "3:30", "123456", "v1.2.3"]),
        ("Hi 😀 👨‍👩‍👧 x 👍🏽 🇩🇪 5️⃣!", ["😀 👨‍👩‍👧", "👍🏽 🇩🇪 5️⃣"]),
        ("a \ue000 b", ["\ue000"]),
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
