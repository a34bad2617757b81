"""Dropout (Srivastava et al. 2014) with a byte of a draw for each element: a random number takes longer than the matrix product
before it. The rate is rounded to 1/256, by which the others are scaled, so the expectation is exact (in bf16 to 0.3%)."""

import threading

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_INT64 = torch.iinfo(torch.int64)
_noise = threading.local()


def seed_dropout(*seeds: int) -> None:
    """Makes dropout of this thread, or of a GPU, a function of `seeds`, so that a training continues from its position.
    With one generator for all threads the result would depend on which draws first."""
    seed = int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0])
    _noise.generator = torch.Generator().manual_seed(seed)
    if torch.accelerator.is_available():
        torch.manual_seed(seed)  # on every device


class Dropout(nn.Module):
    """In training, zeroes each element with probability `p` and scales the others by 1 / (1 - p)."""

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
        # Clamping turns the lowest n_dropped of the bytes -128 .. 127 into 0 and the others into 1. To compare the bytes
        # and convert the booleans would take five times as long.
        highest_dropped = self.n_dropped - 129
        kept = draws.view(torch.int8)[: x.numel()].clamp_(highest_dropped, highest_dropped + 1).sub_(highest_dropped)
        return x * kept.view(x.shape).to(x.dtype).mul_(256 / (256 - self.n_dropped))
