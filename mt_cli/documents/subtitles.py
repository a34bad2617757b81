"""Subtitles, SRT and WebVTT: cues that make up a sentence are translated together, and the translation is split by their times.

Time stamps, settings, notes and styles stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from mt_cli.data.normalize import UNSPACED
from mt_cli.display import column_width, shortened
from mt_cli.documents.document import Segment, Written
from mt_cli.documents.ranges import Code, Edit, Slot, Source, TextDocument, coded, edited, has_words, replaced

_BLOCK = re.compile(r"(?:[^\r\n]*\S[^\r\n]*(?:\r?\n|\r|\Z))+")
_STAMP = r"(?:(\d+):)?(\d\d):(\d\d)[.,](\d{3})"
_TIMES = re.compile(rf"[ \t]*{_STAMP}[ \t]+-->[ \t]+{_STAMP}(?:[ \t][^\r\n]*)?(?:\r?\n|\r|\Z)")
_CODE = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z]*)[^<>]*>|\{\\[^{}]*\}")
_LEAD = re.compile(r"\A(?:<[^<>]*>|\{\\[^{}]*\}|\s)*+")
_TAIL = re.compile(r"(?:<[^<>]*>|\{\\[^{}]*\}|\s)*+\Z")
_SPEAKER = re.compile(r"^[ \t]*(?:<[^<>]*>)*[-–—]", re.MULTILINE)  # a line of a dialogue
_ENDS, _GOES_ON = re.compile(r"(?<![.])[.!?:;。！？…♪\"”»](?![.])\Z"), re.compile(r"[,，、]\Z")
_BREAK = re.compile(rf"(?<=[{UNSPACED}])[ \t]*(?:\r?\n|\r)[ \t]*|[ \t]*(?:\r?\n|\r)[ \t]*()")
_WORD = re.compile(rf"\s*(?:[{UNSPACED}]|(?:<[^<>]*>|[^\s{UNSPACED}])+)[，。、！？：；」』）…]*")
_MAX_GAP = 1000  # milliseconds between two cues of a sentence
_MAX_CUES = 6  # of a sentence
_MAX_COLUMNS = 42  # of a line, as broadcasters have it
_AT_PUNCTUATION = 8  # columns by which a cut behind it may be further away


class Cue(NamedTuple):
    """A text that is shown at once, or one speaker's line of it."""

    first: int  # milliseconds
    last: int
    start: int  # of its text, without the tags around it
    end: int


class Sentence(NamedTuple):
    cues: list[Cue]
    text: str
    slot: Slot  # of this text


def read(content: bytes, name: str) -> TextDocument:
    """Raises DataError for a text without time stamps, and for time stamps that are none."""
    return SubtitleDocument(Source.decoded(content, name))


class SubtitleDocument(TextDocument):
    def __init__(self, source: Source):
        self._sentences = [_sentence(source, cues) for cues in _joined(source, list(_cues(source)))]
        self._sentences = [one for one in self._sentences if has_words(one.slot.segment.text)]
        super().__init__(source, [one.slot for one in self._sentences])

    def written(self, translations: Sequence[Written | None], tgt_lang: str) -> bytes:
        edits = list[Edit]()
        for (cues, text, slot), one in zip(self._sentences, translations, strict=True):
            if one is not None and one.text != slot.segment.text:
                pieces = _split(replaced(text, [slot], [one]), [cue.last - cue.first for cue in cues])
                edits += [
                    Edit(cue.start, cue.end, self.source.newline.join(_lines(piece)))
                    for cue, piece in zip(cues, pieces, strict=True)
                ]
        return self.source.encoded(edited(self.source.text, edits))


def _cues(source: Source) -> Iterator[Cue]:
    text, times = source.text, (-1, -1)
    is_vtt = text.startswith("WEBVTT")
    if source.name.lower().endswith(".vtt") and not is_vtt:
        raise source.error(0, "no WEBVTT at the beginning; write it there, or name an SRT file .srt")
    for number, block in enumerate(_BLOCK.finditer(text)):
        start, arrow = block.start(), block[0].find("-->")
        if is_vtt and ((number == 0 and arrow < 0) or re.match("NOTE|STYLE|REGION", block[0])):
            continue
        if arrow >= 0:
            stamps = text.rfind("\n", 0, start + arrow) + 1
            if not (found := _TIMES.match(text, max(start, stamps))):
                example = "00:00:01.000 --> 00:00:02.000" if is_vtt else "00:00:01,000 --> 00:00:02,000"
                raise source.error(start + arrow, f"no time stamps, expected such as {example}; correct the line")
            h, m, s, ms, *end = (int(one or 0) for one in found.groups())
            times = _milliseconds(h, m, s, ms), _milliseconds(*end)
            start = found.end()
        elif times[0] < 0:
            raise source.error(
                start, f"{shortened(block[0], 30)!r} has no time stamps above it; give an SRT file or WebVTT"
            )
        content = text[start : block.end()]
        if "-->" in content:
            raise source.error(
                start + content.find("-->"), "time stamps within a cue; put an empty line before the cue"
            )
        bounds = [line.start() for line in _SPEAKER.finditer(content)]
        if len(bounds) < 2:
            bounds = []
        for first, last in zip([0, *bounds], [*bounds, len(content)], strict=True):
            own = content[first:last]
            edges = len(own) - len(_LEAD.sub("", own)), len(_TAIL.sub("", own))
            if _CODE.search(own[edges[0] : edges[1]]):  # a tag around a part of it
                edges = len(own) - len(own.lstrip()), len(own.rstrip())
            if edges[0] < edges[1]:
                yield Cue(*times, start + first + edges[0], start + first + edges[1])


def _milliseconds(hours: int, minutes: int, seconds: int, milliseconds: int) -> int:
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


def _joined(source: Source, cues: list[Cue]) -> list[list[Cue]]:
    """The cues of each sentence: one goes on behind a comma, or in small letters, soon, and in the same style."""
    groups, text = list[list[Cue]](), source.text
    for cue in cues:
        last = groups[-1][-1] if groups else None
        if last is not None and 0 <= cue.first - last.last <= _MAX_GAP and len(groups[-1]) < _MAX_CUES:
            both = text[last.start : last.end], text[cue.start : cue.end]
            goes_on = both[1].lstrip('.…"“„« ')[:1].islower() and not _ENDS.search(both[0])
            has_codes = any(map(_CODE.search, both))
            if (goes_on or _GOES_ON.search(both[0])) and not has_codes and _style(text, last) == _style(text, cue):
                groups[-1].append(cue)
                continue
        groups.append([cue])
    return groups


def _style(text: str, cue: Cue) -> list[str]:
    """The tags directly before the text of a cue."""
    line = text.rfind("\n", 0, cue.start) + 1
    return [found[0] for found in _CODE.finditer(text, line, cue.start)]


def _sentence(source: Source, cues: list[Cue]) -> Sentence:
    text, codes = "\n".join(source.text[cue.start : cue.end] for cue in cues), list[Code]()
    for found in _CODE.finditer(text):
        codes.append(Code(*found.span(), ("-" if found["end"] else "+") if found["name"] else "", found["name"] or ""))
    coded_text, tags = coded(text, 0, len(text), codes, lambda part: escape(_BREAK.sub(_space, part), quote=False))
    segment = Segment(coded_text, f"line {source.line(cues[0].start)}", "xml")
    return Sentence(cues, text, Slot(0, len(text), segment, unescape, tags))


def _space(found: re.Match[str]) -> str:
    return "" if found[1] is None else " "  # none between characters of a language without spaces


def _split(text: str, shares: Sequence[float]) -> list[str]:
    """The text in as many pieces, of lengths in proportion to `shares`; rather behind punctuation than elsewhere."""
    words = _WORD.findall(text)
    ends = list(accumulate(column_width(_CODE.sub("", word)) for word in words)) or [0]
    pieces, cut, whole = list[str](), 0, sum(shares) or 1
    for number, share in enumerate(list(accumulate(shares))[:-1], 1):
        ideal, behind = ends[-1] * share / whole, len(words) - len(shares) + number

        def distance(at: int, ideal: float = ideal) -> float:
            return abs(ends[at - 1] - ideal) - _AT_PUNCTUATION * (not words[at - 1][-1].isalnum())

        best = min(range(cut + 1, behind + 1), key=distance, default=cut)
        pieces.append("".join(words[cut:best]).strip() or "…")
        cut = best
    return [*pieces, "".join(words[cut:]).strip() or "…"]


def _lines(text: str) -> list[str]:
    """The text in lines of about equal length."""
    n_lines = ceil(column_width(_CODE.sub("", text)) / _MAX_COLUMNS)
    return _split(text, [1] * max(1, n_lines))
