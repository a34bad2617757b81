"""What the training text was like: how long its sentences are, how long their translations, which characters occur.

A run keeps it, so that what is translated later can be compared with what the model has seen.
"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Deviation = Annotated[float, Field(ge=-1e6, le=1e6)]


class CorpusProfile(BaseModel):
    """Lengths are in tokens, the end symbol counted."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    longest_src: int = Field(ge=0)
    several_sentences: float = Field(ge=0, le=1)  # share of the source lines in which more than one sentence stands
    length_ratio: float = Field(ge=0, le=1e6)  # target tokens for each source token
    shortest_deviation: _Deviation  # of a target's length from that ratio, over the square root of the source's length
    longest_deviation: _Deviation
    characters: str  # of the source, in order

    def usual_lengths(self, n_src: int) -> tuple[int, int]:
        """The least and the most tokens of a translation of n_src tokens. The variance of its length grows with the
        length (Gale and Church 1993), so one scale serves short and long sentences."""
        least, most = (
            self.length_ratio * n_src + deviation * n_src**0.5
            for deviation in (self.shortest_deviation, self.longest_deviation)
        )
        return max(0, math.floor(least)), math.ceil(most)
