"""Looks a corpus through before a model is trained on it: what it has, what is wrong with it, which lines a person would
drop.

The files are read first to learn what is usual in them, then to judge each pair by that; `check` reads them a third time,
to compare the sides, and where the dev set has another spelling they are read once more. Of a pair two hashes and a byte
are remembered, so that the memory for twenty million pairs stays below a gigabyte.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from mt_cli.checking.findings import Dropped, Finding, Kind, Report, SideFacts, Tally
from mt_cli.checking.pairs import EMPTY, OTHER_TARGET, REPEATED, PairFaults
from mt_cli.checking.sets import HeldOut
from mt_cli.checking.signs import NOT_UTF8, SignFaults, SpellingCounter, spelling_findings
from mt_cli.checking.usual import OVER_LONG_FROM, Sample, Usual
from mt_cli.config import DataConfig
from mt_cli.data.corpora import Told, TrainingText, corpus_of
from mt_cli.data.corpus import CorpusReport, SentencePair, UnequalLinesError, normalize, read_raw_pairs
from mt_cli.data.languages import language
from mt_cli.data.similarity import letters
from mt_cli.data.spelling import AS_IT_IS, SignCounter, Signs, count_signs, other_spelling, respelled
from mt_cli.data.words import words
from mt_cli.errors import DataError

if TYPE_CHECKING:
    from mt_cli.checking.alignment import Misaligned

STRETCH = Kind(
    "shifted", "", "Look at the first line named: a line was lost or added there in one file. Mend it, or train with --clean.",
    is_dropped=True, fatal_share=0.5,
)  # fmt: skip
WRONG_PARTNER = Kind(
    "wrong_partner", "source and target seem to have nothing to do with each other",
    "Look at these lines; drop those that are no translations.", is_dropped=True, fatal_share=0.5,
)  # fmt: skip
TOO_FEW = Kind(
    "too_few", "different sentences on one of the sides; it takes thousands to learn a language",
    "Collect more: from some 3,000 pairs on a translator of simple sentences can be learnt.",
)  # fmt: skip

SAME_WORDS = Kind(
    "same_words", "words that stand on both sides; perhaps both are in one language",
    "Look whether both files are what you take them for, and whether the targets are translated.", fatal_share=0.9,
)  # fmt: skip

_MANY_COMMON_WORDS = 0.45  # where a third of the words are borrowed, as in spoken Guarani, it is 0.32
_FEW_TEXTS, _TOO_FEW_TEXTS = 1_000, 100
_MAX_COUNTED = 100_000  # characters of a line whose words are counted: a file without line ends is one line
_ALIGNED_AT_ONCE = 200_000  # consecutive pairs that are compared with each other: bounds memory


class ReadCorpus(NamedTuple):
    """The normalized pairs of a corpus that was read already."""

    read_train: Callable[[], Iterator[SentencePair]]  # begins anew whenever it is called
    held_out: dict[str, list[SentencePair]]  # the dev set and the test sets, by name
    signs: Signs  # of all that no machine translated


def check(data: DataConfig, corpus: ReadCorpus | None = None) -> Report:
    """What is to be known of the corpus before it is trained on. `corpus`: its pairs, where they were read already.

    Raises DataError for files that are no parallel text.
    """
    try:
        report = quick_check(data, corpus)
    except UnequalLinesError as error:
        raise DataError(f"{error}{_where_they_part(error.files)}") from None
    report.findings += _alignment_findings(report)
    return report


def quick_check(data: DataConfig, corpus: ReadCorpus | None = None) -> Report:
    """`check` without the search for shifted stretches and wrong partners, which takes most of its time."""
    text = TrainingText(data)
    read: Callable[..., Iterator[SentencePair]] = text.read_raw
    if corpus is None:
        held_out = _read_held_out(data, text.told)
    else:
        read = lambda report=None: corpus.read_train()  # noqa: E731
        held_out = [(HeldOut(name, pairs, text.told), pairs, []) for name, pairs in corpus.held_out.items()]
    survey = _Survey(text, [one for one, *_ in held_out], read, corpus and corpus.signs)
    usual, dropped = survey.usual(), Dropped()
    facts = [survey.facts(side, code) for side, code in enumerate((data.src_lang, data.tgt_lang))]
    pair_faults = PairFaults(usual, language(data.src_lang), language(data.tgt_lang))
    sign_faults = SignFaults(usual)
    tally = Tally()
    for index, raw in enumerate(islice(read(), survey.n_read)):  # a file may grow meanwhile
        pair = _normalized(raw)
        kinds = [*pair_faults.faults(pair), *sign_faults.faults(raw)]
        if EMPTY not in kinds:
            kinds = [kind for kind, flags in survey.flags.items() if flags[index]] + kinds
        for kind in kinds:
            tally.add(kind, pair)
            if kind.is_dropped:
                dropped.add(pair.line, kind.name)
    findings = survey.findings(dropped)
    if usual.common_words > _MANY_COMMON_WORDS and not pair_faults.is_one_language:
        findings.append(Finding.of(SAME_WORDS, round(usual.common_words * facts[0].n_words), usual.common_words))
    findings += tally.findings(survey.n_lines, "train")
    spellings = AS_IT_IS
    for dev in (one for one, *_ in held_out if one.name == "dev"):
        signs = SignCounter(pair.src for pair in dev.pairs), SignCounter(pair.tgt for pair in dev.pairs)
        spellings = other_spelling(survey.signs[0], signs[0]), other_spelling(survey.signs[1], signs[1])
    findings += spelling_findings(spellings, survey.signs, data.spelling)
    settled = spellings if data.spelling == "dev" else AS_IT_IS
    if any(settled):  # words that dev writes otherwise are known to who trains with its spelling
        for pair in respelled(map(_normalized, read()), settled):
            _look([one for one, *_ in held_out], pair, _words_of(pair))
    findings += survey.spellings.findings(survey.n_lines, "train", settled)
    for one, raw_pairs, bad_lines in held_out:
        findings += _judge(one, raw_pairs, bad_lines, pair_faults, sign_faults) + one.findings(usual)
    return Report(
        text,
        survey.notes,
        survey.n_lines,
        survey.n_distinct,
        (facts[0], facts[1]),
        findings,
        dropped,
        read,
        spellings,
    )


def _where_they_part(files: tuple[str, str]) -> str:
    """From which line on two files of unequal length no longer belong together; '' where that cannot be told."""
    from mt_cli.checking.alignment import Alignment

    pairs = list[SentencePair]()
    with suppress(UnequalLinesError):
        pairs.extend(islice(map(_normalized, _read([*files])), _ALIGNED_AT_ONCE))
    shifted = [one for one in Alignment(pairs).stretches if one.shift is not None and one.last >= len(pairs) - 10]
    return f"; from about line {pairs[shifted[0].first].line:,} on they no longer belong together" if shifted else ""


def _read(files: list[str], columns: str | None = None, report: CorpusReport | None = None) -> Iterator[SentencePair]:
    return read_raw_pairs(files, columns=columns, on_bad_line="skip", report=report or CorpusReport())


def _normalized(pair: SentencePair) -> SentencePair:
    return SentencePair(normalize(pair.src), normalize(pair.tgt), pair.line)


def _read_held_out(data: DataConfig, told: Told) -> list[tuple[HeldOut, list[SentencePair], Sequence[int]]]:
    """The dev and test sets, each with its pairs as they are in its files, and the lines that are not UTF-8."""
    sets = {"dev": data.dev, **data.test} if data.dev else dict(data.test)
    found = list[tuple[HeldOut, list[SentencePair], Sequence[int]]]()
    for name, files in sets.items():
        reading = CorpusReport()
        raw_pairs = list(_read(files, data.columns, reading))
        pairs = [pair for pair in map(_normalized, raw_pairs) if pair.src and pair.tgt]
        if not pairs:
            raise DataError(f"{files[0]}: no pair with text on both sides; give a file with a sentence on each line")
        found.append((HeldOut(name, pairs, told), raw_pairs, reading.bad_lines))
    return found


def _words_of(pair: SentencePair) -> tuple[list[str], list[str]]:
    return words(pair.src[:_MAX_COUNTED].casefold()), words(pair.tgt[:_MAX_COUNTED].casefold())


def _look(held_out: list[HeldOut], pair: SentencePair, pair_words: tuple[list[str], list[str]]) -> None:
    """Lets the dev and test sets see a training pair."""
    if held_out:
        keys = letters(pair.src), letters(pair.tgt)
        for one in held_out:
            one.look(pair, pair_words, keys)


def _judge(
    held_out: HeldOut,
    raw_pairs: list[SentencePair],
    bad_lines: Sequence[int],
    pair_faults: PairFaults,
    sign_faults: SignFaults,
) -> list[Finding]:
    """The faults of single pairs of a dev or test set, by what is usual in training."""
    tally = Tally()
    for line in bad_lines:
        tally.add(NOT_UTF8, SentencePair("", "", line))
    for raw in raw_pairs:
        pair = _normalized(raw)
        for kind in (*pair_faults.faults(pair), *sign_faults.faults(raw)):
            tally.add(kind, pair)
    return tally.findings(len(raw_pairs) + len(bad_lines), held_out.name)


class _Survey:
    """What is counted of the training pairs while they pass for the first time."""

    def __init__(
        self,
        text: TrainingText,
        held_out: list[HeldOut],
        read: Callable[..., Iterator[SentencePair]],
        signs: Signs | None,
    ):
        """`signs`: where they were counted already."""
        reading = CorpusReport()
        self._sample, self._hashes = Sample(), (array("Q"), array("Q"))  # of the texts of either side
        self._n_words: tuple[Counter[int], Counter[int]] = (Counter(), Counter())  # lines of each length
        self._n_characters = [0, 0]
        self.spellings, self.signs = SpellingCounter(), signs or (SignCounter(), SignCounter())
        self._has_signs, self._is_synthetic = signs is not None, [corpus.synthetic for corpus in text.corpora]
        for raw in read(report=reading):
            self.spellings.add(raw)
            self._count(_normalized(raw), held_out)
        self.n_lines = reading.n_pairs or self.n_read
        self.notes, self._bad_lines = reading.notes, reading.bad_lines
        if not self.n_read:
            raise DataError(
                f"{text.files[0]}: no line that can be read; give a file with a sentence on each line, as UTF-8"
            )
        self.flags = self._find_repetitions()

    def _count(self, pair: SentencePair, held_out: list[HeldOut]) -> None:
        self._hashes[0].append(hash(pair.src) % 2**64)
        self._hashes[1].append(hash(pair.tgt) % 2**64)
        src_words, tgt_words = _words_of(pair)
        self._n_words[0][len(src_words)] += 1
        self._n_words[1][len(tgt_words)] += 1
        self._n_characters[0] += len(pair.src)
        self._n_characters[1] += len(pair.tgt)
        if not self._has_signs and not self._is_synthetic[corpus_of(pair.line)]:
            count_signs(self.signs, pair)
        if pair.src and pair.tgt:
            self._sample.add(pair)
            _look(held_out, pair, (src_words, tgt_words))

    @property
    def n_read(self) -> int:
        return len(self._hashes[0])

    def usual(self) -> Usual:
        return Usual(self._sample.pairs)

    def _find_repetitions(self) -> dict[Kind, bytes]:
        """For each pair in order whether it stands further up already; whether its source has several targets."""
        import numpy as np  # here, because the command line starts without numpy

        sources, targets = (np.frombuffer(hashes, dtype=np.uint64) for hashes in self._hashes)
        pairs = sources * np.uint64(0x9E3779B97F4A7C15) + targets
        is_first = np.zeros(len(pairs), dtype=bool)
        is_first[np.unique(pairs, return_index=True)[1]] = True
        self.n_distinct = int(is_first.sum())
        found, counts = np.unique(sources[is_first], return_counts=True)
        self.n_distinct_texts = min(len(found), len(np.unique(targets)))
        has_others = np.isin(sources, found[counts > 1]) & is_first
        return {REPEATED: (~is_first).tobytes(), OTHER_TARGET: has_others.tobytes()}

    def facts(self, side: int, code: str) -> SideFacts:
        counts = self._n_words[side]
        n_words = sum(length * n for length, n in counts.items())
        median, most = (_quantile(counts, share) for share in (0.5, 0.95))
        return SideFacts(code, n_words, self._n_characters[side], median, most, max(counts))

    def findings(self, dropped: Dropped) -> list[Finding]:
        """What the counts show. Lines that could not be read are dropped."""
        found = []
        n_texts = self.n_distinct_texts + len(self._bad_lines)  # of these nothing is known until they are mended
        if n_texts < _FEW_TEXTS:
            kind = replace(TOO_FEW, fatal_share=0.0) if n_texts < _TOO_FEW_TEXTS else TOO_FEW
            found.append(Finding.of(kind, self.n_distinct_texts, 0.0))
        if self._bad_lines:
            tally = Tally()
            for line in self._bad_lines:
                tally.add(NOT_UTF8, SentencePair("", "", line))
                dropped.add(line, NOT_UTF8.name)
            found += tally.findings(self.n_lines, "train")
        return found


def _quantile(counts: Counter[int], share: float) -> int:
    """The least length that so many of the lines do not exceed."""
    n_left = share * counts.total()
    for length, n in sorted(counts.items()):
        n_left -= n
        if n_left <= 0:
            return length
    return max(counts)


# Alignment -----------------------------------------------------------------------------------------------------------


def _alignment_findings(report: Report) -> list[Finding]:
    """Stretches of lines that are shifted, and pairs that are no translations, by words learnt from the corpus. Their lines
    are added to the report's dropped ones."""
    from mt_cli.checking.alignment import Alignment

    found, tally = [], Tally()
    for chunk in _chunks(map(_shortened, map(_normalized, report.read()))):
        alignment, n_of_words = Alignment(chunk), list[Counter[str]]()
        for stretch in alignment.stretches:
            if stretch.shift is None:
                n_of_words = n_of_words or [_count_words(chunk, 0), _count_words(chunk, 1)]
            found.append(_stretch_finding(chunk, stretch, n_of_words, report))
            for pair in chunk[stretch.first : stretch.last + 1]:
                report.dropped.add(pair.line, STRETCH.name)
        for index in alignment.wrong_partners():
            tally.add(WRONG_PARTNER, chunk[index])
            report.dropped.add(chunk[index].line, WRONG_PARTNER.name)
    return found + tally.findings(report.n_pairs, "train")


def _chunks(pairs: Iterator[SentencePair]) -> Iterator[list[SentencePair]]:
    """Consecutive pairs of one corpus."""
    for _, of_corpus in groupby(pairs, lambda pair: corpus_of(pair.line)):
        while chunk := list(islice(of_corpus, _ALIGNED_AT_ONCE)):
            yield chunk


def _shortened(pair: SentencePair) -> SentencePair:
    """A chunk holds many pairs, and the sides are compared by their first words."""
    return SentencePair(pair.src[:OVER_LONG_FROM], pair.tgt[:OVER_LONG_FROM], pair.line)


def _stretch_finding(
    chunk: list[SentencePair], stretch: Misaligned, n_of_words: list[Counter[str]], report: Report
) -> Finding:
    """`n_of_words`: how often either side of the chunk has each word."""
    pairs, shift = chunk[stretch.first : stretch.last + 1], stretch.shift
    near = chunk[max(0, stretch.first - _BORDER) : stretch.last + 1 + _BORDER]
    where = report.text.told_lines(pairs[0].line, pairs[-1].line)
    if shift is None:
        what = f"{where} do not belong together, and their targets stand nowhere near"
        for side, name in enumerate(("source", "target")):
            if _share_of_new_words(pairs, near, n_of_words[side], side) > _MOSTLY_NEW:
                what += f"; most words of the {name} stand nowhere else: it may be another language"
        advice = "Look for the right text of these lines, or delete them in both files, or train with --clean."
        kind = replace(STRETCH, what=what, advice=advice)
    else:
        what = f"{where} are shifted by {abs(shift)}: the target of line n stands in line n{shift:+}"
        kind = replace(STRETCH, what=what)
    tally = Tally()
    for pair in pairs[:2]:
        tally.add(kind, pair)
    return Finding.of(kind, len(pairs), len(pairs) / report.n_pairs, tally.examples(kind))


_MOSTLY_NEW = 0.6  # share: of 100 lines of Spanish or Aymara, 19% and 43% are new to 1,350 others
_BORDER = 50  # lines that may belong to a stretch, too


def _share_of_new_words(
    pairs: list[SentencePair], near: list[SentencePair], n_of_words: Counter[str], side: int
) -> float:
    """Of the running words on a side, those that stand nowhere else than `near`."""
    own, found = _count_words(near, side), _count_words(pairs, side)
    if own.total() == n_of_words.total():
        return 0.0
    return sum(n for word, n in found.items() if own[word] == n_of_words[word]) / max(1, found.total())


def _count_words(pairs: list[SentencePair], side: int) -> Counter[str]:
    return Counter(word for pair in pairs for word in words(pair[:2][side].casefold()))
