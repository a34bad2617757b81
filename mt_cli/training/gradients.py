"""The loss of a batch and its gradients, in the fastest of the ways that compute what `objective.py` defines.

On a GPU, packed batches have one compiled graph, recorded once and replayed at all other steps: a step of a small model
is a thousand short kernels, and to launch them takes longer than to compute them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from mt_cli.config import TrainingConfig
from mt_cli.data.batching import Batch, make_batch
from mt_cli.data.dataset import Mixture
from mt_cli.data.packing import PackedBatch
from mt_cli.errors import is_device_failure, is_out_of_memory
from mt_cli.model.dropout import seed_dropout
from mt_cli.training.objective import is_fused_right, summed_loss
from mt_cli.training.optimizer import Optimizer

log = logging.getLogger(__name__)

AnyBatch = Batch | PackedBatch
LossAndGradients = tuple[Tensor, tuple[Tensor, ...]]

_TRIED_LOGITS = 1 << 21  # a few sentences
_COMPILED_STEPS, _COMPILED_MINUTES = 3_000, 10  # of a training; compiling takes longer than shorter ones gain


class Gradients:
    """Of a network's weights. Threads may share it."""

    def __init__(self, optimizer: Optimizer, training: TrainingConfig, dataset: Mixture):
        self._optimizer, self._training = optimizer, training
        self._compiled: Callable[..., Tensor] | None = None
        vocab_size = optimizer.model.projection.out_features
        targets = make_batch(dataset, list(range(min(16, len(dataset))))).targets
        targets = targets[: max(32, _TRIED_LOGITS // vocab_size)]
        smoothing, strengths = training.label_smoothing, {0.0, training.r_drop}
        self.is_fused = all(is_fused_right(targets, vocab_size, smoothing, r_drop) for r_drop in strengths)

    def __call__(
        self, batch: AnyBatch, n_passes: int, loss_of: Callable[..., Tensor] | None = None
    ) -> LossAndGradients:
        """Summed over the target tokens of the batch. `loss_of`: what computes `summed_loss`."""
        if loss_of is None:
            loss_of = self._compiled if self._compiled and isinstance(batch, PackedBatch) else summed_loss
        r_drop, network = self._training.r_drop if n_passes == 2 else 0.0, self._optimizer.network
        loss = loss_of(network, batch.to(network.device), self._training.label_smoothing, r_drop, self.is_fused)
        # A graph that is replayed writes the next loss over this one.
        return loss.detach().clone(), torch.autograd.grad(loss, self._optimizer.network_weights)

    def compile(self, batches: Iterable[tuple[AnyBatch, int]]) -> None:
        """Compiles the loss of packed batches, where that gives the gradients that it gives as it is. `batches`: one for
        each kind of step, with its number of forward passes."""
        torch.compiler.reset()  # only a few shapes are compiled in a process, and each training has shapes of its own
        try:
            compiled = torch.compile(summed_loss, dynamic=False, fullgraph=True, mode="reduce-overhead")
            for batch, n_passes in batches:
                seed_dropout(0)
                expected = self(batch, n_passes, summed_loss)
                for _ in range(3):  # a GPU computes the first, records the second and replays the third
                    seed_dropout(0)
                    if not _are_close(self(batch, n_passes, compiled), expected):
                        raise ArithmeticError("other gradients")
            self._compiled = compiled
        except Exception as error:  # a compiler fails in many ways, and none of them need end a training
            if is_out_of_memory(error) or is_device_failure(error):
                raise
            reason = next(iter(str(error).strip().splitlines()), "")[:150]
            log.info(f"training without compiled kernels, which takes longer ({type(error).__name__}: {reason})")
            torch.compiler.reset()


def _are_close(found: LossAndGradients, expected: LossAndGradients) -> bool:
    """Near enough for what dropout leaves: compiled kernels draw other numbers from the same seed."""
    errors, norms = (
        torch.stack([x.float().norm() for x in tensors]).norm()
        for tensors in (torch._foreach_sub(found[1], expected[1]), expected[1])
    )
    return bool(errors < 0.8 * norms) and bool((found[0] - expected[0]).abs() < 0.1 * expected[0].abs())


def is_worth_compiling(training: TrainingConfig) -> bool:
    """By the whole length of the training: one that is continued computes as it began."""
    if training.minutes is not None:
        return training.minutes >= _COMPILED_MINUTES
    return training.max_steps >= _COMPILED_STEPS
