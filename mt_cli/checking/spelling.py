"""Finds characters that a corpus writes in several ways, and those that training writes otherwise than the dev set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from mt_cli.checking.faults import Kind
from mt_cli.checking.report import Example, Finding
from mt_cli.checking.statistics import MAX_CHARACTERS
from mt_cli.data.corpora import TrainingText
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spelling import APOSTROPHES, LETTER_AFTER, LETTER_BEFORE, CharacterCounters, Spellings, format_spelling

SIDES = ("source", "target")
_N_OF_A_SPELLING = 5  # lines with the rarer spelling, from which on there is something to decide
_IN_WORDS = LETTER_BEFORE + "{}" + LETTER_AFTER
_BETWEEN_LETTERS = LETTER_BEFORE + "(?:{0}| {0} )" + LETTER_AFTER  # t’a, and t ’ a
_BY_PUNCTUATION = r"(?<=\w){0}(?=[;:!?»])|(?<=«){0}(?=\w)"
_CHARACTERS = {  # of a character: its spellings, each with the characters and with what is around them
    "apostrophe": [(char, _BETWEEN_LETTERS) for char in "'’‘´`"] + [(char, "{}") for char in "ʼʻꞌ"],
    "quotation mark": [(chars, "{}") for chars in ('"', "“”„", "«»")],
    "hyphen": [(char, _IN_WORDS) for char in "-−"] + [(char, "{}") for char in "\u2010\u2011"],
    "space between words": [(chars, _IN_WORDS) for chars in (" ", "\u00a0\u202f")],
    "space by punctuation": [(chars, _BY_PUNCTUATION) for chars in (" ", "\u00a0\u202f")],
}
_NAMES = {" ": "a space", "\u00a0\u202f": "a no-break space", "“”„": "“ ”", "«»": "« »", '"': '"'}
_HARMLESS = {"quotation mark"}
_SPELLINGS = [
    (character, _NAMES.get(chars, f"{chars} (U+{ord(chars[0]):04X})"), chars, re.compile(around.format(f"[{chars}]")))
    for character, spellings in _CHARACTERS.items()
    for chars, around in spellings
]
_BEFORE = 30  # characters of an example: what is further away may be cut off in a terminal


class SpellingCounter:
    """Counts on either side the lines that have each spelling of a character."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, str], Counter[str]] = {}
        self._first: dict[tuple[int, str, str], SentencePair] = {}

    def add(self, pair: SentencePair) -> None:
        for side, text in enumerate(pair[:2]):
            is_ascii = text.isascii()
            for character, spelling, chars, pattern in _SPELLINGS:
                if (is_ascii and chars[0] > "\x7f") or (side == 0 and character.startswith("space")):
                    continue  # any space of a source is one to the model
                if any(char in text for char in chars) and (match := pattern.search(text, 0, MAX_CHARACTERS)):
                    self._counts.setdefault((side, character), Counter())[spelling] += 1
                    if (side, character, spelling) not in self._first:
                        first = max(0, match.start() - _BEFORE)
                        shown = ("…" if first else "") + text[first : first + 200]
                        sides = (shown, "") if side == 0 else ("", shown)
                        self._first[side, character, spelling] = SentencePair(*sides, *pair[2:])

    def findings(self, n_pairs: int, text: TrainingText | None, settled: Spellings) -> Iterator[Finding]:
        """A finding for each character that has two spellings on a side, but for apostrophes that are `settled`."""
        for (side, character), counts in sorted(self._counts.items()):
            if character == "apostrophe" and not set(APOSTROPHES).isdisjoint(settled[side].values()):
                continue
            used = counts.most_common()
            if len(used) < 2 or used[1][1] < _N_OF_A_SPELLING:
                continue
            n_rarer = counts.total() - used[0][1]
            yield Finding.of(
                Kind.TWO_SPELLINGS,
                n_rarer,
                n_rarer / n_pairs,
                tuple(Example.of(self._first[side, character, spelling], text) for spelling, _ in used[:2]),
                severity="info" if character in _HARMLESS else None,
                side=SIDES[side],
                character=character,
                spellings=", ".join(f"{spelling} in {count:,} lines" for spelling, count in used),
                most=used[0][0],
            )


def other_spelling_findings(
    spellings: Spellings, train: CharacterCounters, choice: Literal["dev", "own"]
) -> Iterator[Finding]:
    """The characters that training writes otherwise than dev. `choice`: the key data.spelling."""
    for side, spelling, characters in zip(SIDES, spellings, train, strict=True):
        counts = {char: n for char in spelling if (n := characters.counts[char])}
        if total := sum(counts.values()):
            times = ", ".join(f"{format_spelling({char: spelling[char]})} ({n:,} times)" for char, n in counts.items())
            yield Finding.of(
                Kind.OTHER_SPELLING,
                total,
                total / characters.counts.total(),
                name="dev",
                severity="info" if choice == "dev" else "warning",
                side=side,
                spellings=times,
            )
