"""What a finished training came to, in two lines: whether it has learnt, and what would help most."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from mt_cli.evaluation.baselines import Judgement

LEVELS = (  # from this chrF on
    (65, "most sentences are right"),
    (50, "many sentences can be used"),
    (35, "the topic comes across"),
    (0, "single words come across"),
)
_ABOVE_UNIFORM = 0.5  # nats; a model that has hardly begun may be a little above
_STILL_RISING = 0.5  # chrF in the last quarter of the training, where the learning rate is low
_MANY_FAULTS = 0.02
_FEW_EPOCHS = 10  # of a small corpus
_SOLVED = 90.0
_TOO_FEW_PAIRS, _ENOUGH_PAIRS = 1_000, 300_000
_JUDGED = [field.name for field in fields(Judgement)]


class Point(NamedTuple):
    """A validation."""

    step: int
    loss: float
    judged: Judgement


def learning_curve(records: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The validations of a log, without those before the best that scored higher: by chance, before it had learnt."""
    points = list[Point]()
    for record in records:
        if record.keys() >= {"dev_loss", *_JUDGED}:
            if record.get("is_best"):
                points = [point for point in points if point.judged.chrf <= record["chrf"]]
            judged = Judgement(**{name: record[name] for name in _JUDGED})
            points.append(Point(record["step"], record["dev_loss"], judged))
    return points


def best_of(curve: Sequence[Point]) -> Judgement:
    return max((point.judged for point in curve), key=lambda judged: judged.chrf)


def verdict(
    curve: Sequence[Point], vocab_size: int, n_pairs: int, n_epochs: float, share_faulty: float = 0.0
) -> list[str]:
    """Two lines for people. `n_epochs`: how often the pairs were read; `share_faulty`: of them; `vocab_size`: of the
    target."""
    best, last, uniform = best_of(curve), curve[-1], math.log(vocab_size)
    earlier = [point for point in curve if point.step <= 0.75 * last.step]
    if best.chrf > _SOLVED:
        advice = "sentences of other kinds, those of the dev set are nearly all known"
    elif n_epochs < (_FEW_EPOCHS if n_pairs < _ENOUGH_PAIRS else 1):
        times = "once at most" if n_epochs < 1 else "only once" if n_epochs < 2 else f"only {n_epochs:.0f} times"
        few = f"; and more pairs, {n_pairs:,} are too few" if n_pairs < _TOO_FEW_PAIRS else ""
        advice = f"more time, each pair was read {times} (--minutes, or training.max_steps){few}"
    elif earlier and best.chrf - best_of(earlier).chrf > _STILL_RISING:
        advice = "more time, the score still rose at the end (--minutes, or training.max_steps)"
    elif n_pairs < _TOO_FEW_PAIRS:
        advice = f"more pairs, {n_pairs:,} are too few to learn a language from"
    elif share_faulty > _MANY_FAULTS:
        advice = f"a cleaner corpus, {share_faulty:.0%} of its pairs have a fault (mt check, then mt train --clean)"
    elif not best.has_learnt:
        advice = "a look at the corpus, whether its lines belong together (mt check)"
    else:
        is_small = n_pairs < _ENOUGH_PAIRS
        advice = f"more pairs, {n_pairs:,} are few" if is_small else "a larger network (model.d_model)"
    if last.loss > uniform + _ABOVE_UNIFORM:
        learnt = f"it has diverged: its dev loss is {last.loss:,.1f}, and {uniform:.1f} with all tokens equally likely"
        advice = "a lower learning rate (training.learning_rate), or a longer warm-up (training.warmup_steps)"
    elif best.has_learnt:
        level = next(words for least, words in LEVELS if best.chrf >= least)
        learnt = f"it has learnt to translate: {best}; {level}"
    else:
        learnt = f"it has hardly learnt to translate: {best}"
    return [learnt, f"what would help most: {advice}"]
