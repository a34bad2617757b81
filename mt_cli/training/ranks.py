"""The processes that train one model together: `torchrun` starts them, `torch.distributed` carries what they share.

Each process holds the whole model and runs the same loop. Of every update it computes the gradient of its share of the
sentences; the gradients are added up, and all processes make the same step. The first process alone reads the corpus at
the first start, validates and writes. This file knows nothing of translation.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from mt_cli.errors import TrainingError
from mt_cli.processes import n_processes

Value = TypeVar("Value")

_BEAT_SECONDS = 3.0
_SILENT_SECONDS = 40.0  # after which a process is taken to hang: none is busy so long without running Python
_END_SECONDS = 10.0  # for a beat to end: Python cannot end in peace while one waits inside the store's code
_NO_TIMEOUT = timedelta(days=3650)  # preparing takes as long as it does; who hangs is found by its heartbeat


class Ranks:
    """The processes of a training; a process that trains alone is the first of one, and waits for none."""

    def __init__(self, rank: int = 0, n: int = 1, heartbeats: _Heartbeats | None = None):
        self.rank, self.n, self._heartbeats = rank, n, heartbeats

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def first(self, do: Callable[[], Value]) -> Value | None:
        """What `do` returns in the first process; None in the others, which wait for it. When it fails there, they end,
        too, with a TrainingError that says nothing."""
        value, has_failed = None, self.is_first
        try:
            if self.is_first:
                value, has_failed = do(), False
        finally:
            has_failed = self.shared(has_failed)
        if has_failed:
            raise TrainingError
        return value

    def shared(self, value: Value) -> Value:
        """The first process's value, in all of them."""
        if self.n == 1:
            return value
        values = [value]
        with self._named():
            dist.broadcast_object_list(values, src=0)
        return values[0]

    def any(self, is_true: bool) -> bool:
        """Whether it is true in one of the processes."""
        return (self.n > 1 and self.added(float(is_true))[0] > 0) or is_true

    def added(self, *numbers: float) -> list[float]:
        """The sums of these numbers over all processes."""
        if self.n == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.float64)
        with self._named():
            dist.all_reduce(sums)
        return sums.tolist()

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replaces each tensor by its sum over all processes. It is one message, whatever their number."""
        if self.n == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        with self._named():
            dist.all_reduce(flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def refuse_difference(self, *facts: dict[str, dict[str, Any]]) -> None:
        """Raises TrainingError when a fact, by section and name, is not the same in all processes, and names both."""
        if self.n == 1:
            return
        own = {f"{section}.{name}": value for one in facts for section, of in one.items() for name, value in of.items()}
        of_all: list[dict[str, Any]] = [{} for _ in range(self.n)]
        with self._named():
            dist.all_gather_object(of_all, own)
        problems = [
            f"process {rank} has {name} {value}, process 0 has {of_all[0].get(name)}; give all the same"
            for rank, of_process in enumerate(of_all)
            for name, value in of_process.items()
            if value != of_all[0].get(name)
        ]
        if problems:
            raise TrainingError(*(problems if self.is_first else ()))

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Names the process whose end made a message fail."""
        try:
            yield
        except RuntimeError as error:  # "Connection closed by peer", in many words
            assert self._heartbeats is not None
            rank, reason = self._heartbeats.wait_for_silent(), str(error).splitlines()[:1]
            raise TrainingError(
                _told(rank) if rank is not None or not reason else f"{_told(rank)} ({reason[0][:150]})"
            ) from None


ALONE = Ranks()
_TRAININGS = count()  # of this process, which may train several runs one after the other


@contextlib.contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """The processes that `torchrun` started, this one among them; or this one alone."""
    if n_processes() == 1:
        yield ALONE
        return
    store, rank, n = next(dist.rendezvous("env://"))
    # When `torchrun` starts them again, the addresses of those that ended are still there.
    prefix = f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)} training {next(_TRAININGS)}"
    ours, of_heartbeats = (dist.PrefixStore(prefix, one) for one in (store, store.clone()))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=ours, rank=rank, world_size=n, timeout=_NO_TIMEOUT)
    heartbeats = _Heartbeats(of_heartbeats, rank, n)
    try:
        yield Ranks(rank, n, heartbeats)
    finally:
        heartbeats.stop()
        dist.destroy_process_group()


class _Heartbeats:
    """Says every few seconds that this process lives, and ends it when another one no longer does."""

    def __init__(self, store: Any, rank: int, n: int):
        self._store, self._rank = store, rank
        self._heard = {other: ("", time.monotonic()) for other in range(n) if other != rank}  # the last beat, and when
        self._is_stopped = threading.Event()
        # Two threads, as the store does not answer when it lies in the process that hangs.
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._beat, self._watch)]
        for thread in self._threads:
            thread.start()

    def _beat(self) -> None:
        with contextlib.suppress(RuntimeError):  # the store has gone, with the machine of the first process
            for beat in count():
                self._store.set(f"alive/{self._rank}", str(beat))
                for other, (last, _) in self._heard.items():
                    key = f"alive/{other}"
                    if self._store.check([key]) and (now := self._store.get(key).decode()) != last:
                        self._heard[other] = now, time.monotonic()
                if self._is_stopped.wait(_BEAT_SECONDS):
                    return

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._is_stopped.wait(_BEAT_SECONDS):
            before, passed = time.monotonic(), time.monotonic() - before
            if passed > _SILENT_SECONDS / 2:  # this process stood still itself, and heard nobody
                self._heard = {other: (last, before) for other, (last, _) in self._heard.items()}
            if (rank := self._silent(_SILENT_SECONDS)) is not None:
                with contextlib.suppress(OSError):
                    os.write(2, f"error: process {self._rank}: {_told(rank)}\n".encode())
                os._exit(1)  # the main thread waits for a message that does not come

    def _silent(self, seconds: float) -> int | None:
        """The process that was not heard for so long, the first such."""
        now = time.monotonic()
        return next((rank for rank, (_, when) in self._heard.items() if now - when > seconds), None)

    def wait_for_silent(self) -> int | None:
        """The process whose beats have stopped, as soon as that can be told."""
        for _ in range(5):
            if (rank := self._silent(2.5 * _BEAT_SECONDS)) is not None:
                return rank
            time.sleep(_BEAT_SECONDS)
        return None

    def stop(self) -> None:
        self._is_stopped.set()
        for thread in self._threads:
            thread.join(_END_SECONDS)


def _told(rank: int | None) -> str:
    who = "another process" if rank is None else f"process {rank}"
    return (
        f"{who} of this training has ended or hangs; start the same command again to continue from the last checkpoint"
    )
