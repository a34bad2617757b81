"""Finds where the two sides of a corpus do not belong together: shifted stretches, and single lines with a wrong partner.

IBM model 1 (Brown et al. 1993) in both directions gives each pair a score (Moore 2002): the mean over its words of
log P(word | the other side) / P(word), without what the pair itself has added to the counts. A logistic regression, which
tells pairs from the same sources beside other targets, makes it the log odds that the lines belong together; how likely
each pair is wrong, and the regression without those, are estimated in turn (Saerens et al. 2002). Stretches are the best
path (Viterbi) through the odds of each line with its neighbours' targets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mt_cli.data.corpus import SentencePair
from mt_cli.data.normalize import UNSPACED

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_WORDS = re.compile(rf"([{UNSPACED}]+)|([^\W_{UNSPACED}](?:[^\s{UNSPACED}]*[^\W_{UNSPACED}])?)")
_PREFIX = 4  # characters: inflected forms share their statistics, which a small corpus needs
_MAX_UNITS = 80  # of a sentence: the work grows with the square of its length
_MAX_CELLS = 4_000_000  # unit pairs to learn from, which bounds memory and time: some 30,000 pairs of 12 words
_CHUNK_CELLS = 1_000_000  # unit pairs scored at once
_HELD_OUT, _MAX_HELD_OUT = 0.1, 3000  # of the distinct pairs: a share, and a number
_N_ITERATIONS = 4
_PRIOR = 1.0  # occurrences of a word that count as much as what is known of all words
_COPIED = 0.1  # share of that prior for the same word on the other side: a name, a number
_CLEAR = 30.0  # times as probable as by chance, both ways multiplied: then two units translate each other
_DISCOUNT = 0.2  # translations: a word seen once has a little of each word beside it, which is no evidence


def unit_places(text: str) -> dict[str, tuple[int, int]]:
    """The distinct units and their places: the first letters of each word; without spaces, one or two characters."""
    found, lowered = dict[str, tuple[int, int]](), text.lower()
    for match in _WORDS.finditer(lowered if len(lowered) == len(text) else text):
        start, end = match.span()
        if match[2]:
            found.setdefault(match[2][:_PREFIX], (start, end))
        else:
            for size in (1, 2):
                for i in range(start, end - size + 1):
                    found.setdefault(lowered[i : i + size], (i, i + size))
    return dict(islice(found.items(), _MAX_UNITS))


class Lexicon:
    """The lexical measure of a corpus. It knows nothing of the order of lines."""

    def __init__(self, pairs: Sequence[SentencePair]):
        vocabulary, seen = dict[str, int](), dict[tuple[str, str], int]()
        texts = (text for pair in pairs for text in pair[:2])
        lines = [[vocabulary.setdefault(unit, len(vocabulary)) for unit in unit_places(text)] for text in texts]
        counts = np.bincount([unit for line in lines for unit in line], minlength=len(vocabulary))
        self.units, self._n_units = list(vocabulary), len(vocabulary)
        self._src, self._tgt = (_Side(lines[side::2], counts) for side in (0, 1))
        # Repeated pairs would explain each other, so each is learnt once: the first stands for all.
        self.first = np.array([seen.setdefault(pair[:2], line) for line, pair in enumerate(pairs)], dtype=np.int64)

    def learn(self, is_sound: npt.NDArray[np.bool_]) -> None:
        """Learns from the marked pairs, or a sample of them, by expectation maximization in both directions."""
        distinct = np.random.default_rng(0).permutation(np.unique(self.first[is_sound]))
        n_cells = np.cumsum(self._src.n[distinct] * self._tgt.n[distinct])
        n_learnt = min(round(len(distinct) * (1 - _HELD_OUT)), int(np.sum(n_cells <= _MAX_CELLS)))
        # Nothing was learnt from these lines, and no two are the same pair.
        self.held_out = distinct[n_learnt : n_learnt + _MAX_HELD_OUT]
        lines = np.sort(distinct[:n_learnt])
        self._is_learnt = np.isin(np.arange(len(self.first)), lines)
        cells = _Cells.of(self._src, lines, self._tgt, lines)
        keys, key = np.unique(cells.src * self._n_units + cells.tgt, return_inverse=True)
        ends = np.divmod(keys, self._n_units)
        self._forward = _Direction(cells, key, ends[0], self._n_units, len(self._src.units))
        self._backward = _Direction(cells.reversed(), key, ends[1], self._n_units, len(self._tgt.units))
        self._own_score = np.zeros(len(self.first))
        self._own_score[lines] = self._forward.own_score + self._backward.own_score
        is_kept = np.maximum(self._forward.counts, self._backward.counts) > _DISCOUNT
        self._keys = keys[is_kept]
        for direction in (self._forward, self._backward):
            direction.counts = np.append(direction.counts[is_kept], 0.0)  # the last is that of all other unit pairs

    def score(self, src: Ints, tgt: Ints) -> Floats:
        """How well line src[i] and line tgt[i] explain each other, for each i; 0 where their words are unknown."""
        chunk = np.cumsum(self._src.n[src] * self._tgt.n[tgt]) // _CHUNK_CELLS
        src, tgt, found = self.first[src], self.first[tgt], np.zeros(len(src))
        for first, last in pairwise(np.flatnonzero(np.diff(chunk, prepend=-1, append=-1))):
            cells = _Cells.of(self._src, src[first:last], self._tgt, tgt[first:last])
            found[first:last] = sum(way.score(own, lift) for way, own, lift in self._lifts(cells))
        return np.where((src == tgt) & self._is_learnt[src], self._own_score[src], found)

    def links(self, lines: Ints) -> tuple[Ints, Ints, Ints]:
        """The units of these lines that are each other's best translation: the number of the line, and both `units`."""
        own = self.first[lines]
        cells = _Cells.of(self._src, own, self._tgt, own)
        mutual = np.prod([lift for _, _, lift in self._lifts(cells)], axis=0)
        best = [np.zeros(int(n.sum())) for n in (cells.n_src, cells.n_tgt)]
        for of_row, row in zip(best, (cells.src_row, cells.tgt_row), strict=True):
            np.maximum.at(of_row, row, mutual)
        is_best = (mutual >= best[0][cells.src_row]) & (mutual >= best[1][cells.tgt_row]) & (mutual > _CLEAR)
        return cells.pair[is_best], cells.src[is_best], cells.tgt[is_best]

    def n_units(self, src: Ints, tgt: Ints) -> tuple[Ints, Ints]:
        """How many units of these lines the score rests on."""
        return self._src.n[src], self._tgt.n[tgt]

    def _lifts(self, cells: _Cells) -> list[tuple[_Direction, _Cells, Floats]]:
        """Either direction, with its cells and their lifts."""
        wanted = cells.src * self._n_units + cells.tgt
        # The number of the unit pair in each cell, the last where it is unknown.
        key = np.searchsorted(self._keys, wanted)
        key[np.append(self._keys, -1)[key] != wanted] = len(self._keys)
        ways = (self._forward, cells), (self._backward, cells.reversed())
        return [(way, own, way.lift(own, way.counts[key])) for way, own in ways]


class _Side:
    """One side in numbers: the units of all lines, their number, their beginning. Units that occur once say nothing."""

    def __init__(self, lines: Sequence[Sequence[int]], counts: Ints):
        units = np.array([unit for line in lines for unit in line], dtype=np.int64)
        line_of = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
        is_kept = counts[units] > 1
        self.units = units[is_kept]
        self.n = np.bincount(line_of[is_kept], minlength=len(lines))
        self.start = np.cumsum(self.n) - self.n


class _Cells(NamedTuple):
    """Each unit of the source beside each of the target. `_row` counts units of these pairs, `_at` those of the corpus."""

    src: Ints
    tgt: Ints
    src_at: Ints
    tgt_at: Ints
    src_row: Ints
    tgt_row: Ints
    pair: Ints
    n_src: Ints  # of each pair
    n_tgt: Ints

    @classmethod
    def of(cls, src_side: _Side, src: Ints, tgt_side: _Side, tgt: Ints) -> _Cells:
        n_src, n_tgt = src_side.n[src], tgt_side.n[tgt]
        pair = np.repeat(np.arange(len(src)), n_src * n_tgt)
        cell = np.arange(len(pair)) - (np.cumsum(n_src * n_tgt) - n_src * n_tgt)[pair]
        i, j = np.divmod(cell, n_tgt[pair])
        src_at, tgt_at = src_side.start[src][pair] + i, tgt_side.start[tgt][pair] + j
        src_row, tgt_row = (np.cumsum(n_src) - n_src)[pair] + i, (np.cumsum(n_tgt) - n_tgt)[pair] + j
        return cls(src_side.units[src_at], tgt_side.units[tgt_at], src_at, tgt_at, src_row, tgt_row, pair, n_src, n_tgt)

    def reversed(self) -> _Cells:
        return _Cells(
            self.tgt, self.src, self.tgt_at, self.src_at, self.tgt_row, self.src_row, self.pair, self.n_tgt, self.n_src
        )


class _Direction:
    """IBM model 1 of the target given the source."""

    def __init__(self, cells: _Cells, key: Ints, src_of_key: Ints, n_units: int, n_places: int):
        """Learns from `cells`; `key` is the number of the unit pair in each."""
        n_lines = _sums(1 / cells.n_src[cells.pair], cells.tgt, n_units)  # that have the unit
        self.share = np.maximum(n_lines, 1) / max(n_lines.sum(), 1)  # P(target unit)
        posterior = 1 / (cells.n_src[cells.pair] + 1.0)  # 1 for the empty word, which gives each unit its share
        for _ in range(_N_ITERATIONS):
            self.counts = _sums(posterior, key, len(src_of_key))  # expected number of translations, for each unit pair
            self.totals = _sums(self.counts, src_of_key, n_units)  # and in all, for each source unit
            self.own = _sums(posterior, cells.src_at, n_places)  # and those in the line itself, for each place
            lift = self.lift(cells, self.counts[key] - posterior)
            posterior = lift / self._explained(cells, lift)[cells.tgt_row]
        self.own_score = self.score(cells, lift)

    def score(self, cells: _Cells, lift: Floats) -> Floats:
        """For each pair the mean over target units of log P(unit | source) / P(unit)."""
        pair = np.repeat(np.arange(len(cells.n_tgt)), cells.n_tgt)
        logs = np.log(self._explained(cells, lift) / (cells.n_src[pair] + 1))
        return _sums(logs, pair, len(cells.n_tgt)) / np.maximum(cells.n_tgt, 1)

    def lift(self, cells: _Cells, counts: Floats) -> Floats:
        """P(target unit | source unit) / P(target unit) for each cell, without what the unit's own line has added."""
        prior = _PRIOR * ((1 - _COPIED) * self.share[cells.tgt] + _COPIED * (cells.src == cells.tgt))
        totals = self.totals[cells.src] - self.own[cells.src_at]
        # Sums of floats in another order may differ in the last digits.
        return (np.maximum(counts - _DISCOUNT, 0) + prior) / (np.maximum(totals, 0) + _PRIOR) / self.share[cells.tgt]

    @staticmethod
    def _explained(cells: _Cells, lift: Floats) -> Floats:
        """What all source units, and the empty word, say for each target unit of each pair."""
        return 1 + _sums(lift, cells.tgt_row, int(cells.n_tgt.sum()))


def _sums(values: Floats, places: Ints, n_places: int) -> Floats:
    """The sum of the values that belong to each place."""
    return np.bincount(places, values, n_places).astype(np.float64, copy=False)


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
