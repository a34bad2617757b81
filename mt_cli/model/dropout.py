"""Dropout with cheap random bits (Srivastava et al. 2014).

`nn.Dropout` draws a random number for each element, which on a CPU takes longer than the matrix product before it.
One byte of a 64-bit draw decides as well: the rate is rounded to the nearest 1/256, and the scale follows the real rate,
so that the expectation stays (in bf16 to the third of a percent to which that type holds the scale).
"""

from __future__ import annotations

import threading

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_INT64 = torch.iinfo(torch.int64)
_noise = threading.local()


def seed_dropout(*seeds: int) -> None:
    """Makes what the calling thread drops from here on a function of `seeds` alone; on a GPU, what all threads drop.

    So a training continues from a position, not from a generator's state, and threads that share an update do not share
    a generator: who draws first would differ from run to run.
    """
    seed = int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0])
    _noise.generator = torch.Generator().manual_seed(seed)
    if torch.accelerator.is_available():
        torch.manual_seed(seed)  # of every device


class Dropout(nn.Module):
    """Zeroes each element with probability `p` while training, and scales the others by 1 / (1 - p)."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p
        self.n_dropped = min(255, round(p * 256))  # of the 256 values of a byte

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.n_dropped == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p, training=True)  # fast there
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64)
        draws.random_(_INT64.min, None, generator=getattr(_noise, "generator", None))
        # The lowest n_dropped of the bytes -128 .. 127 become 0, the others 1; comparing them, and converting the
        # booleans, would take five times as long.
        highest_dropped = self.n_dropped - 129
        kept = draws.view(torch.int8)[: x.numel()].clamp_(highest_dropped, highest_dropped + 1).sub_(highest_dropped)
        return x * kept.view(x.shape).to(x.dtype).mul_(256 / (256 - self.n_dropped))

    def extra_repr(self) -> str:
        return f"p={self.p}"
