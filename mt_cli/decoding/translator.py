"""From lines of text to lines of text: what `mt translate`, validation and Python users all call.

It splits what is unlike training, batches by length, calls a search and gives results back in order, blank for blank. It
knows text and searches, not files or terminals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import ValidationError

from mt_cli.checkpoint import load_model
from mt_cli.config import Config, DecodingConfig, decoding_contradictions
from mt_cli.config_file import explain_errors
from mt_cli.decoding.beam import beam_search
from mt_cli.decoding.constraints import Constraints
from mt_cli.decoding.ensemble import Ensemble
from mt_cli.decoding.greedy import Hypothesis, SearchModel, greedy_search
from mt_cli.decoding.sampling import sample
from mt_cli.decoding.scoring import token_log_probs
from mt_cli.device import choose_device
from mt_cli.errors import CheckpointError, UsageError
from mt_cli.model.inference import InferenceModel
from mt_cli.model.transformer import Transformer
from mt_cli.run_dir import RunDir
from mt_cli.text.batching import batches_by_length, source_batch
from mt_cli.text.corpus import normalize
from mt_cli.text.languages import language, writes_spaces_between_sentences
from mt_cli.text.profile import CorpusProfile
from mt_cli.text.splitting import halves, sentences
from mt_cli.text.tokenizer import Tokenizer

_NEVER_LONG = 30  # tokens: where training had shorter sentences only, pieces of these would have no context left
_SURROGATE = re.compile("[\ud800-\udfff]")
_FEW_LINES = 0.01  # of training; in some lines of any corpus a mark that ends no sentence looks like one that does


@dataclass(frozen=True)
class Part:
    """A piece of a line that the model reads at once, and its translations: best first, or as they were drawn."""

    src_ids: list[int]  # without end symbol
    hypotheses: list[Hypothesis]


@dataclass(frozen=True)
class Translation:
    source: str  # normalized
    texts: list[str]  # best first, or as they were drawn; [''] for a blank line
    scores: list[float]  # of the texts; summed over the parts
    parts: list[Part]  # none for a blank line, several for one that was split

    @property
    def text(self) -> str:
        return self.texts[0]


class Request(NamedTuple):
    """What a search is asked for: equal requests have equal answers."""

    src_ids: tuple[int, ...]
    prefix: tuple[int, ...]
    seed: tuple[int, ...]  # () where nothing is drawn


class Translator:
    """Trained models with their tokenizer. Safe to share between threads: nothing in it changes while it translates."""

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizer: Tokenizer,
        config: Config,
        profile: CorpusProfile | None = None,
    ):
        self.models, self.tokenizer, self.config = [model.eval() for model in models], tokenizer, config
        self.profile = profile  # of the training text, where the run has kept it
        self.device, self._n_threads = models[0].device, torch.get_num_threads()
        self.n_positions = min(model.positions.n_positions for model in models)
        members = [InferenceModel(model) for model in self.models]
        self.search_model: SearchModel = members[0] if len(members) == 1 else Ensemble(members)

    @classmethod
    def load(cls, *runs: str | Path, checkpoint: str | Sequence[str] = "best", device: str = "auto") -> Translator:
        """The translator of a run directory; an ensemble of several runs or checkpoints.

        Raises RunDirError or CheckpointError when one is not whole, or they do not share a tokenizer and a direction.
        """
        names = [checkpoint] if isinstance(checkpoint, str) else checkpoint
        loaded = [load_model(RunDir.existing(Path(run)), name) for run in runs for name in names]
        tokenizer, config = loaded[0].tokenizer, loaded[0].config
        for run, other in zip([run for run in runs for _ in names], loaded, strict=True):
            if other.tokenizer.sha256 != tokenizer.sha256:
                raise CheckpointError(f"{run} has another tokenizer than {runs[0]}; an ensemble shares one")
            directions = [f"{language(c.data.src_lang)} to {language(c.data.tgt_lang)}" for c in (config, other.config)]
            if len(set(directions)) > 1:
                raise CheckpointError(f"{run} translates {directions[1]}, {runs[0]} {directions[0]}; leave one out")
        return cls([one.model.to(choose_device(device)) for one in loaded], tokenizer, config, loaded[0].profile)

    @property
    def model(self) -> Transformer:
        """The first model: the one that attention comes from."""
        return self.models[0]

    def translate(self, lines: Sequence[str], **options: Any) -> list[str]:
        """A line of text for each of `lines`; '' for a blank one. `options` are keys of the config's `decoding`.

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

        Each translation begins with its line's prefix if `prefixes` are given; `on_batch` is told how many sentences a
        batch had; a sample depends on `first_line`, the number of lines before these, and not on the batch.
        """
        for texts in (lines, prefixes or ()):
            _refuse_text(texts)
        if prefixes is not None and len(prefixes) != len(lines):
            raise UsageError(f"{len(prefixes)} prefixes for {len(lines)} lines; give one for each")
        settings = self.settings(**options)
        sources = [normalize(line) for line in lines]
        parts = [self.split(source) for source in sources]
        requests = []
        for line, of_line in enumerate(parts):
            prefix = self.tokenizer.encode_tgt(normalize(prefixes[line])) if prefixes is not None else []
            if len(prefix) >= self.n_positions - 1:
                raise UsageError(
                    f"line {first_line + line + 1}: a prefix of {len(prefix)} tokens, expected fewer than"
                    f" {self.n_positions - 1}, the most that the model writes; shorten it"
                )
            for number, ids in enumerate(of_line):
                seed = (settings.seed, first_line + line, number) if settings.sample else ()
                # Only the first part of a split line begins with its prefix.
                requests.append(Request(tuple(ids), tuple(prefix) if number == 0 else (), seed))
        distinct = list(dict.fromkeys(requests))  # what is asked for twice is searched once
        found = dict(zip(distinct, self.search(distinct, settings, on_batch), strict=True))
        if on_batch is not None:
            on_batch(len(requests) - len(distinct))
        answers = iter(requests)
        return [
            self._join(source, [Part(ids, found[next(answers)]) for ids in of_line], settings.n_best)
            for source, of_line in zip(sources, parts, strict=True)
        ]

    def encode_pair(self, src: str, tgt: str) -> tuple[list[int], list[int]]:
        """The ids of both sides, without begin and end symbols."""
        return self.tokenizer.encode_src(normalize(src)), self.tokenizer.encode_tgt(normalize(tgt))

    def token_scores(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
        """Log-probabilities of the target's tokens for each pair of ids, the end symbol's last.

        Raises UsageError for a pair that is longer than the model can read."""
        limit = self.n_positions - 1
        longest = max((max(len(src), len(tgt)) for src, tgt in pairs), default=0)
        if longest > limit:
            raise UsageError(f"{longest} tokens in a line to be scored, the model reads at most {limit}; shorten it")
        scores: list[list[float]] = [[] for _ in pairs]
        for chosen in batches_by_length([max(map(len, pair)) for pair in pairs]):
            batch = token_log_probs(self.models, [pairs[i][0] for i in chosen], [pairs[i][1] for i in chosen])
            for i, row in zip(chosen, batch, strict=True):
                scores[i] = row
        return scores

    def settings(self, **options: Any) -> DecodingConfig:
        """The config's `decoding`, in which `options` replace values. They also adapt what they contradict: a beam size
        turns sampling off and limits `n_best`; `n_best` widens the beam.

        Raises UsageError with a line for every problem.
        """
        own = self.config.decoding
        if "beam_size" in options:
            options.setdefault("sample", False)
        if isinstance(n_best := options.get("n_best"), int):
            if not options.get("sample", own.sample):
                options.setdefault("beam_size", max(n_best, own.beam_size))
        elif isinstance(beam_size := options.get("beam_size"), int):
            options["n_best"] = max(1, min(beam_size, own.n_best))
        try:
            settings = DecodingConfig.model_validate({**own.model_dump(), **options})
        except ValidationError as error:
            raise UsageError(*explain_errors(error, "decoding")) from None
        if problems := [problem for _, problem in decoding_contradictions(settings)]:
            raise UsageError(*problems)
        if not settings.sample and settings.beam_size >= self.tokenizer.tgt_vocab_size:
            raise UsageError(
                f"beam size {settings.beam_size} is not below the vocabulary of {self.tokenizer.tgt_vocab_size};"
                " 4 to 10 are usual"
            )
        return settings

    def search(
        self,
        requests: Sequence[Request],
        settings: DecodingConfig,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each request, in order; sentences of like length are decoded together."""
        results: list[list[Hypothesis]] = [[] for _ in requests]
        order = sorted(range(len(requests)), key=lambda i: -len(requests[i].src_ids))  # longest first
        batches = [order[start : start + settings.batch_size] for start in range(0, len(order), settings.batch_size)]

        def decode(chosen: list[int]) -> list[list[Hypothesis]]:
            return self._search_batch([requests[i] for i in chosen], settings)

        with _workers(len(batches), self.device, self._n_threads) as parallel_map:
            for chosen, found in zip(batches, parallel_map(decode, batches), strict=True):
                for i, hypotheses in zip(chosen, found, strict=True):
                    results[i] = hypotheses
                if on_batch is not None:
                    on_batch(len(chosen))
        return results

    def _search_batch(self, batch: list[Request], settings: DecodingConfig) -> list[list[Hypothesis]]:
        model = self.search_model
        src_ids, src_mask = (tensor.to(self.device) for tensor in source_batch([one.src_ids for one in batch]))
        limits = [self.max_length(len(one.src_ids), settings, len(one.prefix)) for one in batch]
        prefixes = [one.prefix for one in batch]
        constraints = Constraints(settings.min_length, settings.no_repeat_ngram, prefixes if any(prefixes) else ())
        limited = None if constraints == Constraints() else constraints
        if settings.sample:
            narrowing = (settings.temperature, settings.top_k, settings.top_p)
            draws = [
                sample(model, src_ids, src_mask, limits, [(*one.seed, n) for one in batch], *narrowing, limited)
                for n in range(settings.n_best)
            ]
            return [list(hypotheses) for hypotheses in zip(*draws, strict=True)]
        if settings.beam_size == 1 and limited is None:
            return [[hypothesis] for hypothesis in greedy_search(model, src_ids, src_mask, limits)]
        return beam_search(
            model,
            src_ids,
            src_mask,
            limits,
            settings.beam_size,
            settings.length_penalty if settings.beam_size > 1 else 0.0,  # as of a greedy search without constraints
            settings.length_normalization,
            limited,
        )

    def max_length(self, n_src: int, settings: DecodingConfig, n_prefix: int = 0) -> int:
        """How many tokens a translation of `n_src` tokens may have, of which the first `n_prefix` are given; one
        position is left for the end symbol."""
        if settings.max_length_ratio is not None:
            limit = int(n_src * settings.max_length_ratio) + 10
        else:
            usual = self.profile.usual_lengths(n_src + 1)[1] if self.profile is not None else 0
            limit = max(2 * n_src + 10, settings.min_length + 10, usual)
        return min(limit + n_prefix, self.n_positions - 1)

    def split(self, text: str) -> list[list[int]]:
        """Source ids of the parts in which normalized text is translated: none for '', usually one.

        A line with several sentences is split into sentences if it is longer than any training line, or if training lines
        held one sentence each: a model that never saw several sentences translates only the first one. A sentence longer
        than any training line is split near its middle.
        """
        if not text:
            return []
        limit, never_several = min(self.config.data.max_length, self.n_positions - 1), False
        abbreviations: tuple[str, ...] = ()
        if self.profile is not None:
            limit = min(limit, max(self.profile.longest_src - 1, _NEVER_LONG))
            never_several = self.profile.several_sentences < _FEW_LINES
            abbreviations = self.profile.abbreviations
        if not never_several and (ids := self._encode_up_to(limit, text)) is not None:
            return [ids]
        return [part for sentence in sentences(text, abbreviations) for part in self._parts(sentence, limit)]

    def _parts(self, text: str, limit: int) -> list[list[int]]:
        if len(text) == 1:  # cannot be split, but can take several byte pieces
            return [self.tokenizer.encode_src(text)]
        ids = self._encode_up_to(limit, text)
        return [ids] if ids is not None else [part for half in halves(text) for part in self._parts(half, limit)]

    def _encode_up_to(self, limit: int, text: str) -> list[int] | None:
        """None for text of more than `limit` tokens."""
        # No piece spells more than 16 characters, so such a text is too long in any case.
        if len(text) > 16 * limit:
            return None
        ids = self.tokenizer.encode_src(text)
        return ids if len(ids) <= limit else None

    def _join(self, source: str, parts: list[Part], n_best: int) -> Translation:
        if not parts:
            return Translation(source, [""], [0.0], [])
        space = " " if writes_spaces_between_sentences(self.config.data.tgt_lang) else ""
        texts, scores = [], []
        for n in range(min(n_best, *(len(part.hypotheses) for part in parts))):
            chosen = [part.hypotheses[n] for part in parts]
            texts.append(normalize(space.join(self.tokenizer.decode_tgt(hypothesis.ids) for hypothesis in chosen)))
            scores.append(sum(hypothesis.score for hypothesis in chosen))
        return Translation(source, texts, scores, parts)


def _refuse_text(lines: Sequence[str]) -> None:
    if isinstance(lines, str):  # which is a sequence of its letters
        raise UsageError(f"expected a list of lines, found the text '{lines[:40]}'; put it into a list")
    for line in lines:
        if _SURROGATE.search(line):  # bytes of a command line that are not UTF-8, or JSON with half an emoji
            raise UsageError(f"{line[:40]!a} is no Unicode text: it has half a character; write it in UTF-8")


@contextmanager
def _workers(n_batches: int, device: torch.device, n_threads: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """A `map` for batches. On a CPU the threads take batches of their own where there are several: to divide each small
    product among the threads costs more. The order of results is that of the batches."""
    torch.set_num_threads(n_threads)  # a thread that began while others translated began with the number of a worker
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
        torch.set_num_threads(n_threads)  # for threads that are yet to come: each begins with the number set last
