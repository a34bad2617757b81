"""The words and letters of a text. A language without spaces has words of one character here."""

from __future__ import annotations

import re
import string
import unicodedata

# Thai, Lao, Tibetan, Burmese, Khmer, kana and Chinese characters
UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = re.compile(f"[{UNSPACED}]")
_EDGES = string.punctuation + "“”„‚‘’«»‹›¿¡…–—·•。，、；：？！（）《》「」『』।۔،؟"


def words(text: str) -> list[str]:
    """The words of normalized text as it writes them, without the punctuation at their ends."""
    if not text.isascii():
        text = _UNSPACED.sub(r" \g<0> ", text)
    return [word for part in text.split() if (word := part.strip(_EDGES))]


def is_letter(char: str) -> bool:
    """Whether it is a letter, or one of the vowel signs and accents that are letters to their readers."""
    return unicodedata.category(char)[0] in "LM"
