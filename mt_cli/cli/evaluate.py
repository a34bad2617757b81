"""`mt evaluate`."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mt_cli.cli.options import (
    CheckpointsOption,
    DeviceOption,
    ToOption,
    only_file,
    refuse_options,
    refuse_structured,
    refuse_without_effect,
    with_search_options,
)
from mt_cli.display import escaped
from mt_cli.errors import RunDirError, UsageError
from mt_cli.run.run_dir import RunDir

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
        list[Path] | None, typer.Option("--hyp", help="Score these translations, of any system; repeatable.")
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
    to: ToOption = None,
    form: Annotated[
        Literal["text", "json", "latex", "markdown", "csv"] | None,
        typer.Option("--format", help="How results are printed: as text (the default), or for a paper or a program."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Score systems on test sets with sacrebleu. It prints BLEU, chrF and TER with 95% intervals, and the model's loss.

    Several systems are compared with the first: paired bootstrap (1,000 resamples), paired approximate randomization
    (10,000 trials), wins and losses by sentence, all of which take about two seconds for 1,000 sentences.

    The search is that of each run's config, but for the options of a search that are given here.
    """
    if as_json and form not in {None, "json"}:
        raise UsageError(f"--json is the same as --format json; leave out --json or --format {form}")
    form = "json" if as_json else form or "text"
    src, ref = only_file("--src", sources), only_file("--ref", references)
    refuse_structured(src, ref, *hypotheses or ())
    if hypotheses:
        if ref is None:
            raise UsageError("--hyp needs --ref, the references to score against")
        if runs:
            raise UsageError(f"{runs[0]}: --hyp is scored without a run; leave one out")
        needs_model = {"src": src, "checkpoint": checkpoint, "baselines": baselines, "to": to, **search}
        refuse_options(
            "--hyp is scored without a model", needs_model | {"device": None if device == "auto" else device}
        )
        _evaluate_files(hypotheses, ref, tokenize, form)
        return
    if files := [str(run) for run in runs or () if run.is_file()]:
        raise RunDirError(f"{files[0]}: a file, expected a run directory; name files by --src and --ref")
    if not runs:
        raise UsageError("nothing to evaluate; give a RUN, or --hyp and --ref")
    test_set = _test_set(src, ref)
    _evaluate_runs(runs, checkpoint or ["best"], test_set, tokenize, search, device, form, baselines, to)


def _test_set(src: Path | None, ref: Path | None) -> list[str] | None:
    if (src is None) != (ref is None):
        raise UsageError("--src and --ref go together")
    if src is not None and src == ref:
        raise UsageError(f"--src and --ref are both {src}; give the source and its translations")
    return [str(src), str(ref)] if src is not None else None


def _evaluate_files(files: list[Path], ref: Path, tokenize: str | None, form: str) -> None:
    from mt_cli.evaluation.evaluate import evaluate_files

    _print_results([evaluate_files(hyp, ref, tokenize) for hyp in files], [], form)


def _evaluate_runs(
    runs: list[Path],
    checkpoints: list[str],
    test_set: list[str] | None,
    tokenize: str | None,
    search: dict[str, Any],
    device: str,
    form: str,
    with_baselines: bool,
    to: str | None,
) -> None:
    requested = [(RunDir.existing(run), name) for run in runs for name in checkpoints]
    for run, name in requested:
        run.find_checkpoint(name)

    from mt_cli.decoding.search import adapted_settings
    from mt_cli.evaluation.evaluate import evaluate_baselines, evaluate_run

    for path in runs:
        refuse_without_effect(search, adapted_settings(RunDir(path).load_config().decoding, search))
    results, baselines = list[dict[str, Any]](), list[dict[str, Any]]()
    for run, name in requested if with_baselines else ():  # first, as they take seconds and can fail for want of a file
        if name == checkpoints[0]:
            baselines += [row for row in evaluate_baselines(run, test_set, tokenize, to) if row not in baselines]
    try:
        for run, name in requested:
            results += evaluate_run(run, name, test_set, tokenize, search, device, to)
    finally:
        if results:  # also those before a failure
            _print_results(results, baselines, form)


def _print_results(results: list[dict[str, Any]], baselines: list[dict[str, Any]], form: Any) -> None:
    from mt_cli.evaluation.comparison import with_comparisons
    from mt_cli.evaluation.tables import as_table

    results = with_comparisons(results) + baselines
    for result in results:
        for warning in result.pop("warnings"):
            log.warning(f"{result['test_set']}: {warning}")
        del result["system"]
    if form == "json":
        print(json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print(as_table(_escaped(results), form))


def _escaped(value: Any) -> Any:
    """The value with all text in it escaped."""
    if isinstance(value, dict):
        return {_escaped(key): _escaped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    return escaped(value) if isinstance(value, str) else value
