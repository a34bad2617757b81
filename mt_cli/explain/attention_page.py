"""The attention of a translation as a page for a browser.

The page is `attention.html` with the values put in as JSON. It holds all it needs, asks no network (its own security
policy forbids it), and shows text as text, whatever the text says.
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
from mt_cli.explain.attention import AttentionMaps, Weights
from mt_cli.files import write_text


def refuse_attention_file(file: Path) -> None:
    """Raises UsageError when `file` cannot be written: to be asked before the work is done."""
    if file.suffix.lower() != ".html":
        raise UsageError(f"{file}: the attention is shown as an .html page; name the file NAME.html")
    if file.exists():
        raise UsageError(f"{file} exists already; delete it or choose another --attention")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent}: no such directory; make it or choose another --attention")


def write_attention_page(file: Path, maps: list[AttentionMaps]) -> None:
    """Raises UsageError for another suffix or an existing file."""
    refuse_attention_file(file)
    write_text(file, _page(maps))


def _page(maps: list[AttentionMaps]) -> str:
    template = resources.files("mt_cli.explain").joinpath("attention.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", template, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    policy = " ".join(f"'sha256-{digest}'" for digest in digests)
    return template.replace("SCRIPT_POLICY", policy).replace("SENTENCES_JSON", _safe_json([_plain(m) for m in maps]))


def _plain(maps: AttentionMaps) -> dict[str, Any]:
    """What the page reads: weights in thousandths, which are shorter and more exact than a colour can show."""
    return {
        "source": maps.source,
        "translation": maps.translation,
        "srcLang": maps.src_lang.replace("_", "-"),
        "tgtLang": maps.tgt_lang.replace("_", "-"),
        "srcPieces": maps.src_pieces,
        "tgtPieces": maps.tgt_pieces,
        "tgtFed": maps.tgt_fed,
        "encoder": _thousandths(maps.encoder),
        "decoder": _thousandths(maps.decoder),
        "cross": _thousandths(maps.cross),
        "alignment": " ".join(f"{src}-{tgt}" for src, tgt in maps.alignment),
    }


def _thousandths(weights: Weights) -> list[list[list[list[int]]]]:
    return [[[[round(1000 * w) for w in row] for row in head] for head in layer] for layer in weights]


def _safe_json(value: Any) -> str:
    """JSON that no HTML parser can take for the end of its script, and no JavaScript for the end of a line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)
