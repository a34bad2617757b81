"""The commands: the only place that prints to stdout, catches MTError and sets exit codes.

stdout is for results, stderr for talk. torch is imported inside the commands, so that help and mistakes answer at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from tqdm import tqdm

from mt_cli.config import Config, differing_keys, load_config
from mt_cli.errors import DataError, MTError, RunDirError, UsageError
from mt_cli.run_dir import RunDir

app = typer.Typer(
    name="mt",
    help="Train, run and score your own machine translator.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Runs the command line; exits with 0, 1 (data, model, runtime), 2 (usage, config), 130 or 143 (stopped, saved)."""
    try:
        sys.exit(_run())
    except BrokenPipeError:
        # The reader has gone (`| head -1`); whatever Python still wants to flush shall not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _run() -> int:
    command: Any = typer.main.get_command(app)
    try:
        result = command.main(prog_name="mt", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except MTError as error:
        for line in str(error).splitlines():
            say(f"error: {line}")
        return error.exit_code
    except typer.Exit as error:
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:  # stdout: a full disk
            say(f"error: cannot write the output: {error.strerror}")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        raise
    except Exception as error:
        # Typer carries its own copy of click, whose usage errors have no public name.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        see = f"; see {context.command_path} --help" if context is not None else ""
        say(f"error: {error.format_message().rstrip('.')}{see}")
        return 2


def say(text: str) -> None:
    """A line for people, beside any progress bar."""
    tqdm.write(text, file=sys.stderr)


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, as `mt train` makes it.")]
CheckpointOption = Annotated[str, typer.Option(help="best, last or step-N.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
BeamOption = Annotated[int | None, typer.Option(min=1, max=1000, help="1 is greedy; the config's by default.")]
BatchOption = Annotated[int | None, typer.Option(min=1, help="Sentences decoded together; the config's by default.")]


@app.command()
def train(
    config_file: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A YAML config, such as configs/phrasebook.yaml.")
    ],
    run_dir: Annotated[Path | None, typer.Option(help="Where the run lives; runs/NAME-OF-CONFIG by default.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Lay a value over the config's; repeatable.")
    ] = None,
) -> None:
    """Train a translator from raw text.

    The same command again continues a run that was stopped or killed, and says so of one that is finished.
    """
    config = load_config(config_file, overrides or ())
    run = RunDir(run_dir or Path("runs") / config_file.stem)
    _refuse_other_run(config, run)
    _refuse_missing_files(config)

    from mt_cli.device import choose_device, keep_freed_memory

    choose_device(config.training.device)
    keep_freed_memory()
    with run.lock():
        from mt_cli.training.signals import StopSignals

        with StopSignals() as signals:
            _train(config, run, signals)


def _refuse_other_run(config: Config, run: RunDir) -> None:
    """A run is only ever continued as it was begun."""
    if not run.config_file.exists():
        if run.path.is_dir() and any(not file.name.startswith(".") for file in run.path.iterdir()):
            raise RunDirError(f"{run.path} holds other files and no run; choose another --run-dir")
        return
    differing = differing_keys(config, run.load_config())
    if differing:
        raise RunDirError(
            f"{run.path} holds a run of another config ({'; '.join(differing)});"
            " choose another --run-dir, or give the values it was begun with"
        )


def _refuse_missing_files(config: Config) -> None:
    data = config.data
    named = {"train": data.train, "dev": data.dev, **{f"test.{name}": files for name, files in data.test.items()}}
    problems = []
    for key, files in named.items():
        for file in map(Path, files):
            if not file.is_file():
                found = "is not a regular file" if file.exists() else "no such file"
                problems.append(f"{file}: {found}; check data.{key} (paths are relative to where mt is started)")
            elif not os.access(file, os.R_OK):
                problems.append(f"{file}: cannot be read; check its permissions (data.{key})")
    if problems:
        raise DataError("\n".join(problems))


def _train(config: Config, run: RunDir, signals: Any) -> None:
    from mt_cli.provenance import record_start
    from mt_cli.training.loop import Trainer
    from mt_cli.training.prepare import prepare

    run.save_config(config)
    data = prepare(config, run, say)
    trainer = Trainer(config, run, data, signals, say)
    p = trainer.progress
    if trainer.is_finished:
        say(f"{run.path} is finished: step {p.step}, best step {p.best_step}; nothing was changed")
        return
    n_parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    precision = str(trainer.dtype).removeprefix("torch.")
    say(
        f"{n_parameters:,} parameters on {trainer.device}, computing in {precision} ({trainer.why_dtype});"
        f" vocabulary {data.tokenizer.tgt_vocab_size:,}; run directory {run.path}"
    )
    record_start(
        run,
        from_step=p.step,
        seed=config.training.seed,
        device=str(trainer.device),
        precision=precision,
        data_sha256=data.sha256,
        tokenizer_sha256=data.tokenizer.sha256,
    )
    trainer.train()
    why = "the last step" if p.step >= config.training.max_steps else "no better dev score for long"
    say(f"finished at step {p.step} ({why}); best step {p.best_step}; try: mt translate {run.path}")


@app.command()
def translate(
    run: RunArgument,
    input_file: Annotated[Path | None, typer.Argument(metavar="[INPUT]", help="A text file; stdin by default.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write here instead of to stdout; must not exist yet.")] = None,
    checkpoint: CheckpointOption = "best",
    beam_size: BeamOption = None,
    batch_size: BatchOption = None,
    bad_input: Annotated[
        str, typer.Option(help="A line that is not UTF-8: 'error' stops, 'replace' goes on.")
    ] = "error",
    device: DeviceOption = "auto",
) -> None:
    """Translate lines of text: one line out for each line in, in order, blank for blank."""
    if bad_input not in {"error", "replace"}:
        raise UsageError(f"--bad-input is '{bad_input}', expected error or replace")
    run_dir = RunDir.existing(run)
    run_dir.find_checkpoint(checkpoint)
    lines = _open_input(input_file)
    if output is not None and output.exists():
        raise UsageError(f"{output} exists already; delete it or choose another --output")

    from mt_cli.decoding.translator import Translator

    translator = Translator.load(run, checkpoint, device)
    is_interactive = input_file is None and sys.stdin.isatty()
    if is_interactive:
        say("Type a sentence and press Enter; Ctrl-D ends.")
    out = _open_output(output)
    n_lines = 0
    for chunk in _chunks(lines, is_interactive):
        name = str(input_file or "stdin")
        texts = [_decode(raw, n_lines + number, name, bad_input) for number, raw in enumerate(chunk, 1)]
        for number, translation in enumerate(translator.translations(texts, beam_size, batch_size), n_lines + 1):
            out.write(f"{translation.text}\n".encode())
            if translation.n_parts > 1:
                say(f"warning: {name}:{number}: too long to read at once; translated in {translation.n_parts} parts")
        out.flush()
        n_lines += len(chunk)


def _open_input(file: Path | None) -> int:
    """A file descriptor: what is there can be read from it without waiting for more, as a coprocess needs."""
    if file is None:
        return sys.stdin.fileno()
    try:
        return os.open(file, os.O_RDONLY)
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}; give a text file, or none to read stdin") from None


def _open_output(file: Path | None) -> Any:
    if file is None:
        return sys.stdout.buffer
    try:
        return file.open("xb")
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}; choose another --output") from None


def _chunks(descriptor: int, is_interactive: bool) -> Iterator[list[bytes]]:
    """Lines of bytes as they come, as many at a time as have arrived."""
    rest = b""
    while True:
        if is_interactive:
            sys.stderr.write("> ")
            sys.stderr.flush()
        try:
            block = os.read(descriptor, 1 << 20)
        except OSError as error:
            raise DataError(f"cannot read the input: {error.strerror}; give a text file") from None
        *lines, rest = (rest + block).split(b"\n") if block else ([rest] if rest else []) + [b""]
        if lines:
            yield lines
        if not block:
            return


def _decode(raw: bytes, number: int, name: str, bad_input: str) -> str:
    from mt_cli.text.corpus import decode_line

    try:
        return decode_line(raw, number, name)
    except DataError as error:
        if "invalid UTF-8" not in str(error):
            raise
        if bad_input == "replace":
            return raw.decode("utf-8", errors="replace")
        raise DataError(f"{error}; fix the line, or use --bad-input replace") from None


@app.command()
def evaluate(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="One or several run directories.")
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Source text, instead of the config's test sets.")] = None,
    ref: Annotated[Path | None, typer.Option(help="Reference translations, line for line.")] = None,
    hyp: Annotated[Path | None, typer.Option(help="Score these translations; no model is run.")] = None,
    checkpoint: Annotated[list[str] | None, typer.Option(help="best (default), last or step-N; repeatable.")] = None,
    tokenize: Annotated[
        str | None, typer.Option(help="sacrebleu's BLEU tokenizer; by target language if not given.")
    ] = None,
    beam_size: BeamOption = None,
    batch_size: BatchOption = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list instead of a table.")] = False,
) -> None:
    """Score runs on test sets with sacrebleu: BLEU, chrF, TER, loss and perplexity."""
    from mt_cli.evaluation.evaluate import evaluate_files, evaluate_run

    if hyp is not None:
        if ref is None:
            raise UsageError("--hyp needs --ref, the references to score against")
        results = [evaluate_files(hyp, ref, tokenize)]
    else:
        if not runs:
            raise UsageError("nothing to evaluate; give a RUN, or --hyp and --ref")
        if (src is None) != (ref is None):
            raise UsageError("--src and --ref go together")
        files = [str(src), str(ref)] if src is not None else None
        results = [
            result
            for run in runs
            for name in checkpoint or ["best"]
            for result in evaluate_run(RunDir.existing(run), name, files, tokenize, beam_size, batch_size, device)
        ]
    if as_json:
        print(json.dumps(results, indent=2, ensure_ascii=False))
    else:
        print(_table(results))


def _table(results: list[dict[str, Any]]) -> str:
    columns = {
        "run": "{}",
        "checkpoint": "{}",
        "test_set": "{}",
        "bleu": "{:.2f}",
        "chrf": "{:.2f}",
        "ter": "{:.2f}",
        "loss": "{:.3f}",
        "perplexity": "{:.2f}",
        "sentences_per_second": "{:.0f}",
    }
    columns = {name: form for name, form in columns.items() if any(name in result for result in results)}
    titles = {
        "test_set": "test set",
        "bleu": "BLEU",
        "chrf": "chrF",
        "ter": "TER",
        "sentences_per_second": "sentences/s",
    }
    rows = [[titles.get(name, name) for name in columns]]
    rows += [
        [form.format(result[name]) if name in result else "" for name, form in columns.items()] for result in results
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    is_text = [name in {"run", "checkpoint", "test_set"} for name in columns]
    lines = [
        "  ".join(
            cell.ljust(w) if text else cell.rjust(w) for cell, w, text in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in rows
    ]
    signatures = dict.fromkeys(
        f"{titles[m]}: {result['signatures'][m]}" for m in ("bleu", "chrf", "ter") for result in results
    )
    return "\n".join([*lines, "", *signatures])


@app.command()
def fetch(
    corpus: Annotated[str, typer.Argument(help="Which corpus, such as multi30k.")],
    source: Annotated[str | None, typer.Option("--from", metavar="DIR_OR_URL", help="Where to take it from.")] = None,
    target: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="data/CORPUS by default.")] = None,
) -> None:
    """Fetch a public parallel corpus, verified, with its terms of use."""
    from mt_cli.fetch import fetch as fetch_corpus

    fetch_corpus(corpus, source, target or Path("data") / corpus, say)


@app.command()
def version() -> None:
    """Print the versions that matter in a bug report."""
    from mt_cli.provenance import versions

    for package, number in versions().items():
        print(f"{package} {number}")
