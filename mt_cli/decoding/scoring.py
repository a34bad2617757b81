"""Forced decoding: how probable the model finds a translation that is given.

Letters in shapes: V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from mt_cli.decoding.ensemble import averaged
from mt_cli.decoding.greedy import next_log_probs
from mt_cli.model.transformer import Transformer
from mt_cli.text.batching import Batch, batch_of

_LOGITS_AT_ONCE = 1 << 22  # those of a whole batch would take more memory than a step of training


def target_logits(model: Transformer, batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits (n,V) and ids (n) of all target tokens of a batch that are no padding, in order, n at a time."""
    memory, _ = model.encode(batch.src_ids, batch.src_mask)
    hidden, _, _ = model.decode(batch.tgt_in, batch.tgt_mask, memory, batch.src_mask)
    n = max(1, _LOGITS_AT_ONCE // model.projection.weight.size(0))
    for part, ids in zip(batch.without_padding(hidden).split(n), batch.targets.split(n), strict=True):
        yield model.project(part), ids


@torch.inference_mode()
def token_log_probs(
    models: Sequence[Transformer], sources: list[list[int]], targets: list[list[int]]
) -> list[list[float]]:
    """For each pair of ids the log-probability of every target token and, last, of the end symbol.

    Of several models it is that of their mean probability, as an ensemble searches by.
    """
    batch = batch_of(sources, targets).to(models[0].device)
    scores = list[float]()
    for members in zip(*(target_logits(model, batch) for model in models), strict=True):
        ids = members[0][1]
        log_probs = next_log_probs(averaged([logits for logits, _ in members]))
        scores += log_probs.gather(1, ids[:, None])[:, 0].tolist()
    ends = accumulate(len(ids) + 1 for ids in targets)
    return [scores[end - len(ids) - 1 : end] for end, ids in zip(ends, targets, strict=True)]
