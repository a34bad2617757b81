"""`mt evaluate`."""

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from mt_cli.cli import options
from mt_cli.errors import RunDirError, UsageError
from mt_cli.run.run_dir import RunDir

if TYPE_CHECKING:
    from mt_cli.evaluation.comparison import SetScores

_OF_SRC = "Source text, instead of the config's test sets."
_OF_REF = "Reference translations, line for line; repeated for several of each sentence."
_OF_HYP = "Score these translations, of any system; repeatable."
_OF_TGT_LANG = "With --hyp: their language. Default: that of the file names, or of the script."
_OF_TOKENIZE = "sacrebleu's BLEU tokenizer. Default: that of the config, or of the language."
_OF_BASELINES = "Also score the copied source and the most similar training pair."
_OF_FORMAT = "How results are printed: as text, or for a paper or a program."
Format = Literal["text", "json", "latex", "markdown"]


@options.with_search_options("n_best")
def evaluate(
    search: dict[str, Any],
    runs: Annotated[options.Files, Argument(metavar="[RUN]...", help="One or several run directories.")] = None,
    sources: Annotated[options.Files, Option("--src", help=_OF_SRC)] = None,
    references: Annotated[options.Files, Option("--ref", help=_OF_REF)] = None,
    hypotheses: Annotated[options.Files, Option("--hyp", help=_OF_HYP)] = None,
    tgt_lang: Annotated[str | None, Option(help=_OF_TGT_LANG)] = None,
    checkpoint: options.CheckpointsOption = None,
    tokenize: Annotated[str | None, Option(help=_OF_TOKENIZE)] = None,
    baselines: Annotated[bool, Option("--baselines", help=_OF_BASELINES)] = False,
    robustness: options.RobustnessOption = False,
    device: options.DeviceOption = "auto",
    to: options.ToOption = None,
    glossary: options.GlossaryOption = None,
    strict_terms: options.StrictTermsOption = False,
    form: Annotated[Format, Option("--format", help=_OF_FORMAT)] = "text",
    as_json: Annotated[bool, Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Score systems on test sets with sacrebleu. It prints BLEU, chrF and TER with 95% intervals, and the model's loss.

    Several systems are compared with the first: paired bootstrap (1,000 resamples), paired approximate randomization
    (10,000 trials), wins and losses by sentence, all of which take about two seconds for 1,000 sentences.

    Options of the search that are given here replace those of each run's config.
    """
    src, ref, runs, checkpoints = options.only_file("--src", sources), references or [], runs or [], list[str]()
    terms = options.term_options(glossary, strict_terms)
    more = {"baselines": baselines, "robustness": robustness}
    options.refuse_structured(src, *ref, *hypotheses or ())
    if hypotheses:
        if not ref:
            raise UsageError("--hyp needs --ref, the references to score against")
        needs_model = {"src": src, "checkpoint": checkpoint, "to": to, "glossary": glossary, **more, **search}
        options.refuse_options("--hyp is scored without a model", needs_model)
        if runs:
            raise UsageError(f"{runs[0]}: --hyp is scored without a run; leave one out")
    else:
        options.refuse_options("the language of translations is that of their run", {"tgt_lang": tgt_lang})
        if (src is None) != (not ref):
            raise UsageError("--src and --ref go together")
        checkpoints = _existing(runs, checkpoint, search)

    from mt_cli.evaluation.comparison import as_table
    from mt_cli.evaluation.evaluate import Evaluation
    from mt_cli.evaluation.evaluate import evaluate as evaluated

    results = list["SetScores"]()
    try:
        if hypotheses:
            results += evaluated(hyp=hypotheses, ref=ref, tokenize=tokenize, tgt_lang=tgt_lang)
        for run, name in product(runs, checkpoints):
            of_run = {"tokenize": tokenize, "device": device, "to": to, **more, **terms, **search}
            results += evaluated(run, src=src, ref=ref, checkpoint=name, **of_run)
    finally:
        if results:  # also those before a failure
            print(as_table(Evaluation(results) if runs else results, "json" if as_json else form))


def _existing(runs: list[Path], requested: list[str] | None, search: dict[str, Any]) -> list[str]:
    from mt_cli.decoding.search import adapted_settings

    if not runs:
        raise UsageError("nothing to evaluate; give a RUN, or --hyp and --ref")
    if files := [run for run in runs if run.is_file()]:
        raise RunDirError(f"{files[0]}: a file, expected a run directory; name files by --src and --ref")
    checkpoints = options.existing_checkpoints(runs, requested)
    for run in runs:
        options.refuse_without_effect(search, adapted_settings(RunDir(run).load_config().decoding, search))
    return checkpoints
