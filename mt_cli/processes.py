"""Which of the processes that `torchrun` started this one is; and SIGINT, SIGTERM and the SIGHUP of a terminal that closes:
the first one asks to save and stop, the second one kills. Without torch."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

from mt_cli.errors import Interrupted, as_typed

_SIGHUP = getattr(signal, "SIGHUP", None)  # Windows has none


def n_processes() -> int:
    """1 where `torchrun` started none: clusters set some of its variables for every job."""
    of_torchrun = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return int(os.environ["WORLD_SIZE"]) if all(map(os.environ.get, of_torchrun)) else 1


def rank() -> int:
    return int(os.environ["RANK"]) if n_processes() > 1 else 0


def local_rank() -> int:
    """Its number among those of this machine."""
    return int(os.environ["LOCAL_RANK"]) if n_processes() > 1 else 0


class StopSignals:
    """While entered, a first signal is recorded, which the loop reads between steps; a second one ends the process.
    Before there is anything to save the first one does: libraries being imported would swallow an exception."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.is_saving_needed = False
        self._previous: dict[int, Any] = {}

    @property
    def is_stopping(self) -> bool:
        return self.received is not None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.is_saving_needed:
            below_any_bar = "\n" if sys.stderr.isatty() else ""
            line = f"{below_any_bar}stopped before a step was taken, nothing to save; {_how_to_continue()}\n"
            with contextlib.suppress(OSError):
                os.write(2, line.encode("utf-8", "backslashreplace"))  # `sys.stderr` may be in the middle of a write
            os._exit(128 + number)
        for one in self._previous:
            # When a terminal closes, both the shell and the system send SIGHUP: the second one is no second request.
            signal.signal(one, signal.SIG_IGN if one == _SIGHUP else signal.SIG_DFL)
        self.received = number

    def check(self, *_: object) -> None:
        """Raises Interrupted after a signal: for what takes long and saves nothing."""
        if self.is_stopping:
            self.stop("stopped")

    def stop(self, message: str) -> NoReturn:
        raise Interrupted(f"{message}; {_how_to_continue()}", self.received or signal.SIGINT)

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGINT, signal.SIGTERM, _SIGHUP):
            # A signal that is ignored from the start, by `nohup` or in the background of a script, stays ignored.
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)


def _how_to_continue() -> str:
    return f"continue with: {command_line()}" if n_processes() == 1 else "continue with the same torchrun command"


def command_line() -> str:
    """The command that this process is."""
    return as_typed("mt", *sys.argv[1:])
