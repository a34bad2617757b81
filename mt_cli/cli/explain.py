"""`mt explain`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mt_cli.cli import options
from mt_cli.cli.pipe import Batches, open_input, process_lines
from mt_cli.explain.page import AttentionPage

if TYPE_CHECKING:
    from mt_cli.decoding.translator import Translator

log = logging.getLogger(__name__)


def explain(
    paths: options.RunsAndInputArgument,
    attention: Annotated[
        Path | None, typer.Option(help="Translate, and write a page (NAME.html) of what each head attended to.")
    ] = None,
    checkpoint: options.CheckpointsOption = None,
    bad_input: options.BadInputOption = "error",
    device: options.DeviceOption = "auto",
    to: options.ToOption = None,
) -> None:
    """Show how a translation comes about. Greedy search is shown step by step, with a line for each token, whatever search
    the run's config has.

    With --attention the translations are printed instead, and a page shows what was attended to.
    """
    runs, input_file = options.runs_and_input(paths)
    page = AttentionPage(attention) if attention is not None else None
    with open_input(input_file) as source:
        translator = options.load_translator(runs, checkpoint, device, to)
        process = partial(attend, translator, page) if page is not None else partial(trace, translator)
        process_lines(source, str(input_file or "stdin"), process, sys.stdout.buffer, bad_input == "replace")


def trace(translator: Translator, batches: Batches) -> Iterator[list[str]]:
    """Greedy search step by step: several lines for each line."""
    from mt_cli.explain.attention import trace as trace_line

    for _, lines in batches:
        yield [step for line in lines for step in (list(trace_line(translator, line)) or [""])]


def attend(translator: Translator, page: AttentionPage, batches: Batches) -> Iterator[list[str]]:
    """Translates, and adds the attention of each line to a page, until that is full."""
    from mt_cli.explain.attention import attention_maps

    n_lines, n_shown = 0, 0
    for n_before, lines in batches:
        translations = translator.translations(lines, first_line=n_before)
        n_lines = n_before + len(lines)
        for translation in translations:
            for part in translation.parts:
                if page.is_full:
                    break
                page.add(attention_maps(translator, part))
            else:
                n_shown += 1
        yield [one.text for one in translations]
    page.write()
    log.info(f"attention: {page.file}")
    if n_shown < n_lines:
        why = "as browsers cannot open larger pages; explain the others separately"
        log.warning(f"{page.file} shows the first {n_shown:,} of {n_lines:,} lines, {why}")
