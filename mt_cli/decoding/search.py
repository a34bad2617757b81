"""The search that the settings ask for: greedy, beam or sampling; and several models as one. A new option is a key of
`DecodingConfig`, and its use: in `Constraints` (beam.py) for what the next token may be, in `length_penalty` and
`Finished` for how hypotheses are ranked, in `draw` for how a token is drawn. `Searcher.search_batch` hands it on.

Shapes: B rows, S source length, N target tokens, n of these at a time, V target vocabulary.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from mt_cli.config import DecodingConfig
from mt_cli.config_file import explain_errors
from mt_cli.data.batching import Batch, batch_of, batches_by_length, source_batch
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, Tokenizer
from mt_cli.decoding.beam import Constraints, beam_search
from mt_cli.decoding.greedy import Hypothesis, SearchModel, greedy_search, next_log_probs, refuse_nan
from mt_cli.decoding.terms import TERM_WIDTH, Phrase, TermBeams
from mt_cli.errors import UsageError
from mt_cli.model.inference import DecoderState, InferenceModel
from mt_cli.model.transformer import Transformer

_MAX_LOGITS = 1 << 22  # at a time: those of a whole batch would take more memory than a training step


class Request(NamedTuple):
    """A part of a line to translate. Equal requests have equal translations."""

    src_ids: tuple[int, ...]
    prefix: tuple[int, ...]
    seed: tuple[int, ...]  # () where nothing is sampled
    max_length: int  # tokens
    symbols: tuple[int, ...] = ()  # ids that the translation has, each once
    terms: tuple[Phrase, ...] = ()  # that it has as often as they stand here


def adapted_settings(defaults: DecodingConfig, options: dict[str, Any], vocab_size: float = math.inf) -> DecodingConfig:
    """`defaults`, in which `options` replace values. They also adapt what they contradict: a beam size turns sampling off
    and limits `n_best`; `n_best` widens the beam. Raises UsageError with a line for every problem."""
    options = dict(options)
    if "beam_size" in options:
        options.setdefault("sample", False)
    if isinstance(n_best := options.get("n_best"), int):
        if not options.get("sample", defaults.sample):
            options.setdefault("beam_size", max(n_best, defaults.beam_size))
    elif isinstance(beam_size := options.get("beam_size"), int):
        options["n_best"] = max(1, min(beam_size, defaults.n_best))
    try:
        settings = DecodingConfig.model_validate({**defaults.model_dump(), **options})
    except ValidationError as error:
        raise UsageError(*explain_errors(error, "decoding")) from None
    if problems := list(settings.contradictions()):
        raise UsageError(*(problem for _, problem in problems))
    if not settings.sample and settings.beam_size >= vocab_size:
        found = f"beam size {settings.beam_size} is not below the vocabulary of {vocab_size}"
        raise UsageError(f"{found}; 4 to 10 are usual")
    return settings


def usual_batch_size(device: torch.device) -> int:
    """Sentences: on a GPU so many that a step takes longer to compute than to launch."""
    return 64 if device.type == "cpu" else 1024


@dataclass(eq=False)
class Searcher:
    """A model with what all its searches have in common. Threads may share it."""

    search_model: SearchModel
    tokenizer: Tokenizer
    device: torch.device
    n_threads: int

    def search(
        self, requests: Sequence[Request], settings: DecodingConfig, on_batch: Callable[[int], None] | None = None
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each request. Sentences of similar length share a batch, whose size `on_batch` gets."""
        results = dict[Request, list[Hypothesis]]()
        kinds = defaultdict[tuple[bool, bool], list[Request]](list)  # so that none depends on what its batch has
        for one in sorted(requests, key=lambda one: -len(one.src_ids)):  # longest first
            kinds[bool(one.terms), bool(one.symbols)].append(one)
        size = settings.batch_size or usual_batch_size(self.device)
        batches = [own[start : start + size] for own in kinds.values() for start in range(0, len(own), size)]
        n_workers = min(len(batches), self.n_threads) if self.device.type == "cpu" else 1
        # On a CPU a thread for each batch is faster than to divide each small matrix product among the threads. Another
        # translation that ran when this thread began may have left it with the number of a worker.
        torch.set_num_threads(self.n_threads)
        with ExitStack() as stack:
            parallel_map: Callable[..., Iterator[list[list[Hypothesis]]]] = map
            if n_workers > 1:
                stack.callback(torch.set_num_threads, self.n_threads)  # new threads begin with the number set last
                each = self.n_threads // n_workers
                pool = ThreadPoolExecutor(n_workers, initializer=torch.set_num_threads, initargs=(each,))
                parallel_map = stack.enter_context(pool).map
            # Nothing else may hold the iterator: batches that nobody waits for are cancelled when it goes.
            for batch, found in zip(batches, parallel_map(self.search_batch, batches, repeat(settings)), strict=True):
                results.update(zip(batch, found, strict=True))
                if on_batch is not None:
                    on_batch(len(batch))
        return [results[one] for one in requests]

    def search_batch(self, batch: Sequence[Request], settings: DecodingConfig) -> list[list[Hypothesis]]:
        """Hypotheses of each request; all of them have terms, or none has."""
        limits, prefixes = [one.max_length for one in batch], [one.prefix for one in batch]
        symbols, terms = [one.symbols for one in batch], [one.terms for one in batch]
        src_ids, src_mask = source_batch([one.src_ids for one in batch])
        src_ids, src_mask = src_ids.to(self.device), src_mask.to(self.device)
        constraints = None
        if settings.min_length or settings.no_repeat_ngram or any(prefixes) or any(symbols):
            spans = tuple(self.tokenizer.symbol_ids.values())
            constraints = Constraints(settings.min_length, settings.no_repeat_ngram, prefixes, symbols, spans)
        if settings.sample:
            narrowing = settings.temperature, settings.top_k, settings.top_p, constraints
            samples = [
                sample(self.search_model, src_ids, src_mask, limits, [(*one.seed, n) for one in batch], *narrowing)
                for n in range(settings.n_best)
            ]
            return [list(hypotheses) for hypotheses in zip(*samples, strict=True)]
        beam_size, beams = settings.beam_size, None
        if any(terms):
            beam_size = max(beam_size, TERM_WIDTH)
            beams = TermBeams(beam_size, self.device, terms, self.tokenizer.inner_tgt_ids)
        if beam_size == 1 and constraints is None:
            return [[hypothesis] for hypothesis in greedy_search(self.search_model, src_ids, src_mask, limits)]
        # Greedy search has no penalty either.
        ranking = settings.length_penalty if beam_size > 1 else 0.0, settings.length_normalization
        return beam_search(self.search_model, src_ids, src_mask, limits, beam_size, *ranking, constraints, beams)


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
