"""How far text is from other text: how hard it is to guess, letter by letter, for who has read the other. Each
character is guessed from up to four before it, by how often that came about. All of it is whole arrays: a million
characters take a second."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mt_cli.data.normalize import words

_ORDER = 5  # characters of the longest n-gram
_BITS = 20  # of an n-gram's hash: as many buckets as a corpus of a million characters has n-grams, or more
_PRIOR = 3.0  # what shorter n-grams say counts as if it had been seen so many times
_MAX_CHARACTERS = 600_000  # that are read of a text

Pairs = tuple[Sequence[str], Sequence[str]]  # lines of source and of target
Hashes = npt.NDArray[np.uint64]


class CharacterModel:
    """What is usual in some lines of text."""

    def __init__(self, lines: Sequence[str]):
        text = _text(lines)
        self._counts = [np.bincount(one, minlength=1 << _BITS) for one in _grams(text)]
        self._n, self._n_different = len(text), len(np.unique(text))

    def bits(self, lines: Sequence[str]) -> float:
        """How hard a character of the lines is to guess: the number of yes-or-no questions that it takes, in the mean."""
        text = _text(lines)
        guess, n_before = np.full(len(text), 1 / (self._n_different + 1)), np.full(len(text), float(self._n))
        for counts, grams in zip(self._counts, _grams(text), strict=True):
            seen = counts[grams]
            guess = (seen + _PRIOR * guess) / (n_before + _PRIOR)
            n_before = np.concatenate([[0], seen[:-1]])
        return float(-np.log2(guess[1:]).mean())  # of each character but the first, which is a line end


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


# Another way of writing ----------------------------------------------------------------------------------------------

_USUAL = 4e-3  # share of characters
_ALWAYS = 0.9
_TIMES = 10  # as usual as in the other text
_LEAST_GAIN = 0.01  # of the bits of a character
_N_TRIED = 500  # lines


def other_writing(lines: Sequence[str], expected: Sequence[str]) -> dict[str, str]:
    """What to write in place of characters of the lines (ü for +, qu for k), if they are of one language that is
    written in two ways. What is usual here alone is written as whatever makes the text the easiest to guess for who has
    read the expected; if that is usual there alone, it is another way of writing, else it is of other words. Letters with
    other marks, such as tones, say something else or are found by `other_spelling`."""
    expected, text = [line.lower() for line in expected], [one.lower() for one in lines[:: -(-len(lines) // _N_TRIED)]]
    model, here, there = CharacterModel(expected), _shares(text, 1), _shares(expected, 1)
    pairs = _shares(text, 2)  # the most usual first
    olds = [old for old, share in here.items() if share > _USUAL and share > _TIMES * there.get(old, 0)]
    found, best = dict[str, str](), model.bits(text)
    for old in olds * 2:  # what was found later may decide about an earlier one
        digraphs = [two for two, share in pairs.items() if two[0] == old and share > _ALWAYS * here[old]]  # such as qu
        if (one := (digraphs or [old])[0]) in found:
            continue
        usual = (new for new, share in there.items() if share > _USUAL)
        has_marks = len(one) == 1 and unicodedata.decomposition(one)
        news = [new for new in usual if not (has_marks and unicodedata.decomposition(new))]
        written = {new: [line.replace(one, new) for line in text] for new in news}
        bits = {new: model.bits(lines) for new, lines in written.items()}
        new = min(bits, key=lambda new: bits[new], default="")
        if new and bits[new] < (1 - _LEAST_GAIN) * best and there[new] > _TIMES * here.get(new, 0):
            found[one], best, text = new, bits[new], written[new]
    return found


def _shares(lines: Sequence[str], n: int) -> dict[str, float]:
    """Of the n-grams of characters, in all of the text; those with spaces or combining marks are left out."""
    text = "\n".join(lines)
    counts = Counter(map("".join, zip(*(text[i:] for i in range(n)), strict=False)))
    is_left_out = lambda char: char.isspace() or unicodedata.category(char)[0] == "M"
    return {gram: one / len(text) for gram, one in counts.most_common(200) if not any(map(is_left_out, gram))}


# How far text is ------------------------------------------------------------------------------------------------------

_HELD_OUT = 10  # every tenth line is not read: it shows how hard new lines of the same text are
_NEAR, _FAR = 1.35, 2.0


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
        guess = f"letter by letter {text} is {self.times:.1f} times as hard to guess as new lines of it"
        return f"{self.in_a_word} {to} {text}: {words}; {lengths}; {guess}"


def gap(corpus: Pairs, text: Pairs) -> Gap:
    """Either is lines of source and of target."""
    times, unknown, lengths = list[float](), list[float](), list[tuple[float, float]]()
    for read, new in zip(corpus, text, strict=True):
        model = CharacterModel([line for i, line in enumerate(read) if i % _HELD_OUT])
        times.append(model.bits(new) / max(0.1, model.bits(read[::_HELD_OUT])))
        of_corpus, of_text = ([word for line in side for word in words(line.casefold())] for side in (read, new))
        known = set(of_corpus)
        unknown.append(sum(word not in known for word in of_text) / max(1, len(of_text)))
        lengths.append((len(of_corpus) / max(1, len(read)), len(of_text) / max(1, len(new))))
    own, other = zip(*lengths, strict=True)
    return Gap(fmean(times), fmean(unknown), (fmean(own), fmean(other)))
