"""The look at all sets before a training: every problem at once, and what is trained on and scored."""

from __future__ import annotations

import pytest

from mt_cli.checking.sets import SetsCheck
from mt_cli.data.corpus import SentencePair
from mt_cli.errors import DataError


def pairs(*texts: str, problem: str = ""):
    """A pair of each text, and then a problem."""
    for line, text in enumerate(texts, 1):
        yield SentencePair(text, text.upper(), line)
    if problem:
        raise DataError(problem)


def test_pairs_pass_unchanged_and_in_order(said):
    check = SetsCheck()
    assert list(check.held_out("dev", pairs("a", "b"))) == list(pairs("a", "b"))
    assert list(check.train(pairs("c", "d"))) == list(pairs("c", "d"))
    check.finish()
    assert said() == []


def test_the_problems_of_all_sets_are_told_together_and_each_once():
    check = SetsCheck()
    assert len(list(check.held_out("dev", pairs("a", problem="f:2: bad")))) == 1
    assert list(check.held_out("test", pairs(problem="g: short"))) == []
    assert len(list(check.train(pairs("a", "b", problem="f:2: bad")))) == 2
    with pytest.raises(DataError) as caught:
        check.finish()
    assert str(caught.value) == "f:2: bad\ng: short"


def test_training_pairs_that_are_also_scored_are_counted_for_each_set(said):
    check = SetsCheck()
    list(check.held_out("dev", pairs("a", "b")))
    list(check.held_out("test", pairs("x", "b", "b")))
    list(check.held_out("other", pairs("x")))
    list(check.train(pairs("c", "b", "a", "b")))
    check.finish()
    assert said() == [
        "warning: 3 training pairs are also in dev (the first: train line 2 is line 2); delete them from one of the two",
        "warning: 2 training pairs are also in test (the first: train line 2 is line 3); delete them from one of the two",
    ]


def test_a_pair_with_another_translation_is_another_pair(said):
    check = SetsCheck()
    list(check.held_out("dev", [SentencePair("a", "x", 1)]))
    list(check.train([SentencePair("a", "y", 1)]))
    check.finish()
    assert said() == []


def test_a_list_of_words_that_has_pairs_of_a_set_is_told(said):
    check = SetsCheck()
    list(check.held_out("dev", pairs("a", "b", "c")))
    check.warn_of_words(pairs("x", "c", "b"))
    told = "warning: 2 entries of data.words are also in dev (the first: line 2 is line 3); delete them from one of the two"
    assert said() == [told]
    check.warn_of_words(pairs("x"))
    assert len(said()) == 1
