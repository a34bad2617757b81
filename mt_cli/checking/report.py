"""What a check of a corpus found, as a table for a terminal, as JSON, and as a list of the pairs that a cleaned corpus
leaves out. Knows nothing of how faults are found."""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from mt_cli.checking.faults import Kind, Severity
from mt_cli.data.corpus import Place, SentencePair, TrainingText
from mt_cli.data.normalize import normalize
from mt_cli.data.spelling import Spellings
from mt_cli.display import column_width, escaped, shortened
from mt_cli.files import write_rows
from mt_cli.recipe import reached_scores

_N_EXAMPLES, _N_SHOWN = 100, 3  # kept of each kind, and shown at the terminal
_RARE = 0.001  # a fault in fewer pairs changes no training: it is reported as info
_MAX_EXAMPLE = 200  # characters that are kept of a text
_PHRASES = {"character": "of", "side": "in"}  # for details that tell findings of one kind apart


@dataclass(frozen=True)
class Example:
    line: int
    src: str
    tgt: str
    file: str = ""  # where the training text is of several corpora
    unit: str = "line"

    @property
    def location(self) -> str:
        return f"{self.file}:{self.line}" if self.file else f"{self.unit} {self.line}"


@dataclass(frozen=True)
class Finding:
    kind: Kind
    severity: Severity
    count: int
    share: float  # of the pairs of the set, or of its running words or characters where `what` says so
    what: str
    advice: str
    examples: tuple[Example, ...] = ()
    set: str = "train"
    where: str = ""  # such as "in the source", where several findings of a set can be of this kind

    @classmethod
    def of(
        cls,
        kind: Kind,
        count: int,
        share: float,
        pairs: Iterable[SentencePair] = (),
        of: str | TrainingText = "train",
        severity: Severity | None = None,
        **details: Any,
    ) -> Finding:
        """`pairs`: examples. `of`: their set. `details`: what the description and the advice of the kind leave open."""
        severity = severity or kind.severity
        if share >= kind.fatal_share:
            severity = "fatal"
        elif 0 < share < _RARE and severity == "warning":
            severity = "info"
        name, files, unit = (of, [""], "line") if isinstance(of, str) else ("train", of.corpus_names, of.unit)
        examples = tuple(
            Example(line, src[:_MAX_EXAMPLE], tgt[:_MAX_EXAMPLE], files[corpus] if len(files) > 1 else "", unit)
            for src, tgt, line, corpus in islice(pairs, _N_EXAMPLES)
        )
        what, advice = (text.format(set=name, **details) for text in (kind.description, kind.advice))
        where = " ".join(f"{phrase} the {details[key]}" for key, phrase in _PHRASES.items() if key in details)
        return cls(kind, severity, count, share, what, advice, examples, name, where)

    @property
    def title(self) -> str:
        percent = f"{self.share:.1%}" if self.share >= 0.001 else "under 0.1%"
        what = "different sentences, too few" if self.kind == Kind.TOO_FEW else self.kind.replace("_", " ")
        return f"{self.count:,}{f' ({percent})' if self.share else ''} {what}"

    def as_table(self, width: int) -> list[str]:
        in_set = "" if self.set == "train" else f" in {self.set}"
        lines = _wrapped(f"{self.severity}{in_set}: {self.title}: {self.what}", width)
        for example in self.examples[:_N_SHOWN]:
            texts = [text for text in (example.src, example.tgt) if text]
            head = f"    {example.location.removeprefix(f'{example.unit} ')}{': ' * bool(texts)}"
            room = (width - column_width(head) - 3 * (len(texts) - 1)) // max(1, len(texts))
            lines.append(head + " | ".join(shortened(text, max(4, room)) for text in texts))
        return lines + [f"    {line}" for line in _wrapped(f"→ {self.advice}", width - 4)]


def findings_of(
    faults: Iterable[tuple[Kind, SentencePair]], n_pairs: int, of: str | TrainingText, dropped: dict[Place, Kind]
) -> Iterator[Finding]:
    """One for each kind, with its first pairs. `of`: the set; its pairs that are to be left out are added to `dropped`."""
    counts, examples = Counter[Kind](), defaultdict[Kind, list[SentencePair]](list)
    for kind, pair in faults:
        counts[kind] += 1
        if len(examples[kind]) < _N_EXAMPLES:
            examples[kind].append(pair)
        if kind.is_dropped:
            dropped.setdefault(pair.place, kind)
    for kind, count in counts.items():
        yield Finding.of(kind, count, count / n_pairs, examples[kind], of)


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
    """What `mt check` shows; so does a notebook."""

    text: TrainingText
    notes: list[str]  # on how the files were read
    n_pairs: int
    n_distinct: int
    sides: tuple[SideFacts, SideFacts]
    findings: list[Finding]
    dropped: dict[Place, Kind]  # what a cleaned corpus leaves out, each with its first reason
    read: Callable[[], Iterator[SentencePair]]  # the training pairs once more
    spellings: Spellings  # characters of training that dev writes otherwise
    gaps: list[str] = field(default_factory=list)  # how far dev is from each corpus, and what that costs

    @property
    def is_fatal(self) -> bool:
        """Whether something makes the result of a training worthless."""
        return any(finding.severity == "fatal" for finding in self.findings)

    def __repr__(self) -> str:
        return self.as_table()

    def as_table(self, width: int = 80) -> str:
        """The report for a terminal of that many columns."""
        lines = [
            shortened(f"{_pairs(self.n_pairs)}, {self.n_distinct:,} distinct: {self.text.name}", width),
            *(line for note in self.notes for line in _wrapped(note, width)),
            f"\n{'words a line':>71}",
            f"{'':13}{'words':>12}{'characters':>13}{'median':>11}{'95%':>10}{'longest':>12}",
        ]
        for title, side in zip(("source", "target"), self.sides, strict=True):
            lines.append(
                f"{shortened(f'{title} ({side.language})', 13):13}{side.n_words:12,}{side.n_characters:13,}"
                f"{side.median_words:11,}{side.most_words:10,}{side.longest_words:12,}"
            )
        for finding in sorted(self.findings, key=lambda one: get_args(Severity).index(one.severity)):
            lines += ["", *finding.as_table(width)]
        last = [*self.gaps] if self.findings else [*self.gaps, "No faults found."]
        if kinds := Counter(self.dropped.values()):
            reasons = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in kinds.most_common())
            n_left = self.n_pairs - kinds.total()
            without = f"would leave out {kinds.total():,} ({reasons}) and train on {_pairs(n_left)}"
            last.append(f"mt train --clean {without}.")
        if not self.is_fatal:
            last.append(reached_scores(self.n_distinct))
        for paragraph in last:
            lines += ["", *_wrapped(paragraph, width)]
        return "\n".join(lines)

    def in_brief(self) -> Iterator[tuple[Severity, str]]:
        """A line for each finding that changes a training, and how severe it is."""
        for finding in self.findings:
            if finding.severity != "info":
                first = f", first in {finding.examples[0].location}" if finding.examples else ""
                yield finding.severity, escaped(f"{finding.set}: {finding.title} {finding.where}".rstrip() + first)

    def as_json(self) -> str:
        names = [[name] if len(self.text.corpora) > 1 else [] for name in self.text.corpus_names]
        report = {name: getattr(self, name) for name in ("notes", "n_pairs", "n_distinct", "gaps", "is_fatal")}
        report |= {"name": self.text.name, "src": asdict(self.sides[0]), "tgt": asdict(self.sides[1])}
        report["findings"] = [asdict(finding) for finding in self.findings]
        report["dropped"] = [[line, kind, *names[corpus]] for (corpus, line), kind in sorted(self.dropped.items())]
        return json.dumps(report, ensure_ascii=False, indent=1)

    def write_dropped(self, path: Path) -> None:
        """Writes a table of the pairs left out: line, reason, source, target. A line that cannot be read has no texts."""
        bad = (
            SentencePair("", "", *place[::-1]) for place, kind in sorted(self.dropped.items()) if kind == Kind.NOT_UTF8
        )
        rows = (
            (kind, pair._replace(src=normalize(pair.src), tgt=normalize(pair.tgt)))
            for pair in heapq.merge(self.read(), bad, key=lambda pair: pair.place)
            if (kind := self.dropped.get(pair.place))
        )
        write_rows(path, self.text.table(rows))


def _pairs(n: int) -> str:
    return f"{n:,} pair{'s' * (n != 1)}"


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most that many columns of a terminal, all but the first indented."""
    lines = [""]
    for word in escaped(text).split(" "):
        if lines[-1] and column_width(f"{lines[-1]} {word}") > width:
            lines.append(f"    {shortened(word, width - 4)}")
        else:
            lines[-1] += f" {shortened(word, width)}" if lines[-1] else shortened(word, width)
    return lines
