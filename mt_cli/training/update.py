"""The gradient of one update, whose parts are shared among processes and the cores of a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mt_cli.data.packing import PackedBatch
from mt_cli.model.dropout import seed_dropout
from mt_cli.training.compiled import compiled_loss
from mt_cli.training.feed import AnyBatch, Feed
from mt_cli.training.objective import summed_loss
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


def compute_update(state: TrainingState, feed: Feed, workers: Workers, ranks: Ranks = ALONE) -> QueuedUpdate:
    """Stores the gradient of the next batches, averaged over target tokens and clipped, in the weights' `grad`. Advances
    the progress in the epoch.

    A batch has a part for each thread of each process, so that two processes of one thread compute what one process of
    two threads does.
    """
    portion, p = feed.take(), state.progress
    p.epoch, p.batch = portion.chosen.epoch, portion.chosen.batch
    state.optimizer.network.train()

    def gradients(part: tuple[int, Callable[[], AnyBatch]]) -> tuple[Tensor, tuple[Tensor, ...]]:
        return _gradients(state, *part)

    losses = list[Tensor]()
    for part_loss, part_gradients in workers.map(gradients, portion.parts):
        state.optimizer.add(part_gradients)
        losses.append(part_loss)
    state.optimizer.add_up(ranks)
    grad_norm = state.optimizer.average_and_clip(portion.n_tokens)
    return QueuedUpdate(p.step + 1, losses, portion.n_tokens, grad_norm, portion.chosen.pairs)


def _gradients(
    state: TrainingState, number: int, make_batch: Callable[[], AnyBatch]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Summed loss and summed gradients of a part of the update. Runs in a thread of its own."""
    settings, network = state.settings, state.optimizer.network
    seed_dropout(settings.seed, state.progress.step, number)
    r_drop = settings.r_drop if state.phase.n_passes == 2 else 0.0
    batch = make_batch()
    loss_of = compiled_loss() if isinstance(batch, PackedBatch) else summed_loss
    loss = loss_of(network, batch, settings.label_smoothing, r_drop)
    # A graph that is replayed writes the next loss over this one.
    return loss.detach().clone(), torch.autograd.grad(loss, state.optimizer.network_weights)
