"""Faults of signs: text of a wrong script, text that was decoded wrongly, one sign spelled in two ways, signs that look like
others or like nothing. This file looks at lines as they are in the file, before they are normalized.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

from mt_cli.checking.findings import Example, Finding, Kind
from mt_cli.checking.usual import OVER_LONG_FROM, Usual, scripts
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spelling import APOSTROPHES, LETTER_AFTER, LETTER_BEFORE, Signs, Spellings, told

WRONG_SCRIPT = Kind(
    "wrong_script", "a side is written in a script that is rare on that side", "Look whether these are in the right language; drop those that are not.",
    is_dropped=True, fatal_share=0.5,
)  # fmt: skip
MOJIBAKE = Kind(
    "mojibake", "the text was decoded with a wrong encoding (such as Ã¡ for á), or has signs that were lost (U+FFFD)",
    "Take the text from its source again and save it as UTF-8. If only some lines are broken, correct or delete these lines: a"
    " program that converts the whole file would break the others.",
    is_dropped=True, fatal_share=0.5,
)  # fmt: skip
LOOKALIKES = Kind(
    "lookalikes", "a word has letters of another script that look like its own (such as Cyrillic а in a Latin word)",
    "Replace them: to the model these are other words.",
)  # fmt: skip
INVISIBLE = Kind(
    "invisible", "the text has control characters or signs without a shape (such as U+200B or U+00AD)",
    "Delete them; control characters are read as spaces.", severity="info",
)  # fmt: skip
DECOMPOSED = Kind(
    "decomposed", "letters and their accents are separate signs (not NFC)",
    "Nothing to do for training, which composes them; references of mt evaluate should be composed.", severity="info",
)  # fmt: skip
NOT_UTF8 = Kind(
    "not_utf8", "the line is not UTF-8", "Save the file as UTF-8 (where all of it is from Windows: iconv -f CP1252 -t UTF-8), or mend these lines.",
    is_dropped=True, fatal_share=0.5,
)  # fmt: skip

_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
_LEAST_LETTERS = 10  # of a line in a wrong script: shorter ones are often names

# Mojibake ------------------------------------------------------------------------------------------------------------

_BYTES = {bytes([byte]).decode("cp1252", "ignore") or chr(byte): byte for byte in range(0x80, 0x100)}
_BYTES |= {chr(byte): byte for byte in range(0x80, 0x100)}  # text may have been decoded as Latin-1
_CONTINUATION = "".join(re.escape(char) for char, byte in _BYTES.items() if byte < 0xC0)
_SUSPICIOUS = re.compile(f"[Â-ô][{_CONTINUATION}]|\ufffd")
_IN_A_WORD = re.compile(f"[a-zß-ÿ][ÃÂÅ][{_CONTINUATION}]|[ÃÅ][{_CONTINUATION}][a-zß-ÿ]|â€[{_CONTINUATION}]")


def is_mojibake(text: str) -> bool:
    """Whether the text is UTF-8 that was decoded as CP1252 or Latin-1, or has a sign that was lost."""
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


class SignFaults:
    """Finds the faults of signs in pairs that are not normalized."""

    def __init__(self, usual: Usual):
        self._usual = usual
        self._is_latin = [scripts("a") in main for main in usual.main_scripts]

    def faults(self, pair: SentencePair) -> Iterator[Kind]:
        sides = pair.src[:OVER_LONG_FROM], pair.tgt[:OVER_LONG_FROM]
        texts = [text for text in sides if not text.isascii()]
        if any(map(is_mojibake, texts)):
            yield MOJIBAKE
        if any(self._is_of_wrong_script(side, text) for side, text in enumerate(sides)):
            yield WRONG_SCRIPT
        if any(map(has_lookalikes, texts)):
            yield LOOKALIKES
        if any(not unicodedata.is_normalized("NFC", text) for text in texts):
            yield DECOMPOSED
        if any(map(_INVISIBLE.search, sides)):
            yield INVISIBLE

    def _is_of_wrong_script(self, side: int, text: str) -> bool:
        if text.isascii() and self._is_latin[side]:
            return False
        letters = scripts(text)
        if len(letters) < _LEAST_LETTERS:
            return False
        n_usual = sum(letters.count(script) for script in self._usual.main_scripts[side])
        return 2 * n_usual < len(letters)


# Two spellings of one sign -------------------------------------------------------------------------------------------

_N_OF_A_SPELLING = 5  # lines with the rarer spelling, from which on there is something to decide
_IN_WORDS = LETTER_BEFORE + "{}" + LETTER_AFTER
_BETWEEN_LETTERS = LETTER_BEFORE + "(?:{0}| {0} )" + LETTER_AFTER  # t’a, and t ’ a
_BY_PUNCTUATION = r"(?<=\w){0}(?=[;:!?»])|(?<=«){0}(?=\w)"
_SIGNS = {  # of a sign: its spellings, each with the characters and with what is around them
    "apostrophe": [(char, _BETWEEN_LETTERS) for char in "'’‘´`"] + [(char, "{}") for char in "ʼʻꞌ"],
    "quotation mark": [(chars, "{}") for chars in ('"', "“”„", "«»")],
    "hyphen": [(char, _IN_WORDS) for char in "-−"] + [(char, "{}") for char in "\u2010\u2011"],
    "space between words": [(chars, _IN_WORDS) for chars in (" ", "\u00a0\u202f")],
    "space by punctuation": [(chars, _BY_PUNCTUATION) for chars in (" ", "\u00a0\u202f")],
}
_NAMES = {" ": "a space", "\u00a0\u202f": "a no-break space", "“”„": "“ ”", "«»": "« »", '"': '"'}
_HARMLESS = {"quotation mark"}
_SPELLINGS = [
    (
        sign,
        _NAMES.get(chars, f"{chars} (U+{ord(chars[0]):04X})"),
        tuple(chars),
        re.compile(around.format(f"[{re.escape(chars)}]")),
    )
    for sign, spellings in _SIGNS.items()
    for chars, around in spellings
]


class SpellingCounter:
    """Counts on either side the lines that have each spelling of a sign."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, str], dict[str, int]] = {}
        self._first: dict[tuple[int, str, str], Example] = {}

    def add(self, pair: SentencePair) -> None:
        for side, text in enumerate(pair[:2]):
            is_ascii = text.isascii()
            for sign, spelling, chars, pattern in _SPELLINGS:
                if (is_ascii and chars[0] > "\x7f") or (side == 0 and sign.startswith("space")):
                    continue  # any space of a source is one to the model
                if any(char in text for char in chars) and (match := pattern.search(text, 0, OVER_LONG_FROM)):
                    counts = self._counts.setdefault((side, sign), {})
                    counts[spelling] = counts.get(spelling, 0) + 1
                    key = (side, sign, spelling)
                    if key not in self._first:
                        shown = _around(text, match.start())
                        self._first[key] = Example(pair.line, *((shown, "") if side == 0 else ("", shown)))

    def findings(self, n_pairs: int, name: str, settled: Spellings) -> list[Finding]:
        """A finding for each sign that has two spellings on a side, but for apostrophes that are `settled`."""
        found, settled_signs = [], [set(spelling.values()) for spelling in settled]
        for (side, sign), counts in sorted(self._counts.items()):
            if sign == "apostrophe" and not settled_signs[side].isdisjoint(APOSTROPHES):
                continue
            used = sorted(counts.items(), key=lambda item: -item[1])
            if len(used) < 2 or used[1][1] < _N_OF_A_SPELLING:
                continue
            n_rarer = sum(count for _, count in used[1:])
            told = ", ".join(f"{spelling} in {count:,} lines" for spelling, count in used)
            side_name = "target" if side else "source"
            kind = Kind(
                "two_spellings",
                f"the {side_name} writes the {sign} in several ways: {told}",
                f"Write {used[0][0]} throughout on the {side_name} side: to the model they are different signs.",
                severity="info" if sign in _HARMLESS else "warning",
            )
            examples = tuple(self._first[side, sign, spelling] for spelling, _ in used[:2])
            found.append(Finding.of(kind.at(n_rarer / n_pairs), n_rarer, n_rarer / n_pairs, examples, name))
        return found


def spelling_findings(spellings: Spellings, train: Signs, choice: Literal["dev", "own"]) -> list[Finding]:
    """What to know of signs that training writes otherwise than dev. `choice`: the key data.spelling."""
    found = []
    for side, spelling, signs in zip(("source", "target"), spellings, train, strict=True):
        counts = {sign: signs.counts[sign] for sign in spelling if signs.counts[sign]}
        times = ", ".join(f"{told({sign: spelling[sign]})} ({n:,} times)" for sign, n in counts.items())
        kind = Kind(
            "other_spelling",
            f"dev writes the {side} otherwise than training does: {times}",
            "Nothing to do: mt train reads it as dev writes it. If you want it as in training, --set data.spelling=own."
            if choice == "dev"
            else "Write both in one way, or leave out data.spelling: own, so that mt train reads it as dev writes it.",
            severity="info" if choice == "dev" else "warning",
        )
        if n := sum(counts.values()):
            found.append(Finding.of(kind, n, n / signs.counts.total(), (), "dev"))
    return found


_BEFORE_A_SIGN = 30  # characters of an example: what is further away may be cut off in a terminal


def _around(text: str, position: int) -> str:
    first = max(0, position - _BEFORE_A_SIGN)
    return ("…" if first else "") + text[first : first + 200]
