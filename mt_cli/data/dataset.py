"""The token ids of a corpus: of a large one memory-mapped from disk, so that memory does not grow with it.

A folder holds, for each side, all ids one after another and where each sentence begins; and the line that each pair
came from. The ids are written as they come. The folder is valid only with `meta.json`, which is written last. This file
knows ids, not text.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mt_cli.data.ids_writer import SHARD_SIZE, IdsWriter, described, dtype_of
from mt_cli.errors import DataError

Value = TypeVar("Value")
Ids = npt.NDArray[np.integer]


class TokenPair(NamedTuple):
    """Ids of both sides, without begin and end symbols."""

    src: list[int]
    tgt: list[int]
    line: int


class TokenDataset:
    """Made with `build` or `open` in a folder, or with `in_memory`."""

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
    def build(
        cls, folder: Path, pairs: Iterable[TokenPair], vocab_sizes: tuple[int, int], meta: dict[str, str]
    ) -> TokenDataset:
        """Writes the pairs as they come. What is in the folder already is deleted."""
        rest = iter(pairs)
        with IdsWriter(folder, vocab_sizes) as writer:
            while shard := list(islice(rest, SHARD_SIZE)):
                writer.write(shard)
            writer.finish(meta)
        return cls.mapped(folder, vocab_sizes)

    @classmethod
    def open(cls, folder: Path, vocab_sizes: tuple[int, int], meta: dict[str, str]) -> TokenDataset | None:
        """The dataset in `folder` if it is whole and was built with the same `meta` (hashes), else None."""
        file = folder / "meta.json"
        if not file.is_file():  # a pipe would block for ever
            return None
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
            is_whole = known == {**meta, **described(folder, dtype_of(vocab_sizes))}
        except (OSError, ValueError, RecursionError, DataError):
            return None
        return cls.mapped(folder, vocab_sizes) if is_whole else None

    @classmethod
    def mapped(cls, folder: Path, vocab_sizes: tuple[int, int]) -> TokenDataset:
        """The ids in a folder that is known to be whole."""
        dtype = dtype_of(vocab_sizes)
        return cls(
            {side: _map(folder / f"{side}.ids", dtype) for side in ("src", "tgt")},
            {side: _map(folder / f"{side}.starts", np.dtype(np.int64)) for side in ("src", "tgt")},
            _map(folder / "lines", np.dtype(np.int64)),
        )


def _map(path: Path, dtype: np.dtype) -> npt.NDArray:
    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    # As a plain array: slicing a numpy.memmap takes twice as long.
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)


def _exchanged(sides: dict[str, Value]) -> dict[str, Value]:
    return {"src": sides["tgt"], "tgt": sides["src"]}
