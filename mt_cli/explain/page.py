"""Pages for a browser: a template of this folder with its style sheets, its script and its data in one file.

A page loads nothing from the network, by its own security policy, and never takes text for code: Jinja escapes all of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mt_cli.errors import UsageError
from mt_cli.files import write_text

_FOLDER = Path(__file__).parent


def refuse_page(file: Path, what: str, option: str) -> None:
    """Raises UsageError when `file`, given by `option`, has another suffix than .html or lies in no directory."""
    if file.suffix.lower() != ".html":
        raise UsageError(f"{file}: {what} an .html page; name the file NAME.html")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent}: no such directory; make it or choose another {option}")


def write_page(file: Path, name: str, data: str, **values: Any) -> None:
    """Fills the template `name`.html with `values`, beside `name`.css and the script, `name`.js, which reads `data`, as
    `safe_json` makes it.

    Raises RunDirError when the disk is full or the folder cannot be written.
    """
    pages = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"whole": "{:,}".format, "plain": lambda text: str(text).replace("_", " ")}
    script, *styles = (
        (_FOLDER / part).read_text(encoding="utf-8") for part in (f"{name}.js", "page.css", f"{name}.css")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = pages.get_template(f"{name}.html").render(
        values, data=data, script=script, script_sha256=digest, style="".join(styles)
    )
    write_text(file, page)


def safe_json(value: Any) -> str:
    """JSON that no HTML parser can take for the end of its script, and no JavaScript for the end of a line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)
