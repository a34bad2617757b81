"""Constraints on the next token of a search: a minimum length, no repeated n-gram, a given prefix.

Shapes: R rows (partial hypotheses), t tokens so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mt_cli.data.tokenizer import EOS_ID


@dataclass(frozen=True)
class Constraints:
    min_length: int = 0  # tokens before the end symbol
    no_repeat_ngram: int = 0  # no sequence of n tokens twice in a translation; 0: no limit
    prefixes: Sequence[Sequence[int]] = ()  # what each sentence's translation begins with; () for no prefixes
    symbols: Sequence[Sequence[int]] = ()  # of spans, that each sentence's translation has, once; () for none
    all_symbols: Sequence[int] = ()  # of which a translation has no others

    def apply(self, log_probs: Tensor, tokens: Tensor, sentences: list[int]) -> Tensor:
        """log_probs (R,V) with -inf for what is forbidden after tokens (R,t); `sentences` names the rows' sentences.

        A row in which every token is forbidden may end.
        """
        n_tokens = tokens.size(1)
        allowed = log_probs.clone()
        if n_tokens < self.min_length:
            allowed[:, EOS_ID] = -torch.inf
        if 0 < self.no_repeat_ngram <= n_tokens:
            ngrams = tokens.unfold(1, self.no_repeat_ngram, 1)  # (R,t-n+1,n)
            last = tokens[:, None, n_tokens - self.no_repeat_ngram + 1 :]  # (R,1,n-1)
            rows, places = (ngrams[:, :, :-1] == last).all(-1).nonzero(as_tuple=True)
            allowed[rows, ngrams[rows, places, -1]] = -torch.inf  # which would complete one that the row has already
        if self.prefixes:
            for row, sentence in enumerate(sentences):
                prefix = self.prefixes[sentence]
                if n_tokens < len(prefix):
                    allowed[row] = -torch.inf
                    allowed[row, prefix[n_tokens]] = log_probs[row, prefix[n_tokens]]
        if self.symbols:
            self._require_symbols(allowed, tokens, sentences)
        is_stuck = allowed.amax(1) == -torch.inf
        allowed[is_stuck, EOS_ID] = log_probs[is_stuck, EOS_ID]
        return allowed

    def _require_symbols(self, allowed: Tensor, tokens: Tensor, sentences: list[int]) -> None:
        """Forbids symbols that a sentence has not or that were written, and the end before all were."""
        ids = torch.tensor(sorted({*self.all_symbols}.union(*self.symbols)), device=tokens.device)
        is_own = torch.tensor([[i in own for i in ids.tolist()] for own in self.symbols], device=tokens.device)
        is_due = is_own[sentences] & ~(tokens[:, :, None] == ids).any(1)  # (R, number of ids)
        allowed[:, ids] = allowed[:, ids].masked_fill(~is_due, -torch.inf)
        allowed[is_due.any(1), EOS_ID] = -torch.inf
