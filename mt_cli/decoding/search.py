"""The search that the settings ask for: greedy, beam, samples or the one most like all of them. A new option is a key of
`DecodingConfig`, and its use: in `Constraints` (beam.py) for what the next token may be, in `length_penalty` and
`Finished` for how hypotheses are ranked, in `draw` (sampling.py) for how a token is drawn. `Searcher.search_batch` hands it on.

Shapes: B rows, S source length, N target tokens, n of these at a time, V target vocabulary.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import torch
from pydantic import ValidationError

from mt_cli.config import DecodingConfig
from mt_cli.config_file import explain_errors
from mt_cli.data.batching import source_batch
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.decoding.beam import Constraints, beam_search
from mt_cli.decoding.greedy import Hypothesis, SearchModel, greedy_search
from mt_cli.decoding.sampling import most_alike_first, sample
from mt_cli.errors import UsageError


class Request(NamedTuple):
    """A part of a line to translate. Equal requests have equal translations."""

    src_ids: tuple[int, ...]
    prefix: tuple[int, ...]
    seed: tuple[int, ...]  # of what is drawn
    max_length: int  # tokens
    symbols: tuple[int, ...] = ()  # ids that the translation has, each once


def adapted_settings(defaults: DecodingConfig, options: dict[str, Any], vocab_size: float = math.inf) -> DecodingConfig:
    """`defaults`, in which `options` replace values. They also adapt what they contradict: beam, sampling and `mbr` turn
    each other off, a beam size limits `n_best`, and `n_best` widens the beam. Raises UsageError with a line for every problem."""
    options = dict(options)
    if "beam_size" in options or options.get("mbr"):
        options.setdefault("sample", False)
    if "beam_size" in options or options.get("sample"):
        options.setdefault("mbr", 0)
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
        kinds = defaultdict[bool, list[Request]](list)  # so that none depends on what its batch has
        for one in sorted(requests, key=lambda one: -len(one.src_ids)):  # longest first
            kinds[bool(one.symbols)].append(one)
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
        limits, prefixes = [one.max_length for one in batch], [one.prefix for one in batch]
        symbols = [one.symbols for one in batch]
        src_ids, src_mask = source_batch([one.src_ids for one in batch])
        src_ids, src_mask = src_ids.to(self.device), src_mask.to(self.device)
        constraints = None
        if settings.min_length or settings.no_repeat_ngram or any(prefixes) or any(symbols):
            spans = tuple(self.tokenizer.symbol_ids.values())
            constraints = Constraints(settings.min_length, settings.no_repeat_ngram, prefixes, symbols, spans)
        if settings.sample or settings.mbr:
            narrowing = settings.temperature, settings.top_k, settings.top_p, constraints
            samples = [
                sample(self.search_model, src_ids, src_mask, limits, [(*one.seed, n) for one in batch], *narrowing)
                for n in range(settings.mbr or settings.n_best)
            ]
            found = [list(hypotheses) for hypotheses in zip(*samples, strict=True)]
            if settings.mbr:
                found = [self._by_likeness(one, settings.mbr_recall)[: settings.n_best] for one in found]
            return found
        beam_size = settings.beam_size
        if beam_size == 1 and constraints is None:
            return [[hypothesis] for hypothesis in greedy_search(self.search_model, src_ids, src_mask, limits)]
        # Greedy search has no penalty either.
        ranking = settings.length_penalty if beam_size > 1 else 0.0, settings.length_normalization
        return beam_search(self.search_model, src_ids, src_mask, limits, beam_size, *ranking, constraints)

    def _by_likeness(self, samples: list[Hypothesis], beta: float) -> list[Hypothesis]:
        """The different ones, that first which is most like all samples."""
        texts, found = [self.tokenizer.decode_tgt(one.ids) for one in samples], dict[str, Hypothesis]()
        for i in most_alike_first(texts, beta):
            found.setdefault(texts[i], samples[i])
        return list(found.values())
