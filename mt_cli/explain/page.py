"""Writes a page for a browser that contains all it needs.

A page is a template with the style sheet that all pages share (`page.css`) and a value as JSON. It loads nothing from the
network (its own security policy forbids it), and never takes text for code.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from mt_cli.errors import UsageError
from mt_cli.files import write_text


def refuse_page(file: Path, what: str, option: str) -> None:
    """Raises UsageError when `file`, given by `option`, has another suffix than .html or lies in no directory."""
    if file.suffix.lower() != ".html":
        raise UsageError(f"{file}: {what} an .html page; name the file NAME.html")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent}: no such directory; make it or choose another {option}")


def write_page(file: Path, template: str, data: str) -> None:
    """Fills `template`, a file beside this one, with `data`, which `safe_json` made.

    Raises RunDirError when the disk is full or the folder cannot be written.
    """
    folder = resources.files("mt_cli.explain")
    page, style = (folder.joinpath(name).read_text(encoding="utf-8") for name in (template, "page.css"))
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    policy = " ".join(f"'sha256-{digest}'" for digest in digests)
    # The data come last: they may contain the words that are replaced here.
    write_text(file, page.replace("SCRIPT_POLICY", policy).replace("PAGE_STYLE", style).replace("PAGE_DATA", data))


def safe_json(value: Any) -> str:
    """JSON that no HTML parser can take for the end of its script, and no JavaScript for the end of a line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)
