"""The kinds of faults that a corpus can have, and how those of a single pair are found: by what is usual in the corpus."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Literal

import numpy as np

from mt_cli.data.corpus import SentencePair
from mt_cli.data.languages import language
from mt_cli.data.normalize import words
from mt_cli.data.split import letters

Severity = Literal["fatal", "warning", "info"]
_DROPPED, _KEPT, _NEVER = True, False, math.inf


class Kind(StrEnum):
    """A kind of fault. `Finding.of` fills in what stands in braces."""

    severity: Severity
    is_dropped: bool  # by `--clean`
    fatal_share: float  # of the pairs
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
        "on the side that has fewer; it takes thousands to learn a language",
        "Collect more: from some 3,000 pairs on a translator of simple sentences can be learnt.")
    SAME_WORDS = ("same_words", "warning", _KEPT, 0.9, "both sides share many words: the same language?",
        "Look whether both files are what you take them for, and whether the targets are translated.")
    TWO_SPELLINGS = ("two_spellings", "warning", _KEPT, _NEVER,
        "the {side} writes the {character} in several ways: {spellings}",
        "Write {most} throughout on the {side} side: to the model they are different characters.")
    # Of a dev or test set beside training
    OTHER_SPELLING = ("other_spelling", "info", _KEPT, _NEVER,
        "dev writes the {side} otherwise than training does: {spellings}",
        "mt train reads training as dev writes it. Where data.spelling is own it does not: then write both alike.")
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


_SAMPLE = 50_000  # pairs; at most twice as many are kept
MAX_CHARACTERS = 1_500  # of a text that is looked into; a longer one is over-long whatever it says
_RARE_SCRIPT = 0.02  # share of the letters of a side
_LEAST_SIGMA = 0.5  # so that a corpus of templates, all of one ratio, has no outliers
_FREQUENT = 5  # from so many occurrences on a word says which side it belongs to
_MOST_WEIGHT = 4.0  # of a word, in nats, so that no single word decides
_LIKENESS = 1.0  # to the other side, see `_is_of_other_side`
_SHARE_OF_OTHER = 0.55  # of the words must be more than e times as frequent on the other side
_SHORT = 20  # characters; shorter texts say little of the usual ratio
# What spreadsheets write into a cell whose formula fails, in English, Spanish, German, ...: #NAME?, #¡REF!, #NV, ####
_CELL_ERROR = re.compile(r"#[¿¡]?[A-ZÀ-Ý/0]+ ?[!?]|#N/?[ADV]|#{3,}|Err:\d{3}")
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
_BYTES = {bytes([byte]).decode("cp1252", "ignore") or chr(byte): byte for byte in range(0x80, 0x100)}
_BYTES |= {chr(byte): byte for byte in range(0x80, 0x100)}  # text may have been decoded as Latin-1
_CONTINUATION = "".join(re.escape(char) for char, byte in _BYTES.items() if byte < 0xC0)
_SUSPICIOUS = re.compile(f"[Â-ô][{_CONTINUATION}]|\ufffd")
_IN_A_WORD = re.compile(f"[a-zß-ÿ][ÃÂÅ][{_CONTINUATION}]|[ÃÅ][{_CONTINUATION}][a-zß-ÿ]|â€[{_CONTINUATION}]")
_AT_THE_END = re.compile(r"(?:ß|(?<![a-zß-ÿ])[ÇÈÉÊ])[…–—’”»](?!\w)")  # of a word, as in: weiß…
_LONGEST_PUNCTUATION = 10  # characters of a text without words
_FEW_WORDS = 3  # a name or a title may be the same in both languages
_OUTLIER = 7.0  # standard deviations, and this many times longer or shorter than usual:
_OUTLIER_FACTOR = 2.5
_OUTLIER_CHARACTERS = 40  # of the longer side; a short phrase may have a long translation
_LEAST_LETTERS = 10  # of a line in a wrong script: shorter ones are often names


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
_LATIN = "a".translate(_SCRIPTS)


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


class FaultFinder:
    """Finds the faults that a pair shows. Sides are 0 (source) and 1 (target)."""

    def __init__(self, pairs: Iterable[SentencePair], src_lang: str, tgt_lang: str):
        """Learns from these pairs what is usual."""
        self.is_one_language = language(src_lang) == language(tgt_lang)
        texts = list(dict.fromkeys((pair.src, pair.tgt) for pair in pairs))
        translated = [(src, tgt) for src, tgt in texts if src != tgt]
        texts = translated if 2 * len(translated) >= len(texts) else texts
        self._words = Counter[str](), Counter[str]()  # case-folded
        scripts = Counter[str](), Counter[str]()  # of the letters
        for text in texts:
            for side in (0, 1):
                self._words[side].update(words(text[side].casefold()))
                scripts[side].update(text[side].translate(_SCRIPTS))
        self._n_words = self._words[0].total(), self._words[1].total()
        # How many times as many words a side has as the other, and its words that are clearly not of the other.
        n_src, n_tgt = (max(1, n) for n in self._n_words)
        self._scales = n_src / n_tgt, n_tgt / n_src
        self._own = [
            {word for word, n in here.items() if n > _FREQUENT and n > 2 * scale * there[word]}
            for here, there, scale in zip(self._words, self._words[::-1], self._scales, strict=True)
        ]
        self._main_scripts = [{one for one, n in side.items() if n >= _RARE_SCRIPT * side.total()} for side in scripts]
        # Target characters for each source character, and the deviation from that over the root of the source's length:
        # medians, which faulty pairs hardly move.
        lengths = [(len(src), len(tgt)) for src, tgt in texts]
        table = np.array([pair for pair in lengths if min(pair) >= _SHORT] or lengths or [(1, 1)], dtype=float)
        n_src_characters, n_tgt_characters = np.maximum(table[:, 0], 1), table[:, 1]
        self._ratio = float(np.median(n_tgt_characters / n_src_characters))
        deviations = np.abs(n_tgt_characters - self._ratio * n_src_characters) / np.sqrt(n_src_characters)
        self._sigma = max(_LEAST_SIGMA * self._ratio, 1.4826 * float(np.median(deviations)))

    def new_words(self, side: int) -> float:
        """Share of the words that are new in further text of the same kind: as many as now occur once (Good 1953)."""
        once = sum(1 for count in self._words[side].values() if count == 1)
        return once / max(1, self._n_words[side])

    @property
    def common_words(self) -> float:
        """Share of the running words that the two sides have in common: near 1 where both are in one language."""
        (src, tgt), (n_src, n_tgt) = self._words, (max(1, n) for n in self._n_words)
        return sum(min(src[word] / n_src, tgt[word] / n_tgt) for word in src if word[0].isalpha())

    def faults_of_characters(self, pair: SentencePair) -> Iterator[Kind]:
        """Of a pair as it is in its file, not normalized."""
        sides = cut(pair)[:2]
        texts = [text for text in sides if not text.isascii()]
        if any(map(_is_mojibake, texts)):
            yield Kind.MOJIBAKE
        for text, usual in zip(sides, self._main_scripts, strict=True):
            if text.isascii() and _LATIN in usual:
                continue
            found = text.translate(_SCRIPTS)
            if len(found) >= _LEAST_LETTERS and 2 * sum(map(found.count, usual)) < len(found):
                yield Kind.WRONG_SCRIPT
                break
        if any(map(_INVISIBLE.search, sides)):
            yield Kind.INVISIBLE

    def faults(self, pair: SentencePair) -> Iterator[Kind]:
        """Of a normalized pair, the plainest first."""
        src, tgt, *_ = cut(pair)
        is_error = any(one.startswith(("#", "Err:")) and _CELL_ERROR.fullmatch(one) for one in (src, tgt))
        is_short = min(len(src), len(tgt)) <= _LONGEST_PUNCTUATION
        if not src or not tgt:
            yield Kind.EMPTY
        elif is_error or (is_short and any(map(str.isalnum, src)) != any(map(str.isalnum, tgt))):
            yield Kind.DEBRIS
        else:
            if not self.is_one_language and (kind := self._wrong_language(src, tgt)):
                yield kind
            n_src, n_tgt = len(pair.src), len(pair.tgt)
            usual, sigma = self._ratio * n_src, self._sigma * math.sqrt(n_src)  # Gale and Church 1993
            is_usual = usual / _OUTLIER_FACTOR < n_tgt < usual * _OUTLIER_FACTOR
            if max(n_src, n_tgt) >= _OUTLIER_CHARACTERS and not is_usual and abs(n_tgt - usual) > _OUTLIER * sigma:
                yield Kind.LENGTH_RATIO

    def _wrong_language(self, src: str, tgt: str) -> Kind | None:
        sides = words(src.casefold()), words(tgt.casefold())
        if src == tgt or (not set(sides[0]).isdisjoint(sides[1]) and letters(src) == letters(tgt)):
            return Kind.COPIED if _is_sentence(src) else None
        for side, text in enumerate((src, tgt)):
            if self._is_of_other_side(side, sides[side], sides[1 - side]) and _is_sentence(text):
                return Kind.UNTRANSLATED
        return None

    def _is_of_other_side(self, side: int, own: list[str], other: list[str]) -> bool:
        """Whether the words `own` of a side are those of the other one: by the mean of log P(word | other side) - log
        P(word | own side) and by the share of such words. The pair (`other`: its partner's words) is no witness."""
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


def _is_sentence(text: str) -> bool:
    """Whether there are several words that are no names or numbers: they do not begin with a capital."""
    different = set(words(text))
    plain = sum(1 for word in different if word[0].isalpha() and not word[0].isupper())
    return len(different) >= _FEW_WORDS and plain >= _FEW_WORDS - 1


def _is_mojibake(text: str) -> bool:
    """Whether the text is UTF-8 that was decoded as CP1252 or Latin-1, or has a character that was lost."""
    text = _AT_THE_END.sub("", text)
    if not _SUSPICIOUS.search(text):
        return False
    if "\ufffd" in text or _IN_A_WORD.search(text):
        return True
    try:
        raw = bytes(ord(char) if char < "\x80" else _BYTES[char] for char in text)
        return len(raw.decode("utf-8")) < len(text)
    except (KeyError, UnicodeDecodeError):
        return False
