"""What people send to a server: files to be translated, of which none is kept on the disk, and corrections, which are."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from pathlib import Path

from starlette.datastructures import UploadFile

from mt_cli.documents.document import FORMATS, TABLES, Written, read_document
from mt_cli.documents.translate import checked
from mt_cli.errors import DataError, RunDirError, UsageError
from mt_cli.files import refuse_outside, refuse_special_file
from mt_cli.serve.guard import Refused
from mt_cli.serve.service import Asked
from mt_cli.serve.translators import Served, Task

SUFFIXES = sorted(FORMATS.keys() - {*TABLES})  # and tables, where a column is named
_CHUNK = 128  # segments that wait at a time, so that a large file leaves room for others
_MAX_CORRECTIONS_BYTES = 64_000_000
_BREAKS = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029]+")  # tabs, ends of lines and other controls
_corrections_lock = threading.Lock()


async def translated_file(asked: Asked) -> tuple[str, bytes]:
    """The name and the content of the translation of the parameter `file`. Raises Refused for one that cannot be read."""
    pair, file, column = asked.pair(), asked.parameters.get("file"), asked.parameters.get("column")
    if not isinstance(file, UploadFile) or not file.filename:
        raise Refused(400, "Invalid request: missing file parameter")
    name = re.sub(r"[^\w .()-]", "_", file.filename)[-100:]
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        raise Refused(400, f"Invalid file format; known are {', '.join([*SUFFIXES, *TABLES])}")
    column = column if isinstance(column, str) and column else None
    try:
        document = await asyncio.to_thread(read_document, await file.read(), f"file{suffix}", column)
    except (DataError, UsageError) as error:
        raise Refused(400, str(error)) from None
    made: list[Written | None] = [None] * len(document.segments)
    wanted = [i for i, one in enumerate(document.segments) if one.is_asked]
    for markup in {document.segments[i].markup for i in wanted}:
        own = [i for i in wanted if document.segments[i].markup == markup]
        for chunk in (own[start : start + _CHUNK] for start in range(0, len(own), _CHUNK)):
            found = await asked.translate(Task(pair, markup), [document.segments[i].text for i in chunk])
            for i, texts in zip(chunk, found, strict=True):
                made[i] = checked(document.segments[i], Written(texts[0]), name)
    language = asked.service.translators.served[pair].direction.data.tgt_lang
    return f"{Path(name).stem}_{pair[1]}{suffix}", await asyncio.to_thread(document.written, made, language)


async def keep_correction(asked: Asked, name: str = "text") -> dict[str, bool]:
    """Of the text `q` to that of the parameter `name`: on the disk when this returns, as a row of a table that the run can be
    trained on. Raises Refused for a correction without text, and where it cannot be written."""
    served = asked.service.translators.served[asked.pair()]
    source, target = (_BREAKS.sub(" ", asked.text(one)).strip() for one in ("q", name))
    if not source or not target:
        raise Refused(400, "a correction needs a source and a translation")
    try:
        await asyncio.to_thread(_append, served, source, target)
    except (OSError, RunDirError) as error:
        reason = error.strerror if isinstance(error, OSError) else "corrections.tsv is no regular file of the run"
        raise Refused(500, f"the correction was not kept: {reason}") from None
    return {"success": True}


def _append(served: Served, source: str, target: str) -> None:
    """Writes a row in the order of the language pair; what a crash has left unfinished before it becomes a row of its own."""
    pair, file = served.direction.pair, served.corrections_file()
    row = [target, source] if served.direction.is_reverse else [source, target]
    with _corrections_lock:
        refuse_outside(served.run.path, file)
        refuse_special_file(file)
        with file.open("a+b") as handle:
            size = handle.seek(0, os.SEEK_END)
            if size > _MAX_CORRECTIONS_BYTES:
                raise Refused(507, "the correction was not kept: there are too many")
            text = "" if size else f"{pair.src_lang}\t{pair.tgt_lang}\ttime\n"
            handle.seek(max(0, size - 1))
            text += "\n" if size and handle.read(1) != b"\n" else ""
            text += "\t".join([*row, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())]) + "\n"
            handle.write(text.encode())
            handle.flush()
            os.fsync(handle.fileno())
