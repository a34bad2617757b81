"""Words, and the key by which two texts are nearly the same. A language without spaces has words of one character here."""

from __future__ import annotations

import re
import string
import unicodedata

# Thai, Lao, Tibetan, Burmese, Khmer, kana and Chinese characters
_WITHOUT_SPACES = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_EDGES = string.punctuation + "“”„‚‘’«»‹›¿¡…–—·•。，、；：？！（）《》「」『』।۔،؟"


def words(text: str) -> list[str]:
    """The words of normalized text as it writes them, without the punctuation at their ends."""
    if not text.isascii():
        text = _WITHOUT_SPACES.sub(r" \g<0> ", text)
    return [word for part in text.split() if (word := part.strip(_EDGES))]


class _Letters(dict[int, int | None]):
    """For `str.translate`: leaves out punctuation, symbols, spaces and control characters."""

    def __missing__(self, code: int) -> int | None:
        kept = None if unicodedata.category(chr(code))[0] in "PSZC" else code
        self[code] = kept
        return kept


_LETTERS = _Letters()


def near_key(text: str) -> str:
    """Equal for texts that differ in case, punctuation and spaces only; empty for text that is nothing else."""
    return text.casefold().translate(_LETTERS)
