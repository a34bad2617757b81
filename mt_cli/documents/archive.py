"""Documents that are archives of parts: opened with care, and written with the parts that do not change as they are."""

from __future__ import annotations

import copy
import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import islice

from mt_cli.documents.document import Segment, TextDocument, Written
from mt_cli.errors import DataError

_MAX_UNPACKED, _MAX_PARTS = 1 << 30, 10_000  # bytes of all parts
_MAX_RATIO, _SMALL = 300, 1 << 24  # of a part's bytes to its packed ones, where it has more than the second


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
        changed: Mapping[str, bytes] = {
            name: part.written(list(islice(rest, len(part.slots))), tgt_lang) for name, part in self.parts.items()
        }
        with zipfile.ZipFile(content, "w") as made:
            for part in self._archive.infolist():
                made.writestr(copy.copy(part), changed.get(part.filename) or self.read(part.filename))
                made.getinfo(part.filename).external_attr = part.external_attr  # where it is 0, writing gave it another
        return content.getvalue()
