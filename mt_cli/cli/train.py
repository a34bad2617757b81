"""`mt train`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from mt_cli.config_file import load_config
from mt_cli.errors import UsageError
from mt_cli.run_dir import RunDir


def train(
    config_file: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A YAML config, such as configs/phrasebook.yaml.")
    ],
    run_dir: Annotated[
        Path | None,
        typer.Option(help="Where the run lives; runs/NAME-OF-CONFIG, or that of a run's own config, by default."),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the config; repeatable.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Fit the number of steps and the schedule to this time; training.patience does not count."),
    ] = None,
) -> None:
    """Train a translator from raw text.

    The same command again continues a run that was stopped or killed, and changes nothing in one that is finished.
    """
    from mt_cli.training.signals import StopSignals

    began = time.monotonic()
    if minutes is not None and not 0 < minutes <= 1e6:
        raise UsageError(f"--minutes {minutes:g}: expected a number above 0, at most 1,000,000; 30 is half an hour")
    time_limit = [f"training.minutes={minutes}"] if minutes is not None else []
    with StopSignals() as signals:
        config = load_config(config_file, [*(overrides or ()), *time_limit])

        from mt_cli.training.run import train as train_run

        train_run(config, run_dir or _usual_run_dir(config_file), signals, began)


def _usual_run_dir(config_file: Path) -> Path:
    run = RunDir(config_file.parent)
    is_of_a_run = config_file.name == run.config_file.name and run.checkpoints.is_dir()
    return run.path if is_of_a_run else Path("runs") / config_file.stem
