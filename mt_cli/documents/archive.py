"""Documents that are archives of parts: opened with care, and written with the parts that do not change as they are."""

from __future__ import annotations

import copy
import io
import zipfile
import zlib
from collections.abc import Mapping

from mt_cli.errors import DataError

_MAX_UNPACKED, _MAX_PARTS = 1 << 30, 10_000  # bytes of all parts
_MAX_RATIO, _SMALL = 300, 1 << 24  # of a part's bytes to its packed ones, where it has more than the second


def open_archive(content: bytes, name: str) -> zipfile.ZipFile:
    """Raises DataError for what is no archive, unpacks to more than it may, is encrypted or has paths that leave it."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise DataError(f"{name}: damaged archive ({error}); save it anew, without a password") from None
    parts = archive.infolist()
    if len(parts) > _MAX_PARTS or sum(part.file_size for part in parts) > _MAX_UNPACKED:
        raise DataError(
            f"{name}: {len(parts):,} parts unpack to too much, expected 1,024 MiB at most; split the document"
        )
    for part in parts:
        if part.file_size > max(_SMALL, _MAX_RATIO * part.compress_size):
            found = f"{part.filename} unpacks to {part.file_size >> 20:,} MiB, {_MAX_RATIO} times its size or more"
            raise DataError(f"{name}: {found}; save the document anew")
        if part.flag_bits & 1:
            raise DataError(f"{name}: encrypted; save it without a password")
        if part.filename.startswith(("/", "\\")) or ".." in part.filename.replace("\\", "/").split("/"):
            raise DataError(f"{name}: the part {part.filename} leaves the archive; save the document anew")
    return archive


def read_part(archive: zipfile.ZipFile, part: str, name: str) -> bytes:
    """Raises DataError for a part that is missing or damaged."""
    try:
        return archive.read(part)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
        raise DataError(f"{name}: {part} cannot be read ({error}); save the document anew") from None


def with_parts(archive: zipfile.ZipFile, name: str, changed: Mapping[str, bytes]) -> bytes:
    """The archive with other contents of these parts."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        for part in archive.infolist():
            content = changed.get(part.filename)
            made.writestr(copy.copy(part), read_part(archive, part.filename, name) if content is None else content)
            made.getinfo(part.filename).external_attr = part.external_attr  # where it is 0, writing gave it another
    return written.getvalue()
