"""What people are told when a training has ended."""

from __future__ import annotations

import pytest

from mt_cli.training.verdict import Point, learning_curve, verdict

FLAT = [Point(step, chrf) for step, chrf in ((100, 40.0), (200, 50.0), (300, 52.0), (400, 52.1))]


@pytest.mark.parametrize(
    ("chrf", "words"),
    [(16.0, "hardly learnt"), (30.0, "single words"), (45.0, "the topic"), (52.0, "can be used"), (80.0, "are right")],
)
def test_the_first_line_says_whether_it_has_learnt_beside_copying_the_source(chrf, words):
    line, _ = verdict([Point(100, chrf)], copied_chrf=15.0, n_pairs=10_000, n_epochs=10)
    assert words in line and f"dev chrF {chrf}" in line and "copying the source has 15.0" in line


def test_a_language_that_resembles_the_source_is_not_learnt_by_copying():
    line, advice = verdict([Point(100, 61.0), Point(200, 61.0)], copied_chrf=60.0, n_pairs=10_000, n_epochs=10)
    assert "hardly learnt" in line and "mt check" in advice


@pytest.mark.parametrize(
    ("advice", "changes"),
    [
        ("more pairs, 10,000 are few", {}),
        ("a larger network (model.d_model)", {"n_pairs": 10**6}),
        ("more time, each pair was read only once (", {"n_epochs": 1}),
        ("more time, each pair was read only 9 times (", {"n_epochs": 9}),
        (
            "more time, each pair was read only 9 times (--minutes, or training.max_steps); and more pairs, 300 are too few",
            {"n_epochs": 9, "n_pairs": 300},
        ),
        ("more time, each pair was read once at most", {"n_pairs": 10**6, "n_epochs": 0}),
        ("more pairs, 300 are too few", {"n_pairs": 300}),
        ("sentences of other kinds", {"curve": [Point(100, 97.0)], "n_epochs": 1}),
        ("more time", {"curve": [*FLAT[:3], Point(400, 54.0)]}),
        ("a cleaner corpus, 7% of its pairs", {"share_faulty": 0.07}),
    ],
)
def test_the_second_line_says_what_would_help_most(advice, changes):
    usual = {"curve": FLAT, "copied_chrf": 15.0, "n_pairs": 10_000, "n_epochs": 10}
    assert verdict(**{**usual, **changes})[1].startswith(f"what would help most: {advice}")


def test_babble_that_scored_higher_before_the_best_is_not_on_the_curve():
    validations = [(7, 13.1, True), (14, 0.5, True), (21, 6.9, True), (28, 6.0, False)]
    records = [{"step": step, "chrf": chrf, "is_best": is_best} for step, chrf, is_best in validations]
    assert learning_curve([{"step": 1, "loss": 9.0}, *records]) == [Point(14, 0.5), Point(21, 6.9), Point(28, 6.0)]
