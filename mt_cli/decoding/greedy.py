"""Greedy search: at every step the most probable next token. A beam of one must equal it.

Shapes: B sentences, R rows that are not yet complete, S source length, V vocabulary.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mt_cli.errors import CheckpointError


class SearchModel(Protocol):
    """What a search asks of a model: `InferenceModel`, or an ensemble of several."""

    def start(self, src_ids: Tensor, src_mask: Tensor, max_length: int, beam_size: int = 1) -> Any: ...

    def advance(self, state: Any, last_ids: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Hypothesis:
    ids: list[int]  # without begin and end symbols
    score: float  # log-probability, end symbol included, divided by the length penalty of a beam search
    is_complete: bool = True  # ended by the end symbol, not cut off at the maximum length

    @property
    def ids_with_end(self) -> list[int]:
        """`ids`, and the end symbol if there was one."""
        return [*self.ids, EOS_ID] if self.is_complete else self.ids


def next_log_probs(logits: Tensor) -> Tensor:
    """Log-probabilities (...,V) of the next token; -inf for symbols that are never part of a translation. A logit that is
    NaN or +inf makes its whole row NaN. Overwrites `logits`."""
    log_probs = logits.float()
    for symbol in (PAD_ID, BOS_ID, UNK_ID):  # a list of them would be copied to a GPU, which waits
        log_probs[..., symbol] = -torch.inf
    return log_probs.log_softmax(-1)


def refuse_nan(log_probs: Iterable[float]) -> None:
    """Raises CheckpointError: all that a search made of such numbers would be blank or endless."""
    if any(map(math.isnan, log_probs)):
        raise CheckpointError("the model computes values that are not finite; choose an earlier checkpoint")


class Choose(Protocol):
    def __call__(self, log_probs: Tensor, sentences: list[int], ids: list[list[int]]) -> Tensor:
        """The next token of each row of log_probs (R,V), which belongs to one of `sentences` and has its `ids` so far."""


def greedy_search(model: SearchModel, src_ids: Tensor, src_mask: Tensor, max_lengths: list[int]) -> list[Hypothesis]:
    """One hypothesis for each sentence of src_ids (B,S), of at most its own `max_lengths` tokens."""
    return left_to_right(model, src_ids, src_mask, max_lengths, lambda log_probs, *_: log_probs.argmax(-1))


@torch.inference_mode()
def left_to_right(
    model: SearchModel, src_ids: Tensor, src_mask: Tensor, max_lengths: list[int], choose: Choose
) -> list[Hypothesis]:
    """As `greedy_search`, with the token that `choose` takes at each step."""
    state = model.start(src_ids, src_mask, max(max_lengths))
    ids: list[list[int]] = [[] for _ in max_lengths]
    scores = [0.0] * len(max_lengths)
    sentences = list(range(len(max_lengths)))  # the one that each row of the state belongs to
    last = torch.full_like(src_ids[:, 0], BOS_ID)
    while sentences:
        log_probs = next_log_probs(model.advance(state, last))
        last = choose(log_probs, sentences, [ids[sentence] for sentence in sentences])
        found = log_probs.gather(1, last[:, None])[:, 0]
        found, tokens = torch.stack([found, last.to(found.dtype)]).tolist()  # each transfer waits for the GPU
        refuse_nan(found)
        is_live = []
        for sentence, log_prob, token in zip(sentences, found, map(int, tokens), strict=True):
            scores[sentence] += log_prob
            if token != EOS_ID:
                ids[sentence].append(token)
            is_live.append(token != EOS_ID and len(ids[sentence]) < max_lengths[sentence])
        if not all(is_live):
            kept = live_rows(is_live)
            sentences = [sentences[row] for row in kept]
            rows = torch.tensor(kept, dtype=torch.long, device=last.device)
            state.select(rows)
            last = last[rows]
    ended = zip(ids, scores, max_lengths, strict=True)
    return [Hypothesis(own, score, len(own) < limit) for own, score, limit in ended]


def live_rows(is_live: list[bool]) -> list[int]:
    """The rows to continue with. Gaps are filled from the end, so that few rows move and have to be copied."""
    n_live = sum(is_live)
    from_end = [row for row in range(n_live, len(is_live)) if is_live[row]]
    return [row if is_live[row] else from_end.pop() for row in range(n_live)]
