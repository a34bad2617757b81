"""From ids to vectors: what a token means plus where it stands (Vaswani et al. 2017, sections 3.4 and 3.5).

Shapes: B sentences, T positions, D d_model, H heads, K head_dim.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mt_cli.model.dropout import Dropout


def sinusoid_table(n_positions: int, d_model: int, first_position: int = 0) -> Tensor:
    """(1 + n_positions, D): row 0 is for padding and zero; row i is the encoding of position first_position + i - 1.

    PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same), the power computed in log space.
    """
    # On the CPU, though a model is built on `meta` to see its shapes: there torch would load its compiler for a range.
    positions = torch.arange(n_positions, dtype=torch.float64, device="cpu")[:, None] + first_position
    steps = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    frequencies = torch.exp(steps * (-math.log(10000.0) / d_model))
    angles = positions * frequencies  # (n_positions, D/2)
    encoding = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)  # sine and cosine take turns
    return torch.cat((torch.zeros(1, d_model, device="cpu"), encoding.float()))


class RotaryPositions(nn.Module):
    """Where queries and keys stand, told by turning them (Su et al. 2021, section 3.2).

    The two halves of a head are the two coordinates of K/2 points, and point i is turned by position / 10000^(2i/K).
    The product of a query and a key then depends on how far apart they stand, not on where.
    """

    def __init__(self, n_positions: int, head_dim: int):
        super().__init__()
        sine, cosine = sinusoid_table(n_positions, head_dim)[1:].unflatten(1, (-1, 2)).unbind(2)  # (n_positions, K/2)
        self.cosine: Tensor
        self.sine: Tensor
        self.register_buffer("cosine", torch.cat((cosine, cosine), 1)[:, None], persistent=False)
        self.register_buffer("sine", torch.cat((-sine, sine), 1)[:, None], persistent=False)

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        """x (B,T,H,K), the first of T at position `first` -> (B,T,H,K)."""
        here = slice(first, first + x.size(1))
        return x * self.cosine[here] + x.roll(x.size(-1) // 2, -1) * self.sine[here]


class Embeddings(nn.Module):
    """norm(dropout(scale * token + position)); scale, position and norm where they are switched on.

    Positions are counted along each sentence, so that padding takes row 0 wherever it stands. Their table is a buffer: it
    moves with the model, is no parameter, and is not saved, since a formula makes it.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        pad_id: int,
        n_positions: int = 1024,
        first_position: int = 0,
        has_positions: bool = True,
        scale: float = 1.0,
        dropout: float = 0.0,
        norm: nn.Module | None = None,
    ):
        super().__init__()
        self.pad_id, self.scale, self.n_positions = pad_id, scale, n_positions
        self.token = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.position: Tensor | None
        table = sinusoid_table(n_positions, d_model, first_position) if has_positions else None
        self.register_buffer("position", table, persistent=False)
        self.norm = norm or nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B,T) -> (B,T,D)."""
        is_token = ids != self.pad_id
        rows = is_token.cumsum(-1) * is_token  # (B,T): 1, 2, 3, 0, 0
        return self.norm(self.dropout(self.add_positions(self.token(ids), rows)))

    def add_positions(self, tokens: Tensor, rows: Tensor | int) -> Tensor:
        """tokens (...,D), scaled, with these rows of the table."""
        # One operation for both where there is one token at a time and each call counts.
        return (
            tokens * self.scale if self.position is None else torch.add(self.position[rows], tokens, alpha=self.scale)
        )
