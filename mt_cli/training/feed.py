"""What each update trains on: the batches of an epoch in their order, in parts for the threads of all processes.

On a CPU, the thread that computes a part makes its batch. While a GPU computes, the CPU is idle: it makes the next
update's batches then, and copies them to the GPU. There batches are packed, where attention has a kernel for that: a part
that does not fit into the fixed shape becomes several.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import torch

from mt_cli.data.batching import Batch, epoch_batches, make_batch
from mt_cli.data.mixture import Mixture
from mt_cli.data.packing import PackedBatch, PackedShape, pack, packed_shape, pieces
from mt_cli.model.attention import MultiHeadAttention, attend, attend_packed, has_packed_kernel
from mt_cli.model.packed_mask import PackedMask, Packing
from mt_cli.model.transformer import Transformer
from mt_cli.training.phases import phase
from mt_cli.training.ranks import ALONE, Ranks
from mt_cli.training.state import TrainingState

AnyBatch = Batch | PackedBatch


class Chosen(NamedTuple):
    """The pairs of an update, of all processes, and what `Progress` is once they are trained on."""

    batches: list[list[int]]
    epoch: int
    batch: int

    @property
    def pairs(self) -> list[int]:
        return [pair for batch in self.batches for pair in batch]


class Portion(NamedTuple):
    """What this process computes of an update."""

    chosen: Chosen
    is_backward: bool
    n_tokens: int  # target tokens of all processes, end symbols included
    parts: list[
        tuple[int, Callable[[], AnyBatch]]
    ]  # their numbers among those of all processes, and what makes a batch


class Feed:
    """The portions of all updates that follow the present progress, one after the other."""

    def __init__(self, state: TrainingState, dataset: Mixture, n_threads: int, ranks: Ranks = ALONE):
        self._state, self._dataset, self._ranks = state, dataset, ranks
        self._device = state.model.device
        self._n_parts = n_threads * ranks.n  # of a batch
        settings, p = state.settings, state.progress
        batches = remaining_batches(dataset, settings.batch_tokens, settings.seed, p.epoch, p.batch)
        self._chosen = _grouped(batches, settings.accumulate)
        self._shape = shape_of_parts(state.optimizer.network, dataset, settings.batch_tokens, self._n_parts)
        self._next: Portion | None = None
        is_gpu = self._device.type == "cuda"
        self._stream = torch.cuda.Stream(self._device) if is_gpu else None
        self._thread = ThreadPoolExecutor(1) if is_gpu else None

    def take(self) -> Portion:
        """The portion of the next update."""
        state = self._state
        portion = self._next or self._portion(next(self._chosen), state.phase.is_backward)
        if portion.is_backward != state.phase.is_backward:  # planned anew since it was made
            portion = self._portion(portion.chosen, state.phase.is_backward)
        self._next = None
        if self._thread is not None:
            following = phase(state.progress.step + 1, state.settings)
            self._next = self._portion(next(self._chosen), following.is_backward)
        return portion

    def _portion(self, chosen: Chosen, is_backward: bool) -> Portion:
        dataset, shape, n = self._dataset, self._shape, self._n_parts
        if is_backward:
            dataset, shape = dataset.backwards(), shape and shape.backwards()
        parts = [(k % self._ranks.n, batch[k::n]) for batch in chosen.batches for k in range(n) if batch[k::n]]
        makers = [(rank, make) for rank, part in parts for make in batch_makers(dataset, part, shape)]
        own = [(number, make) for number, (rank, make) in enumerate(makers) if rank == self._ranks.rank]
        n_tokens = int(dataset.lengths_of(chosen.pairs)[1].sum()) + len(chosen.pairs)
        return Portion(chosen, is_backward, n_tokens, [(number, self._on_device(make)) for number, make in own])

    def _on_device(self, make: Callable[[], AnyBatch]) -> Callable[[], AnyBatch]:
        if self._thread is None:
            return lambda: make().to(self._device)

        def copied() -> tuple[AnyBatch, torch.cuda.Event | None]:
            with torch.cuda.stream(self._stream) if self._stream is not None else contextlib.nullcontext():
                return make().to(self._device), self._stream.record_event() if self._stream is not None else None

        future = self._thread.submit(copied)

        def received() -> AnyBatch:
            batch, is_copied = future.result()
            if is_copied is not None:
                stream = torch.cuda.current_stream(self._device)
                stream.wait_event(is_copied)
                for tensor in batch.tensors:
                    tensor.record_stream(stream)  # whose memory would otherwise be that of the next copy too soon
            return batch

        return received

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)


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


def batch_makers(dataset: Mixture, part: list[int], shape: PackedShape | None) -> list[Callable[[], AnyBatch]]:
    """What makes the batches of a part: a padded one, or packed ones."""
    if shape is None:
        return [partial(make_batch, dataset, part)]
    return [partial(pack, dataset, piece, shape) for piece in pieces(dataset, part, shape)]


def remaining_batches(
    dataset: Mixture, batch_tokens: int, seed: int, epoch: int, batch: int
) -> Iterator[tuple[list[int], int, int]]:
    """The pairs of each batch after the first `batch` of `epoch`, epoch after epoch without end; each with the epoch and
    the number of its batches up to this one."""
    while True:
        for number, pairs in enumerate(epoch_batches(dataset, batch_tokens, seed, epoch)):
            if number >= batch:
                yield pairs, epoch, number + 1
        epoch, batch = epoch + 1, 0


def _grouped(batches: Iterator[tuple[list[int], int, int]], n: int) -> Iterator[Chosen]:
    """`n` batches at a time."""
    while True:
        group = [next(batches) for _ in range(n)]
        yield Chosen([pairs for pairs, _, _ in group], *group[-1][1:])
