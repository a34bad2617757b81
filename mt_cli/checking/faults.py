"""The kinds of faults that a corpus can have, and how those are found that a single pair shows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Literal

from mt_cli.checking.statistics import LATIN, CorpusStatistics, cut, scripts
from mt_cli.data.corpus import SentencePair
from mt_cli.data.languages import language
from mt_cli.data.normalize import words
from mt_cli.data.similarity import letters

Severity = Literal["fatal", "warning", "info"]
_DROPPED, _KEPT, _NEVER = True, False, math.inf


class Kind(StrEnum):
    """A kind of fault: its name, how severe it is, whether a cleaned corpus leaves such pairs out, the share of pairs from
    which on it is fatal, what it is, and what to do. `Finding.of` fills in what stands in braces."""

    severity: Severity
    is_dropped: bool
    fatal_share: float
    description: str
    advice: str

    def __new__(
        cls, name: str, severity: Severity, is_dropped: bool, fatal_share: float, description: str, advice: str
    ) -> Kind:
        kind = str.__new__(cls, name)
        kind._value_, kind.severity, kind.is_dropped, kind.fatal_share = name, severity, is_dropped, fatal_share
        kind.description, kind.advice = description, advice
        return kind

    # fmt: off
    # Of a single pair
    EMPTY = ("empty", "warning", _DROPPED, 0.5, "one side has no text",
        "Training leaves such pairs out. Look whether the lines before and after still belong together.")
    DEBRIS = ("debris", "warning", _DROPPED, _NEVER,
        "what is left of a spreadsheet: an error such as #NAME?, or punctuation where the other side has words",
        "Mend these cells in the spreadsheet and export it again.")
    COPIED = ("copied", "warning", _DROPPED, 0.5, "the target is the source",
        "Translate these lines or drop them; the model would learn to copy.")
    UNTRANSLATED = ("untranslated", "warning", _DROPPED, 0.5,
        "a side is written in the language of the other, to judge by the words of the corpus",
        "Translate these lines or drop them; the model would learn to copy.")
    LENGTH_RATIO = ("length_ratio", "warning", _DROPPED, 0.5,
        "one side is far too short or too long to be the translation of the other",
        "Look whether these are translations; drop those that are not.")
    NOT_UTF8 = ("not_utf8", "warning", _DROPPED, 0.5, "the line is not UTF-8",
        "If the whole file is in another encoding, save it as UTF-8 in your editor; else mend these lines.")
    MOJIBAKE = ("mojibake", "warning", _DROPPED, 0.5,
        "the text was decoded with a wrong encoding (such as Ã¡ for á), or has characters that were lost (U+FFFD)",
        "Take the text from its source again and save it as UTF-8. If only some lines are broken, correct or delete these"
        " lines: a program that converts the whole file would break the others.")
    WRONG_SCRIPT = ("wrong_script", "warning", _DROPPED, 0.5,
        "a side is written in a script that is rare on that side",
        "Look whether these are in the right language; drop those that are not.")
    INVISIBLE = ("invisible", "info", _KEPT, _NEVER,
        "the text has control characters or characters without a shape (such as U+200B or U+00AD)",
        "Delete them; control characters are read as spaces.")
    # Of several pairs
    REPEATED = ("repeated", "warning", _DROPPED, _NEVER, "the pair stands further up already, word for word",
        "Train with --clean (or --set data.dedup=true), unless such sentences are as frequent in what you will translate.")
    SHIFTED = ("shifted", "warning", _DROPPED, 0.5,
        "{lines} are shifted by {distance}: the target of line n stands in line n{shift:+}",
        "Look at the first line named: a line was lost or added there in one file. Mend it, or train with --clean.")
    UNRELATED = ("unrelated", "warning", _DROPPED, 0.5,
        "{lines} do not belong together, and their targets stand nowhere near: in disorder, or in another language?",
        "Look for the right text of these lines, or delete them in both files, or train with --clean.")
    WRONG_PARTNER = ("wrong_partner", "warning", _DROPPED, 0.5,
        "source and target seem to have nothing to do with each other",
        "Look at these lines; drop those that are no translations.")
    TOO_FEW = ("too_few", "warning", _KEPT, _NEVER,
        "different sentences on one of the sides; it takes thousands to learn a language",
        "Collect more: from some 3,000 pairs on a translator of simple sentences can be learnt.")
    SAME_WORDS = ("same_words", "warning", _KEPT, 0.9, "both sides share many words: the same language?",
        "Look whether both files are what you take them for, and whether the targets are translated.")
    TWO_SPELLINGS = ("two_spellings", "warning", _KEPT, _NEVER,
        "the {side} writes the {character} in several ways: {spellings}",
        "Write {most} throughout on the {side} side: to the model they are different characters.")
    # Of a dev or test set beside training
    OTHER_SPELLING = ("other_spelling", "info", _KEPT, _NEVER,
        "dev writes the {side} otherwise than training does: {spellings}",
        "Nothing to do: mt train reads training as dev writes it, unless data.spelling is own.")
    IN_TRAINING = ("in_training", "warning", _KEPT, 0.5,
        "pairs of {set} that training has, too: their scores say what was remembered, not what was learnt",
        "Take them out of the training files or out of {set}.")
    NEAR_TRAINING = ("near_training", "info", _KEPT, 0.9,
        "pairs of {set} of which training has the source or the target, but for case and punctuation",
        "Take such sentences out of the training files or out of {set}, where they are many; scores are too good.")
    UNKNOWN_CHARACTERS = ("unknown_characters", "warning", _KEPT, 0.5,
        "characters of the {side} of {set} that training never shows: {most}",
        "Write them as training does, or add sentences with them to training.")
    UNKNOWN_WORDS = ("unknown_words", "info", _KEPT, 0.9, "{set} is {like} training: {shares}",
        "If it is unlike training, add training pairs of the kind that you will translate; until then expect low scores.")
    # fmt: on


# What spreadsheets write into a cell whose formula fails, in English, Spanish, German, ...: #NAME?, #¡REF!, #NV, ####
_CELL_ERROR = re.compile(r"#[¿¡]?[A-ZÀ-Ý/0]+ ?[!?]|#N/?[ADV]|#{3,}|Err:\d{3}")
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
_BYTES = {bytes([byte]).decode("cp1252", "ignore") or chr(byte): byte for byte in range(0x80, 0x100)}
_BYTES |= {chr(byte): byte for byte in range(0x80, 0x100)}  # text may have been decoded as Latin-1
_CONTINUATION = "".join(re.escape(char) for char, byte in _BYTES.items() if byte < 0xC0)
_SUSPICIOUS = re.compile(f"[Â-ô][{_CONTINUATION}]|\ufffd")
_IN_A_WORD = re.compile(f"[a-zß-ÿ][ÃÂÅ][{_CONTINUATION}]|[ÃÅ][{_CONTINUATION}][a-zß-ÿ]|â€[{_CONTINUATION}]")
_LONGEST_PUNCTUATION = 10  # characters of a text without words
_FEW_WORDS = 3  # a name or a title may be the same in both languages
_OUTLIER = 7.0  # standard deviations, and this many times longer or shorter than usual:
_OUTLIER_FACTOR = 2.5
_OUTLIER_CHARACTERS = 40  # of the longer side; a short phrase may have a long translation
_LEAST_LETTERS = 10  # of a line in a wrong script: shorter ones are often names


class FaultFinder:
    """Finds the faults that a pair shows, by what is usual in its corpus."""

    def __init__(self, statistics: CorpusStatistics, src_lang: str, tgt_lang: str):
        self._statistics = statistics
        self.is_one_language = language(src_lang) == language(tgt_lang)

    def faults_of_characters(self, pair: SentencePair) -> Iterator[Kind]:
        """Of a pair as it is in its file, not normalized."""
        sides = cut(pair)[:2]
        texts = [text for text in sides if not text.isascii()]
        if any(map(_is_mojibake, texts)):
            yield Kind.MOJIBAKE
        for text, usual in zip(sides, self._statistics.main_scripts, strict=True):
            if text.isascii() and LATIN in usual:
                continue
            found = scripts(text)
            if len(found) >= _LEAST_LETTERS and 2 * sum(map(found.count, usual)) < len(found):
                yield Kind.WRONG_SCRIPT
                break
        if any(map(_INVISIBLE.search, sides)):
            yield Kind.INVISIBLE

    def faults(self, pair: SentencePair) -> Iterator[Kind]:
        """Of a normalized pair, the plainest first."""
        src, tgt, *_ = cut(pair)
        if not src or not tgt:
            yield Kind.EMPTY
        elif _is_debris(src, tgt):
            yield Kind.DEBRIS
        else:
            if not self.is_one_language and (kind := self._wrong_language(src, tgt)):
                yield kind
            n_src, n_tgt = len(pair.src), len(pair.tgt)
            factor, deviation = self._statistics.compare_lengths(n_src, n_tgt)
            is_usual = 1 / _OUTLIER_FACTOR < factor < _OUTLIER_FACTOR or abs(deviation) <= _OUTLIER
            if max(n_src, n_tgt) >= _OUTLIER_CHARACTERS and not is_usual:
                yield Kind.LENGTH_RATIO

    def _wrong_language(self, src: str, tgt: str) -> Kind | None:
        sides = words(src.casefold()), words(tgt.casefold())
        if src == tgt or (not set(sides[0]).isdisjoint(sides[1]) and letters(src) == letters(tgt)):
            return Kind.COPIED if _is_sentence(src) else None
        for side, text in enumerate((src, tgt)):
            if self._statistics.is_of_other_side(side, sides[side], sides[1 - side]) and _is_sentence(text):
                return Kind.UNTRANSLATED
        return None


def _is_sentence(text: str) -> bool:
    """Whether there are several words that are no names or numbers: they do not begin with a capital."""
    different = set(words(text))
    plain = sum(1 for word in different if word[0].isalpha() and not word[0].isupper())
    return len(different) >= _FEW_WORDS and plain >= _FEW_WORDS - 1


def _is_debris(src: str, tgt: str) -> bool:
    if any(text.startswith(("#", "Err:")) and _CELL_ERROR.fullmatch(text) for text in (src, tgt)):
        return True
    if min(len(src), len(tgt)) > _LONGEST_PUNCTUATION:
        return False
    return any(map(str.isalnum, src)) != any(map(str.isalnum, tgt))


def _is_mojibake(text: str) -> bool:
    """Whether the text is UTF-8 that was decoded as CP1252 or Latin-1, or has a character that was lost."""
    if not _SUSPICIOUS.search(text):
        return False
    if "\ufffd" in text or _IN_A_WORD.search(text):
        return True
    try:
        raw = bytes(ord(char) if char < "\x80" else _BYTES[char] for char in text)
        return len(raw.decode("utf-8")) < len(text)
    except (KeyError, UnicodeDecodeError):
        return False
