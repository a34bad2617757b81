"""Scores runs on test sets, and files against references: `evaluate`, which `mt evaluate` and Python users call."""

from __future__ import annotations

import hashlib
import logging
import math
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mt_cli.config import Config, DataConfig
from mt_cli.config_file import to_yaml
from mt_cli.data.corpora import TrainingText, joined_sha256
from mt_cli.data.corpus import CorpusReport, read_lines, read_test_set, sha256_of
from mt_cli.data.dataset import TokenDataset, TokenPair
from mt_cli.data.languages import code_of_name, may_be_a_word
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.translator import Translator
from mt_cli.device import choose_device
from mt_cli.errors import ConfigError, DataError, RunDirError, UsageError
from mt_cli.evaluation.baselines import memory_of
from mt_cli.evaluation.comparison import SetScores, keys_of, with_comparisons
from mt_cli.evaluation.metrics import (
    bleu_tokenizer,
    language_of_script,
    mean_loss,
    refuse_tokenizer,
    ter_of,
)
from mt_cli.evaluation.tables import as_table
from mt_cli.run.checkpoint import load_model
from mt_cli.run.directions import Direction, choose_direction, directions_of
from mt_cli.run.provenance import commit
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

Paths = str | Path | Sequence[str | Path]
_FAR_TOO_LONG = 1.5  # times the characters of the references


class Evaluation(list[SetScores]):
    """The scores of each system on each test set, compared with the first system, then those of baselines. It prints as the
    table of `mt evaluate`."""

    def __init__(self, results: Sequence[SetScores]):
        super().__init__(with_comparisons([one for one in results if one.kind != "baseline"]))
        self += [one for i, one in enumerate(results) if one.kind == "baseline" and one not in results[:i]]

    def __str__(self) -> str:
        return as_table(self)

    __repr__ = __str__


def evaluate(
    runs: Paths = (),
    *,
    src: str | Path | None = None,
    ref: Paths = (),
    hyp: Paths = (),
    checkpoint: str | Sequence[str] = "best",
    tokenize: str | None = None,
    tgt_lang: str | None = None,
    baselines: bool = False,
    device: str = "auto",
    to: str | None = None,
    **search: Any,
) -> Evaluation:
    """The scores of runs on the dev set and each test set of their configs, in each direction that they learnt or in that
    which `to` names; or on `src` and `ref`; or the scores of files of translations `hyp`, in `tgt_lang`, against `ref`.

    `search` are keys of the config's `decoding`. Reasons why scores mislead are logged. Raises MTError, for text that cannot
    be read before anything of its run is translated.
    """
    if not runs and not (hyp and ref):
        raise UsageError("nothing to evaluate; give a run, or hyp and ref")
    results = _file_scores(_paths(hyp), _paths(ref), tokenize, tgt_lang) if hyp else []
    for run in map(RunDir.existing, _paths(runs)):
        planned = _planned(run, [Path(src), *_paths(ref)] if src is not None else [], to)
        if baselines:
            for one in planned:
                results += _baselines(run, *one, tokenize)
        for name in [checkpoint] if isinstance(checkpoint, str) else checkpoint:
            for direction, sets in planned:
                evaluator = RunEvaluator(run, name, direction, device, tokenize, search)
                results += [evaluator.evaluate(test_set)[1] for test_set in sets]
    for result in results:
        for warning in result.warnings:
            log.warning(f"{result.test_set}: {warning}")
    return Evaluation(results)


def _paths(given: Paths) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(one) for one in given]


# Files ----------------------------------------------------------------------------------------------------------------


def _file_scores(
    hypotheses: list[Path], references: list[Path], tokenize: str | None, tgt_lang: str | None
) -> list[SetScores]:
    expected = [read_lines(file) for file in references]
    language, reason = _language_of_files([*references, *hypotheses], expected[0], tgt_lang)
    tokenize, ter = tokenize or bleu_tokenizer("auto", language), ter_of(language)
    refuse_tokenizer(tokenize)
    note = f"target language: {language or 'one with spaces between words'} ({reason})"
    names, results = [str(ref) for ref in references], list[SetScores]()
    for name in map(str, hypotheses):
        outputs = read_lines(Path(name))
        for ref, lines in zip(names, expected, strict=True):
            if len(outputs) != len(lines):
                raise DataError(f"{name} has {len(outputs)} lines, {ref} has {len(lines)}; they must be line for line")
        facts = {"ref": names[0] if len(names) == 1 else names}
        notes = [note if ter else f"{note}; no TER, as it has no words between spaces"]
        about = {"kind": "file", "system": name, "test_set": name, "facts": facts, "notes": notes}
        results.append(SetScores.of(outputs, expected, tokenize, ter, **about))
    return results


def _language_of_files(files: Sequence[Path], reference: list[str], tgt_lang: str | None) -> tuple[str, str]:
    """The target language, '' for one that is not known, and what it is known by."""
    if tgt_lang:
        return tgt_lang, "by --tgt-lang"
    for file in files:
        ending = Path(file.name.removesuffix(".gz")).suffix[1:]
        if (code := code_of_name(ending)) and not may_be_a_word(code):
            return code, f"by the name of {file}"
    return language_of_script(reference), "by the script of the references"


# Runs -----------------------------------------------------------------------------------------------------------------


class RunEvaluator:
    """Translates and scores test sets with a checkpoint of a run."""

    def __init__(
        self,
        run: RunDir,
        checkpoint: str,
        direction: Direction,
        device: str = "auto",
        tokenize: str | None = None,
        search: Mapping[str, Any] | None = None,
    ):
        """`search` replaces keys of the config's `decoding`. Raises MTError where the checkpoint cannot be used so."""
        loaded = load_model(run, checkpoint)
        model, tokenizer, config, content, profile = loaded.for_direction(direction, run)
        self.translator = Translator([model.to(choose_device(device))], tokenizer, config, profile, [(run, checkpoint)])
        self._tokenize, self._search = _tokenizer_of(config.data, tokenize), dict(search or {})
        decoding = self.translator.settings(**self._search)
        self._about = {
            "kind": "run",
            "system": str(run.path),
            "checkpoint": checkpoint,
            "seed": config.training.seed,
            "keys": keys_of(loaded.config, decoding, content.get("data_sha256") or {}),
            "facts": {
                "step": content["progress"].get("step"),
                "decoding": decoding.model_dump(),
                "tokenizer_sha256": tokenizer.sha256,
                "data_sha256": content.get("data_sha256"),
                "config_sha256": hashlib.sha256(to_yaml(loaded.config).encode()).hexdigest(),
                "seed": config.training.seed,
                "device": str(self.translator.device),
                "commit": commit(),
            },
        }

    def evaluate(self, test_set: TestSet) -> tuple[list[Translation], SetScores]:
        """The translations of a test set, and their scores, with warnings where these mislead."""
        sources, name = test_set.sources, f"{self._about['system']}: {test_set.name}"
        started = time.monotonic()
        with tqdm(total=len(sources), desc=name, unit="sent", leave=False, disable=None) as bar:
            on_batch: Callable[[int], Any] = bar.update
            translations = self.translator.translations(sources, on_batch=on_batch, **self._search)
        speed = len(sources) / max(time.monotonic() - started, 1e-9)
        outputs = [translation.text for translation in translations]
        loss, warnings = self._loss(test_set)
        warnings = [*test_set.warnings, *warnings, *_warnings_of_length(outputs, test_set.references[0])]
        about = self._about | {"loss": loss, "sentences_per_second": speed, "warnings": warnings}
        return translations, test_set.scores(outputs, self._tokenize, self.translator.config.data.tgt_lang, **about)

    def _loss(self, test_set: TestSet) -> tuple[float | None, list[str]]:
        """The model's loss on the pairs that fit into it as a whole, and a warning about those that do not."""
        config = self.translator.config
        pairs = map(self.translator.encode_pair, test_set.sources, test_set.references[0])
        encoded = [TokenPair(*pair, line) for line, pair in enumerate(pairs, 1) if all(pair)]
        fitting = [pair for pair in encoded if max(len(pair.src), len(pair.tgt)) <= config.data.max_length]
        loss = mean_loss(self.translator.model, TokenDataset.in_memory(fitting), config.training.batch_tokens)
        n = len(encoded) - len(fitting)
        warning = f"loss and perplexity are without {n:,} pairs that are too long to be read at once"
        return loss if math.isfinite(loss) else None, [warning] if n else []


def _baselines(
    run: RunDir, direction: Direction, test_sets: list[TestSet], tokenize: str | None
) -> Iterator[SetScores]:
    """The scores of the sources taken as translations, and of a translation memory of the run's training text. Raises
    DataError when that is missing."""
    tokenize = _tokenizer_of(direction.data, tokenize)
    sources = [source for test_set in test_sets for source in test_set.sources]
    folder = run.of_pair(run.load_config().data, direction.pair)
    memory = memory_of(run, folder, direction.pair, sources, direction.is_reverse)
    sample = [f"the memory has one in {memory.stride} of {memory.n_read:,} training pairs"] if memory.stride > 1 else []
    sha256 = {"train_sha256": TrainingText(direction.pair).sha256()}
    for test_set in test_sets:
        translated = list(map(memory.translate, test_set.sources))
        for name, outputs, facts, warnings in (
            ("copy of the source", test_set.sources, {}, []),
            ("translation memory", translated, sha256, sample),
        ):
            about = {"kind": "baseline", "system": name, "facts": facts, "warnings": test_set.warnings + warnings}
            yield test_set.scores(outputs, tokenize, direction.data.tgt_lang, **about)


def _tokenizer_of(data: DataConfig, tokenize: str | None) -> str:
    """sacrebleu's tokenizer: the requested one, or the config's. Raises UsageError when sacrebleu has no such one."""
    tokenize = tokenize or bleu_tokenizer(data.bleu_tokenize, data.tgt_lang)
    refuse_tokenizer(tokenize)
    return tokenize


# Test sets ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TestSet:
    name: str
    sources: list[str]
    references: list[list[str]]  # the lines of each file of references
    sha256: str
    lines: list[int]  # of the files, counted from 1
    warnings: list[str]  # reasons why scores mislead

    def scores(self, outputs: list[str], tokenize: str, tgt_lang: str, **about: Any) -> SetScores:
        about |= {"test_set": self.name, "test_sha256": self.sha256}
        return SetScores.of(outputs, self.references, tokenize, ter_of(tgt_lang), **about)


def _planned(run: RunDir, files: Sequence[Path], to: str | None) -> list[tuple[Direction, list[TestSet]]]:
    """The directions in which the run is scored, and the sets of each: the dev set and each test set of its config and of the
    run that it began with; or `files`. All are read before the first is translated."""
    config = run.load_config()
    if files:
        direction = choose_direction(config, to, run.path)
        return [(direction, [read_set(direction.pair, files[0].name, [str(file) for file in files])])]
    planned = []
    for direction in directions_of(config) if to is None else [choose_direction(config, to, run.path)]:
        sets = _sets_of(run, config, direction, f" {direction.name}" if len(directions_of(config)) > 1 else "")
        own = {one.sha256 for one in sets}
        planned.append((direction, sets + [one for one in _sets_of_parent(config, direction) if one.sha256 not in own]))
    return planned


def _sets_of(run: RunDir, config: Config, direction: Direction, suffix: str) -> list[TestSet]:
    data, own = direction.pair, run.of_pair(config.data, direction.pair)
    named = own.all_files()
    for name, paths in named.items():
        if missing := [path for path in paths if not Path(path).exists()]:
            if not own.held_out.exists() and data.dev is None:
                raise DataError(f"{run.path}: has no dev and no test set; give --src and --ref")
            if Path(missing[0]).parent == own.held_out:
                remedy = "restore it from a copy of the run"
            else:
                key = "dev" if name == "dev" else f"test.{name}"
                remedy = f"it is data.{key} of {run.config_file}, relative to where mt is started; go there"
            raise DataError(f"{missing[0]}: no such file; {remedy}, or give --src and --ref")
    return [read_set(data, f"{name}{suffix}", paths, direction.is_reverse) for name, paths in named.items()]


def _sets_of_parent(config: Config, direction: Direction) -> list[TestSet]:
    """The test sets of the run that this one began with, if it is still there: they show what was forgotten."""
    parent = RunDir(Path(config.training.init_from or ""))
    if config.training.init_from is None or not parent.config_file.is_file():
        return []
    try:
        theirs = parent.load_config()
        same = [one for one in directions_of(theirs) if one.name == direction.name]
        sets = [one for found in same for one in _sets_of(parent, theirs, found, f" of {parent.path.name}")]
        return [one for one in sets if one.name != f"dev of {parent.path.name}"]
    except (ConfigError, DataError, RunDirError) as error:  # the run itself does not need it any more
        log.warning(f"{error}; so nothing tells what was forgotten of {parent.path}")
        return []


def read_set(data: DataConfig, name: str, files: list[str], is_back: bool = False) -> TestSet:
    """The dev set or a test set of a run of this config, for the reverse direction with its sides exchanged. Of two files
    all others are further references. Raises DataError when its files cannot be read."""
    report, sha256 = CorpusReport(), sha256_of(files)
    pairs = read_test_set(files[:2], columns=data.columns, on_bad_line=data.on_bad_line, report=report)
    sources, targets, lines = ([getattr(pair, side) for pair in pairs] for side in ("src", "tgt", "line"))
    references = [targets]
    for file in files[2:]:
        more = read_lines(Path(file))
        if len(more) != report.n_pairs:
            raise DataError(f"{files[0]} has {report.n_pairs} lines, {file} has {len(more)}; make them parallel")
        references.append([more[line - 1] for line in lines])
    if is_back:
        sources, references = targets, [sources]
        # Of two files it is the hash of the same set in a run whose source is this target.
        sha256 = sha256_of(files[::-1]) if len(files) == 2 else joined_sha256([sha256, "exchanged"])
    warnings = []
    if n := sum(not unicodedata.is_normalized("NFC", line) for of_file in references for line in of_file):
        warnings.append(f"{n:,} references are not composed (NFC), as translations are, so they score too low")
    warnings += [f"{n:,} of {report.n_pairs:,} pairs left out ({why})" for why, n in report.dropped.items()]
    return TestSet(name, sources, references, sha256, lines, warnings)


def _warnings_of_length(outputs: Sequence[str], references: Sequence[str]) -> list[str]:
    """That a model writes far too much."""
    length, expected = (sum(map(len, lines)) for lines in (outputs, references))
    if not expected or length <= _FAR_TOO_LONG * expected:
        return []
    return [
        f"the translations are {length / expected:.1f} times as long as the references, as of a model that has hardly"
        " learnt to translate; chrF is too high for them"
    ]
