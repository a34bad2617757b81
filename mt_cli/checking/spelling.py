"""Characters that a corpus writes in several ways, and those that training writes otherwise than the dev set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from mt_cli.checking.faults import Kind, Severity
from mt_cli.checking.report import Finding
from mt_cli.data.spelling import APOSTROPHES, CharacterCounters, Spellings, format_spelling

SIDES = ("source", "target")
_VARIANTS = {"apostrophe": APOSTROPHES, "hyphen": "-\u2010\u2011"}
_LEAST = 5  # times that the second spelling occurs: then there is something to decide


def spelling_findings(
    train: CharacterCounters, spellings: Spellings, choice: Literal["dev", "own"]
) -> Iterator[Finding]:
    """`spellings`: what dev writes for characters of training. `choice`: the key data.spelling."""
    for side, spelling, characters in zip(SIDES, spellings, train, strict=True):
        counts = characters.counts
        others = {char: n for char in spelling if (n := counts[char])}
        if total := sum(others.values()):
            times = ", ".join(f"{format_spelling({char: spelling[char]})} ({n:,} times)" for char, n in others.items())
            share = total / counts.total()
            severity: Severity = "info" if choice == "dev" else "warning"
            yield Finding.of(Kind.OTHER_SPELLING, total, share, (), "dev", severity, side=side, spellings=times)
        for name, variants in _VARIANTS.items():
            if choice == "dev" and not set(variants).isdisjoint(spelling.values()):
                continue  # training reads it as dev writes it
            # With a space on one side only it is a quotation mark, as is a ’ that closes what ‘ has opened.
            used = Counter({char: counts[char] + counts[f" {char} "] for char in variants})
            if "’" in used:
                used["’"] = max(0, used["’"] - max(0, counts["‘"] - counts["’ "]))
            (most, n_most), (_, n_second) = used.most_common(2)
            if n_second >= _LEAST:
                n, share = used.total() - n_most, 1 - n_most / used.total()
                times = ", ".join(f"{char} (U+{ord(char):04X}) {n:,} times" for char, n in used.most_common() if n)
                yield Finding.of(Kind.TWO_SPELLINGS, n, share, side=side, character=name, spellings=times, most=most)
