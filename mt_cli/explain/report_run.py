"""What the files of a run say without its model: its curves, how far the training is, corpus, config, machine.

A file that is missing or cannot be read is left out, and noted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from mt_cli.checking.report import Finding, SideFacts
from mt_cli.config import Config, DataConfig
from mt_cli.data.profile import CorpusProfile
from mt_cli.errors import RunDirError, as_typed
from mt_cli.files import open_inside, read_inside
from mt_cli.run.directions import told_target
from mt_cli.run.pair_files import PairFiles
from mt_cli.run.run_dir import RunDir
from mt_cli.training.guards import FAR_ABOVE
from mt_cli.training.metrics_log import format_duration
from mt_cli.training.verdict import learning_curve, verdict

_CURVES = ("dev_loss", "train_loss", "chrf", "bleu", "loss", "learning_rate", "grad_norm")
_MAX_POINTS = 600  # of a curve; more cannot be told apart on a screen
_MAX_BYTES = 1 << 31  # of a file: the check of a large corpus lists many pairs
_SCORES = {"chrf": "chrF", "bleu": "BLEU", "loss": "loss"}

Point = tuple[int, float | None, float | None]  # step, minute and value; None: not known, or not finite
T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)


class Record(BaseModel):
    """A line of `metrics.jsonl`."""

    step: int = Field(ge=0, lt=1 << 53)
    epoch: int = 1
    dev_loss: float | None = None
    train_loss: float | None = None
    chrf: FiniteFloat | None = None
    copied_chrf: FiniteFloat | None = None
    constant_chrf: FiniteFloat | None = None
    distinct: FiniteFloat | None = None
    bleu: float | None = None
    loss: float | None = None
    learning_rate: float | None = None
    grad_norm: float | None = None
    is_best: bool = False
    is_last: bool = False


class _Time(BaseModel):
    """A line of `timing.jsonl`."""

    step: int
    elapsed_seconds: FiniteFloat
    tokens_per_second: float | None = None


class Check(BaseModel):
    """The part of `check.json` that the page shows."""

    name: str
    n_pairs: int
    n_distinct: int
    src: SideFacts
    tgt: SideFacts
    findings: list[Finding]


class _Provenance(BaseModel):
    starts: list[dict[str, Any]] = []


@dataclass
class RunReport:
    """A run as its files describe it. Of several language pairs the corpus is that of the first."""

    run: RunDir
    name: str
    config: Config
    notes: list[str]  # on what could not be read
    records: list[Record]
    times: list[_Time]
    check: Check | None
    left_out: dict[str, int]  # how many pairs are not trained on, by reason
    profile: CorpusProfile | None
    starts: list[dict[str, Any]]

    @property
    def data(self) -> DataConfig:
        return self.config.data.directions[0]

    # Training --------------------------------------------------------------------------------------------------------

    @cached_property
    def validations(self) -> list[Record]:
        return [record for record in self.records if record.chrf is not None]

    @property
    def best(self) -> Record | None:
        """The validation whose checkpoint is the best."""
        return next((record for record in reversed(self.validations) if record.is_best), None)

    @property
    def curves(self) -> dict[str, list[Point]]:
        minutes = {one.step: round(one.elapsed_seconds / 60, 3) for one in self.times}
        values = {key: [(one.step, getattr(one, key)) for one in self.records] for key in _CURVES}
        values["tokens_per_second"] = [(one.step, one.tokens_per_second) for one in self.times]
        return {
            key: _thinned([(step, minutes.get(step), _drawn(y)) for step, y in points if y is not None])
            for key, points in values.items()
            if any(y is not None for _, y in points)
        }

    @cached_property
    def state(self) -> str:
        """imported, new, diverged, finished or unfinished."""
        if not self.records:
            return "imported" if self.run.is_imported else "new"
        # The objective rises by itself where R-Drop begins.
        losses = [one.train_loss for one in self.records if one.train_loss is not None]
        losses = losses or [one.loss for one in self.records if one.loss is not None]
        known = [loss for loss in losses if math.isfinite(loss)]
        if known and not losses[-1] <= min(known) + FAR_ABOVE:  # also where it is not a number
            return "diverged"
        last = self.records[-1]
        return "finished" if last.is_last and last.chrf is not None else "unfinished"

    @property
    def plan(self) -> str:
        training = self.config.training
        if self.state == "imported":
            return ""
        if training.minutes is not None:  # steps, schedule and validations are fitted to them
            plan = format_duration(60 * training.minutes)
        else:
            plan = (
                f"{training.max_steps:,} steps, {training.schedule} schedule after {training.warmup_steps:,} steps of"
                f" warm-up, a validation every {training.validate_every_steps:,} steps"
            )
        return f"Planned: {plan}; the dev {_SCORES[training.select_by]} chooses the best checkpoint."

    # In words --------------------------------------------------------------------------------------------------------

    @cached_property
    def summary(self) -> list[str]:
        """A few sentences: how good it is, what to do next, how far it is."""
        command = f"Translate with it: mt translate {as_typed(self.run.path)}{told_target(self.config)}"
        steps = f"{self.records[-1].step:,}" if self.records else "0"
        time = f" in {format_duration(self.times[-1].elapsed_seconds)}" if self.times else ""
        if self.state == "new":
            return ["The training has just begun: nothing is measured yet. Open this page again after its first steps."]
        if self.state == "imported":
            return [f"It was imported, so nothing is known of its training. {command}"]
        if self.state == "diverged":
            return [
                f"The training diverged: after {steps} steps{time} its loss is far above its lowest, and such a loss does"
                f" not come down again. {self.best_in_words}",
                "Begin a new run with a lower training.learning_rate or more training.warmup_steps.",
            ]
        if self.state == "unfinished":
            planned = f" of {self.config.training.max_steps:,}" if self.config.training.minutes is None else ""
            return [
                f"The training has not finished: {steps}{planned} steps{time}. {self.best_in_words}",
                "If it was stopped, the same mt train command continues it.",
            ]
        return [
            *self._verdict(),
            f"The training has finished after {steps} steps{time}. {self.best_in_words} {command}",
        ]

    @property
    def best_in_words(self) -> str:
        best = self.best
        if best is None:
            return "It was not validated yet."
        return (
            f"The best checkpoint is that of step {best.step:,}, with a dev chrF of {best.chrf:.1f} by greedy search."
        )

    def _verdict(self) -> list[str]:
        if not (curve := learning_curve([one.model_dump(exclude_none=True) for one in self.validations])):
            return []
        pairs = [(pair, self.run.of_pair(self.config.data, pair)) for pair in self.config.data.directions]
        share_faulty = fmean(0.0 if pair.clean else files.share_faulty() for pair, files in pairs)
        n_pairs = self.check.n_pairs - sum(self.left_out.values()) if self.check else 10**9
        n_epochs = self.records[-1].epoch - 1  # the last one has hardly ever ended
        lines = verdict(curve, self.config.tokenizer.vocab_size, n_pairs, n_epochs, share_faulty)
        return [f"{line[:1].upper()}{line[1:]}." for line in lines]


def read_run(run: RunDir, name: str) -> RunReport:
    notes, config = list[str](), run.load_config()

    def noted(file: Path, read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except FileNotFoundError:
            return default
        except RunDirError as error:
            notes.append(str(error))
        except (OSError, ValueError, RecursionError) as error:
            notes.append(f"{file} cannot be read: {str(error).splitlines()[0]}")
        return default

    def load(file: Path, model: type[Model]) -> Model | None:
        return noted(file, lambda: model.model_validate_json(read_inside(run.path, file, _MAX_BYTES)), None)

    pair = config.data.directions[0]
    files = run.of_pair(config.data, pair)
    if len(config.data.directions) > 1:
        notes.append(f"The corpus is that of {pair.name}, the first language pair; dev scores are means of all pairs.")
    provenance = load(run.provenance_file, _Provenance)
    return RunReport(
        run,
        name,
        config,
        notes,
        noted(run.metrics_file, lambda: _valid(Record, run.logs.records(run.metrics_file)), []),
        noted(run.timing_file, lambda: _valid(_Time, run.logs.records(run.timing_file)), []),
        load(files.check_file, Check),
        noted(files.left_out_file, lambda: _count_left_out(files), {}),
        noted(files.profile_file(), files.load_profile, None),
        provenance.starts if provenance else [],
    )


def _valid(model: type[Model], lines: list[dict[str, Any]]) -> list[Model]:
    """Without those that are damaged."""
    found = []
    for line in lines:
        try:
            found.append(model.model_validate(line))
        except ValidationError:
            continue
    return found


def _count_left_out(files: PairFiles) -> dict[str, int]:
    with open_inside(files.manifest.folder, files.left_out_file) as rows:
        next(rows, None)
        reasons = (row.split(b"\t")[1] for row in rows if row.count(b"\t") >= 3)
        return dict(Counter(reason.decode("utf-8", "replace") for reason in reasons))


def _drawn(value: float) -> float | None:
    """With five digits, which are enough to draw; None where it is not finite."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _thinned(points: list[Point]) -> list[Point]:
    """Every n-th point and the last one."""
    stride = -(-len(points) // _MAX_POINTS)
    return points[:-1:stride] + points[-1:]
