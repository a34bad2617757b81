"""Learns from a sample of a corpus what is usual in it: its words and scripts on either side, and how long a translation
is. What is unusual is judged by this, not by rules for a language.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any

from mt_cli.data.corpus import SentencePair
from mt_cli.data.words import words

_SAMPLE = 50_000  # pairs; at most twice as many are kept
OVER_LONG_FROM = 1_500  # of a text that is looked into; a longer one is over-long whatever it says
_RARE_SCRIPT = 0.02  # share of the letters of a side
_LEAST_SIGMA = 0.5  # so that a corpus of templates, all of one ratio, has no outliers
_FREQUENT = 5  # from so many occurrences on a word says which side it belongs to
_MOST_WEIGHT = 4.0  # of a word, in nats, so that no single word decides
_LIKENESS = 1.0  # to the other side, see `_likeness`
_LIKENESS_OF_BOTH = 0.3  # where both sides are likelier the other way round, less of it is enough
_SHARE_OF_OTHER = 0.55  # of the words must be more than e times as frequent on the other side
_SHORT = 20  # characters; shorter texts say little of the usual ratio


class Sample:
    """Keeps pairs that are spread evenly over all that pass, in memory that does not grow with them."""

    def __init__(self) -> None:
        self.pairs: list[SentencePair] = []
        self._n_seen, self._step = 0, 1

    def add(self, pair: SentencePair) -> None:
        if self._n_seen % self._step == 0:
            self.pairs.append(SentencePair(pair.src[:OVER_LONG_FROM], pair.tgt[:OVER_LONG_FROM], pair.line))
            if len(self.pairs) >= 2 * _SAMPLE:
                self.pairs, self._step = self.pairs[::2], 2 * self._step
        self._n_seen += 1


class _Scripts(dict[int, int | None]):
    """For `str.translate`: puts for each letter a character that stands for its script, and leaves out all others."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}

    def __missing__(self, code: int) -> int | None:
        char, script = chr(code), None
        if char.isalpha() and unicodedata.category(char) != "Lm" and char not in "ªº":
            name = unicodedata.name(char, "UNKNOWN").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
            family = name.replace("-", " ").split()[0]
            family = "CJK" if family in {"HIRAGANA", "KATAKANA"} else family
            script = self.codes.setdefault(family, len(self.codes) + 1)
        self[code] = script
        return script


_SCRIPTS = _Scripts()


def scripts(text: str) -> str:
    """A character for each letter of the text, which stands for the letter's script."""
    return text.translate(_SCRIPTS)


class Usual:
    """What is usual in a corpus. Sides are 0 (source) and 1 (target)."""

    def __init__(self, pairs: Iterable[SentencePair]):
        texts = list(dict.fromkeys((pair.src, pair.tgt) for pair in pairs))
        translated = [(src, tgt) for src, tgt in texts if src != tgt]
        texts = translated if 2 * len(translated) >= len(texts) else texts
        self._learn(texts)
        swapped = [self.is_swapped(words(src.casefold()), words(tgt.casefold())) for src, tgt in texts]
        if any(swapped):  # many of them hide each other: they make the words of both sides alike
            self._learn([text[::-1] if is_swapped else text for text, is_swapped in zip(texts, swapped, strict=True)])

    def _learn(self, texts: list[tuple[str, str]]) -> None:
        self._words: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        letters: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        lengths: list[tuple[int, int]] = []
        for src, tgt in texts:
            for side, text in enumerate((src, tgt)):
                self._words[side].update(words(text.casefold()))
                letters[side].update(scripts(text))
            lengths.append((len(src), len(tgt)))
        self._n_words = self._words[0].total(), self._words[1].total()
        self._own = [self._words_of_one_side(side) for side in (0, 1)]
        self.main_scripts = tuple(
            {script for script, count in counts.items() if count >= _RARE_SCRIPT * counts.total()} for counts in letters
        )
        self.ratio, self.sigma = _length_ratio(lengths)

    def new_words(self, side: int) -> float:
        """Share of the words that are new in further text of the same kind: as many as now occur once (Good 1953)."""
        once = sum(1 for count in self._words[side].values() if count == 1)
        return once / max(1, self._n_words[side])

    @property
    def common_words(self) -> float:
        """Share of the running words that the two sides have in common: near 1 where both are in one language."""
        (src, tgt), (n_src, n_tgt) = self._words, self._n_words
        spelled = (word for word in src if word[0].isalpha())
        return sum(min(src[word] / max(1, n_src), tgt[word] / max(1, n_tgt)) for word in spelled)

    def deviation(self, n_src: int, n_tgt: int) -> float:
        """How far a target of n_tgt characters is from the usual length, in standard deviations. The variance grows with
        the length (Gale and Church 1993)."""
        return (n_tgt - self.ratio * n_src) / (self.sigma * math.sqrt(max(1, n_src)))

    def _words_of_one_side(self, side: int) -> set[str]:
        here, there = self._words[side], self._words[1 - side]
        scale = max(1, self._n_words[side]) / max(1, self._n_words[1 - side])
        return {word for word, count in here.items() if count > _FREQUENT and count > 2 * scale * there[word]}

    def is_swapped(self, src: list[str], tgt: list[str]) -> bool:
        """Whether the words of both sides of a pair, case-folded, are likelier on the other side."""
        likeness = [self._likeness(side, *sides)[0] for side, sides in enumerate(((src, tgt), (tgt, src)))]
        return min(likeness) > _LIKENESS_OF_BOTH and sum(likeness) > _LIKENESS

    def is_of_other_side(self, side: int, own: list[str], other: list[str]) -> bool:
        """Whether the words `own` of a text of that side are clearly those of the other side; `other` are the words of its
        partner. Both are case-folded."""
        likeness, share = self._likeness(side, own, other)
        return likeness > _LIKENESS and share >= _SHARE_OF_OTHER

    def _likeness(self, side: int, own: list[str], other: list[str]) -> tuple[float, float]:
        """The mean over the words of log P(word | other side) - log P(word | own side), and the share of words that say
        so. The pair itself does not count as a witness."""
        if len(self._own[side].intersection(own)) > (1 - _SHARE_OF_OTHER) * len(own):
            return 0.0, 0.0  # nearly all pairs, at little cost
        own_counts, other_counts, total, n_other = Counter(own), Counter(other), 0.0, 0
        scale = max(1, self._n_words[side]) / max(1, self._n_words[1 - side])
        for word, n in own_counts.items():
            here = max(0, self._words[side][word] - n)
            there = max(0, self._words[1 - side][word] - other_counts[word])
            if here + there:
                weight = math.log((there + 0.5) / (here + 0.5) * scale)
                total += n * max(-_MOST_WEIGHT, min(_MOST_WEIGHT, weight))
                n_other += n * (weight > 1)
        return total / max(1, len(own)), n_other / max(1, len(own))


def _length_ratio(lengths: list[tuple[int, int]]) -> tuple[float, float]:
    """Target characters for each source character, and the deviation from that over the root of the source's length;
    medians, which faulty pairs hardly move."""
    import numpy as np  # here, because the command line starts without numpy

    table: Any = np.array([pair for pair in lengths if min(pair) >= _SHORT] or lengths or [(1, 1)], dtype=float)
    src, tgt = np.maximum(table[:, 0], 1), table[:, 1]
    ratio = float(np.median(tgt / src))
    deviations = np.abs(tgt - ratio * src) / np.sqrt(src)
    return ratio, max(_LEAST_SIGMA * ratio, 1.4826 * float(np.median(deviations)))
