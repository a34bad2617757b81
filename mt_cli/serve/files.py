"""Files that are sent to be translated. None is kept on the disk: what is to be fetched later stays in memory for a while."""

from __future__ import annotations

import asyncio
import re
import secrets
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from starlette.requests import Request

from mt_cli.documents.document import Document, Segment, Written
from mt_cli.documents.formats import FORMATS, TABLES, open_document
from mt_cli.documents.translate import checked
from mt_cli.errors import DataError, UsageError
from mt_cli.serve.batcher import Task
from mt_cli.serve.guard import Refused
from mt_cli.serve.service import Parameters, Service, Upload
from mt_cli.serve.translators import Pair

SUFFIXES = sorted({*FORMATS, ".txt"} - {*TABLES})  # and tables, where a column is named
_CHUNK = 128  # segments that wait at a time, so that a large file leaves room for others
_MAX_KEPT_BYTES = 100_000_000


class KeptFiles:
    """Files under names that cannot be guessed; the oldest make room for new ones."""

    def __init__(self) -> None:
        self._files = OrderedDict[str, bytes]()

    def add(self, content: bytes) -> str:
        token = secrets.token_urlsafe(24)
        self._files[token] = content
        while len(self._files) > 1 and sum(map(len, self._files.values())) > _MAX_KEPT_BYTES:
            self._files.popitem(last=False)
        return token

    def get(self, token: str) -> bytes:
        if token not in self._files:
            raise Refused(404, "no such file; it was kept for a while only")
        return self._files[token]


async def translated_file(service: Service, request: Request, pair: Pair, parameters: Parameters) -> tuple[str, bytes]:
    """The name and the content of the translation of the parameter `file`. Raises Refused for one that cannot be read."""
    file, column = parameters.get("file"), parameters.get("column")
    if not isinstance(file, Upload) or not file.name:
        raise Refused(400, "Invalid request: missing file parameter")
    name = re.sub(r"[^\w .()-]", "_", file.name)[-100:]
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES and suffix not in TABLES:
        raise Refused(400, f"Invalid file format; known are {', '.join(SUFFIXES)}")
    column = column if isinstance(column, str) and column else None
    document = await asyncio.to_thread(_opened, file.content, suffix, column)
    made: list[Written | None] = [None] * len(document.segments)
    wanted = [i for i, one in enumerate(document.segments) if one.is_asked]
    for markup in {document.segments[i].markup for i in wanted}:
        own = [i for i in wanted if document.segments[i].markup == markup]
        for chunk in (own[start : start + _CHUNK] for start in range(0, len(own), _CHUNK)):
            found = await service.translate(request, Task(pair, markup), [document.segments[i].text for i in chunk])
            for i, texts in zip(chunk, found, strict=True):
                made[i] = checked(document.segments[i], Written(texts[0]), name)
    language = service.translators.served[pair].direction.data.tgt_lang
    return f"{Path(name).stem}_{pair[1]}{suffix}", await asyncio.to_thread(document.written, made, language)


def _opened(content: bytes, suffix: str, column: str | None) -> Document:
    try:
        if suffix == ".txt":
            return _Lines(content)
        with tempfile.TemporaryDirectory(prefix="mt-") as folder:
            path = Path(folder) / f"file{suffix}"
            path.write_bytes(content)
            return open_document(path, column)
    except UnicodeDecodeError:
        raise Refused(400, "the file is not UTF-8; save it in that encoding") from None
    except (DataError, UsageError) as error:
        raise Refused(400, str(error).replace(str(Path(folder) / "file"), "file")) from None


class _Lines:
    """Plain text, whose lines are translated one by one."""

    src_lang = tgt_lang = ""
    segments: Sequence[Segment]

    def __init__(self, content: bytes):
        lines = content.decode("utf-8-sig").split("\n")
        self.segments = [Segment(line, f"line {n}", is_asked=bool(line.strip())) for n, line in enumerate(lines, 1)]

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        texts = [
            segment.text if one is None else one.text for segment, one in zip(self.segments, translations, strict=True)
        ]
        return "\n".join(texts).encode()
