"""`mt evaluate`."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from mt_cli.cli.options import (
    CheckpointsOption,
    DeviceOption,
    only_file,
    refuse_columns,
    refuse_options,
    with_search_options,
)
from mt_cli.cli.streams import printable
from mt_cli.errors import UsageError
from mt_cli.run_dir import RunDir

log = logging.getLogger(__name__)


@with_search_options("n_best")
def evaluate(
    search: dict[str, Any],
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="One or several run directories.")
    ] = None,
    sources: Annotated[
        list[Path] | None, typer.Option("--src", help="Source text, instead of the config's test sets.")
    ] = None,
    references: Annotated[
        list[Path] | None, typer.Option("--ref", help="Reference translations, line for line; one file.")
    ] = None,
    hypotheses: Annotated[
        list[Path] | None, typer.Option("--hyp", help="Score these translations; no model is run.")
    ] = None,
    checkpoint: CheckpointsOption = None,
    tokenize: Annotated[
        str | None, typer.Option(help="sacrebleu's BLEU tokenizer; if not given the config's, 13a with --hyp.")
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="Also score the copied source and the most similar training pair."),
    ] = False,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list instead of a table.")] = False,
) -> None:
    """Score runs on test sets with sacrebleu: BLEU, chrF, TER, loss and perplexity.

    The search is that of each run's config, but for the options of a search that are given here.
    """
    src, ref, hyp = (
        only_file("--src", sources),
        only_file("--ref", references),
        only_file("--hyp", hypotheses),
    )
    refuse_columns(src, ref, hyp)
    if hyp is not None:
        if ref is None:
            raise UsageError("--hyp needs --ref, the references to score against")
        if runs:
            raise UsageError(f"{runs[0]}: --hyp is scored without a run; leave one out")
        device_given = None if device == "auto" else device
        needs_model = {"src": src, "checkpoint": checkpoint, "device": device_given, "baselines": baselines, **search}
        refuse_options("--hyp is scored without a model", needs_model)
        _evaluate_files(hyp, ref, tokenize, as_json)
        return
    if not runs:
        raise UsageError("nothing to evaluate; give a RUN, or --hyp and --ref")
    if (src is None) != (ref is None):
        raise UsageError("--src and --ref go together")
    if src is not None and src == ref:
        raise UsageError(f"--src and --ref are both {src}; give the source and its translations")
    test_set = [str(src), str(ref)] if src is not None else None
    _evaluate_runs(runs, checkpoint or ["best"], test_set, tokenize, search, device, as_json, baselines)


def _evaluate_files(hyp: Path, ref: Path, tokenize: str | None, as_json: bool) -> None:
    from mt_cli.evaluation.evaluate import evaluate_files

    _print_results([evaluate_files(hyp, ref, tokenize)], as_json)


def _evaluate_runs(
    runs: list[Path],
    checkpoints: list[str],
    test_set: list[str] | None,
    tokenize: str | None,
    search: dict[str, Any],
    device: str,
    as_json: bool,
    with_baselines: bool,
) -> None:
    requested = [(RunDir.existing(run), name) for run in runs for name in checkpoints]
    for run, name in requested:
        run.find_checkpoint(name)

    from mt_cli.evaluation.evaluate import evaluate_baselines, evaluate_run

    results, baselines = list[dict[str, Any]](), list[dict[str, Any]]()
    for run, name in requested if with_baselines else ():  # first, as they take seconds and can fail for want of a file
        if name == checkpoints[0]:
            baselines += [row for row in evaluate_baselines(run, test_set, tokenize) if row not in baselines]
    try:
        for run, name in requested:
            results += evaluate_run(run, name, test_set, tokenize, search, device)
    finally:
        if results:  # also those before a failure
            _print_results(results + baselines, as_json)


def _print_results(results: list[dict[str, Any]], as_json: bool) -> None:
    from mt_cli.evaluation.evaluate import as_table

    for result in results:
        for warning in result.pop("warnings"):
            log.warning(f"{result['test_set']}: {warning}")
    if as_json:
        print(json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        names = ("run", "test_set")
        print(as_table([result | {n: printable(result[n]) for n in names if n in result} for result in results]))
