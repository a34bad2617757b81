"""AdamW or Muon on float32 weights, which are saved. Where the `network` computes in bf16, in which a weight of 1.0 cannot
take an update of 0.001, it is a copy, written anew after each update."""

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mt_cli.config import TrainingConfig
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import shape_of
from mt_cli.training.ranks import ALONE, Ranks


class Optimizer:
    """With `training.optimizer: muon`, Muon updates the matrices of the layers, and AdamW the rest: embeddings, norms, biases
    and convolutions. Muon's updates are scaled to the size of AdamW's, so one learning rate serves both."""

    def __init__(self, model: Transformer, training: TrainingConfig, dtype: torch.dtype):
        self.model, self._dtype = model, dtype
        self.network = model if dtype == torch.float32 else copy.deepcopy(model).to(dtype)
        self.averaged = copy.deepcopy(model).requires_grad_(False) if training.average_decay else None
        self.clip_norm, self.average_decay = training.clip_norm, training.average_decay
        self._weights, self.network_weights = (_learnt(one, training.freeze) for one in (model, self.network))
        self._averaged_weights = [] if self.averaged is None else _learnt(self.averaged, training.freeze)
        layers = [*model.encoder_layers, *model.decoder_layers] if training.optimizer == "muon" else []
        of_layers = {weight for layer in layers for weight in layer.parameters() if weight.dim() == 2}
        self._matrices = [weight for weight in self._weights if weight in of_layers]  # of Muon
        others = [weight for weight in self._weights if weight not in of_layers]
        groups = [[weight for weight in others if weight.dim() > 1], [weight for weight in others if weight.dim() == 1]]
        betas = training.adam_beta1, training.adam_beta2
        self._adamw: Any = torch.optim.AdamW([{"params": group} for group in groups if group], betas=betas, fused=True)
        self._momenta: dict[Tensor, Tensor] = {}  # of Muon, from the first step on

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

    def average_and_clip(self, n_tokens: int, ranks: Ranks = ALONE) -> Tensor:
        """Adds other processes' gradients, divides by `n_tokens`, scales down to `clip_norm`; the norm before that."""
        if not self._gradients:  # there are fewer sentences than processes
            self.add([torch.zeros_like(weight) for weight in self.network_weights])
        ranks.all_reduce(self._gradients)
        torch._foreach_div_(self._gradients, n_tokens)
        return torch.nn.utils.clip_grad_norm_(self._weights, self.clip_norm)

    @torch.no_grad()
    def step(self, learning_rate: float, weight_decay: float, step: int) -> None:
        """Update `step`, from 1. Norms and biases do not decay."""
        for group in self._adamw.param_groups:
            is_matrix = group["params"][0].dim() > 1
            group.update(lr=learning_rate, weight_decay=weight_decay if is_matrix else 0.0)
        self._adamw.step()
        if self._matrices:
            self._momenta = self._momenta or {matrix: torch.zeros_like(matrix) for matrix in self._matrices}
            muon_step(self._momenta, learning_rate, weight_decay, self._dtype)
        self.drop_gradients()
        self.sync_network()
        if self.averaged is not None:
            # An exponential moving average (Polyak and Juditsky 1992), which forgets the initial weights sooner.
            decay = min(self.average_decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self._averaged_weights, self._weights, 1 - decay)

    def drop_gradients(self, also_moments: bool = False) -> None:
        for weight in self._weights:
            weight.grad = None
        if also_moments:
            self._adamw.state.clear()
            self._momenta.clear()

    def state(self) -> dict[int, dict[str, Tensor]]:
        """By the number of each weight: AdamW's moments and count of steps, Muon's momentum. Empty before the first step."""
        states = {weight: {"momentum_buffer": momentum} for weight, momentum in self._momenta.items()}
        states |= self._adamw.state
        return {i: states[weight] for i, weight in enumerate(self._weights) if states.get(weight)}

    def restore(self, state: dict[int, dict[str, Any]]) -> None:
        """Continues with `state`. Raises ValueError when it is not of these weights."""
        for index, moments in state.items():
            weight = self._weights[index]
            is_muon, shape = any(weight is matrix for matrix in self._matrices), tuple(weight.shape)
            expected = {"momentum_buffer": shape} if is_muon else {"step": (), "exp_avg": shape, "exp_avg_sq": shape}
            found = {name: shape_of(moment) for name, moment in moments.items()}
            if found != expected:
                raise ValueError(f"moments of weight {index} are {found}, expected {expected}")
            copies = {name: moment.to(weight.device, copy=True) for name, moment in moments.items()}
            if is_muon:
                self._momenta[weight] = copies["momentum_buffer"]
            else:
                self._adamw.state[weight] = copies
        self.sync_network()

    @torch.no_grad()
    def sync_network(self) -> None:
        if self.network is not self.model:
            torch._foreach_copy_(list(self.network.parameters()), list(self.model.parameters()))


_EMBEDDINGS = ("src_embeddings", "tgt_embeddings", "projection")
_LAYERS = ("encoder", "decoder", "positions")
_PARTS = {"embeddings": _EMBEDDINGS, "all_but_embeddings": _LAYERS}  # how their names begin


def _learnt(model: Transformer, freeze: Sequence[str]) -> list[Tensor]:
    """The weights that are in none of the parts of `training.freeze`."""
    frozen = tuple(prefix for part in freeze for prefix in _PARTS.get(part, (part,)))
    return [weight for name, weight in model.named_parameters() if not name.startswith(frozen)]


_MOMENTUM = 0.95


def muon_step(momenta: dict[Tensor, Tensor], learning_rate: float, weight_decay: float, dtype: torch.dtype) -> None:
    """Updates each matrix equally in all directions (Jordan et al. 2024), as much as AdamW would (Liu et al. 2025,
    equation 4). Matrices of one shape at once, in a `dtype` that is fast here: torch's own takes them one by one, always in
    bf16. Overwrites the gradients."""
    by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
    for matrix in momenta:
        by_shape[matrix.shape].append(matrix)
    for shape, matrices in by_shape.items():
        own = [momenta[matrix] for matrix in matrices]
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        torch._foreach_lerp_(own, gradients, 1 - _MOMENTUM)
        torch._foreach_lerp_(gradients, own, _MOMENTUM)  # Nesterov's
        updates = orthogonalized(torch.stack(gradients).to(dtype)).float()  # (N,R,C)
        torch._foreach_mul_(matrices, 1 - learning_rate * weight_decay)
        torch._foreach_add_(matrices, updates.unbind(), alpha=-learning_rate * 0.2 * max(shape) ** 0.5)


def orthogonalized(matrices: Tensor) -> Tensor:
    """(N,R,C) -> the same with its singular values near 1, most between 0.7 and 1.2, by products of matrices: a
    Newton-Schulz step applies an odd polynomial to the singular values, and to nothing else."""
    a, b, c = 3.4445, -4.7750, 2.0315  # of x, x^3 and x^5: they lift small singular values fastest
    is_tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # now none is above 1
    for _ in range(5):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
