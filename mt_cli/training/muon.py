"""Muon (Jordan et al. 2024): the update of a matrix, made equally large in all of its directions.

torch's own takes one matrix after the other, and always in bf16. Here matrices of the same shape are updated in one batch,
which takes a third of the time at the sizes of small models. They are multiplied in the precision of the network: on a
CPU without bf16 in hardware, bf16 is a dozen times slower than float32.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_MOMENTUM = 0.95
_COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of x, x^3 and x^5: they lift small singular values fastest
_N_STEPS = 5


class Muon(torch.optim.Optimizer):
    """Steps are as large as AdamW's would be (Liu et al. 2025, equation 4)."""

    def __init__(self, matrices: Sequence[Tensor], dtype: torch.dtype):
        super().__init__(matrices, {"lr": 0.0, "weight_decay": 0.0})
        self.dtype = dtype
        self.found_inf: Tensor | None = None  # 1: the step changes nothing; a scalar, as AdamW has it

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        (group,) = self.param_groups
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for matrix in group["params"]:
            by_shape[matrix.shape].append(matrix)
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        for shape, matrices in by_shape.items():
            gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
            momenta = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
            kept: Tensor | float = 1 - group["lr"] * group["weight_decay"]
            if self.found_inf is not None:
                is_skipped = self.found_inf > 0
                gradients = list(torch.where(is_skipped, torch.stack(momenta), torch.stack(gradients)))
                kept = torch.where(is_skipped, 1.0, kept)
            torch._foreach_lerp_(momenta, gradients, 1 - _MOMENTUM)
            directions = torch.stack(torch._foreach_lerp(gradients, momenta, _MOMENTUM))  # (N,R,C), Nesterov's
            updates = orthogonalized(directions, self.dtype).to(directions.dtype)
            if self.found_inf is not None:
                updates = updates * (1 - self.found_inf)
            torch._foreach_mul_(matrices, kept)
            torch._foreach_add_(matrices, updates.unbind(), alpha=-group["lr"] * 0.2 * max(shape) ** 0.5)


def orthogonalized(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """(N,R,C) -> the same with its singular values near 1, most between 0.7 and 1.2, by products of matrices in `dtype`.

    A Newton-Schulz step applies an odd polynomial to the singular values, and to nothing else.
    """
    a, b, c = _COEFFICIENTS
    is_tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if is_tall else matrices
    x = (x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)).to(dtype)  # now none is above 1
    for _ in range(_N_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
