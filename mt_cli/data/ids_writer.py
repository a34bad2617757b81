"""Writes token ids into a folder, shard after shard: a start that was killed goes on after the last whole shard.

The files are those of `TokenDataset`, and the bytes do not depend on where a start broke off. What is whole stands in
`shards.json`, which is written after its ids are on the disk, and only where another shard follows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from mt_cli.data.known_hashes import HASHES, known_sha256
from mt_cli.files import write_text

SIDES = ("src", "tgt")
FILES = ("src.ids", "tgt.ids", "src.starts", "tgt.starts", "lines")
SHARD_SIZE = 20_000  # pairs: their ids take some tens of megabytes while they are lists


class IdsWriter:
    """Its shards are consecutive pairs; the caller cuts the same ones in each start."""

    def __init__(self, folder: Path, vocab_sizes: tuple[int, int], made_of: dict[str, str] | None = None):
        """`made_of`: all that the pairs depend on. What a killed start wrote of the same is kept; without it, nothing is."""
        self._folder, self._dtype = folder, dtype_of(vocab_sizes)
        self._made_of = {**made_of, "dtype": self._dtype.name} if made_of is not None else None
        self._record = folder / "shards.json"
        self._ends = self._whole_shards()  # of the shards, in pairs
        self._is_recorded = True
        if not self._ends:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)  # Windows keeps what another program has open
        self._n_ids = dict.fromkeys(SIDES, 0)
        self._files = self._opened()

    def _whole_shards(self) -> list[int]:
        """Those of an earlier start, if their files have all that they should have."""
        if self._made_of is None:
            return []
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
            ends = [int(end) for end in record["ends"]]
            sizes = {name: (self._folder / name).stat().st_size for name in FILES}
            is_whole = record["made_of"] == self._made_of and all(
                sizes[f"{side}.starts"] >= 8 * (ends[-1] + 1)
                and sizes["lines"] >= 8 * ends[-1]
                and sizes[f"{side}.ids"] >= self._start(side, ends[-1]) * self._dtype.itemsize
                for side in SIDES
            )
        except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
            return []
        return ends if is_whole else []

    def _start(self, side: str, index: int) -> int:
        return int(np.fromfile(self._folder / f"{side}.starts", np.int64, 1, offset=8 * index)[0])

    def _opened(self) -> dict[str, IO[bytes]]:
        """The files, without what comes after the last whole shard."""
        if not self._ends:
            files: dict[str, IO[bytes]] = {name: (self._folder / name).open("wb") for name in FILES}
            for side in SIDES:
                files[f"{side}.starts"].write(np.int64(0).tobytes())
            return files
        self._n_ids = {side: self._start(side, self._ends[-1]) for side in SIDES}
        sizes = {f"{side}.starts": 8 * (self._ends[-1] + 1) for side in SIDES}
        sizes |= {f"{side}.ids": n * self._dtype.itemsize for side, n in self._n_ids.items()}
        files = {name: (self._folder / name).open("r+b") for name in FILES}
        for name, file in files.items():
            file.truncate(sizes.get(name, 8 * self._ends[-1]))
            file.seek(0, os.SEEK_END)
        return files

    def __enter__(self) -> IdsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    @property
    def n_shards(self) -> int:
        return len(self._ends)

    def lines_of(self, shard: int) -> list[int]:
        """The lines of the pairs of a shard that is written."""
        first = self._ends[shard - 1] if shard else 0
        self._files["lines"].flush()
        lines = np.fromfile(self._folder / "lines", np.int64, self._ends[shard] - first, offset=8 * first)
        return [int(line) for line in lines]

    def write(self, pairs: Sequence[tuple[list[int], list[int], int]]) -> None:
        """Adds a shard: of each pair, source ids, target ids and line."""
        if not self._is_recorded:
            self._note_shards()
        for number, side in enumerate(SIDES):
            sentences = [pair[:2][number] for pair in pairs]
            starts = self._n_ids[side] + np.cumsum([len(ids) for ids in sentences], dtype=np.int64)
            ids = np.array(list(chain.from_iterable(sentences)), self._dtype)
            self._files[f"{side}.ids"].write(ids.tobytes())
            self._files[f"{side}.starts"].write(starts.tobytes())
            self._n_ids[side] += len(ids)
        self._files["lines"].write(np.array([line for _, _, line in pairs], np.int64).tobytes())
        self._ends.append((self._ends[-1] if self._ends else 0) + len(pairs))
        self._is_recorded = self._made_of is None

    def _note_shards(self) -> None:
        self._sync()
        write_text(self._record, json.dumps({"made_of": self._made_of, "ends": self._ends}))

    def _sync(self) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())

    def finish(self, meta: dict[str, str]) -> None:
        """Makes the folder valid: `meta.json` is written when all else is on the disk."""
        self._sync()
        content = {**meta, **described(self._folder, self._dtype)}
        (self._folder / "meta.json").write_text(json.dumps(content), encoding="utf-8")
        self._record.unlink(missing_ok=True)  # not before: to hash gigabytes takes long


def described(folder: Path, dtype: np.dtype) -> dict[str, str]:
    return {"dtype": dtype.name, "files": known_sha256([str(folder / name) for name in FILES], folder.parent / HASHES)}


def dtype_of(vocab_sizes: tuple[int, int]) -> np.dtype:
    return np.dtype(np.uint16 if max(vocab_sizes) <= 1 << 16 else np.uint32)
