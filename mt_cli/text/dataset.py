"""The token ids of a corpus on disk, memory-mapped: memory and start-up do not grow with the corpus.

A folder holds, for each side, all ids one after another and where each sentence begins; and the line each pair came
from. It is built by streaming and counts only once `meta.json`, written last, is there. This file knows ids, not text.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mt_cli.errors import DataError
from mt_cli.text.corpus import sha256_of

Value = TypeVar("Value")
_FILES = ("src.ids", "tgt.ids", "src.starts", "tgt.starts", "lines")
Ids = npt.NDArray[np.integer]


class TokenPair(NamedTuple):
    """Ids of both sides, without begin and end symbols."""

    src: list[int]
    tgt: list[int]
    line: int


class TokenDataset:
    def __init__(self, folder: Path):
        self.folder = folder
        self.meta: dict[str, str] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        dtype = {name: np.dtype(name) for name in ("uint16", "uint32")}[self.meta["dtype"]]
        self._ids = {side: self._map(f"{side}.ids", dtype) for side in ("src", "tgt")}
        self._starts = {side: self._map(f"{side}.starts", np.dtype(np.int64)) for side in ("src", "tgt")}
        self._lines = self._map("lines", np.dtype(np.int64))
        self._vocab_sizes = {side: int(self.meta[f"{side}_vocab_size"]) for side in ("src", "tgt")}
        for side, starts in self._starts.items():  # a power failure can leave files cut, whatever was written last
            if len(starts) != len(self._lines) + 1 or len(self._ids[side]) != starts[-1]:
                raise ValueError(f"{folder}: {side} is cut")

    def _map(self, name: str, dtype: np.dtype) -> npt.NDArray:
        path = self.folder / name
        if not path.stat().st_size:  # an empty file cannot be mapped
            return np.empty(0, dtype)
        # As a plain array: slices of numpy's own class for what is mapped take twice as long.
        return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)

    def __len__(self) -> int:
        return len(self._lines)

    def src(self, index: int) -> Ids:
        return self._sentence("src", index)

    def tgt(self, index: int) -> Ids:
        return self._sentence("tgt", index)

    def _sentence(self, side: str, index: int) -> Ids:
        starts = self._starts[side]
        ids = self._ids[side][starts[index] : starts[index + 1]]
        if len(ids) and ids.max() >= self._vocab_sizes[side]:
            raise DataError(
                f"{self.folder}: damaged, token {ids.max()} in a {side} vocabulary of {self._vocab_sizes[side]};"
                " delete the folder, it is built again"
            )
        return ids

    def backwards(self) -> TokenDataset:
        """The same pairs from target to source."""
        other = copy.copy(self)
        other._ids, other._starts = _exchanged(self._ids), _exchanged(self._starts)
        other._vocab_sizes = _exchanged(self._vocab_sizes)
        return other

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
        """Where the pair stands in the training files, counted from 1."""
        return int(self._lines[index])

    @classmethod
    def build(
        cls, folder: Path, pairs: Iterable[TokenPair], vocab_sizes: tuple[int, int], meta: dict[str, str]
    ) -> TokenDataset:
        """Writes the pairs as they come; a folder left half-written by a killed process is written anew."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        dtype = np.dtype(np.uint16 if max(vocab_sizes) <= 1 << 16 else np.uint32)
        files = {name: (folder / name).open("wb") for name in _FILES}
        ends = {"src": 0, "tgt": 0}
        try:
            for side in ends:
                files[f"{side}.starts"].write(np.int64(0).tobytes())
            for pair in pairs:
                for side, ids in (("src", pair.src), ("tgt", pair.tgt)):
                    files[f"{side}.ids"].write(np.asarray(ids, dtype).tobytes())
                    ends[side] += len(ids)
                    files[f"{side}.starts"].write(np.int64(ends[side]).tobytes())
                files["lines"].write(np.int64(pair.line).tobytes())
            for file in files.values():  # on the disk before `meta.json` says so
                file.flush()
                os.fsync(file.fileno())
        finally:
            for file in files.values():
                file.close()
        content = {**meta, **_sizes(vocab_sizes), "dtype": dtype.name, "files": _hash(folder)}
        (folder / "meta.json").write_text(json.dumps(content), encoding="utf-8")
        return cls(folder)

    @classmethod
    def open(cls, folder: Path, vocab_sizes: tuple[int, int], meta: dict[str, str]) -> TokenDataset | None:
        """The dataset in `folder` if it is whole and was built from the same `meta` (hashes), else None."""
        try:
            dataset = cls(folder)
            expected = {**dataset.meta, **meta, **_sizes(vocab_sizes), "files": _hash(folder)}
        except (OSError, ValueError, KeyError, TypeError, RecursionError, DataError):
            return None
        return dataset if dataset.meta == expected else None


def _hash(folder: Path) -> str:
    return sha256_of(str(folder / name) for name in _FILES)


def _exchanged(sides: dict[str, Value]) -> dict[str, Value]:
    return {"src": sides["tgt"], "tgt": sides["src"]}


def _sizes(vocab_sizes: tuple[int, int]) -> dict[str, str]:
    return {f"{side}_vocab_size": str(size) for side, size in zip(("src", "tgt"), vocab_sizes, strict=True)}
