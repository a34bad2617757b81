"""Describes the training text: how long its sentences and their translations are, which characters it has. A run keeps
this, so that text which is translated later can be compared with what the model has seen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from mt_cli.data.reading import Style, StyleCounter
from mt_cli.data.spelling import Spelling
from mt_cli.data.splitting import MAX_ABBREVIATIONS, sentences

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_Deviation = Annotated[float, Field(ge=-1e6, le=1e6)]
_OUTLIERS = 0.001  # share of the pairs at either end that counts as unusual: any corpus has a few misaligned pairs


class CorpusProfile(BaseModel):
    """Lengths are in tokens, the end symbol counted."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    longest_src: int = Field(ge=0)
    several_sentences: float = Field(ge=0, le=1)  # share of the source lines that hold more than one sentence
    length_ratio: float = Field(ge=0, le=1e6)  # target tokens for each source token
    shortest_deviation: _Deviation  # of a target's length from that ratio, over the square root of the source's length
    longest_deviation: _Deviation
    style: Style  # of the source
    tgt_characters: str = ""  # sorted
    abbreviations: tuple[str, ...] = Field((), max_length=MAX_ABBREVIATIONS)  # of the source
    spelling: Spelling = {}  # characters of the source that are read as others

    def usual_lengths(self, n_src: int) -> tuple[int, int]:
        """The least and the most tokens of a translation; the variance grows with the length (Gale and Church 1993)."""
        usual, scale = self.length_ratio * n_src, n_src**0.5
        least, most = usual + self.shortest_deviation * scale, usual + self.longest_deviation * scale
        return max(0, math.floor(least)), math.ceil(most)

    @property
    def characters(self) -> str:
        return self.style.characters


class ProfileBuilder:
    """Collects what a profile says of the source text, line by line; memory does not grow with the text."""

    def __init__(self, abbreviations: tuple[str, ...]):
        self._abbreviations = abbreviations
        self._n_lines, self._n_several, self._style, self._tgt_characters = 0, 0, StyleCounter(), set[str]()

    def add(self, src: str, tgt: str) -> None:
        """Counts a normalized pair."""
        self._n_lines += 1
        self._n_several += len(sentences(src, self._abbreviations)) > 1
        self._style.add(src)
        self._tgt_characters.update(tgt)

    def profile(
        self,
        src_lengths: npt.NDArray[np.int64],
        tgt_lengths: npt.NDArray[np.int64],
        longest_src: int,
        spelling: Spelling,
        known: Iterable[str] = (),
    ) -> CorpusProfile:
        """The profile of at least one pair, from lengths in tokens, without end symbols: of pairs, and of the longest source.
        `known`: characters that were read in an earlier training."""
        import numpy as np  # here, because the command line imports this file and starts without numpy

        self._style.characters.update(known)
        src, tgt = src_lengths + 1, tgt_lengths + 1
        ratio = tgt.sum() / src.sum()
        shortest, longest = np.quantile((tgt - ratio * src) / np.sqrt(src), (_OUTLIERS, 1 - _OUTLIERS)).tolist()
        return CorpusProfile(
            longest_src=longest_src + 1,
            several_sentences=self._n_several / self._n_lines,
            length_ratio=float(ratio),
            shortest_deviation=shortest,
            longest_deviation=longest,
            style=self._style.style(),
            tgt_characters="".join(sorted(self._tgt_characters)),
            abbreviations=self._abbreviations,
            spelling=spelling,
        )
