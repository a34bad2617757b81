"""The Transformer of Vaswani et al. 2017: an encoder reads the source, a decoder writes the target token by token.

Shapes: B sentences, S source length, T target length, D d_model, H heads, V target vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.config import ModelConfig
from mt_cli.model.embeddings import Embeddings, RotaryPositions
from mt_cli.model.layers import DecoderLayer, EncoderLayer, dropout_rate, layer_norm


@dataclass
class AttentionWeights:
    """The weights of every layer, for those who want to look."""

    encoder: list[Tensor]  # (B,H,S,S) each
    decoder: list[Tensor]  # (B,H,T,T)
    cross: list[Tensor]  # (B,H,T,S)


class Transformer(nn.Module):
    def __init__(self, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int, pad_id: int):
        super().__init__()
        d_model = config.d_model
        scale = math.sqrt(d_model) if config.embedding_scale == "embedding" else 1.0

        def embeddings(vocab_size: int) -> Embeddings:
            return Embeddings(
                vocab_size,
                d_model,
                pad_id,
                n_positions=config.max_positions,
                first_position=config.first_position,
                has_positions=config.positions == "sinusoid",
                scale=scale,
                dropout=dropout_rate(config.embedding_dropout, config.dropout),
                norm=layer_norm(config) if config.embedding_norm else None,
            )

        self.src_embeddings, self.tgt_embeddings = embeddings(src_vocab_size), embeddings(tgt_vocab_size)
        rotary = RotaryPositions(config.max_positions, config.d_k) if config.positions != "sinusoid" else None
        self.encoder_layers = nn.ModuleList(EncoderLayer(config, rotary) for _ in range(config.n_encoder_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(config, rotary) for _ in range(config.n_decoder_layers))
        # With pre-norm the last residual sum has not been normalized yet.
        self.encoder_norm = layer_norm(config) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = layer_norm(config) if config.norm == "pre" else nn.Identity()
        self.projection = nn.Linear(d_model, tgt_vocab_size, bias=False)
        self.projection_scale = d_model**-0.5 if config.embedding_scale == "projection" else 1.0

        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        if config.embedding_init == "normal":
            # Xavier's bound shrinks with the vocabulary, until the positions drown what the tokens mean.
            for side in (self.src_embeddings, self.tgt_embeddings):
                nn.init.normal_(side.token.weight, std=1 / scale)
        if config.tie_embeddings != "none":
            self.projection.weight = self.tgt_embeddings.token.weight
        if config.tie_embeddings == "all":
            self.src_embeddings.token.weight = self.tgt_embeddings.token.weight
        for side in (self.src_embeddings, self.tgt_embeddings):
            nn.init.zeros_(side.token.weight[pad_id])

    @property
    def device(self) -> torch.device:
        return self.projection.weight.device

    def forward(self, src_ids: Tensor, src_mask: Tensor, tgt_in: Tensor, tgt_mask: Tensor) -> Tensor:
        """src_ids (B,S), src_mask (B,1,1,S), tgt_in (B,T), tgt_mask (B,1,T,T) -> logits (B,T,V)."""
        memory, _ = self.encode(src_ids, src_mask)
        hidden, _, _ = self.decode(tgt_in, tgt_mask, memory, src_mask)
        return self.project(hidden)

    def forward_with_weights(
        self, src_ids: Tensor, src_mask: Tensor, tgt_in: Tensor, tgt_mask: Tensor
    ) -> tuple[Tensor, AttentionWeights]:
        """`forward`, and how every layer attended."""
        memory, encoder = self.encode(src_ids, src_mask, return_weights=True)
        hidden, decoder, cross = self.decode(tgt_in, tgt_mask, memory, src_mask, return_weights=True)
        return self.project(hidden), AttentionWeights(encoder, decoder, cross)

    def encode(self, src_ids: Tensor, src_mask: Tensor, return_weights: bool = False) -> tuple[Tensor, list[Tensor]]:
        """The memory (B,S,D) that the decoder attends to, and each layer's weights when asked for."""
        x, all_weights = self.src_embeddings(src_ids), []
        for layer in self.encoder_layers:
            x, weights = layer(x, src_mask, return_weights)
            all_weights.append(weights)
        return self.encoder_norm(x), all_weights if return_weights else []

    def decode(
        self, tgt_in: Tensor, tgt_mask: Tensor, memory: Tensor, src_mask: Tensor, return_weights: bool = False
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The hidden states (B,T,D) of all target positions at once, and each layer's self and cross weights."""
        x, self_weights, cross_weights = self.tgt_embeddings(tgt_in), [], []
        for layer in self.decoder_layers:
            x, own, cross = layer(x, memory, src_mask, tgt_mask, return_weights)
            self_weights.append(own)
            cross_weights.append(cross)
        hidden = self.decoder_norm(x)
        return (hidden, self_weights, cross_weights) if return_weights else (hidden, [], [])

    def project(self, hidden: Tensor) -> Tensor:
        """(...,D) -> logits (...,V)."""
        return F.linear(hidden, self.projection.weight) * self.projection_scale
