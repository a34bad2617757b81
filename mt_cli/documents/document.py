"""A file as the segments that can be translated, and how to write it again with other text in these places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mt_cli.data.spans import Markup


@dataclass(frozen=True)
class Segment:
    """A text of a document that is translated as a whole."""

    text: str
    place: str  # in messages: "line 12", "unit greeting", "cell B7"
    markup: Markup | None = None  # what `text` is written in where it has inline codes: these stand in it as tags
    target: str = ""  # the translation that the file has already
    is_asked: bool = True  # whether the file wants a translation of it; False where it forbids or has one
    context: str = ""  # what tells equal texts apart: msgctxt, a plural form


@dataclass(frozen=True)
class Written:
    """What is put into the place of a segment."""

    text: str
    remark: str = ""  # doubts and the estimate, for formats that have a place for a comment


class Document(Protocol):
    """An open document. Languages are codes as the file writes them, '' where it names none."""

    src_lang: str
    tgt_lang: str
    segments: Sequence[Segment]

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        """The file with these translations in place of its segments; None leaves a segment as it is."""
        ...
