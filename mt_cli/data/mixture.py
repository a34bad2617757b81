"""The corpora that are trained on, as one: which of their pairs an epoch has, and the ids of each.

A pair is known by its index, which counts through all corpora. Which pairs an epoch has is a function of (seed, epoch)
alone. This file knows ids, not text.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mt_cli.data.dataset import Ids, TokenDataset, TokenPair

Lengths = npt.NDArray[np.int64]
Block = list[tuple[int, int]]  # stretches of pairs: first, and the one after the last
BLOCK_SIZE = 1_000  # neighbouring pairs that stay together: a large file is read block by block, not pair by pair
_FEWEST_PIECES = 100  # into which a corpus is cut where an epoch has some of it


@dataclass(frozen=True)
class Part:
    """A corpus in a mixture."""

    dataset: TokenDataset
    weight: float = 1.0  # how often an epoch has each pair
    name: str = ""  # for messages; '' where there is but one corpus
    src_tags: tuple[int, ...] = ()  # ids that stand before each source
    back_tags: tuple[int, ...] = ()  # the same when the pairs are read from target to source
    is_synthetic: bool = False  # its sources were written by a model, so they are no targets to learn

    def src(self, index: int) -> Ids:
        ids = self.dataset.src(index)
        return np.concatenate([np.asarray(self.src_tags, ids.dtype), ids]) if self.src_tags else ids

    def pair(self, index: int) -> TokenPair:
        src, tgt, line = self.dataset.pair(index)
        return TokenPair([*self.src_tags, *src], tgt, line)

    def with_tags(self, lengths: tuple[Lengths, Lengths]) -> tuple[Lengths, Lengths]:
        """The lengths of pairs of the dataset, their tags counted."""
        src, tgt = lengths
        return src + len(self.src_tags), tgt

    def src_counts(self, vocab_size: int) -> list[int]:
        counts = self.dataset.src_counts(vocab_size)
        for tag in self.src_tags:
            counts[tag] += len(self.dataset)
        return counts

    def backwards(self) -> Part:
        if self.is_synthetic:
            return self
        return replace(self, dataset=self.dataset.backwards(), src_tags=self.back_tags, back_tags=self.src_tags)


class Mixture:
    """Its source ids begin with the tags of their part."""

    def __init__(self, parts: Sequence[Part]):
        self.parts = list(parts)
        self._firsts = np.cumsum([0, *(len(part.dataset) for part in parts)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @property
    def n_targets(self) -> int:
        """Target tokens of an epoch, end symbols included."""
        return round(sum(part.weight * part.dataset.n_targets for part in self.parts))

    @property
    def n_sources(self) -> int:
        """Source tokens of an epoch, tags and end symbols included."""
        ids = (
            (part, part.dataset.backwards().n_targets + len(part.src_tags) * len(part.dataset)) for part in self.parts
        )
        return round(sum(part.weight * n for part, n in ids))

    @property
    def n_pairs(self) -> float:
        """Pairs of an epoch, each as often as it has it."""
        return sum(part.weight * len(part.dataset) for part in self.parts)

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence of either side, tags and end symbol included."""
        return max(part.dataset.longest + max(len(part.src_tags), len(part.back_tags)) for part in self.parts)

    def src(self, index: int) -> Ids:
        part, own_index = self._find(index)
        return part.src(own_index)

    def tgt(self, index: int) -> Ids:
        part, own_index = self._find(index)
        return part.dataset.tgt(own_index)

    def pair(self, index: int) -> TokenPair:
        """The pair with its line in the file of its corpus."""
        part, own_index = self._find(index)
        return part.pair(own_index)

    def where(self, index: int) -> str:
        """The line of the pair, such as `12` or `web.tsv:12`."""
        part, own_index = self._find(index)
        line = part.dataset.line(own_index)
        return f"{part.name}:{line}" if part.name else str(line)

    def _find(self, index: int) -> tuple[Part, int]:
        number = int(np.searchsorted(self._firsts, index, side="right")) - 1 if len(self.parts) > 1 else 0
        return self.parts[number], index - int(self._firsts[number])

    def lengths(self, first: int, last: int) -> tuple[Lengths, Lengths]:
        """Numbers of source and of target ids of the pairs from `first` to before `last`."""
        found = [
            part.with_tags(part.dataset.lengths(max(0, first - start), min(len(part.dataset), last - start)))
            for part, start in zip(self.parts, self._firsts.tolist(), strict=False)
            if first < start + len(part.dataset) and start < last
        ]
        src, tgt = (np.concatenate(side) for side in zip(*found, strict=True)) if found else (_NONE, _NONE)
        return src, tgt

    def lengths_of(self, indices: Sequence[int]) -> tuple[Lengths, Lengths]:
        """Numbers of source and of target ids of these pairs."""
        places = np.asarray(indices, np.int64)
        numbers = np.searchsorted(self._firsts, places, side="right") - 1
        src, tgt = np.empty_like(places), np.empty_like(places)
        for number in np.unique(numbers):
            is_own = numbers == number
            part, own = self.parts[number], places[is_own] - self._firsts[number]
            src[is_own], tgt[is_own] = part.with_tags(part.dataset.lengths_of(own))
        return src, tgt

    def src_counts(self, vocab_size: int) -> list[int]:
        """How often each source id occurs in all corpora, once each."""
        return [sum(counts) for counts in zip(*(part.src_counts(vocab_size) for part in self.parts), strict=True)]

    def backwards(self) -> Mixture:
        """The same pairs from target to source, but for synthetic ones, which stay as they are."""
        other = copy.copy(self)
        other.parts = [part.backwards() for part in self.parts]
        return other

    def sample(self, n: int) -> TokenDataset:
        """At most `n` pairs from all parts of the corpora, in memory; the same ones each time."""
        chosen = range(0, len(self), max(1, -(-len(self) // max(1, n))))
        return TokenDataset.in_memory([self.pair(i) for i in chosen])

    def blocks(self, seed: int, epoch: int) -> list[Block]:
        """The pairs of an epoch, each as often as its corpus' weight says."""
        blocks = list[Block]()
        for number, (part, start) in enumerate(zip(self.parts, self._firsts.tolist(), strict=False)):
            rng = np.random.default_rng((seed, number, 1))  # the same one in all epochs
            chosen = chosen_blocks(len(part.dataset), part.weight, rng, epoch)
            blocks += [[(start + first, start + last) for first, last in block] for block in chosen]
        return blocks


_NONE = np.empty(0, np.int64)


def chosen_blocks(n_pairs: int, weight: float, rng: np.random.Generator, epoch: int) -> list[Block]:
    """What an epoch has of a corpus.

    Epochs take their pairs in turn from one endless sequence, in which the corpus follows on itself. So at any time, no
    pair was used more than once more often than another. Where an epoch has some of the pairs, that sequence has the
    pieces of the corpus in an order drawn from `rng`, since a file may begin with other text than it ends with.
    """
    begin, end = round(epoch * weight * n_pairs), round((epoch + 1) * weight * n_pairs)  # in the sequence
    if begin == end:
        return []
    is_whole = float(weight).is_integer()
    size = BLOCK_SIZE if is_whole else min(BLOCK_SIZE, max(1, n_pairs // _FEWEST_PIECES))
    n_pieces = -(-n_pairs // size)
    firsts = size * (np.arange(n_pieces) if is_whole else rng.permutation(n_pieces))
    lasts = np.minimum(firsts + size, n_pairs)
    ends = np.cumsum(lasts - firsts)  # of the pieces, in one turn of the sequence
    pieces = Block()
    for turn in range(begin // n_pairs, -(-end // n_pairs)):
        low, high = max(0, begin - turn * n_pairs), min(n_pairs, end - turn * n_pairs)
        own = slice(np.searchsorted(ends, low, side="right"), np.searchsorted(ends, high) + 1)
        cut_firsts = np.maximum(firsts[own], lasts[own] - (ends[own] - low))
        cut_lasts = np.minimum(lasts[own], lasts[own] - (ends[own] - high))
        pieces += zip(cut_firsts.tolist(), cut_lasts.tolist(), strict=True)
    n = BLOCK_SIZE // size  # pieces of a block
    return [pieces[i : i + n] for i in range(0, len(pieces), n)]
