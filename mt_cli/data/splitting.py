"""Decides where a line of text may be cut: after its sentences, or, where a sentence is too long, near its middle."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from itertools import pairwise

from mt_cli.data.normalize import is_letter, words

# Several marks may follow each other (！？), and closing quotes may follow them. A language with spaces between words has
# a space between sentences, too (Latin, Arabic, Urdu, Devanagari, Armenian, Ethiopic); Chinese, Japanese, Burmese and
# Khmer need none.
SENTENCE_END = re.compile(r"[.!?…؟۔।॥։።፧][\"'”’»)\]]*(?= )|(?:[。！？｡။។៕][”’」』）]*+)++")
SHORT_ABBREVIATION = re.compile(r"(?<!\w)(\d\d?|[^\W\d_]\w?)\.$")  # Dr., the ordinal 3., the ends of U.S. and e.g.
COMMA = "[,;:](?: |$)|[،؛၊፣，、；] ?"  # not within 12,500 or 12:30
_MAX_LETTERS = 20  # of an abbreviation
_MIN_COUNT = 5  # repeated lines make two or three occurrences of a rare word look like a habit
_MAX_SEVERAL = 0.1  # inner sentence ends for each line
_MAX_WORDS = 300_000  # counted at a time: about 50 MB
MAX_ABBREVIATIONS = 1_000


def sentences(text: str, abbreviations: Collection[str] = ()) -> list[str]:
    """The sentences of normalized text; together they are the text. A full stop ends none after one of `abbreviations`,
    one letter, two letters of which the first is a capital, or a number of one or two digits."""
    ends = [match.end() for match in _ends(text) if _word_before(match) not in abbreviations]
    # A sentence has a letter or a digit: anything else that follows an end belongs to the sentence before it.
    ends = [end for end, next_end in pairwise([*ends, len(text)]) if re.search(r"\w", text[end:next_end])]
    return [text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def _ends(text: str) -> list[re.Match[str]]:
    """The marks that end a sentence if no abbreviations are known but the short ones."""
    found = []
    for match in SENTENCE_END.finditer(text):
        last = text[max(0, match.end() - 4) : match.end()]
        # To `\w` vowel signs and points end a word. In fact they are part of one, and of no abbreviation.
        last = "".join("x" if unicodedata.category(char).startswith("M") else char for char in last)
        short = SHORT_ABBREVIATION.search(last)
        # Two letters need a capital: `Dr.`, but not `do.`
        if short is None or not (len(short[1]) == 1 or short[1].isdigit() or short[1][0].isupper()):
            found.append(match)
    return found


def _word_before(end: re.Match[str]) -> str | None:
    """The word directly before a full stop, such as `Mrs`; None if there is no word or the mark is another one."""
    if end[0] != ".":
        return None
    before = end.string[max(0, end.start() - _MAX_LETTERS - 1) : end.start()]
    last = "".join(words(before)[-1:])
    return last if last and before.endswith(last) and is_letter(last[-1]) and len(last) <= _MAX_LETTERS else None


class AbbreviationCounter:
    """Learns abbreviations of a text with a sentence on each line, where few words stand before a full stop inside a
    line: one that mostly does is one, as `Mrs`, not `lamp` (Kiss and Strunk 2006)."""

    def __init__(self) -> None:
        self._n_lines, self._n_ends = 0, 0
        self._all, self._before_stop = Counter[str](), Counter[str]()

    def add(self, text: str) -> None:
        """Counts a line of normalized text."""
        self._n_lines += 1
        self._all.update(word for word in words(text) if len(word) <= _MAX_LETTERS)
        ends = _ends(text)
        self._n_ends += len(ends)
        self._before_stop.update(word for end in ends if (word := _word_before(end)) is not None)
        if len(self._all) > _MAX_WORDS:  # only the more frequent half is kept, as in Manku and Motwani 2002
            self._all = Counter(dict(self._all.most_common(_MAX_WORDS // 2)))
            self._before_stop = Counter({word: n for word, n in self._before_stop.items() if word in self._all})

    def abbreviations(self) -> tuple[str, ...]:
        """Sorted. None if many lines hold several sentences, because there any word can stand before an inner stop."""
        found = {word: n for word, n in self._before_stop.items() if n >= _MIN_COUNT and n > self._all[word] - n}
        if self._n_ends - sum(found.values()) > _MAX_SEVERAL * self._n_lines:
            return ()
        return tuple(sorted(sorted(found, key=lambda word: -found[word])[:MAX_ABBREVIATIONS]))


def halves(text: str) -> list[str]:
    """Two parts of at least two characters: cut at the middle comma of the middle half, at a space, or in the middle."""
    middle, quarter = len(text) // 2, len(text) // 4
    window = text[middle - quarter : middle + quarter]
    for pattern in (COMMA, " "):
        cuts = [middle - quarter + match.end() for match in re.finditer(pattern, window)]
        cuts = [cut for cut in cuts if 0 < cut < len(text)]
        if cuts:
            middle = min(cuts, key=lambda cut: abs(cut - middle))
            break
    return [text[:middle].strip(), text[middle:].strip()]
