"""Records what a GPU is asked to do, so that it is asked once: to launch a short kernel takes longer than to compute it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


class Recorder:
    """Records functions of fixed shapes and addresses, one after another, in one stream and one pool of memory.

    What a graph leaves in the pool are its results, which are copied before another graph is replayed: hence the lock.
    """

    def __init__(self, device: torch.device):
        self.lock = threading.Lock()
        self._stream = torch.cuda.Stream(device)
        self._newest: torch.cuda.CUDAGraph | None = None  # which keeps the pool

    def record(self, function: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
        """The graph of `function`, which was called before, and its results: they get values when it is replayed."""
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._stream.device)
        pool = self._newest.pool() if self._newest is not None else None
        self._stream.wait_stream(stream)
        with torch.cuda.stream(self._stream):  # not torch.cuda.graph, which collects all of Python's garbage first
            graph.capture_begin(pool, capture_error_mode="thread_local")
            try:
                results = function()
            except BaseException:
                with contextlib.suppress(RuntimeError):  # that the recording is broken, which the first error explains
                    graph.capture_end()
                raise
            graph.capture_end()
        stream.wait_stream(self._stream)
        self._newest = graph
        return graph, results
