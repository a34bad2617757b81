"""`mt explain`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    runs_and_input,
)
from mt_cli.cli.pipe import LineProcess, process_lines
from mt_cli.cli.streams import open_input
from mt_cli.explain.page import AttentionPage

if TYPE_CHECKING:
    from mt_cli.decoding.translator import Translator

log = logging.getLogger(__name__)


def explain(
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

    With --attention the translations are printed instead, and a page shows what was attended to.
    """
    runs, input_file = runs_and_input(paths)
    checkpoints = checkpoint or ["best"]
    refuse_missing_checkpoints(runs, checkpoints)
    refuse_structured(input_file)
    page = AttentionPage(attention) if attention is not None else None
    with open_input(input_file) as source:
        from mt_cli.decoding.translator import Translator
        from mt_cli.device import keep_freed_memory

        keep_freed_memory()
        translator = Translator.load(*runs, checkpoint=checkpoints, device=device, to=to)
        catch_ctrl_c()
        process = ExplainLines(translator, page)
        process_lines(source, str(input_file or "stdin"), process, sys.stdout.buffer, bad_input == "replace")


@dataclass
class ExplainLines(LineProcess):
    """Shows greedy search step by step, several lines for each line; or translates, and adds the attention of each line to a
    page, until that is full."""

    translator: Translator
    page: AttentionPage | None
    n_shown: int = 0  # lines that are on the page

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        from mt_cli.explain.attention import attention_maps
        from mt_cli.explain.trace import trace

        if self.page is None:
            return [step for line in lines for step in (list(trace(self.translator, line)) or [""])]
        translations = self.translator.translations(lines, first_line=n_before)
        for translation in translations:
            for part in translation.parts:
                if self.page.is_full:
                    break
                self.page.add(attention_maps(self.translator, part))
            else:
                self.n_shown += 1
        return [one.text for one in translations]

    def finish(self, n_lines: int) -> None:
        if self.page is None:
            return
        self.page.write()
        log.info(f"attention: {self.page.file}")
        if self.n_shown < n_lines:
            log.warning(
                f"{self.page.file} shows the first {self.n_shown:,} of {n_lines:,} lines, as browsers cannot open larger"
                " pages; explain the others separately"
            )
