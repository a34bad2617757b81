"""The gradient of one update: batches in the order of an epoch, their sentences shared among processes and the cores of a
CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mt_cli.model.dropout import seed_dropout
from mt_cli.text.batching import epoch_batches, make_batch
from mt_cli.text.mixture import Mixture
from mt_cli.training.objective import summed_loss
from mt_cli.training.progress import Progress
from mt_cli.training.ranks import ALONE, Ranks
from mt_cli.training.state import TrainingState
from mt_cli.training.workers import Workers


class Update(NamedTuple):
    step: int  # its number, counted from 1
    loss_sum: float  # nats, summed over the target tokens
    n_tokens: int  # target tokens, padding left out
    grad_norm: float  # before clipping
    pairs: list[int]  # of the dataset, in these batches

    @property
    def loss(self) -> float:
        """Nats for each target token."""
        return self.loss_sum / self.n_tokens


class QueuedUpdate(NamedTuple):
    """An update whose gradient a GPU may not have computed yet."""

    step: int
    losses: list[Tensor]  # nats, summed over the target tokens of each part that this process has
    n_tokens: int
    grad_norm: Tensor
    pairs: list[int]

    @property
    def is_finite(self) -> Tensor:
        """Whether loss and norm are: a scalar on the device."""
        return torch.stack([*self.losses, self.grad_norm]).isfinite().all()

    def read(self, ranks: Ranks = ALONE) -> Update:
        """The numbers. Waits for the device."""
        (loss_sum,) = ranks.added(sum(loss.item() for loss in self.losses))
        return Update(self.step, loss_sum, self.n_tokens, self.grad_norm.item(), self.pairs)


def remaining_batches(dataset: Mixture, batch_tokens: int, seed: int, progress: Progress) -> Iterator[list[int]]:
    """The pairs of each batch that follows `progress`, epoch after epoch without end. Advances `progress`."""
    while True:
        n_done = progress.batch
        for number, pairs in enumerate(epoch_batches(dataset, batch_tokens, seed, progress.epoch)):
            if number >= n_done:
                progress.batch = number + 1
                yield pairs
        progress.epoch, progress.batch = progress.epoch + 1, 0


def compute_update(
    state: TrainingState, dataset: Mixture, batches: Iterator[list[int]], workers: Workers, ranks: Ranks = ALONE
) -> QueuedUpdate:
    """Stores the gradient of the next batches, averaged over target tokens and clipped, in the weights' `grad`.

    A batch has a part for each thread of each process, so that two processes of one thread compute what one process of
    two threads does.
    """
    chosen = [next(batches) for _ in range(state.settings.accumulate)]
    state.optimizer.network.train()
    dataset = dataset.backwards() if state.phase.is_backward else dataset
    n_parts = workers.n * ranks.n
    parts = [part for batch in chosen for k in range(n_parts) if (part := batch[k::n_parts])]

    def gradients(numbered_part: tuple[int, list[int]]) -> tuple[Tensor, tuple[Tensor, ...]]:
        return _gradients(state, dataset, *numbered_part)

    losses = list[Tensor]()
    for part_loss, part_gradients in workers.map(gradients, list(enumerate(parts))[ranks.rank :: ranks.n]):
        state.optimizer.add(part_gradients)
        losses.append(part_loss)
    state.optimizer.add_up(ranks)
    pairs = [pair for batch in chosen for pair in batch]
    n_tokens = int(dataset.lengths_of(pairs)[1].sum()) + len(pairs)  # of all processes, end symbols included
    grad_norm = state.optimizer.average_and_clip(n_tokens)
    return QueuedUpdate(state.progress.step + 1, losses, n_tokens, grad_norm, pairs)


def _gradients(
    state: TrainingState, dataset: Mixture, part: int, pairs: list[int]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Summed loss and summed gradients of some pairs. Runs in a thread of its own."""
    settings, network = state.settings, state.optimizer.network
    seed_dropout(settings.seed, state.progress.step, part)
    batch = make_batch(dataset, pairs).to(state.model.device)
    r_drop = settings.r_drop if state.phase.n_passes == 2 else 0.0
    loss = summed_loss(network, batch, settings.label_smoothing, r_drop)
    return loss.detach(), torch.autograd.grad(loss, state.optimizer.network_weights)
