"""The logs of a run: appended to, and cut back to a checkpoint. And `provenance.json`: what a run was started with."""

import contextlib
import importlib.metadata
import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

from mt_cli.errors import RunDirError
from mt_cli.files import cannot_write, read_inside, sync_folder, write_text

_MAX_LOG_BYTES = 1 << 31
_PACKAGES = ("mt-cli", "torch", "sentencepiece", "sacrebleu", "numpy")


class RunLogs:
    def __init__(self, *files: Path):
        self.files = files

    def append(self, file: Path, record: dict[str, Any]) -> None:
        try:
            with file.open("a", encoding="utf-8", newline="\n") as handle:
                handle.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            raise cannot_write(file, error) from None

    def records(self, file: Path) -> list[dict[str, Any]]:
        """What was appended; without lines that are damaged. Raises RunDirError for what is no file of the run."""
        try:
            content = read_inside(file.parent, file, _MAX_LOG_BYTES)
        except FileNotFoundError:
            return []
        found = []
        for line in content.decode("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(record := json.loads(line), dict):
                    found.append(record)
        return found

    def sync(self) -> dict[str, int]:
        """The size of each log, for a checkpoint to keep. The logs are on the disk before it is."""
        sizes, file = dict[str, int](), self.files[0]
        try:
            for file in self.files:
                with file.open("ab") as handle:
                    os.fsync(handle.fileno())
                    sizes[file.name] = handle.tell()
            sync_folder(file.parent)
        except OSError as error:
            raise cannot_write(file, error) from None
        return sizes

    def rewind(self, sizes: dict[str, int]) -> list[str]:
        """Cuts the logs back to what they were at a checkpoint. Returns what is wrong with each that is already shorter."""
        damages = []
        for file in self.files:
            wanted, found = sizes[file.name], file.stat().st_size if file.exists() else 0
            if type(wanted) is not int or wanted < 0:
                raise ValueError("a log has no size")
            if found < wanted:
                damages.append(f"{file}: {found:,} bytes, {wanted:,} when the checkpoint was saved; it was cut")
            elif found > wanted:
                os.truncate(file, wanted)
        return damages


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), **dict.fromkeys(_PACKAGES, "not installed")}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def record_start(file: Path, **facts: object) -> None:
    """Adds this start to the run's `provenance.json`; a continued run has several."""
    try:
        starts = list(json.loads(read_inside(file.parent, file))["starts"])
    except (RunDirError, OSError, ValueError, KeyError, TypeError, RecursionError):
        starts = []  # none yet, or a damaged note, which must not stop a training
    here = {"machine": f"{platform.system()} {platform.machine()}", "versions": versions(), "commit": commit()}
    start = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **facts, **here}
    write_text(file, json.dumps({"starts": [*starts, start]}, indent=2, ensure_ascii=False) + "\n")


def commit() -> str | None:
    """The code's commit; None unless it lies in a repository of its own."""
    root, git = Path(__file__).parents[2], ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    if not (root / ".git").exists():
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(git, cwd=root, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    return None
