"""What made a run: versions, command, seed, hashes, the commit of the code. Written beside the run, for people to read."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
import time
from pathlib import Path

import torch

from mt_cli.errors import RunDirError
from mt_cli.files import read_inside, write_text
from mt_cli.run.run_dir import RunDir

_PACKAGES = ("mt-cli", "torch", "sentencepiece", "sacrebleu", "numpy")


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def record_start(run: RunDir, **facts: object) -> None:
    """Adds this start to the run's `provenance.json`; a continued run has several."""
    try:
        starts = list(json.loads(read_inside(run.path, run.provenance_file))["starts"])
    except (RunDirError, OSError, ValueError, KeyError, TypeError, RecursionError):
        starts = []  # none yet, or a damaged note, which must not stop a training
    start = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        **facts,
        "n_threads": torch.get_num_threads(),
        "machine": f"{platform.system()} {platform.machine()}",
        "versions": versions(),
        "commit": commit(),
    }
    write_text(run.provenance_file, json.dumps({"starts": [*starts, start]}, indent=2, ensure_ascii=False) + "\n")


def commit() -> str | None:
    """The commit of the code that runs. None unless its own repository has this file: an installed package may lie in a
    user's repository."""
    here, answer = Path(__file__), ""
    try:
        for command in (["ls-files", "--error-unmatch", here.name], ["describe", "--always", "--dirty", "--abbrev=12"]):
            git = ["git", *command]
            answer = subprocess.run(git, cwd=here.parent, capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.strip()
