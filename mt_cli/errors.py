"""Every error a user can meet, and the exit code that goes with it.

    MTError                 1   anything that is not a bug of ours
    ├── UsageError          2   a command line that cannot be carried out
    ├── ConfigError         2   a YAML file or --set that is wrong; one line for each problem
    ├── DataError           1   text that cannot be read, or is not parallel
    ├── RunDirError         1   a run directory that is missing, locked, foreign or of another config
    ├── CheckpointError     1   weights that are damaged, missing or not ours
    └── TrainingError       1   a training that cannot go on: not finite, out of memory

    Interrupted   129/130/143   SIGHUP, SIGINT or SIGTERM; the work so far is saved

`cli/app.py` alone shows them and ends with their code; a file below may catch one to extend its message or to try something
else. A message says what was found, what was expected and what to do next; where a file is the matter it begins with
`<file>:<line>:`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess


class MTError(Exception):
    """A mistake of the user, or a failure of the machine. Each argument is a problem, which is shown as one line."""

    exit_code = 1

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class UsageError(MTError):
    exit_code = 2


class ConfigError(MTError):
    exit_code = 2


class DataError(MTError):
    pass


class RunDirError(MTError):
    pass


class CheckpointError(MTError):
    pass


class TrainingError(MTError):
    pass


class Interrupted(BaseException):
    """The process was asked to stop; `exit_code` is 128 plus the signal's number, as shells expect.

    Not an Exception, so that no handler for damage or bad input catches it.
    """

    def __init__(self, message: str, signal_number: int = signal.SIGINT):
        super().__init__(message)
        self.exit_code = 128 + signal_number


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, torch on a CPU or a GPU, or the loader of a library asked for more memory than there is."""
    # torch's class for GPU memory is known by its name, since not every module may import torch. The others are known by
    # their messages.
    is_in_message = (
        isinstance(error, (RuntimeError, ImportError, OSError)) and _OUT_OF_MEMORY.search(str(error)) is not None
    )
    return is_in_message or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


# GPU libraries have their own wordings; "map segment" is the loader's, "paging file" that of Windows. The last one is
# oneDNN's, which allocates memory before a matrix product and gives no reason when that fails.
_OUT_OF_MEMORY = re.compile(
    r"allocate memory|not enough memory|out of memory|bad_alloc|STATUS_ALLOC_FAILED|Invalid buffer size|failed to map segment|paging file is too small"
    r"|^could not create a (primitive|memory object)$"
)


def is_out_of_threads(error: BaseException) -> bool:
    """Whether the system starts no more threads for this process or its user."""
    return isinstance(error, RuntimeError) and str(error) in {
        "can't start new thread",  # Python's
        "Resource temporarily unavailable",  # that of the C++ library
    }


def is_device_failure(error: BaseException) -> bool:
    """Whether the GPU itself has failed, not the operation that it was given."""
    return type(error).__name__ == "AcceleratorError"  # torch's


def as_typed(*words: object) -> str:
    """Words of a command as the system's shell wants them, with quotes where it needs them."""
    texts = [str(word) for word in words]
    return subprocess.list2cmdline(texts) if os.name == "nt" else shlex.join(texts)


def missing_extra(what: str, package: str, extra: str) -> UsageError:
    """The error of a command whose optional dependency is not installed."""
    return UsageError(f'{what} needs {package}; install it with: pip install "mt-cli[{extra}]"')
