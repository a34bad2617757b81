"""AdamW on float32 weights, whatever precision the network computes in.

In bf16 a weight of 1.0 cannot take an update of 0.001: it rounds away. So the optimizer keeps float32 weights (those of
`model`, which are saved and translated with) and the `network` that runs forward and backward is a bf16 copy,
written anew after each update. In fp32 both are one and the same.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mt_cli.checkpoint import shape_of
from mt_cli.config import TrainingConfig
from mt_cli.model.transformer import Transformer


class Optimizer:
    def __init__(self, model: Transformer, training: TrainingConfig, dtype: torch.dtype):
        self.model = model
        self.network = model if dtype == torch.float32 else copy.deepcopy(model).to(dtype)
        self.averaged = copy.deepcopy(model).requires_grad_(False) if training.average_decay else None
        self.clip_norm, self.average_decay = training.clip_norm, training.average_decay
        self._weights: list[Tensor] = list(model.parameters())
        self.network_weights: list[Tensor] = list(self.network.parameters())
        self.adamw = torch.optim.AdamW(
            self._weights,
            lr=training.learning_rate,
            betas=(training.adam_beta1, training.adam_beta2),
            weight_decay=training.weight_decay,
            fused=True,
        )

    def add(self, gradients: Sequence[Tensor]) -> None:
        """Adds gradients of the network's weights to those of the float32 weights."""
        for weight, gradient in zip(self._weights, gradients, strict=True):
            weight.grad = gradient.float() if weight.grad is None else weight.grad.add_(gradient)

    def average_and_clip(self, n_tokens: int) -> Tensor:
        """Divides the summed gradients by `n_tokens`, then scales them down to `clip_norm` together; returns their
        norm before that (a scalar)."""
        torch._foreach_div_([weight.grad for weight in self._weights if weight.grad is not None], n_tokens)
        return torch.nn.utils.clip_grad_norm_(self._weights, self.clip_norm)

    def step(self, learning_rate: float, step: int) -> None:
        """Update number `step`, counted from 1."""
        for group in self.adamw.param_groups:
            group["lr"] = learning_rate
        self.adamw.step()
        self.adamw.zero_grad()
        self.sync_network()
        self._average(step)

    @torch.no_grad()
    def _average(self, step: int) -> None:
        """An exponential moving average (Polyak and Juditsky 1992), over fewer updates while there are only few."""
        if self.averaged is not None:
            decay = min(self.average_decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(list(self.averaged.parameters()), self._weights, 1 - decay)

    def restore(self, state: dict[int, dict[str, Any]]) -> None:
        """Goes on with the moments of `adamw.state_dict()["state"]`. Raises ValueError when they are not of these weights."""
        for index, moments in state.items():
            shape = tuple(self._weights[index].shape)
            expected = {"step": (), "exp_avg": shape, "exp_avg_sq": shape}
            found = {name: shape_of(moment) for name, moment in moments.items()}
            if found != expected:
                raise ValueError(f"moments of weight {index} are {found}, expected {expected}")
        self.adamw.load_state_dict({**self.adamw.state_dict(), "state": state})
        self.sync_network()

    @torch.no_grad()
    def sync_network(self) -> None:
        if self.network is not self.model:
            torch._foreach_copy_(self.network_weights, self._weights)
