"""Beam search: the W best beginnings are carried on at every step (Wu et al. 2016, section 7, for the length penalty).

Shapes: B sentences, W beam width, S source length, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mt_cli.decoding.greedy import Hypothesis, next_log_probs
from mt_cli.model.transformer import Transformer
from mt_cli.text.tokenizer import BOS_ID, EOS_ID


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6) ** alpha, equation 14; `length` counts the end symbol."""
    return float(((5 + length) / 6) ** alpha)


@torch.inference_mode()
def beam_search(
    model: Transformer, src_ids: Tensor, src_mask: Tensor, max_lengths: list[int], beam_size: int, alpha: float
) -> list[list[Hypothesis]]:
    """Up to W hypotheses for each sentence of src_ids (B,S), best first.

    A sentence is done when no beginning in its beam can still beat the W finished ones: log-probabilities only fall,
    so the best that a beginning can come to is its own, divided by the largest penalty its length limit allows.
    """
    n, device = len(max_lengths), src_ids.device
    state = model.start(src_ids, src_mask, max(max_lengths))
    state.select(torch.arange(n, device=device).repeat_interleave(beam_size))
    beams = torch.full((n, beam_size), -torch.inf, device=device)
    beams[:, 0] = 0  # all W beginnings are the same at first: only one may be carried on
    tokens = torch.empty((n, beam_size, 0), dtype=torch.long, device=device)
    last = torch.full((n * beam_size,), BOS_ID, device=device)
    sentences = list(range(n))  # that the rows of `beams` belong to
    finished: list[list[Hypothesis]] = [[] for _ in range(n)]

    for length in range(1, max(max_lengths) + 1):
        log_probs = next_log_probs(model.advance(state, last)).view(len(sentences), beam_size, -1)
        vocab_size = log_probs.size(-1)
        totals = (beams[:, :, None] + log_probs).flatten(1)  # (B, W*V)
        # Of 2W continuations at most W can end, so at least W go on.
        best, flat = totals.topk(min(2 * beam_size, totals.size(1)))
        parent, token = flat // vocab_size, flat % vocab_size
        is_end = token == EOS_ID
        for row, column in (is_end & best.isfinite()).nonzero().tolist():
            if column < beam_size:
                ids = tokens[row, parent[row, column]].tolist()
                score = float(best[row, column]) / length_penalty(length, alpha)
                finished[sentences[row]].append(Hypothesis(ids, score))

        order = is_end.int().argsort(dim=1, stable=True)[:, :beam_size]  # the best W that go on, in their order
        beams = best.gather(1, order).masked_fill(is_end.gather(1, order), -torch.inf)
        parent, token = parent.gather(1, order), token.gather(1, order)
        tokens = torch.cat([tokens.gather(1, parent[:, :, None].expand(-1, -1, length - 1)), token[:, :, None]], dim=2)

        kept = [
            row
            for row, sentence in enumerate(sentences)
            if not _is_done(
                finished[sentence], beams[row], tokens[row], length, max_lengths[sentence], beam_size, alpha
            )
        ]
        if not kept:
            break
        rows = torch.tensor(kept, device=device)
        state.select((rows[:, None] * beam_size + parent[rows]).flatten())
        beams, tokens, last = beams[rows], tokens[rows], token[rows].flatten()
        sentences = [sentences[row] for row in kept]
    return [sorted(hypotheses, key=lambda h: -h.score)[:beam_size] for hypotheses in finished]


def _is_done(
    finished: list[Hypothesis],
    beam: Tensor,
    tokens: Tensor,
    length: int,
    max_length: int,
    beam_size: int,
    alpha: float,
) -> bool:
    """Whether a sentence needs no further step; one at its length limit takes its unfinished beginnings as they are."""
    if length == max_length:
        if len(finished) < beam_size:
            for score, ids in zip(beam.tolist(), tokens.tolist(), strict=True):
                if score > -torch.inf:
                    finished.append(Hypothesis(ids, score / length_penalty(length, alpha)))
        return True
    if len(finished) < beam_size:
        return bool((beam == -torch.inf).all())
    worst = sorted((h.score for h in finished), reverse=True)[beam_size - 1]
    return float(beam.max()) / length_penalty(max_length, alpha) <= worst
