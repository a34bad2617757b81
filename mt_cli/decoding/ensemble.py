"""Several models searched as one: the next token's probability is the mean of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mt_cli.model.decoder_state import DecoderState
from mt_cli.model.inference import InferenceModel


@dataclass
class EnsembleState:
    states: list[DecoderState]  # one of each model

    def select(self, rows: Tensor) -> None:
        for state in self.states:
            state.select(rows)


class Ensemble:
    """Has the methods of an `InferenceModel`, so a search treats it like one. All models share a target vocabulary."""

    def __init__(self, models: list[InferenceModel]):
        self.models = models

    def start(self, src_ids: Tensor, src_mask: Tensor, max_length: int, beam_size: int = 1) -> EnsembleState:
        return EnsembleState([model.start(src_ids, src_mask, max_length, beam_size) for model in self.models])

    def advance(self, state: EnsembleState, last_ids: Tensor) -> Tensor:
        pairs = zip(self.models, state.states, strict=True)
        return averaged([model.advance(own_state, last_ids) for model, own_state in pairs])


def averaged(logits: Sequence[Tensor]) -> Tensor:
    """Logits (...,V) whose softmax is the mean of the softmax of each of `logits`."""
    return torch.stack([one.float().log_softmax(-1) for one in logits]).logsumexp(0)
