"""Dropout with cheap random bits (Srivastava et al. 2014).

`nn.Dropout` draws a random number for each element, which on a CPU takes longer than the matrix product before it.
One byte of a 64-bit draw decides as well: the rate is rounded to the next 1/256, and the scale follows the real rate,
so that the expectation is exact. The bits come from torch's own generator, whose state a checkpoint keeps.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_INT64 = torch.iinfo(torch.int64)


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
        bits = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(_INT64.min, None)
        kept = bits.view(torch.uint8)[: x.numel()].view(x.shape) >= self.n_dropped
        return x * kept.to(x.dtype).mul_(256 / (256 - self.n_dropped))

    def extra_repr(self) -> str:
        return f"p={self.p}"
