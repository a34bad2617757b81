"""Runs the command line: the only place that catches MTError and sets exit codes.

stdout is for results, stderr for log records. Commands import torch when they run, so that help and mistakes answer at
once.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import keyword
import logging
import signal
import sys
import traceback
from typing import Any

import typer

from mt_cli.cli.streams import TerminalHandler, UnfailingStderr, open_closed_streams, silence
from mt_cli.errors import Interrupted, MTError, is_device_failure, is_out_of_memory, is_out_of_threads

log = logging.getLogger(__name__)

COMMANDS = (
    "train", "check", "translate", "evaluate", "report", "score", "explain", "export", "import", "fetch", "config",
    "version",
)  # fmt: skip
OTHER_OPTIONS = {  # what a command had before, or other programs have: of a command, what to use instead
    ("translate", "--score"): "is a command of its own now; use: mt score RUN --src SOURCES --ref REFERENCES",
    ("translate", "--trace"): "is a command of its own now; use: mt explain RUN [INPUT]",
    ("translate", "--attention"): "is a command of its own now; use: mt explain RUN [INPUT] --attention PAGE.html",
    ("translate", "-i"): "is no option; the file stands behind the run: mt translate RUN INPUT",
    ("translate", "--input"): "is no option; the file stands behind the run: mt translate RUN INPUT",
    ("translate", "--beam"): "is no option; use --beam-size",
    ("evaluate", "--test"): "is no option; the sets of the config are scored, or --src SOURCES --ref REFERENCES",
    ("train", "--epochs"): "is no option; use --minutes, or --set training.max_steps=STEPS",
    ("train", "--steps"): "is no option; use --minutes, or --set training.max_steps=STEPS",
    ("mt", "--version"): "is a command; use: mt version",
}


def main() -> None:
    """Runs the command line and exits.

    The exit code is 0, or 1 (data, model, runtime), 2 (usage, config), or 129, 130 or 143 (stopped by a signal, saved).
    """
    open_closed_streams()
    _show_log()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # UTF-8 as the input is, in any locale
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    stderr: Any = UnfailingStderr(sys.stderr)
    try:
        with contextlib.redirect_stderr(stderr):
            sys.exit(_run())
    except BrokenPipeError:
        # The reader has gone, as in `| head -1`: end without a word, also when Python flushes stdout at its end.
        silence(sys.stdout)
        sys.exit(1)


def _show_log() -> None:
    package = logging.getLogger("mt_cli")
    package.setLevel(logging.INFO)
    if not any(isinstance(handler, TerminalHandler) for handler in package.handlers):
        package.addHandler(TerminalHandler())


def _run() -> int:
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
        return _report_failure(error)


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


def _is_torch_half_loaded(error: Exception) -> bool:
    """Whether a limit of memory may have ended an import within torch, which goes on without the module that failed."""
    try:
        import resource
    except ImportError:  # Windows
        return False
    is_of_torch = isinstance(error, ImportError) and (error.name or "").startswith("torch.")
    return is_of_torch and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _report_failure(error: Exception) -> int:
    """Shows an error that is not an MTError and returns its exit code. Raises it again if it is a bug."""
    if is_out_of_memory(error) or _is_torch_half_loaded(error):
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, ImportError) or any("importlib" in frame.filename for frame in frames):
            log.error("out of memory while loading torch; close other programs, or raise the limit (ulimit -v)")
        else:
            log.error("out of memory; use a smaller model, batch or beam")
        return 1
    if is_out_of_threads(error):
        log.error("the system starts no more threads; close other programs, or raise the limit (ulimit -u)")
        return 1
    if is_device_failure(error):
        log.error(f"the device failed: {str(error).splitlines()[0]}; start again, or choose another --device")
        return 1
    if isinstance(error, OSError):
        if error.filename is not None:
            log.error(f"{error.filename}: {error.strerror}")
        else:
            log.error(f"cannot write the output: {error.strerror}")
            silence(sys.stdout)  # what is buffered cannot be written either
        return 1
    # Typer carries its own copy of click, whose usage errors have no public name.
    if not hasattr(error, "format_message"):
        raise error
    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    if context is not None and (instead := OTHER_OPTIONS.get((str(context.info_name), str(option)))):
        log.error(f"{option} {instead}")
        return 2
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    log.error(f"{message}; see {context.command_path} --help" if context is not None else message)
    return 2
