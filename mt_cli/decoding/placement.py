"""Puts tags and other marks, which the model did not read, into its translation, at the places that are aligned with theirs.

A pair of tags goes around the words that its content is aligned with: the stretch of target words that attend to the content
more than to the rest. A single mark goes where the fewest links cross it. What is around all stays so, what is nested stays
nested.

Letters in shapes: T target words, S source words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float64]
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)[^>]*?(/?)>", re.DOTALL)
_LEAST_SHARE = 0.65  # of a word's links, from which on it belongs to a content
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)  # that HTML never closes


class Word(NamedTuple):
    space: str  # before it
    text: str


class Mark(NamedTuple):
    """A tag or another span, which stands in the source before the word of number `place`."""

    symbol: str  # what is put into the translation
    span: str  # what it stands for
    place: int
    has_space_before: bool = False
    has_space_after: bool = False


@dataclass
class _Element:
    """A pair of tags with what is inside, or a single mark."""

    first: Mark
    last: Mark | None = None
    inner: list[_Element] = field(default_factory=list)

    @property
    def source(self) -> tuple[int, int]:
        return self.first.place, (self.last or self.first).place


def placed(words: Sequence[Word], marks: Sequence[Mark], weights: Weights) -> str:
    """The translation `words` (T) with its marks, which come in the order of the source. `weights` (T,S): how much each target
    word attended to each source word."""
    n_src = weights.shape[1]
    return _rendered(words, _elements(marks), weights, (0, n_src), (0, len(words)))


def _rendered(
    words: Sequence[Word], elements: list[_Element], weights: Weights, source: tuple[int, int], target: tuple[int, int]
) -> str:
    """The words of the stretch `target` with the elements that stand in `source`."""
    stretches = list[tuple[int, int]]()
    for element in elements:
        start, end = element.source
        if start == end:
            place = _best_place(weights, start, target, stretches)
            stretches.append((place, place))
        else:
            is_all = (start, end) == source
            stretches.append(target if is_all else _best_stretch(weights, (start, end), target, stretches))
    text, (here, last), gap = "", target, ""  # what stands before the next word or element

    def add(addition: str, own_gap: str, next_gap: str | None) -> None:
        nonlocal text, gap
        text += (own_gap if text else "") + addition
        gap = (words[here].space if here < last else "") if next_gap is None else next_gap

    for (start, end), element in sorted(zip(stretches, elements, strict=True), key=lambda one: one[0]):
        while here < start:
            here += 1
            add(words[here - 1].text, gap, None)
        if element.last is None:
            mark, is_at_end = element.first, start == last
            own_gap = " " if mark.has_space_before else "" if mark.has_space_after else gap
            add(mark.symbol, own_gap, " " if mark.has_space_after and not is_at_end else "")
        else:
            inner = _rendered(words, element.inner, weights, element.source, (start, end))
            here = end
            add(f"{element.first.symbol}{inner}{element.last.symbol}", gap, gap if start == end else None)
    while here < last:
        here += 1
        add(words[here - 1].text, gap, None)
    return text


def _elements(marks: Sequence[Mark]) -> list[_Element]:
    """Tags that belong together as pairs; all others as single marks."""
    found, open_ones = list[_Element](), list[tuple[str, _Element, list[_Element]]]()
    level = found
    for mark in marks:
        tag = _TAG.fullmatch(mark.span)
        name = tag[2].lower() if tag and not tag[3] and tag[2].lower() not in _VOID else ""
        if tag and name and not tag[1]:
            element = _Element(mark)
            level.append(element)
            open_ones.append((name, element, level))
            level = element.inner
            continue
        if name and any(name == other for other, _, _ in open_ones):
            while True:
                other, element, level = open_ones.pop()
                if other == name:
                    element.last = mark
                    break
                level += element.inner  # it is closed nowhere
                element.inner = []
            continue
        level.append(_Element(mark))
    while open_ones:
        _, element, level = open_ones.pop()
        level += element.inner
        element.inner = []
    return found


def _best_stretch(
    weights: Weights, source: tuple[int, int], target: tuple[int, int], taken: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """The target words, of those that are free, that are linked most with the source words: the stretch of the largest sum of
    the share above `_LEAST_SHARE` that these have of each word's links. Only words that choose each other are linked (Liang et
    al. 2006): a word without a counterpart attends to its neighbours' ones, which attract others more."""
    free = [not any(start <= word < end for start, end in taken) for word in range(*target)]
    best = (-np.inf, target[1], target[1])
    links = weights**2 / np.maximum(weights.sum(0), 1e-9)
    share = links[:, slice(*source)].sum(1) / np.maximum(links.sum(1), 1e-9) - _LEAST_SHARE
    # Another's word between two words of the content costs less than one of these is worth.
    share = np.maximum(share, _LEAST_SHARE - 0.99)
    total, start = -np.inf, target[0]
    for word in range(*target):
        if not free[word - target[0]]:
            total = -np.inf
            continue
        if total < 0:
            total, start = 0.0, word
        total += share[word]
        if total > best[0]:
            best = total, start, word + 1
    return best[1:]


def _best_place(weights: Weights, place: int, target: tuple[int, int], taken: Sequence[tuple[int, int]]) -> int:
    """Between which target words the fewest links cross a mark before the source word `place`."""
    behind = weights[:, place:].sum(1) / np.maximum(weights.sum(1), 1e-9)
    first, last = target
    costs = [behind[first:at].sum() + (1 - behind[at:last]).sum() for at in range(first, last + 1)]
    for start, end in taken:
        for at in range(start + 1, end):
            costs[at - first] = np.inf
    return first + int(np.argmin(costs))
