"""Forced decoding: how probable the model finds a given translation.

Shapes: N target tokens, n of these at a time, V target vocabulary.
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

_MAX_LOGITS = 1 << 22  # at a time: those of a whole batch would take more memory than a step of training


def target_logits(model: Transformer, batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits (n,V) and ids (n) of the batch's target tokens in their order, without padding, n at a time."""
    hidden = batch.without_padding(model(batch.src_ids, batch.src_mask, batch.tgt_in, batch.tgt_mask))  # (N,D)
    n_rows = max(1, _MAX_LOGITS // model.projection.weight.size(0))
    for rows, ids in zip(hidden.split(n_rows), batch.targets.split(n_rows), strict=True):
        yield model.project(rows), ids


@torch.inference_mode()
def token_log_probs(
    models: Sequence[Transformer], sources: list[list[int]], targets: list[list[int]]
) -> list[list[float]]:
    """For each pair of ids, the log-probability of every target token and, last, of the end symbol.

    With several models, of the mean of their probabilities, by which an ensemble searches.
    """
    batch = batch_of(sources, targets).to(models[0].device)
    log_probs = list[float]()  # of all pairs, one after the other
    for of_models in zip(*(target_logits(model, batch) for model in models), strict=True):
        ids = of_models[0][1]
        parts = next_log_probs(averaged([logits for logits, _ in of_models]))  # (n,V)
        log_probs += parts.gather(1, ids[:, None])[:, 0].tolist()
    ends = accumulate(len(ids) + 1 for ids in targets)
    return [log_probs[end - len(ids) - 1 : end] for end, ids in zip(ends, targets, strict=True)]
