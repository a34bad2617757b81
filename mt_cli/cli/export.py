"""`mt export`."""

import logging
from pathlib import Path
from typing import Annotated, Literal

import typer

from mt_cli.cli.options import catch_ctrl_c
from mt_cli.errors import UsageError
from mt_cli.explain.page import refuse_page
from mt_cli.files import new_folder, write_text
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

_OF_OUT = "The folder to write, or NAME.html with --to html; must not exist yet."
_OF_QUANTIZATION = "For ctranslate2 (float32 by default) and argos (int8 by default). On a processor without VNNI, set CT2_USE_MKL=1 where you load int8."
_OF_TGT_LANG = "The language to translate into, of a run that has learnt several. A page has all of them by default."
Quantization = Literal["float32", "float16", "bfloat16", "int8"] | None


def export(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    out: Annotated[Path, typer.Argument(help=_OF_OUT)],
    to: Annotated[Literal["ctranslate2", "marian", "argos", "html"], typer.Option(help="The format.")],
    quantization: Annotated[Quantization, typer.Option(help=_OF_QUANTIZATION)] = None,
    tgt_lang: Annotated[str | None, typer.Option(metavar="LANG", help=_OF_TGT_LANG)] = None,
    checkpoint: Annotated[str, typer.Option(help="best, last, step-N or averaged.")] = "best",
) -> None:
    """Write a run as a model of another engine, or as a page that translates in a browser by itself. The engines are
    CTranslate2, Hugging Face transformers (marian) and Argos Translate."""
    run_dir = RunDir.existing(run)
    run_dir.find_checkpoint(checkpoint)
    if to in ("marian", "html") and quantization is not None:
        written = "float32" if to == "marian" else "8 bits"
        raise UsageError(f"--to {to} writes {written}; leave out --quantization")
    if to == "html":
        refuse_page(out, "name")
    elif out.exists():
        raise UsageError(f"{out} exists already; delete it or choose another folder")

    from mt_cli.decoding.translator import Translator
    from mt_cli.run.checkpoint import load_model
    from mt_cli.run.run_dir import choose_direction, describe_directions, directions_of

    config = run_dir.load_config()
    try:
        is_chosen = to != "html" or tgt_lang is not None
        chosen = [choose_direction(config, tgt_lang, run)] if is_chosen else directions_of(config)
    except UsageError as error:  # other commands have --to for a language
        raise UsageError(str(error).replace("--to ", "--tgt-lang ")) from None
    catch_ctrl_c()
    if to == "html":
        from mt_cli.export.offline import page_of

        loaded = load_model(run_dir, checkpoint)
        write_text(out, page_of([loaded.for_direction(one, run_dir) for one in chosen]))
        size = out.stat().st_size / 1e6
        log.info(f"{out} ({size:.1f} MB) translates {describe_directions(chosen)}; open it in a browser")
        return
    translator = Translator.load(run, checkpoint=checkpoint, device="cpu", to=tgt_lang)
    tags = translator.tokenizer.src_tags
    with new_folder(out) as unfinished:
        if to == "marian":
            from mt_cli.export.marian import write_marian

            write_marian(translator, unfinished)
            note = f"; begin each source with >>{translator.config.data.tgt_lang}<< and a space"
        else:
            from mt_cli.export.engine import write_argos, write_ctranslate2

            write = write_argos if to == "argos" else write_ctranslate2
            write(translator, unfinished, quantization or ("int8" if to == "argos" else "float32"))
            note = f"; put {' '.join(tags)} before the pieces of each source"
    log.info(f"{to} model in {out}{note if tags else ''}")
