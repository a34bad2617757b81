"""Tags go around the words that belong to theirs, stay nested, and lose nothing."""

import re
from itertools import product

import numpy as np
import pytest

from mt_cli.decoding.alignment import Word, placed
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.parts import Mark
from mt_cli.decoding.translator import Translator

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
