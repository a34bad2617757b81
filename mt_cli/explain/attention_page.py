"""The attention of translations as a page for a browser.

The page is `attention.html` with the weights put in as JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mt_cli.errors import UsageError
from mt_cli.explain.page import refuse_page, safe_json, write_page

if TYPE_CHECKING:
    from mt_cli.explain.attention import AttentionMaps, Weights

MAX_SENTENCES = 200
_MAX_CHARACTERS = 64_000_000  # a page of long sentences reaches this first


class AttentionPage:
    """A page that takes the attention of one sentence after the other, until it `is_full`.

    Only the text of the page is kept, which is a tenth of the size of the weights.
    """

    def __init__(self, file: Path):
        """Raises UsageError when `file` has another suffix than .html, exists, or lies in no directory."""
        refuse_page(file, "the attention is shown as", "--attention")
        if file.exists():
            raise UsageError(f"{file} exists already; delete it or choose another --attention")
        self.file = file
        self._sentences: list[str] = []
        self._n_characters = 0

    @property
    def is_full(self) -> bool:
        """Whether the page is as large as browsers can open."""
        return len(self._sentences) >= MAX_SENTENCES or self._n_characters >= _MAX_CHARACTERS

    def add(self, maps: AttentionMaps) -> None:
        self._sentences.append(safe_json(_page_values(maps)))
        self._n_characters += len(self._sentences[-1])

    def write(self) -> None:
        """Raises RunDirError when the disk is full or the folder cannot be written."""
        write_page(self.file, "attention.html", f"[{','.join(self._sentences)}]")


def _page_values(maps: AttentionMaps) -> dict[str, Any]:
    """What the page reads. Weights are in thousandths: short, and more exact than a colour can show."""
    return {
        "source": maps.source,
        "translation": maps.translation,
        "srcLang": maps.src_lang.replace("_", "-"),
        "tgtLang": maps.tgt_lang.replace("_", "-"),
        "srcPieces": maps.src_pieces,
        "tgtPieces": maps.tgt_pieces,
        "tgtFed": maps.tgt_inputs,
        "encoder": _thousandths(maps.encoder),
        "decoder": _thousandths(maps.decoder),
        "cross": _thousandths(maps.cross),
        "alignment": " ".join(f"{src}-{tgt}" for src, tgt in maps.alignment),
    }


def _thousandths(weights: Weights) -> list[list[list[list[int]]]]:
    return [[[[round(1000 * w) for w in row] for row in head] for head in layer] for layer in weights]
