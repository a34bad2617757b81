"""From lines of text to lines of text: what `mt translate`, validation and Python users all call.

It splits what is too long, batches by length, calls a search and gives results back in order, blank for blank. It
knows text and searches, not files or terminals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from mt_cli.checkpoint import load_model
from mt_cli.config import Config, DecodingConfig
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
from mt_cli.text.batching import source_batch
from mt_cli.text.corpus import normalize
from mt_cli.text.tokenizer import Tokenizer

_LANGUAGES_WITHOUT_SPACES = {"zh", "ja", "th", "lo", "km", "my"}


@dataclass(frozen=True)
class Part:
    """A piece of a line that the model reads at once, and its translations, best first."""

    src_ids: list[int]  # without end symbol
    hypotheses: list[Hypothesis]


@dataclass(frozen=True)
class Translation:
    source: str  # normalized
    texts: list[str]  # best first; [''] for a blank line
    scores: list[float]  # of the texts; summed over the parts
    parts: list[Part]  # none for a blank line, several for one that is too long to read at once

    @property
    def text(self) -> str:
        return self.texts[0]


class Translator:
    """Trained models with their tokenizer. Safe to share between threads: nothing in it changes while it translates."""

    def __init__(self, models: Sequence[Transformer], tokenizer: Tokenizer, config: Config):
        self.models, self.tokenizer, self.config = [model.eval() for model in models], tokenizer, config
        self.device = next(models[0].parameters()).device
        members = [InferenceModel(model) for model in self.models]
        self.search_model: SearchModel = members[0] if len(members) == 1 else Ensemble(members)

    @classmethod
    def load(cls, *runs: str | Path, checkpoint: str | Sequence[str] = "best", device: str = "auto") -> Translator:
        """The translator of a run directory; an ensemble of several runs or checkpoints.

        Raises RunDirError or CheckpointError when one is not whole, or they do not share a tokenizer.
        """
        names = [checkpoint] if isinstance(checkpoint, str) else checkpoint
        loaded = [load_model(RunDir.existing(Path(run)), name) for run in runs for name in names]
        tokenizer, config = loaded[0].tokenizer, loaded[0].config
        for run, other in zip([run for run in runs for _ in names], loaded, strict=True):
            if other.tokenizer.sha256 != tokenizer.sha256:
                raise CheckpointError(f"{run} has another tokenizer than {runs[0]}; an ensemble shares one")
        return cls([one.model.to(choose_device(device)) for one in loaded], tokenizer, config)

    @property
    def model(self) -> Transformer:
        """The first model: the one that attention and forced scores come from."""
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
        settings = self.settings(**options)
        sources = [normalize(line) for line in lines]
        parts = [self.split(source) for source in sources]
        where = [(line, number) for line, of_line in enumerate(parts) for number in range(len(of_line))]
        # Only the first part of a split line begins with its prefix.
        forced = [
            self.tokenizer.encode_tgt(normalize(prefixes[line])) if prefixes is not None and number == 0 else []
            for line, number in where
        ]
        seeds: list[tuple[int, ...]] = [(settings.seed, first_line + line, number) for line, number in where]
        found = iter(self.search([parts[line][number] for line, number in where], settings, forced, seeds, on_batch))
        return [
            self._join(source, [Part(ids, next(found)) for ids in of_line], settings.n_best)
            for source, of_line in zip(sources, parts, strict=True)
        ]

    def score(self, lines: Sequence[str], references: Sequence[str]) -> list[list[float]]:
        """Log-probabilities of the reference's tokens for each line, the end symbol's last; [] where a side is blank."""
        encode_src, encode_tgt = self.tokenizer.encode_src, self.tokenizer.encode_tgt
        pairs = [(encode_src(normalize(s)), encode_tgt(normalize(t))) for s, t in zip(lines, references, strict=True)]
        scores = iter(self.token_scores([(src, tgt) for src, tgt in pairs if src and tgt]))
        return [next(scores) if src and tgt else [] for src, tgt in pairs]

    def token_scores(self, pairs: Sequence[tuple[list[int], list[int]]], batch_size: int = 64) -> list[list[float]]:
        """`score` for pairs of ids. Raises UsageError for one that is longer than the model can read."""
        limit = self.config.model.max_positions - 1
        longest = max((max(len(src), len(tgt)) for src, tgt in pairs), default=0)
        if longest > limit:
            raise UsageError(f"{longest} tokens in a line to be scored, the model reads at most {limit}; shorten it")
        scores: list[list[float]] = [[] for _ in pairs]
        order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1]))
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            batch = token_log_probs(self.model, [pairs[i][0] for i in chosen], [pairs[i][1] for i in chosen])
            for i, row in zip(chosen, batch, strict=True):
                scores[i] = row
        return scores

    def settings(self, **options: Any) -> DecodingConfig:
        """The config's `decoding` with `options` laid over it; those that are None are left as they are."""
        given = {key: value for key, value in options.items() if value is not None}
        if isinstance(n_best := given.get("n_best"), int):
            given.setdefault("beam_size", max(n_best, self.config.decoding.beam_size))  # as wide as that many need
        try:
            settings = DecodingConfig.model_validate({**self.config.decoding.model_dump(), **given})
        except ValidationError as error:
            problems = [
                f"{'.'.join(map(str, one['loc']))}: {one['msg']}, found {one['input']}" for one in error.errors()
            ]
            raise UsageError("\n".join(problems)) from None
        if not settings.sample and settings.n_best > settings.beam_size:
            raise UsageError(f"{settings.n_best} translations of a beam of {settings.beam_size}; raise the beam size")
        if settings.beam_size >= self.tokenizer.tgt_vocab_size:
            raise UsageError(
                f"beam size {settings.beam_size} is not below the vocabulary of {self.tokenizer.tgt_vocab_size};"
                " 4 to 10 are usual"
            )
        return settings

    def search(
        self,
        sentences: list[list[int]],
        settings: DecodingConfig,
        prefixes: list[list[int]] | None = None,
        seeds: list[tuple[int, ...]] | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each sentence's ids, in order; sentences of like length are decoded together."""
        results: list[list[Hypothesis]] = [[] for _ in sentences]
        order = sorted(
            range(len(sentences)), key=lambda i: -len(sentences[i])
        )  # long ones first: the last are soon done
        batches = [order[start : start + settings.batch_size] for start in range(0, len(order), settings.batch_size)]

        def decode(chosen: list[int]) -> list[list[Hypothesis]]:
            src_ids, src_mask = source_batch([sentences[i] for i in chosen])
            limits = [self.max_length(len(sentences[i]), settings) for i in chosen]
            forced = [prefixes[i] for i in chosen] if prefixes is not None and any(prefixes) else []
            constraints = Constraints(settings.min_length, settings.no_repeat_ngram, forced)
            own_seeds: list[tuple[int, ...]] = [seeds[i] if seeds is not None else (settings.seed, i) for i in chosen]
            batch = (src_ids.to(self.device), src_mask.to(self.device), limits)
            return self._search_batch(*batch, settings, constraints, own_seeds)

        with _workers(len(batches), self.device) as parallel_map:
            for chosen, found in zip(batches, parallel_map(decode, batches), strict=True):
                for i, hypotheses in zip(chosen, found, strict=True):
                    results[i] = hypotheses
                if on_batch is not None:
                    on_batch(len(chosen))
        return results

    def _search_batch(
        self,
        src_ids: Tensor,
        src_mask: Tensor,
        limits: list[int],
        settings: DecodingConfig,
        constraints: Constraints,
        seeds: list[tuple[int, ...]],
    ) -> list[list[Hypothesis]]:
        model, is_free = self.search_model, constraints == Constraints()
        if settings.sample:
            narrowing = (settings.temperature, settings.top_k, settings.top_p)
            draws = [
                sample(model, src_ids, src_mask, limits, [(*seed, n) for seed in seeds], *narrowing, constraints)
                for n in range(settings.n_best)
            ]
            return [list(hypotheses) for hypotheses in zip(*draws, strict=True)]
        if settings.beam_size == 1 and is_free:
            return [[hypothesis] for hypothesis in greedy_search(model, src_ids, src_mask, limits)]
        return beam_search(
            model,
            src_ids,
            src_mask,
            limits,
            settings.beam_size,
            settings.length_penalty,
            settings.length_normalization,
            None if is_free else constraints,
        )

    def max_length(self, n_src_tokens: int, settings: DecodingConfig) -> int:
        return min(int(n_src_tokens * settings.max_length_ratio) + 10, self.config.model.max_positions)

    def split(self, text: str) -> list[list[int]]:
        """Source ids of normalized text: none for '', several where it is longer than training sentences may be."""
        if not text:
            return []
        limit = self.config.data.max_length
        # No piece spells more than 16 characters, so such a text is too long whatever its pieces are.
        if len(text) <= 16 * limit:
            ids = self.tokenizer.encode_src(text)
            if len(ids) <= limit:
                return [ids]
        cut = _cut_near_the_middle(text)
        return self.split(text[:cut].strip()) + self.split(text[cut:].strip())

    def _join(self, source: str, parts: list[Part], n_best: int) -> Translation:
        if not parts:
            return Translation(source, [""], [0.0], [])
        language = re.split("[-_]", self.config.data.tgt_lang)[0].lower()
        space = "" if language in _LANGUAGES_WITHOUT_SPACES else " "
        texts, scores = [], []
        for n in range(min(n_best, *(len(part.hypotheses) for part in parts))):
            chosen = [part.hypotheses[n] for part in parts]
            texts.append(normalize(space.join(self.tokenizer.decode_tgt(hypothesis.ids) for hypothesis in chosen)))
            scores.append(sum(hypothesis.score for hypothesis in chosen))
        return Translation(source, texts, scores, parts)


@contextmanager
def _workers(n_batches: int, device: torch.device) -> Iterator[Callable[..., Iterator[Any]]]:
    """A `map` for batches. On a CPU the threads take batches of their own where there are several: to divide each small
    product among the threads costs more. The order of results is that of the batches."""
    n_threads = torch.get_num_threads()
    n_workers = min(n_batches, n_threads) if device.type == "cpu" else 1
    if n_workers <= 1:
        yield map
        return
    pool = ThreadPoolExecutor(n_workers, initializer=torch.set_num_threads, initargs=(n_threads // n_workers,))
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(n_threads)


_SENTENCE_END = re.compile(r"[.!?…][\"')\]]*(?= )|[。！？；][”’」』）]*")


def _cut_near_the_middle(text: str) -> int:
    """Where to split a text of at least two characters: at the sentence end nearest to the middle if one lies in the
    middle half, else at a comma, at a space, in the middle."""
    middle, quarter = len(text) // 2, len(text) // 4
    window = text[middle - quarter : middle + quarter]
    for pattern in (_SENTENCE_END, re.compile("[,;:，、] ?"), re.compile(" ")):
        cuts = [middle - quarter + match.end() for match in pattern.finditer(window)]
        cuts = [cut for cut in cuts if 0 < cut < len(text)]
        if cuts:
            return min(cuts, key=lambda cut: abs(cut - middle))
    return max(1, middle)
