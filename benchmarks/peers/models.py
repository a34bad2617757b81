"""The peers that are models without a loop of their own. Each maps src_ids (B,S) and tgt_in (B,T) to logits (B,T,V)."""

from __future__ import annotations

import math
from typing import Any

import torch
from corpus import BOS_ID, EOS_ID, PAD_ID
from torch import Tensor, nn


class Marian(nn.Module):
    """Hugging Face's MarianMTModel."""

    def __init__(self, work: dict[str, Any]):
        from transformers import MarianConfig, MarianMTModel

        super().__init__()
        dropouts = {
            key: work["dropout"] if work[key] is None else work[key] for key in ("attention_dropout", "ffn_dropout")
        }
        config = MarianConfig(
            vocab_size=work["vocab_size"],
            d_model=work["d_model"],
            encoder_layers=work["n_encoder_layers"],
            decoder_layers=work["n_decoder_layers"],
            encoder_ffn_dim=work["ffn_dim"],
            decoder_ffn_dim=work["ffn_dim"],
            encoder_attention_heads=work["n_heads"],
            decoder_attention_heads=work["n_heads"],
            activation_function="relu",
            dropout=work["dropout"],
            attention_dropout=dropouts["attention_dropout"],
            activation_dropout=dropouts["ffn_dropout"],
            scale_embedding=True,
            pad_token_id=PAD_ID,
            bos_token_id=BOS_ID,
            eos_token_id=EOS_ID,
            forced_eos_token_id=None,
            decoder_start_token_id=BOS_ID,
        )
        self.model = MarianMTModel(config)

    def forward(self, src_ids: Tensor, tgt_in: Tensor) -> Tensor:
        output = self.model(input_ids=src_ids, attention_mask=src_ids != PAD_ID, decoder_input_ids=tgt_in)
        return output.logits


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, positions and masks as in PyTorch's translation tutorial, weights tied."""

    def __init__(self, work: dict[str, Any]):
        super().__init__()
        self.d_model = work["d_model"]
        self.embedding = nn.Embedding(work["vocab_size"], self.d_model, padding_idx=PAD_ID)
        self.transformer = nn.Transformer(
            self.d_model,
            work["n_heads"],
            work["n_encoder_layers"],
            work["n_decoder_layers"],
            work["ffn_dim"],
            work["dropout"],
        )
        self.dropout = nn.Dropout(work["dropout"])
        self.generator = nn.Linear(self.d_model, work["vocab_size"])
        self.generator.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=self.d_model**-0.5)
        self.positions: Tensor
        self.register_buffer("positions", sinusoids(1024, self.d_model))

    def embed(self, ids: Tensor) -> Tensor:
        """ids (T,B) -> (T,B,D)"""
        return self.dropout(self.embedding(ids) * math.sqrt(self.d_model) + self.positions[: len(ids), None])

    def forward(self, src_ids: Tensor, tgt_in: Tensor) -> Tensor:
        src_padding, tgt_padding = src_ids == PAD_ID, tgt_in == PAD_ID
        n = tgt_in.size(1)
        output = self.transformer(
            self.embed(src_ids.T),
            self.embed(tgt_in.T),
            tgt_mask=torch.ones(n, n, dtype=torch.bool).triu(1),  # True: may not be attended
            src_key_padding_mask=src_padding,
            tgt_key_padding_mask=tgt_padding,
            memory_key_padding_mask=src_padding,
        )
        return self.generator(output.transpose(0, 1))


def sinusoids(n_positions: int, d_model: int) -> Tensor:
    frequencies = torch.exp(-torch.arange(0, d_model, 2) * math.log(10000) / d_model)
    angles = torch.arange(n_positions)[:, None] * frequencies
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


MODELS = {"marian": Marian, "torch": TorchTransformer}
