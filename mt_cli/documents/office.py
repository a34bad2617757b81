"""Text documents of office programs, .docx (ISO 29500) and .odt (ISO 26300): a segment is a paragraph."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mt_cli.documents.document import TAG, Archive, Segment, has_words
from mt_cli.documents.xml import Element, XmlDocument
from mt_cli.errors import DataError

_PARTS = re.compile(r"word/(document\d*|header\d*|footer\d*|footnotes|endnotes)\.xml|(content|styles)\.xml")
_TRACKED = ("ins", "del", "moveFrom", "moveTo", "changed-region")
_DROPPED = {"", "proofErr", "lastRenderedPageBreak", "rPr", "pPr"}
_UNSEEN = re.compile(r"<\w+:(?:lang|noProof|webHidden)\b[^>]*>")  # properties of a run
_SINGLE_SPACE = re.compile(r"""<text:s(?: text:c=["']1["'])?\s*/>""")


def read(content: bytes, name: str) -> Archive:
    """Parts without text stay as they are. Raises DataError for what is damaged or hostile, and for tracked changes."""
    archive = Archive(content, name)
    for part in filter(_PARTS.fullmatch, archive.names()):
        document = (DocxPart if part.startswith("word/") else OdtPart)(archive.read(part), f"{name} {part}")
        if tracked := next(document.root.iter(*_TRACKED), None):
            found = f"{part} has tracked changes ({tracked.name})"
            raise DataError(f"{name}: {found}; accept or reject all of them in an office program first")
        archive.parts[part] = document
        document.read_paragraphs(part)
    if not archive.parts:
        raise DataError(f"{name}: an archive without a text document; give a .docx or .odt")
    return archive


class OdtPart(XmlDocument):
    def read_paragraphs(self, part: str) -> None:
        """Those of notes and tables, too, but none of comments."""
        for number, paragraph in enumerate(self.root.iter("p", "h"), 1):
            start, end, codes, _, write = self.content(paragraph, lambda one: one.name in ("span", "a"))
            codes = [one for one in codes if not _SINGLE_SPACE.fullmatch(self.text, one.start, one.end)]
            if not any(one.name == "annotation" for one in paragraph.ancestors()):
                place = f"{part} paragraph {number}"
                self.add(start, end, codes, lambda raw: _SINGLE_SPACE.sub(" ", raw), write, place=place)


class Piece(NamedTuple):
    """Of a paragraph of a .docx: the "text" or another "part" of a run, what is "beside" runs, or is "around" some."""

    kind: str
    start: int
    end: int
    look: str = ""  # the properties of its run
    inner: Element | None = None


@dataclass(frozen=True, eq=False)
class Paragraph(Segment):
    """Text between tags becomes runs, in the usual look, or in that of the tag that they are in."""

    looks: Mapping[str, str] = field(default_factory=dict)  # of tags; of '' the usual one

    def filled(self, text: str, code_of: Callable[[str], str]) -> str:
        runs, looks, w = list[str](), [self.looks[""]], self.owner
        for number, piece in enumerate(TAG.split(text)):
            content = code_of(piece) if number % 2 else f'<{w}t xml:space="preserve">{piece}</{w}t>'
            if piece.startswith("<g"):
                looks.append(self.looks[piece])
            elif piece.startswith("</g"):
                looks.pop()
            elif piece and (number % 2 == 0 or piece in self.looks):  # a text, or a part of a run
                look = self.looks.get(piece, looks[-1])
                properties = f"<{w}rPr>{look}</{w}rPr>" if look else ""
                content = f"<{w}r>{properties}{content}</{w}r>"
            runs += [content] if piece else []
        return "".join(runs)


class DocxPart(XmlDocument):
    def read_paragraphs(self, part: str) -> None:
        """Those of text boxes, notes and tables, too. A content control in a paragraph counts as one."""
        number, w = 0, self.root.prefix  # of the names of elements
        for paragraph in self.root.iter("p", "sdtContent"):
            if paragraph.prefix != w or (paragraph.name == "sdtContent" and not paragraph.find("r")):
                continue
            number += 1
            codes, looks = dict[str, tuple[int, int]](), dict[str, str]()
            text, looks[""] = self._marked(paragraph, codes, looks)
            if has_words(text):
                start = properties.end if (properties := paragraph.find("pPr")) else paragraph.first
                segment = Paragraph(
                    start, paragraph.last, text, f"{part} paragraph {number}", "xml", codes=codes, looks=looks, owner=w
                )
                self.segments.append(segment)

    def _marked(self, container: Element, codes: dict[str, tuple[int, int]], looks: dict[str, str]) -> tuple[str, str]:
        """The text of a paragraph, or of a link in it, and its usual look. Its tags are added to `codes` and `looks`."""
        pieces, n_letters = self._pieces(list(container.children)), Counter[str]()
        for piece in pieces:
            n_letters[piece.look] += (piece.end - piece.start) * (piece.kind == "text")
        usual = max(n_letters, key=n_letters.__getitem__, default="")
        text, closing, current = list[str](), "", usual
        for kind, start, end, look, inner in pieces:
            if (own := look if kind == "text" else usual) != current:
                text.append(closing)
                current, closing, tag = own, "", f"<g{len(codes)}>"
                if own != usual:
                    codes[tag], looks[tag], closing = (0, 0), own, f"</{tag[1:]}"
                    text.append(tag)
            number = len(codes)
            if kind == "text":
                text.append(self.text[start:end])
            elif inner:
                codes[f"<g{number}>"], codes[f"</g{number}>"] = (inner.start, inner.first), (inner.last, inner.end)
                own_text, looks[f"<g{number}>"] = self._marked(inner, codes, looks)
                text.append(f"<g{number}>{own_text}</g{number}>")
            else:
                codes[f"<x{number}/>"] = start, end
                looks |= {f"<x{number}/>": look} if kind == "part" else {}
                text.append(f"<x{number}/>")
        return "".join([*text, closing]), usual

    def _pieces(self, children: list[Element]) -> list[Piece]:
        found = list[Piece]()
        while children:
            child = children.pop(0)
            own = [one for one in child.children if one.name not in _DROPPED]
            if child.name in ("hyperlink", "smartTag"):
                found.append(Piece("around", child.start, child.end, inner=child))
            elif n_runs := self._field_length([child, *children]):
                found.append(Piece("beside", child.start, [child, *children][n_runs - 1].end))
                del children[: n_runs - 1]
            elif child.name == "r" and any(one.name == "t" for one in own):
                properties = child.find("rPr")
                look = _UNSEEN.sub("", self.inner(properties)).strip() if properties else ""
                for one in own:
                    is_text = one.name == "t"
                    place = (one.first, one.last) if is_text else (one.start, one.end)
                    found.append(Piece("text" if is_text else "part", *place, look))
            elif child.name not in _DROPPED and (own or child.name != "r"):
                found.append(Piece("beside", child.start, child.end))
            if [one.kind for one in found[-2:]] == ["beside", "beside"]:
                found[-2:] = [Piece("beside", found[-2].start, found[-1].end)]
        return found

    def _field_length(self, runs: list[Element]) -> int:
        """How many of these runs are a field that the program computes, such as a page number; 0 for a link, or none."""
        depth, code = 0, ""
        for number, run in enumerate(runs, 1):
            marks = [one.get("fldCharType") for one in run.all("fldChar")]
            depth += marks.count("begin") - marks.count("end")
            code += "".join(map(self.inner, run.all("instrText")))
            if depth <= 0:
                return number if marks and "HYPERLINK" not in code and number > 1 else 0
        return 0
