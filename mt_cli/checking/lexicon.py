"""Learns from a corpus which words translate which, and scores how well two sentences explain each other.

The measure is IBM model 1 (Brown et al. 1993), learnt in both directions, as Moore (2002) uses it to align sentences. The
score of a pair is the mean over its words of log P(word | the other side) / P(word): above 0 the other side explains the
words. No pair explains itself: what it added to the counts is subtracted before it is scored (leaving one out), so that a
word seen only once counts neither for a pair nor against it.
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
    """Each unit of the source beside each of the target, for some pairs of lines. `src_row` and `tgt_row` count the
    units of these pairs, `src_at` and `tgt_at` are their places in the corpus."""

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
