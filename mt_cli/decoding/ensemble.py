"""Several models as one, whose probability of a token is the mean of theirs: for a search, and to score given translations.

Shapes: N target tokens, n of these at a time, V target vocabulary.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from mt_cli.data.batching import Batch, batch_of, batches_by_length
from mt_cli.decoding.greedy import next_log_probs, refuse_nan
from mt_cli.errors import UsageError
from mt_cli.model.inference import DecoderState, InferenceModel
from mt_cli.model.transformer import Transformer

_MAX_LOGITS = 1 << 22  # at a time: those of a whole batch would take more memory than a training step


class EnsembleState(list[DecoderState]):
    def select(self, rows: Tensor) -> None:
        for state in self:
            state.select(rows)


class Ensemble:
    """Has the methods of an `InferenceModel`, so a search treats it like one. All models share a target vocabulary."""

    def __init__(self, models: list[InferenceModel]):
        self.models = models

    def start(self, src_ids: Tensor, src_mask: Tensor, max_length: int, beam_size: int = 1) -> EnsembleState:
        return EnsembleState(model.start(src_ids, src_mask, max_length, beam_size) for model in self.models)

    def advance(self, state: EnsembleState, last_ids: Tensor) -> Tensor:
        return averaged([model.advance(own, last_ids) for model, own in zip(self.models, state, strict=True)])


def averaged(logits: Sequence[Tensor]) -> Tensor:
    """Logits (...,V) whose softmax is the mean of the softmax of each of `logits`."""
    return torch.stack([one.float().log_softmax(-1) for one in logits]).logsumexp(0)


def target_logits(model: Transformer, batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits (n,V) and ids (n) of the batch's target tokens in their order, without padding, n at a time."""
    hidden = batch.without_padding(model(batch.src_ids, batch.src_mask, batch.tgt_in, batch.tgt_mask))  # (N,D)
    n_rows = max(1, _MAX_LOGITS // model.projection.weight.size(0))
    for rows, ids in zip(hidden.split(n_rows), batch.targets.split(n_rows), strict=True):
        yield model.project(rows), ids


@torch.inference_mode()
def token_scores(models: Sequence[Transformer], pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
    """For each pair of ids, the log-probability of each target token and of the end. Raises UsageError for long pairs."""
    limit, lengths = min(model.positions.n_positions for model in models) - 1, [max(map(len, pair)) for pair in pairs]
    if (longest := max(lengths, default=0)) > limit:
        raise UsageError(f"{longest} tokens in a line to be scored, the model reads at most {limit}; shorten it")
    scores: list[list[float]] = [[] for _ in pairs]
    for chosen in batches_by_length(lengths):
        batch = batch_of(*([pairs[i][side] for i in chosen] for side in (0, 1))).to(models[0].device)
        log_probs = list[float]()  # of all pairs of the batch, one after the other
        for of_models in zip(*(target_logits(model, batch) for model in models), strict=True):
            rows = next_log_probs(averaged([logits for logits, _ in of_models]))  # (n,V)
            log_probs += rows.gather(1, of_models[0][1][:, None])[:, 0].tolist()
        refuse_nan(log_probs)
        remaining = iter(log_probs)
        for i in chosen:
            scores[i] = list(islice(remaining, len(pairs[i][1]) + 1))
    return scores
