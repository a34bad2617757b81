"""The trained network in the form that a search uses: a state, and one more token for every partial hypothesis at a time.
`Transformer` defines what is computed; here copies of its weights compute it in fewer and faster steps.

Shapes: B sentences, W partial hypotheses of each (the beam width), S source length, D d_model, H heads, K head_dim,
V target vocabulary, N = W * steps: the target tokens that all partial hypotheses of a sentence were fed so far.
Activations are matrices with a row for each position: (B*W,D), in the encoder (B*S,D). Masks: True means "may be attended".
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.model.attention import MultiHeadAttention, attend
from mt_cli.model.layers import ACTIVATIONS, AddNorm, DecoderLayer, EncoderLayer
from mt_cli.model.transformer import Transformer

T = TypeVar("T")


class InferenceModel:
    """A trained `Transformer` for a search. Threads may share it: all that changes is in the state."""

    def __init__(self, model: Transformer):
        self._src_embeddings, self._tgt_embeddings = model.src_embeddings, model.tgt_embeddings
        encoder: Any = model.encoder_layers  # torch types what is in a list as modules
        decoder: Any = model.decoder_layers
        self._encoder_layers = [(_SelfAttention(one), _FeedForward(one)) for one in encoder]
        self._decoder_layers = [(_SelfAttention(one), _CrossAttention(one), _FeedForward(one)) for one in decoder]
        self._encoder_norm, self._decoder_norm = model.encoder_norm, model.decoder_norm
        self._project = Linear(model.scaled_projection(), model.projection.bias)
        self.is_recorded = model.device.type == "cuda"
        self._recorder = Recorder(model.device) if self.is_recorded else None

    def start(self, src_ids: Tensor, src_mask: Tensor, max_length: int, beam_size: int = 1) -> DecoderState:
        """The state before the first target token of src_ids (B,S), src_mask (B,1,1,S), with room for `max_length`."""
        n_sentences = src_ids.size(0)
        x = self._src_embeddings(src_ids).flatten(0, 1)  # (B*S,D)
        for self_attention, feed_forward in self._encoder_layers:
            x = feed_forward(self_attention.encode(x, src_mask))
        memory, layers = self._encoder_norm(x), list[LayerState]()  # (B*S,D)
        for self_attention, cross_attention, _ in self._decoder_layers:
            _, *sizes = self_attention.sizes
            key, value = (memory.new_empty(n_sentences, max_length * beam_size, size) for size in sizes)
            of_memory = cross_attention.keys_and_values(memory, n_sentences)
            layers.append((RecordedLayer if self.is_recorded else LayerState)(*of_memory, key, value))
        if self.is_recorded:
            token_mask = src_mask.new_zeros(n_sentences, beam_size, max_length * beam_size)
            return RecordedState(src_mask, token_mask, layers, beam_size, recorder=self._recorder)
        no_token = src_mask.new_empty(n_sentences, beam_size, 0) if beam_size > 1 else None
        return DecoderState(src_mask, no_token, layers, beam_size)

    def advance(self, state: DecoderState, last_ids: Tensor) -> Tensor:
        """Feeds the last token of each partial hypothesis, last_ids (B*W); returns the logits (B*W,V) of the next."""
        return state.replay(self._step, last_ids) if isinstance(state, RecordedState) else self._step(state, last_ids)

    def _step(self, state: DecoderState, last_ids: Tensor) -> Tensor:
        token_mask = state.extend_token_mask()
        x = self._tgt_embeddings.at(last_ids, position=state.n_tokens)  # (B*W,D)
        for (attention, cross_attention, feed_forward), layer in zip(self._decoder_layers, state.layers, strict=True):
            x = attention.advance(x, layer, state, token_mask)
            x = feed_forward(cross_attention.advance(x, layer, state))
        state.n_tokens += 1
        return self._project(self._decoder_norm(x))


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
    """Records functions of fixed shapes and addresses, one after another, in one stream and one pool of memory. There a graph
    leaves its results, which are copied before another graph is replayed: hence the lock."""

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


@dataclass
class RecordedState(DecoderState):
    """In which no shape and no address changes, so that a GPU records a step and replays it, also for dropped sentences."""

    token_mask: Tensor  # (B,W,N), N for all steps
    n_tokens: Tensor = field(init=False)  # type: ignore[assignment]  # (1,), on the device
    recorder: Recorder | None = None  # None in tests: every step is computed
    logits: Tensor | None = None  # (B*W,V)
    graph: torch.cuda.CUDAGraph | None = None

    def __post_init__(self) -> None:
        n_sentences, device = len(self.memory_mask), self.memory_mask.device
        self.n_tokens = torch.zeros(1, dtype=torch.long, device=device)
        self.last_ids = torch.zeros(n_sentences * self.beam_size, dtype=torch.long, device=device)  # (B*W)
        self.kept = torch.arange(n_sentences, device=device)  # which sentences are still selected, in their order
        for layer in self.layers:  # what is not filled yet must be finite: it is multiplied by zero
            layer.key.zero_()
            layer.value.zero_()

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
        places = self.n_tokens * self.beam_size + torch.arange(self.beam_size, device=own.device)
        self.token_mask.index_copy_(2, places, own.expand(len(self.token_mask), -1, -1))
        return self.token_mask[:, None]


class RecordedLayer(LayerState):
    def append(self, key: Tensor, value: Tensor, n_before: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        n_sentences = self.key.size(0)
        width = key.size(0) // n_sentences
        places = torch.arange(width, device=key.device) + n_before
        self.key.index_copy_(1, places, key.view(n_sentences, width, -1))
        self.value.index_copy_(1, places, value.view(n_sentences, width, -1))
        return self.key, self.value


class _Branch:
    """A residual branch, without dropout: norm(x + f(x)), or x + f(norm(x)) with pre-norm."""

    def __init__(self, add_norm: AddNorm):
        norms: list[Callable[[Tensor], Tensor]] = [add_norm.norm.forward, lambda x: x]
        self.before, self.after = norms if add_norm.is_pre else norms[::-1]


class _FeedForward(_Branch):
    def __init__(self, layer: EncoderLayer | DecoderLayer):
        super().__init__(layer.feed_forward_norm)
        self.w_1, self.w_2 = joined(layer.feed_forward.w_1), joined(layer.feed_forward.w_2)
        self.activation = layer.feed_forward.activation

    def __call__(self, x: Tensor) -> Tensor:
        return self.after(self.w_2(self.w_1(self.before(x), self.activation), residual=x))


class _Attention(_Branch):
    """What self-attention and cross-attention have in common."""

    def __init__(self, attention: MultiHeadAttention, add_norm: AddNorm):
        super().__init__(add_norm)
        self.temperature, self.apply_positions = attention.temperature, attention.apply_positions
        self.positions = attention.positions
        self.split_heads, self.concat_heads = attention.split_heads, attention.concat_heads
        self.w_o = joined(attention.w_o)

    def finish(
        self,
        x: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        at: int | Tensor | None,
        width: int = 1,
    ) -> Tensor:
        """The residual x (B*T,D) plus what its query (B*T,1,H*K) or (B,T,H*K) finds in key and value (B,N,H*K), with
        mask (B,1,1 or T,N). `at`: the position of all queries, or None for 0, 1, ...; the keys have each `width` times."""
        query = self.split_heads(query.view(key.size(0), -1, query.size(-1)))  # (B,H,T,K)
        key, value = self.split_heads(key), self.split_heads(value)  # (B,H,N,K)
        bias = None
        if self.positions is not None and self.positions.has_bias:
            queries, keys = (torch.arange(n, device=x.device) for n in (query.size(2), key.size(2)))
            bias = self.positions.bias(queries if at is None else torch.zeros_like(queries) + at, keys // width)
        output, _ = attend(query, key, value, mask, self.temperature, is_inference=True, bias=bias)
        return self.after(self.w_o(self.concat_heads(output).flatten(0, 1), residual=x))


class _SelfAttention(_Attention):
    def __init__(self, layer: EncoderLayer | DecoderLayer):
        own = layer.self_attention
        super().__init__(own, layer.self_attention_norm)
        self.w_qkv = joined(own.w_q, own.w_k, own.w_v)
        self.sizes = [own.w_q.out_features, own.w_k.out_features, own.w_v.out_features]

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B*S,D), mask (B,1,1,S) -> (B*S,D): every position attends to all of its sentence."""
        query, key, value = self.w_qkv(self.before(x)).view(len(mask), -1, sum(self.sizes)).split(self.sizes, dim=2)
        return self.finish(x, self.apply_positions(query), self.apply_positions(key), value, mask, None)

    def advance(self, x: Tensor, layer: LayerState, state: DecoderState, mask: Tensor | None) -> Tensor:
        """x (B*W,D) -> (B*W,D): each token attends to itself and to those before it, whose keys are in `layer`."""
        query, key, value = self.w_qkv(self.before(x)).view(len(x), 1, -1).split(self.sizes, dim=2)
        query, key = self.apply_positions(query, state.n_tokens), self.apply_positions(key, state.n_tokens)
        key, value = layer.append(key, value, state.n_tokens * state.beam_size)
        return self.finish(x, query, key, value, mask, state.n_tokens, state.beam_size)


class _CrossAttention(_Attention):
    def __init__(self, layer: DecoderLayer):
        cross = layer.cross_attention
        super().__init__(cross, layer.cross_attention_norm)
        self.w_q, self.w_kv = joined(cross.w_q), joined(cross.w_k, cross.w_v)
        self.sizes = [cross.w_k.out_features, cross.w_v.out_features]

    def keys_and_values(self, memory: Tensor, n_sentences: int) -> tuple[Tensor, Tensor]:
        """Both (B,S,H*K), of memory (B*S,D)."""
        key, value = self.w_kv(memory).view(n_sentences, -1, sum(self.sizes)).split(self.sizes, dim=2)
        return self.apply_positions(key).contiguous(), value.contiguous()

    def advance(self, x: Tensor, layer: LayerState, state: DecoderState) -> Tensor:
        """x (B*W,D) -> (B*W,D): each token attends to the source."""
        query = self.apply_positions(self.w_q(self.before(x)).unsqueeze(1), state.n_tokens)
        return self.finish(x, query, layer.memory_key, layer.memory_value, state.memory_mask, state.n_tokens)


class Linear:
    """x W^T + b for x (rows,features): as it is, followed by an activation, or added to a residual (rows,outputs). In float32
    on a CPU W has the order that oneDNN's kernels read, and operators are those that torch.compile emits."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        is_float32 = weight.device.type == "cpu" and weight.dtype == torch.float32
        self.is_packed = is_float32 and torch.backends.mkldnn.is_available()
        if self.is_packed:
            self.bias = weight.new_zeros(weight.size(0)) if self.bias is None else self.bias
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight)
        # A product with a single row is bound by reading W. As a batch of two products, two threads read half of W each.
        self.can_split = self.is_packed and weight.size(0) % 2 == 0
        if self.can_split:
            self.halves = self.weight.view(2, -1, weight.size(1)).transpose(1, 2)  # (2,features,outputs/2)
            self.bias_halves = self.bias.view(2, 1, -1)  # type: ignore[union-attr]

    def __call__(self, x: Tensor, activation: str = "none", residual: Tensor | None = None) -> Tensor:
        if not self.is_packed:
            y = F.linear(x, self.weight, self.bias)
        elif self.can_split and x.size(0) == 1 and torch.get_num_threads() > 1:
            y = torch.baddbmm(self.bias_halves, x.expand(2, 1, -1), self.halves).view(1, -1)
        elif residual is not None:
            return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.packed, self.bias, "add")
        else:  # the last word asks for GELU as it is defined, and not for an approximation by tanh
            return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, activation, [], "none")
        y = y if activation == "none" else ACTIVATIONS[activation](y)
        return y if residual is None else y.add_(residual)


def joined(*layers: nn.Linear | nn.Conv1d) -> Linear:
    """Layers with the same input as one layer, their outputs side by side. A convolution of kernel size 1 is linear."""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return Linear(torch.cat([layer.weight.flatten(1) for layer in layers]), torch.cat(biases) if biases else None)
