"""`mt translate`."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    with_search_options,
)
from mt_cli.cli.streams import open_input, open_output
from mt_cli.errors import UsageError
from mt_cli.processes import n_processes, rank
from mt_cli.run.run_dir import RunDir

if TYPE_CHECKING:
    from mt_cli.cli.pipe import TranslateLines
    from mt_cli.decoding.translator import Translator
    from mt_cli.explain.estimate import Estimator

Engine = Literal["mt", "ctranslate2", "ctranslate2-int8"]


@with_search_options()
def translate(
    search: dict[str, Any],
    paths: RunsAndInputArgument,
    to: ToOption = None,
    output: Annotated[Path | None, typer.Option(help="Write here instead of to stdout; must not exist yet.")] = None,
    checkpoint: CheckpointsOption = None,
    prefix: Annotated[str | None, typer.Option(help="The text that every translation begins with.")] = None,
    prefix_column: Annotated[
        bool,
        typer.Option("--prefix-column", help="Each input line is: source, a tab, what its translation begins with."),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="A JSON object a line: hypotheses, scores, alignment, estimated chrF, doubts."),
    ] = False,
    show_doubts: Annotated[
        bool, typer.Option("--doubts", help="Say on stderr which translations look wrong, and why.")
    ] = False,
    bad_input: BadInputOption = "error",
    device: DeviceOption = "auto",
    engine: Annotated[Engine, typer.Option(help="The program that searches; ctranslate2 is faster on a CPU.")] = "mt",
) -> None:
    """Translate lines of text. One line comes out for each line that goes in, in order, blank for blank.

    The search is that of the run's config, but for the options of a search that are given here. At a terminal a line below a
    translation says why it may be wrong.
    """
    runs, input_file = runs_and_input(paths)
    checkpoints = checkpoint or ["best"]
    refuse_missing_checkpoints(runs, checkpoints)
    if (is_shared := _is_shared(output)) and (input_file is None or output is None):
        raise UsageError("several processes share a file; give INPUT and --output, or choose another --output")
    if output is not None and _is_there(output):
        return
    if prefix is not None and prefix_column:
        raise UsageError("--prefix is for all lines, --prefix-column for each its own; leave one out")
    if engine != "mt":
        _refuse_with_engine(engine, prefix is not None or prefix_column, device, len(runs) * len(checkpoints))
    refuse_columns(None if prefix_column else input_file)
    with open_input(input_file) as source:
        from mt_cli.cli.pipe import TranslateLines, is_terminal, process_lines
        from mt_cli.run.provenance import versions

        translator = _load_translator(runs, checkpoints, device, engine, to)
        refuse_without_effect(search, translator.settings(**search))
        catch_ctrl_c()
        is_talking = is_terminal(source) and output is None and sys.stdout.isatty() and not (as_json or show_doubts)
        estimator = _estimator_of(translator) if as_json or is_talking else None
        name = str(input_file or "stdin")
        process = TranslateLines(
            translator, search, name, prefix, prefix_column, as_json, show_doubts, is_talking, estimator
        )
        if is_shared and output is not None:
            weights = [str(RunDir(run).find_checkpoint(one)) for run in runs for one in checkpoints]
            made_with = [translator.settings(**search), "n_best" in search, engine, to, *checkpoints, versions()]
            _share(source, process, output, bad_input == "replace", weights, made_with)
            return
        with open_output(output) as out:
            process_lines(source, name, process, out, bad_input == "replace")


def _is_there(output: Path) -> bool:
    """Raises UsageError in the first process if it is."""
    if output.exists() and not rank():  # which may have just joined the blocks of all
        remedy = "delete it or choose another --output" if output.is_file() else f"write there with: > {output}"
        raise UsageError(f"{output} exists already; {remedy}")
    return output.exists()


def _is_shared(output: Path | None) -> bool:
    """Whether several processes write it, or have begun to."""
    from mt_cli.cli.blocks import BlockFolder

    return n_processes() > 1 or (output is not None and BlockFolder.is_begun(output))


def _share(
    source: io.RawIOBase,
    process: TranslateLines,
    output: Path,
    replaces_bad_input: bool,
    weights: list[str],
    made_with: Sequence[object],
) -> None:
    """Translates this process's blocks of a file that several share. `weights`: the files of all models."""
    from mt_cli.cli.blocks import BlockFolder, share_blocks
    from mt_cli.data.corpus import sha256_of

    if _is_there(output):  # while this process loaded its model, the others have done all
        return
    of_process = [process.prefix, process.has_prefix_column, process.is_json]
    about = [sha256_of([process.name, *weights]), replaces_bad_input, *of_process, *made_with]
    folder = BlockFolder(output, "\n".join(map(str, about)))
    share_blocks(source, process.name, process, folder, rank(), n_processes(), replaces_bad_input)


def _estimator_of(translator: Translator) -> Estimator | None:
    from mt_cli.explain.estimate import estimator_of

    return estimator_of(translator)


def _refuse_with_engine(engine: Engine, has_prefix: bool, device: str, n_models: int) -> None:
    """Raises UsageError for what an engine cannot do. Options of a search it refuses itself."""
    if n_models > 1:
        raise UsageError(f"--engine {engine} translates with one model; give one run and one --checkpoint")
    if has_prefix:
        raise UsageError(f"--engine {engine} takes no prefixes; leave out --prefix and --prefix-column")
    if device not in ("auto", "cpu"):
        raise UsageError(f"--engine {engine} runs on the CPU; leave out --device")


def _load_translator(
    runs: list[Path], checkpoints: list[str], device: str, engine: Engine, to: str | None
) -> Translator:
    from mt_cli.decoding.translator import Translator
    from mt_cli.device import keep_freed_memory

    keep_freed_memory()
    translator = Translator.load(*runs, checkpoint=checkpoints, device=device, to=to)
    if engine == "mt":
        return translator
    from mt_cli.export.engine import CTranslate2Translator

    return CTranslate2Translator(translator, compute_type="int8" if engine == "ctranslate2-int8" else "float32")
