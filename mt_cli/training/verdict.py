"""What a finished training came to, in two lines: whether it has learnt, and what would help most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mt_cli.config import DataConfig
from mt_cli.evaluation.metrics import bleu_tokenizer, score_texts


class Point(NamedTuple):
    """A validation."""

    step: int
    chrf: float


def learning_curve(records: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The validations of a log, but for those before the best one that scored higher: nothing was learnt then, and scores
    were chance."""
    points = list[Point]()
    for record in records:
        if "chrf" in record:
            if record.get("is_best"):
                points = [point for point in points if point.chrf <= record["chrf"]]
            points.append(Point(record["step"], record["chrf"]))
    return points


def verdict(
    curve: Sequence[Point], copied_chrf: float, n_pairs: int, n_epochs: float, share_faulty: float = 0.0
) -> list[str]:
    """Two lines for people. `curve`: the validations in their order; `copied_chrf`: of the sources taken as translations;
    `n_pairs`, `n_epochs`: trained on, and how often all of them were read; `share_faulty`: of the pairs, how many `mt check`
    would drop."""
    best = max(curve, key=lambda point: point.chrf)
    beside = f"dev chrF {best.chrf:.1f}, and copying the source has {copied_chrf:.1f}"
    if not has_learnt(best.chrf, copied_chrf):
        learnt = f"it has hardly learnt to translate: {beside}"
    else:
        learnt = f"it has learnt to translate: {beside}; {_in_words(best.chrf)}"
    return [learnt, f"what would help most: {_advice(curve, copied_chrf, n_pairs, n_epochs, share_faulty)}"]


def has_learnt(chrf: float, copied_chrf: float) -> bool:
    """Whether the dev chrF of a run says that it translates at all."""
    return chrf >= copied_chrf + _HARDLY


def copied_chrf(data: DataConfig, sources: list[str], references: list[str]) -> float:
    """What the sources score as translations."""
    return score_texts(sources, references, bleu_tokenizer(data.bleu_tokenize, data.tgt_lang)).chrf


_HARDLY = 5.0  # chrF; words that both languages share move it by as much
_STILL_RISING = 0.5  # chrF in the last quarter of the training, where the learning rate is low


LEVELS = (  # from this chrF on
    (65, "most sentences are right"),
    (50, "many sentences can be used"),
    (35, "the topic comes across"),
    (0, "single words come across"),
)


def _in_words(chrf: float) -> str:
    return next(words for least, words in LEVELS if chrf >= least)


def _advice(curve: Sequence[Point], copied_chrf: float, n_pairs: int, n_epochs: float, share_faulty: float) -> str:
    best = max(point.chrf for point in curve)
    earlier = max((point.chrf for point in curve if point.step <= 0.75 * curve[-1].step), default=best)
    if best > _SOLVED:
        return "sentences of other kinds, those of the dev set are nearly all known"
    if n_epochs < (_FEW_EPOCHS if n_pairs < _ENOUGH_PAIRS else 1):
        times = "once at most" if n_epochs < 1 else "only once" if n_epochs < 2 else f"only {n_epochs:.0f} times"
        few = f"; and more pairs, {n_pairs:,} are too few" if n_pairs < _TOO_FEW_PAIRS else ""
        return f"more time, each pair was read {times} (--minutes, or training.max_steps){few}"
    if best - earlier > _STILL_RISING:
        return "more time, the score still rose at the end (--minutes, or training.max_steps)"
    if n_pairs < _TOO_FEW_PAIRS:
        return f"more pairs, {n_pairs:,} are too few to learn a language from"
    if share_faulty > _MANY_FAULTS:
        return f"a cleaner corpus, {share_faulty:.0%} of its pairs have a fault (mt check, then mt train --clean)"
    if not has_learnt(best, copied_chrf):
        return "a look at the corpus, whether its lines belong together (mt check)"
    return f"more pairs, {n_pairs:,} are few" if n_pairs < _ENOUGH_PAIRS else "a larger network (model.d_model)"


_MANY_FAULTS = 0.02
_FEW_EPOCHS = 10  # of a small corpus
_SOLVED = 90.0
_TOO_FEW_PAIRS = 1_000
_ENOUGH_PAIRS = 300_000
