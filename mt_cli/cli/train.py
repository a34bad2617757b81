"""`mt train`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from mt_cli.cli.corpus import (
    ColumnsOption,
    CorpusArgument,
    DevOption,
    SetOption,
    SrcLangOption,
    TestOption,
    TgtLangOption,
    read_config,
    usual_run_dir,
)
from mt_cli.errors import UsageError
from mt_cli.run_dir import RunDir


def train(
    corpus: CorpusArgument,
    src_lang: SrcLangOption = None,
    tgt_lang: TgtLangOption = None,
    columns: ColumnsOption = None,
    dev: DevOption = None,
    test: TestOption = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Fit the number of steps and the schedule to this time; training.patience does not count."),
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Leave out the pairs that `mt check` would drop; left_out.tsv lists them.")
    ] = False,
    init_from: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="A run to begin with: its weights, tokenizer and held-out sets."),
    ] = None,
    overrides: SetOption = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where the run lives. Default: runs/ and the languages, or the name of the table or config; with --clean another."
        ),
    ] = None,
) -> None:
    """Train a translator from a corpus: mt train train.es train.gn

    What is not set is chosen from the corpus; the run's config.yaml tells each choice and its reason. The same command
    again continues a run that was stopped or killed, and changes nothing in one that is finished.
    """
    from mt_cli.training.signals import StopSignals

    began = time.monotonic()
    if minutes is not None and not 0 < minutes <= 1e6:
        raise UsageError(f"--minutes {minutes:g}: expected a number above 0, at most 1,000,000; 30 is half an hour")
    settings = list(overrides or ())
    if minutes is not None:
        settings.append(f"training.minutes={minutes}")
    if clean:
        settings.append("data.clean=true")
    if init_from is not None:
        settings.append(f"training.init_from={init_from}")
    with StopSignals() as signals:
        config = read_config(corpus, src_lang, tgt_lang, columns, dev, test, settings)

        from mt_cli.explain.estimate import keep_estimate
        from mt_cli.training.run import train as train_run

        run = RunDir(run_dir or usual_run_dir(corpus, config, clean, init_from))
        train_run(config, run.path, signals, began)
        keep_estimate(run, lambda: signals.is_stopping)
