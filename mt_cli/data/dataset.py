"""The token ids of the corpora that are trained on, and which of their pairs an epoch has. They are memory-mapped from
a folder, which is whole by the run's manifest: memory does not grow with them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FILES = ("src.ids", "src.starts", "tgt.ids", "tgt.starts", "lines")
BLOCK_SIZE = 1_000  # neighbouring pairs that stay together: a large file is read block by block, not pair by pair
_FEWEST_PIECES = 100  # into which a corpus is cut where an epoch has some of it
_PAIRS_AT_ONCE = 20_000  # their ids take some tens of megabytes while they are lists
_NUMBERS_AT_ONCE = 1 << 24

Ids = npt.NDArray[np.integer]
Lengths = npt.NDArray[np.int64]
Row = tuple[Ids, Lengths]  # the ids of some sentences one after another, and how many each has
Block = list[tuple[int, int]]  # stretches of pairs: first, and the one after the last


class TokenPair(NamedTuple):
    """Ids of both sides, without begin and end symbols."""

    src: list[int]
    tgt: list[int]
    line: int


class Side(NamedTuple):
    """The sentences of one side, one after another."""

    ids: Ids
    starts: Ids  # where each sentence begins, and where the last one ends

    def row(self, indices: Lengths) -> Row:
        starts, lengths = self.starts[indices], self.starts[indices + 1] - self.starts[indices]
        return self.ids[np.arange(lengths.sum()) + np.repeat(starts - lengths.cumsum() + lengths, lengths)], lengths


@dataclass(frozen=True)
class TokenDataset:
    """One corpus."""

    src: Side
    tgt: Side
    lines: Ids  # of the pairs in the files that they were read from, counted from 1
    weight: float = 1.0  # how often an epoch has each pair
    name: str = ""  # for messages; '' where there is but one corpus
    src_tags: tuple[int, ...] = ()  # ids that stand before each source
    back_tags: tuple[int, ...] = ()  # the same when the pairs are read from target to source
    is_synthetic: bool = False  # its sources were written by a model, so they are no targets to learn
    last_weight: float | None = None  # in the last phase of the training; None: as weight

    @classmethod
    def in_memory(cls, pairs: Sequence[TokenPair]) -> TokenDataset:
        sides = [[pair.src for pair in pairs], [pair.tgt for pair in pairs]]
        src, tgt = (
            Side(np.array([*chain.from_iterable(side)], np.int64), np.cumsum([0, *map(len, side)], dtype=np.int64))
            for side in sides
        )
        return cls(src, tgt, np.array([pair.line for pair in pairs], np.int64))

    @classmethod
    def build(cls, folder: Path, pairs: Iterable[TokenPair], vocab_sizes: tuple[int, int]) -> TokenDataset:
        """Writes the pairs into the folder as they come, in place of what is there. Raises OSError."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)  # Windows keeps what another program has open
        dtype, rest = _dtype_of(vocab_sizes), iter(pairs)
        with contextlib.ExitStack() as stack:
            *sides, lines = (stack.enter_context((folder / name).open("wb")) for name in FILES)
            for starts in sides[1::2]:
                starts.write(np.int64(0).tobytes())
            while chunk := list(islice(rest, _PAIRS_AT_ONCE)):
                dataset = cls.in_memory(chunk)
                for side, ids, starts in zip((dataset.src, dataset.tgt), sides[::2], sides[1::2], strict=True):
                    starts.write((side.starts[1:] + ids.tell() // dtype.itemsize).tobytes())
                    ids.write(side.ids.astype(dtype).tobytes())
                lines.write(dataset.lines.tobytes())
        return cls.mapped(folder, vocab_sizes)

    @classmethod
    def mapped(cls, folder: Path, vocab_sizes: tuple[int, int]) -> TokenDataset:
        """The ids in a folder that is known to be whole."""
        of_ids, of_numbers = _dtype_of(vocab_sizes), np.dtype(np.int64)
        src_ids, src_starts, tgt_ids, tgt_starts, lines = (
            # As plain arrays: slicing a numpy.memmap takes twice as long. An empty file cannot be mapped.
            np.memmap(file, dtype=dtype, mode="r").view(np.ndarray) if file.stat().st_size else np.empty(0, dtype)
            for name, dtype in zip(FILES, (of_ids, of_numbers, of_ids, of_numbers, of_numbers), strict=True)
            for file in [folder / name]
        )
        return cls(Side(src_ids, src_starts), Side(tgt_ids, tgt_starts), lines)

    def __len__(self) -> int:
        return len(self.lines)

    def lengths(self, indices: npt.ArrayLike) -> tuple[Lengths, Lengths]:
        """Numbers of source and of target ids of these pairs."""
        first = np.asarray(indices, np.int64)
        src, tgt = (side.starts[first + 1] - side.starts[first] for side in (self.src, self.tgt))
        return src + len(self.src_tags), tgt

    def rows(self, indices: npt.ArrayLike) -> tuple[Row, Row]:
        """The sources and the targets of these pairs. As whole arrays: a GPU would wait for a loop over pairs."""
        indices = np.asarray(indices, np.int64)
        (src, n_src), tgt = self.src.row(indices), self.tgt.row(indices)
        if self.src_tags:
            begins = np.repeat(n_src.cumsum() - n_src, len(self.src_tags))
            src = np.insert(src, begins, np.tile(self.src_tags, len(n_src)))
        return (src, n_src + len(self.src_tags)), tgt

    def backwards(self) -> TokenDataset:
        """The same pairs from target to source; synthetic ones stay as they are."""
        if self.is_synthetic:
            return self
        return replace(self, src=self.tgt, tgt=self.src, src_tags=self.back_tags, back_tags=self.src_tags)


def _dtype_of(vocab_sizes: tuple[int, int]) -> np.dtype:
    return np.dtype(np.uint16 if max(vocab_sizes) <= 1 << 16 else np.uint32)


class Mixture:
    """Several corpora as one. A pair's index counts through all of them; its source ids begin with its corpus' tags."""

    def __init__(self, parts: Sequence[TokenDataset]):
        self.parts = list(parts)
        self._firsts = np.cumsum([0, *(len(part) for part in parts)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def _by_part(self, indices: npt.ArrayLike) -> Iterator[tuple[npt.NDArray[np.bool_], TokenDataset, Lengths]]:
        """Which of these pairs are of each part, and their indices there."""
        places = np.asarray(indices, np.int64)
        numbers = np.searchsorted(self._firsts, places, side="right") - 1
        for number in np.unique(numbers):
            is_own = numbers == number
            yield is_own, self.parts[number], places[is_own] - self._firsts[number]

    def pair(self, index: int) -> TokenPair:
        ((_, part, own),), ((src, _), (tgt, _)) = self._by_part([index]), self.rows([index])
        return TokenPair(src.tolist(), tgt.tolist(), int(part.lines[own[0]]))

    def format_location(self, index: int) -> str:
        """The line of the pair, such as `12` or `web.tsv:12`."""
        ((_, part, own),) = self._by_part([index])
        line = part.lines[own[0]]
        return f"{part.name}:{line}" if part.name else str(line)

    def lengths(self, indices: npt.ArrayLike) -> tuple[Lengths, Lengths]:
        """Numbers of source and of target ids of these pairs."""
        src, tgt = np.empty((2, np.size(indices)), np.int64)
        for is_own, part, own in self._by_part(indices):
            src[is_own], tgt[is_own] = part.lengths(own)
        return src, tgt

    def rows(self, indices: npt.ArrayLike) -> tuple[Row, Row]:
        """The sources and the targets of these pairs."""
        n_src, n_tgt = self.lengths(indices)
        src, tgt = np.empty(n_src.sum(), np.int64), np.empty(n_tgt.sum(), np.int64)
        for is_own, part, own in self._by_part(indices):
            (src[np.repeat(is_own, n_src)], _), (tgt[np.repeat(is_own, n_tgt)], _) = part.rows(own)
        return (src, n_src), (tgt, n_tgt)

    @property
    def has_last_phase(self) -> bool:
        """Whether the last phase of a training has other weights."""
        return any(part.last_weight not in {None, part.weight} for part in self.parts)

    @property
    def n_pairs(self) -> float:
        """Pairs of an epoch, each as often as it has it."""
        return sum(part.weight * len(part) for part in self.parts)

    @property
    def n_sources(self) -> int:
        """Source tokens of an epoch, tags and end symbols included."""
        return round(sum(one.weight * (len(one.src.ids) + (len(one.src_tags) + 1) * len(one)) for one in self.parts))

    @property
    def n_targets(self) -> int:
        """Target tokens of an epoch, end symbols included."""
        return round(sum(one.weight * (len(one.tgt.ids) + len(one)) for one in self.parts))

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence of either side, tags and end symbol included."""
        found = []
        for part in self.parts:
            n_more = 1 + max(len(part.src_tags), len(part.back_tags))
            for first in range(0, len(part), _NUMBERS_AT_ONCE):
                stretch = slice(first, first + _NUMBERS_AT_ONCE + 1)
                for side in (part.src, part.tgt):
                    found.append(n_more + int(np.diff(side.starts[stretch]).max()))
        return max(found)

    def src_counts(self, vocab_size: int) -> list[int]:
        """How often each source id occurs in all corpora, once each."""
        total = np.zeros(vocab_size, np.int64)
        for part in self.parts:
            ids = part.src.ids
            for first in range(0, len(ids), _NUMBERS_AT_ONCE):  # numpy makes 8 bytes of each
                total += np.bincount(ids[first : first + _NUMBERS_AT_ONCE], minlength=vocab_size)
            total[list(part.src_tags)] += len(part)
        return [int(count) for count in total]

    def backwards(self) -> Mixture:
        """The same pairs from target to source, but for synthetic ones, which stay as they are."""
        return Mixture([part.backwards() for part in self.parts])

    def sample(self, n: int) -> TokenDataset:
        """At most `n` pairs from all over the corpora, in memory; the same ones each time."""
        chosen = range(0, len(self), max(1, -(-len(self) // max(1, n))))
        return TokenDataset.in_memory([self.pair(i) for i in chosen])

    def blocks(self, seed: int, epoch: int, is_last_phase: bool = False) -> list[Block]:
        """The pairs of an epoch, each as often as its corpus' weight says. A function of the arguments alone."""
        blocks = list[Block]()
        for number, (part, start) in enumerate(zip(self.parts, self._firsts.tolist(), strict=False)):
            rng = np.random.default_rng((seed, number, 1))  # the same one in all epochs
            weight = part.last_weight if is_last_phase and part.last_weight is not None else part.weight
            chosen = chosen_blocks(len(part), weight, rng, epoch)
            blocks += [[(start + first, start + last) for first, last in block] for block in chosen]
        return blocks


def chosen_blocks(n_pairs: int, weight: float, rng: np.random.Generator, epoch: int) -> list[Block]:
    """What an epoch has of a corpus: the next pairs of one endless sequence; pieces of a part of it are ordered by `rng`."""
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
