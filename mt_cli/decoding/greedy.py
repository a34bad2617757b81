"""Greedy search: at every step the most probable next token. The introduction to decoding, and what beam search with a
beam of one must equal.

Shapes: B sentences, S source length, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from mt_cli.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID


class SearchModel(Protocol):
    """What a search asks of a model: `Transformer`, or an ensemble of several."""

    def start(self, src_ids: Tensor, src_mask: Tensor, max_length: int) -> Any: ...

    def advance(self, state: Any, last_ids: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Hypothesis:
    ids: list[int]  # without begin and end symbols
    score: float  # log-probability, end symbol included, divided by the length penalty of the search


def next_log_probs(logits: Tensor) -> Tensor:
    """Log-probabilities (...,V) of the next token; symbols that are never part of a translation get none."""
    never = torch.tensor([PAD_ID, BOS_ID, UNK_ID], device=logits.device)
    return logits.float().index_fill(-1, never, -torch.inf).log_softmax(-1)


@torch.inference_mode()
def greedy_search(model: SearchModel, src_ids: Tensor, src_mask: Tensor, max_lengths: list[int]) -> list[Hypothesis]:
    """One hypothesis for each sentence of src_ids (B,S), of at most its own `max_lengths` tokens."""
    device = src_ids.device
    state = model.start(src_ids, src_mask, max(max_lengths))
    tokens = torch.full((len(max_lengths), max(max_lengths)), EOS_ID, device=device)
    scores = torch.zeros(len(max_lengths), device=device)
    limits = torch.tensor(max_lengths, device=device)
    rows = torch.arange(len(max_lengths), device=device)  # the sentence that each row of the state belongs to
    last = torch.full_like(rows, BOS_ID)
    is_live = torch.ones_like(rows, dtype=torch.bool)
    for step in range(max(max_lengths)):
        log_probs, last = next_log_probs(model.advance(state, last)).max(-1)
        scores[rows] += log_probs * is_live
        tokens[rows, step] = torch.where(is_live, last, EOS_ID)
        is_live &= (last != EOS_ID) & (step + 1 < limits[rows])
        n_live = int(is_live.sum())
        if n_live == 0:
            break
        if n_live * 2 <= len(rows):  # copying the state costs about a step, so not for every sentence that finishes
            kept = is_live.nonzero()[:, 0]
            state.select(kept)
            rows, last, is_live = rows[kept], last[kept], is_live[kept]
    return [
        Hypothesis(ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids, score)
        for ids, score in zip(tokens.tolist(), scores.tolist(), strict=True)
    ]
