"""Looks a corpus through before a model is trained on it: what it has, what is wrong with it, which pairs a person would drop.

The files are read first to learn what is usual in them, then to judge each pair by that; `check` reads them a third time,
to compare the sides, and where the dev set has another spelling they are read once more. Of a pair two hashes and a byte
are remembered, so that the memory for twenty million pairs stays below a gigabyte.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np

from mt_cli.checking.alignment import Alignment, Misaligned
from mt_cli.checking.faults import FaultFinder, Kind
from mt_cli.checking.report import Example, Finding, Report, SideFacts, Tally
from mt_cli.checking.sets import HeldOut, compare, folded_words, normalized
from mt_cli.checking.spelling import SpellingCounter, other_spelling_findings
from mt_cli.checking.statistics import CorpusStatistics, Sample, cut
from mt_cli.config import Config, DataConfig
from mt_cli.data.corpora import TrainingText, refuse_exchanged
from mt_cli.data.corpus import CorpusReport, SentencePair, UnequalLinesError, read_raw_pairs
from mt_cli.data.spelling import (
    AS_IT_IS,
    CharacterCounter,
    CharacterCounters,
    count_characters,
    other_spelling,
    respelled,
)
from mt_cli.errors import ConfigError, DataError

_MANY_COMMON_WORDS = 0.45  # where a third of the words are borrowed, as in spoken Guarani, it is 0.32
_FEW_TEXTS, _TOO_FEW_TEXTS = 1_000, 100
_ALIGNED_AT_ONCE = 200_000  # consecutive pairs that are compared with each other: bounds memory


class ReadCorpus(NamedTuple):
    """The normalized pairs of a corpus that was read already."""

    read_train: Callable[[], Iterator[SentencePair]]  # begins anew whenever it is called
    held_out: dict[str, list[SentencePair]]  # the dev set and the test sets, by name
    characters: CharacterCounters | None = None  # of all that no machine translated, where they were counted already
    has_parent: bool = False  # whether the network has learnt from other text before


def check(data: Config | DataConfig, corpus: ReadCorpus | None = None) -> Report:
    """What is to be known of a corpus before it is trained on. `corpus`: its pairs, where they were read already.

    Raises DataError for files that are no parallel text.
    """
    if isinstance(data, Config):
        if len(data.data.directions) > 1:
            raise ConfigError("a config of several language pairs; check each of config.data.directions")
        data = data.data.directions[0]
    try:
        report = quick_check(data, corpus)
    except UnequalLinesError as error:
        raise DataError(f"{error}{_first_misaligned(error.files)}") from None
    report.findings += _alignment_findings(report)
    return report


def quick_check(data: DataConfig, corpus: ReadCorpus | None = None) -> Report:
    """`check` without the search for shifted stretches and wrong partners, which takes most of its time."""
    text, reading = TrainingText(data), list[CorpusReport]()
    read: Callable[[], Iterator[SentencePair]]
    if corpus is None:
        refuse_exchanged(data)
        sets, read, passing = _read_sets(data, text), text.read_raw, text.read_raw(reading)
    else:
        sets = [HeldOut(name, pairs, format_place=text.format_place) for name, pairs in corpus.held_out.items()]
        read, passing = corpus.read_train, corpus.read_train()
    survey = _Survey(text, sets, corpus and corpus.characters)
    for raw in passing:
        survey.add(raw)
    if not survey.n_read:
        raise DataError(
            f"{text.files[0]}: no line that can be read; give a file with a sentence on each line, as UTF-8"
        )
    spellings = AS_IT_IS
    for dev in (one for one in sets if one.name == "dev"):
        of_dev = CharacterCounter(pair.src for pair in dev.pairs), CharacterCounter(pair.tgt for pair in dev.pairs)
        spellings = other_spelling(survey.characters[0], of_dev[0]), other_spelling(survey.characters[1], of_dev[1])
    trained_spellings = spellings if data.spelling == "dev" else AS_IT_IS
    if any(trained_spellings):  # words that dev writes otherwise are known to who trains with its spelling
        for pair in respelled(map(normalized, read()), trained_spellings):
            compare(sets, pair, folded_words(pair))

    statistics = CorpusStatistics(survey.sample.pairs)
    finder, tally = FaultFinder(statistics, data.src_lang, data.tgt_lang), Tally(text=text)
    raw_pairs = islice(read(), survey.n_read)  # a file may grow meanwhile
    bad = [SentencePair("", "", line, corpus) for corpus, one in enumerate(reading) for line in one.bad_lines]
    _add_faults(tally, finder, raw_pairs, bad, survey.repetitions())
    n_lines = sum(one.n_pairs for one in reading) or survey.n_read
    facts = survey.facts(0, data.src_lang), survey.facts(1, data.tgt_lang)
    findings = list(survey.findings(len(bad)))
    if (share := statistics.common_words) > _MANY_COMMON_WORDS and not finder.is_one_language:
        findings.append(Finding.of(Kind.SAME_WORDS, round(share * facts[0].n_words), share))
    findings += tally.findings(n_lines)
    findings += other_spelling_findings(spellings, survey.characters, data.spelling)
    findings += survey.spellings.findings(n_lines, text, trained_spellings)
    for one in sets:
        of_set = Tally(one.name)
        _add_faults(of_set, finder, one.raw_pairs, [SentencePair("", "", line) for line in one.bad_lines], {})
        findings += of_set.findings(len(one.raw_pairs) + len(one.bad_lines))
        findings += one.findings(statistics, has_parent=corpus is not None and corpus.has_parent)
    notes = [note for one in reading for note in one.notes]
    return Report(text, notes, n_lines, survey.n_distinct, facts, findings, tally.dropped, read, spellings)


def _add_faults(
    tally: Tally,
    finder: FaultFinder,
    raw_pairs: Iterable[SentencePair],
    bad_pairs: Iterable[SentencePair],
    repetitions: dict[Kind, bytes],
) -> None:
    """`bad_pairs`: that are not UTF-8. `repetitions`: what `_Survey.repetitions` gave."""
    for pair in bad_pairs:
        tally.add(Kind.NOT_UTF8, pair)
    for index, raw in enumerate(raw_pairs):
        pair = normalized(raw)
        kinds = [*finder.faults(pair), *finder.faults_of_characters(raw)]
        if Kind.EMPTY not in kinds:
            kinds = [kind for kind, flags in repetitions.items() if flags[index]] + kinds
        for kind in kinds:
            tally.add(kind, pair)


def _read_sets(data: DataConfig, text: TrainingText) -> list[HeldOut]:
    """The dev and test sets."""
    found = list[HeldOut]()
    for name, files in {**({"dev": data.dev} if data.dev else {}), **data.test}.items():
        reading = CorpusReport()
        pairs = list(read_raw_pairs(files, columns=data.columns, on_bad_line="skip", report=reading))
        found.append(HeldOut(name, pairs, reading.bad_lines, text.format_place))
        if not found[-1].pairs:
            raise DataError(f"{files[0]}: no pair with text on both sides; give a file with a sentence on each line")
    return found


class _Survey:
    """What is counted of the training pairs while they pass for the first time."""

    def __init__(self, text: TrainingText, sets: list[HeldOut], characters: CharacterCounters | None):
        self._sets, self._is_synthetic = sets, [corpus.synthetic for corpus in text.corpora]
        self.sample, self.spellings = Sample(), SpellingCounter()
        self.characters = characters or (CharacterCounter(), CharacterCounter())
        self._counts_characters = characters is None
        self._hashes = array("Q"), array("Q")  # of the texts of either side
        self._n_words: tuple[Counter[int], Counter[int]] = (Counter(), Counter())  # lines of each length
        self._n_characters = [0, 0]

    def add(self, raw: SentencePair) -> None:
        self.spellings.add(raw)
        pair = normalized(raw)
        pair_words = folded_words(pair)
        for side in (0, 1):
            self._hashes[side].append(hash(pair[side]) % 2**64)
            self._n_words[side][len(pair_words[side])] += 1
            self._n_characters[side] += len(pair[:2][side])
        if self._counts_characters and not self._is_synthetic[pair.corpus]:
            count_characters(self.characters, pair)
        if pair.src and pair.tgt:
            self.sample.add(pair)
            compare(self._sets, pair, pair_words)

    @property
    def n_read(self) -> int:
        return len(self._hashes[0])

    def repetitions(self) -> dict[Kind, bytes]:
        """For each pair in order whether it stands further up already; whether its source has several targets."""
        sources, targets = (np.frombuffer(hashes, dtype=np.uint64) for hashes in self._hashes)
        pairs = sources * np.uint64(0x9E3779B97F4A7C15) + targets
        is_first = np.zeros(len(pairs), dtype=bool)
        is_first[np.unique(pairs, return_index=True)[1]] = True
        self.n_distinct = int(is_first.sum())
        found, counts = np.unique(sources[is_first], return_counts=True)
        self.n_distinct_texts = min(len(found), len(np.unique(targets)))
        has_others = np.isin(sources, found[counts > 1]) & is_first
        return {Kind.REPEATED: (~is_first).tobytes(), Kind.OTHER_TARGET: has_others.tobytes()}

    def facts(self, side: int, code: str) -> SideFacts:
        counts = self._n_words[side]
        lengths, n_lines = np.array(sorted(counts.items())).T
        up_to = np.cumsum(n_lines)
        median, most = (int(lengths[np.searchsorted(up_to, share * up_to[-1])]) for share in (0.5, 0.95))
        return SideFacts(code, int(lengths @ n_lines), self._n_characters[side], median, most, int(lengths[-1]))

    def findings(self, n_bad_lines: int) -> Iterator[Finding]:
        """Of lines that cannot be read nothing is known until they are mended."""
        n_texts = self.n_distinct_texts + n_bad_lines
        if n_texts < _FEW_TEXTS:
            is_hopeless = n_texts < _TOO_FEW_TEXTS
            yield Finding.of(Kind.TOO_FEW, self.n_distinct_texts, 0.0, severity="fatal" if is_hopeless else None)


# Alignment -----------------------------------------------------------------------------------------------------------


def _first_misaligned(files: tuple[str, str]) -> str:
    """From which line on two files of unequal length no longer belong together; '' where that cannot be seen."""
    pairs = list[SentencePair]()
    with suppress(UnequalLinesError):
        raw_pairs = read_raw_pairs([*files], on_bad_line="skip", report=CorpusReport())
        pairs.extend(islice(map(normalized, raw_pairs), _ALIGNED_AT_ONCE))
    shifted = [one for one in Alignment(pairs).stretches if one.shift is not None and one.last >= len(pairs) - 10]
    return f"; from about line {pairs[shifted[0].first].line:,} on they no longer belong together" if shifted else ""


def _alignment_findings(report: Report) -> Iterator[Finding]:
    """Stretches of lines that are shifted, and pairs that are no translations, by words learnt from the corpus. Their lines
    are added to the report's dropped ones."""
    tally = Tally(text=report.text, dropped=report.dropped)
    for chunk in _chunks(map(cut, map(normalized, report.read()))):
        alignment = Alignment(chunk)
        for stretch in alignment.stretches:
            yield (finding := _stretch_finding(chunk, stretch, report))
            for pair in chunk[stretch.first : stretch.last + 1]:
                report.dropped.add(pair.place, finding.kind)
        for index in alignment.wrong_partners():
            tally.add(Kind.WRONG_PARTNER, chunk[index])
    yield from tally.findings(report.n_pairs)


def _chunks(pairs: Iterator[SentencePair]) -> Iterator[list[SentencePair]]:
    """Consecutive pairs of one corpus."""
    for _, of_corpus in groupby(pairs, lambda pair: pair.corpus):
        while chunk := list(islice(of_corpus, _ALIGNED_AT_ONCE)):
            yield chunk


def _stretch_finding(chunk: list[SentencePair], stretch: Misaligned, report: Report) -> Finding:
    first, last, shift = stretch
    n_pairs, examples = last - first + 1, tuple(Example.of(pair, report.text) for pair in chunk[first : last + 1][:2])
    share, lines = n_pairs / report.n_pairs, report.text.format_lines(chunk[first], chunk[last])
    if shift is None:
        return Finding.of(Kind.UNRELATED, n_pairs, share, examples, lines=lines)
    return Finding.of(Kind.SHIFTED, n_pairs, share, examples, lines=lines, distance=abs(shift), shift=shift)
