"""Learns from a sample of a corpus what is usual in it: its words and scripts on either side, and how long a translation is.
What is unusual is judged by this, not by rules for a language.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable

import numpy as np

from mt_cli.data.corpus import SentencePair
from mt_cli.data.normalize import words

_SAMPLE = 50_000  # pairs; at most twice as many are kept
MAX_CHARACTERS = 1_500  # of a text that is looked into; a longer one is over-long whatever it says
_RARE_SCRIPT = 0.02  # share of the letters of a side
_LEAST_SIGMA = 0.5  # so that a corpus of templates, all of one ratio, has no outliers
_FREQUENT = 5  # from so many occurrences on a word says which side it belongs to
_MOST_WEIGHT = 4.0  # of a word, in nats, so that no single word decides
_LIKENESS = 1.0  # to the other side, see `is_of_other_side`
_SHARE_OF_OTHER = 0.55  # of the words must be more than e times as frequent on the other side
_SHORT = 20  # characters; shorter texts say little of the usual ratio


class _Scripts(dict[int, int | None]):
    """For `str.translate`: puts for each letter a character that stands for its script, and leaves out all others."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __missing__(self, code: int) -> int | None:
        char, number = chr(code), None
        if char.isalpha() and unicodedata.category(char) != "Lm" and char not in "ªº":
            name = unicodedata.name(char, "UNKNOWN").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
            script = name.replace("-", " ").split()[0]
            script = "CJK" if script in {"HIRAGANA", "KATAKANA"} else script
            number = self._numbers.setdefault(script, len(self._numbers) + 1)
        self[code] = number
        return number


_SCRIPTS = _Scripts()


def scripts(text: str) -> str:
    """A character for each letter of the text, which stands for the letter's script."""
    return text.translate(_SCRIPTS)


LATIN = scripts("a")


def cut(pair: SentencePair) -> SentencePair:
    return pair._replace(src=pair.src[:MAX_CHARACTERS], tgt=pair.tgt[:MAX_CHARACTERS])


class Sample:
    """Keeps pairs that are spread evenly over all that pass, in memory that does not grow with them."""

    def __init__(self) -> None:
        self.pairs: list[SentencePair] = []
        self._n_seen, self._step = 0, 1

    def add(self, pair: SentencePair) -> None:
        if self._n_seen % self._step == 0:
            self.pairs.append(cut(pair))
            if len(self.pairs) >= 2 * _SAMPLE:
                self.pairs, self._step = self.pairs[::2], 2 * self._step
        self._n_seen += 1


class CorpusStatistics:
    """Sides are 0 (source) and 1 (target); `words` are case-folded."""

    def __init__(self, pairs: Iterable[SentencePair]):
        texts = list(dict.fromkeys((pair.src, pair.tgt) for pair in pairs))
        translated = [(src, tgt) for src, tgt in texts if src != tgt]
        texts = translated if 2 * len(translated) >= len(texts) else texts
        self._words: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        letters: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for text in texts:
            for side in (0, 1):
                self._words[side].update(words(text[side].casefold()))
                letters[side].update(scripts(text[side]))
        self._n_words = self._words[0].total(), self._words[1].total()
        # How many times as many words a side has as the other, and its words that are clearly not of the other.
        n_src, n_tgt = (max(1, n) for n in self._n_words)
        self._scales = n_src / n_tgt, n_tgt / n_src
        self._own = [
            {word for word, n in here.items() if n > _FREQUENT and n > 2 * scale * there[word]}
            for here, there, scale in zip(self._words, self._words[::-1], self._scales, strict=True)
        ]
        self.main_scripts = tuple(
            {script for script, count in counts.items() if count >= _RARE_SCRIPT * counts.total()} for counts in letters
        )
        # Target characters for each source character, and the deviation from that over the root of the source's length:
        # medians, which faulty pairs hardly move.
        lengths = [(len(src), len(tgt)) for src, tgt in texts]
        table = np.array([pair for pair in lengths if min(pair) >= _SHORT] or lengths or [(1, 1)], dtype=float)
        n_src_characters, n_tgt_characters = np.maximum(table[:, 0], 1), table[:, 1]
        self.ratio = float(np.median(n_tgt_characters / n_src_characters))
        deviations = np.abs(n_tgt_characters - self.ratio * n_src_characters) / np.sqrt(n_src_characters)
        self._sigma = max(_LEAST_SIGMA * self.ratio, 1.4826 * float(np.median(deviations)))

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

    def compare_lengths(self, n_src: int, n_tgt: int) -> tuple[float, float]:
        """How many times as long as usual a target of n_tgt characters is, and how far from the usual length, in standard
        deviations. The variance grows with the length (Gale and Church 1993)."""
        usual = self.ratio * n_src
        return n_tgt / usual, (n_tgt - usual) / (self._sigma * math.sqrt(n_src))

    def is_of_other_side(self, side: int, own: list[str], other: list[str]) -> bool:
        """Whether the words `own` of a text of that side are clearly those of the other side, by the mean over the words of log
        P(word | other side) - log P(word | own side) and by the share of words that say so. `other` are the words of its
        partner; the pair itself does not count as a witness."""
        if len(self._own[side].intersection(own)) > (1 - _SHARE_OF_OTHER) * len(own):
            return False  # nearly all pairs, at little cost
        own_counts, other_counts, total, n_other = Counter(own), Counter(other), 0.0, 0
        for word, n in own_counts.items():
            here = max(0, self._words[side][word] - n)
            there = max(0, self._words[1 - side][word] - other_counts[word])
            if here + there:
                weight = math.log((there + 0.5) / (here + 0.5) * self._scales[side])
                total += n * max(-_MOST_WEIGHT, min(_MOST_WEIGHT, weight))
                n_other += n * (weight > 1)
        return total > _LIKENESS * len(own) and n_other >= _SHARE_OF_OTHER * len(own)
