"""Attention: each query takes a weighted mean of the values (Vaswani et al. 2017, section 3.2). Training, forced decoding and
the search (inference.py) all call `attend`.

Shapes: B sentences, T queries, S keys, D d_model, H heads, K head_dim (d_k), V value_dim (d_v); or Z sentences in one row of
N or M tokens in all.
Masks: True means "may be attended".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.model.dropout import Dropout
from mt_cli.model.positions import Positions

_VECTOR = 16  # float32 numbers that a CPU computes at a time, at most


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    temperature: float,
    dropout: Dropout | None = None,
    return_weights: bool = False,
    is_inference: bool = False,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """softmax(Q K^T / temperature + bias) V, equation 1, in which the temperature is the square root of d_k.

    query (B,H,T,K), key (B,H,S,K), value (B,H,S,V), mask broadcast to (B,H,T,S), bias (H,T,S) -> output (B,H,T,V) and, if
    `return_weights`, the weights after dropout (B,H,T,S). A query that may attend to no key gets zeros.
    """
    may_be_fused = bias is None and not return_weights
    if isinstance(mask, PackedMask):
        if query.device.type == "cuda" and may_be_fused:
            return attend_packed(query, key, value, mask, temperature), None
        mask = mask.dense()  # (T,S)
    if may_be_fused and _is_fused_better(query.device, is_inference):
        dropout_p = dropout.p if dropout is not None and dropout.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, mask, dropout_p, scale=1 / temperature), None

    # In float32, and in rows of whole vectors of a CPU: of the short rows of bf16 it computes one number at a time.
    dtype, n_keys = torch.promote_types(query.dtype, torch.float32), key.size(-2)
    lowest = torch.finfo(dtype).min
    scores = (query @ key.transpose(-2, -1)).to(dtype) / temperature  # (B,H,T,S)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores + torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, lowest / 2)
    # At least one key more, without a value: a query that may attend to no other attends to that.
    scores = F.pad(scores, (0, _VECTOR - n_keys % _VECTOR), value=lowest / 4)
    weights = scores.softmax(-1)[..., :n_keys].to(value.dtype)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights if return_weights else None


def _is_fused_better(device: torch.device, is_inference: bool) -> bool:
    """Whether torch's fused kernel, which never stores the weights, computes `attend` right and faster. On a CPU forward and
    backward together take longer than two matrix products at the lengths of sentences; on Apple's GPUs the kernel for few
    queries gave wrong numbers up to torch 2.12 (pytorch #181133, #184180)."""
    return device.type == "cuda" or (device.type == "cpu" and is_inference)


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each on its own projection of queries, keys and values, joined by `w_o`."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        head_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        temperature: float | None = None,
        dropout: float = 0.0,
        positions: Positions | None = None,
    ):
        """`positions`: applied to queries and keys, or to scores; None: they are left as they are."""
        super().__init__()
        if head_dim is None and d_model % n_heads:
            raise ValueError(f"d_model {d_model} does not split into {n_heads} heads")
        self.n_heads = n_heads
        self.head_dim = head_dim or d_model // n_heads
        self.value_dim = value_dim or self.head_dim
        self.temperature = temperature or math.sqrt(self.head_dim)
        self.w_q = nn.Linear(d_model, n_heads * self.head_dim, bias=bias)
        self.w_k = nn.Linear(d_model, n_heads * self.head_dim, bias=bias)
        self.w_v = nn.Linear(d_model, n_heads * self.value_dim, bias=bias)
        self.w_o = nn.Linear(n_heads * self.value_dim, d_model, bias=bias)
        self.dropout = Dropout(dropout)
        self.positions = positions

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """query (B,T,D), key and value (B,S,D), mask broadcast to (B,H,T,S) -> output (B,T,D) and the weights (B,H,T,S)."""
        at = (mask.queries.positions, mask.keys.positions) if isinstance(mask, PackedMask) else (0, 0)
        query = self.split_heads(self.apply_positions(self.w_q(query), at[0]))  # (B,H,T,K)
        key = self.split_heads(self.apply_positions(self.w_k(key), at[1]))  # (B,H,S,K)
        value = self.split_heads(self.w_v(value))  # (B,H,S,V)
        bias = None
        if self.positions is not None and self.positions.has_bias:
            queries, keys = (torch.arange(x.size(2), device=x.device) for x in (query, key))
            if isinstance(mask, PackedMask):
                queries, keys = mask.queries.positions, mask.keys.positions
            bias = self.positions.bias(queries, keys)
        output, weights = attend(query, key, value, mask, self.temperature, self.dropout, return_weights, bias=bias)
        return self.w_o(self.concat_heads(output)), weights

    def apply_positions(self, x: Tensor, at: int | Tensor = 0) -> Tensor:
        """Queries or keys (B,T,H*K) -> (B,T,H*K). `at`: the position of the first of T, or a tensor of all."""
        if self.positions is None:
            return x
        return self.positions.apply_to_heads(x.unflatten(-1, (self.n_heads, -1)), at).flatten(-2)

    def split_heads(self, x: Tensor) -> Tensor:
        """(B,T,H*K) -> (B,H,T,K). The transpose matters: a view alone would mix positions into heads."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def concat_heads(self, x: Tensor) -> Tensor:
        """(B,H,T,V) -> (B,T,H*V), the inverse of `split_heads`."""
        return x.transpose(1, 2).flatten(2)


# Sentences that stand in one row, one after another without padding ------------------------------------------------------


class Packing(NamedTuple):
    """The sentences of a row of N tokens, each of which belongs to one."""

    starts: Tensor  # (Z+1,), int32: where each begins, and the end of the last
    positions: Tensor  # (N,): of each token in its sentence, counted from 0
    longest: int  # no sentence has more tokens

    def sentence_ids(self) -> Tensor:
        """(N,): which sentence each token belongs to."""
        tokens = torch.arange(len(self.positions), dtype=self.starts.dtype, device=self.starts.device)
        return torch.bucketize(tokens, self.starts[1:], right=True)


class PackedMask(NamedTuple):
    """A query may attend to the keys of the sentence with its own number; if `is_causal`, to itself and those before it."""

    queries: Packing
    keys: Packing
    is_causal: bool = False

    def dense(self) -> Tensor:
        """The same as a mask (N,M). True means "may be attended"."""
        mask = self.queries.sentence_ids()[:, None] == self.keys.sentence_ids()
        return mask & (self.queries.positions[:, None] >= self.keys.positions) if self.is_causal else mask


Mask = Tensor | PackedMask | None


def attend_packed(query: Tensor, key: Tensor, value: Tensor, mask: PackedMask, temperature: float) -> Tensor:
    """The same for sentences in one row: query (1,H,T,K), key (1,H,S,K), value (1,H,S,K) -> output (1,H,T,K)."""
    from torch.nn.attention.varlen import varlen_attn

    query, key, value = (x.squeeze(0).transpose(0, 1) for x in (query, key, value))  # (T or S,H,K) each
    sentences = mask.queries.starts, mask.keys.starts, mask.queries.longest, mask.keys.longest
    window = -1, 0 if mask.is_causal else -1
    output = varlen_attn(query, key, value, *sentences, scale=1 / temperature, window_size=window)
    assert isinstance(output, Tensor)
    return output.transpose(0, 1).unsqueeze(0)


def has_packed_kernel(attention: MultiHeadAttention) -> bool:
    """Whether `attend` takes packed sentences without a dense mask: flash attention, from Ampere on. It has no dropout."""
    weight, size = attention.w_q.weight, attention.head_dim
    return (
        weight.device.type == "cuda"
        and weight.dtype == torch.bfloat16
        and torch.cuda.get_device_capability(weight.device) >= (8, 0)
        and attention.value_dim == size
        and size % 8 == 0
        and size <= 256
        and attention.dropout.n_dropped == 0
        and not (attention.positions is not None and attention.positions.has_bias)
    )
