"""Pages for a browser: a template with its style sheets, scripts and data in one file, which loads nothing from the
network, by its own security policy, and never takes text for code: Jinja escapes all of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mt_cli.errors import UsageError
from mt_cli.files import write_text

if TYPE_CHECKING:
    from mt_cli.explain.attention import AttentionMaps

_PACKAGE = Path(__file__).parents[1]
_MAX_CHARACTERS = 64_000_000  # browsers cannot open larger pages


def refuse_page(file: Path, option: str, replaced: bytes = b"") -> None:
    """Raises UsageError unless `file` is a new .html in a folder, or begins as a page that may be `replaced`."""
    if file.suffix.lower() != ".html":
        raise UsageError(f"{file}: expected the name of a page; name the file NAME.html")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent}: no such directory; make it or choose another {option}")
    if file.exists() and not (replaced and file.is_file() and replaced in file.read_bytes()[:2000]):
        raise UsageError(f"{file} exists already; delete it or choose another {option}")


def write_page(file: Path, name: str, data: str, **values: Any) -> None:
    """Fills explain/`name`.html with `values`, and with `data` (of `safe_json`) for its script. Raises RunDirError."""
    script, style = (
        "".join((_PACKAGE / f"explain/{stem}.{kind}").read_text("utf-8") for stem in ("page", name))
        for kind in ("js", "css")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    values |= {"data": data, "script": script, "script_sha256": digest, "style": style}
    write_text(file, render_page(f"explain/{name}.html", **values))


def render_page(template: str, **values: Any) -> str:
    """The page that a template of the package makes of `values`. Its `text_of(path)` is a script or a style sheet."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # here, as `mt explain` is to start quickly

    pages = Environment(loader=FileSystemLoader(_PACKAGE), autoescape=True, undefined=StrictUndefined)
    pages.trim_blocks = pages.lstrip_blocks = True
    pages.filters |= {"whole": "{:,}".format, "plain": lambda text: str(text).replace("_", " ")}
    pages.globals["text_of"] = lambda path: (_PACKAGE / path).read_text("utf-8")
    return pages.get_template(template).render(values)


def safe_json(value: Any) -> str:
    """JSON that no HTML parser can take for the end of its script, and no JavaScript for the end of a line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


class AttentionPage:
    """A page that takes the attention of one sentence after the other, as text, until it `is_full`."""

    def __init__(self, file: Path):
        refuse_page(file, "--attention")
        self.file, self._maps, self._weights, self._n_characters = file, list["AttentionMaps"](), list[str](), 0

    @property
    def is_full(self) -> bool:
        return self._n_characters >= _MAX_CHARACTERS

    def add(self, maps: AttentionMaps) -> None:
        shown = {name: getattr(maps, name) for name in ("src_pieces", "tgt_pieces", "tgt_inputs")}
        for name in ("encoder", "decoder", "cross"):  # in thousandths, which are more exact than a colour can show
            shown[name] = (1000 * getattr(maps, name)).round().int().tolist()
        self._maps.append(maps)
        self._weights.append(safe_json(shown))
        self._n_characters += len(self._weights[-1])

    def write(self) -> None:
        """Raises RunDirError."""
        write_page(self.file, "attention", f"[{','.join(self._weights)}]", sentences=self._maps)
