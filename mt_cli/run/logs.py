"""The logs of a run as files: appended to, and cut back to what they were at a checkpoint."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from mt_cli.files import cannot_write, read_inside, sync_folder
from mt_cli.run.lock import RunLock

_MAX_LOG_BYTES = 1 << 31


class RunLogs:
    def __init__(self, files: tuple[Path, ...], lock: RunLock):
        self.files, self._lock = files, lock

    def append(self, file: Path, record: dict[str, Any]) -> None:
        self._lock.refuse_lost()
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

    def sync(self) -> dict[str, dict[str, Any]]:
        """Size and hash of each log, for a checkpoint to keep. The logs are on the disk before it is."""
        self._lock.refuse_lost()
        marks, file = dict[str, dict[str, Any]](), self.files[0]
        try:
            for file in self.files:
                content = b""
                if file.exists():
                    with file.open("ab+") as handle:
                        os.fsync(handle.fileno())
                        handle.seek(0)
                        content = handle.read()
                marks[file.name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            sync_folder(file.parent)
        except OSError as error:
            raise cannot_write(file, error) from None
        return marks

    def rewind(self, marks: dict[str, dict[str, Any]]) -> list[str]:
        """Cuts the logs back to what they were at a checkpoint: what came after it is done again. Returns what is wrong
        with a log that is not what it was then."""
        if any(type(mark["size"]) is not int or mark["size"] < 0 for mark in marks.values()):
            raise ValueError("a log has no size")
        damages = []
        for file in self.files:
            mark = marks[file.name]
            content = file.read_bytes()[: mark["size"]] if file.exists() else b""
            if len(content) < mark["size"]:
                damages.append(
                    f"{file}: {len(content):,} bytes, {mark['size']:,} when the checkpoint was saved; it was cut"
                )
            elif mark["sha256"] not in {None, hashlib.sha256(content).hexdigest()}:
                damages.append(f"{file}: not what it was when the checkpoint was saved; it is damaged")
            if file.exists() and file.stat().st_size > mark["size"]:
                os.truncate(file, mark["size"])
        return damages

    def empty(self) -> None:
        for file in self.files:
            if file.exists():
                os.truncate(file, 0)
