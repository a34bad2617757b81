"""Finds where the two sides of a corpus do not belong together: shifted stretches, and single lines with a wrong partner.

The lexical score of a pair (see lexicon.py) becomes the log odds that its two lines belong together: a logistic regression
tells the corpus's own pairs from the same sources beside other targets of like length. Wrong partners among the own pairs
spoil it a little, so both are estimated in turn (expectation maximization): how likely each pair is a wrong one, and the
regression without those; their share of the corpus comes out as well (Saerens et al. 2002). Stretches are the best path
(Viterbi) through the odds of each line with its neighbours' targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mt_cli.checking.lexicon import Floats, Ints, Lexicon
from mt_cli.data.corpus import SentencePair

_MIN_HELD_OUT = 20  # lines that the lexicon held out, of 200 distinct pairs: fewer teach nothing
_PRECISION = 0.95  # expected share of the reported wrong partners that are wrong
_N_RANDOM = 10  # wrong pairs for each held-out line
_N_ROUNDS = 60
_N_STEPS = 20
_MOSTLY = 0.99  # of the pairs are sound: to learn again without the others would change little
_FIRST_SHARE = 0.01  # of wrong partners; where the rounds begin
_RIDGE = 0.01  # keeps the regression finite where the two kinds do not overlap
_MIN_ODDS = 2.0  # mean log odds of a corpus: shuffled ones have 0.3 to 1.2, very free translations 3.7 and more
_MIN_UNITS = 3  # of a line, in the median: a list of single words, each given once, teaches nothing of its pairs
_MAX_SHIFT = 3  # lines
_MAX_ODDS = 5.0  # one line says no more than that about where a stretch begins
_CHANGE = 15.0  # log odds against a change of shift: about three lines must say so at each end
_MIN_LINES = 5  # of a stretch
_MIN_GAIN = 1.0  # log odds a line by which a stretch fits better; shifted captions have 2.5 to 9, sorted words 0.2
_WINDOW = 9  # lines whose mean must be below half of the corpus's before other shifts are tried
_AROUND = 50  # lines at least, at both ends of a stretch, where they are tried as well


class Misaligned(NamedTuple):
    """The pairs `first` to `last`, both included: source i belongs to target i + shift; None: to none near it."""

    first: int
    last: int
    shift: int | None


class Alignment:
    """What a corpus says about its own alignment."""

    def __init__(self, pairs: Sequence[SentencePair]):
        self._lines = np.arange(len(pairs))
        self._lexicon = Lexicon(pairs)
        self._weights, self._p_wrong = np.zeros(4), np.zeros(len(pairs))
        self.stretches = list[Misaligned]()
        self.odds = np.zeros(len(pairs))  # log odds that the sides of a pair belong together: the lower, the worse
        is_sound, is_single = np.ones((2, len(pairs)), dtype=bool)
        for _ in range(2):  # the second time without what was found to be wrong, if that was much
            self._lexicon.learn(is_sound)
            if len(self._lexicon.held_out) < _MIN_HELD_OUT:
                return
            self._fit(is_single)
            self.stretches = self._find_stretches()
            is_single[:] = True
            for stretch in self.stretches:
                is_single[stretch.first : stretch.last + 1] = False
            is_sound = is_single & (self._p_wrong < 0.5)
            if is_sound.mean() > _MOSTLY:
                break
        self._p_wrong[~is_single] = 0
        n_units = np.median(self._lexicon.n_units(self._lines, self._lines), axis=1)
        if n_units.min() >= _MIN_UNITS and is_single.any() and self.odds[is_single].mean() < _MIN_ODDS:
            # The two sides have nothing to do with each other, although they have words enough to learn from.
            self.stretches, self._p_wrong = [Misaligned(0, len(pairs) - 1, None)], np.zeros(len(pairs))

    def wrong_partners(self) -> list[int]:
        """Places outside of stretches whose sides do not belong together: as many as are expected to be 95% right."""
        worst = np.argsort(-self._p_wrong, kind="stable")
        precision = np.cumsum(self._p_wrong[worst]) / (self._lines + 1)
        is_reported = (precision >= _PRECISION) & (self._p_wrong[worst] > 0.5)
        return sorted(int(pair) for pair in worst[is_reported])

    def _find_stretches(self) -> list[Misaligned]:
        """Other shifts are tried where the odds are low alone: a clean corpus finds nothing by chance, and time is saved."""
        shifts = [0, *(shift for n in range(1, _MAX_SHIFT + 1) for shift in (n, -n)), None]
        evidence = np.full((len(self._lines), len(shifts)), -_MAX_ODDS)
        evidence[:, 0] = odds = np.clip(self.odds, -_MAX_ODDS, _MAX_ODDS)
        is_low = np.convolve(odds, np.full(_WINDOW, 1 / _WINDOW), "same") < odds.mean() / 2
        tries = np.convolve(is_low, np.ones(2 * _WINDOW + 1), "same") > 0.5
        is_tried = np.zeros(len(self._lines), dtype=bool)
        while True:
            lines = np.flatnonzero(tries & ~is_tried)
            evidence[lines, 1:] = 0  # of the shift None, and of lines whose target would be outside of the corpus
            for column, shift in enumerate(shifts):
                if shift:
                    src = lines[(lines + shift >= 0) & (lines + shift < len(self._lines))]
                    shifted = self._features(src, src + shift) @ self._weights
                    evidence[src, column] = np.clip(shifted, -_MAX_ODDS, _MAX_ODDS)
            is_tried = tries.copy()
            state = _best_path(evidence)
            bounds = np.flatnonzero(np.diff(state, prepend=-1, append=-1))
            gain = evidence[self._lines, state] - evidence[:, 0]
            stretches = [
                Misaligned(int(first), int(end) - 1, shifts[state[first]])
                for first, end in pairwise(bounds)
                if state[first] != 0 and end - first >= _MIN_LINES and gain[first:end].mean() >= _MIN_GAIN
            ]
            for one in stretches:  # may be longer, or one with the next: some wrong partners look right
                n = max(_AROUND, one.last - one.first)  # doubles, so that there are few rounds
                tries[max(0, one.first - n) : one.last + 1 + n] = True
            if (tries == is_tried).all():
                return stretches

    def _fit(self, is_single: npt.NDArray[np.bool_]) -> None:
        """Learns the odds from the pairs that are in no stretch."""
        rest = np.unique(self._lexicon.first[is_single])  # a repeated pair counts once
        # The wrong pairs: sources beside other targets of like length. Both are lines that the lexicon has not learnt from:
        # it knows no more of them than of a wrong pair whose own counts are left out.
        lines = self._lexicon.held_out
        _, n_tgt = self._lexicon.n_units(lines, lines)
        lines = lines[np.argsort(n_tgt, kind="stable")]  # held-out lines come in a random order
        n_times = min(_N_RANDOM, len(lines) - 1)
        others = np.concatenate([np.roll(lines, n) for n in range(1, n_times + 1)])
        own, wrong = self._features(rest, rest), self._features(np.tile(lines, n_times), others)
        features, is_own = np.concatenate([own, wrong]), np.repeat([1.0, 0.0], [len(own), len(wrong)])
        share, p_wrong = _FIRST_SHARE, np.zeros(len(rest))
        for _ in range(_N_ROUNDS):
            p_right = 1 - p_wrong
            weight = np.concatenate([p_right, np.full(len(wrong), p_right.sum() / len(wrong))])
            self._weights = _regress(features, is_own, weight, self._weights)
            before, p_wrong = p_wrong, _sigmoid(np.log(share / (1 - share)) - own @ self._weights)
            share = max(float(p_wrong.mean()), 1e-9)
            if np.abs(p_wrong - before).max() < 0.01:
                break
        self.odds = self._features(self._lines, self._lines) @ self._weights
        self._p_wrong = _sigmoid(np.log(share / (1 - share)) - self.odds)

    def _features(self, src: Ints, tgt: Ints) -> Floats:
        """What the odds are computed from: (number of pairs, 4). The more units, the more a score says."""
        score = self._lexicon.score(src, tgt)
        length = np.sqrt(np.add(*self._lexicon.n_units(src, tgt)))
        return np.stack([np.ones(len(src)), score, length, score * length], axis=1)


def _sigmoid(odds: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(odds, -50, 50)))


def _regress(features: Floats, is_own: Floats, weight: Floats, start: Floats) -> Floats:
    """The coefficients of a weighted logistic regression, by Newton's method; a step that leads too far is halved."""
    sign = 1 - 2 * is_own

    def loss(coefficients: Floats) -> float:
        entropy = weight @ np.logaddexp(0, sign * (features @ coefficients))
        return float(entropy + _RIDGE / 2 * coefficients @ coefficients)

    coefficients = start
    for _ in range(_N_STEPS):
        p = _sigmoid(features @ coefficients)
        gradient = features.T @ (weight * (is_own - p)) - _RIDGE * coefficients
        curvature = (features * (weight * p * (1 - p))[:, None]).T @ features + _RIDGE * np.eye(len(start))
        step = np.linalg.solve(curvature, gradient)
        while loss(coefficients + step) > loss(coefficients) and np.abs(step).max() > 1e-3:
            step = step / 2
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-3:
            break
    return coefficients


def _best_path(evidence: Floats) -> Ints:
    """The state of each line on the path with the most evidence, where each change of state costs `_CHANGE` (Viterbi)."""
    n_lines, n_states = evidence.shape
    came_from = np.empty((n_lines, n_states), dtype=np.int64)
    total = np.zeros(n_states)
    for line in range(n_lines):
        best = int(total.argmax())
        stays = total >= total[best] - _CHANGE
        came_from[line] = np.where(stays, np.arange(n_states), best)
        total = np.where(stays, total, total[best] - _CHANGE) + evidence[line]
    path = np.empty(n_lines, dtype=np.int64)
    state = int(total.argmax()) if n_lines else 0
    for line in range(n_lines - 1, -1, -1):
        path[line] = state
        state = int(came_from[line, state])
    return path
