"""`mt report`."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from mt_cli.cli.options import DeviceOption, RobustnessOption, catch_ctrl_c, existing_checkpoints
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or several run directories.")],
    output: Annotated[
        Path, typer.Option(help="The page to write, NAME.html; an earlier report there is replaced, no other file.")
    ] = Path("report.html"),
    checkpoint: Annotated[str, typer.Option(help="What translates: best, last, step-N or averaged.")] = "best",
    quick: Annotated[bool, typer.Option("--quick", help="Only curves, config and facts, within seconds.")] = False,
    robustness: RobustnessOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Write a page about one run or several. A browser shows it: mt report runs/es-gn

    It begins with how good the translator is and what to do next. The page is one file and loads nothing. It can be written
    while the run still trains. The test sets of each run's config are translated; where there are none, its dev set.
    """
    for run in runs:
        RunDir.existing(run)
    if checkpoint != "best":  # which a run that has just begun lacks
        existing_checkpoints(runs, [checkpoint])

    from mt_cli.device import keep_freed_memory
    from mt_cli.explain import report as page

    keep_freed_memory()
    catch_ctrl_c()
    page.report(runs, output, checkpoint=checkpoint, device=device, quick=quick, robustness=robustness)
    log.info(f"report: {output}")
