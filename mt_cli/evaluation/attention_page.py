"""The attention of a translation as a page for a browser, and as a picture.

The page is `attention.html` with the values put in as JSON. It holds all it needs, asks no network (its own security
policy forbids it), and shows text as text, whatever the text says.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import unicodedata
import warnings
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mt_cli.errors import UsageError, missing_extra
from mt_cli.evaluation.attention import AttentionMaps, Weights
from mt_cli.run_dir import write_bytes, write_text


def refuse_attention_file(file: Path) -> None:
    """Raises UsageError when `file` cannot be written: to be asked before the work is done."""
    if file.suffix.lower() not in {".html", ".png"}:
        raise UsageError(f"{file}: the attention is drawn to .html or .png; name the file by one of them")
    if file.exists():
        raise UsageError(f"{file} exists already; delete it or choose another --attention")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent}: no such directory; make it or choose another --attention")
    if file.suffix.lower() == ".png":
        _figure_class()


def write_attention_page(file: Path, maps: list[AttentionMaps], say: Callable[[str], None]) -> None:
    """Writes the page (.html) of any number of sentences, or the picture (.png) of one.

    Raises UsageError for another suffix, an existing file, a picture of several, or one without matplotlib.
    """
    refuse_attention_file(file)
    if file.suffix.lower() == ".html":
        write_text(file, _page(maps))
    elif len(maps) == 1:
        write_bytes(file, _picture(maps[0], say))
    else:
        raise UsageError(
            f"{file}: a .png shows one sentence, found {len(maps)}; use .html, or give one line that is read at once"
        )


def _page(maps: list[AttentionMaps]) -> str:
    template = resources.files("mt_cli.evaluation").joinpath("attention.html").read_text(encoding="utf-8")
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


# The picture ---------------------------------------------------------------------------------------------------------

_FONTS_FOR_THE_REST = (  # what systems bring for the scripts that matplotlib's own font has not
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Zen Hei"),
    *("WenQuanYi Micro Hei", "PingFang SC", "Hiragino Sans GB", "Heiti TC", "Microsoft YaHei", "SimHei", "SimSun"),
    *("Droid Sans Fallback", "AR PL UMing CN", "Arial Unicode MS"),
)
_INCHES_A_PIECE, _INCHES_FOR_LABELS = 0.17, 1.2


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("--attention with a .png", "matplotlib", "plot") from None
    return Figure


def _picture(maps: AttentionMaps, say: Callable[[str], None]) -> bytes:
    figure_class = _figure_class()
    import matplotlib

    image = io.BytesIO()
    with matplotlib.rc_context({"font.family": _fonts(maps, say), "font.size": 8}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)  # told by _fonts
        figure = figure_class(layout="constrained")
        _draw(figure, maps)
        longest = max(figure.get_size_inches())
        figure.savefig(image, format="png", dpi=min(150, 30_000 / longest))  # Agg draws at most 65,536 pixels
    return image.getvalue()


def _draw(figure: Any, maps: AttentionMaps) -> None:
    sections = (
        ("Encoder self-attention", maps.encoder, maps.src_pieces, maps.src_pieces),
        ("Decoder self-attention", maps.decoder, maps.tgt_pieces, maps.tgt_fed),
        ("Cross-attention", maps.cross, maps.tgt_pieces, maps.src_pieces),
    )
    heights = [len(w) * (len(rows) * _INCHES_A_PIECE + _INCHES_FOR_LABELS) + 0.4 for _, w, rows, _ in sections]
    widths = [(1 + len(w[0])) * (len(columns) * _INCHES_A_PIECE + _INCHES_FOR_LABELS) for _, w, _, columns in sections]
    figure.set_size_inches(max(widths), sum(heights) + 0.6)
    figure.suptitle(_plain_text(f"{maps.source}  →  {maps.translation}"), fontsize=12, wrap=True)
    for part, (title, weights, rows, columns) in zip(
        figure.subfigures(len(sections), 1, height_ratios=heights), sections, strict=True
    ):
        part.suptitle(f"{title}: each row asks, the columns answer", fontsize=11, fontweight="bold")
        axes = part.subplots(len(weights), 1 + len(weights[0]), squeeze=False)
        for layer, heads in enumerate(torch.tensor(weights), 1):
            for head, (axis, map_) in enumerate(zip(axes[layer - 1], [heads.mean(0), *heads], strict=True)):
                _draw_map(axis, map_, rows, columns)
                axis.set_title(f"layer {layer}, {f'head {head}' if head else 'mean'}", fontsize=8)


def _draw_map(axis: Any, weights: Tensor, rows: list[str], columns: list[str]) -> None:
    axis.imshow(weights.numpy(), vmin=0, vmax=1, cmap="Blues")
    axis.set_xticks(
        range(len(columns)),
        ["\n".join(map(_plain_text, piece)) if _is_chinese(piece) else _plain_text(piece) for piece in columns],
    )
    for label, piece in zip(axis.get_xticklabels(), columns, strict=True):
        label.set_rotation(0 if _is_chinese(piece) else 90)
    axis.set_yticks(range(len(rows)), [*map(_plain_text, rows)])
    axis.tick_params(length=0)


def _is_chinese(piece: str) -> bool:
    """Whether it is read from top to bottom as it is; other scripts are turned on their side."""
    return any(unicodedata.east_asian_width(char) in "WF" for char in piece)


def _plain_text(text: str) -> str:
    """For matplotlib, which reads what stands between two dollar signs as a formula."""
    return text.replace("$", r"\$")


def _fonts(maps: AttentionMaps, say: Callable[[str], None]) -> list[str]:
    """matplotlib's own font, and an installed one for the characters that it has not."""
    from matplotlib.font_manager import FontProperties, fontManager, get_font

    text = {char for string in (maps.source, maps.translation, "▁") for char in string}
    own = ["DejaVu Sans"]
    missing = {c for c in text if not get_font(fontManager.findfont(FontProperties(family=own))).get_char_index(ord(c))}
    if not missing:
        return own
    installed = {font.name: font.fname for font in fontManager.ttflist}
    for name in (*_FONTS_FOR_THE_REST, *sorted(name for name in installed if not name.startswith("."))):
        if name in installed and any(get_font(installed[name]).get_char_index(ord(c)) for c in missing):
            return [*own, name]
    say("note: no installed font has all characters of this sentence; install one of its script, or use .html")
    return own
