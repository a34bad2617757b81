"""Near repetition: which of some sentences another sentence gives away. This file knows single sentences, not pairs.

One gives another away if it has most of its n-grams of letters (containment: Broder 1997), which serve languages with and
without spaces. Case, accents, punctuation, digits and spaces do not count.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

MAX_COMPARED = 1000  # characters of a line that are looked at

# Tried on the captions of Multi30k, a corpus made from patterns, and news: with these two, fewer than 1 in 100 held-out
# sentences has 80% of its words, or an edit ratio (difflib) of 0.9, in common with a training sentence.
NEAR = 0.65
_BITS = 16  # of an n-gram: 4 letters of an alphabet or 2 of Chinese; many sentences share shorter ones by chance
_MANY = 6  # times the length of an n-gram: n-grams of a sentence that can be recognized within a longer one
_MANY_POSSIBLE = 100
_DISTANCE = 50  # couples: far enough for another story, near enough for the same part of a mixed corpus

# Accents and points, too; the apostrophes that Unicode calls letters; the line that lengthens Arabic words. But not the
# vowel signs of scripts from India to Cambodia and the sound marks of kana, which Python does not count as letters.
_VOWEL_SIGNS = "".join(
    chr(code)
    for first, last in ((0x900, 0x109F), (0x1700, 0x1CFF), (0x3099, 0x309A), (0xA800, 0xABFF))
    for code in range(first, last + 1)
    if unicodedata.category(chr(code)) in {"Mn", "Mc"}
)
_NO_LETTERS = re.compile(rf"(?:[^\w{_VOWEL_SIGNS}]|[\d_\u02b9-\u02df\u0640\ua78b\ua78c])+")


def letters(text: str) -> str:
    """The letters of a sentence as they are compared; of a long one, those of its beginning."""
    text = text[:MAX_COMPARED]
    return _NO_LETTERS.sub("", (text if text.isascii() else unicodedata.normalize("NFKD", text)).casefold())


def gram_length(sentences: Iterable[str]) -> int:
    """How many letters an n-gram has, from sentences that `letters` gave: so many that it carries some 16 bits."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    total = sum(counts.values())
    bits = sum(count / total * math.log2(total / count) for count in counts.values())
    return min(6, max(2, round(_BITS / max(bits, 1))))


def grams(sentence: str, n: int) -> set[str]:
    """The n-grams of what `letters` gave: the whole where it is shorter, none where it is empty."""
    return {sentence[i : i + n] for i in range(max(1, len(sentence) - n + 1))} - {""}


def compare_neighbours(couples: list[tuple[str, str]]) -> tuple[int, int]:
    """How many of these couples of neighbours, each as `letters` gave it, have more in common than the first has with the
    second of a distant couple, and how many have less. Equal sentences count for neither."""
    n = gram_length(sentence for couple in couples for sentence in couple)
    firsts, seconds = ([grams(couple[i], n) for couple in couples] for i in (0, 1))
    distance = min(_DISTANCE, len(couples) // 2)
    differences = [
        _common(first, second) - _common(first, distant)
        for first, second, distant in zip(firsts, seconds, seconds[distance:] + seconds[:distance], strict=True)
        if first != second and first != distant
    ]
    return sum(d > 0 for d in differences), sum(d < 0 for d in differences)


def _common(first: set[str], second: set[str]) -> float:
    return len(first & second) / max(1, len(first | second))  # Jaccard 1901


class NearIndex:
    """Finds those of its sentences that another sentence gives away. Memory grows with its own sentences alone."""

    def __init__(self, sentences: list[str]):
        """`sentences` are what `letters` gave; those without letters are never found."""
        self._n = gram_length(sentences)
        self._own = [grams(sentence, self._n) for sentence in sentences]
        frequency = Counter(gram for own in self._own for gram in own)
        rare: defaultdict[str, list[int]] = defaultdict(list)
        others: defaultdict[str, list[int]] = defaultdict(list)
        n_needed = []
        for number, own in enumerate(self._own):
            # Looking for the rarer half of the n-grams is quicker by far. Who shows the share `NEAR` of all n-grams lacks
            # so few that the rest must be in this half (prefix filtering, Chaudhuri, Ganti and Kaushik 2006).
            ordered, n_rarer = sorted(own, key=frequency.__getitem__), (len(own) + 1) // 2
            n_needed.append(n_rarer - (len(own) - math.ceil(NEAR * len(own) - 1e-9)))
            for holders, grams_of_half in ((rare, ordered[:n_rarer]), (others, ordered[n_rarer:])):
                for gram in grams_of_half:
                    holders[gram].append(number)
        self._rare, self._others = (
            {gram: np.array(numbers, dtype=np.int32) for gram, numbers in holders.items()} for holders in (rare, others)
        )
        self._n_needed = np.maximum(n_needed, 1)
        self._n_grams = np.array([len(own) for own in self._own])

    def near(self, sentence: str) -> list[int]:
        """The indexes of the sentences of which this one, as `letters` gave it, shows the share `NEAR` at least. A short
        sentence within a longer one does not count as shown whole: phrases of few words are part of many sentences."""
        found = grams(sentence, self._n)
        n_shown, n_recognized = self._n_shown(found, self._rare), min(len(found), _MANY * self._n)
        possible = np.flatnonzero(n_shown >= self._n_needed)
        if len(possible) > _MANY_POSSIBLE:  # in text made from patterns; to count all at once is slower for a few
            n_shown += self._n_shown(found, self._others)
            is_near = n_shown >= NEAR * np.maximum(self._n_grams, n_recognized)
            return [int(i) for i in possible[is_near[possible]]]
        return [
            i for i in possible.tolist() if len(self._own[i] & found) >= NEAR * max(len(self._own[i]), n_recognized)
        ]

    def _n_shown(self, found: set[str], holders: dict[str, npt.NDArray]) -> npt.NDArray:
        """How many of these n-grams each sentence has, among those that it holds there."""
        arrays = [holders[gram] for gram in found & holders.keys()] or [np.empty(0, np.int32)]
        return np.bincount(np.concatenate(arrays), minlength=len(self._own))
