"""`mt explain`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from mt_cli.cli.options import (
    BadInputOption,
    CheckpointsOption,
    DeviceOption,
    RunsAndInputArgument,
    ToOption,
    catch_ctrl_c,
    refuse_columns,
    refuse_missing_checkpoints,
    refuse_without_effect,
    runs_and_input,
    spell,
    with_search_options,
)
from mt_cli.cli.streams import open_input
from mt_cli.errors import UsageError

log = logging.getLogger(__name__)


@with_search_options("n_best")
def explain(
    search: dict[str, Any],
    paths: RunsAndInputArgument,
    attention: Annotated[
        Path | None,
        typer.Option(help="Translate, and write a page (NAME.html) of what every head of the first model attended to."),
    ] = None,
    checkpoint: CheckpointsOption = None,
    bad_input: BadInputOption = "error",
    device: DeviceOption = "auto",
    to: ToOption = None,
) -> None:
    """Show how a translation comes about. Greedy search is shown step by step, with a line for each token, and without the
    search settings of the run.

    With --attention the translations are printed instead, and a page shows what was attended to. The options of a search
    apply only then.
    """
    runs, input_file = runs_and_input(paths)
    checkpoints = checkpoint or ["best"]
    refuse_missing_checkpoints(runs, checkpoints)
    refuse_columns(input_file)
    if attention is None and search:
        raise UsageError(f"without --attention greedy search is shown; leave out {spell(list(search))}")
    from mt_cli.explain.attention_page import AttentionPage

    page = AttentionPage(attention) if attention is not None else None
    with open_input(input_file) as source:
        from mt_cli.cli.pipe import AttendLines, LineProcess, TraceLines, process_lines
        from mt_cli.decoding.translator import Translator
        from mt_cli.device import keep_freed_memory

        keep_freed_memory()
        translator = Translator.load(*runs, checkpoint=checkpoints, device=device, to=to)
        refuse_without_effect(search, translator.settings(**search))
        name = str(input_file or "stdin")
        process: LineProcess = TraceLines(translator) if page is None else AttendLines(translator, search, page)
        catch_ctrl_c()
        process_lines(source, name, process, sys.stdout.buffer, bad_input == "replace")
        if page is not None:
            page.write()
            log.info(f"attention: {attention}")
