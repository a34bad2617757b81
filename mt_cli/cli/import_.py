"""`mt import`."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from mt_cli.cli.options import catch_ctrl_c
from mt_cli.errors import UsageError, as_typed
from mt_cli.files import new_folder
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

_OF_FOLDER = "Has config.json, model.safetensors or pytorch_model.bin, vocab.json, source.spm and target.spm."


def import_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_OF_FOLDER)],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory to make; must not exist yet.")],
    src_lang: Annotated[str | None, typer.Option(help="Language code of the source, if the folder names none.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="The same of the target; of several languages one.")] = None,
) -> None:
    """Make a run of a Hugging Face Marian model. OPUS-MT publishes such models: to translate with, to fine-tune, to export.

    To fine-tune it: mt train SOURCE TARGET --from RUN.
    """
    if run.exists():
        raise UsageError(f"{run} exists already; delete it or choose another RUN")

    from mt_cli.export.marian import import_marian
    from mt_cli.processes import command_line

    catch_ctrl_c()
    with new_folder(run) as unfinished:
        import_marian(folder, RunDir(unfinished), src_lang, tgt_lang, command_line())
    log.info(f"{folder} is now the run {run}; try: mt translate {as_typed(run)}")
