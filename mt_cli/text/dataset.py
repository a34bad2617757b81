"""The token ids of a corpus on disk, memory-mapped: memory does not grow with the corpus.

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
        dtype = np.dtype(_read_meta(folder)["dtype"])
        self._ids = {side: _map(folder / f"{side}.ids", dtype) for side in ("src", "tgt")}
        self._starts = {side: _map(folder / f"{side}.starts", np.dtype(np.int64)) for side in ("src", "tgt")}
        self._lines = _map(folder / "lines", np.dtype(np.int64))

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def n_targets(self) -> int:
        """Target tokens of all pairs, end symbols included."""
        return int(self._starts["tgt"][-1]) + len(self)

    def src(self, index: int) -> Ids:
        return self._sentence("src", index)

    def tgt(self, index: int) -> Ids:
        return self._sentence("tgt", index)

    def _sentence(self, side: str, index: int) -> Ids:
        starts = self._starts[side]
        return self._ids[side][starts[index] : starts[index + 1]]

    def backwards(self) -> TokenDataset:
        """The same pairs from target to source."""
        other = copy.copy(self)
        other._ids, other._starts = _exchanged(self._ids), _exchanged(self._starts)
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
        dtype = _dtype(vocab_sizes)
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
        content = {**meta, **_described(folder, vocab_sizes)}
        (folder / "meta.json").write_text(json.dumps(content), encoding="utf-8")
        return cls(folder)

    @classmethod
    def open(cls, folder: Path, vocab_sizes: tuple[int, int], meta: dict[str, str]) -> TokenDataset | None:
        """The dataset in `folder` if it is whole and was built from the same `meta` (hashes), else None."""
        try:
            is_whole = _read_meta(folder) == {**meta, **_described(folder, vocab_sizes)}
        except (OSError, ValueError, RecursionError, DataError):
            return None
        return cls(folder) if is_whole else None


def _read_meta(folder: Path) -> dict[str, str]:
    meta: dict[str, str] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    return meta


def _map(path: Path, dtype: np.dtype) -> npt.NDArray:
    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    # As a plain array: slices of numpy's own class for what is mapped take twice as long.
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)


def _described(folder: Path, vocab_sizes: tuple[int, int]) -> dict[str, str]:
    return {"dtype": _dtype(vocab_sizes).name, "files": sha256_of(str(folder / name) for name in _FILES)}


def _dtype(vocab_sizes: tuple[int, int]) -> np.dtype:
    return np.dtype(np.uint16 if max(vocab_sizes) <= 1 << 16 else np.uint32)


def _exchanged(sides: dict[str, Value]) -> dict[str, Value]:
    return {"src": sides["tgt"], "tgt": sides["src"]}
