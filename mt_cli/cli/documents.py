"""Documents for `mt translate`: which files are translated into which, one file or all of a folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mt_cli.display import shortened
from mt_cli.documents.document import Document
from mt_cli.documents.formats import TABLES, WITH_REMARKS, is_document, open_document
from mt_cli.errors import UsageError
from mt_cli.files import make_folders, write_bytes

if TYPE_CHECKING:
    from mt_cli.decoding.translator import Translator

log = logging.getLogger(__name__)


class Job(NamedTuple):
    source: Path
    output: Path
    document: Document


class Jobs(NamedTuple):
    jobs: list[Job]
    unfinished: Path  # where translations are kept until all documents are written


def open_documents(source: Path, output: Path | None, column: str | None) -> Jobs:
    """The document; or all of a folder but those that are written already.

    Raises DataError for a file that is not what its name says, and UsageError for an output that cannot be meant.
    """
    if output is None:
        kind = "a folder, and no run directory" if source.is_dir() else "a document"
        raise UsageError(f"{source}: {kind}; say by --output where its translation is put")
    if not source.is_dir():
        if output.exists():
            raise UsageError(f"{output} exists already; choose another --output")
        if output.suffix.lower() != source.suffix.lower():
            raise UsageError(f"{output}: the format stays the same; choose an --output that ends in {source.suffix}")
        unfinished = output.with_name(f".{output.name}.unfinished")
        return Jobs([Job(source, output, open_document(source, column))], unfinished)
    unfinished = output / ".unfinished"
    if (output.exists() and not unfinished.exists()) or output.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"{output} exists already, or is in {source}; choose another --output")
    files = sorted(file for file in source.rglob("*") if file.is_file())
    if others := [str(file.relative_to(source)) for file in files if not is_document(file)]:
        log.info(f"left out, of no format that is known: {shortened(', '.join(others), 200)}")
    if len(others) == len(files):
        raise UsageError(f"{source}: no document in it; give a folder with files such as .po, .html or .docx")
    jobs = [
        Job(file, target, open_document(file, column if file.suffix.lower() in TABLES else None))
        for file in filter(is_document, files)
        if not (target := output / file.relative_to(source)).exists()
    ]
    return Jobs(jobs, unfinished)


def translate_documents(
    translator: Translator, jobs: Jobs, search: dict[str, Any], takes_all: bool, shows_doubts: bool
) -> None:
    """Writes each document when all of it is translated. Raises RunDirError where nothing can be written."""
    from mt_cli.documents.translate import DocumentTranslator, Finished

    for folder in {job.output.parent for job in jobs.jobs if jobs.unfinished.name == ".unfinished"}:
        make_folders(folder)
    if finished := Finished(jobs.unfinished):
        log.info(f"continuing; {len(finished):,} translations are made already")
    finished.add({})  # an output that cannot be written is told before the work
    of_documents = DocumentTranslator(translator, search, finished)
    for source, output, document in jobs.jobs:
        has_remarks = shows_doubts or source.suffix.lower() in WITH_REMARKS
        translations = of_documents.translate(document, str(source), takes_all, has_remarks)
        for segment, one in zip(document.segments, translations, strict=True):
            if shows_doubts and one is not None and ": " in one.remark:  # not the estimate alone
                log.info(f"doubt: {source}: {segment.place}: {one.remark}")
        write_bytes(output, document.written(translations, translator.config.data.tgt_lang))
        n_made = len(translations) - translations.count(None)
        log.info(f"{output}: {n_made:,} of {len(translations):,} segments translated")
    finished.remove()
