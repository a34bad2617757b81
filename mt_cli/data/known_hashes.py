"""The hashes of large files that were hashed before: a start that goes on need not read gigabytes first."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mt_cli.data.corpus import sha256_of
from mt_cli.errors import RunDirError
from mt_cli.files import write_text

HASHES = "hashes.json"  # its usual name, in the folder `cache` of a run
LARGE = 1 << 26  # bytes; less is hashed in a tenth of a second
_SETTLED_SECONDS = 1  # more than what clocks of file systems take for the same time


def known_sha256(files: Sequence[str], memory: Path) -> str:
    """`sha256_of` the files, which are not read if they are large and nothing about them has changed since they were hashed
    last: name, size, inode, and the times of the last change of content and inode, as the file `memory` has them."""
    about = _about(files)
    if sum(one[0] for one in about) < LARGE:
        return sha256_of(files)
    name = "\n".join(files)
    known = _known(memory)
    entry = known.get(name)
    if isinstance(entry, dict) and entry.get("about") == about and isinstance(entry.get("sha256"), str):
        return str(entry["sha256"])
    sha256 = sha256_of(files)
    # A change at the very time of the last one would not show.
    is_settled = time.time_ns() - max(one[2] for one in about) > _SETTLED_SECONDS * 10**9
    if is_settled and _about(files) == about and memory.parent.is_dir():
        with contextlib.suppress(RunDirError):  # a full disk; it is only slower
            write_text(memory, json.dumps(known | {name: {"about": about, "sha256": sha256}}))
    return sha256


def _about(files: Sequence[str]) -> list[list[int]]:
    """Nothing where a file cannot be seen: hashing it says why."""
    try:
        stats = [Path(file).stat() for file in files]
    except OSError:
        return []
    return [[one.st_size, one.st_ino, one.st_mtime_ns, one.st_ctime_ns] for one in stats]


def _known(memory: Path) -> dict[str, Any]:
    try:
        found = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
