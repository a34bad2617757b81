"""The decoder's state: a value, made from the encoder's output and advanced by `InferenceModel`; and the same for a GPU.

Shapes as in inference.py; in a recorded state N is how many target tokens there is room for.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


@dataclass
class DecoderState:
    """A translation in progress of B sentences with W partial hypotheses each. When a beam reorders these, keys and values
    stay where they are, and a mask says which belong to which: copying would take as long as computing a step."""

    memory_mask: Tensor  # (B,1,1,S): where the source has no padding
    token_mask: Tensor | None  # (B,W,N): the tokens that belong to a partial hypothesis; None with W = 1: all
    layers: list[LayerState]
    beam_size: int  # W
    n_tokens: int = 0  # fed so far to each partial hypothesis

    def select(self, rows: Tensor) -> None:
        """Continues with `rows` (B*W) of the present rows: for each sentence that stays, W partial hypotheses of its own.
        Sentences may be dropped and reordered, but not repeated. Only those whose index changes are copied."""
        rows = rows.view(-1, self.beam_size)
        sentences = rows[:, 0] // self.beam_size  # the present index of each sentence that stays
        if self.token_mask is not None:
            self.token_mask = self.token_mask[sentences[:, None], rows % self.beam_size]
        moved = (sentences != torch.arange(len(sentences), device=rows.device)).nonzero()[:, 0]
        if len(moved) or len(sentences) < len(self.memory_mask):
            self.memory_mask = self.memory_mask[sentences]
            for layer in self.layers:
                layer.select(sentences, moved, self.n_tokens * self.beam_size)

    def extend_token_mask(self) -> Tensor | None:
        """Lets each partial hypothesis attend to the token that it is fed next; returns this step's mask (B,1,W,N)."""
        if self.token_mask is None:
            return None
        n_sentences, width, _ = self.token_mask.shape
        own = torch.eye(width, dtype=torch.bool, device=self.token_mask.device).expand(n_sentences, width, width)
        self.token_mask = torch.cat([self.token_mask, own], dim=2)
        return self.token_mask[:, None]


@dataclass
class LayerState:
    """The keys and values of one decoder layer."""

    memory_key: Tensor  # (B,S,H*K) of the encoder's output, computed once
    memory_value: Tensor
    key: Tensor  # (B,max_length*W,H*K) of the target tokens, those of one step side by side; the first N are filled
    value: Tensor

    def append(self, key: Tensor, value: Tensor, n_before: int) -> tuple[Tensor, Tensor]:
        """Stores key and value (B*W,1,H*K) of the step's tokens behind `n_before` others; returns all so far (B,N,H*K)."""
        n_sentences = self.key.size(0)
        width = key.size(0) // n_sentences
        self.key.narrow(1, n_before, width).copy_(key.view(n_sentences, width, -1))
        self.value.narrow(1, n_before, width).copy_(value.view(n_sentences, width, -1))
        return self.key.narrow(1, 0, n_before + width), self.value.narrow(1, 0, n_before + width)

    def select(self, sentences: Tensor, moved: Tensor, n_tokens: int) -> None:
        """Keeps `sentences` and drops the others. `moved`: the indices whose sentence had another index before."""
        for name, n in (("memory_key", None), ("memory_value", None), ("key", n_tokens), ("value", n_tokens)):
            tensor = getattr(self, name)
            tensor[moved, :n] = tensor[sentences[moved], :n]
            setattr(self, name, tensor[: len(sentences)])


# The same for a GPU, which is asked once: to launch a short kernel takes longer than to compute it --------------------


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


@dataclass(kw_only=True)
class RecordedState(DecoderState):
    """A state in which no shape and no address changes, so that a GPU records a step once and replays it. Sentences that are
    dropped are computed on, and no longer read."""

    token_mask: Tensor  # (B,W,N), N for all steps
    n_tokens: Tensor  # type: ignore[assignment]  # (1,), on the device
    last_ids: Tensor  # (B*W)
    kept: Tensor  # which of the B sentences are still selected, in their order
    logits: Tensor | None = None  # (B*W,V)
    recorder: Recorder | None = None  # None in tests: every step is computed
    graph: torch.cuda.CUDAGraph | None = None

    @classmethod
    def of(cls, state: DecoderState, recorder: Recorder | None) -> RecordedState:
        """A new `state`, before the first target token."""
        key, width = state.layers[0].key, state.beam_size
        n_sentences, n_tokens, _ = key.shape
        return cls(
            memory_mask=state.memory_mask,
            # What is not filled yet must be finite: it is multiplied by zero.
            layers=[
                RecordedLayer(layer.memory_key, layer.memory_value, layer.key.zero_(), layer.value.zero_())
                for layer in state.layers
            ],
            beam_size=width,
            token_mask=key.new_zeros(n_sentences, width, n_tokens, dtype=torch.bool),
            n_tokens=torch.zeros(1, dtype=torch.long, device=key.device),
            last_ids=torch.zeros(n_sentences * width, dtype=torch.long, device=key.device),
            kept=torch.arange(n_sentences, device=key.device),
            recorder=recorder,
        )

    def replay(self, step: Callable[[DecoderState, Tensor], Tensor], last_ids: Tensor) -> Tensor:
        """The logits of `step(self, last_ids)`, which is recorded at its second call."""
        width = torch.arange(self.beam_size, device=self.kept.device)
        rows = (self.kept[:, None] * self.beam_size + width).flatten()  # those of the B*W that are still selected
        self.last_ids.index_copy_(0, rows, last_ids)
        if self.logits is None or self.recorder is None:
            self.logits = step(self, self.last_ids)  # which also makes what a recording must find ready
            return self.logits[rows]
        with self.recorder.lock:
            if self.graph is None:
                self.graph, logits = self.recorder.record(lambda: step(self, self.last_ids))
                self.logits = logits
            self.graph.replay()
            return self.logits[rows]

    def select(self, rows: Tensor) -> None:
        rows = rows.view(-1, self.beam_size)
        sentences = self.kept[rows[:, 0] // self.beam_size]
        self.token_mask[sentences] = self.token_mask[sentences[:, None], rows % self.beam_size]
        self.kept = sentences

    def extend_token_mask(self) -> Tensor:
        own = torch.eye(self.beam_size, dtype=torch.bool, device=self.token_mask.device)
        self.token_mask.index_copy_(
            2,
            self.n_tokens * self.beam_size + torch.arange(self.beam_size, device=own.device),
            own.expand(len(self.token_mask), -1, -1),
        )
        return self.token_mask[:, None]


class RecordedLayer(LayerState):
    def append(self, key: Tensor, value: Tensor, n_before: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        n_sentences = self.key.size(0)
        width = key.size(0) // n_sentences
        places = torch.arange(width, device=key.device) + n_before
        self.key.index_copy_(1, places, key.view(n_sentences, width, -1))
        self.value.index_copy_(1, places, value.view(n_sentences, width, -1))
        return self.key, self.value
