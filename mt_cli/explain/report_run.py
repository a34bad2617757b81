"""What the files of a run say without its model: its curves, how far the training is, corpus, config, machine.

A file that is missing or cannot be read is left out, and noted.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from mt_cli.checking.report import Finding, SideFacts
from mt_cli.config import Config
from mt_cli.errors import RunDirError, as_typed
from mt_cli.files import read_inside
from mt_cli.run.directions import target_option
from mt_cli.run.run_dir import RunDir
from mt_cli.training.guards import FAR_ABOVE
from mt_cli.training.metrics_log import format_duration
from mt_cli.training.verdict import learning_curve, verdict

_CURVES = ("dev_loss", "train_loss", "chrf", "bleu", "loss", "learning_rate", "grad_norm", "tokens_per_second")
_MAX_POINTS = 600  # of a curve; more cannot be told apart on a screen
_MAX_BYTES = 1 << 31  # of a file: the check of a large corpus lists many pairs

Point = tuple[int, float | None, float | None]  # step, minute and value; None: not known, or not finite
T = TypeVar("T")


class Record(BaseModel):
    """A line of `metrics.jsonl` or `timing.jsonl`."""

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
    elapsed_seconds: FiniteFloat = 0.0
    tokens_per_second: float | None = None


class Check(BaseModel):
    """The part of `check.json` that the page shows."""

    name: str
    n_pairs: int
    n_distinct: int
    src: SideFacts
    tgt: SideFacts
    findings: list[Finding]


class Provenance(BaseModel):
    starts: list[dict[str, Any]]


@dataclass
class RunReport:
    """A run as its files describe it. Of several language pairs the corpus is that of the first."""

    run: RunDir
    name: str
    config: Config
    notes: list[str]  # on what could not be read
    records: list[Record]
    times: list[Record]
    check: Check | None
    n_left_out: int  # pairs that are not trained on
    starts: list[dict[str, Any]]

    @property
    def best(self) -> Record | None:
        """The validation whose checkpoint is the best."""
        return next((one for one in reversed(self.records) if one.is_best and one.chrf is not None), None)

    @property
    def curves(self) -> dict[str, list[Point]]:
        minutes = {one.step: round(one.elapsed_seconds / 60, 3) for one in self.times}
        curves = {}
        for key in _CURVES:
            values = [(one.step, getattr(one, key)) for one in (*self.records, *self.times)]
            if known := [(step, value) for step, value in values if value is not None]:
                stride = -(-len(known) // _MAX_POINTS)
                curves[key] = [
                    (step, minutes.get(step), float(f"{value:.5g}") if math.isfinite(value) else None)
                    for step, value in known[:-1:stride] + known[-1:]
                ]
        return curves

    def for_script(self) -> dict[str, Any]:
        """What the script of the page reads."""
        training = self.config.training
        return {
            "name": self.name,
            "curves": self.curves,
            "best_step": self.best.step if self.best else None,
            "max_steps": training.max_steps if training.minutes is None else None,
            "minutes": training.minutes,
        }

    @property
    def is_finished(self) -> bool:
        return bool(self.records) and self.records[-1].is_last and self.records[-1].chrf is not None

    @cached_property
    def summary(self) -> list[str]:
        """A few sentences: how good it is, what to do next, how far it is."""
        command = f"Translate with it: mt translate {as_typed(self.run.path)}{target_option(self.config)}"
        if not self.records:
            if self.run.is_imported:
                return [f"It was imported, so nothing is known of its training. {command}"]
            return ["The training has just begun: nothing is measured yet. Open this page again after its first steps."]
        best, training, steps = "It was not validated yet.", self.config.training, f"{self.records[-1].step:,}"
        if self.best is not None:
            chrf = f"{self.best.chrf:.1f}"
            best = (
                f"The best checkpoint is that of step {self.best.step:,}, with a dev chrF of {chrf} by greedy search."
            )
        time = f" in {format_duration(self.times[-1].elapsed_seconds)}" if self.times else ""
        losses = [one.train_loss for one in self.records if one.train_loss is not None]
        # The objective rises by itself where R-Drop begins.
        losses = losses or [one.loss for one in self.records if one.loss is not None]
        finite = [loss for loss in losses if math.isfinite(loss)]
        if finite and not losses[-1] <= min(finite) + FAR_ABOVE:  # also where it is not a number
            return [
                f"The training diverged: after {steps} steps{time} its loss is far above its lowest, and such a loss does"
                f" not come down again. {best}",
                "Begin a new run with a lower training.learning_rate or more training.warmup_steps.",
            ]
        if not self.is_finished:
            planned = f" of {training.max_steps:,}" if training.minutes is None else ""
            return [
                f"The training has not finished: {steps}{planned} steps{time}. {best}",
                "If it was stopped, the same mt train command continues it.",
            ]
        return [*self._verdict(), f"The training has finished after {steps} steps{time}. {best} {command}"]

    def _verdict(self) -> list[str]:
        if not (curve := learning_curve([one.model_dump(exclude_none=True) for one in self.records])):
            return []
        pairs = [(pair, self.run.of_pair(self.config.data, pair)) for pair in self.config.data.directions]
        share_faulty = fmean(0.0 if pair.clean else files.share_faulty() for pair, files in pairs)
        n_pairs = self.check.n_pairs - self.n_left_out if self.check else 10**9
        n_epochs = self.records[-1].epoch - 1  # the last one has hardly ever ended
        lines = verdict(curve, self.config.tokenizer.vocab_size, n_pairs, n_epochs, share_faulty)
        return [f"{line[:1].upper()}{line[1:]}." for line in lines]


def read_run(run: RunDir, name: str) -> RunReport:
    notes, config = list[str](), run.load_config()
    pairs = config.data.directions
    files = run.of_pair(config.data, pairs[0])

    def read(file: Path, parse: Callable[[bytes], T], default: T) -> T:
        try:
            return parse(read_inside(run.path, file, _MAX_BYTES))
        except FileNotFoundError:
            pass
        except (RunDirError, OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            notes.append(reason if isinstance(error, RunDirError) else f"{file} cannot be read: {reason}")
        return default

    def records(content: bytes) -> list[Record]:
        found = []
        for line in content.splitlines():
            with contextlib.suppress(ValidationError):  # one damaged line
                found.append(Record.model_validate_json(line))
        return found

    if len(pairs) > 1:
        notes.append(
            f"The corpus is that of {pairs[0].name}, the first language pair; dev scores are means of all pairs."
        )
    return RunReport(
        run=run,
        name=name,
        config=config,
        notes=notes,
        records=read(run.metrics_file, records, []),
        times=read(run.timing_file, records, []),
        check=read(files.check_file, Check.model_validate_json, None),
        n_left_out=read(files.left_out_file, lambda table: max(0, table.count(b"\n") - 1), 0),
        starts=read(run.provenance_file, Provenance.model_validate_json, Provenance(starts=[])).starts,
    )
