"""Compares a dev or test set with the training set: what they share, and what of the set training never shows; and how
either is spelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from mt_cli.checking.faults import Kind, Severity
from mt_cli.checking.report import Finding
from mt_cli.checking.statistics import CorpusStatistics
from mt_cli.data.corpora import FormatPlace
from mt_cli.data.corpus import Place, SentencePair
from mt_cli.data.normalize import normalize, words
from mt_cli.data.similarity import letters
from mt_cli.data.spelling import APOSTROPHES, CharacterCounters, Spellings, format_spelling

SIDES = ("source", "target")
_VARIANTS = {"apostrophe": APOSTROPHES, "hyphen": "-\u2010\u2011"}
_LEAST = 5  # times that the second spelling occurs: then there is something to decide
_MANY_NEAR = 0.1  # share of the set: captions and phrases have a few short ones by nature
_MAX_COUNTED = 100_000  # characters of a line whose words are counted: a file without line ends is one line


def normalized(pair: SentencePair) -> SentencePair:
    return pair._replace(src=normalize(pair.src), tgt=normalize(pair.tgt))


def folded_words(pair: SentencePair) -> tuple[list[str], list[str]]:
    """The words of either side, case-folded."""
    return words(pair.src[:_MAX_COUNTED].casefold()), words(pair.tgt[:_MAX_COUNTED].casefold())


class HeldOut:
    """A dev or test set, compared with the training pairs as these pass. Memory grows with the set, not with training."""

    def __init__(self, name: str, raw_pairs: list[SentencePair], bad_lines: Sequence[int] = ()):
        """`bad_lines`: that are not UTF-8."""
        self.name, self.raw_pairs, self.bad_lines = name, raw_pairs, bad_lines
        self.pairs = [pair for pair in map(normalized, raw_pairs) if pair.src and pair.tgt]
        self._texts = [pair.src for pair in self.pairs], [pair.tgt for pair in self.pairs]
        self._words = [[word for text in texts for word in words(text.casefold())] for texts in self._texts]
        self._new_words = [set(side_words) for side_words in self._words]
        self._new_characters: list[set[str]] = [set().union(*texts) for texts in self._texts]
        self._keys = [[letters(text) for text in texts] for texts in self._texts]
        # The first place in training of each pair, and of what is equal to a side of one but for case and punctuation.
        self._exact: dict[tuple[str, ...], Place | None] = {pair[:2]: None for pair in self.pairs}
        self._near: list[dict[str, Place | None]] = [dict.fromkeys(filter(None, keys)) for keys in self._keys]

    def look(self, pair: SentencePair, pair_words: tuple[list[str], list[str]], keys: tuple[str, str]) -> None:
        """Remembers what of the set this normalized training pair has. `keys`: what `letters` gave."""
        self.look_for_pair(pair)
        for side, text in enumerate(pair[:2]):
            if self._near[side].get(keys[side], pair.place) is None:
                self._near[side][keys[side]] = pair.place
            if self._new_words[side]:
                self._new_words[side].difference_update(pair_words[side])
            if self._new_characters[side]:
                self._new_characters[side].difference_update(text)

    def look_for_pair(self, pair: SentencePair) -> None:
        """The part of `look` that costs nearly nothing: whether the set has this very pair."""
        key = pair.src, pair.tgt.replace("\u00a0", " ").replace("\u202f", " ")  # a copy of the corpus keeps these
        if self._exact.get(key, pair.place) is None:
            self._exact[key] = pair.place

    def findings(self, statistics: CorpusStatistics, has_parent: bool, format_place: FormatPlace) -> Iterator[Finding]:
        """What to know of the set, after all training pairs have passed. A network that `has_parent` knows words and
        characters of other text."""
        found: dict[Kind, list[tuple[SentencePair, Place]]] = {Kind.IN_TRAINING: [], Kind.NEAR_TRAINING: []}
        for pair, *keys in zip(self.pairs, *self._keys, strict=True):
            near = [places.get(key) for places, key in zip(self._near, keys, strict=True)]
            if place := self._exact[pair[:2]]:
                found[Kind.IN_TRAINING].append((pair, place))
            elif place := near[0] or near[1]:
                found[Kind.NEAR_TRAINING].append((pair, place))
        for kind, places in found.items():
            shown = (pair._replace(src=f"(train {format_place(place)}) {pair.src}") for pair, place in places)
            share = len(places) / len(self.pairs)
            if places:
                yield Finding.of(kind, len(places), share, shown, self.name, "warning" if share >= _MANY_NEAR else None)
        if not has_parent:
            yield from self._unknown_characters()
            yield from self._unknown_words(statistics)

    def _unknown_characters(self) -> Iterator[Finding]:
        for side, unknown, texts in zip(SIDES, self._new_characters, self._texts, strict=True):
            counts = Counter(char for text in texts for char in text if char in unknown)
            if counts:
                most = " ".join(f"{char} (U+{ord(char):04X})" for char, _ in counts.most_common(8))
                holders = (pair for pair, text in zip(self.pairs, texts, strict=True) if not unknown.isdisjoint(text))
                total, share = counts.total(), counts.total() / sum(map(len, texts))
                yield Finding.of(Kind.UNKNOWN_CHARACTERS, total, share, holders, self.name, side=side, most=most)

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
            total, like = sum(map(len, self._words)), "unlike" if is_unlike else "like"
            severity: Severity | None = "warning" if is_unlike else None
            details = {"like": like, "shares": "; ".join(shares)}
            yield Finding.of(Kind.UNKNOWN_WORDS, n_unknown, n_unknown / total, (), self.name, severity, **details)


def spelling_findings(
    train: CharacterCounters, spellings: Spellings, choice: Literal["dev", "own"]
) -> Iterator[Finding]:
    """`spellings`: what dev writes for characters of training. `choice`: the key data.spelling."""
    for side, spelling, characters in zip(SIDES, spellings, train, strict=True):
        counts = characters.counts
        others = {char: n for char in spelling if (n := counts[char])}
        if total := sum(others.values()):
            times = ", ".join(f"{format_spelling({char: spelling[char]})} ({n:,} times)" for char, n in others.items())
            share = total / counts.total()
            severity: Severity = "info" if choice == "dev" else "warning"
            yield Finding.of(Kind.OTHER_SPELLING, total, share, (), "dev", severity, side=side, spellings=times)
        for name, variants in _VARIANTS.items():
            if choice == "dev" and not set(variants).isdisjoint(spelling.values()):
                continue  # training reads it as dev writes it
            # With a space on one side only it is a quotation mark, as is a ’ that closes what ‘ has opened.
            used = Counter({char: counts[char] + counts[f" {char} "] for char in variants})
            if "’" in used:
                used["’"] = max(0, used["’"] - max(0, counts["‘"] - counts["’ "]))
            (most, n_most), (_, n_second) = used.most_common(2)
            if n_second >= _LEAST:
                n, share = used.total() - n_most, 1 - n_most / used.total()
                times = ", ".join(f"{char} (U+{ord(char):04X}) {n:,} times" for char, n in used.most_common() if n)
                yield Finding.of(Kind.TWO_SPELLINGS, n, share, side=side, character=name, spellings=times, most=most)
