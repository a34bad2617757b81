"""`mt export`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

import typer

from mt_cli.cli.options import catch_ctrl_c
from mt_cli.errors import UsageError
from mt_cli.files import new_folder
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)


def export(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; must not exist yet.")],
    to: Annotated[Literal["ctranslate2", "marian", "argos"], typer.Option(help="The format.")],
    quantization: Annotated[
        Literal["float32", "float16", "bfloat16", "int8"] | None,
        typer.Option(
            help="For ctranslate2 (float32 by default) and argos (int8 by default). On a processor without VNNI, set CT2_USE_MKL=1 where you load int8."
        ),
    ] = None,
    tgt_lang: Annotated[
        str | None,
        typer.Option(metavar="LANG", help="The language to translate into, of a run that has learnt several."),
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="best, last, step-N or averaged.")] = "best",
) -> None:
    """Write a run as a model of another engine. These are CTranslate2, Hugging Face transformers (marian) and Argos Translate."""
    RunDir.existing(run).find_checkpoint(checkpoint)
    if folder.exists():
        raise UsageError(f"{folder} exists already; delete it or choose another DIR")
    if to == "marian" and quantization is not None:
        raise UsageError("--to marian writes float32; leave out --quantization")

    from mt_cli.decoding.translator import Translator

    try:
        translator = Translator.load(run, checkpoint=checkpoint, device="cpu", to=tgt_lang)
    except UsageError as error:  # of languages, for which other commands have --to
        raise UsageError(str(error).replace("--to ", "--tgt-lang ")) from None
    tags, note = translator.tokenizer.src_tags, ""
    catch_ctrl_c()
    with new_folder(folder) as unfinished:
        if to == "marian":
            from mt_cli.export.marian import write_marian

            write_marian(translator, unfinished)
            note = f"; begin each source with >>{translator.config.data.tgt_lang}<< and a space"
        else:
            from mt_cli.export.ctranslate2 import write_argos, write_ctranslate2

            write = write_argos if to == "argos" else write_ctranslate2
            write(translator, unfinished, quantization or ("int8" if to == "argos" else "float32"))
            note = f"; put {' '.join(tags)} before the pieces of each source"
    log.info(f"{to} model in {folder}{note if tags else ''}")
