"""Every error a user can meet, and its exit code; `cli/app.py` alone shows them. A message says what was found, what
was expected and what to do next; where a file is the matter it begins with `<file>:<line>:`."""

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
    """A command line that cannot be carried out."""

    exit_code = 2


class ConfigError(MTError):
    """A YAML file or --set that is wrong; one line for each problem."""

    exit_code = 2


class DataError(MTError):
    """Text that cannot be read, or is not parallel."""


class RunDirError(MTError):
    """A run directory that is missing, locked, foreign or of another config."""


class CheckpointError(MTError):
    """Weights that are damaged, missing or not ours."""


class TrainingError(MTError):
    """A training that cannot go on: not finite, out of memory."""


class Interrupted(BaseException):
    """The process was asked to stop: 128 plus the signal's number. No Exception: no handler for damage shall catch it."""

    def __init__(self, message: str, signal_number: int = signal.SIGINT):
        super().__init__(message)
        self.exit_code = 128 + signal_number


# "map segment" is the loader's, "paging file" that of Windows; the last one is oneDNN's, which gives no reason.
_OUT_OF_MEMORY = re.compile(
    r"allocate memory|not enough memory|out of memory|bad_alloc|STATUS_ALLOC_FAILED|Invalid buffer size|failed to map segment|paging file is too small"
    r"|^could not create a (primitive|memory object)$"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, torch on a CPU or a GPU, or the loader of a library asked for more memory than there is."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, without importing torch
        return True
    return isinstance(error, (RuntimeError, ImportError, OSError)) and _OUT_OF_MEMORY.search(str(error)) is not None


def is_out_of_threads(error: BaseException) -> bool:
    """Whether the system starts no more threads for this process or its user: in the words of Python or of C++."""
    words = "can't start new thread|Resource temporarily un"
    return isinstance(error, RuntimeError) and re.match(words, str(error)) is not None


def is_device_failure(error: BaseException) -> bool:
    """Whether the GPU itself has failed, not the operation that it was given."""
    return type(error).__name__ == "AcceleratorError"  # torch's


def is_of_machine(error: BaseException) -> bool:
    """Whether memory or the GPU has failed: no file is to blame."""
    return is_out_of_memory(error) or is_device_failure(error)


def as_typed(*words: object) -> str:
    """Words of a command as the system's shell wants them, with quotes where it needs them."""
    texts = [str(word) for word in words]
    return subprocess.list2cmdline(texts) if os.name == "nt" else shlex.join(texts)


def missing_extra(what: str, package: str, extra: str) -> UsageError:
    return UsageError(f'{what} needs {package}; install it with: pip install "mt-cli[{extra}]"')
