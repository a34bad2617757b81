"""Takes away from a process on Linux what Windows and macOS have not, or have in another way.

Windows: no `resource`, `SIGHUP`, `os.fork` and their like; folders cannot be opened; a file that is open or
mapped cannot be replaced, renamed or deleted; text files without an encoding are in the code page, and lines end in
`\\r\\n`. Both: no /proc, no `mallopt`. Only a computer with the system itself shows what is not known here.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import io
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_MODULES = ("resource", "termios", "tty", "pty", "pwd", "grp", "syslog")
_OF_SIGNAL = "SIGHUP SIGQUIT SIGKILL SIGUSR1 SIGUSR2 SIGPIPE SIGCHLD SIGXFSZ pthread_sigmask sigwait pause"
_OF_OS = (
    "fork forkpty getgid getegid getpgid killpg mknod nice sched_getaffinity"
    " getloadavg chown fchown pread pwrite posix_fallocate posix_fadvise set_blocking"
    " O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_SYNC EX_OK EX_USAGE EX_DATAERR EX_IOERR EX_NOINPUT"
)


def pytest_configure() -> None:
    """With `-p other_systems` all tests run so."""
    take_away()


def take_away() -> None:
    """For the rest of this process's life. To be called before anything else is imported."""
    for module in _MODULES:
        sys.modules[module] = None  # type: ignore[assignment]
    for owner, names in ((signal, _OF_SIGNAL), (os, _OF_OS)):
        for name in names.split():
            if hasattr(owner, name):
                delattr(owner, name)
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[misc]
    ctypes.CDLL = _Library  # type: ignore[misc]
    io.open = builtins.open = _with_code_page(io.open)  # type: ignore[assignment]
    sys.addaudithook(_Files().refuse)


class _Library(ctypes.CDLL):
    def __init__(self, name: str | None, *rest: Any, **named: Any):
        if name is None:
            raise TypeError("the process itself is no library here")
        super().__init__(name, *rest, **named)


def _with_code_page(real: Callable[..., Any]) -> Callable[..., Any]:
    def open_file(
        file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None, newline: Any = None, **named: Any
    ) -> Any:  # fmt: skip
        if "b" not in mode:
            encoding = "cp1252" if encoding in {None, "locale"} else encoding
            newline = "\r\n" if newline is None and set(mode) & set("wax") else newline
        if "opener" in named:
            file = "unnamed"  # `tempfile` gives its folder here, and opens a file in it
        return real(file, mode, buffering, encoding, errors, newline, **named)

    return open_file


class _Files:
    """Refuses, as an audit hook, what Windows refuses."""

    def __init__(self) -> None:
        self._is_own = False  # whether it is this class that touches the disk

    def refuse(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_own or event not in {"open", "os.rename", "os.remove", "os.truncate"}:
            return
        self._is_own = True
        try:
            getattr(self, f"_refuse_{event.removeprefix('os.')}")(*arguments)
        finally:
            self._is_own = False

    def _refuse_open(self, path: Any, mode: str | None, flags: int) -> None:
        if isinstance(path, int):
            return
        if os.fsdecode(path).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if Path(os.fsdecode(path)).is_dir() or (flags & os.O_TRUNC and _is_among(path, _mapped())):
            raise _permission_error(path)

    def _refuse_rename(self, source: Any, target: Any, *folders: int) -> None:
        for path in (source, target):
            self._refuse_remove(path)

    def _refuse_remove(self, path: Any, *folder: int) -> None:
        if Path(os.fsdecode(path)).name != ".lock" and _is_among(path, [*_opened(), *_mapped()]):
            raise _permission_error(path)

    def _refuse_truncate(self, path: Any, length: int) -> None:
        if _is_among(path, _mapped()):
            raise _permission_error(path)


def _permission_error(path: Any) -> PermissionError:
    return PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _opened() -> Iterator[Path]:
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder's own, which is closed by now
            yield link.readlink()


def _mapped() -> list[Path]:
    return [Path(row.split(maxsplit=5)[5]) for row in Path("/proc/self/maps").read_text().splitlines() if " /" in row]


def _is_among(path: Any, others: Any) -> bool:
    """Whether it is one of them, or is a folder that holds one."""
    real = Path(os.path.realpath(path))
    return any(other.is_relative_to(real) for other in others)
