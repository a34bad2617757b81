"""`mt check`."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from mt_cli.checking.findings import Report
from mt_cli.cli.corpus import (
    ColumnsOption,
    CorpusArgument,
    SetOption,
    SrcLangOption,
    TgtLangOption,
    read_config,
)
from mt_cli.cli.options import catch_ctrl_c, refuse_options
from mt_cli.config import Config
from mt_cli.data.corpora import TrainingText
from mt_cli.errors import ConfigError, DataError, RunDirError, TrainingError, UsageError
from mt_cli.recipe import reached_scores
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

_WIDTH = 80


def check(
    corpus: CorpusArgument,
    src_lang: SrcLangOption = None,
    tgt_lang: TgtLangOption = None,
    columns: ColumnsOption = None,
    dev: Annotated[
        list[Path] | None, typer.Option("--dev", help="The dev set: a table, or given twice, for source and target.")
    ] = None,
    test: Annotated[list[Path] | None, typer.Option("--test", help="A test set, likewise.")] = None,
    overrides: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: 100 examples of a fault instead of 3.")] = False,
    dropped: Annotated[
        Path | None,
        typer.Option(metavar="FILE.tsv", help="Write the pairs that `mt train --clean` would leave out, and why."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="RUN",
            help="Print the 2% of the pairs (at least 20) that this run doubts most, the worst first; no report.",
        ),
    ] = None,
) -> int:
    """Look a corpus through before training. It tells what the corpus has, what is wrong with it, and what to do about that.

    The exit code is 1 when something would make the result of a training worthless.
    """
    if dropped is not None and dropped.exists():
        raise UsageError(f"{dropped}: File exists; choose another --dropped")
    config = read_config(corpus, src_lang, tgt_lang, columns, dev, test, overrides or [])

    catch_ctrl_c()
    pairs = config.data.directions
    if len(pairs) > 1 and (run is not None or dropped is not None):
        option = "--with" if run is not None else "--dropped"
        raise UsageError(f"{option} is for one language pair; give its two files in place of the config")
    if run is not None:
        refuse_options("--with prints no report", {"dev": dev, "test": test, "json": as_json, "dropped": dropped})
        _print_suspects(config, run)
        return 0

    from mt_cli.checking.corpus_check import check as check_corpus

    _tell("looking the corpus through ...")
    reports = {pair.name: check_corpus(pair) for pair in pairs}
    last = reports[pairs[-1].name]
    if not any(report.is_fatal for report in reports.values()):
        _tell("timing a training on this machine ...")
        _forecast(config, last, sum(report.n_distinct for report in reports.values()))
    width = min(_WIDTH, max(40, shutil.get_terminal_size((_WIDTH, 24)).columns))
    if as_json:
        one = {name: json.loads(report.as_json()) for name, report in reports.items()}
        print(last.as_json() if len(pairs) == 1 else json.dumps(one, indent=2, ensure_ascii=False))
    else:
        headings = {name: f"{name}\n\n" if len(pairs) > 1 else "" for name in reports}
        print("\n\n".join(f"{headings[name]}{report.as_table(width)}" for name, report in reports.items()))
    if dropped is not None:
        last.write_dropped(dropped)
    return 1 if any(report.is_fatal for report in reports.values()) else 0


def _print_suspects(config: Config, run: Path) -> None:
    """A table as `--dropped` writes it, with scores for reasons."""
    from mt_cli.evaluation.suspects import find_suspects

    found = find_suspects(RunDir.existing(run), config.data.directions[0])
    table = TrainingText(config.data.directions[0]).table(
        ((f"{score:.2f}", pair) for score, pair in found.worst), "score"
    )
    print("".join(table), end="")
    too_long = f"; {found.n_too_long:,} too long for the model are not ranked" if found.n_too_long else ""
    log.info(
        f"{len(found.worst):,} of {found.n_ranked:,} pairs, the worst first{too_long}; look at them, and delete those"
        " that are no translations from the corpus"
    )


def _tell(text: str) -> None:
    """What a person waits for; in a pipe nobody does."""
    if sys.stderr.isatty():
        log.info(text)


def _forecast(config: Config, report: Report, n_distinct: int) -> None:
    """Adds to the report what a training would take, and what such trainings reached with about so many distinct pairs."""
    from mt_cli.training.forecast import forecast  # here, because torch takes seconds to load

    try:
        report.forecast = [*forecast(config), reached_scores(n_distinct)]
    except (UsageError, ConfigError, DataError, RunDirError, TrainingError) as error:  # the report is worth its time
        report.forecast, report.is_refused = [f"It cannot be trained on: {problem}" for problem in error.args], True
