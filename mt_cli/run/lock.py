"""The lock of a run directory: one training at a time writes there."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from mt_cli.errors import RunDirError
from mt_cli.files import cannot_write, make_folder, write_text


class RunLock:
    def __init__(self, folder: Path):
        self._folder = folder
        self._lock_file, self._owner_file = folder / ".lock", folder / ".owner"
        self.files = self._lock_file, self._owner_file
        self._held: os.stat_result | None = None  # while this process holds it

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Raises RunDirError when another process holds it. The kernel releases it however the process ends."""
        try:
            for folder in (*reversed(self._folder.parents), self._folder):
                make_folder(folder)
            lock = FileLock(self._lock_file, timeout=0)
            lock.acquire()
        except Timeout:
            who = (
                self._owner_file.read_text(encoding="utf-8", errors="replace")
                if self._owner_file.exists()
                else "another process"
            )
            who = " ".join(who.split())[:80]
            raise RunDirError(f"{self._folder} is in use ({who}); wait for it, or choose another --run-dir") from None
        except (OSError, NotImplementedError) as error:  # the latter from a disk without locks
            reason = getattr(error, "strerror", None) or "its disk knows no locks of files"
            raise RunDirError(f"{self._folder}: {reason}; choose another --run-dir") from None
        try:
            self._held = self._lock_file.stat()
            for orphan in (*self._folder.glob(".tmp-*"), *(self._folder / "checkpoints").glob(".tmp-*")):
                if not orphan.is_dir():  # a folder belongs to an export, which may still be writing
                    orphan.unlink(missing_ok=True)  # left by a process that was killed while it wrote
            write_text(self._owner_file, f"pid {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M')}")
            yield
        finally:
            with contextlib.suppress(OSError, RunDirError):  # gone, another's by now, or may no longer be written
                self.refuse_lost()
                self._owner_file.unlink(missing_ok=True)
            self._held = None
            lock.release()

    def refuse_lost(self) -> None:
        """Raises RunDirError when the folder or its lock was removed meanwhile: another training may have taken it."""
        if self._held is None:
            return
        try:
            is_held = os.path.samestat(self._held, self._lock_file.stat())
        except OSError as error:
            raise cannot_write(self._lock_file, error) from None
        if not is_held:
            raise RunDirError(
                f"{self._folder}: another training holds its lock, since the folder or {self._lock_file.name} was removed;"
                " nothing more is written; choose another --run-dir"
            )
