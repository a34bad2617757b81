"""`mt train`: a run, or one for each combination of the values that `--set KEY=A,B` gives."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from mt_cli.cli import options
from mt_cli.config import Config
from mt_cli.config_file import alternatives
from mt_cli.corpus_config import beside, corrections_of, read_config, usual_run_dir
from mt_cli.errors import CheckpointError, ConfigError, DataError, RunDirError, TrainingError, UsageError, as_typed
from mt_cli.processes import n_processes
from mt_cli.run.run_dir import RunDir

if TYPE_CHECKING:
    from mt_cli.processes import StopSignals

log = logging.getLogger(__name__)

_MAX_RUNS = 100

_OF_MINUTES = "Train for so long: steps and schedule are fitted to it, patience is ignored."
_OF_CLEAN = "Leave out what `mt check` would drop; left_out.tsv lists it."
_OF_FROM = "A run to begin with: its weights, tokenizer and held-out sets."
_OF_CORRECTIONS = "In place of CORPUS: what people corrected in translations of --from RUN."
_OF_EXTENDED = "With --from: add subwords of this corpus to its tokenizer."
_OF_MONOLINGUAL = "Text to learn from by back-translation; repeatable. At least one file in the target language."
_OF_WORDS = "Words and short phrases to learn: a table, or given twice, for source and target."
_OF_SET = "Replace a value of the config; repeatable. KEY=A,B trains a run for each value, then compares them."
_OF_RUN_DIR = "Where the run lives. Default: runs/ and the languages, or the name of the table or config."


def train(
    corpus: options.OptionalCorpusArgument = None,
    src_lang: options.SrcLangOption = None,
    tgt_lang: options.TgtLangOption = None,
    columns: options.ColumnsOption = None,
    dev: options.DevOption = None,
    test: options.TestOption = None,
    minutes: Annotated[float | None, Option(help=_OF_MINUTES)] = None,
    clean: Annotated[bool, Option("--clean", help=_OF_CLEAN)] = False,
    init_from: Annotated[Path | None, Option("--from", metavar="RUN", help=_OF_FROM)] = None,
    corrections: Annotated[bool, Option("--corrections", help=_OF_CORRECTIONS)] = False,
    extend_vocabulary: Annotated[bool, Option("--extend-vocabulary", help=_OF_EXTENDED)] = False,
    monolingual: Annotated[options.Files, Option(metavar="FILE", help=_OF_MONOLINGUAL)] = None,
    words: Annotated[options.Files, Option(metavar="FILE", help=_OF_WORDS)] = None,
    in_domain: options.InDomainOption = None,
    overrides: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help=_OF_SET)] = None,
    run_dir: Annotated[Path | None, Option(help=_OF_RUN_DIR)] = None,
) -> int:
    """Train a translator from a corpus: mt train train.es train.gn

    Or from several, the main one first: mt train train.es train.gn bible.es bible.gn news.tsv. Or from a folder, into
    the language of --to: mt train corpora --to gn

    What is not set is chosen from the corpus; the run's config.yaml has each choice and its reason. The same command
    again continues a run that was stopped or killed, and changes nothing in one that is finished.

    --set training.seed=1,2,3 trains three runs one after the other, runs/es-gn-seed-1 and so on, and compares them.
    """
    from mt_cli.processes import StopSignals

    began = time.monotonic()
    given = {"clean": clean, "monolingual": monolingual, "words": words, "in-domain": in_domain}
    more = [name for name, is_given in given.items() if is_given]
    configs, kept = dict[Path, Config](), list[str]()
    if corrections:
        if corpus or init_from is None:
            raise UsageError("--corrections takes the place of a corpus; give --from RUN with it, and no corpus")
        table, columns, kept = corrections_of(init_from)
        of_command = {"data.dev": dev, "data.test": test}
        kept = [one for one in kept if not of_command.get(one.partition("=")[0])]
        corpus, (src_lang, tgt_lang) = [table], columns.split(",")
        run_dir = run_dir or beside(init_from, "corrected")
    if not corpus:
        raise UsageError("no corpus; give two text files, a table, a folder or a config")
    with StopSignals() as signals:
        for suffix, own in combinations(overrides or []).items():
            rest = (monolingual, init_from, words, minutes, clean, extend_vocabulary, in_domain)
            config = read_config(corpus, src_lang, tgt_lang, columns, dev, test, [*kept, *own], *rest)
            base = run_dir or usual_run_dir(corpus, config, more, init_from)
            configs[Path(f"{base}{suffix}")] = config
        trained = train_each(configs, signals, began)
        signals.check()
    if len(configs) > 1 and trained:
        compare(trained, config.training.device, Path(f"{base}.html"))
    return 0 if len(trained) == len(configs) else 1


def combinations(overrides: Sequence[str]) -> dict[str, list[str]]:
    """The overrides of each run, by the end of its directory's name, such as -seed-1. Raises UsageError."""
    of_keys = {override.partition("=")[0].strip(): alternatives(override) for override in overrides}
    if (n_runs := math.prod(map(len, of_keys.values()))) > _MAX_RUNS:
        raise UsageError(f"--set asks for {n_runs:,} runs, expected at most {_MAX_RUNS}; give fewer values at once")
    if n_processes() > 1 and n_runs > 1:
        raise UsageError("--set with several values is for one process; call torchrun once for each value")
    last_parts = [key.rpartition(".")[2] for key, values in of_keys.items() if len(values) > 1]
    found = dict[str, list[str]]()
    for chosen in product(*of_keys.values()):
        suffix = ""
        for (key, values), override in zip(of_keys.items(), chosen, strict=True):
            if len(values) > 1:
                part = key.rpartition(".")[2]
                words = re.findall(r"[\w.+-]+", override.partition("=")[2])
                suffix += f"-{part if last_parts.count(part) == 1 else key}-{'-'.join(words) or 'null'}"
        if suffix in found:
            raise UsageError(f"--set: two runs would be called {suffix[1:]}; train one by itself, with --run-dir")
        found[suffix] = list(chosen)
    return found


def train_each(configs: dict[Path, Config], signals: StopSignals, began: float) -> list[Path]:
    """Trains one after the other; returns those that did not fail. `began`: when the command did, by `time.monotonic`."""
    from mt_cli.build import train

    def write_page(run: RunDir) -> None:
        _write_page([run.path], run.path / "report.html", quick=True)

    trained = list[Path]()
    for number, (run, config) in enumerate(configs.items(), 1):
        if len(configs) > 1:
            log.info(f"run {number} of {len(configs)}: {run}")
        signals.check()
        signals.is_saving_needed = False  # of the run before, nothing is left to save
        try:
            train(config, run, signals, began, write_page if config.training.report else None)
            trained.append(run)
        except (UsageError, ConfigError, DataError, RunDirError, CheckpointError, TrainingError) as error:
            if len(configs) == 1:
                raise
            for problem in error.args:
                log.error(f"{run} failed: {problem}")
        began = time.monotonic()
    return trained


def compare(runs: Sequence[Path], device: str, output: Path) -> None:
    """Prints the table of `mt evaluate` of all of them, and writes the page of `mt report`."""
    from mt_cli.evaluation.evaluate import evaluate

    options.catch_ctrl_c()
    print(evaluate(runs, device=device))
    if _write_page(runs, output, device=device):
        log.info(f"a page of all of them: {output}")


def _write_page(runs: Sequence[Path], output: Path, **how: Any) -> bool:
    """Writes the page of `mt report`. It is no reason to end a training: a failure is only logged."""
    try:
        from mt_cli.explain.report import report

        report(runs, output, **how)
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        log.warning(f"{output}: not written ({reason}); try: mt report {as_typed(*runs)}")
        return False
    return True
