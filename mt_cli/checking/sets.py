"""Compares a dev or test set with the training set: what they share, and what of the set training never shows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from mt_cli.checking.faults import Kind
from mt_cli.checking.report import N_EXAMPLES, Example, Finding
from mt_cli.checking.spelling import SIDES
from mt_cli.checking.statistics import CorpusStatistics
from mt_cli.data.corpora import FormatPlace
from mt_cli.data.corpus import Place, SentencePair, format_line
from mt_cli.data.normalize import normalize, words
from mt_cli.data.similarity import letters
from mt_cli.errors import DataError

log = logging.getLogger(__name__)

_NOWHERE: Place = (0, 0)

_MANY_NEAR = 0.1  # share of the set: captions and phrases have a few short ones by nature
_MAX_COUNTED = 100_000  # characters of a line whose words are counted: a file without line ends is one line


def normalized(pair: SentencePair) -> SentencePair:
    return pair._replace(src=normalize(pair.src), tgt=normalize(pair.tgt))


def folded_words(pair: SentencePair) -> tuple[list[str], list[str]]:
    """The words of either side, case-folded."""
    return words(pair.src[:_MAX_COUNTED].casefold()), words(pair.tgt[:_MAX_COUNTED].casefold())


def compare(sets: Iterable[HeldOut], pair: SentencePair, pair_words: tuple[list[str], list[str]]) -> None:
    """Shows a training pair to the sets."""
    keys = letters(pair.src), letters(pair.tgt)
    for one in sets:
        one.look(pair, pair_words, keys)


class HeldOut:
    """A dev or test set, compared with the training pairs as these pass. Memory grows with the set, not with training."""

    def __init__(
        self,
        name: str,
        raw_pairs: Sequence[SentencePair],
        bad_lines: Sequence[int] = (),
        format_place: FormatPlace = format_line,
    ):
        """`bad_lines`: that are not UTF-8. `format_place`: of a training pair."""
        self.name, self.raw_pairs, self.bad_lines, self._format_place = name, raw_pairs, bad_lines, format_place
        self.pairs = pairs = [pair for pair in map(normalized, raw_pairs) if pair.src and pair.tgt]
        self._texts = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        self._words = [[word for text in texts for word in words(text.casefold())] for texts in self._texts]
        self._new_words = [set(side_words) for side_words in self._words]
        self._new_characters: list[set[str]] = [set().union(*texts) for texts in self._texts]
        self._exact = {(pair.src, pair.tgt): _NOWHERE for pair in pairs}  # of a pair: its first place in training
        self._keys = [[letters(text) for text in texts] for texts in self._texts]
        self._near = [{key: _NOWHERE for key in keys if key} for keys in self._keys]

    def look(self, pair: SentencePair, pair_words: tuple[list[str], list[str]], keys: tuple[str, str]) -> None:
        """Remembers what of the set this training pair has. `keys`: what `letters` gave."""
        self.look_for_pair(pair.src, pair.tgt, pair.place)
        for side, text in enumerate((pair.src, pair.tgt)):
            if self._near[side].get(keys[side]) == _NOWHERE:
                self._near[side][keys[side]] = pair.place
            if self._new_words[side]:
                self._new_words[side].difference_update(pair_words[side])
            if self._new_characters[side]:
                self._new_characters[side].difference_update(text)

    def look_for_pair(self, src: str, tgt: str, place: Place) -> None:
        """The part of `look` that costs nearly nothing: whether the set has this very pair."""
        if self._exact.get((src, tgt)) == _NOWHERE:
            self._exact[src, tgt] = place

    def pairs_in_training(self) -> list[tuple[SentencePair, Place]]:
        """The pairs of the set that training has, each with its place there."""
        found = ((pair, self._exact[pair.src, pair.tgt]) for pair in self.pairs)
        return [(pair, place) for pair, place in found if place != _NOWHERE]

    def findings(self, statistics: CorpusStatistics, has_parent: bool) -> Iterator[Finding]:
        """What to know of the set, after all training pairs have passed. A network that `has_parent` knows words and
        characters of other text."""
        yield from self._overlap()
        if not has_parent:
            yield from self._unknown_characters()
            yield from self._unknown_words(statistics)
        yield from self._other_ratio(statistics)

    def _overlap(self) -> Iterator[Finding]:
        exact, near = self.pairs_in_training(), list[tuple[SentencePair, Place]]()
        for pair, *keys in zip(self.pairs, *self._keys, strict=True):
            place = max(places.get(key, _NOWHERE) for places, key in zip(self._near, keys, strict=True))
            if place != _NOWHERE and self._exact[pair.src, pair.tgt] == _NOWHERE:
                near.append((pair, place))
        for kind, found in ((Kind.IN_TRAINING, exact), (Kind.NEAR_TRAINING, near)):
            share = len(found) / len(self.pairs)
            examples = tuple(
                Example(pair.line, f"(train {self._format_place(place)}) {pair.src}", pair.tgt)
                for pair, place in found[:N_EXAMPLES]
            )
            if found:
                is_much = share >= _MANY_NEAR
                yield Finding.of(kind, len(found), share, examples, self.name, severity="warning" if is_much else None)

    def _unknown_characters(self) -> Iterator[Finding]:
        for side, unknown, texts in zip(SIDES, self._new_characters, self._texts, strict=True):
            counts = Counter(char for text in texts for char in text if char in unknown)
            if not counts:
                continue
            most = " ".join(f"{char} (U+{ord(char):04X})" for char, _ in counts.most_common(8))
            holders = (pair for pair, text in zip(self.pairs, texts, strict=True) if not unknown.isdisjoint(text))
            examples = tuple(Example(pair.line, pair.src, pair.tgt) for pair in islice(holders, N_EXAMPLES))
            total, share = counts.total(), counts.total() / sum(map(len, texts))
            yield Finding.of(Kind.UNKNOWN_CHARACTERS, total, share, examples, self.name, side=side, most=most)

    def _unknown_words(self, statistics: CorpusStatistics) -> Iterator[Finding]:
        """How far the set is from training: which share of its running words training never shows."""
        shares, n_unknown, is_unlike = [], 0, False
        for side, all_words in enumerate(self._words):
            unknown = Counter(word for word in all_words if word in self._new_words[side])
            share, expected = unknown.total() / max(1, len(all_words)), statistics.new_words(side)
            is_unlike |= share > max(1.5 * expected, expected + 0.05)
            n_unknown += unknown.total()
            most = "".join(f", {word}" for word, _ in unknown.most_common(3))
            shares.append(f"{share:.0%} of its {SIDES[side]} words never occur there (usual: {expected:.0%}){most}")
        if n_unknown:
            yield Finding.of(
                Kind.UNKNOWN_WORDS,
                n_unknown,
                n_unknown / sum(map(len, self._words)),
                name=self.name,
                severity="warning" if is_unlike else None,
                like="unlike" if is_unlike else "like",
                shares="; ".join(shares),
            )

    def _other_ratio(self, statistics: CorpusStatistics) -> Iterator[Finding]:
        n_src, n_tgt = (sum(map(len, texts)) for texts in self._texts)
        ratio, usual = n_tgt / max(1, n_src), statistics.ratio
        if len(self.pairs) >= 20 and not 0.75 < ratio / usual < 4 / 3:
            yield Finding.of(Kind.OTHER_RATIO, len(self.pairs), 1.0, name=self.name, ratio=ratio, usual=usual)


class SetsCheck:
    """Looks at pairs as they pass. First pass the dev and test sets through `held_out`, then the training set through
    `train`; then call `finish`."""

    def __init__(self, format_place: FormatPlace = format_line) -> None:
        self._format_place = format_place
        self._problems: dict[str, None] = {}  # each once, in order
        self._pairs: dict[str, list[SentencePair]] = {}
        self._sets: list[HeldOut] = []

    def held_out(self, name: str, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """The pairs of the dev set or a test set, up to the first problem."""
        for pair in self._readable(pairs):
            self._pairs.setdefault(name, []).append(pair)
            yield pair

    def train(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """The training pairs, up to the first problem."""
        if not self._sets:  # of the first corpus
            self._sets = [
                HeldOut(name, held_out, format_place=self._format_place) for name, held_out in self._pairs.items()
            ]
        for pair in self._readable(pairs):
            tgt = pair.tgt.replace("\u00a0", " ").replace("\u202f", " ")  # all else is normalized
            for one in self._sets:
                one.look_for_pair(pair.src, tgt, pair.place)
            yield pair

    def warn_of_words(self, entries: Iterable[SentencePair]) -> None:
        """Where entries of a list of words are pairs of a dev or test set."""
        pairs = {pair[:2] for pair in entries}
        for name, held_out in self._pairs.items():
            if lines := [pair.line for pair in held_out if pair[:2] in pairs]:
                log.warning(
                    f"{len(lines):,} pairs of {name} are also in data.words (the first: line {lines[0]}); {_ADVICE}"
                )

    def _readable(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        try:
            yield from pairs
        except DataError as error:
            self._problems[str(error)] = None

    def finish(self) -> None:
        """Raises DataError with the problems of all sets. If there are none, warns of sets that share pairs with the
        training set: their scores mean little."""
        if self._problems:
            raise DataError(*self._problems)
        for one in self._sets:
            if found := one.pairs_in_training():
                (pair, place), name = found[0], one.name
                where = f"line {pair.line} is train {self._format_place(place)}"
                log.warning(f"{len(found):,} pairs of {name} are also in training (the first: {where}); {_ADVICE}")


_ADVICE = "delete them from one of the two"
