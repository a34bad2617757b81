"""Corrections that people make on the page: kept in the folder of the run, as a table that it can be trained on."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time

from mt_cli.errors import RunDirError
from mt_cli.files import refuse_outside, refuse_special_file
from mt_cli.serve.guard import Refused
from mt_cli.serve.translators import Served

_MAX_FILE_BYTES = 64_000_000
_BREAKS = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029]+")  # tabs, ends of lines and other controls
_lock = threading.Lock()


async def keep_correction(served: Served, source: str, target: str) -> None:
    """On the disk when this returns. Raises Refused for a correction without text, and where it cannot be written."""
    source, target = (_BREAKS.sub(" ", text).strip() for text in (source, target))
    if not source or not target:
        raise Refused(400, "a correction needs a source and a translation")
    try:
        await asyncio.to_thread(_append, served, source, target)
    except (OSError, RunDirError) as error:
        reason = error.strerror if isinstance(error, OSError) else "corrections.tsv is no regular file of the run"
        raise Refused(500, f"the correction was not kept: {reason}") from None


def _append(served: Served, source: str, target: str) -> None:
    """Writes a row in the order of the language pair; what a crash has left unfinished before it becomes a row of its own."""
    pair, file = served.direction.pair, served.corrections_file()
    row = [target, source] if served.direction.is_reverse else [source, target]
    with _lock:
        refuse_outside(served.run.path, file)
        refuse_special_file(file)
        with file.open("a+b") as handle:
            size = handle.seek(0, os.SEEK_END)
            if size > _MAX_FILE_BYTES:
                raise Refused(507, "the correction was not kept: there are too many")
            text = "" if size else f"{pair.src_lang}\t{pair.tgt_lang}\ttime\n"
            handle.seek(max(0, size - 1))
            text += "\n" if size and handle.read(1) != b"\n" else ""
            text += "\t".join([*row, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())]) + "\n"
            handle.write(text.encode())
            handle.flush()
            os.fsync(handle.fileno())
