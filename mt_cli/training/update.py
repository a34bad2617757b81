"""The gradient of one update: that of several batches (gradient accumulation), each shared among processes and cores.

On a CPU each thread computes the gradient of a part of the sentences: threads that share every operation, as torch's do,
wait for each other a thousand times a step. On a GPU there is one part, packed where attention has a kernel for that, and the
CPU makes the next batch meanwhile. To launch the thousand short kernels of a step takes ten times as long as to compute them
(measured on an H100); so those of packed batches, which all have one shape, are recorded once and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mt_cli.data.batching import Batch, epoch_batches, make_batch
from mt_cli.data.dataset import Mixture
from mt_cli.data.packing import PackedBatch, pack, packed_shape, pieces
from mt_cli.model.attention import MultiHeadAttention, PackedMask, Packing, attend, attend_packed, has_packed_kernel
from mt_cli.model.dropout import seed_dropout
from mt_cli.model.inference import Recorder
from mt_cli.training.objective import is_fused_right, summed_loss
from mt_cli.training.ranks import ALONE, Ranks
from mt_cli.training.schedule import StepKind, is_last_phase, step_kind
from mt_cli.training.state import TrainingState

AnyBatch = Batch | PackedBatch
MakeBatch = Callable[[], AnyBatch]
LossAndGradients = tuple[Tensor, tuple[Tensor, ...]]

_TOKENS_OF_A_PART = 1000  # with fewer, matrix products lose more than parallel work gains
_TRIED_LOGITS = 1 << 21  # a few sentences


class Portion(NamedTuple):
    """What an update is trained on; epoch, batch and is_last_phase are those of `Progress` afterwards."""

    batches: list[list[int]]  # the pairs of each, of all processes
    kind: StepKind
    epoch: int
    batch: int
    is_last_phase: bool
    n_tokens: int  # target tokens of all processes, end symbols included
    parts: list[tuple[int, MakeBatch]]  # of this process: number among those of all, and what makes it


class Update:
    """An update whose gradient a GPU may not have computed yet."""

    loss_sum: float  # nats, over the target tokens of all processes; once it is read
    grad_norm: float  # before clipping; once it is read

    def __init__(self, step: int, portion: Portion, losses: list[Tensor], grad_norm: Tensor):
        """`step`: its number, counted from 1; `losses`: nats, of each part that this process has."""
        self.step, self.n_tokens, self.batches, self.kind = step, portion.n_tokens, portion.batches, portion.kind
        self._scalars, self._copied = torch.stack([grad_norm, *losses]), None
        if self._scalars.is_cuda:  # `tolist` would wait for all that is queued by then
            stream = torch.cuda.current_stream(self._scalars.device)
            self._scalars = self._scalars.to("cpu", non_blocking=True)
            self._copied = stream.record_event()

    def read(self, ranks: Ranks = ALONE) -> Update:
        """With `loss_sum` and `grad_norm`. Waits for the device."""
        if self._copied is not None:
            self._copied.synchronize()
        self.grad_norm, *losses = self._scalars.tolist()
        self.loss_sum = ranks.sum(sum(losses))
        return self


class Updates:
    """Computes the gradients of the updates that follow the present progress, one after the other."""

    def __init__(self, state: TrainingState, dataset: Mixture, ranks: Ranks = ALONE):
        self._state, self._dataset, self._ranks = state, dataset, ranks
        device, batch_tokens = state.model.device, state.settings.batch_tokens
        self.n_threads, self._n_cores = 1, torch.get_num_threads()
        if device.type == "cpu":
            self.n_threads = max(1, min(self._n_cores, batch_tokens // ranks.n // _TOKENS_OF_A_PART))
        self._n_each = self._n_cores // self.n_threads  # cores of a thread
        self._pool = ThreadPoolExecutor(self.n_threads, initializer=torch.set_num_threads, initargs=(self._n_each,))
        is_packed = all(
            has_packed_kernel(module) and packed_kernel_works(device, module.head_dim)
            for module in state.optimizer.network.modules()
            if isinstance(module, MultiHeadAttention)
        )
        self._shape = packed_shape(dataset, batch_tokens, self.n_threads * ranks.n) if is_packed else None
        vocab_size, smoothing = state.model.projection.out_features, state.settings.label_smoothing
        some = list(range(min(16, len(dataset))))
        targets = make_batch(dataset, some).targets[: max(32, _TRIED_LOGITS // vocab_size)]
        strengths = {0.0, state.settings.r_drop}
        self.is_fused = all(is_fused_right(targets, vocab_size, smoothing, r_drop) for r_drop in strengths)
        # The definition picks rows by their targets: that waits for the GPU, which a recording may not.
        self._recorder = Recorder(device) if device.type == "cuda" and self.is_fused else None
        self._recorded: dict[tuple[Any, ...], tuple[PackedBatch, torch.cuda.CUDAGraph, LossAndGradients]] = {}
        self._ahead = ThreadPoolExecutor(1) if device.type == "cuda" else None
        self._portions = self._remaining_portions()
        self._portion_ahead: Portion | None = None

    def next(self) -> Update:
        """The next one, its gradient in the weights' `grad`. Advances the progress in the epoch."""
        portion, p = self._portion_ahead or next(self._portions), self._state.progress
        self._portion_ahead = next(self._portions) if self._ahead is not None else None
        p.epoch, p.batch, p.is_last_phase = portion.epoch, portion.batch, portion.is_last_phase
        return self.accumulate_gradient(portion)

    def accumulate_gradient(self, portion: Portion) -> Update:
        """Stores the gradient of the portion, averaged over target tokens and clipped, in the weights' `grad`."""
        state, losses = self._state, list[Tensor]()
        state.optimizer.network.train()

        def of_part(part: tuple[int, MakeBatch]) -> LossAndGradients:  # in a thread of its own
            number, make = part
            seed_dropout(state.settings.seed, state.progress.step, number)
            return self._replayed_or_computed(make(), portion.kind.n_passes)

        torch.set_num_threads(self._n_each)  # MKL has one number for all threads of the process
        try:
            for loss, gradients in (map if self.n_threads == 1 else self._pool.map)(of_part, portion.parts):
                state.optimizer.add(gradients)
                losses.append(loss.clone())
        finally:
            torch.set_num_threads(self._n_cores)
        grad_norm = state.optimizer.average_and_clip(portion.n_tokens, self._ranks)
        return Update(state.progress.step + 1, portion, losses, grad_norm)

    def _replayed_or_computed(self, batch: AnyBatch, n_passes: int) -> LossAndGradients:
        """Loss and gradients, summed over target tokens. Valid until the next call: replaying the CUDA graph overwrites them."""
        device = self._state.model.device
        if self._recorder is None or not isinstance(batch, PackedBatch):
            return self._forward_backward(batch.to(device), n_passes)
        key = n_passes, *(tensor.shape for tensor in batch.tensors)
        if key not in self._recorded:
            own = batch.to(device)
            with torch.random.fork_rng([device]):  # a step draws the same, recorded before it or long ago
                self._forward_backward(own, n_passes)  # makes what a recording must find ready
                self._recorded[key] = own, *self._recorder.record(lambda: self._forward_backward(own, n_passes))
        recorded, graph, results = self._recorded[key]
        for own_tensor, given in zip(recorded.tensors, batch.tensors, strict=True):
            own_tensor.copy_(given.pin_memory(), non_blocking=True)
        graph.replay()
        return results

    def _forward_backward(self, batch: AnyBatch, n_passes: int) -> LossAndGradients:
        settings, optimizer = self._state.settings, self._state.optimizer
        r_drop = settings.r_drop if n_passes == 2 else 0.0
        loss = summed_loss(optimizer.network, batch, settings.label_smoothing, r_drop, self.is_fused)
        return loss.detach(), torch.autograd.grad(loss, optimizer.network_weights)

    def portion(
        self, batches: list[list[int]], kind: StepKind, epoch: int = 0, batch: int = 0, is_last: bool = False
    ) -> Portion:
        """A batch has a part for each thread of each process, so two processes of one thread compute what one of two
        threads does; and several packed ones where a part does not fit into the shape."""
        data, shape = self._dataset, self._shape
        if kind.is_backward:
            data, shape = data.backwards(), shape and shape.backwards()
        n, n_ranks, makers = self.n_threads * self._ranks.n, self._ranks.n, list[tuple[int, MakeBatch]]()
        for rank, pairs in ((k % n_ranks, pairs[k::n]) for pairs in batches for k in range(n) if pairs[k::n]):
            if shape is None:
                makers.append((rank, partial(make_batch, data, pairs)))
            else:
                makers += ((rank, partial(pack, data, piece, shape)) for piece in pieces(data, pairs, shape))
        parts = [(number, make) for number, (rank, make) in enumerate(makers) if rank == self._ranks.rank]
        if self._ahead is not None:
            parts = [(number, self._ahead.submit(make).result) for number, make in parts]
        n_tokens = sum(int(data.lengths(pairs)[1].sum()) + len(pairs) for pairs in batches)
        return Portion(batches, kind, epoch, batch, is_last, n_tokens, parts)

    def _remaining_portions(self) -> Iterator[Portion]:
        """Those after the present progress, epoch after epoch without end. With the last phase a new epoch begins."""
        # `state.settings` is read anew each time: a plan may replace them.
        state, p, data = self._state, self._state.progress, self._dataset
        step, n_done, is_last, batches = p.step, p.batch, p.is_last_phase, list[list[int]]()
        for epoch in count(p.epoch):
            of_epoch = epoch_batches(data, state.settings.batch_tokens, state.settings.seed, epoch, is_last)
            for number, pairs in enumerate(of_epoch, 1):
                if number <= n_done:
                    continue
                if data.has_last_phase and is_last != is_last_phase(step, state.settings):
                    is_last = not is_last
                    break
                batches.append(pairs)
                if len(batches) == state.settings.accumulate:
                    yield self.portion(batches, step_kind(step, state.settings), epoch, number, is_last)
                    step, batches = step + 1, []
            n_done = 0

    def close(self) -> None:
        self._pool.shutdown()
        if self._ahead is not None:
            self._ahead.shutdown(cancel_futures=True)


@cache
def packed_kernel_works(device: torch.device, size: int) -> bool:
    """Whether the kernel gives what a dense mask gives: it is new in torch, and not every build of it runs on every GPU."""
    starts = torch.tensor([0, 2, 5], dtype=torch.int32, device=device)
    packing = Packing(starts, torch.tensor([0, 1, 0, 1, 2], device=device), longest=3)
    mask = PackedMask(packing, packing, is_causal=True)
    x = torch.linspace(-1, 1, 5 * size, device=device).view(1, 1, 5, size).bfloat16().requires_grad_()
    try:
        found = attend_packed(x, x, x, mask, size**0.5)
        expected, _ = attend(x, x, x, mask.dense(), size**0.5)
        results = [[output, *torch.autograd.grad(output.sum(), x)] for output in (found, expected)]
        return all(torch.allclose(one, other, atol=0.05) for one, other in zip(*results, strict=True))
    except (RuntimeError, TypeError, ImportError, AssertionError):
        return False
