"""Attention: every position gathers from the others what it asks for (Vaswani et al. 2017, section 3.2).

Shapes: B sentences, T queries, S keys, D d_model, H heads, K head_dim (d_k), V value_dim (d_v).
Masks: True means "may be attended".
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.model.dropout import Dropout
from mt_cli.model.embeddings import RotaryPositions


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, temperature: float, dropout: nn.Module | None = None
) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / temperature) V, equation 1, and the weights; all of (B,H,...).

    Returns the output (B,H,T,V) and the weights (B,H,T,S) after `dropout`. A query that may attend to nothing gets
    zeros: under a mask of -inf alone its row would be NaN.
    """
    scores = (query / temperature) @ key.transpose(-2, -1)  # (B,H,T,S)
    if mask is not None:
        # A large negative number, not -inf: a row without any key then has a softmax, which the next mask makes zero.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    if dropout is not None:
        weights = dropout(weights)
    return weights @ value, weights


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
        rotary: RotaryPositions | None = None,
    ):
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
        self.rotary = rotary

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """query (B,T,D), key and value (B,S,D), mask broadcast to (B,H,T,S) -> output (B,T,D), weights (B,H,T,S) if
        they are asked for."""
        query = self.split_heads(self.place(self.w_q(query)))  # (B,H,T,K)
        key = self.split_heads(self.place(self.w_k(key)))  # (B,H,S,K)
        value = self.split_heads(self.w_v(value))  # (B,H,S,V)
        weights = None
        # The fused kernel never builds the weights. On a CPU it is slower than two matrix products at the lengths of
        # sentences, so there the formula itself is also the fast way; on Apple's GPUs it has had wrong numbers.
        if query.device.type == "cuda" and not return_weights:
            output = self._fused_attention(query, key, value, mask)
        else:
            output, weights = scaled_dot_product_attention(query, key, value, mask, self.temperature, self.dropout)
        return self.w_o(self.concat_heads(output)), weights if return_weights else None

    def place(self, x: Tensor, first: int = 0) -> Tensor:
        """Queries or keys (B,T,H*K) that know where they stand, where positions are rotary."""
        return x if self.rotary is None else self.rotary(x.unflatten(-1, (self.n_heads, -1)), first).flatten(-2)

    def _fused_attention(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        dropout = self.dropout.p if self.training else 0.0
        scale = 1 / self.temperature
        if mask is None:
            return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scale)
        # What kernels return for a query without any key differs: let it look everywhere, then make it zero.
        has_key = mask.any(-1, keepdim=True)
        output = F.scaled_dot_product_attention(query, key, value, mask | ~has_key, dropout_p=dropout, scale=scale)
        return output.masked_fill(~has_key, 0)

    def split_heads(self, x: Tensor) -> Tensor:
        """(B,T,H*K) -> (B,H,T,K). The transpose matters: a view alone would mix positions into heads."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def concat_heads(self, x: Tensor) -> Tensor:
        """(B,H,T,V) -> (B,T,H*V), the inverse of `split_heads`."""
        return x.transpose(1, 2).flatten(2)
