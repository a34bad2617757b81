"""The token ids of a corpus: of a large one memory-mapped from disk, so that memory does not grow with it.

A folder holds, for each side, all ids one after another and where each sentence begins; and the line that each pair
came from. Whether a folder is whole, the run's manifest knows. This file knows ids, not text.
"""

from __future__ import annotations

import contextlib
import copy
import shutil
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

SIDES = ("src", "tgt")
FILES = ("src.ids", "tgt.ids", "src.starts", "tgt.starts", "lines")
_CHUNK_SIZE = 20_000  # pairs: their ids take some tens of megabytes while they are lists

Value = TypeVar("Value")
Ids = npt.NDArray[np.integer]


class TokenPair(NamedTuple):
    """Ids of both sides, without begin and end symbols."""

    src: list[int]
    tgt: list[int]
    line: int


class TokenDataset:
    """Made with `build` or `mapped` in a folder, or with `in_memory`."""

    def __init__(self, ids: dict[str, Ids], starts: dict[str, Ids], lines: Ids):
        # By side, "src" and "tgt". `starts`: where each sentence begins, and at the end where the last one ends.
        self._ids, self._starts, self._lines = ids, starts, lines

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def n_targets(self) -> int:
        """Target tokens of all pairs, end symbols included."""
        return int(self._starts["tgt"][-1]) + len(self)

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence of either side, end symbol included."""
        n_at_once = 1 << 24
        firsts = range(0, len(self), n_at_once)
        return 1 + max(int(side.max()) for first in firsts for side in self.lengths(first, first + n_at_once))

    def src(self, index: int) -> Ids:
        return self._sentence("src", index)

    def tgt(self, index: int) -> Ids:
        return self._sentence("tgt", index)

    def _sentence(self, side: str, index: int) -> Ids:
        starts = self._starts[side]
        return self._ids[side][starts[index] : starts[index + 1]]

    def pair(self, index: int) -> TokenPair:
        return TokenPair(self.src(index).tolist(), self.tgt(index).tolist(), self.line(index))

    def backwards(self) -> TokenDataset:
        """The same pairs from target to source."""
        other = copy.copy(self)
        other._ids, other._starts = _exchanged(self._ids), _exchanged(self._starts)
        return other

    def src_counts(self, vocab_size: int) -> list[int]:
        """How often each source id occurs."""
        counts = np.zeros(vocab_size, np.int64)
        for start in range(0, len(self._ids["src"]), 1 << 24):  # numpy makes 8 bytes of each
            counts += np.bincount(self._ids["src"][start : start + (1 << 24)], minlength=vocab_size)
        return [int(count) for count in counts]

    def lengths(self, first: int, last: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Numbers of source and of target ids of the pairs from `first` to before `last`."""
        src, tgt = (np.diff(self._starts[side][first : last + 1]) for side in ("src", "tgt"))
        return src, tgt

    def lengths_of(self, indices: list[int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Numbers of source and of target ids of these pairs."""
        first = np.asarray(indices, np.int64)
        src, tgt = (self._starts[side][first + 1] - self._starts[side][first] for side in ("src", "tgt"))
        return src, tgt

    def line(self, index: int) -> int:
        """The line of the pair in the files it was read from, counted from 1."""
        return int(self._lines[index])

    @classmethod
    def in_memory(cls, pairs: Sequence[TokenPair]) -> TokenDataset:
        """A small dataset that needs no folder."""
        sides = {"src": [pair.src for pair in pairs], "tgt": [pair.tgt for pair in pairs]}
        return cls(
            {side: np.array([i for ids in of_side for i in ids], np.int64) for side, of_side in sides.items()},
            {side: np.cumsum([0, *map(len, of_side)], dtype=np.int64) for side, of_side in sides.items()},
            np.array([pair.line for pair in pairs], np.int64),
        )

    @classmethod
    def build(cls, folder: Path, pairs: Iterable[TokenPair], vocab_sizes: tuple[int, int]) -> TokenDataset:
        """Writes the pairs as they come. What is in the folder already is deleted. Raises OSError where it cannot be
        written."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)  # Windows keeps what another program has open
        n_ids, dtype = dict.fromkeys(SIDES, 0), _dtype_of(vocab_sizes)
        with contextlib.ExitStack() as stack:
            files = {name: stack.enter_context((folder / name).open("wb")) for name in FILES}
            for side in SIDES:
                files[f"{side}.starts"].write(np.int64(0).tobytes())
            rest = iter(pairs)
            while chunk := list(islice(rest, _CHUNK_SIZE)):
                for number, side in enumerate(SIDES):
                    sentences = [pair[:2][number] for pair in chunk]
                    starts = n_ids[side] + np.cumsum([len(ids) for ids in sentences], dtype=np.int64)
                    files[f"{side}.ids"].write(np.array(list(chain.from_iterable(sentences)), dtype).tobytes())
                    files[f"{side}.starts"].write(starts.tobytes())
                    n_ids[side] = int(starts[-1])
                files["lines"].write(np.array([pair.line for pair in chunk], np.int64).tobytes())
        return cls.mapped(folder, vocab_sizes)

    @classmethod
    def mapped(cls, folder: Path, vocab_sizes: tuple[int, int]) -> TokenDataset:
        """The ids in a folder that is known to be whole."""
        dtype = _dtype_of(vocab_sizes)
        return cls(
            {side: _map(folder / f"{side}.ids", dtype) for side in ("src", "tgt")},
            {side: _map(folder / f"{side}.starts", np.dtype(np.int64)) for side in ("src", "tgt")},
            _map(folder / "lines", np.dtype(np.int64)),
        )


def _dtype_of(vocab_sizes: tuple[int, int]) -> np.dtype:
    return np.dtype(np.uint16 if max(vocab_sizes) <= 1 << 16 else np.uint32)


def _map(path: Path, dtype: np.dtype) -> npt.NDArray:
    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    # As a plain array: slicing a numpy.memmap takes twice as long.
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)


def _exchanged(sides: dict[str, Value]) -> dict[str, Value]:
    return {"src": sides["tgt"], "tgt": sides["src"]}
