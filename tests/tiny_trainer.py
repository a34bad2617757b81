"""A `Trainer` of the tiny corpus that a test has entered."""

from __future__ import annotations

import time
from pathlib import Path

from mt_cli.config_file import load_config
from mt_cli.run_dir import RunDir
from mt_cli.training.loop import Trainer
from mt_cli.training.run import prepared_trainer
from mt_cli.training.signals import StopSignals


def options(*overrides: str) -> list[str]:
    return [word for override in overrides for word in ("--set", override)]


def trainer_of(run: Path, *overrides: str) -> Trainer:
    """What `mt train tiny.yaml --run-dir RUN` trains with."""
    run.mkdir(parents=True, exist_ok=True)
    return prepared_trainer(load_config(Path("tiny.yaml"), overrides), RunDir(run), StopSignals(), time.monotonic())
