"""Scores runs on test sets, and files against references: what `mt evaluate` shows.

A result has, beside what is shown, its `warnings` and its `system`: the texts, and the counts that tests need.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from mt_cli.config import Config, DataConfig
from mt_cli.config_file import to_yaml
from mt_cli.data.corpora import TrainingText, joined_sha256
from mt_cli.data.corpus import CorpusReport, read_lines, read_test_set, sha256_of
from mt_cli.data.dataset import TokenDataset, TokenPair
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.translator import Translator
from mt_cli.device import choose_device
from mt_cli.errors import ConfigError, DataError, RunDirError
from mt_cli.evaluation.baselines import memory_of
from mt_cli.evaluation.comparison import Result, System
from mt_cli.evaluation.metrics import (
    bleu_tokenizer,
    count_texts,
    mean_loss,
    perplexity,
    refuse_tokenizer,
    scores_of,
    ter_of,
)
from mt_cli.evaluation.significance import N_RESAMPLES, SEED, interval
from mt_cli.run.checkpoint import load_model
from mt_cli.run.directions import Direction, choose_direction, directions_of, has_several
from mt_cli.run.provenance import commit, versions
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

_FAR_TOO_LONG = 1.5  # times the characters of the references


def evaluate_files(hyp: Path, ref: Path, tokenize: str | None) -> Result:
    """The scores of a file of translations. Raises DataError when its lines are not those of the references."""
    tokenize = tokenize or "13a"
    refuse_tokenizer(tokenize)
    is_asian = tokenize in {"zh", "ja-mecab", "char"}  # the only hint of the language
    hypotheses, references = read_lines(hyp), read_lines(ref)
    if len(hypotheses) != len(references):
        raise DataError(f"{hyp} has {len(hypotheses)} lines, {ref} has {len(references)}; they must be line for line")
    counts = count_texts(hypotheses, references, tokenize, ter_of("zh" if is_asian else ""))
    return {
        "test_set": str(hyp),
        "hyp": str(hyp),
        "ref": str(ref),
        **_scores(System([], hypotheses, references, counts)),
        "n_sentences": len(references),
        "warnings": _warnings(hypotheses),
        "versions": versions(),
    }


def evaluate_run(
    run: RunDir,
    checkpoint: str,
    files: list[str] | None,
    tokenize: str | None,
    search: dict[str, Any],
    device: str,
    to: str | None = None,
) -> list[Result]:
    """A result for the dev set and each test set of the run's config, in each direction that it learnt or in that which
    `to` names; or for `files` (source, reference).

    `search` replaces keys of the config's `decoding`. Raises DataError or UsageError before anything is translated.
    """
    planned = [
        (RunEvaluator(run, checkpoint, tokenize, search, device, direction), test_sets)
        for direction, test_sets in _planned(run, run.load_config(), files, to)
    ]
    return [evaluator.evaluate(test_set).result for evaluator, test_sets in planned for test_set in test_sets]


def _planned(
    run: RunDir, config: Config, files: list[str] | None, to: str | None
) -> list[tuple[Direction, list[TestSet]]]:
    """The directions in which the run is scored, and the sets of each."""
    chosen = [choose_direction(config, to, run.path)] if files or to is not None else directions_of(config)
    return [(direction, _read_test_sets(run, config, direction, files)) for direction in chosen]


class EvaluatedSet(NamedTuple):
    translations: list[Translation]
    result: Result


class RunEvaluator:
    """Translates and scores test sets with a checkpoint of a run."""

    def __init__(
        self,
        run: RunDir,
        checkpoint: str = "best",
        tokenize: str | None = None,
        search: Mapping[str, Any] | None = None,
        device: str = "auto",
        direction: Direction | None = None,
    ):
        """`search` replaces keys of the config's `decoding`; `direction` is that of the config by default. Raises MTError
        where the checkpoint cannot be used so."""
        direction = direction or choose_direction(run.load_config(), None, run.path)
        loaded = load_model(run, checkpoint)
        self._run_config = loaded.config
        model, tokenizer, config, content, profile = loaded.for_direction(direction, run)
        self.translator = Translator([model.to(choose_device(device))], tokenizer, config, profile, [(run, checkpoint)])
        self._tokenize, self._search = tokenizer_of(config.data, tokenize), dict(search or {})
        self._about = {
            "run": str(run.path),
            "checkpoint": checkpoint,
            "step": content["progress"].get("step"),
            "decoding": self.translator.settings(**self._search).model_dump(),
            "tokenizer_sha256": tokenizer.sha256,
            "data_sha256": content.get("data_sha256"),
            "config_sha256": hashlib.sha256(to_yaml(loaded.config).encode()).hexdigest(),
            "seed": config.training.seed,
            "device": str(self.translator.device),
            "versions": versions(),
            "commit": commit(),
        }

    def evaluate(self, test_set: TestSet, on_batch: Callable[[int], None] | None = None) -> EvaluatedSet:
        """Scores, loss and speed on one test set, with warnings where these mislead. `on_batch` gets the number of
        sentences of each batch that is translated."""
        translator, sources, references = self.translator, test_set.sources, test_set.references
        started = time.monotonic()
        translations = translator.translations(sources, on_batch=on_batch, **self._search)
        seconds = time.monotonic() - started
        outputs = [translation.text for translation in translations]
        loss, n_without_loss = _loss(translator, sources, references)
        counts = count_texts(outputs, references, self._tokenize, ter_of(translator.config.data.tgt_lang))
        measured = {
            "loss": loss if math.isfinite(loss) else None,
            "perplexity": perplexity(loss) if math.isfinite(loss) else None,
            "sentences_per_second": len(sources) / max(seconds, 1e-9),
            "n_sentences": len(sources),
            "warnings": [
                *_warnings(outputs, references, test_set.report, n_without_loss),
                *_warnings_of_length(outputs, references),
            ],
        }
        scores = _scores(System(sources, outputs, references, counts, self._run_config))
        return EvaluatedSet(translations, self._about | test_set.about | scores | measured)


def evaluate_baselines(
    run: RunDir, files: list[str] | None, tokenize: str | None, to: str | None = None
) -> list[Result]:
    """What `evaluate_run` gives, with the same tokenizer, for the sources taken as translations and for a translation
    memory of the run's training text. Raises DataError when that is not there."""
    config = run.load_config()
    planned = _planned(run, config, files, to)
    return [row for direction, sets in planned for row in _baselines(run, config, direction, sets, tokenize)]


def _baselines(
    run: RunDir, config: Config, direction: Direction, test_sets: list[TestSet], tokenize: str | None
) -> list[Result]:
    data = direction.data
    tokenize = tokenizer_of(data, tokenize)
    sources = [source for test_set in test_sets for source in test_set.sources]
    memory = memory_of(run, run.of_pair(config.data, direction.pair), direction.pair, sources, direction.is_back)
    sample = [f"the memory has one in {memory.stride} of {memory.n_read:,} training pairs"] if memory.stride > 1 else []
    about_memory = {"run": "translation memory", "train_sha256": TrainingText(direction.pair).sha256()}
    baselines: list[tuple[dict[str, str], Callable[[str], str], list[str]]] = [
        ({"run": "copy of the source"}, str, []),
        (about_memory, memory.translate, sample),
    ]
    ter = ter_of(data.tgt_lang)
    results = []
    for test_set, (about, translate, warnings) in product(test_sets, baselines):
        outputs = [translate(source) for source in test_set.sources]
        counts = count_texts(outputs, test_set.references, tokenize, ter)
        results.append(
            {
                **about,
                "checkpoint": None,
                **test_set.about,
                **_scores(System(test_set.sources, outputs, test_set.references, counts)),
                "n_sentences": len(outputs),
                "warnings": _warnings(outputs, test_set.references, test_set.report) + warnings,
                "versions": versions(),
            }
        )
    return results


def tokenizer_of(data: DataConfig, tokenize: str | None = None) -> str:
    """sacrebleu's tokenizer: the requested one, or the config's. Raises UsageError when sacrebleu has no such one."""
    tokenize = tokenize or bleu_tokenizer(data.bleu_tokenize, data.tgt_lang)
    refuse_tokenizer(tokenize)
    return tokenize


@dataclass(frozen=True)
class TestSet:
    sources: list[str]
    references: list[str]
    report: CorpusReport
    about: dict[str, str]  # name and hash
    lines: list[int]  # of the files, counted from 1


def _read_test_sets(run: RunDir, config: Config, direction: Direction, files: list[str] | None) -> list[TestSet]:
    """The dev set and each test set of a direction of the run's config and of the run that it began with; or `files`. All
    are read before the first is translated."""
    data = direction.pair
    if files:
        return [read_set(data, Path(files[0]).name, files)]
    folder = run.of_pair(config.data, direction.pair)
    _refuse_missing_sets(run, folder, data)
    suffix = f" {direction.name}" if has_several(config) else ""
    sets = [
        read_set(data, f"{name}{suffix}", paths, direction.is_back)
        for name, paths in folder.sets.all_files(data).items()
    ]
    own = {one.about["test_sha256"] for one in sets}
    return sets + [one for one in _sets_of_parent(config, direction) if one.about["test_sha256"] not in own]


def _sets_of_parent(config: Config, direction: Direction) -> list[TestSet]:
    """The test sets of the run that this one began with, as far as they are still there: they show what was forgotten."""
    if config.training.init_from is None:
        return []
    parent = RunDir(Path(config.training.init_from))
    if not parent.config_file.is_file():
        return []
    try:
        theirs = parent.load_config()
        same = next((one for one in directions_of(theirs) if one.name == direction.name), None)
        if same is None:
            return []
        named = parent.of_pair(theirs.data, same.pair).sets.all_files(same.pair)
        return [
            read_set(same.pair, f"{name} of {parent.path.name}", files, same.is_back)
            for name, files in named.items()
            if name != "dev" and all(Path(file).is_file() for file in files)
        ]
    except (ConfigError, DataError, RunDirError) as error:  # the run itself does not need it any more
        log.warning(f"{error}; so nothing tells what was forgotten of {parent.path}")
        return []


def read_set(data: DataConfig, name: str, files: list[str], is_back: bool = False) -> TestSet:
    """The dev set or a test set of a run of this config, for the way back with its sides exchanged. Raises DataError when its
    files cannot be read."""
    report = CorpusReport()
    pairs = read_test_set(files, columns=data.columns, on_bad_line=data.on_bad_line, report=report)
    src, tgt, lines = [pair.src for pair in pairs], [pair.tgt for pair in pairs], [pair.line for pair in pairs]
    if not is_back:
        return TestSet(src, tgt, report, {"test_set": name, "test_sha256": sha256_of(files)}, lines)
    # Of two files it is the hash of the same set in a run whose source is this target.
    sha256 = sha256_of(files[::-1]) if len(files) == 2 else joined_sha256([sha256_of(files), "exchanged"])
    return TestSet(tgt, src, report, {"test_set": name, "test_sha256": sha256}, lines)


def _refuse_missing_sets(run: RunDir, folder: RunDir, data: DataConfig) -> None:
    for name, paths in folder.sets.all_files(data).items():
        key = "dev" if name == "dev" else f"test.{name}"
        if missing := [path for path in paths if not Path(path).exists()]:
            if not folder.sets.held_out.exists() and data.dev is None:
                raise DataError(f"{run.path}: has no dev and no test set; give --src and --ref")
            if Path(missing[0]).parent == folder.sets.held_out:
                raise DataError(
                    f"{missing[0]}: no such file; restore it from a copy of the run, or give --src and --ref"
                )
            raise DataError(
                f"{missing[0]}: no such file; it is data.{key} of {run.config_file}, relative to where mt is started;"
                " go there, or give --src and --ref"
            )


def _scores(system: System) -> Result:
    """The scores of a system, each with its interval."""
    intervals = {}
    for name, counts in system.counts.items():
        found = interval(counts)
        signature = counts.signature(bs=N_RESAMPLES, seed=SEED)
        intervals[name] = asdict(found) | {"half_width": found.half_width, "signature": signature}
    return {**asdict(scores_of(system.counts)), "intervals": intervals, "system": system}


def _warnings(
    outputs: list[str], references: Sequence[str] = (), report: CorpusReport | None = None, n_without_loss: int = 0
) -> list[str]:
    """Reasons why scores mislead."""
    warnings = []
    if not any(line.strip() for line in outputs):
        warnings.append("every translation is blank")
    if n_decomposed := sum(not unicodedata.is_normalized("NFC", reference) for reference in references):
        warnings.append(
            f"{n_decomposed:,} references are not composed (NFC), as translations are, so they score too low"
        )
    if report is not None:
        warnings += [f"{n:,} of {report.n_pairs:,} pairs left out ({reason})" for reason, n in report.dropped.items()]
    if n_without_loss:
        warnings.append(
            f"loss and perplexity are without {n_without_loss:,} pairs that are too long to be read at once"
        )
    return warnings


def _warnings_of_length(outputs: Sequence[str], references: Sequence[str]) -> list[str]:
    """That a model writes far too much."""
    length, expected = (sum(map(len, lines)) for lines in (outputs, references))
    if not expected or length <= _FAR_TOO_LONG * expected:
        return []
    return [
        f"the translations are {length / expected:.1f} times as long as the references, as of a model that has hardly"
        " learnt to translate; chrF is too high for them"
    ]


def _loss(translator: Translator, sources: list[str], references: list[str]) -> tuple[float, int]:
    """The model's loss on the pairs that fit into it as a whole, and the number of pairs that do not."""
    limit = translator.config.data.max_length
    pairs = [
        TokenPair(*translator.encode_pair(src, ref), line)
        for line, (src, ref) in enumerate(zip(sources, references, strict=True), 1)
    ]
    pairs = [pair for pair in pairs if pair.src and pair.tgt]
    fitting = [pair for pair in pairs if max(len(pair.src), len(pair.tgt)) <= limit]
    loss = mean_loss(translator.model, TokenDataset.in_memory(fitting), translator.config.training.batch_tokens)
    return loss, len(pairs) - len(fitting)
