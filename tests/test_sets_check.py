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


def test_the_problems_of_all_sets_are_reported_together_and_each_once():
    check = SetsCheck()
    assert len(list(check.held_out("dev", pairs("a", problem="f:2: bad")))) == 1
    assert list(check.held_out("test", pairs(problem="g: short"))) == []
    assert len(list(check.train(pairs("a", "b", problem="f:2: bad")))) == 2
    with pytest.raises(DataError) as caught:
        check.finish()
    assert str(caught.value) == "f:2: bad\ng: short"


def test_pairs_of_a_set_that_training_has_too_are_counted_and_all_pass_unchanged(said):
    check = SetsCheck()
    assert list(check.held_out("dev", pairs("a", "b"))) == list(pairs("a", "b"))
    list(check.held_out("test", pairs("x", "b", "b\u00a0!")))
    list(check.held_out("other", [SentencePair("a", "another translation", 1)]))
    texts = "c", "b", "a", "b", "b !"
    assert list(check.train(pairs(*texts))) == list(pairs(*texts))
    check.finish()
    assert said() == [
        "warning: 2 pairs of dev are also in training (the first: line 1 is train line 3); delete them from one of the two",
        "warning: 2 pairs of test are also in training (the first: line 2 is train line 2); delete them from one of the two",
    ]


def test_a_list_of_words_that_has_pairs_of_a_set_is_reported(said):
    check = SetsCheck()
    list(check.held_out("dev", pairs("a", "b", "c")))
    check.warn_of_words(pairs("x", "c", "b"))
    check.warn_of_words(pairs("x"))
    expected = "warning: 2 pairs of dev are also in data.words (the first: line 2); delete them from one of the two"
    assert said() == [expected]
