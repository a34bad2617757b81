"""Whether two runs are one and the same training, bit for bit; the clock apart."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from mt_cli.run.checkpoint import load_checkpoint
from mt_cli.run.run_dir import RunDir
from mt_cli.training.state import N_KEPT

_CLOCK = {
    "progress.elapsed_seconds",
    "logs.timing.jsonl",
    "speed.training_seconds",
    "speed.two_pass_seconds",
    "speed.validation_seconds",
}


def files_of(folder: Path) -> dict[str, bytes]:
    """The contents of all files, by their names in the folder."""
    files = [
        Path(path, name) for path, _, names in os.walk(folder) for name in names if name not in {".lock", ".owner"}
    ]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files if file.is_file()}


def differences(run: Path, expected: Path) -> list[str]:
    """What differs: in the last checkpoint (weights, moments, position, scores), `best` and `last`,
    the log, and how many checkpoints there are."""
    found = [
        name
        for name in ("metrics.jsonl", "best", "last", "config.yaml")
        if (run / name).read_bytes() != (expected / name).read_bytes()
    ]
    if RunDir(run).manifest.sha256 != RunDir(expected).manifest.sha256:
        found.append("run.json")
    # One of the newest two may be of the moment when the training was stopped.
    if not len(RunDir(expected).steps()) <= len(RunDir(run).steps()) <= 1 + N_KEPT:
        found.append(f"checkpoints {RunDir(run).steps()}")
    for name in ("best", "last"):
        mine, theirs = (load_checkpoint(RunDir(path).find_checkpoint(name)) for path in (run, expected))
        found += [f"{name}: {key}" for key in unequal(mine, theirs) if key not in _CLOCK]
    return found


def unequal(mine: Any, theirs: Any, key: str = "") -> Iterator[str]:
    """The keys at which two checkpoints differ."""
    if isinstance(theirs, dict) and isinstance(mine, dict) and mine.keys() == theirs.keys():
        for name in theirs:
            yield from unequal(mine[name], theirs[name], f"{key}.{name}".lstrip("."))
    elif isinstance(theirs, torch.Tensor):
        if not (isinstance(mine, torch.Tensor) and mine.dtype == theirs.dtype and torch.equal(mine, theirs)):
            yield key
    elif isinstance(theirs, list | tuple) and type(mine) is type(theirs) and len(mine) == len(theirs):
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            yield from unequal(one, other, f"{key}[{index}]")
    elif mine != theirs:
        yield key
