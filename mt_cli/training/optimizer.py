"""AdamW on float32 weights, whatever precision the network computes in.

In bf16 a weight of 1.0 cannot take an update of 0.001: it rounds away. So the optimizer keeps float32 weights (those of
`model`, which are saved, averaged and translated with) and the `network` that runs forward and backward is a bf16 copy,
written anew after each update. In fp32 both are one and the same.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from mt_cli.config import TrainingConfig
from mt_cli.model.transformer import Transformer


class Optimizer:
    def __init__(self, model: Transformer, training: TrainingConfig, dtype: torch.dtype):
        self.model = model
        self.network = model if dtype == torch.float32 else copy.deepcopy(model).to(dtype)
        self.clip_norm = training.clip_norm
        self._weights: list[Tensor] = list(model.parameters())
        self._copies: list[Tensor] = list(self.network.parameters())
        self.adamw = torch.optim.AdamW(
            self._weights,
            lr=training.learning_rate,
            betas=(training.adam_beta1, training.adam_beta2),
            weight_decay=training.weight_decay,
            fused=True,
        )

    def collect_gradients(self) -> None:
        """Adds the network's gradients to those of the float32 weights; to be called after every `backward`."""
        if self.network is self.model:
            return
        for weight, copied in zip(self._weights, self._copies, strict=True):
            if copied.grad is not None:
                weight.grad = copied.grad.float() if weight.grad is None else weight.grad.add_(copied.grad)
                copied.grad = None

    def clip(self) -> Tensor:
        """Scales the gradients down to `clip_norm` together; returns their norm before (a scalar)."""
        return torch.nn.utils.clip_grad_norm_(self._weights, self.clip_norm)

    def step(self, learning_rate: float) -> None:
        for group in self.adamw.param_groups:
            group["lr"] = learning_rate
        self.adamw.step()
        self.adamw.zero_grad()
        self.sync_network()

    @torch.no_grad()
    def sync_network(self) -> None:
        if self.network is not self.model:
            torch._foreach_copy_(self._copies, self._weights)
