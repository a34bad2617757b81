"""`mt translate`: a thin layer over `Translator`, for lines; documents are in `documents.py`."""

from __future__ import annotations

import logging
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mt_cli.cli.documents import open_documents, translate_documents
from mt_cli.cli.options import (
    BadInputOption,
    CheckpointsOption,
    DeviceOption,
    GlossaryOption,
    RunsAndDocumentsArgument,
    StrictTermsOption,
    ToOption,
    catch_ctrl_c,
    refuse_missing_checkpoints,
    refuse_options,
    refuse_structured,
    refuse_without_effect,
    runs_and_input,
    term_options,
    with_search_options,
)
from mt_cli.cli.pipe import Batches, is_terminal, open_input, open_output, process_lines
from mt_cli.display import shortened
from mt_cli.documents.formats import is_document
from mt_cli.errors import UsageError

if TYPE_CHECKING:
    from mt_cli.decoding.parts import Translation
    from mt_cli.decoding.translator import Translator

log = logging.getLogger(__name__)

_MAX_REMARK = 120  # columns
_N_NAMED = 10  # terms

OutputOption = Annotated[
    Path | None, typer.Option(help="Write here instead of to stdout; must not exist yet. Documents need it.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="A JSON object a line: hypotheses, scores, alignment, estimated chrF, doubts.")
]


@with_search_options()
def translate(
    search: dict[str, Any],
    paths: RunsAndDocumentsArgument,
    to: ToOption = None,
    output: OutputOption = None,
    checkpoint: CheckpointsOption = None,
    prefix: Annotated[str | None, typer.Option(help="The text that every translation begins with.")] = None,
    markup: Annotated[
        Literal["html", "xml"] | None, typer.Option(help="Translate what is between tags; each stays around its words.")
    ] = None,
    glossary: GlossaryOption = None,
    strict_terms: StrictTermsOption = False,
    as_json: JsonOption = False,
    show_doubts: Annotated[
        bool, typer.Option("--doubts", help="Say on stderr which translations look wrong, and why.")
    ] = False,
    column: Annotated[
        str | None,
        typer.Option(help="Of a table: the column to translate, by name or number; SOURCE,TARGET fills another one."),
    ] = None,
    takes_all: Annotated[
        bool, typer.Option("--all", help="Of a document: translate also what it has a translation of.")
    ] = False,
    bad_input: BadInputOption = "error",
    device: DeviceOption = "auto",
    engine: Annotated[
        Literal["mt", "ctranslate2", "ctranslate2-int8"],
        typer.Option(help="The program that searches; ctranslate2 is faster on a CPU."),
    ] = "mt",
) -> None:
    """Translate lines of text, or documents. One line comes out for each line that goes in, in order, blank for blank.

    Of a document (.po, .srt, .vtt, .html, .md, .json, .properties, .csv, .tsv and others) only what is to be translated changes.
    The search is that of the run's config, but for the options of a search that are given here. At a terminal a line below a
    translation says why it may be wrong.
    """
    runs, input_file = runs_and_input(paths, takes_folder=True)
    refuse_missing_checkpoints(runs, checkpoints := checkpoint or ["best"])
    terms = term_options(glossary, strict_terms)
    if input_file is not None and (input_file.is_dir() or is_document(input_file)):
        of_lines = {"prefix": prefix, "markup": markup, "json": as_json, "bad_input": bad_input == "replace"}
        refuse_options("only lines of text have these", of_lines | {"n_best": search.get("n_best")})
        jobs = open_documents(input_file, output, column)
        translate_documents(
            _load(runs, checkpoints, device, to, engine, search), jobs, search | terms, takes_all, show_doubts
        )
        return
    refuse_options("only documents have these", {"column": column, "all": takes_all})
    if output is not None and output.exists():
        raise UsageError(f"{output} exists already; choose another --output")
    refuse_structured(input_file)
    with open_input(input_file) as source:
        translator = _load(runs, checkpoints, device, to, engine, search)
        name = str(input_file or "stdin")
        is_talking = is_terminal(source) and output is None and sys.stdout.isatty() and not (as_json or show_doubts)
        process = TranslateLines(translator, search | terms, name, prefix, markup, as_json, show_doubts, is_talking)
        with open_output(output) as out:
            process_lines(source, name, process, out, bad_input == "replace")


def _load(
    runs: list[Path], checkpoints: list[str], device: str, to: str | None, engine: str, search: dict[str, Any]
) -> Translator:
    from mt_cli.decoding.translator import Translator
    from mt_cli.device import keep_freed_memory

    keep_freed_memory()
    kind = Translator
    if engine != "mt":
        from mt_cli.export.engine import CTranslate2Translator, Int8Translator

        kind = Int8Translator if engine == "ctranslate2-int8" else CTranslate2Translator
        device = "cpu" if device == "auto" else device
    translator = kind.load(*runs, checkpoint=checkpoints, device=device, to=to)
    refuse_without_effect(search, translator.settings(**search))
    catch_ctrl_c()
    return translator


@dataclass
class TranslateLines:
    """A line for each line; with `n_best` among the options a list for each line, as Moses prints it; or a JSON object."""

    translator: Translator
    options: dict[str, Any]  # keys of the config's `decoding`; glossary and strict_terms
    name: str  # of the input, for messages
    prefix: str | None  # what every translation begins with
    markup: Literal["html", "xml"] | None  # what the lines are written in
    is_json: bool
    reports_doubts: bool
    is_talking: bool  # says below each translation why it may be wrong

    def __call__(self, batches: Batches) -> Iterator[list[str]]:
        if explains := self.is_json or self.reports_doubts or self.is_talking:
            from mt_cli.explain.doubts import explain_lines, to_json
            from mt_cli.explain.estimate import load_estimate

            estimate = load_estimate(self.translator) if self.is_json or self.is_talking else None
        has_reported_split, n_terms, lacking = False, 0, Counter[str]()
        for n_before, lines in batches:
            translations = self._translate(lines, n_before)
            for number, one in enumerate(translations, n_before + 1):
                if len(one.parts) > 1 and not has_reported_split:
                    has_reported_split = True
                    log.info(
                        f"note: {self.name}:{number}: longer than training lines are, or of more sentences; translated"
                        f" in {len(one.parts)} parts, and so are all such lines"
                    )
                n_terms += len(one.hits)
                lacking.update(f"{hit.source} → {hit.target}" for hit in one.unused_hits())
            if not explains:
                yield self._as_text(translations, n_before)
                continue
            explained = explain_lines(self.translator, translations)
            estimated: list[float | None] = [None] * len(explained)
            if estimate is not None:
                estimated = estimate.of(self.translator, explained)
            for number, line in enumerate(explained if self.reports_doubts else (), n_before + 1):
                for doubt in line.doubts:
                    log.info(f"doubt: {self.name}:{number}: {doubt.kind}: {doubt.detail}")
            if self.is_json:
                yield to_json(self.translator, explained, estimated)
            else:
                yield self._as_text(translations, n_before)  # it is written when the next line of this function runs
            for line, chrf in zip(explained if self.is_talking else (), estimated, strict=False):
                reasons = [f"{doubt.kind}: {doubt.detail}" for doubt in line.doubts]
                if estimate and chrf is not None and chrf < estimate.low:
                    reasons.insert(0, f"estimated chrF {chrf:.0f}, on the dev set {estimate.dev_chrf:.0f}")
                if reasons:
                    width = min(_MAX_REMARK, shutil.get_terminal_size().columns)
                    log.info(shortened(f"may be wrong: {'; '.join(reasons)}", width))
        if "glossary" in self.options:
            named = [f"{term} ({n})" for term, n in lacking.most_common(_N_NAMED)]
            why = f"; not used: {', '.join(named)}{' ...' * (len(lacking) > _N_NAMED)}" if lacking else ""
            log.info(f"terms: {n_terms - lacking.total():,} of {n_terms:,} used{why}")

    def _translate(self, lines: list[str], n_before: int) -> list[Translation]:
        prefixes = None if self.prefix is None else [self.prefix] * len(lines)
        try:
            return self.translator.translations(
                lines, prefixes, first_line=n_before, markup=self.markup, **self.options
            )
        except UsageError as error:
            if self.prefix is None:
                raise
            raise UsageError(f"--prefix: {str(error).partition(': ')[2]}") from None  # no line of the input is to blame

    def _as_text(self, translations: list[Translation], n_before: int) -> list[str]:
        if "n_best" not in self.options:
            return [one.text for one in translations]
        return [
            f"{number} ||| {text} ||| {score:.6f}"  # sentences are counted from 0
            for number, one in enumerate(translations, n_before)
            for text, score in zip(one.texts, one.scores, strict=True)
        ]
