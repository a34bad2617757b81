"""`mt score`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mt_cli.cli.options import (
    BadInputOption,
    CheckpointsOption,
    DeviceOption,
    RunsArgument,
    ToOption,
    catch_ctrl_c,
    only_file,
    refuse_columns,
    refuse_missing_checkpoints,
)
from mt_cli.cli.streams import open_input
from mt_cli.errors import UsageError
from mt_cli.run.run_dir import RunDir


def score(
    runs: RunsArgument,
    references: Annotated[list[Path], typer.Option("--ref", help="Translations to score, line for line.")],
    sources: Annotated[list[Path] | None, typer.Option("--src", help="Source text; stdin by default.")] = None,
    checkpoint: CheckpointsOption = None,
    bad_input: BadInputOption = "error",
    device: DeviceOption = "auto",
    to: ToOption = None,
) -> None:
    """Print how probable given translations are.

    There is a line for each: the sum, a tab, and each token with its own log-probability (natural logarithms). It is empty
    where a side is blank or longer than the model can read.
    """
    src, ref = only_file("--src", sources), only_file("--ref", references)
    assert ref is not None
    refuse_columns(src, ref)
    if src is not None and src == ref:
        raise UsageError(f"--src and --ref are both {src}; give the source and its translations")
    for run in runs:
        RunDir.existing(run)
    checkpoints = checkpoint or ["best"]
    refuse_missing_checkpoints(runs, checkpoints)
    with open_input(src) as source:
        from mt_cli.cli.pipe import ScoreLines, process_lines
        from mt_cli.data.corpus import read_lines
        from mt_cli.decoding.translator import Translator
        from mt_cli.device import keep_freed_memory

        keep_freed_memory()
        translator = Translator.load(*runs, checkpoint=checkpoints, device=device, to=to)
        name = str(src or "stdin")
        process = ScoreLines(translator, iter(read_lines(ref)), name)
        catch_ctrl_c()
        process_lines(source, name, process, sys.stdout.buffer, bad_input == "replace")
