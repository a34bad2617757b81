"""The cores of a CPU share an update: each thread computes the gradient of a part of the sentences.

When threads share every operation, as torch does by default, they wait for each other a thousand times a step, and an
operation that is not worth dividing, such as drawing random numbers, leaves all but one idle. With the sentences divided
they synchronise once, and everything runs in parallel: on two cores a tenth faster for the benchmark's model. The sum of
the parts' gradients is that of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")

_TOKENS_OF_A_PART = 1000  # with fewer, matrix products lose more than parallel work gains


class Workers:
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
