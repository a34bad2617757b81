"""What training minimises: cross-entropy against smoothed labels (Szegedy et al. 2016, section 7)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mt_cli.model.transformer import Transformer
from mt_cli.text.batching import Batch
from mt_cli.text.tokenizer import PAD_ID


def summed_loss(network: Transformer, batch: Batch, label_smoothing: float) -> Tensor:
    """The loss in nats, summed over the target tokens of the batch; the caller divides by those of the whole update.

    Only positions with a target are projected to the vocabulary: padding costs no logits.
    """
    memory, _ = network.encode(batch.src_ids, batch.src_mask)
    hidden, _, _ = network.decode(batch.tgt_in, batch.tgt_mask, memory, batch.src_mask)
    is_token = batch.tgt_out != PAD_ID
    logits = network.project(hidden[is_token])  # (n_tokens, V)
    return F.cross_entropy(logits, batch.tgt_out[is_token], label_smoothing=label_smoothing, reduction="sum")
