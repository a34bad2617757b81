"""`mt translate`: a thin layer over `Translator`."""

from __future__ import annotations

import logging
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from mt_cli.cli import options
from mt_cli.cli.pipe import Batches, open_input, open_output, process_lines
from mt_cli.display import shortened
from mt_cli.errors import UsageError

if TYPE_CHECKING:
    from mt_cli.decoding.parts import Translation
    from mt_cli.decoding.translator import Translator

log = logging.getLogger(__name__)

_MAX_REMARK = 120  # columns
_N_NAMED = 10  # terms

_OF_PATHS = "Run directories (several are an ensemble), then a text file, a document, or a folder of documents; stdin by default."
_OF_OUTPUT = "Write here instead of to stdout; must not exist yet. Documents need it."
_OF_PREFIX = "The text that every translation begins with."
_OF_MARKUP = "Translate what is between tags; each stays around its words."
_OF_ENGINE = "The program that searches; ctranslate2 is faster on a CPU."
_OF_JSON = "A JSON object a line: hypotheses, scores, alignment, estimated chrF, doubts."
_OF_DOUBTS = "Say on stderr which translations look wrong, and why."
_OF_COLUMN = "Of a table: the column to translate, by name or number; SOURCE,TARGET fills another one."
_OF_ALL = "Of a document: also translate anew what has a translation already."
Markup = Literal["html", "xml"] | None
Engine = Literal["mt", "ctranslate2", "ctranslate2-int8"]


@options.with_search_options()
def translate(
    search: dict[str, Any],
    paths: Annotated[list[Path], Argument(metavar="RUN... [INPUT]", help=_OF_PATHS)],
    to: options.ToOption = None,
    output: Annotated[Path | None, Option(help=_OF_OUTPUT)] = None,
    checkpoint: options.CheckpointsOption = None,
    prefix: Annotated[str | None, Option(help=_OF_PREFIX)] = None,
    markup: Annotated[Markup, Option(help=_OF_MARKUP)] = None,
    glossary: options.GlossaryOption = None,
    strict_terms: options.StrictTermsOption = False,
    as_json: Annotated[bool, Option("--json", help=_OF_JSON)] = False,
    show_doubts: Annotated[bool, Option("--doubts", help=_OF_DOUBTS)] = False,
    column: Annotated[str | None, Option(help=_OF_COLUMN)] = None,
    takes_all: Annotated[bool, Option("--all", help=_OF_ALL)] = False,
    bad_input: options.BadInputOption = "error",
    device: options.DeviceOption = "auto",
    engine: Annotated[Engine, Option(help=_OF_ENGINE)] = "mt",
) -> None:
    """Translate lines of text, or documents. One line comes out for each line that goes in, in order, blank for blank.

    Of a document (.po, .srt, .vtt, .html, .md, .json, .properties, .csv, .tsv and others) only what is to be translated
    changes. Options of the search that are given here replace those of the run's config. At a terminal a line below a
    translation says why it may be wrong.
    """
    runs, file = options.runs_and_input(paths, takes_folder=True)
    settings = search | options.term_options(glossary, strict_terms)

    def load() -> Translator:
        translator = options.load_translator(runs, checkpoint, device, to, engine)
        options.refuse_without_effect(search, translator.settings(**search))
        return translator

    if file is not None:
        from mt_cli.documents.document import is_document, open_documents

        if file.is_dir() or is_document(file):
            of_lines = {"prefix": prefix, "markup": markup, "json": as_json, "bad_input": bad_input == "replace"}
            options.refuse_options("only lines of text have these", of_lines | {"n_best": search.get("n_best")})
            documents, translator = open_documents(file, output, column), load()
            from mt_cli.documents.translate import translate_documents

            translate_documents(*documents, translator, settings, takes_all, show_doubts)
            return
    options.refuse_options("only documents have these", {"column": column, "all": takes_all})
    if output is not None and output.exists():
        raise UsageError(f"{output} exists already; choose another --output")
    with open_input(file) as source:
        translator, name = load(), str(file or "stdin")
        is_talking = source.isatty() and output is None and sys.stdout.isatty() and not (as_json or show_doubts)
        settings |= {"markup": markup}
        process = partial(translate_lines, translator, settings, prefix, name, as_json, show_doubts, is_talking)
        with open_output(output) as out:
            process_lines(source, name, process, out, bad_input == "replace")


def translate_lines(
    translator: Translator,
    settings: dict[str, Any],
    prefix: str | None,
    name: str,
    is_json: bool,
    shows_doubts: bool,
    is_talking: bool,
    batches: Batches,
) -> Iterator[list[str]]:
    """A line for each line of the input `name`; with `n_best` among the settings a list for each, as Moses prints it;
    or a JSON object. `is_talking`: says below each translation why it may be wrong."""
    was_split, n_terms, lacking, estimate = False, 0, Counter[str](), None
    if is_json or shows_doubts or is_talking:
        from mt_cli.explain.doubts import to_json
        from mt_cli.explain.estimate import explain_lines, load_estimate

        estimate = None if shows_doubts and not is_json else load_estimate(translator)
    for n_before, lines in batches:
        try:
            prefixes = None if prefix is None else [prefix] * len(lines)
            translations = translator.translations(lines, prefixes, first_line=n_before, **settings)
        except UsageError as error:
            # No line of the input is to blame for a prefix.
            found = str(error).partition(": ")[2]
            raise (UsageError(f"--prefix: {found}") if prefix is not None and found else error) from None
        for number, one in enumerate(translations, n_before + 1):
            if len(one.parts) > 1 and not was_split:
                was_split, why = True, "longer than training lines are, or of more sentences"
                how = f"translated in {len(one.parts)} parts, and so are all such lines"
                log.info(f"note: {name}:{number}: {why}; {how}")
            n_terms += len(one.hits)
            lacking.update(f"{hit.source} → {hit.target}" for hit in one.unused_hits())
        output = _as_text(translations, n_before, "n_best" in settings)
        if not (is_json or shows_doubts or is_talking):
            yield output
            continue
        explained = explain_lines(translator, translations, estimate)
        for number, line in enumerate(explained if shows_doubts else (), n_before + 1):
            for doubt in line.doubts:
                log.info(f"doubt: {name}:{number}: {doubt}")
        yield to_json(translator, explained) if is_json else output  # is written when the next line runs
        for line in explained if is_talking else ():
            reasons = list(map(str, line.doubts))
            if estimate and line.chrf is not None and line.chrf < estimate.low:
                reasons.insert(0, f"estimated chrF {line.chrf:.0f}, on the dev set {estimate.dev_chrf:.0f}")
            if reasons:
                width = min(_MAX_REMARK, shutil.get_terminal_size().columns)
                log.info(shortened(f"may be wrong: {'; '.join(reasons)}", width))
    if "glossary" in settings:
        named = [f"{term} ({n})" for term, n in lacking.most_common(_N_NAMED)]
        why = f"; not used: {', '.join(named)}{' ...' * (len(lacking) > _N_NAMED)}" if lacking else ""
        log.info(f"terms: {n_terms - lacking.total():,} of {n_terms:,} used{why}")


def _as_text(translations: list[Translation], n_before: int, is_list: bool) -> list[str]:
    if not is_list:
        return [one.text for one in translations]
    return [
        f"{number} ||| {text} ||| {score:.6f}"  # sentences are counted from 0
        for number, one in enumerate(translations, n_before)
        for text, score in zip(one.texts, one.scores, strict=True)
    ]
