"""Sampling: the next token drawn by its probability, from all tokens, the k most probable, or the fewest that make up p
(Fan et al. 2018; Holtzman et al. 2020).

Shapes: B rows, S source length, V vocabulary.
"""

import numpy as np
import torch
from torch import Tensor

from mt_cli.data.tokenizer import BOS_ID, EOS_ID
from mt_cli.decoding.beam import Constraints
from mt_cli.decoding.greedy import Hypothesis, SearchModel, next_log_probs, refuse_nan


@torch.inference_mode()
def sample(
    model: SearchModel,
    src_ids: Tensor,
    src_mask: Tensor,
    max_lengths: list[int],
    seeds: list[tuple[int, ...]],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    constraints: Constraints | None = None,
) -> list[Hypothesis]:
    """One sampled hypothesis for each row of src_ids (B,S). Each has its own seed, so that it does not depend on the others.
    Scores are the model's log-probabilities, before temperature, top_k and top_p change them."""
    device, n_steps = src_ids.device, max(max_lengths)
    numbers = np.stack([np.random.default_rng(seed).random(n_steps) for seed in seeds])
    uniform = torch.tensor(numbers, dtype=torch.float32, device=device)  # (B, n_steps)
    state = model.start(src_ids, src_mask, n_steps)
    tokens = torch.empty((len(seeds), 0), dtype=torch.long, device=device)
    scores = torch.zeros(len(seeds), device=device)
    limits = torch.tensor(max_lengths, device=device)
    is_live = torch.ones(len(seeds), dtype=torch.bool, device=device)
    last = torch.full((len(seeds),), BOS_ID, device=device)
    for step in range(n_steps):
        log_probs = next_log_probs(model.advance(state, last))
        if constraints is not None:
            log_probs = constraints.apply(log_probs, tokens, list(range(len(seeds))))
        last = draw(log_probs, uniform[:, step], temperature, top_k, top_p)
        scores += log_probs.gather(1, last[:, None])[:, 0].masked_fill(~is_live, 0)
        last = last.masked_fill(~is_live, EOS_ID)
        tokens = torch.cat([tokens, last[:, None]], dim=1)
        is_live &= (last != EOS_ID) & (step + 1 < limits)
        if not is_live.any():
            break
    refuse_nan(scores.tolist())
    outputs = [ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids for ids in tokens.tolist()]
    found = zip(outputs, scores.tolist(), max_lengths, strict=True)
    return [Hypothesis(ids, score, len(ids) < limit) for ids, score, limit in found]


def draw(log_probs: Tensor, uniform: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """A token (B,) for each row of log_probs (B,V): the one at which the cumulative probability exceeds uniform (B,)."""
    probs, order = (log_probs / temperature).softmax(-1).sort(dim=-1, descending=True)
    if top_k:
        probs[:, top_k:] = 0
    before = probs.cumsum(-1) - probs
    probs = probs.masked_fill(before >= top_p, 0)  # always keeps the most probable one
    summed = probs.cumsum(-1)
    passed = summed > uniform[:, None] * summed[:, -1:]
    return order.gather(1, passed.int().argmax(-1, keepdim=True))[:, 0]
