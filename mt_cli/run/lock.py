"""The lock of a run directory: one training at a time writes there."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from mt_cli.errors import RunDirError
from mt_cli.files import make_folder, write_text


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, made if need be, for this process alone; however it ends, it is released. Raises RunDirError when another process has it."""
    owner, lock = folder / ".owner", FileLock(folder / ".lock", timeout=0)
    try:
        for path in (*reversed(folder.parents), folder):
            make_folder(path)
        lock.acquire()
    except Timeout:
        who = owner.read_text(encoding="utf-8", errors="replace") if owner.exists() else "another process"
        raise RunDirError(
            f"{folder} is in use ({' '.join(who.split())[:80]}); wait for it, or choose another --run-dir"
        ) from None
    except (OSError, NotImplementedError) as error:  # the latter from a disk without locks
        reason = getattr(error, "strerror", None) or "its disk knows no locks of files"
        raise RunDirError(f"{folder}: {reason}; choose another --run-dir") from None
    try:
        for orphan in (*folder.glob(".tmp-*"), *(folder / "checkpoints").glob(".tmp-*")):
            if not orphan.is_dir():  # a folder belongs to an export, which may still be writing
                orphan.unlink(missing_ok=True)  # left by a process that was killed while it wrote
        write_text(owner, f"pid {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M')}")
        yield
    finally:
        with contextlib.suppress(OSError):  # the folder is gone, or may no longer be written
            owner.unlink(missing_ok=True)
        lock.release()
