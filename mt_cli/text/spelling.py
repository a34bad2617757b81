"""Signs that a dev set writes otherwise than the training text, such as â for ã or ' for ’: languages with a young or a
disputed spelling are written in several ways, and a translation should be written as the reader writes.

Both sides of the training text are read as the dev set writes them; and what is translated later is, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator

from mt_cli.text.corpus import SentencePair

Spelling = dict[str, str]  # of a sign that training has: what the dev set writes for it
Spellings = tuple[Spelling, Spelling]  # of source and target
AS_IT_IS: Spellings = ({}, {})

_APOSTROPHES = "'’‘´`ʼʻꞌ"
_MARKS = "\u0300-\u036f"
_HAS_MARKS = re.compile(f"[{_MARKS}]")
_SIGN = re.compile(f".[{_MARKS}]*", re.DOTALL)  # a letter with the marks that no single character has it with

# Times that the dev set would have a sign if it wrote as training does: with fewer it may lack one by chance.
_LEAST_EXPECTED = 20
_HARDLY = 0.05  # share of these times up to which it does not write so
_RISES = 1.4  # times as frequent as in training that the other sign is
_ALIKE = 3.0  # times as frequent as both signs in training that the other one may be: otherwise it means something else


class SignCounter:
    """Counts the signs of a text."""

    def __init__(self, texts: Iterable[str] = ()):
        self.counts = Counter[str]()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """`text` is NFC."""
        self.counts.update(_SIGN.findall(text) if _HAS_MARKS.search(text) else text)


def other_spelling(train: SignCounter, dev: SignCounter) -> Spelling:
    """The signs of training that the dev set never or hardly ever writes, where it has another sign for them: the same letter
    with other marks, or another apostrophe, of which it has so much more; else the letter without marks."""
    found = Spelling()
    scale = dev.counts.total() / max(1, train.counts.total())
    # Times in the dev set, if it wrote as training does.
    expected = {sign: n * scale for sign, n in train.counts.items()}
    for sign, times in expected.items():
        if times < _LEAST_EXPECTED or dev.counts[sign] > _HARDLY * times or not (kin := _kin(sign)):
            continue
        others = {other: n for other, n in dev.counts.items() if other != sign and _kin(other) == kin}
        rises = {other: n / (expected.get(other, 0.0) + 1) for other, n in others.items()}
        other = max(rises, key=rises.__getitem__, default="")
        both = times + expected.get(other, 0.0)
        if rises.get(other, 0.0) >= _RISES and both / _ALIKE < others[other] < both * _ALIKE:
            found[sign] = other
        elif dev.counts[kin] > times / _ALIKE:  # the kin of apostrophes is no sign
            found[sign] = kin
    capitals = {sign.upper(): other.upper() for sign, other in found.items() if sign.islower()}
    return {sign: other for sign, other in capitals.items() if len(sign) == len(other) == 1} | found


def _kin(sign: str) -> str:
    """What signs have in common that may stand for each other; '' where a sign stands for itself alone."""
    if sign in _APOSTROPHES:
        return _APOSTROPHES
    parts = unicodedata.normalize("NFD", sign)
    has_marks = len(parts) > 1 and unicodedata.combining(parts[1]) > 0  # which the parts of a Korean syllable are not
    return parts[0] if has_marks and parts[0].isalpha() else ""


class Respelling:
    """Writes text in another spelling."""

    def __init__(self, spelling: Spelling):
        self._spelling = spelling
        signs = "|".join(map(re.escape, sorted(spelling, key=len, reverse=True)))
        self._pattern = re.compile(f"(?:{signs})(?![{_MARKS}])") if spelling else None

    def __call__(self, text: str) -> str:
        """`text` is NFC, and so is what comes out."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._spelling[found[0]], text)


def respelled(pairs: Iterable[SentencePair], spellings: Spellings) -> Iterator[SentencePair]:
    src, tgt = map(Respelling, spellings)
    return (pair._replace(src=src(pair.src), tgt=tgt(pair.tgt)) for pair in pairs)
