"""The processes that `torchrun` starts to train one model together: each computes the gradient of its share of the sentences,
and all make the same step. The first process alone prepares, validates and writes."""

import contextlib
import os
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

_TIMEOUT = timedelta(hours=1)  # of a process that hangs: longer than the first one ever validates
_PREPARING = timedelta(days=365)  # torchrun ends who waits for a first process that has failed


class Ranks:
    """A process that trains alone is the first of one, and waits for none."""

    def __init__(self, rank: int = 0, n: int = 1):
        self.rank, self.n, self.is_first = rank, n, rank == 0

    def on_first(self, do: Callable[[], Value]) -> Value | None:
        """What `do` returns in the first process; None in the others, which wait for it, and end silently if it fails."""
        value, has_failed = None, self.is_first
        try:
            if self.is_first:
                value, has_failed = do(), False
        finally:
            has_failed = self.broadcast(has_failed)
        if has_failed:
            raise TrainingError
        return value

    def broadcast(self, value: Value) -> Value:
        """The first process's value, in all of them."""
        values = [value]
        self._together(dist.broadcast_object_list, values, 0)
        return values[0]

    def any(self, is_true: bool) -> bool:
        """Whether it is true in one of the processes."""
        return self.sum(float(is_true)) > 0

    def sum(self, number: float) -> float:
        """The sum over all processes."""
        total = torch.tensor(number, dtype=torch.float64)
        self._together(dist.all_reduce, total)
        return total.item()

    def all_reduce(self, tensors: Sequence[Tensor]) -> None:
        """Replaces each tensor by its sum over all processes. It is one message, whatever their number."""
        if self.n == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        self._together(dist.all_reduce, flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def refuse_difference(self, facts: dict[str, Any]) -> None:
        """Raises TrainingError when a fact, by its name, is not the same in all processes; each names its own."""
        first = self.broadcast(facts)
        problems = [
            f"{name} is {value} here, {first.get(name)} in process 0; give all the same"
            for name, value in facts.items()
            if value != first.get(name)
        ]
        if self.any(bool(problems)):
            raise TrainingError(*problems)

    def _together(self, operation: Callable[..., object], *arguments: object) -> None:
        """What all processes do at the same time. Raises TrainingError where one of them is gone."""
        if self.n > 1:
            with _lost_process():
                operation(*arguments)


ALONE = Ranks()
_TRAININGS = count()  # of this process, which may train several runs one after the other


@contextlib.contextmanager
def meeting() -> Iterator[Callable[[], Ranks]]:
    """What joins the processes of `torchrun`: the first calls it once the run is prepared; the others wait there."""
    if n_processes() == 1:
        yield lambda: ALONE
        return
    found, rank, n = next(dist.rendezvous("env://"))
    # When `torchrun` starts them again, the addresses of those that ended are still there.
    prefix = f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)} training {next(_TRAININGS)}"
    store = dist.PrefixStore(prefix, found)

    def join() -> Ranks:
        with _lost_process():
            if rank == 0:
                store.set("prepared", "")
            else:
                store.wait(["prepared"], _PREPARING)
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend, store=store, rank=rank, world_size=n, timeout=_TIMEOUT)
        return Ranks(rank, n)

    try:
        yield join
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


@contextlib.contextmanager
def _lost_process() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # "Connection closed by peer", in many words
        reason, again = next(iter(str(error).splitlines()), "")[:150], "start the same command again to continue"
        raise TrainingError(f"another process of this training has ended or hangs ({reason}); {again}") from None
