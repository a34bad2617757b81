"""What the characters of a text show: their scripts, a wrong encoding, letters that look like others. Knows single texts only."""

from __future__ import annotations

import re
import unicodedata

INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\ufeff]")

# Scripts -------------------------------------------------------------------------------------------------------------


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


def scripts(text: str) -> str:
    """A character for each letter of the text, which stands for the letter's script."""
    return text.translate(_SCRIPTS)


LATIN = scripts("a")

# Mojibake ------------------------------------------------------------------------------------------------------------

_BYTES = {bytes([byte]).decode("cp1252", "ignore") or chr(byte): byte for byte in range(0x80, 0x100)}
_BYTES |= {chr(byte): byte for byte in range(0x80, 0x100)}  # text may have been decoded as Latin-1
_CONTINUATION = "".join(re.escape(char) for char, byte in _BYTES.items() if byte < 0xC0)
_SUSPICIOUS = re.compile(f"[Â-ô][{_CONTINUATION}]|\ufffd")
_IN_A_WORD = re.compile(f"[a-zß-ÿ][ÃÂÅ][{_CONTINUATION}]|[ÃÅ][{_CONTINUATION}][a-zß-ÿ]|â€[{_CONTINUATION}]")


def is_mojibake(text: str) -> bool:
    """Whether the text is UTF-8 that was decoded as CP1252 or Latin-1, or has a character that was lost."""
    if not _SUSPICIOUS.search(text):
        return False
    return "\ufffd" in text or _IN_A_WORD.search(text) is not None or _decodes_again(text)


def _decodes_again(text: str) -> bool:
    try:
        raw = bytes(ord(char) if char < "\x80" else _BYTES[char] for char in text)
        return len(raw.decode("utf-8")) < len(text)
    except (KeyError, UnicodeDecodeError):
        return False


# Look-alikes ---------------------------------------------------------------------------------------------------------

_LATIN, _OTHER = "A-Za-z\u00c0-\u024f", "\u0370-\u03ff\u0400-\u052f"
_MIXED = re.compile(f"[{_LATIN}](?=[{_OTHER}])|[{_OTHER}](?=[{_LATIN}])")
_WORD = re.compile(r"[^\W\d_]+")
_LIKE_LATIN = frozenset("аеорсухіјѕһԁԛԝАВЕЅІЈКМНОРСТУХ" + "οΑΒΕΖΗΙΚΜΝΟΡΤΥΧν")
_LIKE_OTHERS = frozenset("aeopcyxijshdqwABESIJKMHOPCTYXZNvu")


def has_lookalikes(text: str) -> bool:
    """Whether a word has letters of two scripts of which one has only letters that look like the other's."""
    return _MIXED.search(text) is not None and any(map(_is_disguised, _WORD.findall(text)))


def _is_disguised(word: str) -> bool:
    latin = {char for char in word if char.isascii() or "\u00c0" <= char <= "\u024f"}
    other = {char for char in word if "\u0370" <= char <= "\u052f"}
    return bool(latin and other) and (other <= _LIKE_LATIN or latin <= _LIKE_OTHERS)
