"""Looks at all sets of a config while they are read: collects the problems of each, and finds training pairs that are
also in the dev set or a test set. This file knows text, not tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from mt_cli.errors import DataError
from mt_cli.text.corpus import SentencePair

log = logging.getLogger(__name__)


class SetsCheck:
    """Looks at pairs as they pass. First pass the dev and test sets through `held_out`, then the training set through
    `train`; then call `finish`."""

    def __init__(self) -> None:
        self._problems: dict[str, None] = {}  # each once, in order
        self._held_out: dict[
            tuple[str, str], dict[str, int]
        ] = {}  # of a pair: the sets that hold it, and its line there
        self._n_common: dict[str, int] = {}  # of a set: training pairs that are also in it
        self._first_common: dict[
            str, tuple[int, int]
        ] = {}  # of a set: the first such pair's line in train and in the set

    def held_out(self, name: str, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """The pairs of the dev set or a test set, up to the first problem."""
        for pair in self._readable(pairs):
            self._held_out.setdefault((pair.src, pair.tgt), {})[name] = pair.line
            yield pair

    def train(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """The training pairs, up to the first problem."""
        for pair in self._readable(pairs):
            for name, line in self._held_out.get((pair.src, pair.tgt), {}).items():
                self._first_common.setdefault(name, (pair.line, line))
                self._n_common[name] = self._n_common.get(name, 0) + 1
            yield pair

    def _readable(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        iterator = iter(pairs)
        while True:
            try:
                pair = next(iterator)
            except StopIteration:
                return
            except DataError as error:
                self._problems[str(error)] = None
                return
            yield pair

    def finish(self) -> None:
        """Raises DataError with the problems of all sets. If there are none, warns of sets that share pairs with the
        training set: their scores mean little."""
        if self._problems:
            raise DataError(*self._problems)
        for name, n_common in self._n_common.items():
            train_line, line = self._first_common[name]
            log.warning(f"{n_common:,} training pairs are also in {name} (train line {train_line} is line {line})")
