"""The gradient of one update: its batches, in the order of the epoch, shared among processes and the cores of a CPU.

On a CPU each thread computes the gradient of a part of the sentences. When threads share every operation, as torch does
by default, they wait for each other a thousand times a step, and an operation that is not worth dividing, such as
drawing random numbers, leaves all but one idle. With the sentences divided they synchronise once: on two cores a tenth
faster for the benchmark's model. The sum of the parts' gradients is that of the batch.

On a GPU there is one part, packed where attention has a kernel for that, and the CPU makes the next batch meanwhile.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from mt_cli.data.batching import epoch_batches, make_batch
from mt_cli.data.dataset import Mixture
from mt_cli.data.packing import PackedShape, pack, packed_shape, pieces
from mt_cli.model.attention import MultiHeadAttention, attend, attend_packed, has_packed_kernel
from mt_cli.model.dropout import seed_dropout
from mt_cli.model.packed_mask import PackedMask, Packing
from mt_cli.model.transformer import Transformer
from mt_cli.training.gradients import AnyBatch, Gradients, LossAndGradients, is_worth_compiling
from mt_cli.training.ranks import ALONE, Ranks
from mt_cli.training.schedule import all_phases, phase
from mt_cli.training.state import TrainingState

log = logging.getLogger(__name__)

Part = TypeVar("Part")
Result = TypeVar("Result")


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


class QueuedUpdate:
    """An update whose gradient a GPU may not have computed yet."""

    def __init__(self, step: int, n_tokens: int, pairs: list[int], losses: list[Tensor], grad_norm: Tensor):
        """`losses`: of each part that this process has."""
        self.step, self.n_tokens, self._pairs = step, n_tokens, pairs
        numbers = torch.stack([grad_norm, *losses])
        self.is_finite = numbers.isfinite().all()  # a scalar on the device
        self._copied: torch.cuda.Event | None = None
        if numbers.is_cuda:  # `item` would wait for all that is queued by then
            self._numbers = torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(numbers, non_blocking=True)
            self._copied = torch.cuda.current_stream(numbers.device).record_event()
        else:
            self._numbers = numbers

    def read(self, ranks: Ranks = ALONE) -> Update:
        """The numbers. Waits for the device."""
        if self._copied is not None:
            self._copied.synchronize()
        grad_norm, *losses = self._numbers.tolist()
        (loss_sum,) = ranks.added(sum(losses))
        return Update(self.step, loss_sum, self.n_tokens, grad_norm, self._pairs)


class Portion(NamedTuple):
    """What this process computes of an update, and what `Progress` is once it is trained on."""

    batches: list[list[int]]  # the pairs of each, of all processes
    epoch: int
    batch: int
    is_backward: bool
    n_tokens: int  # target tokens of all processes, end symbols included
    parts: list[
        tuple[int, Callable[[], AnyBatch]]
    ]  # their numbers among those of all processes, and what makes a batch


class Updates:
    """Computes the gradients of the updates that follow the present progress, one after the other."""

    def __init__(self, state: TrainingState, dataset: Mixture, ranks: Ranks = ALONE):
        self._state, self._dataset, self._ranks = state, dataset, ranks
        self._device, settings = state.model.device, state.settings
        self.workers = Workers(self._device, settings.batch_tokens // ranks.n)
        self._n_parts = self.workers.n * ranks.n  # of a batch
        self.shape = shape_of_parts(state.optimizer.network, dataset, settings.batch_tokens, self._n_parts)
        self.gradients = Gradients(state.optimizer, settings, dataset)
        self._batches = remaining_batches(state, dataset)
        self._ahead = ThreadPoolExecutor(1) if self._device.type == "cuda" else None
        self._next: Portion | None = None

    def begin(self) -> None:
        """Says where the objective is one of its own, and compiles it where that is worth its time."""
        if not self.gradients.is_fused:
            log.info("training with loss_of_logits (objective.py): fused_loss.py, the faster one, differs from it")
        if self.shape is None or not is_worth_compiling(self._state.config.training):
            return
        batches = []
        for is_backward, n_passes in all_phases(self._state.settings):
            data, shape = turned(self._dataset, self.shape, is_backward)
            assert shape is not None
            pairs = next(pieces(data, list(range(min(len(data), shape.n_pairs))), shape))
            batches.append((pack(data, pairs, shape).to(self._device), n_passes))
        self.gradients.compile(batches)

    def compute(self) -> QueuedUpdate:
        """Stores the gradient of the next batches, averaged over target tokens and clipped, in the weights' `grad`. Advances
        the progress in the epoch.

        A batch has a part for each thread of each process, so that two processes of one thread compute what one process
        of two threads does.
        """
        state, portion = self._state, self.take()
        p, optimizer = state.progress, state.optimizer
        p.epoch, p.batch = portion.epoch, portion.batch
        optimizer.network.train()
        losses = list[Tensor]()
        for loss, gradients in self.workers.map(self._compute_part, portion.parts):
            optimizer.add(gradients)
            losses.append(loss)
        optimizer.add_up(self._ranks)
        grad_norm = optimizer.average_and_clip(portion.n_tokens)
        return QueuedUpdate(
            p.step + 1, portion.n_tokens, [i for batch in portion.batches for i in batch], losses, grad_norm
        )

    def _compute_part(self, part: tuple[int, Callable[[], AnyBatch]]) -> LossAndGradients:
        """Runs in a thread of its own."""
        (number, make), state = part, self._state
        seed_dropout(state.settings.seed, state.progress.step, number)
        return self.gradients(make().to(self._device), state.phase.n_passes)

    def take(self) -> Portion:
        """The portion of the next update."""
        state, is_backward = self._state, self._state.phase.is_backward
        portion = self._next or self._portion(*self._take_batches(), is_backward)
        if portion.is_backward != is_backward:  # planned anew since it was made
            portion = self._portion(portion.batches, portion.epoch, portion.batch, is_backward)
        if self._ahead is not None:
            following = phase(state.progress.step + 1, state.settings)
            self._next = self._portion(*self._take_batches(), following.is_backward)
        return portion

    def _take_batches(self) -> tuple[list[list[int]], int, int]:
        """Those of an update, and epoch and number of the last of them."""
        taken = [next(self._batches) for _ in range(self._state.settings.accumulate)]
        return [pairs for pairs, _, _ in taken], *taken[-1][1:]

    def _portion(self, batches: list[list[int]], epoch: int, batch: int, is_backward: bool) -> Portion:
        data, shape = turned(self._dataset, self.shape, is_backward)
        n, n_ranks = self._n_parts, self._ranks.n
        parts = [(k % n_ranks, pairs[k::n]) for pairs in batches for k in range(n) if pairs[k::n]]
        makers = [(rank, make) for rank, part in parts for make in batch_makers(data, part, shape)]
        own = [(number, make) for number, (rank, make) in enumerate(makers) if rank == self._ranks.rank]
        if self._ahead is not None:
            own = [(number, self._ahead.submit(make).result) for number, make in own]
        n_tokens = sum(int(data.lengths(pairs)[1].sum()) + len(pairs) for pairs in batches)
        return Portion(batches, epoch, batch, is_backward, n_tokens, own)

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.shutdown(cancel_futures=True)


def turned(dataset: Mixture, shape: PackedShape | None, is_backward: bool) -> tuple[Mixture, PackedShape | None]:
    """In the direction of a step."""
    return (dataset.backwards(), shape and shape.backwards()) if is_backward else (dataset, shape)


def batch_makers(dataset: Mixture, pairs: list[int], shape: PackedShape | None) -> list[Callable[[], AnyBatch]]:
    """What makes a padded batch of the pairs, or packed ones: several where they do not fit into the shape."""
    if shape is None:
        return [partial(make_batch, dataset, pairs)]
    return [partial(pack, dataset, piece, shape) for piece in pieces(dataset, pairs, shape)]


def remaining_batches(state: TrainingState, dataset: Mixture) -> Iterator[tuple[list[int], int, int]]:
    """The pairs of each batch after the present progress, epoch after epoch without end; each with the epoch and the
    number of its batches up to this one."""
    epoch, n_done = state.progress.epoch, state.progress.batch
    while True:
        batches = epoch_batches(dataset, state.settings.batch_tokens, state.settings.seed, epoch)
        for number, pairs in enumerate(batches, 1):
            if number > n_done:
                yield pairs, epoch, number
        epoch, n_done = epoch + 1, 0


class Workers:
    """The threads that share an update."""

    def __init__(self, device: torch.device, batch_tokens: int):
        """`batch_tokens`: of the part of a batch that this process has."""
        self._n_cores = torch.get_num_threads()
        is_cpu = device.type == "cpu"
        self.n = max(1, min(self._n_cores, batch_tokens // _TOKENS_OF_A_PART)) if is_cpu else 1
        self._cores_each = self._n_cores // self.n
        self._pool = ThreadPoolExecutor(self.n, initializer=torch.set_num_threads, initargs=(self._cores_each,))

    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Results in the order of `parts`."""
        if self.n == 1:
            yield from map(function, parts)
            return
        torch.set_num_threads(self._cores_each)  # MKL has one number for all threads of the process
        try:
            yield from self._pool.map(function, parts)
        finally:
            torch.set_num_threads(self._n_cores)


_TOKENS_OF_A_PART = 1000  # with fewer, matrix products lose more than parallel work gains


def shape_of_parts(network: Transformer, dataset: Mixture, batch_tokens: int, n_parts: int = 1) -> PackedShape | None:
    """The shape that parts of batches are packed to; None where they are padded."""
    attentions = [module for module in network.modules() if isinstance(module, MultiHeadAttention)]
    is_packed = all(has_packed_kernel(one) and packed_kernel_works(network.device, one.head_dim) for one in attentions)
    return packed_shape(dataset, batch_tokens, n_parts) if is_packed else None


@functools.cache
def packed_kernel_works(device: torch.device, size: int) -> bool:
    """Whether the kernel gives what a dense mask gives, for heads of `size` dimensions: it is new in torch, and not every
    build of it runs on every GPU."""
    starts = torch.tensor([0, 2, 5], dtype=torch.int32, device=device)
    packing = Packing(starts, torch.tensor([0, 1, 0, 1, 2], device=device), longest=3)
    mask = PackedMask(packing, packing, is_causal=True)
    x = torch.linspace(-1, 1, 5 * size, device=device).view(1, 1, 5, size).bfloat16().requires_grad_()
    try:
        found = attend_packed(x, x, x, mask, size**0.5)
        expected, _ = attend(x, x, x, mask.dense(), size**0.5)
        results = [[output, *torch.autograd.grad(output.sum(), x)] for output in (found, expected)]
        return all(torch.allclose(one, other, atol=0.05) for one, other in zip(*results, strict=True))
    except (RuntimeError, NotImplementedError, TypeError, ImportError, AssertionError):
        return False
