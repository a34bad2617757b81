"""Forced decoding: how probable the model finds a translation that is given."""

from __future__ import annotations

import torch

from mt_cli.decoding.greedy import next_log_probs
from mt_cli.model.transformer import Transformer
from mt_cli.text.batching import pad, padding_mask, source_batch, subsequent_mask
from mt_cli.text.tokenizer import BOS_ID, EOS_ID


@torch.inference_mode()
def token_log_probs(model: Transformer, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
    """For each pair of ids the log-probability of every target token and, last, of the end symbol."""
    device = next(model.parameters()).device
    src_ids, src_mask = source_batch(sources)
    tgt_in = pad([[BOS_ID, *ids] for ids in targets])
    tgt_out = pad([[*ids, EOS_ID] for ids in targets]).to(device)
    tgt_mask = padding_mask(tgt_in) & subsequent_mask(tgt_in.size(1))
    logits = model(src_ids.to(device), src_mask.to(device), tgt_in.to(device), tgt_mask.to(device))
    scores = next_log_probs(logits).gather(2, tgt_out[:, :, None])[:, :, 0]  # (B,T)
    return [row[: len(ids) + 1] for row, ids in zip(scores.tolist(), targets, strict=True)]
