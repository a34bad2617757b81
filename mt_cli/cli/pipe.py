"""Commands as part of a pipe: lines are read as they arrive, processed, and written at once.

`process_lines` does this for any `LineProcess`: translating, scoring or explaining. This file opens nothing.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import math
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from tqdm import tqdm

from mt_cli.data.corpus import NotUtf8Error, decode_line
from mt_cli.data.tokenizer import EOS_ID
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.translator import Translator
from mt_cli.errors import DataError, UsageError

if TYPE_CHECKING:  # a plain translation needs none of these
    from mt_cli.explain.attention_page import AttentionPage
    from mt_cli.explain.estimate import Estimator
    from mt_cli.explain.json_lines import ExplainedLine

log = logging.getLogger(__name__)

_END_KEYS = "Ctrl-Z and Enter end" if os.name == "nt" else "Ctrl-D ends"
_MAX_REMARK, _MAX_REASON = 120, 24  # characters, where all reasons do not fit into a line of the terminal
_MAY_BE_WRONG = "may be wrong: "
MAX_LINES = 2048  # processed at a time: enough to fill batches with lines of one length


class LineProcess(Protocol):
    """Turns input lines into output lines."""

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        """The output for the next lines of the input, after the first `n_before`."""
        ...

    def written(self) -> None:
        """Called when the output of a call is written: says what is to stand below it."""
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
    not UTF-8, unless U+FFFD is to replace what is wrong.
    """
    n_lines, is_interactive = 0, is_terminal(source)
    if is_interactive:
        log.info(f"Type a sentence and press Enter; {_END_KEYS}.")
    with tqdm(unit=" lines", disable=True if is_interactive or sys.stdout.isatty() else None) as bar:
        for arrived in _read_arriving(source, is_interactive):
            size = 1 if is_interactive else MAX_LINES
            for start in range(0, len(arrived), size):
                chunk = arrived[start : start + size]
                texts, error = _decode_until(chunk, n_lines, name, replaces_bad_input)
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
    unfinished: list[bytes] = []  # pieces of a line whose end has not arrived yet
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


def decode_block(lines: Sequence[bytes], n_before: int, name: str, replaces_bad_input: bool) -> list[str]:
    """The text of lines that follow the first `n_before` of an input. Raises DataError."""
    texts, error = _decode_until(lines, n_before, name, replaces_bad_input)
    if error is not None:
        raise error
    return texts


def _decode_until(
    lines: Sequence[bytes], n_before: int, name: str, replaces_bad_input: bool
) -> tuple[list[str], DataError | None]:
    """The text of the lines before the first that is not UTF-8, and the error that tells of that one."""
    texts = list[str]()
    try:
        for number, raw in enumerate(lines, n_before + 1):
            texts.append(_decode(raw, number, name, replaces_bad_input))
    except DataError as error:
        return texts, error
    return texts, None


def _decode(raw: bytes, number: int, name: str, replaces_bad_input: bool) -> str:
    try:
        return decode_line(raw, number, name)
    except NotUtf8Error as error:
        if replaces_bad_input:
            return raw.decode("utf-8", errors="replace")
        raise DataError(f"{error}; fix the line, or use --bad-input replace") from None


# Line processes ------------------------------------------------------------------------------------------------------


@dataclass
class TranslateLines(LineProcess):
    """Translates: a line for each line; with `n_best` among the options a list for each line, as Moses prints it; or a JSON
    object for each line."""

    translator: Translator
    options: dict[str, Any]  # keys of the config's `decoding`
    name: str  # of the input, for messages
    prefix: str | None = None  # what every translation begins with
    has_prefix_column: bool = False  # each line is: source, a tab, what its translation begins with
    is_json: bool = False
    reports_doubts: bool = False
    is_talking: bool = False  # says below each translation why it may be wrong
    estimator: Estimator | None = None
    n_split: int = 0  # lines that were translated in several parts
    remarks: list[str] = field(default_factory=list)  # that are still to be said

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        translations = self._translate(lines, n_before)
        self._report_first_split(translations, n_before)
        if self.is_json or self.reports_doubts or self.is_talking:
            from mt_cli.explain.json_lines import explain_lines, to_json

            explained = explain_lines(self.translator, translations)
            estimated = self.estimator(explained) if self.estimator is not None else [None] * len(explained)
            if self.is_talking:
                self.remarks += filter(None, map(self._remark, explained, estimated))
            if self.reports_doubts:
                for number, one in enumerate(explained, n_before + 1):
                    for doubt in one.doubts:
                        log.info(f"doubt: {self.name}:{number}: {doubt.kind}: {doubt.detail}")
            if self.is_json:
                return to_json(self.translator, explained, estimated)
        if "n_best" in self.options:
            return [line for number, one in enumerate(translations, n_before) for line in _n_best_lines(number, one)]
        return [one.text for one in translations]

    def _remark(self, line: ExplainedLine, estimated: float | None) -> str:
        """In a line why a translation may be wrong; '' where nothing tells that it is."""
        estimate = list[str]()
        if estimated is not None and self.estimator is not None and estimated < self.estimator.fit.low:
            estimate = [f"estimated chrF {estimated:.0f}, on the dev set {self.estimator.fit.dev_chrf:.0f}"]
        full, short = (
            "; ".join([*estimate, *(f"{doubt.kind}: {_cut(doubt.detail, most)}" for doubt in line.doubts)])
            for most in (_MAX_REMARK, _MAX_REASON)
        )
        reasons = full if len(_MAY_BE_WRONG + full) <= min(_MAX_REMARK, shutil.get_terminal_size().columns) else short
        return _cut(_MAY_BE_WRONG + reasons, _MAX_REMARK) if reasons else ""

    def written(self) -> None:
        for remark in self.remarks:
            log.info(remark)
        self.remarks.clear()

    def _translate(self, lines: Sequence[str], n_before: int) -> list[Translation]:
        prefixes = None if self.prefix is None else [self.prefix] * len(lines)
        if self.has_prefix_column:
            columns = [line.partition("\t") for line in lines]
            lines, prefixes = [source for source, _, _ in columns], [prefix for _, _, prefix in columns]
        try:
            return self.translator.translations(lines, prefixes, first_line=n_before, **self.options)
        except UsageError as error:
            if self.prefix is not None:  # no line of the input is to blame
                raise UsageError(f"--prefix: {str(error).partition(': ')[2]}") from None
            if not self.has_prefix_column:
                raise
            # The prefix stands in the input: it is the data that is wrong, not the command line.
            raise DataError(f"{self.name}:{str(error).removeprefix('line ')}") from None

    def _report_first_split(self, translations: list[Translation], n_before: int) -> None:
        for number, one in enumerate(translations, n_before + 1):
            if len(one.parts) > 1:
                self.n_split += 1
                if self.n_split == 1:
                    log.info(
                        f"note: {self.name}:{number}: longer than training lines are, or of more sentences;"
                        f" translated in {len(one.parts)} parts"
                    )

    def finish(self, n_lines: int) -> None:
        if self.n_split > 1:
            log.info(f"note: {self.name}: {self.n_split:,} of {n_lines:,} lines were translated in parts")


def _cut(text: str, n_characters: int) -> str:
    """At the end of a word, where there is one not far before."""
    if len(text) <= n_characters:
        return text
    cut = text[: n_characters - 3]
    words = cut.rpartition(" ")[0]
    return f"{words if 2 * len(words) > len(cut) and text[len(cut)] != ' ' else cut}..."


def _n_best_lines(number: int, translation: Translation) -> list[str]:
    """`number ||| text ||| score` for each hypothesis, best first; sentences are counted from 0."""
    pairs = zip(translation.texts, translation.scores, strict=True)
    return [f"{number} ||| {text} ||| {score:.6f}" for text, score in pairs]


@dataclass
class ScoreLines(LineProcess):
    """Log-probabilities of given translations: the sum, a tab, and each token with its own.

    The line is empty where a side is blank, and, with a warning, where one is longer than the model can read: a line that is
    split has no probability as a whole.
    """

    translator: Translator
    references: Iterator[str]
    name: str  # of the input, for messages

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        references = list(islice(self.references, len(lines)))
        if len(references) < len(lines):
            raise DataError(
                f"the references have {n_before + len(references)} lines, {self.name} more; make them line for line"
            )
        pairs = [self.translator.encode_pair(*sides) for sides in zip(lines, references, strict=True)]
        limit = self.translator.n_positions - 1
        for number, pair in enumerate(pairs, n_before + 1):
            if (longest := max(map(len, pair))) > limit:
                log.warning(f"{self.name}:{number}: {longest:,} tokens, the model reads {limit:,} at most; no score")
        can_score = [all(0 < len(ids) <= limit for ids in pair) for pair in pairs]
        scores = iter(self.translator.token_scores([pair for pair, can in zip(pairs, can_score, strict=True) if can]))
        return [
            self._line(tgt_ids, next(scores)) if can else "" for (_, tgt_ids), can in zip(pairs, can_score, strict=True)
        ]

    def _line(self, tgt_ids: list[int], scores: list[float]) -> str:
        pieces = self.translator.tokenizer.tgt_pieces([*tgt_ids, EOS_ID])
        tokens = " ".join(f"{piece}:{score:.4f}" for piece, score in zip(pieces, scores, strict=True))
        return f"{math.fsum(scores):.6f}\t{tokens}"

    def finish(self, n_lines: int) -> None:
        if next(self.references, None) is not None:
            raise DataError(
                f"the references have more lines than {self.name}, which has {n_lines}; make them line for line"
            )


@dataclass
class TraceLines(LineProcess):
    """Greedy search step by step: several lines for each line."""

    translator: Translator

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        from mt_cli.explain.trace import trace

        return [step for line in lines for step in (list(trace(self.translator, line)) or [""])]


@dataclass
class AttendLines(LineProcess):
    """Translates, and adds the attention of each line to a page."""

    translator: Translator
    options: dict[str, Any]  # keys of the config's `decoding`
    page: AttentionPage
    n_shown: int = 0  # lines that are on the page

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        from mt_cli.explain.attention import attention_maps

        translations = self.translator.translations(lines, first_line=n_before, **self.options)
        for translation in translations:
            for maps in attention_maps(self.translator, translation):
                if self.page.is_full:
                    return [one.text for one in translations]
                self.page.add(maps)
            self.n_shown += 1
        return [one.text for one in translations]

    def finish(self, n_lines: int) -> None:
        if self.n_shown < n_lines:
            log.warning(
                f"{self.page.file} shows the first {self.n_shown:,} of {n_lines:,} lines, as browsers cannot open larger"
                " pages; explain the others separately"
            )
