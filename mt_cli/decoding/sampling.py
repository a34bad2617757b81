"""Sampling: the next token drawn by its probability, from all tokens, the k most probable, or the fewest that make up p
(Fan et al. 2018; Holtzman et al. 2020). And how alike samples are, which chooses one of them (minimum Bayes risk).

Shapes: B sentences, R rows that are not yet complete, S source length, V vocabulary.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mt_cli.decoding.beam import Constraints
from mt_cli.decoding.greedy import Hypothesis, SearchModel, left_to_right

_ORDERS = range(1, 7)  # of chrF: lengths of n-grams of characters


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
    """One sampled hypothesis for each sentence of src_ids (B,S). Each has its own seed, so that it does not depend on the
    others. Scores are the model's log-probabilities, before temperature, top_k and top_p change them."""
    numbers = np.stack([np.random.default_rng(seed).random(max(max_lengths)) for seed in seeds])
    uniform = torch.tensor(numbers, dtype=torch.float32, device=src_ids.device)  # (B, most tokens)

    def choose(log_probs: Tensor, sentences: list[int], ids: list[list[int]]) -> Tensor:
        if constraints is not None:
            log_probs = constraints.apply(log_probs, torch.tensor(ids, device=log_probs.device).long(), sentences)
        return draw(log_probs, uniform[sentences, len(ids[0])], temperature, top_k, top_p)

    return left_to_right(model, src_ids, src_mask, max_lengths, choose)


def draw(log_probs: Tensor, uniform: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """A token (R,) for each row of log_probs (R,V): the one at which the cumulative probability exceeds uniform (R,)."""
    probs = (log_probs / temperature).softmax(-1)
    if top_k or top_p < 1:
        falling, order = probs.sort(dim=-1, descending=True)
        if top_k:
            falling[:, top_k:] = 0
        before = falling.cumsum(-1) - falling
        falling = falling.masked_fill(before >= top_p, 0)  # always keeps the most probable one
        probs = torch.zeros_like(probs).scatter(1, order, falling)
    summed = probs.cumsum(-1)
    least = (1 - 1e-6) * uniform[:, None] * summed[:, -1:]  # below the sum, also where a number is rounded to 1
    return (summed > least).int().argmax(-1)


def most_alike_first(texts: Sequence[str], beta: float) -> list[int]:
    """The places of samples, that of the one most like all of them first (Kumar and Byrne 2004; Eikema and Aziz 2020)."""
    return (-likeness(texts, beta).mean(1)).argsort(kind="stable").tolist()


def likeness(texts: Sequence[str], beta: float) -> npt.NDArray[np.float64]:
    """The chrF (Popović 2015), of 1, of each text with each other one as its reference. `beta`: how often recall counts."""
    texts, size = ["".join(text.split()) for text in texts], (len(texts), len(texts))
    precision, recall, n_orders = np.zeros(size), np.zeros(size), np.zeros(size)
    for n in _ORDERS:
        grams = [Counter(text[i : i + n] for i in range(len(text) - n + 1)) for text in texts]
        places = {gram: place for place, gram in enumerate(dict.fromkeys(gram for own in grams for gram in own))}
        counts = np.zeros((len(texts), len(places)))
        for row, of_text in zip(counts, grams, strict=True):
            row[[places[gram] for gram in of_text]] = list(of_text.values())
        n_own, n_shared = counts.sum(1), np.array([np.minimum(own, counts).sum(1) for own in counts])
        precision += n_shared / np.maximum(n_own, 1)[:, None]
        recall += n_shared / np.maximum(n_own, 1)
        n_orders += np.minimum.outer(n_own, n_own) > 0
    mean = np.maximum(n_orders, 1)
    precision, recall = precision / mean, recall / mean
    return (1 + beta**2) * precision * recall / np.maximum(beta**2 * precision + recall, 1e-9)
