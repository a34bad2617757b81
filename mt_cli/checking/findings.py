"""What a check of a corpus found, and how it is shown: as a table for the terminal, as JSON, as a list of the lines that
a cleaned corpus leaves out. This file knows nothing of how faults are found.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Literal

from mt_cli.data.corpora import TOLD, TrainingText, corpus_of, line_of, place_of
from mt_cli.data.corpus import SentencePair, normalize
from mt_cli.data.spelling import AS_IT_IS, Spellings
from mt_cli.files import write_atomically

Severity = Literal["info", "warning", "fatal"]
_ORDER: tuple[Severity, ...] = ("fatal", "warning", "info")
N_EXAMPLES, _N_SHOWN = 100, 3  # kept of each kind, and shown at the terminal
_RARE = 0.001  # a fault in fewer pairs changes no training: it is told as info
_LEAST_IN_STRETCH = 20
_MAX_EXAMPLE = 200  # characters that are kept of a text


@dataclass(frozen=True)
class Kind:
    """A kind of fault: what it is, and what to do about it. `{set}` stands for the name of the set."""

    name: str
    what: str
    advice: str
    is_dropped: bool = False  # whether a cleaned corpus leaves such pairs out
    severity: Severity = "warning"
    fatal_share: float = 2.0  # from this share on, training is not worth its time

    def at(self, share: float) -> Kind:
        """The kind as it counts for that share of the pairs: what is rare changes no training."""
        return replace(self, severity="info") if share < _RARE and self.severity == "warning" else self


@dataclass(frozen=True)
class Example:
    line: int
    src: str
    tgt: str


@dataclass(frozen=True)
class Finding:
    kind: str
    severity: Severity
    count: int
    share: float  # of the pairs of the set, or of its running words or characters where `what` says so
    what: str
    advice: str
    examples: tuple[Example, ...] = ()
    set: str = "train"

    @classmethod
    def of(
        cls, kind: Kind, count: int, share: float, examples: tuple[Example, ...] = (), name: str = "train"
    ) -> Finding:
        severity: Severity = "fatal" if share >= kind.fatal_share else kind.severity
        what, advice = (text.replace("{set}", name) for text in (kind.what, kind.advice))
        return cls(kind.name, severity, count, share, what, advice, examples, name)


class Tally:
    """Counts faults by kind, and keeps the first examples of each."""

    def __init__(self) -> None:
        self.counts: dict[Kind, int] = {}
        self._examples: dict[Kind, list[Example]] = {}
        self._last_lines: dict[Kind, int] = {}

    def add(self, kind: Kind, pair: SentencePair) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._last_lines[kind] = pair.line
        examples = self._examples.setdefault(kind, [])
        if len(examples) < N_EXAMPLES:
            examples.append(Example(pair.line, pair.src[:_MAX_EXAMPLE], pair.tgt[:_MAX_EXAMPLE]))

    def examples(self, kind: Kind) -> tuple[Example, ...]:
        return tuple(self._examples.get(kind, ()))

    def findings(self, n_pairs: int, name: str) -> list[Finding]:
        shares = {kind: count / n_pairs for kind, count in self.counts.items()}
        return [
            Finding.of(
                self._with_stretch(kind.at(share), kind, n_pairs), self.counts[kind], share, self.examples(kind), name
            )
            for kind, share in shares.items()
        ]

    def _with_stretch(self, told: Kind, kind: Kind, n_pairs: int) -> Kind:
        """The kind that tells, too, between which lines its pairs are, if they are most of those there."""
        first, last = self._examples[kind][0].line, self._last_lines[kind]
        n_lines, count = last - first + 1, self.counts[kind]
        is_stretch = count >= _LEAST_IN_STRETCH and 2 * count > n_lines and 2 * n_lines < n_pairs
        lines = f"{line_of(first):,} to {line_of(last):,}"
        return replace(told, what=f"{told.what}; all are in lines {lines}") if is_stretch else told


class Dropped:
    """The places that a cleaned corpus leaves out, each with its first reason. Memory: a byte a line."""

    def __init__(self) -> None:
        self._codes: dict[int, bytearray] = {}  # of a corpus: for each line, from 0, an index of `_reasons`
        self._reasons = [""]

    def add(self, place: int, reason: str) -> None:
        codes, line = self._codes.setdefault(corpus_of(place), bytearray()), line_of(place)
        if line >= len(codes):
            codes.extend(bytes(line + 1 - len(codes)))
        if codes[line]:
            return
        if reason not in self._reasons:
            self._reasons.append(reason)
        codes[line] = self._reasons.index(reason)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for corpus, codes in sorted(self._codes.items()):
            yield from ((place_of(corpus, line), self._reasons[code]) for line, code in enumerate(codes) if code)

    def counts(self) -> dict[str, int]:
        by_code = sum(map(Counter, self._codes.values()), Counter[int]())
        return {reason: by_code[code] for code, reason in enumerate(self._reasons) if code}


@dataclass(frozen=True)
class SideFacts:
    language: str
    n_words: int
    n_characters: int
    median_words: int  # of a line
    most_words: int  # of 95% of the lines
    longest_words: int


@dataclass
class Report:
    text: TrainingText
    notes: list[str]  # on how they were read
    n_pairs: int
    n_distinct: int
    sides: tuple[SideFacts, SideFacts]
    findings: list[Finding]
    dropped: Dropped
    read: Callable[[], Iterator[SentencePair]]  # the training pairs once more
    spellings: Spellings = AS_IT_IS  # signs of training that dev writes otherwise
    forecast: list[str] = field(default_factory=list)  # what a training would need and reach: the end of the report
    is_refused: bool = False  # by a training

    @property
    def is_fatal(self) -> bool:
        """Whether something makes the result worthless, or there can be none."""
        return self.is_refused or any(finding.severity == "fatal" for finding in self.findings)

    def as_table(self, width: int = 80) -> str:
        """The report for a terminal of that many columns."""
        lines = [
            shown(
                f"{self.n_pairs:,} pair{'s' * (self.n_pairs != 1)}, {self.n_distinct:,} distinct: {self.text.name}",
                width,
            )
        ]
        for note in self.notes:
            lines += _wrap(note, width)
        lines += [
            "",
            f"{'words a line':>71}",
            f"{'':13}{'words':>12}{'characters':>13}{'median':>11}{'95%':>10}{'longest':>12}",
        ]
        for title, side in zip(("source", "target"), self.sides, strict=True):
            counts = f"{side.n_words:12,}{side.n_characters:13,}"
            counts += f"{side.median_words:11,}{side.most_words:10,}{side.longest_words:12,}"
            lines.append(f"{shown(f'{title} ({side.language})', 13):13}{counts}")
        for severity in _ORDER:
            for finding in self.findings:
                if finding.severity == severity:
                    lines += ["", *self._finding_lines(finding, width)]
        if not self.findings:
            lines += ["", "No faults found."]
        if reasons := self.dropped.counts():
            n_left = self.n_pairs - sum(reasons.values())
            told = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons.items())
            lines += [
                "",
                *_wrap(
                    f"mt train --clean would leave these out, and train on {n_left:,} pair{'s' * (n_left != 1)}: {told}.",
                    width,
                ),
            ]
        if self.forecast:
            lines += ["", *(wrapped for line in self.forecast for wrapped in _wrap(line, width))]
        return "\n".join(lines)

    def _finding_lines(self, finding: Finding, width: int) -> list[str]:
        where = "" if finding.set == "train" else f" in {finding.set}"
        lines = _wrap(
            f"{finding.severity}: {_count(finding)} {finding.kind.replace('_', ' ')}{where}: {finding.what}", width
        )
        for example in finding.examples[:_N_SHOWN]:
            texts = [text for text in (example.src, example.tgt) if text]
            head = f"    {self._told(finding, example).removeprefix('line ')}: "
            room = (width - len(head) - 3 * (len(texts) - 1)) // max(1, len(texts))
            lines.append(head + " | ".join(shown(text, room) for text in texts))
        return lines + [f"    {line}" for line in _wrap(f"→ {finding.advice}", width - 4)]

    def in_brief(self, without: str) -> list[tuple[Severity, str]]:
        """A line for each finding that changes a training, and how severe it is; without one kind, which is told already."""
        lines = list[tuple[Severity, str]]()
        for finding in self.findings:
            if finding.severity != "info" and finding.kind != without:
                first = f", first in {self._told(finding, finding.examples[0])}" if finding.examples else ""
                line = f"{finding.set}: {_count(finding)} {finding.kind.replace('_', ' ')}{first}"
                lines.append((finding.severity, shown(line)))
        return lines

    def as_json(self) -> str:
        report = {
            "name": self.text.name,
            "notes": self.notes,
            "n_pairs": self.n_pairs,
            "n_distinct": self.n_distinct,
            "src": asdict(self.sides[0]),
            "tgt": asdict(self.sides[1]),
            "findings": [self._finding_as_json(finding) for finding in self.findings],
            "dropped": [[line_of(place), reason, *self._file_of(place)] for place, reason in self.dropped],
            "forecast": self.forecast,
            "is_fatal": self.is_fatal,
        }
        return json.dumps(report, ensure_ascii=False, indent=1)

    def write_dropped(self, path: Path) -> None:
        """Writes a table of the lines left out: line, reason, source, target. A line that cannot be read has no texts."""

        def rows() -> Iterator[tuple[str, SentencePair]]:
            pairs = self.read()
            pair = next(pairs, None)
            for place, reason in self.dropped:
                while pair is not None and pair.line < place:
                    pair = next(pairs, None)
                src, tgt = pair[:2] if pair is not None and pair.line == place else ("", "")
                yield reason, SentencePair(normalize(src), normalize(tgt), place)

        def write(file: IO[bytes]) -> None:
            file.writelines(row.encode() for row in self.text.table(rows()))

        write_atomically(path, write)

    def _told(self, finding: Finding, example: Example) -> str:
        return self.text.told(example.line) if finding.set == "train" else TOLD(example.line)

    def _file_of(self, place: int) -> list[str]:
        """What the corpus is called, where there are several."""
        return [self.text.corpus_names[corpus_of(place)]] if len(self.text.corpora) > 1 else []

    def _finding_as_json(self, finding: Finding) -> dict[str, Any]:
        """The examples of several corpora have the key `file`, too."""
        found = asdict(finding)
        for example in found["examples"] if finding.set == "train" else ():
            for file in self._file_of(example["line"]):
                example |= {"line": line_of(example["line"]), "file": file}
        return found


def _count(finding: Finding) -> str:
    return f"{finding.count:,} ({_percent(finding.share)})" if finding.share else f"{finding.count:,}"


def _wrap(text: str, width: int) -> list[str]:
    """Lines of at most that many columns of a terminal, all but the first indented."""
    lines = [""]
    for word in shown(text).split(" "):
        if lines[-1] and _n_columns(f"{lines[-1]} {word}") > width:
            lines.append(f"    {shown(word, width - 4)}")
        else:
            lines[-1] += f" {shown(word, width)}" if lines[-1] else shown(word, width)
    return lines


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def shown(text: str, width: int | None = None) -> str:
    """The text with what has no shape (control characters, line ends, marks of direction) as escapes, cut to that many
    columns of a terminal."""
    pieces: list[str] = []
    used = 0
    for char in text:
        category = unicodedata.category(char)
        piece = char.encode("unicode_escape").decode() if category in {"Cc", "Cf", "Cs", "Zl", "Zp"} else char
        columns = _n_columns(piece)
        if width is not None and used + columns > width:
            while pieces and used > width - 1:
                used -= _n_columns(pieces.pop())
            return "".join(pieces) + "…"
        pieces.append(piece)
        used += columns
    return "".join(pieces)


def _n_columns(text: str) -> int:
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))
