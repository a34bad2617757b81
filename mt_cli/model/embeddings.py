"""From ids to vectors: the embedding of a token plus that of its position (Vaswani et al. 2017, section 3.4).

Shapes: B sentences, T positions, D d_model.
"""

from torch import Tensor, nn

from mt_cli.model.dropout import Dropout
from mt_cli.model.positions import Positions


class Embeddings(nn.Module):
    """norm(dropout(scale * token + position)), or without the norm if `norm` is None."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        pad_id: int,
        positions: Positions,
        scale: float = 1.0,
        dropout: float = 0.0,
        norm: nn.Module | None = None,
    ):
        super().__init__()
        self.pad_id, self.scale = pad_id, scale
        self.token = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.positions = positions
        self.norm = norm or nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """ids (B,T) -> (B,T,D). Positions (T) count from 0; by default tokens are counted, so padding has none."""
        is_token = ids != self.pad_id
        numbers = is_token.cumsum(-1) * is_token if positions is None else positions + 1  # (B,T): 1, 2, 3, 0, 0
        return self.norm(self.dropout(self.positions.add_to_tokens(self.token(ids), numbers, self.scale)))

    def at(self, ids: Tensor, position: int | Tensor) -> Tensor:
        """ids (B), all at one `position`, counted from 0, which may be a tensor (1) -> (B,D), without dropout: a step
        of a search."""
        return self.norm(self.positions.add_to_tokens(self.token(ids), position + 1, self.scale))
