"""Beam search: the W best partial hypotheses of each sentence are extended at every step (Wu et al. 2016, section 7).

Shapes: B sentences, W beam width, R rows (partial hypotheses), S source length, t tokens so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mt_cli.data.tokenizer import BOS_ID, EOS_ID
from mt_cli.decoding.greedy import Hypothesis, SearchModel, live_rows, next_log_probs, refuse_nan


def length_penalty(length: int, alpha: float, normalization: str = "gnmt") -> float:
    """What a log-probability is divided by, the end symbol counted: ((5 + length) / 6) ** alpha, equation 14; or, as
    `average`, length ** alpha, with alpha 1 the mean of a token."""
    return float(((5 + length) / 6 if normalization == "gnmt" else length) ** alpha)


@torch.inference_mode()
def beam_search(
    model: SearchModel,
    src_ids: Tensor,
    src_mask: Tensor,
    max_lengths: list[int],
    beam_size: int,
    alpha: float,
    normalization: str = "gnmt",
    constraints: Constraints | None = None,
) -> list[list[Hypothesis]]:
    """Up to W hypotheses for each sentence of src_ids (B,S), best first."""
    beams = Beams(len(max_lengths), beam_size, src_ids.device)
    penalty = lambda length: length_penalty(length, alpha, normalization)
    finished = [Finished(beam_size, penalty, limit) for limit in max_lengths]
    state = model.start(src_ids, src_mask, max(max_lengths), beam_size)
    last = torch.full((len(max_lengths) * beam_size,), BOS_ID, device=src_ids.device)
    while True:
        log_probs = next_log_probs(model.advance(state, last))
        if constraints is not None:
            of_rows = [sentence for sentence in beams.sentences for _ in range(beam_size)]
            log_probs = constraints.apply(log_probs, beams.tokens.flatten(0, 1), of_rows)
        parents = beams.extend(log_probs, finished)
        for row, sentence in enumerate(beams.sentences):
            finished[sentence].take_unfinished(beams, row)
        best = beams.scores.max(1).values.tolist()
        refuse_nan(best)
        is_live = [not finished[one].is_closed(beams, row, best[row]) for row, one in enumerate(beams.sentences)]
        if not any(is_live):
            return [one.hypotheses for one in finished]
        rows = beams.keep(live_rows(is_live))
        state.select((rows[:, None] * beam_size + parents[rows]).flatten())
        last = beams.tokens[:, :, -1].flatten()


class Beams:
    """The W partial hypotheses of each sentence that is still searched, best first."""

    def __init__(self, n_sentences: int, beam_size: int, device: torch.device):
        self.beam_size = beam_size
        self.sentences = list(range(n_sentences))  # which sentence each row is
        self.tokens = torch.empty((n_sentences, beam_size, 0), dtype=torch.long, device=device)  # (B,W,t)
        # All W partial hypotheses are empty at first: only one of them may be extended.
        self.scores = torch.full((n_sentences, beam_size), -torch.inf, device=device)  # (B,W)
        self.scores[:, 0] = 0

    @property
    def length(self) -> int:
        return self.tokens.size(2)

    def extend(self, log_probs: Tensor, finished: list[Finished]) -> Tensor:
        """Extends by the best next tokens, by log_probs (B*W,V); hypotheses that end go to `finished`. Returns the
        index of the partial hypothesis that each new one continues, (B,W)."""
        vocab_size = log_probs.size(-1)
        totals = (self.scores[:, :, None] + log_probs.view(len(self.sentences), self.beam_size, -1)).flatten(1)
        # Of 2W at most W can end, one for each partial hypothesis, so at least W go on.
        scores, flat = totals.topk(min(2 * self.beam_size, totals.size(1)))
        parents, tokens = flat // vocab_size, flat % vocab_size
        is_end = tokens == EOS_ID
        # An end counts only among the best W continuations: there any other token would have been kept.
        rows, columns = (is_end & scores.isfinite())[:, : self.beam_size].nonzero().unbind(1)
        ended = rows, self.tokens[rows, parents[rows, columns]], scores[rows, columns]
        # One transfer for each tensor, not for each number: every transfer waits for the GPU.
        for row, ids, log_prob in zip(*(tensor.tolist() for tensor in ended), strict=True):
            finished[self.sentences[row]].add(ids, log_prob, self.length + 1)
        order = is_end.int().argsort(dim=1, stable=True)[:, : self.beam_size]
        parents, tokens = parents.gather(1, order), tokens.gather(1, order)
        self.scores = scores.gather(1, order).masked_fill(is_end.gather(1, order), -torch.inf)
        continued = self.tokens.gather(1, parents[:, :, None].expand(-1, -1, self.length))
        self.tokens = torch.cat([continued, tokens[:, :, None]], dim=2)
        return parents

    def keep(self, rows: list[int]) -> Tensor:
        index = torch.tensor(rows, device=self.tokens.device)
        self.tokens, self.scores = self.tokens[index], self.scores[index]
        self.sentences = [self.sentences[row] for row in rows]
        return index


class Finished:
    """The W best hypotheses of one sentence that have ended. One that was cut off is behind all that are complete."""

    def __init__(self, beam_size: int, penalty: Callable[[int], float], max_length: int):
        self.beam_size, self.penalty, self.max_length = beam_size, penalty, max_length
        self.hypotheses: list[Hypothesis] = []  # the W best, best first

    def add(self, ids: list[int], log_prob: float, length: int, is_complete: bool = True) -> None:
        self.hypotheses.append(Hypothesis(ids, log_prob / self.penalty(length), is_complete))
        self.hypotheses.sort(key=lambda hypothesis: (not hypothesis.is_complete, -hypothesis.score))
        del self.hypotheses[self.beam_size :]

    def take_unfinished(self, beams: Beams, row: int) -> None:
        """At the maximum length, if fewer than W hypotheses have ended, adds the partial ones as they are."""
        if beams.length >= self.max_length and len(self.hypotheses) < self.beam_size:
            for log_prob, ids in zip(beams.scores[row].tolist(), beams.tokens[row].tolist(), strict=True):
                if log_prob > -torch.inf:
                    self.add(ids, log_prob, beams.length, is_complete=False)

    def is_closed(self, beams: Beams, row: int, best: float) -> bool:
        """True when no partial hypothesis in `row`, of which the best has the score `best`, can beat the W finished ones. A
        beam of one is greedy search, which takes the first end."""
        if beams.length >= self.max_length or (self.beam_size == 1 and self.hypotheses):
            return True
        bound = best / self.penalty(self.max_length)  # no score can be higher, as log-probabilities only fall
        return bound == -torch.inf or (len(self.hypotheses) == self.beam_size and bound <= self.hypotheses[-1].score)


@dataclass(frozen=True)
class Constraints:
    """On the next token."""

    min_length: int = 0  # tokens before the end symbol
    no_repeat_ngram: int = 0  # no sequence of n tokens twice in a translation; 0: no limit
    prefixes: Sequence[Sequence[int]] = ()  # what each sentence's translation begins with
    symbols: Sequence[Sequence[int]] = ()  # of spans, that each sentence's translation has, once, or none of a batch
    all_symbols: Sequence[int] = ()  # of which a translation has no others

    def apply(self, log_probs: Tensor, tokens: Tensor, sentences: list[int]) -> Tensor:
        """log_probs (R,V) with -inf for what is forbidden after tokens (R,t); a row without any other token may end.
        `sentences`: that of each row."""
        n_tokens = tokens.size(1)
        allowed = log_probs.clone()
        if n_tokens < self.min_length:
            allowed[:, EOS_ID] = -torch.inf
        if 0 < self.no_repeat_ngram <= n_tokens:
            ngrams = tokens.unfold(1, self.no_repeat_ngram, 1)  # (R,t-n+1,n)
            last = tokens[:, None, n_tokens - self.no_repeat_ngram + 1 :]  # (R,1,n-1)
            rows, places = (ngrams[:, :, :-1] == last).all(-1).nonzero(as_tuple=True)
            allowed[rows, ngrams[rows, places, -1]] = -torch.inf  # which would complete one that the row has already
        if any(self.prefixes):
            for row, sentence in enumerate(sentences):
                prefix = self.prefixes[sentence]
                if n_tokens < len(prefix):
                    allowed[row] = -torch.inf
                    allowed[row, prefix[n_tokens]] = log_probs[row, prefix[n_tokens]]
        if any(self.symbols):
            ids = torch.tensor(sorted({*self.all_symbols}.union(*self.symbols)), device=tokens.device)
            is_own = torch.tensor([[i in own for i in ids.tolist()] for own in self.symbols], device=tokens.device)
            is_due = is_own[sentences] & ~(tokens[:, :, None] == ids).any(1)  # (R, number of ids)
            allowed[:, ids] = allowed[:, ids].masked_fill(~is_due, -torch.inf)
            allowed[is_due.any(1), EOS_ID] = -torch.inf  # the end comes after all symbols
        is_stuck = allowed.amax(1) == -torch.inf
        allowed[is_stuck, EOS_ID] = log_probs[is_stuck, EOS_ID]
        return allowed
