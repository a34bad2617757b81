"""How far a score could be off by chance, and whether two systems differ by more than chance.

Intervals are those of `sacrebleu --confidence`, tests those of `--paired-bs` and `--paired-ar`, with the same random numbers.
sacrebleu holds all resamples at once, 80 KB for each sentence; here they are drawn 32 at a time and summed by a matrix
product, which is exact, as counts are whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import TER

from mt_cli.evaluation.metrics import Counts

SEED, N_RESAMPLES, N_TRIALS = 12345, 1_000, 10_000  # of the sacrebleu command
# Each draw of random truths begins with a new word of 32 bits: 32 rows at a time are the same as all at once.
_AT_ONCE = 32
_LEVEL = 0.05

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Interval:
    """Where 95% of the scores of resampled test sets lie."""

    low: float
    high: float
    mean: float
    half_width: float


@dataclass(frozen=True)
class PairedTests:
    """How a system differs from a baseline, and how probable as large a difference is where there is none."""

    difference: float  # above 0 where the system's score is higher
    p_bootstrap: float
    p_randomization: float
    meaning: str


def interval(counts: Counts) -> Interval:
    """The 95% interval of a score by bootstrap resampling (Koehn 2004)."""
    scores = np.sort(_bootstrap(counts))
    low, high = float(scores[len(scores) // 40]), float(scores[-(len(scores) // 40) - 1])
    return Interval(low, high, float(scores.mean()), 0.5 * (high - low))


def paired_tests(baseline: Counts, system: Counts, is_seed: bool = False) -> PairedTests:
    """Paired bootstrap (Koehn 2004) and paired approximate randomization (Riezler and Maxwell 2005) of two systems with the
    same references and signature. `is_seed`: the same config with another seed, which differs by chance whatever they say.

    The second p is two-sided. The first is computed as sacrebleu does, which takes absolute values before it subtracts their
    mean: it is about half of a two-sided p.
    """
    difference = system.score() - baseline.score()
    if difference == 0:  # sacrebleu counts larger ones only, and would be sure that a system differs from itself
        return PairedTests(0.0, 1.0, 1.0, "the same score")

    def p_value(by_chance: Floats) -> float:
        # Adding 1 to both keeps false alarms at the stated level (sacrebleu does so after multeval).
        return float(np.sum(by_chance > abs(difference)) + 1) / (len(by_chance) + 1)

    resampled = np.abs(_bootstrap(system) - _bootstrap(baseline))
    p_bootstrap = p_value(resampled - resampled.mean())
    # Of the 2^n exchanges two, all and none, always give as large a difference. sacrebleu does not count these.
    n_differing = int((baseline.by_sentence != system.by_sentence).any(axis=1).sum())
    p_randomization = max(p_value(_exchanged(baseline, system)), 2.0 ** (1 - n_differing))
    direction = "better" if (difference > 0) != isinstance(system.metric, TER) else "worse"
    meaning = (
        "no evidence of a difference",
        f"weak evidence that it is {direction}, as only one of the two tests passes",
        f"{direction} by the chance of its seed" if is_seed else f"{direction}, not by chance",
    )[sum(p < _LEVEL for p in (p_bootstrap, p_randomization))]
    return PairedTests(difference, p_bootstrap, p_randomization, meaning)


def _bootstrap(counts: Counts) -> Floats:
    """Scores on test sets of as many sentences, drawn with replacement; the same draws for every system."""
    rng, n_sentences = np.random.default_rng(SEED), len(counts.by_sentence)
    scores = list[float]()
    while n := min(_AT_ONCE, N_RESAMPLES - len(scores)):
        drawn = rng.choice(n_sentences, size=(n, n_sentences))
        n_times = np.array([np.bincount(row, minlength=n_sentences) for row in drawn], np.float64)
        # As float32, in which sacrebleu divides here.
        scores += [counts.score_of(row) for row in (n_times @ counts.by_sentence).astype(np.float32)]
    return np.array(scores)


def _exchanged(first: Counts, second: Counts) -> Floats:
    """Differences of scores when each sentence's two translations are exchanged at random."""
    rng, both = np.random.default_rng(SEED), first.by_sentence.sum(0) + second.by_sentence.sum(0)
    differences = list[float]()
    while n := min(_AT_ONCE, N_TRIALS - len(differences)):
        is_kept = rng.integers(2, size=(n, len(first.by_sentence)), dtype=bool)
        ones = is_kept @ (first.by_sentence - second.by_sentence) + second.by_sentence.sum(0)
        pairs = zip(ones.tolist(), (both - ones).tolist(), strict=True)
        differences += [abs(first.score_of(one) - first.score_of(other)) for one, other in pairs]
    return np.array(differences)
