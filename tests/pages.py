"""What the pages of the documentation show in indented blocks, and their commands of `mt` carried out."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any


def shown(text: str) -> list[str]:
    """The lines of the indented blocks, a `$ ` before a command and the comment after it left out."""
    indented = (line.removeprefix("    ") for line in text.splitlines() if line.startswith("    "))
    return [re.sub(r" +# .*", "", line).removeprefix("$ ") for line in indented]


def is_mt(command: str) -> bool:
    return re.match(r"(\w+=\S+ )*mt ", command) is not None or "| mt " in command


def run(command: str, mt: Callable[..., Any]) -> Any:
    """The answer to a command of `mt`. Input comes by `|` or `<`, output may go by `>`; variables are not set."""
    before, _, own = command.rpartition("| ") if "| mt " in command else ("", "", command)
    stdin = subprocess.run(["bash", "-c", before], capture_output=True, check=True).stdout if before else b""
    words, stdout = shlex.split(own), None
    while words[-2] in {"<", ">"}:
        *words, kind, file = words
        if kind == ">":
            stdout = file
        else:
            stdin = Path(file).read_bytes()
    return mt(*words[words.index("mt") + 1 :], stdin=stdin, stdout=stdout)
