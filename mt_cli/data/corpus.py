"""Reads the files that a config names as pairs of normalized text, says what was left out, and refuses files that cannot
be meant. Knows nothing of tokens."""

from __future__ import annotations

import hashlib
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from mt_cli.config import DataConfig, is_memory
from mt_cli.data.languages import language, languages_of_files
from mt_cli.data.lines import SAVE_AS_UTF_8, NotUtf8Error, decode_line, raw_lines, refuse_special_files
from mt_cli.data.normalize import normalize
from mt_cli.errors import DataError, UsageError

Place = tuple[int, int]  # where a pair is: the number of its corpus, from 0, and its line there, from 1
FormatPlace = Callable[[Place], str]
_Row = tuple[int, tuple[bytes, ...]]  # the line where it begins; source and target, or a line of one file

_SAVE_FILE = "fix the line, or save the file as UTF-8"
_LEAVE_OUT = ", or leave such lines out: --set data.on_bad_line=skip"
_CORPUS_COLUMNS = "\tcorpus\tfile"  # of a table of pairs


class SentencePair(NamedTuple):
    src: str
    tgt: str
    line: int  # in the file that it came from, counted from 1
    corpus: int = 0  # where the training text has several

    @property
    def place(self) -> Place:
        return self.corpus, self.line


class UnequalLinesError(DataError):
    """Two files have not the same number of lines, which shows after the last pair."""

    files: tuple[str, str]


@dataclass
class CorpusReport:
    """What was read and what was left out, for people to see."""

    n_pairs: int = 0
    n_kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # by reason
    notes: list[str] = field(default_factory=list)
    bad_lines: array[int] = field(default_factory=lambda: array("q"))  # that are not UTF-8 and were skipped

    def describe(self, name: str) -> list[str]:
        line = f"{name}: {self.n_kept:,} of {self.n_pairs:,} pairs kept"
        if self.dropped:
            line += f" ({', '.join(f'{count:,} {reason}' for reason, count in self.dropped.items())})"
        return [line, *(f"{name}: {note}" for note in self.notes)]


def read_pairs(
    files: list[str],
    columns: str | None = None,
    on_bad_line: str = "error",
    dedup: bool = False,
    report: CorpusReport | None = None,
    corpus: int = 0,
) -> Iterator[SentencePair]:
    """The normalized pairs of two aligned files or a table; targets keep no-break spaces. Raises DataError for unequal
    or unreadable files, too many empty sides, and no pair."""
    report = CorpusReport() if report is None else report
    seen: set[int] = set()
    for pair in read_raw_pairs(files, columns, on_bad_line, report, corpus, _LEAVE_OUT):
        src, tgt = normalize(pair.src), normalize(pair.tgt, keep_no_break_spaces=True)
        if not src or not tgt:
            report.dropped["with an empty side"] += 1
            continue
        if dedup:
            key = hash((src, normalize(tgt)))  # pairs that only differ in no-break spaces are repetitions
            if key in seen:
                report.dropped["repeated"] += 1
                continue
            seen.add(key)
        report.n_kept += 1
        yield SentencePair(src, tgt, pair.line, corpus)
    n_empty, n_pairs = report.dropped["with an empty side"], report.n_pairs
    if n_pairs == 0:
        raise DataError(f"{files[0]}: no lines; give a file with a sentence on each line")
    if n_empty * 2 > n_pairs:
        found = f"{n_empty:,} of {n_pairs:,} pairs have an empty side"
        raise DataError(f"{files[0]}: {found}; check that the files belong together")
    if report.n_kept == 0:
        raise DataError(f"{files[0]}: no pair is left of {n_pairs:,}, most are not UTF-8; save the file as UTF-8")


def read_raw_pairs(
    files: list[str],
    columns: str | None = None,
    on_bad_line: str = "error",
    report: CorpusReport | None = None,
    corpus: int = 0,
    more_advice: str = "",
) -> Iterator[SentencePair]:
    """The pairs as they are in the files: not normalized, with those that have an empty side."""
    refuse_special_files(files)
    report = CorpusReport() if report is None else report
    is_table = len(files) == 1
    rows = _rows_of_table(files[0], columns, report) if is_table else _rows_of_text(files)
    advice = (SAVE_AS_UTF_8 if is_table else _SAVE_FILE) + more_advice
    for line, (src, tgt) in _decoded(rows, [files[0], files[-1]], on_bad_line, report, advice):
        yield SentencePair(src, tgt, line, corpus)


def read_lines(path: Path) -> list[str]:
    """All lines of a small file, such as a test set. Raises DataError for a device, which may have no end."""
    if not path.is_fifo() and path != Path(os.devnull):
        refuse_special_files([path])
    rows = _decoded(_rows_of_text([str(path)]), [str(path)], "error", CorpusReport(), _SAVE_FILE)
    return [text for _, (text,) in rows]


def read_monolingual(files: Iterable[str], *, on_bad_line: str, report: CorpusReport) -> Iterator[str]:
    """The lines as they are in the files, counted in `report`. Raises DataError for files without any."""
    for file in files:
        refuse_special_files([file])
        n_before = report.n_pairs
        for _, (text,) in _decoded(_rows_of_text([file]), [file], on_bad_line, report, _SAVE_FILE + _LEAVE_OUT):
            yield text
        if report.n_pairs == n_before:
            raise DataError(f"{file}: no lines; give a file with a sentence on each line")


def _decoded(
    rows: Iterable[_Row], files: list[str], on_bad_line: str, report: CorpusReport, advice: str
) -> Iterator[tuple[int, list[str]]]:
    """The rows as text, counted in `report`; those that are not UTF-8 are left out or raise DataError."""
    for line, raw in rows:
        report.n_pairs += 1
        try:
            yield line, [decode_line(side, line, file) for side, file in zip(raw, files, strict=True)]
        except NotUtf8Error as error:
            if on_bad_line == "error":
                raise DataError(f"{error}; {advice}") from None
            report.dropped["not UTF-8"] += 1
            report.bad_lines.append(line)


def _rows_of_text(files: Sequence[str]) -> Iterator[_Row]:
    """The lines of one file, or of two files side by side."""
    rows = zip_longest(*(raw_lines(Path(file)) for file in files))
    for number, row in enumerate(rows, 1):
        if None in row:
            n_longer = number + sum(1 for _ in rows)
            src, tgt = (
                f"{file} has {number - 1 if raw is None else n_longer}" for file, raw in zip(files, row, strict=True)
            )
            error = UnequalLinesError(f"{src} lines, {tgt}; make them parallel")
            error.files = files[0], files[1]
            raise error
        yield number, row


def _rows_of_table(file: str, columns: str | None, report: CorpusReport) -> Iterator[_Row]:
    """The rows of a table; says in `report` how the table was read. A line end within a cell becomes a space."""
    from mt_cli.data.tables import find_layout, read_rows  # here, because translations need no tables

    layout = find_layout(Path(file), columns)
    report.notes.append(str(layout))
    for line, *cells in read_rows(layout):
        src, tgt = (_as_bytes(re.sub("\r?\n|\r", " ", cell)) for cell in cells)
        yield line, (src, tgt)


def _as_bytes(cell: str) -> bytes:
    try:
        return cell.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half an emoji (\ud83d), which is no UTF-8 either
        return cell.encode("utf-8", "surrogatepass")


def write_copy(pairs: Iterable[SentencePair], file: Path) -> None:
    """Writes normalized pairs to a new file, from which `read_copy` reads them faster than `read_pairs` did."""
    with file.open("x", encoding="utf-8", newline="\n") as handle:  # normalized text has no tabs
        handle.writelines(f"{pair.corpus}\t{pair.line}\t{pair.src}\t{pair.tgt}\n" for pair in pairs)


def read_copy(file: Path) -> Iterator[SentencePair]:
    with file.open(encoding="utf-8", newline="\n") as handle:
        for row in handle:
            corpus, line, src, tgt = row.removesuffix("\n").split("\t")
            yield SentencePair(src, tgt, int(line), int(corpus))


def sha256_of(files: Iterable[str]) -> str:
    """One hash of the bytes of all files, in order. Raises DataError when one cannot be read."""
    files, digest = list(files), hashlib.sha256()
    refuse_special_files(files)
    for name in files:
        try:
            with Path(name).open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
        except OSError as error:
            raise DataError(f"{name}: {error.strerror}; give the path of a text file, plain or .gz") from None
        digest.update(b"\0")
    return digest.hexdigest()


# What a config names --------------------------------------------------------------------------------------------------


def _rewriting(rules: Mapping[str, str]) -> Callable[[str], str]:
    both = {**rules, **{old.capitalize(): new.capitalize() for old, new in rules.items()}}
    return lambda text: reduce(lambda line, old: line.replace(old, both[old]), both, text)


@dataclass(frozen=True)
class TextSet:
    """Files that are read in one way."""

    name: str  # train, train-2, words, dev or of a test set
    label: str  # in messages
    files: list[str]
    columns: str | None
    on_bad_line: str
    dedup: bool = False
    corpus: int = 0  # its number in the training text
    rewrite: Mapping[str, str] = field(default_factory=dict)  # of its targets
    rewrite_source: Mapping[str, str] = field(default_factory=dict)
    key: str = ""  # of the config, in its section data

    @cached_property
    def sha256(self) -> str:
        return sha256_of(self.files)

    @property
    def reading(self) -> dict[str, Any]:
        """The settings that reading depends on."""
        return {name: getattr(self, name) for name in ("columns", "on_bad_line", "dedup", "rewrite", "rewrite_source")}

    def rewritten(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """In the way of writing that is learnt, capitals too."""
        if not self.rewrite and not self.rewrite_source:
            return iter(pairs)
        src, tgt = map(_rewriting, (self.rewrite_source, self.rewrite))
        return (pair._replace(src=src(pair.src), tgt=tgt(pair.tgt)) for pair in pairs)

    def read(self, report: CorpusReport | None = None) -> Iterator[SentencePair]:
        """The normalized pairs. Raises DataError, also after the last one, if the files no longer have the hash `sha256`."""
        sha256, how = self.sha256, (self.columns, self.on_bad_line, self.dedup)
        yield from self.rewritten(read_pairs(self.files, *how, report=report, corpus=self.corpus))
        if sha256_of(self.files) != sha256:
            advice = "run the same command again when it is complete"
            raise DataError(f"{' or '.join(self.files)}: changed while it was read; {advice}")


class TrainingText:
    """What a config names for a language pair: the corpora that it trains on, as one text, a list of words, and sets."""

    def __init__(self, data: DataConfig, suffix: str = ""):
        """`suffix`: what follows "train" in messages."""
        self.corpora = corpora = data.corpora
        self.name = ", ".join(" ".join(corpus.files) for corpus in corpora)
        self.files = [file for corpus in corpora for file in corpus.files]
        firsts = [corpus.files[0] for corpus in corpora]
        # What each corpus is called: its first file, or all of its files where others begin with the same one.
        self.corpus_names = [" ".join(one.files) if firsts.count(one.files[0]) > 1 else one.files[0] for one in corpora]
        self._names = self.corpus_names + (data.words.files[:1] if data.words is not None else [])  # of places
        self.unit = "unit" if is_memory(firsts[0]) and not firsts[0].endswith((".po", ".po.gz")) else "line"

        def text_set(name: str, label: str, files: list[str], columns: str | None, key: str, **more: Any) -> TextSet:
            columns = columns_of(files, data, columns)
            on_bad_line = "skip" if data.clean and "corpus" in more else data.on_bad_line  # of what is trained on
            return TextSet(name, label, files, columns, on_bad_line, key=key, **more)

        self.sets, several = list[TextSet](), len(corpora) > 1
        for i, (one, own) in enumerate(zip(corpora, self.corpus_names, strict=True)):
            number, called, key = (f"-{i + 1}", f" {own}", f"train.{i}") if several else ("", "", "train")
            how = {"dedup": data.dedup, "corpus": i, "rewrite": one.rewrite, "rewrite_source": one.rewrite_source}
            self.sets.append(text_set(f"train{number}", f"train{suffix}{called}", one.files, data.columns, key, **how))
        named = {"dev": (data.dev, "dev")} if data.dev else {}
        named |= {name: (files, f"test.{name}") for name, files in data.test.items()}
        self.named = [text_set(name, name + suffix, files, data.columns, key) for name, (files, key) in named.items()]
        self.words = None
        if (words := data.words) is not None:
            how = {"dedup": True, "corpus": len(corpora)}
            self.words = text_set("words", "words", words.files, words.columns, "words.files", **how)
        self.trained = [*self.sets, *([self.words] if self.words is not None else [])]
        self.all_sets = [*self.trained, *self.named]

    def format_place(self, place: Place) -> str:
        """`line 12`, `unit 12` of a memory, or where there are several corpora or a list of words `web.tsv:12`."""
        corpus, line = place
        return f"{self._names[corpus]}:{line}" if len(self._names) > 1 else f"{self.unit} {line}"

    def format_lines(self, first: SentencePair, last: SentencePair) -> str:
        """`lines 3 to 12`, or where there are several corpora `lines 3 to 12 of web.tsv`."""
        of = f" of {self.corpus_names[first.corpus]}" if len(self.corpora) > 1 else ""
        return f"{self.unit}s {first.line:,} to {last.line:,}{of}"

    def sha256(self) -> str:
        """Of all files: `sha256_of` those of one corpus, or a hash of these hashes."""
        found = [one.sha256 for one in self.sets]
        return found[0] if len(found) == 1 else hashlib.sha256(" ".join(found).encode()).hexdigest()

    def read(self, on_bad_line: str | None = None) -> Iterator[SentencePair]:
        """The normalized pairs of all corpora, repetitions too. Raises DataError as `read_pairs` does."""
        for one in self.sets:
            yield from one.rewritten(
                read_pairs(one.files, one.columns, on_bad_line or one.on_bad_line, corpus=one.corpus)
            )

    def read_raw(self, reports: list[CorpusReport] | None = None) -> Iterator[SentencePair]:
        """The pairs as they are in their files, without those that are not UTF-8. `reports` gets one for each corpus."""
        for one in self.sets:
            report = CorpusReport()
            if reports is not None:
                reports.append(report)
            yield from one.rewritten(read_raw_pairs(one.files, one.columns, "skip", report, one.corpus))

    def table(self, rows: Iterable[tuple[str, SentencePair]]) -> Iterator[str]:
        """A table of pairs and reasons; of several corpora, or with words, also their numbers and names. What a spreadsheet
        takes for a formula gets an apostrophe."""
        is_one = len(self._names) == 1
        yield f"line\treason\tsource\ttarget{'' if is_one else _CORPUS_COLUMNS}\n"
        for said, pair in rows:
            own = "" if is_one else f"\t{pair.corpus + 1}\t{self._names[pair.corpus]}"
            src, tgt = (f"'{text}" if text.startswith(("=", "+", "-", "@")) else text for text in pair[:2])
            yield f"{pair.line}\t{said}\t{src}\t{tgt}{own}\n"


def places_in_table(rows: Iterator[str]) -> set[Place]:
    """Of the pairs of a table that `TrainingText.table` gave. Raises ValueError for another one."""
    if not (header := next(rows, "")):
        raise ValueError("empty")
    has_corpus = header.endswith(f"{_CORPUS_COLUMNS}\n")
    cells = (row.split("\t") for row in rows)
    return {(int(row[4]) - 1 if has_corpus else 0, int(row[0])) for row in cells}


def columns_of(files: Sequence[str], data: DataConfig, columns: str | None) -> str | None:
    """What names source and target in a memory is their languages."""
    return f"{data.src_lang},{data.tgt_lang}" if len(files) == 1 and is_memory(files[0]) else columns


def refuse_exchanged(data: DataConfig) -> None:
    """Raises UsageError for text whose names or header say exactly the opposite of src_lang and tgt_lang; and as
    `find_layout`."""
    for pair in data.directions:
        for one in TrainingText(pair).all_sets:
            refuse_exchanged_files(one.files, one.columns, (pair.src_lang, pair.tgt_lang))


def refuse_exchanged_files(files: Sequence[str], columns: str | None, languages: tuple[str, str]) -> None:
    """The same for the two files, or the table, of a set."""
    found: tuple[str | None, str | None] | None = None  # of a file that is missing, which is named where it is read
    said = advice = ""
    if len(files) == 2:
        found, said, advice = languages_of_files(*files), "by their names", "exchange the two, or rename them"
    elif Path(files[0]).is_file():
        from mt_cli.data.tables import find_layout, format_columns_option  # here, because most text has no columns

        layout = find_layout(Path(files[0]), columns)
        found, said = layout.languages, "by its header"
        advice = f"choose the columns with {format_columns_option(*layout.columns[::-1])}"
    codes = [language(code or "") for code in found or ()]
    if codes == [language(languages[1]), language(languages[0])] and codes[0] != codes[1]:
        named = f"{' '.join(files)}: {said} source {codes[0]} and target {codes[1]}"
        raise UsageError(f"{named}, expected source {languages[0]} and target {languages[1]}; {advice}")


def refuse_missing_files(data: DataConfig, at: str, is_trained: bool) -> list[str]:
    """What is wrong with the files that a language pair names; `at`: before the names of their keys. Test sets and
    monolingual text are read before the first checkpoint only."""
    text, problems = TrainingText(data), list[str]()
    named = {one.key: one.files for one in text.all_sets if not (is_trained and one.key.startswith("test."))}
    if data.monolingual is not None and not is_trained:
        named |= {"monolingual.tgt": data.monolingual.tgt, "monolingual.src": data.monolingual.src or []}
    for key, files in named.items():
        for path in map(Path, files):
            if not path.is_file():
                found = "is not a regular file" if path.exists() else "no such file"
                problems.append(f"{path}: {found}; check data.{at}{key} (paths are relative to where mt is started)")
            elif key.startswith("monolingual") and any(Path(one).exists() and path.samefile(one) for one in text.files):
                advice = f"give data.{at}{key} text that is not translated yet"
                problems.append(f"{path} is a file of data.train, too; {advice}")
        if len(files) == 2 and all(Path(file).is_file() for file in files) and Path(files[0]).samefile(files[1]):
            problems.append(f"{files[0]} and {files[1]} are the same file; check data.{at}{key}")
    return problems
