"""Where a line is cut into sentences."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_cli.text.splitting import halves, sentences


@pytest.mark.parametrize(
    "parts",
    [
        ["你好。", "再见。"],
        ["真的吗？！", "是的。"],
        ["他说：“你好。”", "我说：“再见！”"],
        ["你好。", '"再见"'],
        ["太好了！！！"],
        ["真的吗？！"],
        ["他说：“你好。”"],
        ["「行くぞ！」"],
        ['他说："你好。"'],
        ["वह आया।", "क्या तुम ठीक हो?", "हाँ।"],
        ["مرحبا بالعالم؟", "نعم."],
        ["من لك.", "نعم."],
        ["یہ اچھا ہے۔", "شکریہ۔"],
        ["Բարեւ։", "Ինչպես ես։"],
        ["ሰላም።", "እንዴት ነህ፧", "ደህና።"],
        ["ဟုတ်ကဲ့။", "မဟုတ်ဘူး။"],
        ["បាទ។", "ទេ។"],
        ["ते जातात.", "ते येतात.", "आम्ही करतोय.", "ती.", "ते."],
        ["તે ગામ.", "તે ઘર."],
        ["הוּא שָׁלוֹם.", "הִיא בָּאָה."],
        ["ok . . .", "yes"],
        ["what ? !", "no"],
        ["Hi!", "Bye! 😀"],
        ["Dr. Berg came on 3. May with St. Nick, i.e. at 12. o'clock.", "He went.", "It is.", "So?"],
        ["Three men.", 'One said "no!"', "(Two did not.)", "Why...", "v1.2 it is"],
    ],
    ids=lambda parts: "|".join(parts),
)
def test_a_sentence_ends_after_all_its_marks_and_closing_quotes(parts):
    between = "" if re.search("[。！？။។]", parts[0]) else " "
    assert sentences(between.join(parts)) == parts


def test_many_marks_take_a_time_that_grows_as_they_do():
    marks = "。" * 300_000
    started = time.process_time()
    assert sentences(marks + "好") == [marks, "好"] and sentences(marks) == [marks]
    assert time.process_time() - started < 10  # of what took hours


TEXT = st.text(alphabet="ab ,，.!?。！？”」\"'…", min_size=2, max_size=30).map(lambda text: " ".join(text.split()))


@given(TEXT)
def test_sentences_are_all_of_the_text(text):
    parts = sentences(text)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    assert all(part for part in parts) or not text


@pytest.mark.parametrize(
    "text", ["abcdef, gh ij kl mn", "你好，再见", "مرحبا بك، لا نعم لا شكرا", "ሰላም ናችሁ፣ ደህ ና ነህ እንዴት"]
)
def test_a_half_ends_at_a_comma_near_the_middle_before_a_space(text):
    left, right = halves(text)
    assert left[-1] in ",，،፣" and right


@given(TEXT.filter(lambda text: len(text) >= 2))
def test_halves_are_two_parts_with_all_of_the_text(text):
    left, right = halves(text)
    assert (left + right).replace(" ", "") == text.replace(" ", "")
