"""Which formats of documents there are, by the suffix of a file's name, and opens a file in its format."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from mt_cli.documents.document import Document
from mt_cli.errors import DataError, UsageError

# Each module has `read(content, name)`, and those of tables `read(content, name, column)`: a Document of the bytes of a file,
# which messages call `name`. They raise DataError with file and line, and are imported only when they are needed.
FORMATS = {
    ".po": "po", ".pot": "po", ".srt": "subtitles", ".vtt": "subtitles", ".html": "html", ".htm": "html",
    ".md": "markdown", ".json": "strings", ".properties": "strings", ".csv": "table", ".tsv": "table",
    ".xliff": "xliff", ".xlf": "xliff", ".docx": "office", ".odt": "office", ".xml": "android", ".xlsx": "workbook",
}  # fmt: skip
TABLES = (".csv", ".tsv", ".xlsx")
WITH_REMARKS = (".po", ".pot", ".xlf", ".xliff", ".xml")  # which have a place for a comment on a translation


def is_document(path: Path) -> bool:
    return path.suffix.lower() in FORMATS


def open_document(path: Path, column: str | None = None) -> Document:
    """`column`, of a table: a column's name, or its number where the first row is text, too; SOURCE,TARGET for two.

    Raises DataError for a file that is not what its name says, and UsageError where `column` is missing or of no use.
    """
    suffix = path.suffix.lower()
    if suffix not in TABLES and column is not None:
        raise UsageError(f"{path}: no table, so --column has no effect; leave it out")
    if suffix in TABLES and column is None:
        raise UsageError(f"{path}: a table; say by --column which column is to be translated")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; give a file that can be read") from None
    module = import_module(f"mt_cli.documents.{FORMATS[suffix]}")
    document: Document = module.read(content, str(path), *([column] if suffix in TABLES else []))
    return document
