"""The search that the settings ask for: greedy, beam or sampling, for one batch of sentences.

A new option of the search is a key of `DecodingConfig` in config.py, which makes it an option of every command that
searches, and its use: in `Constraints.apply` for what the next token may be, in `length_penalty` and `_Finished` of beam.py
for how hypotheses are ranked, in `draw` of sampling.py for how a token is drawn. `search_batch` below hands it on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from pydantic import ValidationError

from mt_cli.config import DecodingConfig
from mt_cli.config_file import explain_errors
from mt_cli.data.batching import source_batch
from mt_cli.decoding.beam import beam_search
from mt_cli.decoding.constraints import Constraints
from mt_cli.decoding.greedy import Hypothesis, SearchModel, greedy_search
from mt_cli.decoding.sampling import sample
from mt_cli.decoding.term_search import TERM_WIDTH, Phrase, TermBeams
from mt_cli.errors import UsageError


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
    and limits `n_best`; `n_best` widens the beam.

    Raises UsageError with a line for every problem.
    """
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
    if problems := [problem for _, problem in settings.contradictions()]:
        raise UsageError(*problems)
    if not settings.sample and settings.beam_size >= vocab_size:
        raise UsageError(
            f"beam size {settings.beam_size} is not below the vocabulary of {vocab_size}; 4 to 10 are usual"
        )
    return settings


def search(
    model: SearchModel,
    device: torch.device,
    requests: Sequence[Request],
    settings: DecodingConfig,
    n_threads: int,
    on_batch: Callable[[int], None] | None = None,
    inner_ids: Sequence[int] = (),
    symbol_ids: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Hypotheses of each request, in order; sentences of similar length are searched in one batch, whose size `on_batch`
    gets. `inner_ids`: pieces that continue a word, which do not follow on a term; `symbol_ids`: those of all symbols."""
    results: list[list[Hypothesis]] = [[] for _ in requests]
    order = sorted(range(len(requests)), key=lambda i: -len(requests[i].src_ids))  # longest first
    kinds = defaultdict[tuple[bool, bool], list[int]](list)  # so that none depends on what others in its batch have
    for i in order:
        kinds[bool(requests[i].terms), bool(requests[i].symbols)].append(i)
    size = settings.batch_size or usual_batch_size(device)
    batches = [own[start : start + size] for own in kinds.values() for start in range(0, len(own), size)]

    def search_one(chosen: list[int]) -> list[list[Hypothesis]]:
        return search_batch(model, device, [requests[i] for i in chosen], settings, inner_ids, symbol_ids)

    with _parallel_map(len(batches), device, n_threads) as parallel_map:
        # Nothing else may hold the iterator: batches that nobody waits for are cancelled when it goes.
        for chosen, of_batch in zip(batches, parallel_map(search_one, batches), strict=True):
            for i, hypotheses in zip(chosen, of_batch, strict=True):
                results[i] = hypotheses
            if on_batch is not None:
                on_batch(len(chosen))
    return results


def usual_batch_size(device: torch.device) -> int:
    """Sentences: on a GPU so many that a step takes longer to compute than to launch."""
    return 64 if device.type == "cpu" else 1024


def search_batch(
    model: SearchModel,
    device: torch.device,
    batch: Sequence[Request],
    settings: DecodingConfig,
    inner_ids: Sequence[int] = (),
    symbol_ids: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Hypotheses of each request; all of them have terms, or none has."""
    limits = [one.max_length for one in batch]
    src_ids, src_mask = (tensor.to(device) for tensor in source_batch([one.src_ids for one in batch]))
    prefixes, symbols = [one.prefix for one in batch], [one.symbols for one in batch]
    constraints = Constraints(
        settings.min_length,
        settings.no_repeat_ngram,
        prefixes if any(prefixes) else (),
        symbols if any(symbols) else (),
        symbol_ids if any(symbols) else (),
    )
    used_constraints = None if constraints == Constraints() else constraints
    if settings.sample:
        narrowing = (settings.temperature, settings.top_k, settings.top_p)
        samples = [
            sample(model, src_ids, src_mask, limits, [(*one.seed, n) for one in batch], *narrowing, used_constraints)
            for n in range(settings.n_best)
        ]
        return [list(hypotheses) for hypotheses in zip(*samples, strict=True)]
    terms, beam_size = [one.terms for one in batch], settings.beam_size
    beams = None
    if any(terms):
        beam_size = max(beam_size, TERM_WIDTH)
        beams = TermBeams(beam_size, device, terms, inner_ids)
    if beam_size == 1 and used_constraints is None:
        return [[hypothesis] for hypothesis in greedy_search(model, src_ids, src_mask, limits)]
    return beam_search(
        model,
        src_ids,
        src_mask,
        limits,
        beam_size,
        settings.length_penalty if beam_size > 1 else 0.0,  # greedy search has no penalty either
        settings.length_normalization,
        used_constraints,
        beams,
    )


@contextmanager
def _parallel_map(n_batches: int, device: torch.device, n_threads: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """A `map` for batches, in their order. On a CPU several batches are searched in parallel by a thread each: that is
    faster than dividing each small matrix product among the threads."""
    # Another translation that ran when this thread began may have left it with the number of a worker.
    torch.set_num_threads(n_threads)
    n_workers = min(n_batches, n_threads) if device.type == "cpu" else 1
    if n_workers <= 1:
        yield map
        return
    try:
        with ThreadPoolExecutor(
            n_workers, initializer=torch.set_num_threads, initargs=(n_threads // n_workers,)
        ) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(n_threads)  # new threads begin with the number that was set last
