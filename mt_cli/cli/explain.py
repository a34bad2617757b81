"""`mt explain`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mt_cli.cli.options import (
    BadInputOption,
    CheckpointsOption,
    DeviceOption,
    RunsAndInputArgument,
    ToOption,
    catch_ctrl_c,
    refuse_missing_checkpoints,
    refuse_structured,
    refuse_without_effect,
    runs_and_input,
    spell,
    with_search_options,
)
from mt_cli.cli.pipe import LineProcess, process_lines
from mt_cli.cli.streams import open_input
from mt_cli.errors import UsageError

if TYPE_CHECKING:
    from mt_cli.decoding.translator import Translator
    from mt_cli.explain.attention_page import AttentionPage

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
    refuse_structured(input_file)
    if attention is None and search:
        raise UsageError(f"without --attention greedy search is shown; leave out {spell(list(search))}")
    from mt_cli.explain.attention_page import AttentionPage

    page = AttentionPage(attention) if attention is not None else None
    with open_input(input_file) as source:
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


@dataclass
class TraceLines(LineProcess):
    """Greedy search step by step: several lines for each line."""

    translator: Translator

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        from mt_cli.explain.trace import trace

        return [step for line in lines for step in (list(trace(self.translator, line)) or [""])]


@dataclass
class AttendLines(LineProcess):
    """Translates, and adds the attention of each line to a page."""

    translator: Translator
    options: dict[str, Any]  # keys of the config's `decoding`
    page: AttentionPage
    n_shown: int = 0  # lines that are on the page

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        from mt_cli.explain.attention import attention_maps

        translations = self.translator.translations(lines, first_line=n_before, **self.options)
        for translation in translations:
            for maps in attention_maps(self.translator, translation):
                if self.page.is_full:
                    return [one.text for one in translations]
                self.page.add(maps)
            self.n_shown += 1
        return [one.text for one in translations]

    def finish(self, n_lines: int) -> None:
        if self.n_shown < n_lines:
            log.warning(
                f"{self.page.file} shows the first {self.n_shown:,} of {n_lines:,} lines, as browsers cannot open larger"
                " pages; explain the others separately"
            )
