"""A `Trainer` of the tiny corpus, and a run of it that claims other languages."""

from __future__ import annotations

import time
from pathlib import Path

from mt_cli.build import prepare, prepared_trainer
from mt_cli.config_file import load_config
from mt_cli.run.run_dir import PairFiles, RunDir
from mt_cli.training.loop import Trainer
from mt_cli.training.signals import StopSignals


def options(*overrides: str) -> list[str]:
    return [word for override in overrides for word in ("--set", override)]


def trainer_of(run: Path, *overrides: str, began: float | None = None) -> Trainer:
    """What `mt train tiny.yaml --run-dir RUN` trains with; `began`: when, on the clock of the test."""
    run.mkdir(parents=True, exist_ok=True)
    began = time.monotonic() if began is None else began
    prepared = prepare(load_config(Path("tiny.yaml"), overrides), folder := RunDir(run))
    return prepared_trainer(prepared, folder, StopSignals(), began)


def pair_of(run: RunDir) -> PairFiles:
    """What a run keeps of its only or first language pair."""
    data = run.load_config().data
    return run.of_pair(data, data.directions[0])
