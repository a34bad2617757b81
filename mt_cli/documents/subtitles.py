"""Subtitles, SRT and WebVTT: the cues of a sentence are translated together, and the translation is split by times."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import ceil
from typing import NamedTuple

from mt_cli.data.normalize import UNSPACED
from mt_cli.data.spans import escaped
from mt_cli.display import column_width, shortened
from mt_cli.documents.document import Code, TextDocument

_BLOCK = re.compile(r"(?:[^\r\n]*\S[^\r\n]*(?:\r?\n|\r|\Z))+")
_STAMP = r"(?:(\d+):)?(\d\d):(\d\d)[.,](\d{3})"
_TIMES = re.compile(rf"[ \t]*{_STAMP}[ \t]+-->[ \t]+{_STAMP}(?:[ \t][^\r\n]*)?(?:\r?\n|\r|\Z)")
_CODE = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z]*)[^<>]*>|\{\\[^{}]*\}")
_SHOWN = re.compile(r"(?:<[^<>]*>|\{\\[^{}]*\}|\s)+|([^<{\s]+|.)")
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


def read(content: bytes, name: str) -> TextDocument:
    """Raises DataError for a text without time stamps, and for time stamps that are none."""
    document = TextDocument(content, name)
    groups, text = list[list[Cue]](), document.text
    for cue in _cues(document):
        if groups and _goes_on(text, groups[-1], cue):
            groups[-1].append(cue)
        else:
            groups.append([cue])
    for cues in groups:
        _add(document, cues)
    return document


def _cues(document: TextDocument) -> Iterator[Cue]:
    text, times = document.text, [-1, -1]
    is_vtt = text.startswith("WEBVTT")
    if document.name.lower().endswith(".vtt") and not is_vtt:
        raise document.error(0, "no WEBVTT at the beginning; write it there, or name an SRT file .srt")
    for number, block in enumerate(_BLOCK.finditer(text)):
        start, arrow = block.start(), block[0].find("-->")
        if is_vtt and ((number == 0 and arrow < 0) or re.match("NOTE|STYLE|REGION", block[0])):
            continue
        if arrow >= 0:
            stamps = text.rfind("\n", 0, start + arrow) + 1
            if not (found := _TIMES.match(text, max(start, stamps))):
                example = "00:00:01.000 --> 00:00:02.000" if is_vtt else "00:00:01,000 --> 00:00:02,000"
                raise document.error(start + arrow, f"no time stamps, expected such as {example}; correct the line")
            parts = [int(one or 0) for one in found.groups()]
            times = [((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in (parts[:4], parts[4:])]
            start = found.end()
        elif times[0] < 0:
            begun = shortened(block[0], 30)
            raise document.error(start, f"{begun!r} has no time stamps above it; give an SRT file or WebVTT")
        content = text[start : block.end()]
        if "-->" in content:
            problem = "time stamps within a cue; put an empty line before the cue"
            raise document.error(start + content.find("-->"), problem)
        speakers = [line.start() for line in _SPEAKER.finditer(content)]
        for first, last in pairwise([0, *(speakers if len(speakers) > 1 else []), len(content)]):
            own = content[first:last]
            shown = [found.span() for found in _SHOWN.finditer(own) if found[1]]
            if shown:
                start_of_it, end_of_it = shown[0][0], shown[-1][1]
                if _CODE.search(own, start_of_it, end_of_it):  # a tag around a part of it
                    start_of_it, end_of_it = len(own) - len(own.lstrip()), len(own.rstrip())
                yield Cue(times[0], times[1], start + first + start_of_it, start + first + end_of_it)


def _goes_on(text: str, cues: list[Cue], cue: Cue) -> bool:
    """Whether the sentence of the cues does: behind a comma, or in small letters, soon, and in the same style."""
    last = cues[-1]
    if len(cues) == _MAX_CUES or not 0 <= cue.first - last.last <= _MAX_GAP:
        return False
    both = text[last.start : last.end], text[cue.start : cue.end]
    is_small = both[1].lstrip('.…"“„« ')[:1].islower() and not _ENDS.search(both[0])
    styles = [_CODE.findall(text, text.rfind("\n", 0, one.start) + 1, one.start) for one in (last, cue)]
    return bool(is_small or _GOES_ON.search(both[0])) and not any(map(_CODE.search, both)) and styles[0] == styles[1]


def _add(document: TextDocument, cues: list[Cue]) -> None:
    text, codes = document.text, list[Code]()
    between = [text[one.end : other.start] for one, other in pairwise(cues)]
    for found in _CODE.finditer(text, cues[0].start, cues[0].end):
        kind = ("-" if found["end"] else "+") if found["name"] else ""
        codes.append(Code(*found.span(), kind, found["name"] or ""))

    def read(raw: str) -> str:
        """A line break is a space, but none between characters of a language without spaces."""
        lines = "\n".join(text[cue.start : cue.end] for cue in cues) if between else raw
        return escaped(_BREAK.sub(lambda found: "" if found[1] is None else " ", lines))

    def wrap(translation: str) -> str:
        pieces = _split(translation, [cue.last - cue.first for cue in cues])
        for n, piece in enumerate(pieces):
            n_lines = ceil(column_width(_CODE.sub("", piece)) / _MAX_COLUMNS)
            pieces[n] = document.newline.join(_split(piece, [1] * max(1, n_lines)))
        return "".join(piece + stamps for piece, stamps in zip(pieces, [*between, ""], strict=True))

    document.add(cues[0].start, cues[-1].end, codes, read, wrap=wrap)


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
