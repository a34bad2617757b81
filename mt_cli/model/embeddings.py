"""From ids to vectors: what a token means plus where it stands (Vaswani et al. 2017, sections 3.4 and 3.5).

Shapes: B sentences, T positions, D d_model.
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


class Embeddings(nn.Module):
    """norm(dropout(scale * token + position)); scale and norm where they are switched on.

    Positions are counted along each sentence, so that padding takes row 0 wherever it stands. The table is a buffer: it
    moves with the model, is no parameter, and is not saved, since a formula makes it.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        pad_id: int,
        n_positions: int = 1024,
        first_position: int = 0,
        scale: float = 1.0,
        dropout: float = 0.0,
        norm: nn.Module | None = None,
    ):
        super().__init__()
        self.pad_id, self.scale, self.n_positions = pad_id, scale, n_positions
        self.token = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.position: Tensor
        self.register_buffer("position", sinusoid_table(n_positions, d_model, first_position), persistent=False)
        self.norm = norm or nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B,T) -> (B,T,D)."""
        is_token = ids != self.pad_id
        rows = is_token.cumsum(-1) * is_token  # (B,T): 1, 2, 3, 0, 0
        x = self.token(ids) * self.scale + self.position[rows]
        return self.norm(self.dropout(x))
