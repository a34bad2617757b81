"""Sentences that stand in one row, one after another without padding: where each begins, and who may attend to whom.

Shapes: Z sentences, N and M tokens of all of them together.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Packing(NamedTuple):
    """The sentences of a row of N tokens, each of which belongs to one."""

    starts: Tensor  # (Z+1,), int32: where each begins, and the end of the last
    positions: Tensor  # (N,): of each token in its sentence, counted from 0
    longest: int  # no sentence has more tokens

    def numbers(self) -> Tensor:
        """(N,): which sentence each token belongs to."""
        tokens = torch.arange(len(self.positions), dtype=self.starts.dtype, device=self.starts.device)
        return torch.bucketize(tokens, self.starts[1:], right=True)


class PackedMask(NamedTuple):
    """A query may attend to the keys of the sentence with its own number; if `is_causal`, to itself and those before it."""

    queries: Packing
    keys: Packing
    is_causal: bool = False

    def dense(self) -> Tensor:
        """The same as a mask (N,M). True means "may be attended"."""
        mask = self.queries.numbers()[:, None] == self.keys.numbers()
        return mask & (self.queries.positions[:, None] >= self.keys.positions) if self.is_causal else mask


Mask = Tensor | PackedMask | None


def positions_in(mask: Mask) -> Tensor | None:
    """The positions of packed queries (N,); None where each row is a sentence, whose positions its ids tell."""
    return mask.queries.positions if isinstance(mask, PackedMask) else None
