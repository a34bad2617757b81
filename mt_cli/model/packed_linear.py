"""Linear layers for inference: joined where they share an input and, on a CPU, packed into the order its kernels read.

Activations are matrices with a row for each position (rows,features).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.model.layers import ACTIVATIONS


class Linear:
    """x W^T + b for x (rows,features): as it is, followed by an activation, or added to a residual (rows,outputs)."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def activated(self, x: Tensor, activation: str) -> Tensor:
        return ACTIVATIONS[activation](self(x))

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return self(x).add_(residual)


class PackedLinear(Linear):
    """The same with W in the order that oneDNN's kernels read, by the operators that torch.compile emits."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        bias = weight.new_zeros(weight.size(0)) if bias is None else bias
        super().__init__(weight, bias)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        # A product with a single row is bound by reading W. As a batch of two products, two threads read half of W each.
        self.can_split = weight.size(0) % 2 == 0
        if self.can_split:
            self.halves = weight.view(2, -1, weight.size(1)).transpose(1, 2)  # (2,features,outputs/2)
            self.bias_halves = bias.view(2, 1, -1)

    def __call__(self, x: Tensor) -> Tensor:
        if self._is_split(x):
            return torch.baddbmm(self.bias_halves, x.expand(2, 1, -1), self.halves).view(1, -1)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def activated(self, x: Tensor, activation: str) -> Tensor:
        if self._is_split(x):
            return super().activated(x, activation)
        # "none" asks for GELU as it is defined, and not for an approximation by tanh.
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, activation, [], "none")

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        if self._is_split(x):
            return super().add(x, residual)
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.packed, self.bias, "add")

    def _is_split(self, x: Tensor) -> bool:
        return x.size(0) == 1 and self.can_split and torch.get_num_threads() > 1


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """Packed where that is possible: float32 on a CPU, with oneDNN in torch."""
    can_pack = weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    return (PackedLinear if can_pack else Linear)(weight.detach(), None if bias is None else bias.detach())


def joined(*layers: nn.Linear | nn.Conv1d) -> Linear:
    """Layers with the same input as one layer, their outputs side by side. A convolution of kernel size 1 is linear."""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return linear(torch.cat([layer.weight.flatten(1) for layer in layers]), torch.cat(biases) if biases else None)
