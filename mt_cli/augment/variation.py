"""Further training pairs, made from those of the text, with what people write and the text has not: spans and typing errors.

A symbol that stands for a span (spans.py) takes the place of a word on both sides, or stands before it, where the two words
translate each other: so it is learnt where such a symbol belongs in a translation.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

import numpy as np

from mt_cli.checking.alignment import Lexicon, unit_places
from mt_cli.data.corpus import SentencePair
from mt_cli.data.normalize import UNSPACED
from mt_cli.data.spans import N_SYMBOLS, SYMBOLS, held
from mt_cli.evaluation.robustness import with_typing_errors

MOST_VARIED = 20_000  # that are varied, which bounds the time
_SHARE_OF_ERRORS = 0.05  # of the letters
_MANY_SPANS = 0.5  # chance of one span more

Edit = tuple[int, int, str]  # from a place to another one, what stands there instead


def varied(pairs: Sequence[SentencePair], has_symbols: bool) -> Iterator[SentencePair]:
    """The pairs, each with spans or with typing errors in its source; those in which nothing can be changed are left out."""
    for number, (pair, of_pair) in enumerate(zip(pairs, word_links(pairs), strict=True)):
        rng = random.Random(number)
        if has_symbols and rng.random() < 0.5:
            src, tgt = _with_spans(pair, of_pair, rng)
        else:
            src, tgt = with_typing_errors(pair.src, _SHARE_OF_ERRORS, rng), pair.tgt
        if src.strip() and (src, tgt) != pair[:2]:
            yield pair._replace(src=src, tgt=tgt)


def word_links(pairs: Sequence[SentencePair]) -> list[list[tuple[str, str]]]:
    """For each pair the units (alignment.py) of source and target that translate each other."""
    lexicon = Lexicon(pairs)
    lexicon.learn(np.ones(len(pairs), dtype=bool))
    links: list[list[tuple[str, str]]] = [[] for _ in pairs]
    for line, src, tgt in zip(*map(np.ndarray.tolist, lexicon.links(np.arange(len(pairs)))), strict=True):
        links[line].append((lexicon.units[src], lexicon.units[tgt]))
    return links


def _with_spans(pair: SentencePair, links: list[tuple[str, str]], rng: random.Random) -> tuple[str, str]:
    """Symbols in the place of, or before, the two words of one link or more, in the order of the source."""
    if held(pair.src) or not links:
        return pair.src, pair.tgt
    places, n_wanted = (unit_places(pair.src), unit_places(pair.tgt)), 1
    while n_wanted < N_SYMBOLS and rng.random() < _MANY_SPANS:
        n_wanted += 1
    chosen = list[tuple[tuple[int, int], tuple[int, int]]]()
    for src, tgt in sorted(rng.sample(links, len(links)), key=lambda link: len(link[0]) == 1):  # single characters last
        found = places[0][src], places[1][tgt]
        before = lambda one, other, side: one[side][1] <= other[side][0]  # noqa: E731
        is_free = all(before(one, found, side) or before(found, one, side) for one in chosen for side in (0, 1))
        if is_free and len(chosen) < n_wanted:
            chosen.append(found)
    edits: tuple[list[Edit], list[Edit]] = ([], [])
    texts: tuple[str, str] = pair.src, pair.tgt
    for symbol, found in zip(SYMBOLS, sorted(chosen), strict=False):
        is_before = rng.random() < 0.5
        for side in (0, 1):
            start, end = found[side]
            is_spaced = not re.match(f"[{UNSPACED}]", texts[side][start]) or (side == 0 and rng.random() < 0.5)
            space = " " if is_before and is_spaced else ""
            edits[side].append((start, start if is_before else end, f"{symbol}{space}"))
    return edited(pair.src, edits[0]), edited(pair.tgt, edits[1])


def edited(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    return text
