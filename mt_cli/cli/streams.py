"""stdin, stdout and stderr, also when they are closed or fail, and the files that replace them."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mt_cli.display import escaped
from mt_cli.errors import DataError, UsageError, as_typed
from mt_cli.processes import rank


def open_closed_streams() -> None:
    """Opens the null device for each standard stream that is closed, as in `mt ... 2>&-`.

    Otherwise the next file that is opened would get the number of stderr, and log records would be written into it.
    Reading from a closed stdin and writing to a closed stdout still fail, as they should.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # then its number is the lowest that is free
            descriptor = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w"))


def silence(stream: Any) -> None:
    """Sends all further output of a stream to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class UnfailingStderr:
    """stderr whose writes never fail: training goes on when its terminal was closed or the reader of its log has gone."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            silence(self._stream)


class TerminalHandler(logging.Handler):
    """Shows each log record as a line on stderr, above any progress bar."""

    _PREFIXES = {logging.WARNING: "warning: ", logging.ERROR: "error: "}  # noqa: RUF012

    def emit(self, record: logging.LogRecord) -> None:
        prefix = self._PREFIXES.get(record.levelno, "")
        if rank():
            if record.levelno < logging.ERROR:
                return  # the first process says it, too
            prefix += f"process {rank()}: "
        tqdm.write(prefix + escaped(record.getMessage()), file=sys.stderr)


@contextlib.contextmanager
def open_input(file: Path | None) -> Iterator[io.RawIOBase]:
    """The file, or stdin, without a buffer: it gives what has arrived without waiting for more, as a coprocess needs. At a
    console of Windows too it gives UTF-8."""
    if file is None:
        stdin: Any = sys.stdin
        yield stdin.buffer.raw
        return
    try:
        source = file.open("rb", buffering=0)
    except OSError as error:
        if " " in str(file) and not file.exists():  # a sentence
            raise DataError(
                f"{file}: no such file; a sentence needs a pipe: echo {as_typed(file)} | mt translate RUN"
            ) from None
        raise DataError(f"{file}: {error.strerror}; give a text file, or none to read stdin") from None
    with source:
        if file.is_char_device() and file != Path(os.devnull) and not source.isatty():
            raise DataError(f"{file}: a device, which may have no end; give a text file, or none to read stdin")
        yield source


def refuse_output(file: Path) -> None:
    """Raises UsageError for a file that exists."""
    if file.is_dir():
        raise UsageError(f"{file}: a folder, expected the name of a new file; for example {file / 'out.txt'}")
    if file.exists():
        remedy = "delete it or choose another --output" if file.is_file() else f"write there with: > {file}"
        raise UsageError(f"{file} exists already; {remedy}")


@contextlib.contextmanager
def open_output(file: Path | None) -> Iterator[Any]:
    """The new file, or stdout. A file to which nothing was written is removed when the work fails."""
    if file is None:
        yield sys.stdout.buffer
        return
    try:
        out = file.open("xb", buffering=0)
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}; choose another --output") from None
    try:
        with out:
            yield out
    except BaseException:
        if file.stat().st_size == 0:
            file.unlink()  # otherwise the next try would be refused
        raise
