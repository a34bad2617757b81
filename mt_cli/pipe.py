"""`mt translate` as a part of a pipe: reads lines as they come and writes, in a form, what it makes of them.

A form is an object that is called with some lines and the number of lines before them, and gives the lines to write:
translations as text, n-best lists or JSON, forced scores, a trace. This file opens nothing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any, BinaryIO, NamedTuple, Protocol

from tqdm import tqdm

from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.translator import Translation, Translator
from mt_cli.errors import DataError, UsageError
from mt_cli.explain.attention import Attended, AttentionMaps, attend, attended, links_of_line
from mt_cli.explain.doubts import Doubt, doubts
from mt_cli.explain.trace import trace
from mt_cli.text.corpus import NotUtf8Error, decode_line
from mt_cli.text.tokenizer import EOS_ID

log = logging.getLogger(__name__)

LINES_AT_ONCE = 2048  # enough for full batches of one length; results come at least this often


class Form(Protocol):
    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]: ...

    def end(self, n_lines: int) -> None:
        """What is left to say or to refuse after the last of `n_lines`."""


def pump(descriptor: int, name: str, form: Form, out: BinaryIO, replaces_bad: bool, is_interactive: bool) -> None:
    """From a file descriptor, which is read without waiting for more than is there, to `out`. A line that is not UTF-8
    is an error, or U+FFFD is put for what is wrong with it."""
    n_lines = 0
    with tqdm(unit=" lines", disable=True if is_interactive or sys.stdout.isatty() else None) as bar:
        for arrived in _arriving(descriptor, is_interactive):
            for start in range(0, len(arrived), LINES_AT_ONCE):
                chunk = arrived[start : start + LINES_AT_ONCE]
                texts = [_decode(raw, number, name, replaces_bad) for number, raw in enumerate(chunk, n_lines + 1)]
                text = "".join(line + "\n" for line in form(texts, n_lines)).encode()
                with _ctrl_c_waits():
                    _write(text, out)
                n_lines += len(chunk)
                bar.update(len(chunk))
    form.end(n_lines)


def _arriving(descriptor: int, is_interactive: bool) -> Iterator[list[bytes]]:
    """Lines of bytes as they come, as many at a time as have arrived."""
    rest: list[bytes] = []  # pieces of a line whose end has not come yet
    while True:
        if is_interactive and not rest:
            sys.stderr.write("> ")
            sys.stderr.flush()
        try:
            block = os.read(descriptor, 1 << 20)
        except OSError as error:
            raise DataError(f"cannot read the input: {error.strerror}; give a text file") from None
        if not block:
            if rest:
                yield [b"".join(rest)]
            return
        head, *more = block.split(b"\n")
        rest.append(head)
        if more:
            yield [b"".join(rest), *more[:-1]]
            rest = [more[-1]] if more[-1] else []


@contextlib.contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Until all is written, also more than a pipe holds: the last line shall be whole. A second Ctrl-C does not wait."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # nobody asked for KeyboardInterrupt
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


def _write(text: bytes, out: BinaryIO) -> None:
    """All of it: under PYTHONUNBUFFERED stdout is a bare file, which may take a part and say so."""
    rest = memoryview(text)
    while rest:
        n_bytes = out.write(rest)
        if n_bytes is None:
            raise BlockingIOError(errno.EAGAIN, "its reader is slow, and writing may not wait (O_NONBLOCK)")
        rest = rest[n_bytes:]
    out.flush()


def _decode(raw: bytes, number: int, name: str, replaces_bad: bool) -> str:
    try:
        return decode_line(raw, number, name)
    except NotUtf8Error as error:
        if replaces_bad:
            return raw.decode("utf-8", errors="replace")
        raise DataError(f"{error}; fix the line, or use --bad-input replace") from None


@dataclass
class Translated:
    """Translations, a line each; n-best lists as Moses prints them where `n_best` is given; or JSON."""

    translator: Translator
    options: dict[str, Any]  # keys of the config's `decoding`
    name: str  # of the input, for messages
    prefix: str | None = None  # how every translation begins
    has_prefix_column: bool = False  # each line is: source, a tab, how its translation begins
    is_json: bool = False
    says_doubts: bool = False
    keeps_maps: bool = False  # whether `maps` is filled
    maps: list[AttentionMaps] = field(default_factory=list)
    n_split: int = 0  # lines that were translated in parts

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        prefixes = None if self.prefix is None else [self.prefix] * len(lines)
        if self.has_prefix_column:
            columns = [line.partition("\t") for line in lines]
            lines, prefixes = [source for source, _, _ in columns], [given for _, _, given in columns]
        try:
            found = self.translator.translations(lines, prefixes, first_line=n_before, **self.options)
        except UsageError as error:
            if not self.has_prefix_column:
                raise
            raise DataError(f"{self.name}:{str(error).removeprefix('line ')}") from None  # it is the input's mistake
        self._tell_of_splits(found, n_before)
        if self.keeps_maps:
            self.maps += [maps for one in found for maps in attend(self.translator, one)]
        if self.is_json or self.says_doubts:
            judged = judge(self.translator, found)
            if self.says_doubts:
                self._tell_doubts(judged, n_before)
            if self.is_json:
                return as_json(self.translator, judged)
        if self.options.get("n_best") is not None:
            return [line for number, one in enumerate(found, n_before) for line in as_n_best(number, one)]
        return [one.text for one in found]

    def _tell_of_splits(self, found: list[Translation], n_before: int) -> None:
        for number, one in enumerate(found, n_before + 1):
            if len(one.parts) > 1:
                self.n_split += 1
                if self.n_split == 1:
                    log.info(
                        f"note: {self.name}:{number}: longer than training lines are, or of more sentences;"
                        f" translated in {len(one.parts)} parts"
                    )

    def _tell_doubts(self, judged: list[Judged], n_before: int) -> None:
        for number, one in enumerate(judged, n_before + 1):
            for doubt in one.doubts:
                log.info(f"doubt: {self.name}:{number}: {doubt.kind}: {doubt.detail}")

    def end(self, n_lines: int) -> None:
        if self.n_split > 1:
            log.info(f"note: {self.name}: {self.n_split:,} of {n_lines:,} lines were translated in parts")


@dataclass
class Scored:
    """Log-probabilities of given translations: the sum, a tab, and each token with its own. An empty line where a side
    is blank or, with a warning, too long to read at once: its probability is not the product of its parts'."""

    translator: Translator
    references: Iterator[str]
    name: str  # of the input, for messages

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        given = list(islice(self.references, len(lines)))
        if len(given) < len(lines):
            raise DataError(
                f"the references have {n_before + len(given)} lines, the input more; make them line for line"
            )
        tokenizer, limit = self.translator.tokenizer, self.translator.n_positions - 1
        pairs = [self.translator.encode_pair(*sides) for sides in zip(lines, given, strict=True)]
        for number, pair in enumerate(pairs, n_before + 1):
            if (longest := max(map(len, pair))) > limit:
                log.warning(f"{self.name}:{number}: {longest:,} tokens, the model reads {limit:,} at most; no score")
        is_fit = [all(0 < len(ids) <= limit for ids in pair) for pair in pairs]
        scores = iter(self.translator.token_scores([pair for pair, fits in zip(pairs, is_fit, strict=True) if fits]))
        printed = []
        for (_, tgt_ids), fits in zip(pairs, is_fit, strict=True):
            own = next(scores) if fits else []
            pieces = tokenizer.tgt_pieces([*tgt_ids, EOS_ID])
            tokens = " ".join(f"{piece}:{score:.4f}" for piece, score in zip(pieces, own, strict=False))
            printed.append(f"{math.fsum(own):.6f}\t{tokens}" if own else "")
        return printed

    def end(self, n_lines: int) -> None:
        if next(self.references, None) is not None:
            raise DataError(f"the references have more lines than the input, {n_lines}; make them line for line")


@dataclass
class Traced:
    """Greedy search told step by step, several lines for each of the input."""

    translator: Translator

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        return [told for line in lines for told in (list(trace(self.translator, line)) or [""])]

    def end(self, n_lines: int) -> None:
        pass


def as_n_best(number: int, translation: Translation) -> list[str]:
    """`number ||| text ||| score` for each hypothesis, in their order; sentences count from 0."""
    pairs = zip(translation.texts, translation.scores, strict=True)
    return [f"{number} ||| {text} ||| {score:.6f}" for text, score in pairs]


class Judged(NamedTuple):
    """A line's translation and what is told of its best hypothesis."""

    translation: Translation
    attended: list[Attended]  # by part
    doubts: list[Doubt]


def judge(translator: Translator, found: list[Translation]) -> list[Judged]:
    return [
        Judged(one, own, doubts(translator, one, own))
        for one, own in zip(found, attended(translator, found), strict=True)
    ]


def as_json(translator: Translator, judged: list[Judged]) -> list[str]:
    """Source, hypotheses with the score of each and of each token; of the best one the alignment over the pieces and
    the reasons to doubt it.

    Scores are natural logarithms: of a hypothesis over the length penalty of a beam, of a token as it is.
    """
    chosen = [
        [
            [(part.src_ids, part.hypotheses[n]) for part in one.translation.parts]
            for n in range(len(one.translation.texts))
        ]
        for one in judged
    ]
    pairs = [(src_ids, hypothesis.ids) for line in chosen for parts in line for src_ids, hypothesis in parts]
    token_scores = iter(translator.token_scores(pairs))
    return [
        json.dumps(
            _record(translator, one, [[_spoken(own, next(token_scores)) for _, own in parts] for parts in line]),
            ensure_ascii=False,
        )
        for one, line in zip(judged, chosen, strict=True)
    ]


Spoken = tuple[list[int], list[float]]  # what the model said, the end symbol too if it did, and the score of each


def _spoken(hypothesis: Hypothesis, scores: list[float]) -> Spoken:
    return hypothesis.said, scores[: len(hypothesis.said)]


def _record(translator: Translator, one: Judged, hypotheses: list[list[Spoken]]) -> dict[str, Any]:
    """`hypotheses` has what was said in each part of each hypothesis."""
    tokenizer, line = translator.tokenizer, one.translation
    # `tokens` has the end symbol of each part, `source_tokens` has none.
    links = [
        (own.alignment, len(part.src_ids), len(spoken))
        for own, part, (spoken, _) in zip(one.attended, line.parts, hypotheses[0], strict=True)
    ]
    return {
        "source": line.source,
        "source_tokens": [piece for part in line.parts for piece in tokenizer.src_pieces(part.src_ids)],
        "hypotheses": [
            {
                "text": text,
                "score": round(score, 6),
                "tokens": [piece for ids, _ in parts for piece in tokenizer.tgt_pieces(ids)],
                "token_scores": [round(s, 4) if math.isfinite(s) else None for _, scores in parts for s in scores],
            }
            for text, score, parts in zip(line.texts, line.scores, hypotheses, strict=True)
        ],
        "alignment": links_of_line(links),
        "doubts": [doubt._asdict() for doubt in one.doubts],
    }
