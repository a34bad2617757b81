"""`mt translate`: a thin layer over `Translator`."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    refuse_missing_checkpoints,
    refuse_structured,
    refuse_without_effect,
    runs_and_input,
    with_search_options,
)
from mt_cli.cli.pipe import LineProcess, is_terminal, process_lines
from mt_cli.cli.streams import open_input, open_output, refuse_output
from mt_cli.display import shortened
from mt_cli.errors import DataError, UsageError

if TYPE_CHECKING:
    from mt_cli.decoding.parts import Translation
    from mt_cli.decoding.translator import Translator
    from mt_cli.explain.doubts import ExplainedLine
    from mt_cli.explain.estimate import Estimate

log = logging.getLogger(__name__)

Engine = Literal["mt", "ctranslate2", "ctranslate2-int8"]
_MAX_REMARK, _MAX_REASON = 120, 24  # columns, where all reasons do not fit into a line of the terminal


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
    if output is not None:
        refuse_output(output)
    if prefix is not None and prefix_column:
        raise UsageError("--prefix is for all lines, --prefix-column for each its own; leave one out")
    if engine != "mt":
        _refuse_with_engine(engine, prefix is not None or prefix_column, device, len(runs) * len(checkpoints))
    refuse_structured(input_file, accepted="tsv" if prefix_column else "")
    with open_input(input_file) as source:
        translator = _load_translator(runs, checkpoints, device, engine, to)
        refuse_without_effect(search, translator.settings(**search))
        catch_ctrl_c()
        process = TranslateLines(translator, search, str(input_file or "stdin"), prefix, prefix_column, as_json)
        process.reports_doubts = show_doubts
        process.is_talking = (
            is_terminal(source) and output is None and sys.stdout.isatty() and not (as_json or show_doubts)
        )
        if as_json or process.is_talking:
            from mt_cli.explain.estimate import load_estimate

            process.estimate = load_estimate(translator)
        with open_output(output) as out:
            process_lines(source, process.name, process, out, bad_input == "replace")


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


@dataclass
class TranslateLines(LineProcess):
    """A line for each line; with `n_best` among the options a list for each line, as Moses prints it; or a JSON object."""

    translator: Translator
    options: dict[str, Any]  # keys of the config's `decoding`
    name: str  # of the input, for messages
    prefix: str | None = None  # what every translation begins with
    has_prefix_column: bool = False  # each line is: source, a tab, what its translation begins with
    is_json: bool = False
    reports_doubts: bool = False
    is_talking: bool = False  # says below each translation why it may be wrong
    estimate: Estimate | None = None
    n_split: int = 0  # lines that were translated in several parts
    remarks: list[str] = field(default_factory=list)  # to be logged when the output is written

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        translations = self._translate(lines, n_before)
        self._report_first_split(translations, n_before)
        if self.is_json or self.reports_doubts or self.is_talking:
            from mt_cli.explain.doubts import explain_lines, to_json

            explained = explain_lines(self.translator, translations)
            estimated: list[float | None] = [None] * len(explained)
            if self.estimate is not None:
                estimated = self.estimate.of(self.translator, explained)
            if self.is_talking:
                self.remarks += filter(None, map(self._remark, explained, estimated))
            if self.reports_doubts:
                for number, one in enumerate(explained, n_before + 1):
                    for doubt in one.doubts:
                        log.info(f"doubt: {self.name}:{number}: {doubt.kind}: {doubt.detail}")
            if self.is_json:
                return to_json(self.translator, explained, estimated)
        if "n_best" in self.options:
            return [
                f"{number} ||| {text} ||| {score:.6f}"  # sentences are counted from 0
                for number, one in enumerate(translations, n_before)
                for text, score in zip(one.texts, one.scores, strict=True)
            ]
        return [one.text for one in translations]

    def _translate(self, lines: Sequence[str], n_before: int) -> list[Translation]:
        prefixes = None if self.prefix is None else [self.prefix] * len(lines)
        if self.has_prefix_column:
            columns = [line.partition("\t") for line in lines]
            lines, prefixes = [source for source, _, _ in columns], [prefix for _, _, prefix in columns]
        try:
            return self.translator.translations(lines, prefixes, first_line=n_before, **self.options)
        except UsageError as error:
            if self.prefix is not None:  # no line of the input is to blame
                raise UsageError(f"--prefix: {str(error).partition(': ')[2]}") from None
            if not self.has_prefix_column:
                raise
            # The prefix stands in the input: it is the data that is wrong, not the command line.
            raise DataError(f"{self.name}:{str(error).removeprefix('line ')}") from None

    def _remark(self, line: ExplainedLine, estimated: float | None) -> str:
        """In a line why a translation may be wrong; '' where nothing says that it is."""
        low = list[str]()
        if estimated is not None and self.estimate is not None and estimated < self.estimate.low:
            low = [f"estimated chrF {estimated:.0f}, on the dev set {self.estimate.dev_chrf:.0f}"]
        if not low and not line.doubts:
            return ""
        full, short = (
            "may be wrong: "
            + "; ".join([*low, *(f"{doubt.kind}: {shortened(doubt.detail, width)}" for doubt in line.doubts)])
            for width in (_MAX_REMARK, _MAX_REASON)
        )
        return shortened(
            full if len(full) <= min(_MAX_REMARK, shutil.get_terminal_size().columns) else short, _MAX_REMARK
        )

    def written(self) -> None:
        for remark in self.remarks:
            log.info(remark)
        self.remarks.clear()

    def _report_first_split(self, translations: list[Translation], n_before: int) -> None:
        for number, one in enumerate(translations, n_before + 1):
            if len(one.parts) > 1:
                self.n_split += 1
                if self.n_split == 1:
                    log.info(
                        f"note: {self.name}:{number}: longer than training lines are, or of more sentences;"
                        f" translated in {len(one.parts)} parts"
                    )

    def finish(self, n_lines: int) -> None:
        if self.n_split > 1:
            log.info(f"note: {self.name}: {self.n_split:,} of {n_lines:,} lines were translated in parts")
