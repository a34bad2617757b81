"""The loss of packed batches as one compiled graph, which a GPU records at the first step and replays at all others.

A step of a small model is a thousand short kernels, and to launch them takes longer than to compute them.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

import torch
from torch import Tensor

from mt_cli.errors import is_device_failure, is_out_of_memory
from mt_cli.training.objective import summed_loss

log = logging.getLogger(__name__)

LossFunction = Callable[..., Tensor]


class Compiled:
    """A function compiled for fixed shapes; where it cannot be compiled, the function as it is."""

    def __init__(self, function: LossFunction, backend: str = "inductor", mode: str | None = "reduce-overhead"):
        self._plain = function
        self._compiled: LossFunction | None = torch.compile(
            function, dynamic=False, fullgraph=True, backend=backend, mode=mode
        )

    @property
    def is_compiled(self) -> bool:
        return self._compiled is not None

    def __call__(self, *args: object) -> Tensor:
        if self._compiled is None:
            return self._plain(*args)
        try:
            return self._compiled(*args)
        except Exception as error:  # a compiler fails in many ways, and none of them need end a training
            if is_out_of_memory(error) or is_device_failure(error):
                raise
            reason = next(iter(str(error).strip().splitlines()), "")[:150]
            log.info(f"training without compiled kernels, which takes longer ({type(error).__name__}: {reason})")
            self._compiled = None
            return self._plain(*args)


@functools.cache
def compiled_loss() -> Compiled:
    """`summed_loss`, compiled at its first call for each kind of step: forwards, backwards, with R-Drop."""
    return Compiled(summed_loss)


def forget_compiled() -> None:
    """Before another training: only a few shapes are compiled in a process, and each training has shapes of its own."""
    if compiled_loss.cache_info().currsize:
        compiled_loss.cache_clear()
        torch.compiler.reset()
