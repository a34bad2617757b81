"""What the files of a run tell without its model: curves, plan, how far the training is, corpus, config, machine.

Each file may be missing, damaged or from an earlier version: what cannot be read is left out, and noted.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel

from mt_cli.checking.report import Finding, SideFacts
from mt_cli.config import Config, DataConfig, TrainingConfig
from mt_cli.errors import RunDirError, as_typed
from mt_cli.explain.training_log import TrainingLog, finite
from mt_cli.files import read_inside, refuse_outside, refuse_special_file
from mt_cli.run.directions import told_target
from mt_cli.run.run_dir import RunDir
from mt_cli.training.metrics_log import told_time
from mt_cli.training.verdict import learning_curve, verdict

_SCORES = {"chrf": "chrF", "bleu": "BLEU", "loss": "loss"}


class _Check(BaseModel):
    """The part of `check.json` that the page shows."""

    name: str
    n_pairs: int
    n_distinct: int
    src: SideFacts
    tgt: SideFacts
    findings: list[Finding]


class _Provenance(BaseModel):
    starts: list[dict[str, Any]]


_MAX_BYTES = 1 << 31  # of a file: the check of a large corpus lists many pairs


@dataclass
class RunFacts:
    run: RunDir
    config: Config
    name: str
    notes: list[str] = field(default_factory=list)  # on what could not be read

    @property
    def pair(self) -> DataConfig:
        """The language pair whose corpus is shown: the first one."""
        return self.config.data.directions[0]

    @property
    def folder(self) -> RunDir:
        return self.run.of_pair(self.config.data, self.pair)

    @cached_property
    def log(self) -> TrainingLog:
        return TrainingLog(self.run, self.notes)

    def summary(self) -> list[str]:
        """A few sentences for people: how good it is, what to do next, how far it is."""
        if self.log.state == "new":
            return ["The training has just begun: nothing is measured yet. Open this page again after its first steps."]
        if self.log.state == "imported":
            return [f"It was imported, so nothing is known of its training.{self._told_command}"]
        steps, time = f"{self.log.last_step:,}", f" in {told_time(self.log.seconds)}" if self.log.seconds else ""
        if self.log.state == "diverged":
            return [
                f"The training diverged: after {steps} steps{time} its loss is far above its lowest, and such a loss does"
                f" not come down again. {self.told_best}",
                "Begin a new run with a lower training.learning_rate or more training.warmup_steps.",
            ]
        if self.log.state == "unfinished":
            planned = f" of {self.config.training.max_steps:,}" if self.config.training.minutes is None else ""
            return [
                f"The training is not at its end: {steps}{planned} steps{time}. {self.told_best}",
                "If it was stopped, the same mt train command continues it.",
            ]
        return [
            *self._verdict(),
            f"The training has finished after {steps} steps{time}. {self.told_best}{self._told_command}",
        ]

    @property
    def _told_command(self) -> str:
        return f" Translate with it: mt translate {as_typed(self.run.path)}{told_target(self.config)}"

    @property
    def told_best(self) -> str:
        best = self.log.best
        if best is None:
            return "It was not validated yet."
        return f"The best checkpoint is that of step {best['step']:,}, with a dev chrF of {best['chrf']:.1f} by greedy search."

    def _verdict(self) -> list[str]:
        if not self.log.validations:
            return []
        curve = learning_curve(self.log.validations)
        n_epochs = (finite(self.log.records[-1].get("epoch")) or 1) - 1  # the last one has hardly ever ended
        pairs = [(pair, self.run.of_pair(self.config.data, pair)) for pair in self.config.data.directions]
        share_faulty = fmean(0.0 if pair.clean else folder.sets.share_faulty() for pair, folder in pairs)
        learnt, advice = verdict(curve, self.config.tokenizer.vocab_size, self.n_pairs or 10**9, n_epochs, share_faulty)
        return [f"{line[:1].upper()}{line[1:]}." for line in (learnt, advice)]

    # Corpus ----------------------------------------------------------------------------------------------------------

    @cached_property
    def check(self) -> dict[str, Any]:
        """What a check of the corpus found; empty where nothing is known."""
        return self._read(self.folder.sets.check_file, _Check)

    @cached_property
    def left_out(self) -> dict[str, int]:
        """How many pairs are not trained on, by reason."""
        file = self.folder.sets.left_out_file
        try:
            refuse_outside(self.run.path, file)
            refuse_special_file(file)
            with file.open(encoding="utf-8", errors="replace", newline="\n") as rows:
                return dict(
                    Counter(row.split("\t", 2)[1] for row in rows if row.count("\t") in (3, 5) and row[0] != "l")
                )
        except FileNotFoundError:
            return {}
        except (RunDirError, OSError) as error:
            self.notes.append(str(error))
            return {}

    @property
    def n_pairs(self) -> int | None:
        """Of the corpus, without those that are left out."""
        return self.check["n_pairs"] - sum(self.left_out.values()) if self.check else None

    def _profile(self) -> dict[str, Any]:
        try:
            profile = self.folder.text.load_profile()
        except RunDirError as error:
            self.notes.append(str(error))
            return {}
        return profile.model_dump(include={"longest_src", "length_ratio", "characters"}) if profile else {}

    def _read(self, file: Path, kind: type[BaseModel]) -> dict[str, Any]:
        """What people wrote by hand or a stranger sent is held to its kind; numbers that are not finite become null."""
        try:
            found = json.loads(
                read_inside(self.run.path, file, _MAX_BYTES),
                parse_float=lambda text: finite(float(text)),
                parse_constant=lambda _: None,
            )
            return kind.model_validate(found).model_dump()
        except FileNotFoundError:
            return {}
        except (RunDirError, OSError, ValueError, RecursionError) as error:
            self.notes.append(f"{file} cannot be read: {str(error).splitlines()[0]}")
            return {}

    def as_page(self) -> dict[str, Any]:
        data, training = self.pair, self.config.training
        if len(self.config.data.directions) > 1:
            self.notes.append(
                f"The corpus that is shown is that of {data.name}, the first language pair; scores of the training are means of all pairs."
            )
        return {
            "name": self.name,
            "srcLang": data.src_lang.replace("_", "-"),
            "tgtLang": data.tgt_lang.replace("_", "-"),
            "state": self.log.state,
            "summary": self.summary(),
            "curves": self.log.curves,
            "bestStep": self.log.best["step"] if self.log.best else None,
            "bestChrf": self.log.best["chrf"] if self.log.best else None,
            "maxSteps": training.max_steps if training.minutes is None else None,
            "minutes": training.minutes,
            "plan": None if self.log.state == "imported" else _told_plan(training),
            "check": self.check,
            "leftOut": self.left_out,
            "profile": self._profile(),
            "starts": self._read(self.run.provenance_file, _Provenance).get("starts", []),
            "notes": self.notes,  # last: reading the others adds to them
        }


def _told_plan(training: TrainingConfig) -> str:
    if training.minutes is not None:  # steps, schedule and validations are fitted to them
        plan = told_time(60 * training.minutes)
    else:
        plan = (
            f"{training.max_steps:,} steps, {training.schedule} schedule after {training.warmup_steps:,} steps of warm-up,"
            f" a validation every {training.validate_every_steps:,} steps"
        )
    return f"Planned: {plan}; the dev {_SCORES[training.select_by]} chooses the best checkpoint."
