"""AdamW or Muon on float32 weights, whatever precision the network computes in.

In bf16 a weight of 1.0 cannot take an update of 0.001: it rounds away. So the optimizer keeps float32 weights (those of
`model`, which are saved and translated with) and the `network` that runs forward and backward is a bf16 copy,
written anew after each update. In fp32 both are one and the same.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mt_cli.config import TrainingConfig
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import shape_of
from mt_cli.training.ranks import Ranks


class Optimizer:
    """With `training.optimizer: muon`, Muon (Jordan et al. 2024) updates the matrices of the layers: it makes all directions
    of an update equally large. AdamW updates the rest: embeddings, norms, biases and convolutions. Muon's updates are
    scaled to the size of AdamW's (Liu et al. 2025), so one learning rate serves both."""

    def __init__(self, model: Transformer, training: TrainingConfig, dtype: torch.dtype):
        self.model = model
        self.network = model if dtype == torch.float32 else copy.deepcopy(model).to(dtype)
        self.averaged = copy.deepcopy(model).requires_grad_(False) if training.average_decay else None
        self.clip_norm, self.average_decay = training.clip_norm, training.average_decay
        self._weights, self.network_weights = (_learnt(one, training.freeze) for one in (model, self.network))
        self._averaged_weights = _learnt(self.averaged, training.freeze) if self.averaged is not None else []
        matrices: list[Tensor] = []
        if training.optimizer == "muon":
            layers = [*model.encoder_layers, *model.decoder_layers]
            of_layers = {weight for layer in layers for weight in layer.parameters() if weight.dim() == 2}
            matrices = [weight for weight in self._weights if weight in of_layers]
        others = [weight for weight in self._weights if not any(weight is matrix for matrix in matrices)]
        groups = [
            {"params": [weight for weight in others if weight.dim() > 1]},
            {"params": [weight for weight in others if weight.dim() == 1]},  # norms and biases
        ]
        groups = [group for group in groups if group["params"]]
        betas = training.adam_beta1, training.adam_beta2
        self._optimizers: list[Any] = [torch.optim.AdamW(groups, betas=betas, fused=True)]
        if matrices:
            self._optimizers.append(Muon(matrices, dtype))
        self._optimizer_of = {
            weight: optimizer
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for weight in group["params"]
        }

    @property
    def _gradients(self) -> list[Tensor]:
        return [weight.grad for weight in self._weights if weight.grad is not None]

    def add(self, gradients: Sequence[Tensor]) -> None:
        """Adds gradients of the network's weights to those of the float32 weights."""
        if sums := self._gradients:
            torch._foreach_add_(sums, list(gradients))
            return
        if self.network is not self.model:
            gradients, given = [torch.empty_like(weight) for weight in self._weights], gradients
            torch._foreach_copy_(gradients, given)  # on a GPU one operation for all
        for weight, gradient in zip(self._weights, gradients, strict=True):
            # A convolution's gradient may have other strides than its weight, which fused AdamW on a GPU refuses.
            weight.grad = gradient.flatten().view_as(weight)

    def add_up(self, ranks: Ranks) -> None:
        """Adds the gradients of the other processes."""
        if not self._gradients:  # there are fewer sentences than processes
            for weight in self._weights:
                weight.grad = torch.zeros_like(weight)
        ranks.add_up(self._gradients)

    def average_and_clip(self, n_tokens: int) -> Tensor:
        """Divides the summed gradients by `n_tokens`, then scales them down to `clip_norm` together; returns their
        norm before that (a scalar)."""
        torch._foreach_div_(self._gradients, n_tokens)
        return torch.nn.utils.clip_grad_norm_(self._weights, self.clip_norm)

    def step(self, learning_rate: float, weight_decay: float, step: int, is_finite: Tensor | None = None) -> None:
        """Update number `step`, counted from 1. Norms and biases do not decay.

        Where `is_finite`, a scalar on the device, is False, weights and moments stay what they are. The CPU need not know.
        """
        for optimizer in self._optimizers:
            optimizer.found_inf = None if is_finite is None else (~is_finite).float()  # what torch's GradScaler sets
            for group in optimizer.param_groups:
                is_matrix = group["params"][0].dim() > 1
                group.update(lr=learning_rate, weight_decay=weight_decay if is_matrix else 0.0)
            optimizer.step()
        self.drop_gradients()
        self.sync_network()
        self._average(step)

    def forget(self) -> None:
        """Begins anew: without moments."""
        for optimizer in self._optimizers:
            optimizer.state.clear()

    def drop_gradients(self) -> None:
        for weight in self._weights:
            weight.grad = None

    @torch.no_grad()
    def _average(self, step: int) -> None:
        """An exponential moving average (Polyak and Juditsky 1992), whose first values forget the initial weights sooner."""
        if self.averaged is not None:
            decay = min(self.average_decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self._averaged_weights, self._weights, 1 - decay)

    def state(self) -> dict[int, dict[str, Tensor]]:
        """The optimizers' state of each weight that is learnt, by its number: AdamW's two moments and count of steps,
        Muon's momentum. Empty before the first step."""
        return {
            i: moments
            for i, weight in enumerate(self._weights)
            if (moments := self._optimizer_of[weight].state[weight])
        }

    def restore(self, state: dict[int, dict[str, Any]]) -> None:
        """Continues with `state`. Raises ValueError when it is not of these weights."""
        for index, moments in state.items():
            weight, optimizer = self._weights[index], self._optimizer_of[self._weights[index]]
            shape = tuple(weight.shape)
            is_muon = isinstance(optimizer, Muon)
            expected = {"momentum_buffer": shape} if is_muon else {"step": (), "exp_avg": shape, "exp_avg_sq": shape}
            found = {name: shape_of(moment) for name, moment in moments.items()}
            if found != expected:
                raise ValueError(f"moments of weight {index} are {found}, expected {expected}")
            optimizer.state[weight] = {name: moment.to(weight.device, copy=True) for name, moment in moments.items()}
        self.sync_network()

    @torch.no_grad()
    def sync_network(self) -> None:
        if self.network is not self.model:
            torch._foreach_copy_(list(self.network.parameters()), list(self.model.parameters()))


_PARTS = {
    "embeddings": ("src_embeddings", "tgt_embeddings", "projection"),
    "encoder": ("encoder",),
    "decoder": ("decoder",),
    "all_but_embeddings": ("encoder", "decoder"),
}


def is_frozen(name: str, freeze: Sequence[str]) -> bool:
    """Whether a weight is in one of the parts of `training.freeze`."""
    return name.startswith(tuple(prefix for part in freeze for prefix in _PARTS[part]))


def _learnt(model: Transformer, freeze: Sequence[str]) -> list[Tensor]:
    return [weight for name, weight in model.named_parameters() if not is_frozen(name, freeze)]


_MOMENTUM = 0.95
_COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of x, x^3 and x^5: they lift small singular values fastest
_N_STEPS = 5


class Muon(torch.optim.Optimizer):
    """The update of a matrix, made equally large in all of its directions (Jordan et al. 2024), and as large as AdamW's
    would be (Liu et al. 2025, equation 4).

    torch's own takes one matrix after the other, and always in bf16. Here matrices of the same shape are updated in one
    batch, which takes a third of the time at the sizes of small models. They are multiplied in the precision of the
    network: on a CPU without bf16 in hardware, bf16 is a dozen times slower than float32.
    """

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
