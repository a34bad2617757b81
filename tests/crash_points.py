"""Lets a process meet its end, or a mishap, at the n-th time that it changes the disk.

Counted are the calls that reach the kernel: a file opened to be written, each write of it (buffers are written when they
are full, as always), fsync, rename, unlink, truncate, mkdir and rmdir. What happens at the n-th one:

    killed       the process ends before it
    torn         it is a write: half of its bytes are written, and the process ends (only writes count)
    data lost    the power fails: of every file, what was written after its last fsync reads as zeros
    names lost   the power fails: every folder is as it was at its last fsync; what was made, renamed or removed since is not
    full disk    it fails with ENOSPC, and so does every later write (only writes and newly opened files count)
    SIGTERM      the process is sent this signal and goes on as it likes; SIGINT the same

A real file system loses less than "names lost", but promises no more.
"""

import builtins
import errno
import functools
import io
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NoReturn

MISHAPS = ["killed", "torn", "data lost", "names lost", "full disk", "SIGTERM", "SIGINT"]
EXIT_CODE = 137
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_UNNAMED = getattr(os, "O_TMPFILE", -1)  # a file without a name, with which filelock tries what the file system can do


class CrashPoints:
    """Installed once in a process, for the rest of its life."""

    def __init__(self, mishap: str, moment: int):
        assert mishap in MISHAPS
        self.mishap, self.moment, self.n_changes = mishap, moment, 0
        self._is_own = False  # whether it is this class that touches the disk
        self._unsynced: dict[int, tuple[int, int]] = {}  # by inode: a descriptor of the file, and how much is safe
        self._undo: list[tuple[str, Callable[[], object]]] = []  # folder, and how its last change is taken back
        self._backups = tempfile.mkdtemp(dir=os.getcwd())  # links stay within a file system
        self._real_fsync = os.fsync
        os.fsync = self._fsync  # type: ignore[assignment]
        io.open = builtins.open = self._opener(io.open)  # type: ignore[assignment]
        sys.addaudithook(self._on_event)

    def change(self, kind: str, torn: Callable[[], object] = lambda: None) -> None:
        """To be called before a change is made."""
        if self.mishap == "torn" and kind != "write":
            return
        if self.mishap == "full disk" and kind not in {"write", "open"}:
            return
        self.n_changes += 1
        if self.mishap == "full disk" and self.n_changes >= self.moment:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.n_changes != self.moment:
            return
        if self.mishap.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[self.mishap])
            return
        self._is_own = True
        self._end(torn)

    def _end(self, torn: Callable[[], object]) -> NoReturn:
        if self.mishap == "torn":
            torn()
        if self.mishap == "data lost":
            for descriptor, size in self._unsynced.values():
                n_bytes = os.fstat(descriptor).st_size - size
                if n_bytes > 0:
                    os.pwrite(descriptor, bytes(n_bytes), size)
        if self.mishap == "names lost":
            for _, undo in reversed(self._undo):
                undo()
        shutil.rmtree(self._backups)
        os._exit(EXIT_CODE)

    # Files that are written

    def _opener(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def open_file(
            file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *rest: Any, **named: Any
        ) -> Any:
            is_path = isinstance(file, str | os.PathLike) and not os.fspath(file).startswith("/dev/")
            if not is_path or not set(mode) & set("wax+"):
                return real(file, mode, buffering, encoding, *rest, **named)
            raw = _File(self, file, mode.replace("b", "").replace("t", ""))
            if buffering == 0:
                return raw
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, *rest, **named)

        return open_file

    def opened(self, path: str) -> None:
        """A file of which this process may write something."""
        self._is_own = True
        descriptor = os.open(path, os.O_RDWR)
        self._is_own = False
        status = os.fstat(descriptor)
        if status.st_ino in self._unsynced and os.fstat(self._unsynced[status.st_ino][0]).st_nlink:
            os.close(descriptor)
        else:
            self._unsynced[status.st_ino] = (descriptor, status.st_size)

    def _fsync(self, file: Any) -> None:
        self.change("fsync")
        descriptor = file if isinstance(file, int) else file.fileno()
        self._real_fsync(descriptor)
        status = os.fstat(descriptor)
        if status.st_ino in self._unsynced:
            self._unsynced[status.st_ino] = (self._unsynced[status.st_ino][0], status.st_size)
        folder = os.readlink(f"/proc/self/fd/{descriptor}")
        self._undo = [(changed, undo) for changed, undo in self._undo if changed != folder]

    # Names that are changed

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_own:
            return
        if event == "open":
            self._on_open(*arguments)
        elif event in {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate"}:
            self.change(event)
            self._is_own = True
            getattr(self, f"_before_{event[3:]}", lambda *arguments: None)(*arguments)
            self._is_own = False

    def _on_open(self, path: Any, mode: str | None, flags: int) -> None:
        if not flags & _WRITING or flags & _UNNAMED == _UNNAMED:
            return
        if isinstance(path, int) or os.fspath(path).startswith("/dev/"):
            return
        self.change("open")
        # Whatever writes without `open` would be a change that nobody counts.
        assert mode is not None or os.path.basename(path) == ".lock", f"{path} is opened behind our back"
        if not os.path.lexists(path):
            self._remember(path, lambda: os.path.lexists(path) and os.remove(path))

    def _remember(self, path: str, undo: Callable[[], object]) -> None:
        self._undo.append((os.path.realpath(os.path.dirname(path) or "."), undo))

    def _keep(self, path: str) -> Callable[[], object]:
        """How a file comes back that is about to go."""
        backup = os.path.join(self._backups, str(len(os.listdir(self._backups))))
        os.link(path, backup)
        return lambda: os.replace(backup, path)

    def _before_remove(self, path: Any, folder: int) -> None:
        path = _absolute(path, folder)
        if os.path.lexists(path):
            self._remember(path, self._keep(path))

    def _before_rename(self, source: Any, target: Any, *folders: int) -> None:
        source, target = map(os.path.abspath, (source, target))
        comes_back = self._keep(target) if os.path.lexists(target) else lambda: None
        self._remember(target, lambda: (os.replace(target, source), comes_back()))

    def _before_mkdir(self, path: Any, mode: int, folder: int) -> None:
        path = _absolute(path, folder)
        if not os.path.lexists(path):
            self._remember(path, lambda: shutil.rmtree(path, ignore_errors=True))

    def _before_rmdir(self, path: Any, folder: int) -> None:
        path = _absolute(path, folder)
        self._remember(path, lambda: os.path.lexists(path) or os.mkdir(path))


class _File(io.FileIO):
    def __init__(self, points: CrashPoints, path: Any, mode: str):
        super().__init__(path, mode)
        self._points = points
        points.opened(os.path.abspath(path))

    def write(self, content: Any) -> int:
        content = bytes(content)
        self._points.change("write", lambda: super(_File, self).write(content[: len(content) // 2]))
        return super().write(content)


def _absolute(path: Any, folder: int) -> str:
    base = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else os.getcwd()
    return os.path.join(base, os.fspath(path))


def kill_after(name: str, n_calls: int, sent: str = "SIGKILL") -> None:
    """Lets this process be sent a signal after so many calls of a function that a training calls, such as
    `Checkpoints.save`."""
    from mt_cli.augment import back_translation
    from mt_cli.run import checkpoint, run_dir
    from mt_cli.training import loop, update, validation
    from mt_cli.training import state as checkpoints

    path = name.split(".")
    module = next(
        module
        for module in (update, checkpoints, checkpoint, validation, loop, run_dir, back_translation)
        if hasattr(module, path[0])
    )
    owner = functools.reduce(getattr, path[:-1], module)
    real, calls = getattr(owner, path[-1]), itertools.count(1)

    def dying(*arguments: Any, **named: Any) -> Any:
        result = real(*arguments, **named)
        if next(calls) == n_calls:
            os.kill(os.getpid(), signal.Signals[sent])
        return result

    setattr(owner, path[-1], dying)
