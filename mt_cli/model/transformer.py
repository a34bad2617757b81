"""The Transformer of Vaswani et al. 2017: an encoder reads the source, a decoder writes the target token by token. A search
runs the same weights one token at a time, as `InferenceModel`.

Shapes: B sentences, S source length, T target length, D d_model, H heads, V target vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.config import ModelConfig
from mt_cli.model.attention import Mask, PackedMask
from mt_cli.model.dropout import Dropout
from mt_cli.model.layers import DecoderLayer, EncoderLayer, dropout_rate, layer_norm
from mt_cli.model.positions import Positions, positions_of


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
        rows = is_token.cumsum(-1) * is_token if positions is None else positions + 1  # (B,T): 1, 2, 3, 0, 0
        return self.norm(self.dropout(self.positions.add_to_tokens(self.token(ids), rows, self.scale)))

    def at(self, ids: Tensor, position: int | Tensor) -> Tensor:
        """ids (B), all at one `position`, from 0, maybe a tensor (1) -> (B,D), without dropout: a step of a search."""
        return self.norm(self.positions.add_to_tokens(self.token(ids), position + 1, self.scale))


class Transformer(nn.Module):
    def __init__(self, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int, pad_id: int):
        super().__init__()
        d_model = config.d_model
        self.positions = positions_of(config)
        scale = math.sqrt(d_model) if config.embedding_scale == "embedding" else 1.0
        of_both = d_model, pad_id, self.positions, scale, dropout_rate(config.embedding_dropout, config.dropout)
        self.src_embeddings, self.tgt_embeddings = (
            Embeddings(vocab_size, *of_both, layer_norm(config) if config.embedding_norm else None)
            for vocab_size in (src_vocab_size, tgt_vocab_size)
        )
        encoder = (EncoderLayer(config, self.positions) for _ in range(config.n_encoder_layers))
        decoder = (DecoderLayer(config, self.positions) for _ in range(config.n_decoder_layers))
        self.encoder_layers, self.decoder_layers = nn.ModuleList(encoder), nn.ModuleList(decoder)
        # With pre-norm, nothing has normalized the sum after the last layer.
        self.encoder_norm = layer_norm(config) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = layer_norm(config) if config.norm == "pre" else nn.Identity()
        self.projection = nn.Linear(d_model, tgt_vocab_size, bias=config.projection_bias)
        self.projection_scale = d_model**-0.5 if config.embedding_scale == "projection" else 1.0

        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        if config.embedding_init == "normal":
            # Xavier's bound shrinks as the vocabulary grows, until positions outweigh tokens.
            for side in (self.src_embeddings, self.tgt_embeddings):
                nn.init.normal_(side.token.weight, std=1 / scale)
        if config.tie_embeddings != "none":
            self.projection.weight = self.tgt_embeddings.token.weight
        if config.tie_embeddings == "all":
            self.src_embeddings.token.weight = self.tgt_embeddings.token.weight
        for side in (self.src_embeddings, self.tgt_embeddings):
            nn.init.zeros_(side.token.weight[pad_id])
        if self.projection.bias is not None:
            nn.init.zeros_(self.projection.bias)

    @property
    def device(self) -> torch.device:
        return self.projection.weight.device

    def forward(
        self, src_ids: Tensor, src_mask: Mask, tgt_in: Tensor, tgt_mask: Mask, memory_mask: Mask = None
    ) -> Tensor:
        """src_ids (B,S), src_mask (B,1,1,S), tgt_in (B,T), tgt_mask (B,1,T,T) -> hidden states (B,T,D). Not yet logits: those
        of a whole batch take more memory than all else, so callers `project` some positions at a time.

        Packed sentences are one row, B = 1, with a `PackedMask` each for source, target, and `memory_mask` for target to
        source, which is otherwise that of the source.
        """
        memory, _ = self.encode(src_ids, src_mask)
        hidden, _, _ = self.decode(tgt_in, tgt_mask, memory, src_mask if memory_mask is None else memory_mask)
        return hidden

    def forward_with_weights(
        self, src_ids: Tensor, src_mask: Tensor, tgt_in: Tensor, tgt_mask: Tensor
    ) -> tuple[Tensor, tuple[list[Tensor], list[Tensor], list[Tensor]]]:
        """What `forward` returns, and each layer's weights: encoder (B,H,S,S), decoder (B,H,T,T), and across (B,H,T,S)."""
        memory, encoder = self.encode(src_ids, src_mask, return_weights=True)
        hidden, decoder, cross = self.decode(tgt_in, tgt_mask, memory, src_mask, return_weights=True)
        return hidden, (encoder, decoder, cross)

    def encode(self, src_ids: Tensor, src_mask: Mask, return_weights: bool = False) -> tuple[Tensor, list[Tensor]]:
        """The memory (B,S,D) that the decoder attends to and, if `return_weights`, each layer's (B,H,S,S)."""
        positions = src_mask.queries.positions if isinstance(src_mask, PackedMask) else None
        x, all_weights = self.src_embeddings(src_ids, positions), []  # None: counted from the ids
        for layer in self.encoder_layers:
            x, weights = layer(x, src_mask, return_weights)
            all_weights.append(weights)
        return self.encoder_norm(x), all_weights if return_weights else []

    def decode(
        self, tgt_in: Tensor, tgt_mask: Mask, memory: Tensor, memory_mask: Mask, return_weights: bool = False
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The hidden states (B,T,D) of all target positions at once and, if `return_weights`, each layer's weights of
        self-attention (B,H,T,T) and of cross-attention (B,H,T,S)."""
        positions = tgt_mask.queries.positions if isinstance(tgt_mask, PackedMask) else None
        x, self_weights, cross_weights = self.tgt_embeddings(tgt_in, positions), [], []
        for layer in self.decoder_layers:
            x, own, cross = layer(x, memory, memory_mask, tgt_mask, return_weights)
            self_weights.append(own)
            cross_weights.append(cross)
        hidden = self.decoder_norm(x) * self.projection_scale  # here instead of in `project`: the logits are far larger
        return (hidden, self_weights, cross_weights) if return_weights else (hidden, [], [])

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden states (...,D), as `decode` returns them -> logits (...,V)."""
        return F.linear(hidden, self.projection.weight, self.projection.bias)

    def scaled_projection(self) -> Tensor:
        """(V,D): the projection with its scale in the weights, for inference and exports, which cannot apply it apart."""
        return self.projection.weight.detach() * self.projection_scale
