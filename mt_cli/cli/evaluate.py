"""`mt evaluate`."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mt_cli.cli.options import (
    CheckpointsOption,
    DeviceOption,
    ToOption,
    only_file,
    refuse_missing_checkpoints,
    refuse_options,
    refuse_structured,
    refuse_without_effect,
    with_search_options,
)
from mt_cli.errors import RunDirError, UsageError
from mt_cli.run.run_dir import RunDir

if TYPE_CHECKING:
    from mt_cli.evaluation.comparison import SetScores


Files = list[Path] | None
SourcesOption = Annotated[Files, typer.Option("--src", help="Source text, instead of the config's test sets.")]
ReferencesOption = Annotated[
    Files, typer.Option("--ref", help="Reference translations, line for line; repeated for several of each sentence.")
]
HypothesesOption = Annotated[Files, typer.Option("--hyp", help="Score these translations, of any system; repeatable.")]
TgtLangOption = Annotated[
    str | None, typer.Option(help="With --hyp: their language. Default: that of the file names, or of the script.")
]
TokenizeOption = Annotated[
    str | None, typer.Option(help="sacrebleu's BLEU tokenizer. Default: that of the config, or of the language.")
]


@with_search_options("n_best")
def evaluate(
    search: dict[str, Any],
    runs: Annotated[Files, typer.Argument(metavar="[RUN]...", help="One or several run directories.")] = None,
    sources: SourcesOption = None,
    references: ReferencesOption = None,
    hypotheses: HypothesesOption = None,
    tgt_lang: TgtLangOption = None,
    checkpoint: CheckpointsOption = None,
    tokenize: TokenizeOption = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Also score the copied source and the most similar training pair.")
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
    src, ref, checkpoints = only_file("--src", sources), references or [], checkpoint or ["best"]
    refuse_structured(src, *ref, *hypotheses or ())
    if hypotheses:
        needs_model = {"src": src, "checkpoint": checkpoint, "baselines": baselines, "to": to, **search}
        _refuse_model(runs, ref, needs_model | {"device": None if device == "auto" else device})
    else:
        _refuse_runs(runs or [], src, ref, checkpoints, search)
        refuse_options("the language of translations is that of their run", {"tgt_lang": tgt_lang})

    from mt_cli.evaluation import evaluate as evaluation
    from mt_cli.evaluation.tables import as_table

    results = list["SetScores"]()
    try:
        if hypotheses:
            results += evaluation.evaluate(hyp=hypotheses, ref=ref, tokenize=tokenize, tgt_lang=tgt_lang)
        for run, name in product(runs or [], checkpoints):
            options = {"tokenize": tokenize, "device": device, "to": to, "baselines": baselines, **search}
            results += evaluation.evaluate(run, src=src, ref=ref, checkpoint=name, **options)
    finally:
        if results:  # also those before a failure
            print(as_table(evaluation.Evaluation(results), "json" if as_json else form or "text"))


def _refuse_model(runs: Files, ref: list[Path], needs_model: dict[str, Any]) -> None:
    if not ref:
        raise UsageError("--hyp needs --ref, the references to score against")
    if runs:
        raise UsageError(f"{runs[0]}: --hyp is scored without a run; leave one out")
    refuse_options("--hyp is scored without a model", needs_model)


def _refuse_runs(
    runs: list[Path], src: Path | None, ref: list[Path], checkpoints: list[str], search: dict[str, Any]
) -> None:
    if (src is None) != (not ref):
        raise UsageError("--src and --ref go together")
    if src in ref:
        raise UsageError(f"--src and --ref are both {src}; give the source and its translations")
    if files := [str(run) for run in runs if run.is_file()]:
        raise RunDirError(f"{files[0]}: a file, expected a run directory; name files by --src and --ref")
    if not runs:
        raise UsageError("nothing to evaluate; give a RUN, or --hyp and --ref")
    refuse_missing_checkpoints(runs, checkpoints)

    from mt_cli.decoding.search import adapted_settings

    for path in runs:
        refuse_without_effect(search, adapted_settings(RunDir(path).load_config().decoding, search))
