"""The logs of a run as files: appended to, and cut back to what they were at a checkpoint."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from mt_cli.files import cannot_write, read_inside, sync_folder

_MAX_LOG_BYTES = 1 << 31


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
        """Cuts the logs back to what they were at a checkpoint: what came after it is done again. Returns what is wrong with a
        log that is shorter than it was then."""
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

    def empty(self) -> None:
        for file in filter(Path.exists, self.files):
            os.truncate(file, 0)
