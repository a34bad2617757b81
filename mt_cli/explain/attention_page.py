"""The attention of translations as a page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mt_cli.errors import UsageError
from mt_cli.explain.page import refuse_page, safe_json, write_page

if TYPE_CHECKING:
    from mt_cli.explain.attention import AttentionMaps, Weights

MAX_SENTENCES = 200
_MAX_CHARACTERS = 64_000_000  # a page of long sentences reaches this first


class _Sentence(NamedTuple):
    """What the template shows; the script draws the weights."""

    source: str
    translation: str
    src_lang: str
    tgt_lang: str
    alignment: str


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
        self._sentences, self._weights, self._n_characters = list[_Sentence](), list[str](), 0

    @property
    def is_full(self) -> bool:
        """Whether the page is as large as browsers can open."""
        return len(self._sentences) >= MAX_SENTENCES or self._n_characters >= _MAX_CHARACTERS

    def add(self, maps: AttentionMaps) -> None:
        src_lang, tgt_lang = (tag.replace("_", "-") for tag in (maps.src_lang, maps.tgt_lang))
        alignment = " ".join(f"{src}-{tgt}" for src, tgt in maps.alignment)
        self._sentences.append(_Sentence(maps.source, maps.translation, src_lang, tgt_lang, alignment))
        weights = safe_json(
            {
                "src_lang": src_lang,
                "tgt_lang": tgt_lang,
                "src_pieces": maps.src_pieces,
                "tgt_pieces": maps.tgt_pieces,
                "tgt_inputs": maps.tgt_inputs,
                "encoder": _thousandths(maps.encoder),
                "decoder": _thousandths(maps.decoder),
                "cross": _thousandths(maps.cross),
            }
        )
        self._weights.append(weights)
        self._n_characters += len(weights)

    def write(self) -> None:
        """Raises RunDirError when the disk is full or the folder cannot be written."""
        data = f"[{','.join(self._weights)}]"
        write_page(self.file, "attention", data, sentences=self._sentences)


def _thousandths(weights: Weights) -> list[list[list[list[int]]]]:
    """Short, and more exact than a colour can show."""
    return [[[[round(1000 * w) for w in row] for row in head] for head in layer] for layer in weights]
