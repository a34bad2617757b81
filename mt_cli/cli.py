"""The commands: the only place that hands out stdin and stdout, catches MTError and sets exit codes.

stdout is for results, stderr for talk. torch is imported inside the commands, so that help and mistakes answer at once.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from tqdm import tqdm

from mt_cli.config_file import load_config
from mt_cli.errors import DataError, Interrupted, MTError, UsageError, is_device_failure, is_out_of_memory
from mt_cli.files import cannot_write
from mt_cli.run_dir import RunDir

if TYPE_CHECKING:
    from mt_cli.decoding.translator import Translator

log = logging.getLogger(__name__)

app = typer.Typer(
    name="mt",
    help="Train, run and score your own machine translator.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Runs the command line; exits with 0, 1 (data, model, runtime), 2 (usage, config), 129, 130 or 143 (stopped, saved)."""
    _open_closed_streams()
    _show_log()
    if isinstance(sys.stdout, io.TextIOWrapper):  # results are UTF-8 as the input is, whatever the terminal's locale
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    talk: Any = _Talk(sys.stderr)
    try:
        with contextlib.redirect_stderr(talk):
            sys.exit(_run())
    except BrokenPipeError:
        # The reader has gone (`| head -1`); whatever Python still wants to flush shall not complain.
        _silence(sys.stdout)
        sys.exit(1)


def _open_closed_streams() -> None:
    """For `mt ... 2>&-`: else the next file that is opened gets the number of stderr, and what is said to it. Reading
    from a closed stdin and writing to a closed stdout fail as they should."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # then its number is the lowest that is free
            descriptor = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w"))


def _silence(stream: Any) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Talk:
    """stderr of which nothing fails: a training goes on when its terminal was closed or its log's reader has gone."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            _silence(self._stream)


def _run() -> int:
    command: Any = typer.main.get_command(app)
    try:
        result = command.main(prog_name="mt", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except Interrupted as error:
        log.info(str(error))
        return error.exit_code
    except MTError as error:
        for line in str(error).splitlines():
            log.error(line)
        return error.exit_code
    except typer.Exit as error:
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:
            log.error(f"{error.filename}: {error.strerror}")
            return 1
        log.error(f"cannot write the output: {error.strerror}")
        _silence(sys.stdout)  # what is buffered cannot be written either
        return 1
    except Exception as error:
        if is_out_of_memory(error):
            log.error("out of memory; use a smaller model, batch or beam")
            return 1
        if is_device_failure(error):
            log.error(f"the device failed: {str(error).splitlines()[0]}; start again, or choose another --device")
            return 1
        # Typer carries its own copy of click, whose usage errors have no public name.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        see = f"; see {context.command_path} --help" if context is not None else ""
        message = " ".join(error.format_message().split())
        log.error(f"{message.rstrip('.').replace('Value error, ', '')}{see}")
        return 2


class _Terminal(logging.Handler):
    """Shows log records as lines on stderr, above any progress bar."""

    _PREFIXES = {logging.WARNING: "warning: ", logging.ERROR: "error: "}  # noqa: RUF012

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self._PREFIXES.get(record.levelno, "") + record.getMessage(), file=sys.stderr)


def _show_log() -> None:
    package = logging.getLogger("mt_cli")
    package.setLevel(logging.INFO)
    if not any(isinstance(handler, _Terminal) for handler in package.handlers):
        package.addHandler(_Terminal())


def _catch_ctrl_c() -> None:
    """From here on Ctrl-C lets a command put in order what it has begun. Not before all is loaded: see `__main__`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


BadInput = Literal["error", "replace"]
Engine = Literal["mt", "ctranslate2", "ctranslate2-int8"]
CheckpointsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--checkpoint",
        help="best (the default), last, step-N or averaged. Repeated: an ensemble; a row each in evaluate.",
    ),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
BeamOption = Annotated[int | None, typer.Option(min=1, max=1000, help="1 is greedy; the config's by default.")]
BatchOption = Annotated[int | None, typer.Option(min=1, help="Sentences decoded together; the config's by default.")]


@app.command()
def train(
    config_file: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A YAML config, such as configs/phrasebook.yaml.")
    ],
    run_dir: Annotated[
        Path | None,
        typer.Option(help="Where the run lives; runs/NAME-OF-CONFIG, or that of a run's own config, by default."),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Lay a value over the config's; repeatable.")
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


@app.command()
def translate(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN... [INPUT]", help="Run directories (several: an ensemble), then a text file; stdin by default."
        ),
    ],
    output: Annotated[Path | None, typer.Option(help="Write here instead of to stdout; must not exist yet.")] = None,
    checkpoint: CheckpointsOption = None,
    beam_size: BeamOption = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Print the N best, or N samples, as: number ||| text ||| score.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="In a beam: more favours longer output; 0 is none.")
    ] = None,
    length_normalization: Annotated[
        Literal["gnmt", "average"] | None,
        typer.Option(help="In a beam: a score is divided by ((5 + length) / 6) ** penalty, or length ** penalty."),
    ] = None,
    max_length_ratio: Annotated[
        float | None,
        typer.Option(help="Output tokens for each source token, 10 more allowed; 2, or training's, by default."),
    ] = None,
    min_length: Annotated[int | None, typer.Option(help="Tokens before a translation may end.")] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option(help="Never the same N tokens twice.")] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw tokens by their probability instead of searching.")
    ] = False,
    temperature: Annotated[float | None, typer.Option(help="Of sampling: below 1 is safer, above 1 wilder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Of sampling: from the K most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Of sampling: from the fewest tokens that make up P.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of sampling.")] = None,
    prefix: Annotated[str | None, typer.Option(help="How every translation begins.")] = None,
    prefix_column: Annotated[
        bool, typer.Option("--prefix-column", help="Each input line is: source, a tab, how its translation begins.")
    ] = False,
    score: Annotated[
        Path | None, typer.Option(help="Translate nothing: log-probabilities of the references in this file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line: hypotheses, scores, alignment, doubts.")
    ] = False,
    doubts: Annotated[
        bool, typer.Option("--doubts", help="Say on stderr which translations look wrong, and why.")
    ] = False,
    attention: Annotated[
        Path | None,
        typer.Option(help="Write what every head (of the first model) attended to as a page, an .html file."),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Tell greedy search step by step, a line for each token.")
    ] = False,
    batch_size: BatchOption = None,
    bad_input: Annotated[
        BadInput, typer.Option(help="A line that is not UTF-8: stop, or put U+FFFD for it.")
    ] = "error",
    device: DeviceOption = "auto",
    engine: Annotated[Engine, typer.Option(help="What searches; ctranslate2 is for speed on a CPU.")] = "mt",
) -> None:
    """Translate lines of text: one line out for each line in, in order, blank for blank."""
    runs, input_file = _runs_and_input(paths)
    checkpoints = checkpoint or ["best"]
    for run in runs:
        for checkpoint_name in checkpoints:
            RunDir.existing(run).find_checkpoint(checkpoint_name)
    if output is not None and output.exists():
        remedy = "delete it or choose another --output" if output.is_file() else f"write there with: > {output}"
        raise UsageError(f"{output} exists already; {remedy}")
    if output is not None and output == attention:
        raise UsageError(f"--output and --attention are both {output}; choose another for one of them")
    search: dict[str, Any] = {
        "beam_size": beam_size,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "length_normalization": length_normalization,
        "max_length_ratio": max_length_ratio,
        "min_length": min_length,
        "no_repeat_ngram": no_repeat_ngram,
        "sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "batch_size": batch_size,
    }
    of_translations = {
        **search,
        "prefix": prefix,
        "prefix_column": prefix_column,
        "json": as_json,
        "doubts": doubts,
        "attention": attention,
    }
    _refuse_contradictions(of_translations, score, trace, engine, device, n_models=len(runs) * len(checkpoints))
    _refuse_columns(score, None if prefix_column else input_file)
    descriptor = _open_input(input_file)

    if attention is not None:
        from mt_cli.explain.attention_page import refuse_attention_file

        refuse_attention_file(attention)

    from mt_cli.device import keep_freed_memory
    from mt_cli.pipe import Form, Scored, Traced, Translated, pump
    from mt_cli.text.corpus import read_lines

    keep_freed_memory()
    translator = _load_translator(runs, checkpoints, device, engine)
    settings = translator.settings(**search)
    if not settings.sample:
        _refuse_options("nothing is drawn without --sample", search, "temperature", "top_k", "top_p", "seed")
    if settings.sample or settings.beam_size == 1:
        _refuse_options("lengths are compared in a beam only", search, "length_penalty", "length_normalization")
    name = str(input_file or "stdin")
    form: Form = Translated(
        translator, search, name, prefix, prefix_column, as_json, doubts, keeps_maps=attention is not None
    )
    if score is not None:
        form = Scored(translator, iter(read_lines(score)), name)
    elif trace:
        form = Traced(translator)
    _catch_ctrl_c()
    is_interactive = input_file is None and sys.stdin.isatty()
    if is_interactive:
        log.info("Type a sentence and press Enter; Ctrl-D ends.")
    with _open_output(output) as out:
        pump(descriptor, name, form, out, bad_input == "replace", is_interactive)
    if attention is not None and isinstance(form, Translated):
        from mt_cli.explain.attention_page import write_attention_page

        write_attention_page(attention, form.maps)
        log.info(f"attention: {attention}")


def _refuse_contradictions(
    options: dict[str, Any], score: Path | None, trace: bool, engine: Engine, device: str, n_models: int
) -> None:
    """Raises UsageError where `translate` would have to ignore one option for another."""
    if engine != "mt":
        if trace or score is not None or n_models > 1:
            raise UsageError(
                f"--engine {engine} translates with one model; leave out --trace, --score and further models"
            )
        if options["prefix"] is not None or options["prefix_column"]:
            raise UsageError(f"--engine {engine} takes no prefixes; leave out --prefix and --prefix-column")
        if device not in ("auto", "cpu"):
            raise UsageError(f"--engine {engine} runs on the CPU; leave out --device")
    if score is not None:
        _refuse_options("--score translates nothing", {**options, "trace": trace})
    if trace:
        _refuse_options("--trace tells greedy search", options)
    if options["sample"] and (options["beam_size"] or 1) > 1:
        raise UsageError("--sample draws, --beam-size searches; leave one out")
    if options["prefix"] is not None and options["prefix_column"]:
        raise UsageError("--prefix is for all lines, --prefix-column for each its own; leave one out")


def _refuse_options(reason: str, options: dict[str, Any], *names: str) -> None:
    """Raises UsageError for those of `names`, of all by default, that were given."""
    given = [name for name in names or options if options[name] is not None and options[name] is not False]
    if given:
        raise UsageError(f"{reason}; leave out {' and '.join('--' + name.replace('_', '-') for name in given)}")


def _only(option: str, files: list[Path] | None) -> Path | None:
    """Raises UsageError for a second file: a score against the last one alone would look like one against all."""
    if files and len(files) > 1:
        raise UsageError(f"{option} is given {len(files)} times; score against one file at a time")
    return files[0] if files else None


def _refuse_columns(*files: Path | None) -> None:
    """Raises UsageError for a .tsv where each line is one text: both of its columns would be read as one."""
    for file in files:
        if file is not None and file.name.removesuffix(".gz").endswith(".tsv"):
            raise UsageError(f"{file}: lines of one text are expected here; take a column of it: cut -f1 or cut -f2")


def _load_translator(runs: list[Path], checkpoints: list[str], device: str, engine: Engine) -> Translator:
    from mt_cli.decoding.translator import Translator

    translator = Translator.load(*runs, checkpoint=checkpoints, device=device)
    if engine == "mt":
        return translator
    from mt_cli.export.engine import CTranslate2Translator

    return CTranslate2Translator(translator, compute_type="int8" if engine == "ctranslate2-int8" else "float32")


def _runs_and_input(paths: list[Path]) -> tuple[list[Path], Path | None]:
    """Directories are runs; what comes after them is the input."""
    runs = [path for path in paths if path.is_dir()]
    others = [path for path in paths if not path.is_dir()]
    if not runs or paths[0] in others:
        RunDir.existing(paths[0])  # says what is wrong with it
    if len(others) > 1 or (others and paths[-1] != others[0]):
        raise UsageError(f"{others[0]}: not a run directory; give runs first, then one INPUT file")
    return runs, others[0] if others else None


def _open_input(file: Path | None) -> int:
    """A file descriptor: what is there can be read from it without waiting for more, as a coprocess needs."""
    if file is None:
        return sys.stdin.fileno()
    try:
        return os.open(file, os.O_RDONLY)
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}; give a text file, or none to read stdin") from None


@contextlib.contextmanager
def _open_output(file: Path | None) -> Iterator[Any]:
    if file is None:
        yield sys.stdout.buffer
        return
    try:
        out = file.open("xb", buffering=0)
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}; choose another --output") from None
    with out:
        try:
            yield out
        except BaseException:
            if out.tell() == 0:
                file.unlink()  # else it is in the way of the next try
            raise


@app.command()
def evaluate(
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
    beam_size: BeamOption = None,
    batch_size: BatchOption = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list instead of a table.")] = False,
) -> None:
    """Score runs on test sets with sacrebleu: BLEU, chrF, TER, loss and perplexity."""
    from mt_cli.evaluation.evaluate import evaluate_files, evaluate_run

    src, ref, hyp = _only("--src", sources), _only("--ref", references), _only("--hyp", hypotheses)
    _refuse_columns(src, ref, hyp)
    if hyp is not None:
        if ref is None:
            raise UsageError("--hyp needs --ref, the references to score against")
        if runs:
            raise UsageError(f"{runs[0]}: --hyp is scored without a run; leave one out")
        of_a_model: dict[str, Any] = {
            "src": src,
            "checkpoint": checkpoint,
            "beam_size": beam_size,
            "batch_size": batch_size,
            "device": None if device == "auto" else device,
        }
        _refuse_options("--hyp is scored without a model", of_a_model)
        _print_results([evaluate_files(hyp, ref, tokenize)], as_json)
        return
    if not runs:
        raise UsageError("nothing to evaluate; give a RUN, or --hyp and --ref")
    if (src is None) != (ref is None):
        raise UsageError("--src and --ref go together")
    if src is not None and src == ref:
        raise UsageError(f"--src and --ref are both {src}; give the source and its translations")
    files = [str(src), str(ref)] if src is not None else None
    asked = [(RunDir.existing(run), name) for run in runs for name in checkpoint or ["best"]]
    for run, name in asked:
        run.find_checkpoint(name)
    results: list[dict[str, Any]] = []
    try:
        for run, name in asked:
            results += evaluate_run(run, name, files, tokenize, beam_size, batch_size, device)
    finally:
        if results:  # also those before a failure
            _print_results(results, as_json)


def _print_results(results: list[dict[str, Any]], as_json: bool) -> None:
    from mt_cli.evaluation.evaluate import as_table

    for result in results:
        for warning in result.pop("warnings"):
            log.warning(f"{result['test_set']}: {warning}")
    if as_json:
        print(json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print(as_table(results))


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Made; must not exist yet.")],
    to: Annotated[Literal["ctranslate2", "marian", "argos"], typer.Option(help="The format.")],
    quantization: Annotated[
        Literal["float32", "float16", "bfloat16", "int8"] | None,
        typer.Option(help="Of ctranslate2 (float32 by default) and argos (int8 by default)."),
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="best, last, step-N or averaged.")] = "best",
) -> None:
    """Write a run as a model of another engine: CTranslate2, Hugging Face transformers (marian), Argos Translate."""
    RunDir.existing(run).find_checkpoint(checkpoint)
    if folder.exists():
        raise UsageError(f"{folder} exists already; delete it or choose another DIR")
    if to == "marian" and quantization is not None:
        raise UsageError("--quantization is for ctranslate2 and argos; a Hugging Face folder holds float32")

    from mt_cli.decoding.translator import Translator
    from mt_cli.export.argos import write_argos
    from mt_cli.export.ctranslate2 import write_ctranslate2
    from mt_cli.export.marian import write_marian

    translator = Translator.load(run, checkpoint=checkpoint, device="cpu")
    _catch_ctrl_c()
    # Into a folder beside it first: what is there is whole.
    unfinished = folder.with_name(f".tmp-{os.getpid()}-{folder.name}")
    try:
        unfinished.mkdir(parents=True)
        if to == "marian":
            write_marian(translator, unfinished)
        elif to == "argos":
            write_argos(translator, unfinished, quantization or "int8")
        else:
            write_ctranslate2(translator, unfinished, quantization or "float32")
        unfinished.replace(folder)
    except OSError as error:
        raise cannot_write(folder, error) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    log.info(f"{to} model in {folder}")


@app.command()
def fetch(
    corpus: Annotated[str, typer.Argument(help="multi30k, or multi30k-lc-tok: lower-cased and tokenized.")],
    source: Annotated[str | None, typer.Option("--from", metavar="DIR_OR_URL", help="Where to take it from.")] = None,
    target: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="data/CORPUS by default.")] = None,
) -> None:
    """Fetch a public parallel corpus, verified, with its terms of use."""
    from mt_cli.fetch import fetch as fetch_corpus

    _catch_ctrl_c()
    fetch_corpus(corpus, source, target or Path("data") / corpus, log.info)


@app.command()
def version() -> None:
    """Print the versions that matter in a bug report."""
    from mt_cli.provenance import versions

    for package, number in versions().items():
        print(f"{package} {number}")
