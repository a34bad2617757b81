"""How far a score could be off by chance, and whether two systems differ by more than chance.

The intervals are those of `sacrebleu --confidence`, the tests those of `sacrebleu --paired-bs` and `--paired-ar`, with the
same random numbers. sacrebleu holds all resamples at once, 80 KB for each sentence; here they are drawn 32 at a time and
summed by a matrix product, which is exact, as counts are whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mt_cli.evaluation.metrics import Counts

SEED, N_RESAMPLES, N_TRIALS = 12345, 1_000, 10_000  # of the sacrebleu command
# Each draw of random truths begins with a new word of 32 bits: portions of 32 rows give what one draw gives.
_AT_ONCE = 32

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Interval:
    """Where 95% of the scores of resampled test sets lie."""

    low: float
    high: float
    mean: float

    @property
    def half_width(self) -> float:
        return 0.5 * (self.high - self.low)


@dataclass(frozen=True)
class PairedTests:
    """How a system differs from a baseline, and how probable as large a difference is where there is none."""

    difference: float  # above 0 where the system's score is higher
    p_bootstrap: float
    p_randomization: float


def interval(counts: Counts) -> Interval:
    """The 95% interval of a score by bootstrap resampling (Koehn 2004)."""
    scores = np.sort(_bootstrap(counts))
    cut = len(scores) // 40
    return Interval(float(scores[cut]), float(scores[-cut - 1]), float(scores.mean()))


def paired_tests(baseline: Counts, system: Counts) -> PairedTests:
    """Paired bootstrap (Koehn 2004) and paired approximate randomization (Riezler and Maxwell 2005).

    Both systems must have the same references and the same signature. The second p is two-sided. The first is computed as
    sacrebleu does, which takes absolute values before it subtracts their mean: so it is about half of a two-sided p, and for
    two equal systems it is below 0.05 more often than in 5% of comparisons.
    """
    difference = system.score() - baseline.score()
    if difference == 0:  # sacrebleu counts larger ones only, and would be sure that a system differs from itself
        return PairedTests(0.0, 1.0, 1.0)
    resampled = np.abs(_bootstrap(system) - _bootstrap(baseline))
    p_bootstrap = _p_value(resampled - resampled.mean(), difference)
    # Of the 2^n exchanges two, all and none, always give as large a difference. sacrebleu does not count these.
    n_differing = int((baseline.by_sentence != system.by_sentence).any(axis=1).sum())
    p_randomization = max(_p_value(_swapped(baseline, system), difference), 2.0 ** (1 - n_differing))
    return PairedTests(difference, p_bootstrap, p_randomization)


def _p_value(by_chance: Floats, difference: float) -> float:
    # Adding 1 to both keeps false alarms at the stated level (sacrebleu does so after multeval).
    return float(np.sum(by_chance > abs(difference)) + 1) / (len(by_chance) + 1)


def _bootstrap(counts: Counts) -> Floats:
    """Scores on test sets of as many sentences, drawn with replacement; the same draws for every system."""
    rng = np.random.default_rng(SEED)
    n_sentences = len(counts.by_sentence)
    scores = []
    for n in _portions(N_RESAMPLES):
        drawn = rng.choice(n_sentences, size=(n, n_sentences))
        n_times = np.array([np.bincount(row, minlength=n_sentences) for row in drawn], np.float64)
        # As float32, in which sacrebleu divides here.
        scores += [counts.score_of(row) for row in (n_times @ counts.by_sentence).astype(np.float32)]
    return np.array(scores)


def _swapped(first: Counts, second: Counts) -> Floats:
    """Differences of scores when each sentence's two translations change places at random."""
    rng = np.random.default_rng(SEED)
    firsts, seconds = first.by_sentence, second.by_sentence
    both = firsts.sum(0) + seconds.sum(0)
    differences = []
    for n in _portions(N_TRIALS):
        is_kept = rng.integers(2, size=(n, len(firsts)), dtype=bool)
        ones = is_kept @ (firsts - seconds) + seconds.sum(0)
        pairs = zip(ones.tolist(), (both - ones).tolist(), strict=True)
        differences += [abs(first.score_of(one) - first.score_of(other)) for one, other in pairs]
    return np.array(differences)


def _portions(n: int) -> Iterator[int]:
    for start in range(0, n, _AT_ONCE):
        yield min(_AT_ONCE, n - start)
