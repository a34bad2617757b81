"""`mt export`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from mt_cli.cli.options import catch_ctrl_c
from mt_cli.errors import UsageError
from mt_cli.explain.page import refuse_page
from mt_cli.files import new_folder
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)


def export(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    out: Annotated[Path, typer.Argument(help="The folder to write, or NAME.html with --to html; must not exist yet.")],
    to: Annotated[Literal["ctranslate2", "marian", "argos", "html"], typer.Option(help="The format.")],
    quantization: Annotated[
        Literal["float32", "float16", "bfloat16", "int8"] | None,
        typer.Option(
            help="For ctranslate2 (float32 by default) and argos (int8 by default). On a processor without VNNI, set CT2_USE_MKL=1 where you load int8."
        ),
    ] = None,
    tgt_lang: Annotated[
        str | None,
        typer.Option(
            metavar="LANG",
            help="The language to translate into, of a run that has learnt several. A page has all of them by default.",
        ),
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="best, last, step-N or averaged.")] = "best",
) -> None:
    """Write a run as a model of another engine, or as a page that translates in a browser by itself. The engines are CTranslate2,
    Hugging Face transformers (marian) and Argos Translate."""
    run_dir = RunDir.existing(run)
    run_dir.find_checkpoint(checkpoint)
    if to in ("marian", "html") and quantization is not None:
        written = "float32" if to == "marian" else "8 bits"
        raise UsageError(f"--to {to} writes {written}; leave out --quantization")
    if to == "html":
        refuse_page(out, "name")
        _export_page(run_dir, out, tgt_lang, checkpoint)
        return
    if out.exists():
        raise UsageError(f"{out} exists already; delete it or choose another folder")

    from mt_cli.decoding.translator import Translator

    with _of_target_language():
        translator = Translator.load(run, checkpoint=checkpoint, device="cpu", to=tgt_lang)
    tags, note = translator.tokenizer.src_tags, ""
    catch_ctrl_c()
    with new_folder(out) as unfinished:
        if to == "marian":
            from mt_cli.export.marian import write_marian

            write_marian(translator, unfinished)
            note = f"; begin each source with >>{translator.config.data.tgt_lang}<< and a space"
        else:
            from mt_cli.export.ctranslate2 import write_argos, write_ctranslate2

            write = write_argos if to == "argos" else write_ctranslate2
            write(translator, unfinished, quantization or ("int8" if to == "argos" else "float32"))
            note = f"; put {' '.join(tags)} before the pieces of each source"
    log.info(f"{to} model in {out}{note if tags else ''}")


def _export_page(run: RunDir, page: Path, tgt_lang: str | None, checkpoint: str) -> None:
    from mt_cli.export.offline import write_offline
    from mt_cli.run.checkpoint import load_model
    from mt_cli.run.directions import choose_direction, describe_directions, directions_of

    config = run.load_config()
    with _of_target_language():
        chosen = directions_of(config) if tgt_lang is None else [choose_direction(config, tgt_lang, run.path)]
    loaded = load_model(run, checkpoint)
    catch_ctrl_c()
    write_offline([loaded.for_direction(one, run) for one in chosen], page)
    size = page.stat().st_size / 1e6
    log.info(f"{page} ({size:.1f} MB) translates {describe_directions(chosen)}; open it in a browser")


@contextmanager
def _of_target_language() -> Iterator[None]:
    """Errors about languages name the option of this command; other commands have --to."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error).replace("--to ", "--tgt-lang ")) from None
