"""Runs the command line: the only place that catches MTError and sets exit codes. stdout is for results, stderr for log
records. Commands import torch when they run, so that help and mistakes answer at once."""

import contextlib
import importlib
import io
import keyword
import logging
import os
import signal
import sys
from typing import Any

import typer
from tqdm import tqdm

from mt_cli.display import escaped
from mt_cli.errors import Interrupted, MTError, is_device_failure, is_out_of_memory, is_out_of_threads
from mt_cli.processes import rank

log = logging.getLogger(__name__)

COMMANDS = (
    "train", "check", "translate", "evaluate", "report", "score", "explain", "export", "import", "serve", "fetch",
    "config", "version",
)  # fmt: skip


def main() -> None:
    """Runs the command line and exits: 0, 1 (data, model, runtime), 2 (usage, config), or 129, 130, 143 (a signal, saved)."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by 2>&-: the next file that is opened would get its number
            descriptor = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)  # using it still fails
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # UTF-8 as the input is, in any locale
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    package = logging.getLogger("mt_cli")
    package.setLevel(logging.INFO)
    if not package.handlers:
        package.addHandler(TerminalHandler())
    stderr: Any = UnfailingStderr(sys.stderr)
    try:
        with contextlib.redirect_stderr(stderr):
            sys.exit(_run())
    except BrokenPipeError:
        # The reader has gone, as in `| head -1`: end without a word, also when Python flushes stdout at its end.
        silence(sys.stdout)
        sys.exit(1)


def silence(stream: Any) -> None:
    """Sends all further output of a stream to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class UnfailingStderr:
    """stderr whose writes never fail: training goes on when its terminal was closed or the reader of its log has gone."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            silence(self._stream)


class TerminalHandler(logging.Handler):
    """Shows log records as lines on stderr, above any progress bar; of several processes, errors and the first's."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = {logging.WARNING: "warning: ", logging.ERROR: "error: "}.get(record.levelno, "")
        if rank() == 0 or record.levelno >= logging.ERROR:
            process = f"process {rank()}: " if rank() else ""
            tqdm.write(prefix + process + escaped(record.getMessage()), file=sys.stderr)


def _run() -> int:
    """Runs the command that is named, and returns the exit code of its end. What it does not know is a bug of ours."""
    try:
        names = tuple(name for name in COMMANDS if sys.argv[1:2] == [name])
        result = _make_command(names or COMMANDS).main(prog_name="mt", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except Interrupted as error:
        log.info(str(error))
        return error.exit_code
    except MTError as error:
        for problem in dict.fromkeys(error.args):  # one file may be both the training and the dev set
            log.error(problem)
        return error.exit_code
    except typer.Exit as error:
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        raise
    except Exception as error:
        # Typer carries its own copy of click, whose usage errors have no public name.
        if hasattr(error, "format_message"):
            message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
            context = getattr(error, "ctx", None)
            log.error(f"{message}; see {context.command_path} --help" if context is not None else message)
            return 2
        if is_out_of_memory(error):
            log.error("out of memory; use a smaller model, batch or beam, or raise the limit (ulimit -v)")
        elif is_out_of_threads(error):
            log.error("the system starts no more threads; close other programs, or raise the limit (ulimit -u)")
        elif is_device_failure(error):
            log.error(f"the device failed: {str(error).splitlines()[0]}; start again, or choose another --device")
        elif isinstance(error, OSError) and error.filename is not None:
            log.error(f"{error.filename}: {error.strerror}")
        elif isinstance(error, OSError):
            log.error(f"cannot write the output: {error.strerror}")
            silence(sys.stdout)  # what is buffered cannot be written either
        else:
            raise
        return 1


def command_of(name: str) -> Any:
    """The function of a command, from the file of its name."""
    own = name + "_" * keyword.iskeyword(name)  # `import` is a word of Python's
    return getattr(importlib.import_module(f"mt_cli.cli.{own}"), own)


def _make_command(names: tuple[str, ...]) -> Any:
    """The command line with these commands: the file of each is imported, and what it needs."""
    app = typer.Typer(
        name="mt",
        help="Train, run and score your own machine translator.",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(lambda: None)  # otherwise a single command would be the whole command line
    for name in names:
        app.command(name)(command_of(name))
    return typer.main.get_command(app)
