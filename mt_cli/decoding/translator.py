"""From lines of text to lines of text: what `mt translate`, validation and Python users all call.

It splits lines into parts (`parts.py`), sorts these by length into batches, searches each batch (`search.py`) and gives
the results back in order, blank for blank. It knows nothing about text files and terminals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mt_cli.config import Config, DecodingConfig
from mt_cli.data.corpus import edge_spaces, normalize
from mt_cli.data.languages import language
from mt_cli.data.profile import CorpusProfile
from mt_cli.data.tokenizer import UNK_ID, Tokenizer
from mt_cli.decoding.ensemble import Ensemble
from mt_cli.decoding.greedy import Hypothesis, SearchModel
from mt_cli.decoding.parts import LineSplitter, Part, Translation, join_parts
from mt_cli.decoding.scoring import token_scores
from mt_cli.decoding.search import Request, adapted_settings, search_batch
from mt_cli.device import choose_device
from mt_cli.errors import CheckpointError, UsageError
from mt_cli.model.inference import InferenceModel
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import LoadedModel, load_model
from mt_cli.run.directions import choose_direction
from mt_cli.run.run_dir import RunDir

_SURROGATE = re.compile("[\ud800-\udfff]")


class Translator:
    """Trained models with their tokenizer. Safe to share between threads: nothing in it changes while it translates."""

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizer: Tokenizer,
        config: Config,
        profile: CorpusProfile | None = None,
        origin: Sequence[tuple[RunDir, str]] = (),
    ):
        self.models, self.tokenizer, self.config = [model.eval() for model in models], tokenizer, config
        self.profile, self.origin = profile, origin  # of the training text; run and checkpoint's name of each model
        self._keeps_edge_spaces = profile is not None and profile.keeps_edge_spaces
        self.device, self._n_threads = models[0].device, torch.get_num_threads()
        self.n_positions = min(model.positions.n_positions for model in models)
        self._splitter = LineSplitter(tokenizer, min(config.data.max_length, self.n_positions - 1), profile)
        members = [InferenceModel(model) for model in self.models]
        self.search_model: SearchModel = members[0] if len(members) == 1 else Ensemble(members)

    @classmethod
    def load(
        cls, *runs: str | Path, checkpoint: str | Sequence[str] = "best", device: str = "auto", to: str | None = None
    ) -> Translator:
        """The translator of a run directory; an ensemble of several runs or checkpoints. `to` as in `choose_direction`.

        Raises RunDirError or CheckpointError when one is not whole, or they do not share a tokenizer and a direction, and
        UsageError when a run has not learnt the direction.
        """
        names = [checkpoint] if isinstance(checkpoint, str) else checkpoint
        origin = [(RunDir.existing(Path(run)), name) for run in runs for name in names]
        loaded = [_load(run, name, to) for run, name in origin]
        _refuse_different([run.path for run, _ in origin], loaded)
        first, models = loaded[0], [one.model.to(choose_device(device)) for one in loaded]
        return cls(models, first.tokenizer, first.config, first.profile, origin)

    @property
    def model(self) -> Transformer:
        """The first model: the one that attention comes from."""
        return self.models[0]

    def translate(self, lines: Sequence[str], **options: Any) -> list[str]:
        """A line of text for each of `lines`, between the edge spaces of its line; '' for a blank one. `options` are keys of
        the config's `decoding`.

        Raises UsageError for an option that is wrong.
        """
        return [translation.text for translation in self.translations(lines, **options)]

    def translations(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        on_batch: Callable[[int], None] | None = None,
        first_line: int = 0,
        **options: Any,
    ) -> list[Translation]:
        """`translate`, with all hypotheses and their scores.

        Each translation begins with its line's prefix if `prefixes` are given; `on_batch` gets the number of sentences of
        each batch; a sample depends on `first_line`, the number of lines before these, and not on the batch.
        """
        _refuse_lines(lines, prefixes)
        settings = self.settings(**options)
        sources = [normalize(line) for line in lines]
        parts = [self.split(source) for source in sources]
        requests = []
        for line, of_line in enumerate(parts):
            prefix = _encode_prefix(self, prefixes[line], first_line + line + 1) if prefixes is not None else ()
            for number, ids in enumerate(of_line):
                seed = (settings.seed, first_line + line, number) if settings.sample else ()
                # Only the first part of a split line begins with its prefix.
                requests.append(Request(tuple(ids), prefix if number == 0 else (), seed))
        distinct = list(dict.fromkeys(requests))  # equal requests are searched once
        hypotheses = dict(zip(distinct, self.search(distinct, settings, on_batch), strict=True))
        if on_batch is not None:
            on_batch(len(requests) - len(distinct))
        in_order = iter(requests)
        edges = [edge_spaces(line) if self._keeps_edge_spaces else ("", "") for line in lines]
        join = partial(join_parts, tokenizer=self.tokenizer, tgt_lang=self.config.data.tgt_lang)
        return [
            join(source, spaces, [Part(ids, hypotheses[next(in_order)]) for ids in of_line], settings.n_best)
            for source, spaces, of_line in zip(sources, edges, parts, strict=True)
        ]

    def split(self, text: str) -> list[list[int]]:
        """Source ids of the parts in which normalized text is translated: none for '', usually one."""
        return self._splitter.split(text)

    def encode_pair(self, src: str, tgt: str) -> tuple[list[int], list[int]]:
        """The ids of both sides, without begin and end symbols."""
        src, tgt = self._splitter.respell(normalize(src)), self.tokenizer.normalize_tgt(tgt)
        return self.tokenizer.encode_src(src), self.tokenizer.encode_tgt(tgt)

    def token_scores(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
        """Log-probabilities of the target's tokens for each pair of ids, the end symbol's last.

        Raises UsageError for a pair that is longer than the model can read."""
        limit = self.n_positions - 1
        longest = max((max(len(src), len(tgt)) for src, tgt in pairs), default=0)
        if longest > limit:
            raise UsageError(f"{longest} tokens in a line to be scored, the model reads at most {limit}; shorten it")
        return token_scores(self.models, pairs)

    def settings(self, **options: Any) -> DecodingConfig:
        """The config's `decoding`, in which `options` replace values. Raises UsageError with a line for every problem."""
        return adapted_settings(self.config.decoding, options, self.tokenizer.tgt_vocab_size)

    def search(
        self,
        requests: Sequence[Request],
        settings: DecodingConfig,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each request, in order; sentences of similar length are searched in one batch."""
        results: list[list[Hypothesis]] = [[] for _ in requests]
        order = sorted(range(len(requests)), key=lambda i: -len(requests[i].src_ids))  # longest first
        batches = [order[start : start + settings.batch_size] for start in range(0, len(order), settings.batch_size)]

        def search_one(chosen: list[int]) -> list[list[Hypothesis]]:
            batch = [requests[i] for i in chosen]
            limits = [self.max_length(len(one.src_ids), settings, len(one.prefix)) for one in batch]
            return search_batch(self.search_model, self.device, batch, limits, settings)

        with _parallel_map(len(batches), self.device, self._n_threads) as parallel_map:
            for chosen, of_batch in zip(batches, parallel_map(search_one, batches), strict=True):
                for i, hypotheses in zip(chosen, of_batch, strict=True):
                    results[i] = hypotheses
                if on_batch is not None:
                    on_batch(len(chosen))
        return results

    def max_length(self, n_src: int, settings: DecodingConfig, n_prefix: int = 0) -> int:
        """How many tokens a translation of `n_src` tokens may have, of which the first `n_prefix` are given; one
        position is left for the end symbol."""
        if settings.max_length_ratio is not None:
            limit = int(n_src * settings.max_length_ratio) + 10
        else:
            usual = self.profile.usual_lengths(n_src + 1)[1] if self.profile is not None else 0
            limit = max(2 * n_src + 10, settings.min_length + 10, usual)
        return min(limit + n_prefix, self.n_positions - 1)


def _load(run: RunDir, checkpoint: str, to: str | None) -> LoadedModel:
    direction = choose_direction(run.load_config(), to, run.path)
    return load_model(run, checkpoint).for_direction(direction, run)


def _refuse_different(runs: Sequence[str | Path], loaded: Sequence[LoadedModel]) -> None:
    """Raises CheckpointError for models that do not share a tokenizer and a direction with the first."""
    first = loaded[0]
    for run, other in zip(runs, loaded, strict=True):
        if other.tokenizer.sha256 != first.tokenizer.sha256:
            raise CheckpointError(f"{run} has another tokenizer than {runs[0]}; an ensemble shares one")
        own, expected = (
            f"{language(c.data.src_lang)} to {language(c.data.tgt_lang)}" for c in (other.config, first.config)
        )
        if own != expected:
            raise CheckpointError(f"{run} translates {own}, {runs[0]} {expected}; leave one out")


def _encode_prefix(translator: Translator, text: str, line: int) -> tuple[int, ...]:
    tokenizer, most = translator.tokenizer, translator.n_positions - 1
    prefix = tokenizer.encode_tgt(tokenizer.normalize_tgt(text))
    if UNK_ID in prefix:  # in a tokenizer without bytes, such as an imported one
        raise UsageError(f"line {line}: a prefix with signs that this run never writes; leave them out")
    if len(prefix) >= most:
        raise UsageError(
            f"line {line}: a prefix of {len(prefix)} tokens, expected fewer than {most}, the most that the model writes;"
            " shorten it"
        )
    return tuple(prefix)


def _refuse_lines(lines: Sequence[str], prefixes: Sequence[str] | None) -> None:
    _refuse_text(lines)
    _refuse_text(prefixes or ())
    if prefixes is not None and len(prefixes) != len(lines):
        raise UsageError(f"{len(prefixes)} prefixes for {len(lines)} lines; give one for each")


def _refuse_text(lines: Sequence[str]) -> None:
    if isinstance(lines, str):  # which is a sequence of its letters
        raise UsageError(f"expected a list of lines, found the text '{lines[:40]}'; put it into a list")
    if not isinstance(lines, Sequence):  # an iterator could be read only once
        raise UsageError(f"expected a list of lines, found {type(lines).__name__}; make a list of it")
    for line in lines:
        if not isinstance(line, str):
            raise UsageError(f"expected lines of text, found {type(line).__name__}; write an empty one as ''")
        if _SURROGATE.search(line):  # bytes of a command line that are not UTF-8, or JSON with half an emoji
            raise UsageError(f"{line[:40]!a} is no Unicode text: it has half a character; write it in UTF-8")


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
