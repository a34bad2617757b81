"""How far text is from other text: how hard it is to guess, letter by letter, for who has read the other. Each
character is guessed from up to four before it, by how often that came about. All of it is whole arrays: a million
characters take a second."""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mt_cli.data.normalize import words

_ORDER = 5  # characters of the longest n-gram
_BITS = 20  # of an n-gram's hash: as many buckets as a corpus of a million characters has n-grams, or more
_PRIOR = 3.0  # what shorter n-grams say counts as if it had been seen so many times
_MAX_CHARACTERS = 600_000  # that are read of a text
_HELD_OUT = 10  # every tenth line is not read: it shows how hard new lines of the same text are
_NEAR, _FAR = 1.35, 2.0

Pairs = tuple[Sequence[str], Sequence[str]]  # lines of source and of target
Hashes = npt.NDArray[np.uint64]


def _bits(known: Sequence[str], texts: Iterable[Sequence[str]]) -> list[float]:
    """How hard a character of each text is to guess for who has read the known lines: the number of yes-or-no questions
    that it takes, in the mean."""
    read, found = _text(known), list[float]()
    all_counts = [np.bincount(one, minlength=1 << _BITS) for one in _grams(read)]
    for text in map(_text, texts):
        guess, n_before = np.full(len(text), 1 / (len(np.unique(read)) + 1)), np.full(len(text), float(len(read)))
        for counts, grams in zip(all_counts, _grams(text), strict=True):
            seen = counts[grams]
            guess = (seen + _PRIOR * guess) / (n_before + _PRIOR)
            n_before = np.concatenate([[0], seen[:-1]])
        found.append(float(-np.log2(guess[1:]).mean()))  # of each character but the first, which is a line end
    return found


def _text(lines: Sequence[str]) -> Hashes:
    text = "\n" + "\n".join(lines)[:_MAX_CHARACTERS] + "\n"
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)


def _grams(text: Hashes) -> list[npt.NDArray[np.int64]]:
    """Of each length from 1 on: the hash of the n-gram that ends at each character."""
    own = text * np.uint64(0x9E3779B97F4A7C15)
    grams = [own]
    while len(grams) < _ORDER:
        mixed = (grams[-1] ^ (grams[-1] >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        grams.append(own + np.concatenate([np.zeros(1, np.uint64), mixed[:-1]]))
    return [(one >> np.uint64(64 - _BITS)).astype(np.int64) for one in grams]


class Gap(NamedTuple):
    """How far the text that is to be translated is from a corpus: of both sides, the mean."""

    times: float  # as hard to guess as new lines of the corpus
    unknown: float  # share of its running words that the corpus never has
    lengths: tuple[float, float]  # words of a sentence of the corpus, and of the text

    @property
    def in_a_word(self) -> str:
        return "near" if self.times < _NEAR else "far" if self.times < _FAR else "very far"

    def told(self, text: str) -> str:
        """`text`: what the text is called, such as dev."""
        words = f"of 100 words of {text} {100 * self.unknown:.0f} never occur in it"
        lengths = f"its sentences have {self.lengths[0]:.0f} words, those of {text} {self.lengths[1]:.0f}"
        to = "to" if self.in_a_word == "near" else "from"
        return f"{self.in_a_word} {to} {text}: {words}; {lengths}; letter by letter {text} is {self.times:.1f} times as hard to guess"


def gap(corpus: Pairs, text: Pairs) -> Gap:
    """Either is lines of source and of target."""
    times, unknown, lengths = list[float](), list[float](), list[tuple[float, float]]()
    for read, new in zip(corpus, text, strict=True):
        known_lines = [line for i, line in enumerate(read) if i % _HELD_OUT]
        of_new, of_read = _bits(known_lines, (new, read[::_HELD_OUT]))
        times.append(of_new / max(0.1, of_read))
        of_corpus, of_text = ([word for line in side for word in words(line.casefold())] for side in (read, new))
        known = set(of_corpus)
        unknown.append(sum(word not in known for word in of_text) / max(1, len(of_text)))
        lengths.append((len(of_corpus) / max(1, len(read)), len(of_text) / max(1, len(new))))
    own, other = zip(*lengths, strict=True)
    return Gap(fmean(times), fmean(unknown), (fmean(own), fmean(other)))
