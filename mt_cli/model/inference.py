"""The trained network in the form that translates: a state, and one more token for every beginning at a time.

`Transformer` says what is computed; here the same is computed in few and fast steps. Matrices with one input are joined
and, on a CPU, packed into the order that its kernels read. It is made once from a trained model; when that is trained
on, another one is to be made.

Shapes: B sentences, W beginnings of each (the beam width), S source length, N tokens of all beginnings so far, D d_model,
H heads, K head_dim, V target vocabulary. Activations have a row for each position: (B*W,D), in the encoder (B*S,D).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.model.attention import MultiHeadAttention
from mt_cli.model.layers import AddNorm, DecoderLayer, EncoderLayer
from mt_cli.model.transformer import Transformer

_NEVER = -1e30  # added to a score makes its weight 0; a row of nothing else is no NaN, as it would be with -inf


class Linear:
    """x W^T + b for x (rows,features): alone, into a ReLU, or added to a residual (rows,features)."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def relu(self, x: Tensor) -> Tensor:
        return self(x).relu_()

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return self(x).add_(residual)


class PackedLinear(Linear):
    """The same with W in the order that oneDNN's kernels read, through the operators that torch.compile emits."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        bias = weight.new_zeros(weight.size(0)) if bias is None else bias
        super().__init__(weight, bias)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        # A single row takes as long as reading W does, so two threads read half of it each, as a batch of two products.
        self.can_split = weight.size(0) % 2 == 0
        if self.can_split:
            self.halves = weight.view(2, -1, weight.size(1)).transpose(1, 2)  # (2,features,outputs/2)
            self.bias_halves = bias.view(2, 1, -1)

    def __call__(self, x: Tensor) -> Tensor:
        if self._is_split(x):
            return self._product_of_halves(x)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def relu(self, x: Tensor) -> Tensor:
        if self._is_split(x):
            return self._product_of_halves(x).relu_()
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "relu", [], "")

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        if self._is_split(x):
            return self._product_of_halves(x).add_(residual)
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.packed, self.bias, "add")

    def _is_split(self, x: Tensor) -> bool:
        return x.size(0) == 1 and self.can_split and torch.get_num_threads() > 1

    def _product_of_halves(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias_halves, x.expand(2, 1, -1), self.halves).view(1, -1)


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    can_pack = weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    return (PackedLinear if can_pack else Linear)(weight.detach(), None if bias is None else bias.detach())


def joined(*layers: nn.Linear | nn.Conv1d) -> Linear:
    """Layers with one input as one, their outputs side by side. A convolution of kernel size 1 is a linear layer."""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return linear(torch.cat([layer.weight.flatten(1) for layer in layers]), torch.cat(biases) if biases else None)


Norm = Callable[[Tensor], Tensor]


class _Branch:
    """A residual branch: norm(x + f(x)), or x + f(norm(x)) with pre-norm."""

    def __init__(self, add_norm: AddNorm):
        norm: Norm = add_norm.norm.forward
        self.before: Norm = norm if add_norm.is_pre else _same
        self.after: Norm = _same if add_norm.is_pre else norm


def _same(x: Tensor) -> Tensor:
    return x


class _FeedForward(_Branch):
    def __init__(self, layer: EncoderLayer | DecoderLayer):
        super().__init__(layer.feed_forward_norm)
        self.w_1, self.w_2 = joined(layer.feed_forward.w_1), joined(layer.feed_forward.w_2)

    def __call__(self, x: Tensor) -> Tensor:
        return self.after(self.w_2.add(self.w_1.relu(self.before(x)), x))


_FUSED = {"cpu", "cuda"}  # Apple's kernel for few queries had wrong numbers up to torch 2.12 (pytorch #181133, #184180)


class _Attention(_Branch):
    def __init__(self, attention: MultiHeadAttention, add_norm: AddNorm):
        super().__init__(add_norm)
        self.n_heads, self.scale = attention.n_heads, 1 / attention.temperature
        self.w_o = joined(attention.w_o)

    def attend(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """The branch's end: x (B*T,D) with what query (B*T,H*K) finds in key and value (B,N,H*K) under mask, which is
        added to the scores (B,H,T,N)."""
        n_sentences = key.size(0)
        query, key, value = (  # (B,H,T or N,K)
            rows.view(n_sentences, -1, self.n_heads, rows.size(-1) // self.n_heads).transpose(1, 2)
            for rows in (query, key, value)
        )
        if x.device.type in _FUSED:
            found = F.scaled_dot_product_attention(query, key, value, mask, scale=self.scale)
        else:
            scores = (query * self.scale) @ key.transpose(-2, -1)
            found = (scores if mask is None else scores + mask).softmax(-1) @ value
        return self.after(self.w_o.add(found.transpose(1, 2).reshape(len(x), -1), x))


class _SelfAttention(_Attention):
    def __init__(self, layer: EncoderLayer | DecoderLayer):
        own = layer.self_attention
        super().__init__(own, layer.self_attention_norm)
        self.place = own.place
        self.w_qkv = joined(own.w_q, own.w_k, own.w_v)
        self.sizes = [own.w_q.out_features, own.w_k.out_features, own.w_v.out_features]

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B*S,D), mask (B,1,1,S) -> (B*S,D): every position attends to all."""
        query, key, value = self.w_qkv(self.before(x)).view(len(mask), -1, sum(self.sizes)).split(self.sizes, dim=2)
        return self.attend(x, self.place(query), self.place(key), value, mask)

    def advance(self, x: Tensor, layer: LayerState, state: DecoderState, mask: Tensor | None) -> Tensor:
        """x (B*W,D) -> (B*W,D): each beginning attends to itself, all tokens before being in `layer`."""
        query, key, value = self.w_qkv(self.before(x)).view(len(x), 1, -1).split(self.sizes, dim=2)
        query, key = self.place(query, state.n_tokens), self.place(key, state.n_tokens)
        return self.attend(x, query, *layer.append(key, value, state.n_tokens * state.beam_size), mask)


class _CrossAttention(_Attention):
    def __init__(self, layer: DecoderLayer):
        cross = layer.cross_attention
        super().__init__(cross, layer.cross_attention_norm)
        self.w_q, self.w_kv = joined(cross.w_q), joined(cross.w_k, cross.w_v)
        self.sizes = [cross.w_k.out_features, cross.w_v.out_features]
        self.place = cross.place

    def read(self, memory: Tensor, n_sentences: int) -> tuple[Tensor, Tensor]:
        """Keys and values (B,S,H*K) of the encoder's output (B*S,D)."""
        key, value = self.w_kv(memory).view(n_sentences, -1, sum(self.sizes)).split(self.sizes, dim=2)
        return self.place(key).contiguous(), value.contiguous()

    def advance(self, x: Tensor, layer: LayerState, state: DecoderState) -> Tensor:
        query = self.place(self.w_q(self.before(x)).unsqueeze(1), state.n_tokens)
        return self.attend(x, query, layer.memory_key, layer.memory_value, state.memory_mask)


class _EncoderLayer:
    def __init__(self, layer: EncoderLayer):
        self.self_attention, self.feed_forward = _SelfAttention(layer), _FeedForward(layer)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.feed_forward(self.self_attention.encode(x, mask))


class _DecoderLayer:
    def __init__(self, layer: DecoderLayer):
        self.self_attention, self.cross_attention = _SelfAttention(layer), _CrossAttention(layer)
        self.feed_forward = _FeedForward(layer)

    def start(self, memory: Tensor, n_sentences: int, n_tokens: int) -> LayerState:
        memory_key, memory_value = self.cross_attention.read(memory, n_sentences)
        _, key_size, value_size = self.self_attention.sizes
        key, value = (memory.new_empty(n_sentences, n_tokens, size) for size in (key_size, value_size))
        return LayerState(memory_key, memory_value, key, value)

    def advance(self, x: Tensor, layer: LayerState, state: DecoderState, mask: Tensor | None) -> Tensor:
        x = self.self_attention.advance(x, layer, state, mask)
        x = self.cross_attention.advance(x, layer, state)
        return self.feed_forward(x)


@dataclass
class LayerState:
    """What one decoder layer remembers of a translation in progress, all (B,length,H*K)."""

    memory_key: Tensor  # of the encoder's output, computed once
    memory_value: Tensor
    key: Tensor  # of the target tokens so far, those of one step side by side; room for more behind them
    value: Tensor

    def append(self, key: Tensor, value: Tensor, n_before: int) -> tuple[Tensor, Tensor]:
        """Stores keys and values of the next tokens (B*W,H*K); returns those of all so far (B,N,H*K)."""
        n_sentences = self.key.size(0)
        width = key.size(0) // n_sentences
        self.key.narrow(1, n_before, width).copy_(key.view(n_sentences, width, -1))
        self.value.narrow(1, n_before, width).copy_(value.view(n_sentences, width, -1))
        return self.key.narrow(1, 0, n_before + width), self.value.narrow(1, 0, n_before + width)

    def select(self, sentences: Tensor, moved: Tensor, n_tokens: int) -> None:
        """Keeps `sentences`, those of the places in `moved` copied, the others where they are."""
        for kept, n in (
            (self.memory_key, None),
            (self.memory_value, None),
            (self.key, n_tokens),
            (self.value, n_tokens),
        ):
            kept[moved, :n] = kept[sentences[moved], :n]
        n_kept = len(sentences)
        self.memory_key, self.memory_value = self.memory_key[:n_kept], self.memory_value[:n_kept]
        self.key, self.value = self.key[:n_kept], self.value[:n_kept]


@dataclass
class DecoderState:
    """A translation in progress of B sentences with W beginnings each: made by `InferenceModel.start`, advanced one
    token at a time, rows selected when beams reorder or finished sentences leave. Nothing else remembers anything.

    Keys and values stay where they were written when beams reorder: a mask says which of its sentence's tokens belong
    to a beginning. Copying them would take as long as computing a step.
    """

    memory_mask: Tensor  # (B,1,1,S), added to the scores
    token_mask: Tensor | None  # (B,W,N), likewise; none where W is 1
    layers: list[LayerState]
    beam_size: int
    n_tokens: int = 0  # fed so far to each beginning

    def select(self, rows: Tensor) -> None:
        """Goes on with `rows` (B*W): W beginnings of each sentence that stays, all of them that sentence's own. As few
        sentences are copied as change their place: they may leave and move up, but never become more."""
        rows = rows.view(-1, self.beam_size)
        sentences = rows[:, 0] // self.beam_size
        if self.token_mask is not None:
            self.token_mask = self.token_mask[sentences[:, None], rows % self.beam_size]
        moved = (sentences != torch.arange(len(sentences), device=rows.device)).nonzero()[:, 0]
        if len(moved) or len(sentences) < len(self.memory_mask):
            self.memory_mask = self.memory_mask[sentences]
            for layer in self.layers:
                layer.select(sentences, moved, self.n_tokens * self.beam_size)

    def extend_token_mask(self) -> Tensor | None:
        """Lets each beginning look at its next token, too; the mask of the step (B,1,W,N)."""
        if self.token_mask is None:
            return None
        n_sentences, width, _ = self.token_mask.shape
        own = torch.full((width, width), _NEVER, device=self.token_mask.device).fill_diagonal_(0)
        self.token_mask = torch.cat([self.token_mask, own.expand(n_sentences, width, width)], dim=2)
        return self.token_mask[:, None]


class InferenceModel:
    """A trained `Transformer` to be searched. Safe to share between threads: what changes is in the state."""

    def __init__(self, model: Transformer):
        self._src_embeddings, self._embeddings = model.src_embeddings, model.tgt_embeddings
        self._encoder_layers = [_EncoderLayer(cast(EncoderLayer, layer)) for layer in model.encoder_layers]
        self._decoder_layers = [_DecoderLayer(cast(DecoderLayer, layer)) for layer in model.decoder_layers]
        self._encoder_norm, self._decoder_norm = model.encoder_norm, model.decoder_norm
        self._projection = linear(model.projection.weight * model.projection_scale)

    def start(self, src_ids: Tensor, src_mask: Tensor, max_length: int, beam_size: int = 1) -> DecoderState:
        """The state before the first target token of src_ids (B,S), with room for `max_length` of them."""
        n_sentences = src_ids.size(0)
        mask = torch.zeros(src_mask.shape, device=src_ids.device).masked_fill_(~src_mask, _NEVER)  # (B,1,1,S)
        x = self._src_embeddings(src_ids).flatten(0, 1)  # (B*S,D)
        for layer in self._encoder_layers:
            x = layer(x, mask)
        memory = self._encoder_norm(x)
        layers = [layer.start(memory, n_sentences, max_length * beam_size) for layer in self._decoder_layers]
        return DecoderState(
            mask, mask.new_empty(n_sentences, beam_size, 0) if beam_size > 1 else None, layers, beam_size
        )

    def advance(self, state: DecoderState, last_ids: Tensor) -> Tensor:
        """Feeds the last token of each beginning, last_ids (B*W); returns the logits (B*W,V) of the next."""
        mask = state.extend_token_mask()
        x = self._embeddings.add_positions(self._embeddings.token(last_ids), 1 + state.n_tokens)  # the same for all
        x = self._embeddings.norm(x)
        for layer, layer_state in zip(self._decoder_layers, state.layers, strict=True):
            x = layer.advance(x, layer_state, state, mask)
        state.n_tokens += 1
        return self._projection(self._decoder_norm(x))
