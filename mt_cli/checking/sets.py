"""Compares a dev or test set with the training set: what they share, and what of the set training never shows. Also collects
the problems of all sets of a config while they are read, for a training.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from mt_cli.checking.findings import N_EXAMPLES, Example, Finding, Kind
from mt_cli.checking.usual import Usual
from mt_cli.data.corpora import TOLD, Told
from mt_cli.data.corpus import SentencePair
from mt_cli.data.similarity import letters
from mt_cli.data.words import words
from mt_cli.errors import DataError

log = logging.getLogger(__name__)

_SIDES = ("source", "target")
IN_TRAINING = Kind(
    "in_training", "pairs of {set} that training has, too: their scores say what was remembered, not what was learnt",
    "Take them out of the training files or out of {set}.", fatal_share=0.5,
)  # fmt: skip
NEAR_TRAINING = Kind(
    "near_training", "pairs of {set} of which training has the source or the target, but for case and punctuation",
    "Take such sentences out of the training files or out of {set}, where they are many; scores are too good.", severity="info",
    fatal_share=0.9,
)  # fmt: skip
_NEAR_WARNING = 0.1  # share of the set: captions and phrases have a few short ones by nature


class HeldOut:
    """A dev or test set, compared with the training pairs as these pass. Memory grows with the set, not with training."""

    def __init__(self, name: str, pairs: list[SentencePair], told: Told = TOLD):
        """`pairs` are normalized, and there is at least one."""
        self.name, self.pairs, self._told = name, pairs, told
        self._texts = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        self._words = [[word for text in texts for word in words(text.casefold())] for texts in self._texts]
        self._new_words = [set(side_words) for side_words in self._words]
        self._new_characters: list[set[str]] = [set().union(*texts) for texts in self._texts]
        self._exact = {(pair.src, pair.tgt): 0 for pair in pairs}  # of a pair: its first line in training, or 0
        self._keys = [[letters(text) for text in texts] for texts in self._texts]
        self._near = [{key: 0 for key in keys if key} for keys in self._keys]

    def look(self, pair: SentencePair, pair_words: tuple[list[str], list[str]], keys: tuple[str, str]) -> None:
        """Remembers what of the set this training pair has: its words, case-folded, and its keys by `letters`."""
        if self._exact.get((pair.src, pair.tgt)) == 0:
            self._exact[pair.src, pair.tgt] = pair.line
        for side, text in enumerate((pair.src, pair.tgt)):
            if self._near[side].get(keys[side]) == 0:
                self._near[side][keys[side]] = pair.line
            if self._new_words[side]:
                self._new_words[side].difference_update(pair_words[side])
            if self._new_characters[side]:
                self._new_characters[side].difference_update(text)

    def findings(self, usual: Usual) -> list[Finding]:
        """What to know of the set, after all training pairs have passed."""
        characters = (finding for side in (0, 1) for finding in self._unknown_characters(side))
        return [*self._overlap(), *characters, *self._unknown_words(usual), *self._other_ratio(usual)]

    def _overlap(self) -> Iterator[Finding]:
        exact = [(pair, line) for pair in self.pairs if (line := self._exact[pair.src, pair.tgt])]
        near = []
        for pair, *keys in zip(self.pairs, *self._keys, strict=True):
            line = max(lines.get(key, 0) for lines, key in zip(self._near, keys, strict=True))
            if line and not self._exact[pair.src, pair.tgt]:
                near.append((pair, line))
        for kind, common in ((IN_TRAINING, exact), (NEAR_TRAINING, near)):
            if not common:
                continue
            share = len(common) / len(self.pairs)
            if kind is NEAR_TRAINING and share >= _NEAR_WARNING:
                kind = replace(kind, severity="warning")
            examples = tuple(
                Example(pair.line, f"(train {self._told(line)}) {pair.src}", pair.tgt)
                for pair, line in common[:N_EXAMPLES]
            )
            yield Finding.of(kind.at(share), len(common), share, examples, self.name)

    def _unknown_characters(self, side: int) -> Iterator[Finding]:
        unknown = self._new_characters[side]
        counts = Counter(char for text in self._texts[side] for char in text if char in unknown)
        n_characters = sum(map(len, self._texts[side]))
        if not counts:
            return
        most = " ".join(f"{char} (U+{ord(char):04X})" for char, _ in counts.most_common(8))
        kind = Kind(
            "unknown_characters",
            f"characters of the {_SIDES[side]} of {self.name} that training never shows: {most}",
            "Write them as training does, or add sentences with them to training.",
            fatal_share=0.5,
        )
        holders = (
            pair for pair, text in zip(self.pairs, self._texts[side], strict=True) if not unknown.isdisjoint(text)
        )
        examples = tuple(Example(pair.line, pair.src, pair.tgt) for pair in islice(holders, N_EXAMPLES))
        share = counts.total() / n_characters
        yield Finding.of(kind.at(share), counts.total(), share, examples, self.name)

    def _unknown_words(self, usual: Usual) -> Iterator[Finding]:
        """How far the set is from training: which share of its running words training never shows."""
        told, n_unknown, is_unlike = [], 0, False
        for side, all_words in enumerate(self._words):
            unknown = Counter(word for word in all_words if word in self._new_words[side])
            share, expected = unknown.total() / max(1, len(all_words)), usual.new_words(side)
            is_unlike |= share > max(1.5 * expected, expected + 0.05)
            n_unknown += unknown.total()
            most = "".join(f", {word}" for word, _ in unknown.most_common(3))
            told.append(f"{share:.0%} of its {_SIDES[side]} words never occur there (usual: {expected:.0%}){most}")
        if not n_unknown:
            return
        kind = Kind(
            "unknown_words",
            f"{self.name} is {'unlike' if is_unlike else 'like'} training: {'; '.join(told)}",
            "Add training pairs of the kind that you will translate; until then expect low scores here."
            if is_unlike
            else "Nothing to do: subwords spell new words.",
            severity="warning" if is_unlike else "info",
            fatal_share=0.9,
        )
        yield Finding.of(kind, n_unknown, n_unknown / max(1, sum(map(len, self._words))), (), self.name)

    def _other_ratio(self, usual: Usual) -> Iterator[Finding]:
        n_src, n_tgt = (sum(map(len, texts)) for texts in self._texts)
        ratio = n_tgt / max(1, n_src)
        if len(self.pairs) < 20 or 0.75 < ratio / usual.ratio < 4 / 3:
            return
        kind = Kind(
            "other_ratio",
            f"{self.name} has {ratio:.2f} target characters for each source character, training {usual.ratio:.2f}",
            f"Look whether {self.name} is in the same languages and as fully translated as training.",
        )
        yield Finding.of(kind, len(self.pairs), 1.0, (), self.name)


class SetsCheck:
    """Looks at pairs as they pass. First pass the dev and test sets through `held_out`, then the training set through
    `train`; then call `finish`."""

    def __init__(self, told: Told = TOLD) -> None:
        self._told = told
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

    def warn_of_words(self, entries: Iterable[SentencePair]) -> None:
        """Where entries of a list of words are pairs of a dev or test set."""
        common = dict[str, list[tuple[int, int]]]()
        for entry in entries:
            for name, line in self._held_out.get((entry.src, entry.tgt), {}).items():
                common.setdefault(name, []).append((entry.line, line))
        for name, places in common.items():
            n, (first, line) = len(places), places[0]
            log.warning(
                f"{n:,} entries of data.words are also in {name} (the first: line {first} is line {line}); delete them from one"
                " of the two"
            )

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
            log.warning(
                f"{n_common:,} training pairs are also in {name} (the first: train {self._told(train_line)} is line {line});"
                " delete them from one of the two"
            )
