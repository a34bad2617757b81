"""Text as it is typed in haste."""

from __future__ import annotations

import random
import re

from mt_cli.data.normalize import UNSPACED

_LETTER = re.compile(rf"[^\W\d_{UNSPACED}]")  # of a script that is typed letter by letter


def with_typing_errors(text: str, share: float, rng: random.Random) -> str:
    """The text with errors in a share of its letters: exchanged with the next, left out, doubled, another of its letters."""
    letters, alphabet = list(text), _LETTER.findall(text.lower())
    for i, char in enumerate(text):
        if rng.random() >= share or not _LETTER.match(char):
            continue
        following = text[i + 1 : i + 2]
        kind = rng.randrange(4)
        if kind == 0 and _LETTER.match(following):
            letters[i], letters[i + 1] = following, char
        else:
            letters[i] = ("", "", char + char.lower(), rng.choice(alphabet))[kind]
    return "".join(letters)
