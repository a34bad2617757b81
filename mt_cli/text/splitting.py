"""Where a line of text may be cut: after its sentences, or, where a sentence is too long, near its middle."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

# Marks may come several at a time (！？), and with closing quotes. Where words have spaces between them, sentences have
# (Latin, Arabic, Urdu, Devanagari, Armenian, Ethiopic); Chinese, Japanese, Burmese and Khmer need none.
_SENTENCE_END = re.compile(r"[.!?…؟۔।॥։።፧][\"'”’»)\]]*(?= )|(?:[。！？｡။។៕][”’」』）]*+)++")
_ABBREVIATION = re.compile(r"(?<!\w)(\d\d?|[^\W\d_]\w?)\.$")  # or an ordinal: Dr., 3., and the ends of U.S. and e.g.
_COMMA = "[,;:،؛၊፣，、；] ?"


def sentences(text: str) -> list[str]:
    """The sentences of normalized text; together they are the text. A long abbreviation (Prof.) ends one, too."""
    ends = [
        match.end()
        for match in _SENTENCE_END.finditer(text)
        if not _is_abbreviation(text[max(0, match.end() - 4) : match.end()])
    ]
    # A sentence has a letter or a digit: what else stands behind an end belongs before it.
    ends = [end for end, next_end in pairwise([*ends, len(text)]) if re.search(r"\w", text[end:next_end])]
    return [text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def _is_abbreviation(last: str) -> bool:
    """Whether these last characters of a text are one; two letters are if the first is a capital."""
    # To `\w` vowel signs and points end a word. They are part of one, and of no abbreviation.
    last = "".join("x" if unicodedata.category(char).startswith("M") else char for char in last)
    found = _ABBREVIATION.search(last)
    return found is not None and (len(found[1]) == 1 or found[1].isdigit() or found[1][0].isupper())


def halves(text: str) -> list[str]:
    """Two parts of a text of at least two characters: cut at the comma nearest to the middle if one lies in the middle
    half, else at a space, else in the middle."""
    middle, quarter = len(text) // 2, len(text) // 4
    window = text[middle - quarter : middle + quarter]
    for pattern in (_COMMA, " "):
        cuts = [middle - quarter + match.end() for match in re.finditer(pattern, window)]
        cuts = [cut for cut in cuts if 0 < cut < len(text)]
        if cuts:
            middle = min(cuts, key=lambda cut: abs(cut - middle))
            break
    return [text[:middle].strip(), text[middle:].strip()]
