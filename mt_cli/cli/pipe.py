"""Lines in, lines out: lines are read as they arrive, processed, and their output is written at once."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from tqdm import tqdm

from mt_cli.cli.options import refuse_structured
from mt_cli.data.lines import NotUtf8Error, decode_line
from mt_cli.errors import DataError, as_typed

log = logging.getLogger(__name__)

_END_KEYS = "Ctrl-Z and Enter end" if os.name == "nt" else "Ctrl-D ends"
_MAX_LINES = 2048  # processed at a time: enough to fill batches with lines of one length

Batches = Iterator[tuple[int, list[str]]]  # the number of lines before, and the next lines


def process_lines(
    source: io.RawIOBase,
    name: str,
    process: Callable[[Batches], Iterable[list[str]]],
    out: Any,
    replaces_bad_input: bool,
) -> None:
    """Writes what `process` yields for each batch of lines of `source`, called `name` in messages. Raises DataError for
    a line that is not UTF-8, unless U+FFFD is to replace its bytes."""
    if is_interactive := source.isatty():
        log.info(f"Type a sentence and press Enter; {_END_KEYS}.")
    with tqdm(unit=" lines", disable=True if is_interactive or sys.stdout.isatty() else None) as bar:
        for lines in process(_read_batches(source, name, replaces_bad_input, is_interactive, bar)):
            rest = memoryview("".join(line + "\n" for line in lines).encode())
            with _delayed_ctrl_c():
                while rest:  # under PYTHONUNBUFFERED stdout is a raw file, which may take only a part
                    rest = rest[out.write(rest) or 0 :]
                out.flush()


@contextlib.contextmanager
def open_input(file: Path | None) -> Iterator[io.RawIOBase]:
    """The file, or stdin, without a buffer: it gives what has arrived, as a coprocess needs, and UTF-8 on Windows."""
    if file is None:
        stdin: Any = sys.stdin
        yield stdin.buffer.raw
        return
    refuse_structured(file)
    try:
        source = file.open("rb", buffering=0)
    except OSError as error:
        remedy = "give a text file, or none to read stdin"
        if " " in str(file) and not file.exists():
            remedy = f"a sentence needs a pipe: echo {as_typed(file)} | mt translate RUN"
        raise DataError(f"{file}: {error.strerror}; {remedy}") from None
    with source:
        if file.is_char_device() and file != Path(os.devnull) and not source.isatty():
            raise DataError(f"{file}: a device, which may have no end; give a text file, or none to read stdin")
        yield source


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


def _read_batches(
    source: io.RawIOBase, name: str, replaces_bad_input: bool, is_interactive: bool, bar: tqdm[Any]
) -> Batches:
    """Raises DataError for a line that is not UTF-8 when those before it are processed."""
    n_before, size = 0, 1 if is_interactive else _MAX_LINES
    for arrived in _read_arriving(source, is_interactive):
        for start in range(0, len(arrived), size):
            texts, failure = list[str](), None
            for number, raw in enumerate(arrived[start : start + size], n_before + 1):
                try:
                    texts.append(decode_line(raw, number, name))
                except NotUtf8Error as error:
                    if not replaces_bad_input:
                        failure = DataError(f"{error}; fix the line, or use --bad-input replace")
                        break
                    texts.append(raw.decode("utf-8", errors="replace"))
            if texts:
                yield n_before, texts
            if failure is not None:
                raise failure
            n_before += len(texts)
            bar.update(len(texts))


def _read_arriving(source: io.RawIOBase, is_interactive: bool) -> Iterator[list[bytes]]:
    """Lines of bytes, as many at a time as have arrived."""
    unfinished: list[bytes] = []  # blocks of a line whose end has not arrived yet
    while True:
        if is_interactive and not unfinished:
            sys.stderr.write("> ")
            sys.stderr.flush()
        try:
            if (block := source.read(1 << 20)) is None:
                raise BlockingIOError(errno.EAGAIN, "nothing has arrived, and reading may not wait (O_NONBLOCK)")
        except OSError as error:
            raise DataError(f"cannot read the input: {error.strerror}; give a text file") from None
        if not block:
            if unfinished:
                yield [b"".join(unfinished)]
            return
        head, *more = block.split(b"\n")
        unfinished.append(head)
        if more:
            yield [b"".join(unfinished), *more[:-1]]
            unfinished = [more[-1]] if more[-1] else []


@contextlib.contextmanager
def _delayed_ctrl_c() -> Iterator[None]:
    """Raises KeyboardInterrupt after the block, so that a line is whole; a second one at once: a full pipe may stay."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # Ctrl-C does not raise KeyboardInterrupt
        yield
        return
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if received:
        raise KeyboardInterrupt
