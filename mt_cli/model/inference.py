"""The trained network in the form that a search uses: a state, and one more token for every partial hypothesis at a time.
`Transformer` defines what is computed; here copies of its weights compute it in fewer and faster steps.

Shapes: B sentences, W partial hypotheses of each (the beam width), S source length, D d_model, H heads, K head_dim,
V target vocabulary, N = W * steps: the target tokens that all partial hypotheses of a sentence were fed so far.
Activations are matrices with a row for each position: (B*W,D), in the encoder (B*S,D). Masks: True means "may be attended".
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.model.attention import MultiHeadAttention, attend
from mt_cli.model.decoder_state import DecoderState, LayerState, RecordedState, Recorder
from mt_cli.model.layers import ACTIVATIONS, AddNorm, DecoderLayer, EncoderLayer
from mt_cli.model.transformer import Transformer


class InferenceModel:
    """A trained `Transformer` for a search. Threads may share it: all that changes is in the state."""

    def __init__(self, model: Transformer):
        self._src_embeddings, self._tgt_embeddings = model.src_embeddings, model.tgt_embeddings
        encoder: Any = model.encoder_layers  # torch types what is in a list as modules
        decoder: Any = model.decoder_layers
        self._encoder_layers = [(_SelfAttention(one), _FeedForward(one)) for one in encoder]
        self._decoder_layers = [(_SelfAttention(one), _CrossAttention(one), _FeedForward(one)) for one in decoder]
        self._encoder_norm, self._decoder_norm = model.encoder_norm, model.decoder_norm
        self._project = linear(model.scaled_projection(), model.projection.bias)
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
            layers.append(LayerState(*cross_attention.keys_and_values(memory, n_sentences), key, value))
        token_mask = src_mask.new_empty(n_sentences, beam_size, 0) if beam_size > 1 else None
        state = DecoderState(src_mask, token_mask, layers, beam_size)
        return RecordedState.of(state, self._recorder) if self.is_recorded else state

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


# The sublayers -------------------------------------------------------------------------------------------------------


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
        return self.after(self.w_2.add(self.w_1.activated(self.before(x), self.activation), x))


class _Attention(_Branch):
    """What self-attention and cross-attention have in common."""

    def __init__(self, attention: MultiHeadAttention, add_norm: AddNorm):
        super().__init__(add_norm)
        self.temperature, self.apply_positions = attention.temperature, attention.apply_positions
        self.has_bias, self.bias = attention.has_bias, attention.bias
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
        if self.has_bias:
            queries, keys = (torch.arange(n, device=x.device) for n in (query.size(2), key.size(2)))
            bias = self.bias(queries if at is None else torch.zeros_like(queries) + at, keys // width)
        output, _ = attend(query, key, value, mask, self.temperature, is_inference=True, bias=bias)
        return self.after(self.w_o.add(self.concat_heads(output).flatten(0, 1), x))


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


# Linear layers -------------------------------------------------------------------------------------------------------


class Linear:
    """x W^T + b for x (rows,features): as it is, followed by an activation, or added to a residual (rows,outputs)."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def activated(self, x: Tensor, activation: str) -> Tensor:
        return ACTIVATIONS[activation](self(x))

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return self(x).add_(residual)


class PackedLinear(Linear):
    """The same with W in the order that oneDNN's kernels read, by the operators that torch.compile emits."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        bias = weight.new_zeros(weight.size(0)) if bias is None else bias
        super().__init__(weight, bias)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        # A product with a single row is bound by reading W. As a batch of two products, two threads read half of W each.
        self.can_split = weight.size(0) % 2 == 0
        if self.can_split:
            self.halves = weight.view(2, -1, weight.size(1)).transpose(1, 2)  # (2,features,outputs/2)
            self.bias_halves = bias.view(2, 1, -1)

    def __call__(self, x: Tensor) -> Tensor:
        if self._is_split(x):
            return torch.baddbmm(self.bias_halves, x.expand(2, 1, -1), self.halves).view(1, -1)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def activated(self, x: Tensor, activation: str) -> Tensor:
        if self._is_split(x):
            return super().activated(x, activation)
        # "none" asks for GELU as it is defined, and not for an approximation by tanh.
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, activation, [], "none")

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        if self._is_split(x):
            return super().add(x, residual)
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.packed, self.bias, "add")

    def _is_split(self, x: Tensor) -> bool:
        return x.size(0) == 1 and self.can_split and torch.get_num_threads() > 1


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """Packed where that is possible: float32 on a CPU, with oneDNN in torch."""
    can_pack = weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    return (PackedLinear if can_pack else Linear)(weight.detach(), None if bias is None else bias.detach())


def joined(*layers: nn.Linear | nn.Conv1d) -> Linear:
    """Layers with the same input as one layer, their outputs side by side. A convolution of kernel size 1 is linear."""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return linear(torch.cat([layer.weight.flatten(1) for layer in layers]), torch.cat(biases) if biases else None)
