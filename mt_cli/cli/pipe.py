"""Commands as part of a pipe: lines are read as they arrive, processed, and written at once."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import BinaryIO, Protocol

from tqdm import tqdm

from mt_cli.data.lines import NotUtf8Error, decode_line
from mt_cli.errors import DataError

log = logging.getLogger(__name__)

_END_KEYS = "Ctrl-Z and Enter end" if os.name == "nt" else "Ctrl-D ends"
_MAX_LINES = 2048  # processed at a time: enough to fill batches with lines of one length


class LineProcess(Protocol):
    """Turns input lines into output lines."""

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        """The output for the next lines of the input, after the first `n_before`."""
        ...

    def written(self) -> None:
        """Called when the output of a call is written: logs what is to stand below it."""
        return

    def finish(self, n_lines: int) -> None:
        """Called after the last of `n_lines`: reports what is only known at the end, or raises MTError."""
        return


def is_terminal(source: io.RawIOBase) -> bool:
    try:
        return source.isatty()
    except OSError:  # a closed stdin is reported when it is read
        return False


def process_lines(
    source: io.RawIOBase, name: str, process: LineProcess, out: BinaryIO, replaces_bad_input: bool
) -> None:
    """Reads lines until the end of `source` and writes what `process` makes of them.

    `name` is what messages call the input. At a terminal a prompt asks for each line. Raises DataError for a line that is
    not UTF-8, unless U+FFFD is to replace the invalid bytes.
    """
    n_lines, is_interactive = 0, is_terminal(source)
    if is_interactive:
        log.info(f"Type a sentence and press Enter; {_END_KEYS}.")
    with tqdm(unit=" lines", disable=True if is_interactive or sys.stdout.isatty() else None) as bar:
        for arrived in _read_arriving(source, is_interactive):
            size = 1 if is_interactive else _MAX_LINES
            for start in range(0, len(arrived), size):
                texts, error = _decode(arrived[start : start + size], n_lines, name, replaces_bad_input)
                output = "".join(line + "\n" for line in process(texts, n_lines)).encode() if texts else b""
                with _delay_ctrl_c():
                    _write(output, out)
                process.written()
                n_lines += len(texts)
                bar.update(len(texts))
                if error is not None:
                    raise error
    process.finish(n_lines)


def _read_arriving(source: io.RawIOBase, is_interactive: bool) -> Iterator[list[bytes]]:
    """Lines of bytes, as many at a time as have arrived."""
    unfinished: list[bytes] = []  # blocks of a line whose end has not arrived yet
    while True:
        if is_interactive and not unfinished:
            sys.stderr.write("> ")
            sys.stderr.flush()
        try:
            block = source.read(1 << 20)
            if block is None:
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


def _decode(
    lines: Sequence[bytes], n_before: int, name: str, replaces_bad_input: bool
) -> tuple[list[str], DataError | None]:
    """The text of the lines before the first that is not UTF-8, and the error of that one."""
    texts = list[str]()
    for number, raw in enumerate(lines, n_before + 1):
        try:
            texts.append(decode_line(raw, number, name))
        except NotUtf8Error as error:
            if not replaces_bad_input:
                return texts, DataError(f"{error}; fix the line, or use --bad-input replace")
            texts.append(raw.decode("utf-8", errors="replace"))
        except DataError as error:  # of UTF-16 and gzip
            return texts, error
    return texts, None


@contextlib.contextmanager
def _delay_ctrl_c() -> Iterator[None]:
    """Raises KeyboardInterrupt only after the block, so that the last line is written whole. A second Ctrl-C raises it at
    once: the reader of a full pipe may never read on."""
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


def _write(output: bytes, out: BinaryIO) -> None:
    """Writes all of it. Under PYTHONUNBUFFERED stdout is a raw file, whose `write` may take only a part."""
    rest = memoryview(output)
    while rest:
        n_bytes = out.write(rest)
        if n_bytes is None:
            raise BlockingIOError(errno.EAGAIN, "its reader is slow, and writing may not wait (O_NONBLOCK)")
        rest = rest[n_bytes:]
    out.flush()
