"""A file as text with segments: what is translated is written into these, every other byte stays. A format says where
the segments are, and which codes within them are copied."""

import codecs
import copy
import html
import io
import logging
import re
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mt_cli.data.spans import Markup, escaped
from mt_cli.display import shortened
from mt_cli.errors import DataError, UsageError

log = logging.getLogger(__name__)

# By the suffix of a name, what makes a Document of the content, the name and, of tables, the column; imported when it is needed.
FORMATS = {
    ".po": "strings.PoDocument", ".pot": "strings.PoDocument", ".srt": "subtitles.read", ".vtt": "subtitles.read", ".html": "html.HtmlDocument",
    ".htm": "html.HtmlDocument", ".md": "html.MarkdownDocument", ".json": "strings.read", ".properties": "strings.read",
    ".csv": "table.CsvTable", ".tsv": "table.CsvTable", ".xlsx": "table.read_workbook", ".xliff": "xml.Xliff", ".xlf": "xml.Xliff",
    ".docx": "office.read", ".odt": "office.read", ".xml": "strings.AndroidStrings", ".txt": "document.read_lines",
}  # fmt: skip
TABLES = (".csv", ".tsv", ".xlsx")
WITH_REMARKS = (".po", ".pot", ".xlf", ".xliff", ".xml")  # which have a place for a comment on a translation

TAG = re.compile(r"(</?g\d+>|<x\d+/>)")
_MARKUP = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^<>]*>", re.DOTALL | re.IGNORECASE)
_MAX_UNPACKED, _MAX_PARTS = 1 << 30, 10_000  # bytes of all parts
_MAX_RATIO, _SMALL = 300, 1 << 24  # of a part's bytes to its packed ones, where it has more than the second
_SAVE_AS_UTF_8 = "save the file as UTF-8, and let it declare so"
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF8, "utf-8"))


class Written(NamedTuple):
    """What is put into the place of a segment."""

    text: str
    remark: str = ""  # doubts and the estimate, for formats that have a place for a comment


class Edit(NamedTuple):
    start: int
    end: int
    text: str


class Code(NamedTuple):
    """A stretch within a segment that is copied. In the text a tag stands for it: `<x2/>`; or `<g1>` and `</g1>`, where one
    of kind + opens what the next - of the same name closes."""

    start: int
    end: int
    kind: str = ""
    name: str = ""


@dataclass(frozen=True, eq=False)
class Segment:
    """A text that is translated as a whole, and where its translation is written. Others may lie within its codes."""

    start: int
    end: int
    text: str
    place: str  # in messages: "line 12", "unit greeting", "cell B7"
    markup: Markup | None = None  # what `text` is written in where it has tags
    target: str = ""  # the translation that the file has already
    is_asked: bool = True  # whether the file wants a translation of it; False where it forbids or has one
    directives: re.Pattern[str] | None = None  # what a program fills in, which a translation must have as the text has
    write: Callable[[str], str] = str  # of what is between the tags of a translation
    wrap: Callable[[str], str] = str  # of all of it
    codes: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # which stretch each tag stands for
    owner: Any = None  # what its format knows of it: an element, an entry

    def filled(self, text: str, code_of: Callable[[str], str]) -> str:
        pieces = TAG.split(text) if self.codes else [text]
        return self.wrap("".join(code_of(piece) if n % 2 else self.write(piece) for n, piece in enumerate(pieces)))


Changes = Sequence[tuple[Segment, Written]]


class TextDocument:
    """A document that is one text; its formats add segments to it."""

    src_lang = tgt_lang = ""  # codes as the file writes them, '' where it names none
    is_bilingual = False  # whether its segments are where targets are written

    def __init__(self, content: bytes, name: str, encoding: str = "utf-8"):
        """Raises DataError for bytes that are not in the encoding; a byte order mark counts more than what is declared."""
        marked = ((mark, own) for mark, own in _MARKS if content.startswith(mark))
        self._mark, self.encoding = next(marked, (b"", encoding))
        self.name, content = name, content.removeprefix(self._mark)
        try:
            self.text = content.decode(self.encoding)
            if self.text.encode(self.encoding) != content:
                raise DataError(f"{name}: {encoding} text in a form that is not kept; save the file as UTF-8")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            found = f"{name}:{line}: byte 0x{content[error.start]:02x}, which {self.encoding} text cannot have here"
            raise DataError(f"{found}; {_SAVE_AS_UTF_8}") from None
        except LookupError:
            raise DataError(f"{name}: the encoding {encoding!r} is not known; save the file as UTF-8") from None
        self.newline = "\r\n" if "\r\n" in self.text else "\n"
        self.segments = list[Segment]()

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        """The file with these translations of its segments, which have all of their tags; None leaves one as it is."""
        changes = [
            (segment, one)
            for segment, one in zip(self.segments, translations, strict=True)
            if one is not None and one.text != (segment.target if self.is_bilingual else segment.text)
        ]
        edits = [*self.filled(changes), *self.marks(changes, tgt_lang)] if changes else []
        text = edited(self.text, sorted(edits, key=lambda edit: edit[:2]))  # an insertion before a replacement there
        try:
            return self._mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            line, char = text.count("\n", 0, error.start) + 1, text[error.start]
            found = f"{self.name}:{line}: the translation has {char!r}, which {self.encoding} cannot write"
            raise DataError(f"{found}; {_SAVE_AS_UTF_8}") from None

    def marks(self, changes: Changes, tgt_lang: str) -> Iterable[Edit]:
        """What else changes in the file: flags, comments, the name of the language."""
        return ()

    def filled(self, changes: Changes) -> list[Edit]:
        """The translations in their places; one that lies within another one is part of it."""
        edits = list[Edit]()  # the first one is the last of the list
        for segment, one in sorted(changes, key=lambda change: (-change[0].start, change[0].end)):
            inner = list[Edit]()  # what lies within a segment comes before it
            while edits and edits[-1].start < segment.end:
                inner.append(edits.pop())

            def code_of(tag: str, segment: Segment = segment, inner: list[Edit] = inner) -> str:
                start, end = segment.codes.get(tag, (0, 0))
                return edited(self.text, (one for one in inner if start <= one.start and one.end <= end), start, end)

            edits.append(Edit(segment.start, segment.end, segment.filled(one.text, code_of)))
        return edits

    def coded(
        self, start: int, end: int, codes: Sequence[Code], read: Callable[[str], str] = str
    ) -> tuple[str, dict[str, tuple[int, int]]]:
        """A stretch as XML with tags for its codes, and what each tag stands for. `read` makes XML of what is between."""
        joined, pairs, open_ones = list[Code](), dict[int, int](), list[int]()
        for code in codes:  # neighbours that belong to no pair are one
            if joined and not (joined[-1].kind or code.kind) and joined[-1].end == code.start:
                code = code._replace(start=joined.pop().start)
            joined.append(code)
        for number, code in enumerate(joined):
            if code.kind == "+":
                open_ones.append(number)
            elif code.kind == "-" and any(joined[one].name == code.name for one in open_ones):
                while joined[first := open_ones.pop()].name != code.name:
                    pass
                pairs[first] = pairs[number] = first
        pieces, tags = list[str](), dict[str, tuple[int, int]]()
        for number, code in enumerate(joined):
            tag = f"<{'/' * (code.kind == '-')}g{pairs[number]}>" if number in pairs else f"<x{number}/>"
            pieces += [read(self.text[start : code.start]), tag]
            tags[tag] = code.start, code.end
            start = code.end
        return "".join([*pieces, read(self.text[start:end])]), tags

    def add(
        self, start: int, end: int, codes: Sequence[Code] = (), read: Callable[[str], str] = escaped,
        write: Callable[[str], str] = html.unescape, **of_segment: Any,
    ) -> None:  # fmt: skip
        """Adds a stretch as a segment, if it has words, without codes at its edges that have none and belong to no pair."""
        text, inner = self.text, list(codes)

        def is_outside(code: Code, paired: str) -> bool:
            return code.kind != paired and not has_words(text[code.start : code.end])

        while inner and is_outside(inner[0], "+") and not text[start : inner[0].start].strip():
            start = inner.pop(0).end
        while inner and is_outside(inner[-1], "-") and not text[inner[-1].end : end].strip():
            end = inner.pop().start
        piece = text[start:end]
        start, end = start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
        coded_text, tags = self.coded(start, end, inner, read)
        if has_words(coded_text):
            own = {"place": f"line {self.line(start)}", "markup": "xml", "codes": tags, "write": write, **of_segment}
            self.segments.append(Segment(start, end, coded_text, **own))

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(end.end() for end in re.finditer("\n", self.text))]

    def line(self, at: int) -> int:
        return bisect_right(self._line_starts, at)

    def error(self, at: int, problem: str) -> DataError:
        return DataError(f"{self.name}:{self.line(at)}: {problem}")


class Archive:
    """A document whose segments are in its `parts`, each a document of its own."""

    src_lang = tgt_lang = ""

    def __init__(self, content: bytes, name: str):
        """Raises DataError for what is no archive, unpacks to more than it may, is encrypted or has paths that leave it."""
        self.name, self.parts = name, dict[str, TextDocument]()
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise DataError(f"{name}: damaged archive ({error}); save it anew, without a password") from None
        parts = self._archive.infolist()
        if len(parts) > _MAX_PARTS or sum(part.file_size for part in parts) > _MAX_UNPACKED:
            found = f"{len(parts):,} parts unpack to too much, expected 1,024 MiB at most"
            raise DataError(f"{name}: {found}; split the document")
        for part in parts:
            if part.file_size > max(_SMALL, _MAX_RATIO * part.compress_size):
                found = f"{part.filename} unpacks to {part.file_size >> 20:,} MiB, {_MAX_RATIO} times its size or more"
                raise DataError(f"{name}: {found}; save the document anew")
            if part.flag_bits & 1:
                raise DataError(f"{name}: encrypted; save it without a password")
            if part.filename.startswith(("/", "\\")) or ".." in part.filename.replace("\\", "/").split("/"):
                raise DataError(f"{name}: the part {part.filename} leaves the archive; save the document anew")

    @property
    def segments(self) -> Sequence[Segment]:
        return [segment for part in self.parts.values() for segment in part.segments]

    def names(self) -> list[str]:
        return self._archive.namelist()

    def read(self, part: str) -> bytes:
        """Raises DataError for a part that is missing or damaged."""
        try:
            return self._archive.read(part)
        except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise DataError(f"{self.name}: {part} cannot be read ({error}); save the document anew") from None

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        content, rest = io.BytesIO(), iter(translations)
        changed = {n: part.written(list(islice(rest, len(part.segments))), tgt_lang) for n, part in self.parts.items()}
        with zipfile.ZipFile(content, "w") as made:
            for part in self._archive.infolist():
                made.writestr(copy.copy(part), changed.get(part.filename) or self.read(part.filename))
                made.getinfo(part.filename).external_attr = part.external_attr  # where it is 0, writing gave it another
        return content.getvalue()


Document = TextDocument | Archive


def edited(text: str, edits: Iterable[Edit], start: int = 0, end: int | None = None) -> str:
    """The text from `start` to `end` with these edits, which come in order; one within an earlier one has no effect."""
    pieces = list[str]()
    for edit in edits:
        if edit.start >= start:
            pieces += [text[start : edit.start], edit.text]
            start = edit.end
    return "".join([*pieces, text[start:end]])


def has_words(coded_text: str) -> bool:
    return any(map(str.isalpha, html.unescape(_MARKUP.sub("", coded_text))))


def remarks_of(changes: Changes) -> dict[Any, str]:
    """What is said of the segments of each owner, each remark once."""
    found = dict[Any, dict[str, None]]()
    for segment, one in changes:
        found.setdefault(segment.owner, {})[" ".join(one.remark.split())] = None
    return {owner: "; ".join(filter(None, own)) for owner, own in found.items()}


def read_lines(content: bytes, name: str) -> TextDocument:
    """Plain text, of which each line is a segment."""
    document = TextDocument(content, name)
    for one in re.finditer(r"[^\r\n]+", document.text):
        if one[0].strip():
            document.segments.append(Segment(*one.span(), one[0], f"line {document.line(one.start())}"))
    return document


def read_document(content: bytes, name: str, column: str | None = None) -> Document:
    """`column`, of a table: a column's name, or its number where the first row is text, too; SOURCE,TARGET for two. Raises
    DataError for content that is not what the name says, and UsageError where `column` is missing or of no use."""
    suffix = Path(name).suffix.lower()
    if suffix not in TABLES and column is not None:
        raise UsageError(f"{name}: no table, so --column has no effect; leave it out")
    if suffix in TABLES and column is None:
        raise UsageError(f"{name}: a table; say by --column which column is to be translated")
    module, _, reader = FORMATS[suffix].partition(".")
    read: Callable[..., Document] = getattr(import_module(f"mt_cli.documents.{module}"), reader)
    return read(content, name, *([] if column is None else [column]))


def is_document(path: Path) -> bool:
    """Whether `mt translate` translates it as a document, and not line by line."""
    return path.suffix.lower() in FORMATS.keys() - {".txt"}


def open_document(path: Path, column: str | None = None) -> Document:
    """As `read_document`. Raises DataError also for a file that cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; give a file that can be read") from None
    return read_document(content, str(path), column)


Opened = tuple[Path, Path, Document]  # the file, that of its translation, and what is in it


def open_documents(source: Path, output: Path | None, column: str | None) -> tuple[list[Opened], Path]:
    """The document, or all of a folder but those that are written already; and the file that is to keep translations.
    Raises DataError for a file that is not what its name says, and UsageError for an output that cannot be meant."""
    if output is None:
        kind = "a folder, and no run directory" if source.is_dir() else "a document"
        raise UsageError(f"{source}: {kind}; say by --output where its translation is put")
    if not source.is_dir():
        if output.exists():
            raise UsageError(f"{output} exists already; choose another --output")
        suffixes = source.suffix.lower(), output.suffix.lower()
        if suffixes[0] != suffixes[1] and suffixes != (".pot", ".po"):
            raise UsageError(f"{output}: the format stays the same; choose an --output that ends in {source.suffix}")
        unfinished = output.with_name(f".{output.name}.unfinished")
        return [(source, output, open_document(source, column))], unfinished
    unfinished = output / ".unfinished"
    if (output.exists() and not unfinished.exists()) or output.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"{output} exists already, or is in {source}; choose another --output")
    files, others = list[Path](), list[str]()
    for file in sorted(file for file in source.rglob("*") if file.is_file()):
        # Of .xml only strings of Android are translated, and not such as the map of a site.
        is_other_xml = file.suffix.lower() == ".xml" and b"<resources" not in file.read_bytes()
        if is_document(file) and not is_other_xml:
            files.append(file)
        else:
            others.append(str(file.relative_to(source)))
    if others:
        log.info(f"left out, of no format that is known: {shortened(', '.join(others), 200)}")
    if not files:
        raise UsageError(f"{source}: no document in it; give a folder with files such as .po, .html or .docx")
    documents = [
        (file, target, open_document(file, column if file.suffix.lower() in TABLES else None))
        for file in files
        if not (target := output / file.relative_to(source)).exists()
    ]
    return documents, unfinished
