"""From lines of text to lines of text: splits them (`parts.py`), searches the parts (`search.py`), joins the results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import torch

from mt_cli.config import Config, DecodingConfig
from mt_cli.data.languages import language
from mt_cli.data.normalize import normalize
from mt_cli.data.reading import CorpusProfile
from mt_cli.data.spans import Markup, escaped, hold_pair, put_back
from mt_cli.data.tokenizer import UNK_ID, Tokenizer
from mt_cli.decoding.alignment import written
from mt_cli.decoding.ensemble import Ensemble, token_scores
from mt_cli.decoding.greedy import SearchModel
from mt_cli.decoding.parts import LineSplitter, Part, SourceLine, Translation, with_terms
from mt_cli.decoding.search import Request, Searcher, adapted_settings
from mt_cli.decoding.terms import Glossary, as_glossary
from mt_cli.device import choose_device
from mt_cli.display import shortened
from mt_cli.errors import CheckpointError, UsageError
from mt_cli.model.inference import InferenceModel
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import load_model
from mt_cli.run.run_dir import RunDir, choose_direction

_SURROGATE = re.compile("[\ud800-\udfff]")


class Translator(Searcher):
    """Trained models with their tokenizer. Safe to share between threads: nothing in it changes while it translates."""

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizer: Tokenizer,
        config: Config,
        profile: CorpusProfile | None = None,
        origin: Sequence[tuple[RunDir, str]] = (),
    ):
        self.models, self.config = [model.eval() for model in models], config
        self.model = self.models[0]  # the one that attention comes from
        self.profile, self.origin = profile, origin  # of the training text; run and checkpoint's name of each model
        members = [InferenceModel(model) for model in self.models]
        search_model: SearchModel = members[0] if len(members) == 1 else Ensemble(members)
        super().__init__(search_model, tokenizer, self.model.device, torch.get_num_threads())
        self.n_positions = min(model.positions.n_positions for model in models)
        self._max_tokens = min(config.data.max_length, self.n_positions - 1)
        self._splitter = LineSplitter(tokenizer, self._max_tokens, profile, config.data.src_lang, config.data.tgt_lang)
        self.split = self._splitter.split  # a line into the parts in which it is translated
        self.has_learnt_terms = config.data.terms > 0 and tokenizer.has_term_symbols

    @classmethod
    def load(
        cls, *runs: str | Path, checkpoint: str | Sequence[str] = "best", device: str = "auto", to: str | None = None
    ) -> Translator:
        """The translator of a run directory; an ensemble of several runs or checkpoints. `to` as in `choose_direction`.
        Raises RunDirError, CheckpointError and UsageError, also where they do not share a tokenizer and a direction."""
        checkpoints = [checkpoint] if isinstance(checkpoint, str) else checkpoint
        origin = [(RunDir.existing(Path(run)), name) for run in runs for name in checkpoints]
        if not origin:
            raise UsageError("no run directory; give the path of one, as `mt train` makes it")
        directions = [choose_direction(run.load_config(), to, run.path) for run, _ in origin]
        loaded = [load_model(*one).for_direction(way, one[0]) for one, way in zip(origin, directions, strict=True)]
        names = [f"{language(one.config.data.src_lang)} to {language(one.config.data.tgt_lang)}" for one in loaded]
        first, run = loaded[0], origin[0][0].path
        for one, name, (other, _) in zip(loaded, names, origin, strict=True):
            if one.tokenizer.sha256 != first.tokenizer.sha256:
                raise CheckpointError(f"{other.path} has another tokenizer than {run}; an ensemble shares one")
            if name != names[0]:
                raise CheckpointError(f"{other.path} translates {name}, {run} {names[0]}; leave one out")
        models = [one.model.to(choose_device(device)) for one in loaded]
        return cls(models, first.tokenizer, first.config, first.profile, origin)

    def __repr__(self) -> str:
        data = self.config.data
        n_weights = sum(weight.numel() for model in self.models for weight in model.parameters())
        names = ", ".join(f"{run.path} ({name})" for run, name in self.origin) or f"{len(self.models)} models"
        return f"<Translator {data.src_lang} to {data.tgt_lang}: {names}, {n_weights:,} weights, {self.device}>"

    @overload
    def translate(self, text: str, **options: Any) -> str: ...

    @overload
    def translate(self, text: Iterable[str], **options: Any) -> list[str]: ...

    def translate(self, text: str | Iterable[str], **options: Any) -> str | list[str]:
        """The translation of each line, between the edge spaces of the line; '' for a blank one. A single string is a text,
        whose lines end at `\\n`. `options` are keys of the config's `decoding`. Raises UsageError for one that is wrong."""
        if isinstance(text, str):
            return "\n".join(self.translate(text.split("\n"), **options))
        return [translation.text for translation in self.translations(text, **options)]

    def translations(
        self,
        lines: Iterable[str],
        prefixes: Sequence[str] | None = None,
        on_batch: Callable[[int], None] | None = None,
        first_line: int = 0,
        markup: Markup | None = None,
        glossary: Glossary | Mapping[str, str] | str | Path | None = None,
        strict_terms: bool = False,
        **options: Any,
    ) -> list[Translation]:
        """`translate`, with all hypotheses and their scores. A translation begins with its line's prefix; `on_batch` gets
        the number of sentences of each batch; a sample depends on `first_line`, the number of lines before these, and
        not on the batch. In `markup`, what is between tags is translated, and each pair of tags is put around the words
        that belong to it. The translations of a `glossary`, or of its file, are used: as the run has learnt it, or where
        it has not, or where they are `strict_terms`, in place of the words that translate theirs."""
        lines = _checked(lines)
        if prefixes is not None and len(_checked(prefixes)) != len(lines):
            raise UsageError(f"{len(prefixes)} prefixes for {len(lines)} lines; give one for each")
        settings, sources = self.settings(**options), [self.split(line, markup) for line in lines]
        is_strict = glossary is not None and (strict_terms or not self.has_learnt_terms)
        if glossary is not None:
            terms, tokenizer = as_glossary(glossary), None if is_strict else self.tokenizer
            sources = [with_terms(source, terms, tokenizer, self._max_tokens) for source in sources]
        parts = [part for source in sources for part in source.parts]
        requests = list(_requests(self, sources, prefixes, settings, first_line))
        distinct = list(dict.fromkeys(requests))  # equal requests are searched once
        hypotheses = dict(zip(distinct, self.search(distinct, settings, on_batch), strict=True))
        if on_batch is not None:
            on_batch(len(requests) - len(distinct))
        translated = [Part(part, hypotheses[request]) for part, request in zip(parts, requests, strict=True)]
        texts, end, translations = written(translated, self.tokenizer, self.model), 0, list[Translation]()
        for line, source in zip(lines, sources, strict=True):
            start, end = end, end + len(source.parts)
            own = translated[start:end], texts[start:end]
            translations.append(_joined(normalize(line), source, *own, settings.n_best))
        return translations

    def encode_pair(self, src: str, tgt: str) -> tuple[list[int], list[int]]:
        """The ids of both sides, without begin and end symbols."""
        src, tgt = self._splitter.respell(normalize(src)), self.tokenizer.normalize_tgt(tgt)
        if self.tokenizer.symbol_ids:
            src, tgt = hold_pair(src, tgt)
        return self.tokenizer.encode_src(src), self.tokenizer.encode_tgt(tgt)

    def token_scores(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
        """Log-probabilities of the target's tokens for each pair of ids, the end symbol's last."""
        return token_scores(self.models, pairs)

    def settings(self, **options: Any) -> DecodingConfig:
        """The config's `decoding`, in which `options` replace values. Raises UsageError with a line for every problem."""
        return adapted_settings(self.config.decoding, options, self.tokenizer.tgt_vocab_size)

    def max_length(self, n_src: int, settings: DecodingConfig, n_prefix: int = 0) -> int:
        """The most tokens of a translation of `n_src` tokens, with `n_prefix` given ones; an end symbol fits behind them."""
        if settings.max_length_ratio is not None:
            limit = int(n_src * settings.max_length_ratio) + 10
        else:
            usual = self.profile.usual_lengths(n_src + 1)[1] if self.profile is not None else 0
            limit = max(2 * n_src + 10, settings.min_length + 10, usual)
        return min(limit + n_prefix, self.n_positions - 1)


def _requests(
    translator: Translator,
    sources: Sequence[SourceLine],
    prefixes: Sequence[str] | None,
    settings: DecodingConfig,
    first_line: int,
) -> Iterator[Request]:
    """One for each part of each line."""
    tokenizer, most, prefix = translator.tokenizer, translator.n_positions - 1, list[int]()
    for line, source in enumerate(sources, first_line):
        if prefixes is not None:
            prefix = tokenizer.encode_tgt(tokenizer.normalize_tgt(prefixes[line - first_line]))
            if UNK_ID in prefix:  # in a tokenizer without bytes, such as an imported one
                found = "a prefix with characters that this run never writes; leave them out"
                raise UsageError(f"line {line + 1}: {found}")
            if len(prefix) >= most:
                found = f"a prefix of {len(prefix)} tokens, expected fewer than {most}, the most that the model writes"
                raise UsageError(f"line {line + 1}: {found}; shorten it")
        for number, part in enumerate(source.parts):
            own = tuple(prefix) if number == 0 else ()  # only the first part of a split line begins with its prefix
            seed = (settings.seed, line, number) if settings.sample else (settings.seed,)
            length = translator.max_length(len(part.ids), settings, len(own))
            yield Request(part.ids, own, seed, length, tokenizer.symbols_in(part.text))


def _joined(line: str, source: SourceLine, parts: list[Part], texts: list[list[str]], n_best: int) -> Translation:
    """The translation of a normalized line from the `texts` of its parts: their n-th ones make its n-th."""
    joined, scores = list[str](), list[float]()
    for n in range(min([n_best, *map(len, texts)]) if parts else 1):
        text = "".join(part.source.before + own[n] for part, own in zip(parts, texts, strict=True))
        is_blank = not text.strip() if parts else not line
        text = "" if is_blank else f"{text}{source.end}"
        joined.append(put_back(escaped(text) if source.is_markup else text, source.spans))
        scores.append(sum((part.hypotheses[n].score for part in parts), 0.0))
    return Translation(line, joined, scores, parts)


def _checked(lines: Iterable[str]) -> list[str]:
    """Raises UsageError for what is no list of lines."""
    if isinstance(lines, str):  # an iterable of its letters
        raise UsageError(f"expected a list of lines, found the text '{shortened(lines, 40)}'; put it into a list")
    lines = list(lines)
    for line in lines:
        if not isinstance(line, str):
            raise UsageError(f"expected lines of text, found {type(line).__name__}; write an empty one as ''")
        if _SURROGATE.search(line):  # bytes of a command line that are not UTF-8, or JSON with half an emoji
            raise UsageError(f"{line[:40]!a} is no Unicode text: it has half a character; write it in UTF-8")
    return lines
