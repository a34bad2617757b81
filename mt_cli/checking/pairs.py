"""Faults of single pairs that a look at both sides shows: empty, copied, untranslated, of an unusual length, left over from
a spreadsheet. This file knows nothing of signs and scripts (`signs.py`) and nothing of other pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mt_cli.checking.findings import Kind
from mt_cli.checking.usual import OVER_LONG_FROM, Usual
from mt_cli.data.corpora import line_of
from mt_cli.data.corpus import SentencePair
from mt_cli.data.languages import code_of_name, may_be_a_word
from mt_cli.data.similarity import letters
from mt_cli.data.words import words

EMPTY = Kind(
    "empty", "one side has no text", "Training leaves such pairs out. Look whether the lines before and after still belong together.",
    is_dropped=True, fatal_share=0.5,
)  # fmt: skip
REPEATED = Kind(
    "repeated", "the pair stands further up already, word for word",
    "Train with --clean (or --set data.dedup=true), unless such sentences are as frequent in what you will translate.",
    is_dropped=True,
)  # fmt: skip
OTHER_TARGET = Kind(
    "other_target", "the same source has another target elsewhere",
    "Nothing to do where both are right: the model learns the more frequent one.", severity="info",
)  # fmt: skip
COPIED = Kind(
    "copied", "the target is the source", "Translate these lines or drop them; the model would learn to copy.",
    is_dropped=True, fatal_share=0.5,
)  # fmt: skip
UNTRANSLATED = Kind(
    "untranslated", "both sides are written in the same language, to judge by the words of the corpus",
    "Translate these lines or drop them; the model would learn to copy.", is_dropped=True, fatal_share=0.5,
)  # fmt: skip
SWAPPED = Kind(
    "swapped", "source and target have changed sides", "Exchange the two sides in these lines.", is_dropped=True, fatal_share=0.5,
)  # fmt: skip
LENGTH_RATIO = Kind(
    "length_ratio", "one side is far too short or too long to be the translation of the other",
    "Look whether these are translations; drop those that are not.", is_dropped=True, fatal_share=0.5,
)  # fmt: skip
OVER_LONG = Kind(
    "over_long", f"a side has more than {OVER_LONG_FROM:,} characters",
    "Split them into sentences, one a line; training leaves out pairs above data.max_length.", severity="info",
)  # fmt: skip
DEBRIS = Kind(
    "debris", "what is left of a spreadsheet: an error such as #NAME?, or punctuation where the other side has words",
    "Mend these cells in the spreadsheet and export it again.", is_dropped=True,
)  # fmt: skip
HEADER = Kind("header", "line 1 names the columns", "Delete line 1.", is_dropped=True, severity="info")
DOUBLED_QUOTES = Kind(
    "doubled_quotes", 'quotes are doubled (""), as a CSV file has them',
    "Give mt the .csv file itself, or read it with a CSV reader; do not cut it at its commas.",
)  # fmt: skip

# What spreadsheets write into a cell whose formula fails, in English, Spanish, German, ...: #NAME?, #¡REF!, #NV, ####
_CELL_ERROR = re.compile(r"#[¿¡]?[A-ZÀ-Ý/0]+ ?[!?]|#N/?[ADV]|#{3,}|Err:\d{3}")
_DOUBLED_QUOTES = re.compile(r'""[^\s"]|[^\s"]""')
_COLUMN_NAMES = {"source", "src", "target", "tgt", "original", "translation", "text", "sentence"}
_FEW_WORDS = 3  # a name or a title may be the same in both languages
_OUTLIER = 7.0  # standard deviations, and this many times longer or shorter than usual:
_OUTLIER_FACTOR = 2.5
_OUTLIER_CHARACTERS = 40  # of the longer side; a short phrase may have a long translation


class PairFaults:
    """Finds the faults of normalized pairs."""

    def __init__(self, usual: Usual, src_lang: str = "", tgt_lang: str = ""):
        self._usual = usual
        self.is_one_language = bool(src_lang) and src_lang == tgt_lang
        self._codes = {src_lang.casefold(), tgt_lang.casefold()} - {""}

    def faults(self, pair: SentencePair) -> Iterator[Kind]:
        """The kinds of fault that the pair has, the plainest first."""
        src, tgt = pair.src, pair.tgt
        if not src or not tgt:
            yield EMPTY
            return
        if max(len(src), len(tgt)) > OVER_LONG_FROM:
            yield OVER_LONG
            src, tgt = src[:OVER_LONG_FROM], tgt[:OVER_LONG_FROM]
        if line_of(pair.line) == 1 and self._is_header(src, tgt):
            yield HEADER
            return
        if _is_debris(src, tgt):
            yield DEBRIS
            return
        if ('""' in src or '""' in tgt) and (_DOUBLED_QUOTES.search(src) or _DOUBLED_QUOTES.search(tgt)):
            yield DOUBLED_QUOTES
        if not self.is_one_language:
            language_fault = self._wrong_language(src, tgt)
            if language_fault:
                yield language_fault
        if self._is_outlier(len(pair.src), len(pair.tgt)):
            yield LENGTH_RATIO

    def _is_header(self, src: str, tgt: str) -> bool:
        sides = [text.casefold().strip(' "') for text in (src, tgt)]
        codes = [code_of_name(side) for side in sides]
        is_known = [
            side in _COLUMN_NAMES or side in self._codes or (code is not None and not may_be_a_word(code))
            for side, code in zip(sides, codes, strict=True)
        ]
        is_word = [len(side.split()) == 1 and len(side) <= 20 and side.isalpha() for side in sides]
        return all(is_word) and (
            all(is_known) or any(known and len(side) > 3 for known, side in zip(is_known, sides, strict=True))
        )

    def _wrong_language(self, src: str, tgt: str) -> Kind | None:
        sides = words(src.casefold()), words(tgt.casefold())
        if src == tgt or (not set(sides[0]).isdisjoint(sides[1]) and letters(src) == letters(tgt)):
            return COPIED if _is_sentence(src) else None
        if self._usual.is_swapped(*sides) and (_is_sentence(src) or _is_sentence(tgt)):
            return SWAPPED
        is_odd = (
            self._usual.is_of_other_side(side, sides[side], sides[1 - side]) and _is_sentence((src, tgt)[side])
            for side in (0, 1)
        )
        return UNTRANSLATED if any(is_odd) else None

    def _is_outlier(self, n_src: int, n_tgt: int) -> bool:
        if max(n_src, n_tgt) < _OUTLIER_CHARACTERS:
            return False
        factor = n_tgt / (self._usual.ratio * n_src)
        is_far = not 1 / _OUTLIER_FACTOR < factor < _OUTLIER_FACTOR
        return is_far and abs(self._usual.deviation(n_src, n_tgt)) > _OUTLIER


def _is_sentence(text: str) -> bool:
    """Whether there are several words that are no names or numbers: they do not begin with a capital."""
    different = set(words(text))
    plain = sum(1 for word in different if word[0].isalpha() and not word[0].isupper())
    return len(different) >= _FEW_WORDS and plain >= _FEW_WORDS - 1


def _is_debris(src: str, tgt: str) -> bool:
    if any(text.startswith(("#", "Err:")) and _CELL_ERROR.fullmatch(text) for text in (src, tgt)):
        return True
    if len(src) > 10 and len(tgt) > 10:
        return False
    has_words = [any(char.isalnum() for char in text) for text in (src, tgt)]
    return has_words[0] != has_words[1]
