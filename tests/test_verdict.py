"""What people are told when a training has ended."""

from __future__ import annotations

import random

import pytest
from sacrebleu.metrics import CHRF

from mt_cli.evaluation.baselines import Judgement, judge
from mt_cli.training.verdict import Point, learning_curve, verdict


def curve(*validations: tuple[int, float], loss: float = 2.0) -> list[Point]:
    """With these steps and scores."""
    return [Point(step, loss, Judgement(chrf, 15.0, 10.0, 0.9)) for step, chrf in validations]


FLAT = curve((100, 40.0), (200, 50.0), (300, 52.0), (400, 52.1))
USUAL = {"curve": FLAT, "vocab_size": 8000, "n_pairs": 10_000, "n_epochs": 10}


@pytest.mark.parametrize(
    ("chrf", "words"),
    [(16.0, "hardly learnt"), (30.0, "single words"), (45.0, "the topic"), (52.0, "can be used"), (80.0, "are right")],
)
def test_the_first_line_says_whether_it_has_learnt_beside_copying_the_source(chrf, words):
    line, _ = verdict(**USUAL | {"curve": curve((100, chrf))})
    assert words in line and f"dev chrF {chrf}" in line and "copying the source has 15.0" in line


@pytest.mark.parametrize(
    ("advice", "changes"),
    [
        ("more pairs, 10,000 are few", {}),
        ("a larger network (model.d_model)", {"n_pairs": 10**6}),
        ("more time, each pair was read only 9 times", {"n_epochs": 9, "n_pairs": 300}),
        ("more time, each pair was read once at most", {"n_pairs": 10**6, "n_epochs": 0}),
        ("more pairs, 300 are too few", {"n_pairs": 300}),
        ("sentences of other kinds", {"curve": curve((100, 97.0)), "n_epochs": 1}),
        ("more time", {"curve": [*FLAT[:3], *curve((400, 54.0))]}),
        ("a cleaner corpus, 7% of its pairs", {"share_faulty": 0.07}),
        ("a look at the corpus", {"curve": curve((100, 19.0), (200, 19.0))}),
        ("a lower learning rate", {"curve": [*FLAT, *curve((500, 3.0), loss=12.0)], "n_epochs": 1}),
    ],
)
def test_the_second_line_says_what_would_help_most(advice, changes):
    assert verdict(**USUAL | changes)[1].startswith(f"what would help most: {advice}")


def test_babble_that_scored_higher_before_the_best_is_not_on_the_curve():
    validations = [(7, 13.1, True), (14, 0.5, True), (21, 6.9, True), (28, 6.0, False)]
    figures = {"dev_loss": 2.0, "copied_chrf": 0.0, "constant_chrf": 0.0, "distinct": 1.0}
    records = [{"step": step, "chrf": chrf, "is_best": is_best} | figures for step, chrf, is_best in validations]
    found = learning_curve([{"step": 1, "loss": 9.0}, *records])
    assert [(point.step, point.judged.chrf) for point in found] == [(14, 0.5), (21, 6.9), (28, 6.0)]


# Whether it has learnt ------------------------------------------------------------------------------------------------

REFERENCES = [
    " ".join(random.Random(i).choices(["Ева", "Иван", "видит", "новый", "дом", "и", "красивый", "сад", "Еин"], k=7))
    for i in range(200)
]
SOURCES = [f"Eve sees house {i}" for i in range(200)]


def judged(outputs: list[str], references: list[str] = REFERENCES, sources: list[str] = SOURCES) -> Judgement:
    return judge(outputs, references, sources, CHRF().corpus_score(outputs, [references]).score)


def test_the_same_words_for_all_sentences_are_nothing_learnt():
    """Across scripts a copy scores nothing, so that babble is far above it."""
    babble = ["Еин видит " * random.Random(i).randint(2, 9) + "дом" for i in range(200)]
    found = judged(babble)
    assert found.chrf > found.copied_chrf + 10 and not found.has_learnt
    assert found.distinct < 0.01 and "different" in str(found)
    assert not judged(["Ева видит новый дом"] * 200).has_learnt
    sources = [line.replace("Ева", "Эва") for line in REFERENCES]
    copied = judged(sources, sources=sources)
    assert copied.chrf == copied.copied_chrf > 80 and not copied.has_learnt, "nor is a copy of a similar language"


def test_what_resembles_any_sentence_equally_is_nothing_learnt():
    shuffled = [*REFERENCES[1:], REFERENCES[0]]
    found = judged(shuffled)
    assert found.distinct == 1 and found.constant_chrf > found.chrf - 5 and not found.has_learnt


def test_translations_that_follow_their_sources_are_learnt_also_where_sentences_repeat():
    halves = [line[: len(line) // 2] for line in REFERENCES]
    assert Judgement(22.0, 15.4, 17.8, 0.9).has_learnt and not Judgement(22.0, 15.4, 19.8, 0.9).has_learnt
    assert judged(halves).has_learnt and judged(REFERENCES).has_learnt
    few = REFERENCES[:3] * 60
    found = judged(few, few)
    assert found.has_learnt and found.distinct == 1
