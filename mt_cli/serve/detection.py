"""Which language a text is in, of those that a server translates from: by its letters, and by which run translates it best."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping

from mt_cli.data.normalize import is_letter
from mt_cli.serve.translators import Pair, Served

_MAX_CHARACTERS = 200  # of the text that are looked at
_TOLERANCE = 0.05  # of the letters: a language whose training text has fewer of them than that of another is not meant


async def detect(
    text: str, served: Mapping[Pair, Served], score: Callable[[Pair, str], Awaitable[float]]
) -> list[tuple[Pair, float]]:
    """The directions from each language that the text may be in, with a confidence of 0 to 100, best first. `score`: the mean
    log-probability of the tokens of its translation."""
    text, of_sources = text[:_MAX_CHARACTERS], {pair[0]: pair for pair in reversed([*served])}
    letters = [char for char in text.casefold() if is_letter(char)]
    shares = dict[Pair, float]()
    for pair in of_sources.values():
        profile = served[pair].translator.profile
        known = set(profile.characters.casefold()) if profile is not None else set(letters)
        shares[pair] = sum(char in known for char in letters) / max(1, len(letters))
    best = max(shares.values(), default=0.0)
    likely = [pair for pair, share in shares.items() if letters and share > 0 and share >= best - _TOLERANCE]
    scores = {pair: await score(pair, text) if len(likely) > 1 else 0.0 for pair in likely}
    weights = {pair: math.exp(one) for pair, one in scores.items()}
    total = sum(weights.values()) or 1.0
    found = [(pair, round(100 * shares[pair] * weight / total, 1)) for pair, weight in weights.items()]
    return sorted(found, key=lambda one: -one[1])
