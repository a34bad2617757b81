"""A `Trainer` of the tiny corpus that a test has entered."""

from __future__ import annotations

from pathlib import Path

from mt_cli.config_file import load_config
from mt_cli.run_dir import RunDir
from mt_cli.training.loop import Trainer
from mt_cli.training.prepare import prepare
from mt_cli.training.signals import StopSignals


def options(*overrides: str) -> list[str]:
    return [word for override in overrides for word in ("--set", override)]


def trainer_of(run: Path, *overrides: str) -> Trainer:
    """What `mt train tiny.yaml --run-dir RUN` trains with."""
    config, run_dir = load_config(Path("tiny.yaml"), overrides), RunDir(run)
    run_dir.path.mkdir(parents=True, exist_ok=True)
    run_dir.save_config(config)
    return Trainer(config, run_dir, prepare(config, run_dir), StopSignals())
