"""Position encodings: how the network knows where a token stands.

An encoding adds something to the embeddings, changes the queries and keys of attention, or adds a bias to its scores. A
new one is a class here, a case in `positions_of`, and a name in `ModelConfig.positions`, below which the rules for sizes
stand; exports refuse what they do not name. One module serves encoder, decoder and cross-attention. Matrices that it
learns begin as all others do (Xavier), vectors as it makes them.

Shapes: B sentences, T positions of queries, S of keys, D d_model, H heads, K head_dim.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mt_cli.config import ModelConfig


def positions_of(config: ModelConfig) -> Positions:
    """The encoding of a model: one module, which embeddings and attentions share."""
    if config.positions == "sinusoid":
        return SinusoidPositions(config.max_positions, config.d_model, config.first_position)
    if config.positions.startswith("rotary"):
        is_cross = config.positions == "rotary_cross"
        return RotaryPositions(config.max_positions, config.d_k, config.n_heads, in_cross_attention=is_cross)
    raise NotImplementedError(f"model.positions: {config.positions}")


class Positions(nn.Module):
    """No encoding at all, and the three methods of which a subclass overrides one. Tables are buffers that are not saved.
    Positions count from 0; the row of a position in a table of the embeddings is one more, as row 0 is for padding."""

    in_self_attention, in_cross_attention = False, False  # whether the two methods for attention are called there
    has_bias = False  # whether `bias` is one of them

    def __init__(self, n_positions: int):
        super().__init__()
        self.n_positions = n_positions  # the most tokens that a sentence may have

    def add_to_tokens(self, tokens: Tensor, rows: Tensor | int, scale: float) -> Tensor:
        """The embeddings of tokens (...,D), times `scale`, plus their positions, given as `rows` (...); nothing for row 0."""
        return tokens * scale

    def apply_to_heads(self, x: Tensor, at: int | Tensor = 0) -> Tensor:
        """Queries or keys (B,T,H,K) -> the same shape. `at`: the position of the first, or those of all, a tensor."""
        return x

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """What is added to the scores of queries at positions (T) for keys at positions (S): (H,T,S), as in
        ALiBi (Press et al. 2022) or T5 (Raffel et al. 2020)."""
        raise NotImplementedError


class SinusoidPositions(Positions):
    """Adds to each embedding a vector of sines and cosines (Vaswani et al. 2017, section 3.5)."""

    def __init__(self, n_positions: int, d_model: int, first_position: int = 0):
        super().__init__(n_positions)
        self.table: Tensor  # (1 + n_positions, D)
        self.register_buffer("table", sinusoid_table(n_positions, d_model, first_position), persistent=False)

    def add_to_tokens(self, tokens: Tensor, rows: Tensor | int, scale: float) -> Tensor:
        # One operation for product and sum: in a search, with one token at a time, each call counts.
        return torch.add(self.table[rows], tokens, alpha=scale)


class RotaryPositions(Positions):
    """Rotates queries and keys by an angle that grows with the position (Su et al. 2021, section 3.2).

    The two halves of a head are the two coordinates of K/2 points, and point i is rotated by position / 10000^(2i/K).
    The product of a query and a key then depends on how far apart they stand, not on where.
    """

    in_self_attention = True

    def __init__(self, n_positions: int, head_dim: int, n_heads: int = 1, in_cross_attention: bool = False):
        super().__init__(n_positions)
        self.in_cross_attention = in_cross_attention
        sine, cosine = sinusoid_table(n_positions, head_dim)[1:].unflatten(1, (-1, 2)).unbind(2)  # (n_positions, K/2)
        self.cosine: Tensor  # (n_positions, H, K), the same for each head: to multiply row by row takes twice as long
        self.sine: Tensor
        for name, halves in (("cosine", (cosine, cosine)), ("sine", (-sine, sine))):
            self.register_buffer(name, torch.cat(halves, 1)[:, None].repeat(1, n_heads, 1), persistent=False)

    def apply_to_heads(self, x: Tensor, at: int | Tensor = 0) -> Tensor:
        here = slice(at, at + x.size(1)) if isinstance(at, int) else at
        return torch.addcmul(x * self.cosine[here], x.roll(x.size(-1) // 2, -1), self.sine[here])


def sinusoid_table(n_positions: int, d_model: int, first_position: int = 0) -> Tensor:
    """(1 + n_positions, D): row 0 is for padding and zero; row i is the encoding of position first_position + i - 1.

    PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same), the power computed in log space.
    """
    # On the CPU even when the model is built on `meta` to learn its shapes: there, arange makes torch load its compiler.
    positions = torch.arange(n_positions, dtype=torch.float64, device="cpu")[:, None] + first_position
    steps = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    frequencies = torch.exp(steps * (-math.log(10000.0) / d_model))
    angles = positions * frequencies  # (n_positions, D/2)
    encoding = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)  # sine, cosine, sine, cosine, ...
    return torch.cat((torch.zeros(1, d_model, device="cpu"), encoding.float()))
