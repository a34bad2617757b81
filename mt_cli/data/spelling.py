"""Signs that a dev set writes otherwise than the training text, such as â for ã or ' for ’: languages with a young or a
disputed spelling are written in several ways, and a translation should be written as the reader writes.

Both sides of the training text are read as the dev set writes them; and what is translated later is, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator

from mt_cli.data.corpus import SentencePair

Spelling = dict[str, str]  # of a sign that training has: what the dev set writes for it
Spellings = tuple[Spelling, Spelling]  # of source and target
AS_IT_IS: Spellings = ({}, {})

APOSTROPHES = "'’´`ʼʻꞌ"  # not ‘, which opens quotations
_MARKS = "\u0300-\u036f"
LETTER_BEFORE, LETTER_AFTER = r"(?<=[^\W\d_])", r"(?=[^\W\d_])"
# An apostrophe between letters, with the spaces that some tokenizers put there; a letter with the marks that no single
# character has it with.
_SIGN = re.compile(f"{LETTER_BEFORE} ?[{APOSTROPHES}] ?{LETTER_AFTER}|.[{_MARKS}]*", re.DOTALL)
_OF_SEVERAL = re.compile(f"[{_MARKS}]| [{APOSTROPHES}]|[{APOSTROPHES}] ")  # found where a sign has several characters
_LAST_LATIN = "\u02af"  # in other scripts, a letter with other marks is another word more often than another spelling
# Names such as those of ʉ, ɨ, ɛ, ɓ.
_CHANGED = re.compile("LATIN (?:SMALL|CAPITAL) LETTER (?:OPEN )?([A-Z])(?: BAR| WITH .*)?")

# Times that training has a sign, and that the dev set would have it, if it wrote as training does: with fewer it may lack one
# by chance.
_LEAST = 20
_HARDLY = 0.05  # share of these times up to which it does not write so
# The sign that stands for lost ones must be more frequent than in training by this share of theirs, and by this share of its
# own; at most so many times as frequent as all of them were; and they must be so large a share of it. Otherwise its rise has
# another reason.
_RISES, _GROWS, _MOST, _SHARE = 0.5, 0.2, 3.0, 0.1
_MAX_COUNTED = 100_000  # characters of a line: a file without line ends is one line
_MAINLY = 3.0  # times as frequent that apostrophes with spaces must be as others: they can be quotation marks


class SignCounter:
    """Counts the signs of a text."""

    def __init__(self, texts: Iterable[str] = ()):
        self.counts = Counter[str]()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """`text` is NFC."""
        text = text[:_MAX_COUNTED]
        self.counts.update(_SIGN.findall(text) if _OF_SEVERAL.search(text) else text)


Signs = tuple[SignCounter, SignCounter]  # of source and target


def count_signs(signs: Signs, pair: SentencePair) -> None:
    for counter, text in zip(signs, pair[:2], strict=True):
        counter.add(text)


def other_spelling(train: SignCounter, dev: SignCounter) -> Spelling:
    """The signs of training that the dev set never or hardly ever writes, where it has another sign for them: the same letter
    with other marks, or an apostrophe that is another one or has no spaces, of which it has so much more."""
    found = Spelling()
    scale = dev.counts.total() / max(1, train.counts.total())
    expected = {sign: n * scale for sign, n in train.counts.items()}  # times, if dev wrote as training does
    for kin in _grouped(train.counts.keys() | dev.counts.keys()):
        lost = [
            sign for sign in kin
            if min(train.counts[sign], expected.get(sign, 0)) >= _LEAST and dev.counts[sign] <= _HARDLY * expected[sign]
        ]  # fmt: skip
        joined, spaced = (sum(expected.get(sign, 0) for sign in kin if (" " in sign) == has) for has in (False, True))
        lost = [sign for sign in lost if " " not in sign or spaced >= _MAINLY * joined]
        n_lost = sum(expected[sign] for sign in lost)
        rises = {sign: dev.counts[sign] - expected.get(sign, 0) for sign in kin if sign not in lost and " " not in sign}
        others = [
            sign for sign, rise in rises.items()
            if rise >= max(_RISES * n_lost, _GROWS * expected.get(sign, 0))
            and dev.counts[sign] <= _MOST * (n_lost + expected.get(sign, 0))
            and n_lost >= _SHARE * expected.get(sign, 0)
        ]  # fmt: skip
        if lost and others:
            found |= dict.fromkeys(lost, max(others, key=lambda sign: (rises[sign], sign)))
    capitals = {sign.upper(): other.upper() for sign, other in found.items() if sign.islower()}
    return found | {sign: other for sign, other in capitals.items() if sign not in found}


def _grouped(signs: Iterable[str]) -> Iterable[list[str]]:
    """The signs that may stand for each other: apostrophes with and without spaces; the forms of a Latin letter with marks,
    strokes and hooks."""
    groups: dict[str, list[str]] = {}
    for sign in sorted(signs):
        bare = sign.strip(" ")
        if bare and bare in APOSTROPHES:
            groups.setdefault(APOSTROPHES, []).append(sign)
        elif (letter := _plain_letter(sign)) != sign:
            groups.setdefault(letter, []).append(sign)
    return groups.values()


def _plain_letter(sign: str) -> str:
    """The Latin letter that a sign is a form of: u of ü, u̱ and ʉ. Other signs as they are."""
    first = unicodedata.normalize("NFD", sign)[0]
    if not first.isalpha() or first > _LAST_LATIN:
        return sign
    changed = _CHANGED.fullmatch(unicodedata.name(first, ""))
    letter = changed[1] if changed else first
    return letter.lower() if first.islower() else letter


class Respelling:
    """Writes text in another spelling."""

    def __init__(self, spelling: Spelling):
        self._spelling = spelling
        signs = "|".join(map(_pattern_of, sorted(spelling, key=len, reverse=True)))
        self._pattern = re.compile(signs) if spelling else None

    def __call__(self, text: str) -> str:
        """`text` is NFC, and so is what comes out."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._spelling[found[0]], text)


def _pattern_of(sign: str) -> str:
    if " " in sign:
        return f"{LETTER_BEFORE}{re.escape(sign)}{LETTER_AFTER}"
    if sign in APOSTROPHES:  # neither feet, as in 5', nor inches or quotation marks, as in 10'' and ''so''
        return f"(?<![\\d{sign}]){re.escape(sign)}(?!{sign})"
    return f"{re.escape(sign)}(?![{_MARKS}])"


def told(spelling: Spelling) -> str:
    """For people: â for ã, ' for " ’ "."""
    return ", ".join(f"{other} for {_quoted(sign)}" for sign, other in spelling.items())


def _quoted(sign: str) -> str:
    return f'"{sign}"' if " " in sign else sign


def respelled(pairs: Iterable[SentencePair], spellings: Spellings) -> Iterator[SentencePair]:
    src, tgt = map(Respelling, spellings)
    return (pair._replace(src=src(pair.src), tgt=tgt(pair.tgt)) for pair in pairs)
