"""Takes away from a process on Linux what Windows and macOS have not, or have in another way.

Windows: no `resource`, `SIGHUP`, `os.fork` and their like; folders cannot be opened; a file that is open or
mapped cannot be replaced, renamed or deleted, and one that is read cannot be synced; text files without an encoding are in the code page, and lines end in
`\\r\\n`. Both: no /proc, no `mallopt`. Only a computer with the system itself shows what is not known here.
"""

import builtins
import contextlib
import ctypes
import errno
import fcntl
import io
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MODULES = ("resource", "termios", "tty", "pty", "pwd", "grp", "syslog")
_OF_SIGNAL = "SIGHUP SIGQUIT SIGKILL SIGUSR1 SIGUSR2 SIGPIPE SIGCHLD SIGXFSZ pthread_sigmask sigwait pause"
_OF_OS = (
    "fork forkpty getgid getegid getpgid killpg mknod nice sched_getaffinity"
    " getloadavg chown fchown pread pwrite posix_fallocate posix_fadvise set_blocking"
    " O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_SYNC EX_OK EX_USAGE EX_DATAERR EX_IOERR EX_NOINPUT"
)


def take_away() -> None:
    """For the rest of this process's life. To be called before anything else is imported."""
    sys.modules.update(dict.fromkeys(_MODULES))  # type: ignore[arg-type]
    for owner, names in ((signal, _OF_SIGNAL), (os, _OF_OS)):
        for name in names.split():
            if hasattr(owner, name):
                delattr(owner, name)
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[misc]
    ctypes.CDLL = _Library  # type: ignore[misc]
    io.open = builtins.open = _open_in_code_page  # type: ignore[assignment]
    os.fsync = _fsync_what_may_be_written
    sys.addaudithook(_refuse)


pytest_configure = take_away  # with `-p other_systems` all tests run so


_fsync = os.fsync


def _fsync_what_may_be_written(file: Any) -> None:
    if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    _fsync(file)


class _Library(ctypes.CDLL):
    def __init__(self, name: str | None, *rest: Any, **named: Any):
        if name is None:
            raise TypeError("the process itself is no library here")
        super().__init__(name, *rest, **named)


_open = io.open


def _open_in_code_page(
    file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None, newline: Any = None, **named: Any
) -> Any:  # fmt: skip
    if "b" not in mode:
        encoding = "cp1252" if encoding in {None, "locale"} else encoding
        newline = "\r\n" if newline is None and set(mode) & set("wax") else newline
    if "opener" in named:
        file = "unnamed"  # `tempfile` gives its folder here, and opens a file in it
    return _open(file, mode, buffering, encoding, errors, newline, **named)


_own: list[str] = []  # the event that is being looked at, which touches the disk itself


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuses, as an audit hook, what Windows refuses."""
    if _own or event not in {"open", "os.rename", "os.remove", "os.truncate"}:
        return
    _own.append(event)
    try:
        for name in arguments[: 2 if event == "os.rename" else 1]:
            if isinstance(name, int):
                continue
            path, flags = os.path.realpath(os.fsdecode(name)), arguments[2] if event == "open" else os.O_TRUNC
            if event == "open" and path.startswith(("/proc/", "/sys/")):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            used = _mapped() if flags & os.O_TRUNC else []
            if event in {"os.rename", "os.remove"}:
                used = [] if path.endswith("/.lock") else [*used, *_opened()]
            if (event == "open" and Path(path).is_dir()) or any(one.is_relative_to(path) for one in used):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    finally:
        _own.clear()


def _opened() -> Iterator[Path]:
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder's own, which is closed by now
            yield link.readlink()


def _mapped() -> list[Path]:
    return [Path(row.split(maxsplit=5)[5]) for row in Path("/proc/self/maps").read_text().splitlines() if " /" in row]
