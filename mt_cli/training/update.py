"""The gradient of one update: batches in the order of an epoch, their sentences shared among the cores of a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mt_cli.model.dropout import seed_dropout
from mt_cli.text.batching import epoch_batches, make_batch
from mt_cli.text.dataset import TokenDataset
from mt_cli.training.objective import summed_loss
from mt_cli.training.progress import Progress
from mt_cli.training.state import TrainingState
from mt_cli.training.workers import Workers


class Update(NamedTuple):
    loss_sum: float  # nats, summed over the target tokens
    n_tokens: int  # target tokens, padding left out
    grad_norm: float  # before clipping
    pairs: list[int]  # of the dataset, in these batches

    @property
    def loss(self) -> float:
        """Nats for each target token."""
        return self.loss_sum / self.n_tokens


def remaining_batches(dataset: TokenDataset, batch_tokens: int, seed: int, progress: Progress) -> Iterator[list[int]]:
    """The pairs of each batch that follows `progress`, epoch after epoch without end. Advances `progress`."""
    while True:
        n_done = progress.batch
        for number, pairs in enumerate(epoch_batches(dataset, batch_tokens, seed, progress.epoch)):
            if number >= n_done:
                progress.batch = number + 1
                yield pairs
        progress.epoch, progress.batch = progress.epoch + 1, 0


def compute_update(
    state: TrainingState, dataset: TokenDataset, batches: Iterator[list[int]], workers: Workers
) -> Update:
    """Stores the gradient of the next batches, averaged over target tokens and clipped, in the weights' `grad`."""
    chosen = [next(batches) for _ in range(state.settings.accumulate)]
    state.optimizer.network.train()
    dataset = dataset.backwards() if state.phase.is_backward else dataset
    parts = [part for batch in chosen for k in range(workers.n) if (part := batch[k :: workers.n])]

    def gradients(numbered_part: tuple[int, list[int]]) -> tuple[Tensor, int, tuple[Tensor, ...]]:
        return _gradients(state, dataset, *numbered_part)

    losses, n_tokens = list[Tensor](), 0
    for part_loss, part_tokens, part_gradients in workers.map(gradients, enumerate(parts)):
        state.optimizer.add(part_gradients)
        losses.append(part_loss)
        n_tokens += part_tokens
    grad_norm = state.optimizer.average_and_clip(n_tokens)
    loss_sum = sum(loss.item() for loss in losses)  # waits for the device, when all of its work is queued
    return Update(loss_sum, n_tokens, grad_norm.item(), [pair for batch in chosen for pair in batch])


def _gradients(
    state: TrainingState, dataset: TokenDataset, part: int, pairs: list[int]
) -> tuple[Tensor, int, tuple[Tensor, ...]]:
    """Summed loss, number of target tokens and summed gradients of some pairs. Runs in a thread of its own."""
    settings, network = state.settings, state.optimizer.network
    seed_dropout(settings.seed, state.progress.step, part)
    batch = make_batch(dataset, pairs).to(state.model.device)
    r_drop = settings.r_drop if state.phase.n_passes == 2 else 0.0
    loss = summed_loss(network, batch, settings.label_smoothing, r_drop)
    return loss.detach(), batch.n_tokens, torch.autograd.grad(loss, state.optimizer.network_weights)
