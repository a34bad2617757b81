"""Looks a corpus through before a model is trained on it. It is read to learn what is usual, then to judge each pair, by
`check` once more to compare the sides. Two hashes and a byte are kept of a pair."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice, repeat
from typing import Any, Literal, NamedTuple

import numpy as np

from mt_cli.checking.alignment import Alignment
from mt_cli.checking.faults import FaultFinder, Kind, Sample, Severity, cut
from mt_cli.checking.report import Finding, Report, SideFacts, findings_of
from mt_cli.config import Config, DataConfig
from mt_cli.data.corpus import (
    CorpusReport,
    FormatPlace,
    Place,
    SentencePair,
    TrainingText,
    UnequalLinesError,
    read_raw_pairs,
    refuse_exchanged,
)
from mt_cli.data.normalize import normalize, words
from mt_cli.data.spelling import (
    APOSTROPHES,
    AS_IT_IS,
    CharacterCounts,
    Spellings,
    count_characters,
    format_spelling,
    other_spelling,
    respelled,
)
from mt_cli.data.split import letters
from mt_cli.errors import ConfigError, DataError

SIDES = ("source", "target")
_VARIANTS = {"apostrophe": APOSTROPHES, "hyphen": "-\u2010\u2011"}
_LEAST = 5  # times that the second spelling occurs: then there is something to decide
_MANY_NEAR = 0.1  # share of the set: captions and phrases have a few short ones by nature
_MAX_COUNTED = 100_000  # characters of a line whose words are counted: a file without line ends is one line


def normalized(pair: SentencePair) -> SentencePair:
    return pair._replace(src=normalize(pair.src), tgt=normalize(pair.tgt))


def compare(sets: list[HeldOut], pair: SentencePair, is_like_use: bool = True) -> list[list[str]]:
    """Shows a normalized training pair to the sets; returns the words of either side, case-folded. Of a corpus that is not
    `is_like_use`, what the sets have is left out of training."""
    pair_words = [words(text[:_MAX_COUNTED].casefold()) for text in pair[:2]]
    if sets and pair.src and pair.tgt:
        keys = (letters(pair.src), letters(pair.tgt)) if is_like_use else None
        for one in sets:
            one.look(pair, pair_words, keys)
    return pair_words


class HeldOut:
    """A dev or test set, compared with the training pairs as these pass. Memory grows with the set, not with training."""

    def __init__(self, name: str, raw_pairs: list[SentencePair], bad_lines: Sequence[int] = ()):
        """`bad_lines`: that are not UTF-8."""
        self.name, self.raw_pairs, self.bad_lines = name, raw_pairs, bad_lines
        self.pairs = [pair for pair in map(normalized, raw_pairs) if pair.src and pair.tgt]
        self._texts = [pair.src for pair in self.pairs], [pair.tgt for pair in self.pairs]
        self._words = [[word for text in texts for word in words(text.casefold())] for texts in self._texts]
        self._new_words, self._new_characters = list(map(set, self._words)), [set("".join(one)) for one in self._texts]
        self._keys = [[letters(text) for text in texts] for texts in self._texts]
        # The first place in training of each pair, and of what is equal to a side of one but for case and punctuation.
        self._exact: dict[tuple[str, ...], Place | None] = {pair[:2]: None for pair in self.pairs}
        self._near: list[dict[str, Place | None]] = [dict.fromkeys(filter(None, keys)) for keys in self._keys]

    def look(self, pair: SentencePair, pair_words: list[list[str]], keys: tuple[str, str] | None) -> None:
        """Remembers what of the set this normalized training pair has. `keys`: what `letters` gave; None where only the
        words count."""
        if keys is not None:
            self.look_for_pair(pair)
        for side, text in enumerate(pair[:2]):
            if keys is not None and self._near[side].get(keys[side], pair.place) is None:
                self._near[side][keys[side]] = pair.place
            if self._new_words[side]:
                self._new_words[side].difference_update(pair_words[side])
            if self._new_characters[side]:
                self._new_characters[side].difference_update(text)

    def look_for_pair(self, pair: SentencePair) -> None:
        """The part of `look` that costs nearly nothing: whether the set has this very pair."""
        key = pair.src, pair.tgt.replace("\u00a0", " ").replace("\u202f", " ")  # a copy of the corpus keeps these
        if self._exact.get(key, pair.place) is None:
            self._exact[key] = pair.place

    def findings(self, finder: FaultFinder, has_parent: bool, format_place: FormatPlace) -> Iterator[Finding]:
        """Once all training pairs have passed. A network that `has_parent` knows words and characters of other text."""
        found: dict[Kind, list[tuple[SentencePair, Place]]] = {Kind.IN_TRAINING: [], Kind.NEAR_TRAINING: []}
        for pair, *keys in zip(self.pairs, *self._keys, strict=True):
            near = [places.get(key) for places, key in zip(self._near, keys, strict=True)]
            if place := self._exact[pair[:2]]:
                found[Kind.IN_TRAINING].append((pair, place))
            elif place := near[0] or near[1]:
                found[Kind.NEAR_TRAINING].append((pair, place))
        for kind, places in found.items():
            shown = (pair._replace(src=f"(train {format_place(place)}) {pair.src}") for pair, place in places)
            share = len(places) / len(self.pairs)
            if places:
                yield Finding.of(kind, len(places), share, shown, self.name, "warning" if share >= _MANY_NEAR else None)
        if has_parent:
            return
        shares, n_unknown, is_unlike = [], 0, False  # how far the set is from training, by its words
        for side, name in enumerate(SIDES):
            new, texts, all_words = self._new_characters[side], self._texts[side], self._words[side]
            if counts := Counter(char for text in texts for char in text if char in new):
                most = " ".join(f"{char} (U+{ord(char):04X})" for char, _ in counts.most_common(8))
                holders = (pair for pair, text in zip(self.pairs, texts, strict=True) if not new.isdisjoint(text))
                total, share = counts.total(), counts.total() / sum(map(len, texts))
                yield Finding.of(Kind.UNKNOWN_CHARACTERS, total, share, holders, self.name, side=name, most=most)
            unknown = Counter(word for word in all_words if word in self._new_words[side])
            share, expected = unknown.total() / max(1, len(all_words)), finder.new_words(side)
            is_unlike |= share > max(1.5 * expected, expected + 0.05)
            n_unknown += unknown.total()
            often = ", most often " * bool(unknown) + ", ".join(word for word, _ in unknown.most_common(3))
            shares.append(f"{share:.0%} of its {name} words never occur there (usual: {expected:.0%}){often}")
        if n_unknown:
            details = {"like": "unlike" if is_unlike else "like", "shares": "; ".join(shares)}
            severity: Severity | None = "warning" if is_unlike else None
            share = n_unknown / sum(map(len, self._words))
            yield Finding.of(Kind.UNKNOWN_WORDS, n_unknown, share, (), self.name, severity, **details)


def spelling_findings(train: CharacterCounts, spellings: Spellings, choice: Literal["dev", "own"]) -> Iterator[Finding]:
    """`spellings`: what dev writes for characters of training. `choice`: the key data.spelling."""
    for side, spelling, counts in zip(SIDES, spellings, train, strict=True):
        others = {char: n for char in spelling if (n := counts[char])}
        if total := sum(others.values()):
            times = ", ".join(f"{format_spelling({char: spelling[char]})} ({n:,} times)" for char, n in others.items())
            share = total / counts.total()
            severity: Severity = "info" if choice == "dev" else "warning"
            yield Finding.of(Kind.OTHER_SPELLING, total, share, (), "dev", severity, side=side, spellings=times)
        for name, variants in _VARIANTS.items():
            if choice == "dev" and not set(variants).isdisjoint(spelling.values()):
                continue  # training reads it as dev writes it
            # With a space on one side only it is a quotation mark, as is a ’ that closes what ‘ has opened.
            used = Counter({char: counts[char] + counts[f" {char} "] for char in variants})
            if "’" in used:
                used["’"] = max(0, used["’"] - max(0, counts["‘"] - counts["’ "]))
            (most, n_most), (_, n_second) = used.most_common(2)
            if n_second >= _LEAST:
                n, share = used.total() - n_most, 1 - n_most / used.total()
                times = ", ".join(f"{char} (U+{ord(char):04X}) {n:,} times" for char, n in used.most_common() if n)
                yield Finding.of(Kind.TWO_SPELLINGS, n, share, side=side, character=name, spellings=times, most=most)


_MANY_COMMON_WORDS = 0.45  # where a third of the words are borrowed, as in spoken Guarani, it is 0.32
_FEW_TEXTS, _TOO_FEW_TEXTS = 1_000, 100
_FEWEST_COMPARED = 50  # pairs: fewer do not show what is usual
_ALIGNED_AT_ONCE = 200_000  # consecutive pairs that are compared with each other: bounds memory


class ReadCorpus(NamedTuple):
    """A corpus that was read already."""

    read_train: Callable[[], Iterator[SentencePair]]  # begins anew whenever it is called
    sets: list[HeldOut]  # the dev set and the test sets
    characters: CharacterCounts | None = None  # of all that no machine translated, where they were counted already
    has_parent: bool = False  # whether the network has learnt from other text before


def check(data: Config | DataConfig, corpus: ReadCorpus | None = None) -> Report:
    """What is to be known of a corpus before it is trained on. `corpus`: where it was read already."""
    if isinstance(data, Config):
        if len(data.data.directions) > 1:
            raise ConfigError("a config of several language pairs; check each of config.data.directions")
        data = data.data.directions[0]
    data = data.in_language
    try:
        report = quick_check(data, corpus)
    except UnequalLinesError as error:
        pairs = list[SentencePair]()
        with suppress(UnequalLinesError):
            pairs.extend(islice(map(normalized, read_raw_pairs([*error.files], None, "skip")), _ALIGNED_AT_ONCE))
        stretches = [one for one in Alignment(pairs).stretches if one.shift is not None and one.last >= len(pairs) - 10]
        where = [f"; from about line {pairs[one.first].line:,} on they no longer belong together" for one in stretches]
        raise DataError(f"{error}{''.join(where[:1])}") from None
    report.findings += _alignment_findings(report)
    return report


def quick_check(data: DataConfig, corpus: ReadCorpus | None = None) -> Report:
    """`check` without the search for shifted stretches and wrong partners, which takes most of its time."""
    text, reading, is_training = TrainingText(data), list[CorpusReport](), corpus is not None
    if corpus is None:
        refuse_exchanged(data)
        corpus, passing = ReadCorpus(text.read_raw, []), text.read_raw(reading)
        for one in text.named:
            of_set = CorpusReport()
            pairs = list(read_raw_pairs(one.files, one.columns, "skip", of_set))
            if not any(pair.src and pair.tgt for pair in map(normalized, pairs)):
                raise DataError(f"{one.files[0]}: no pair with text on both sides; give a sentence on each line")
            corpus.sets.append(HeldOut(one.name, pairs, of_set.bad_lines))
    else:
        passing = corpus.read_train()
    survey, sets = _Survey(text, corpus), corpus.sets
    for raw in passing:
        survey.add(raw)
    if not survey.n_read:
        raise DataError(f"{text.files[0]}: no line that can be read; give text with a sentence on each line, as UTF-8")
    spellings, devs = AS_IT_IS, [one for one in sets if one.name == "dev"]
    for dev in devs:
        of_dev = Counter[str](), Counter[str]()
        for pair in dev.pairs:
            count_characters(of_dev, pair)
        spellings = other_spelling(survey.characters[0], of_dev[0]), other_spelling(survey.characters[1], of_dev[1])
    trained_spellings = spellings if data.spelling == "dev" else AS_IT_IS
    if any(trained_spellings):  # words that dev writes otherwise are known to who trains with its spelling
        for pair in respelled(map(normalized, corpus.read_train()), trained_spellings):
            compare(sets, pair)

    finder, dropped = FaultFinder(survey.sample.pairs, data.src_lang, data.tgt_lang), dict[Place, Kind]()
    facts = survey.facts(0, data.src_lang), survey.facts(1, data.tgt_lang)
    bad = [(number, line) for number, report in enumerate(reading) for line in report.bad_lines]
    n_lines = sum(report.n_pairs for report in reading) or survey.n_read
    n_distinct, n_texts, is_repeated = survey.repetitions()
    findings = list[Finding]()
    if n_texts + len(bad) < _FEW_TEXTS:  # of lines that cannot be read nothing is known until they are mended
        severity: Severity | None = "fatal" if n_texts + len(bad) < _TOO_FEW_TEXTS else None
        findings.append(Finding.of(Kind.TOO_FEW, n_texts, 0.0, severity=severity))
    if (share := finder.common_words) > _MANY_COMMON_WORDS and not finder.is_one_language:
        findings.append(Finding.of(Kind.SAME_WORDS, round(share * facts[0].n_words), share))
    findings += findings_of(_faults(finder, bad, corpus.read_train(), is_repeated), n_lines, text, dropped)
    findings += spelling_findings(survey.characters, spellings, data.spelling)
    for held_out in sets:
        n_pairs = len(held_out.raw_pairs) + len(held_out.bad_lines)
        faults = _faults(finder, [(0, line) for line in held_out.bad_lines], held_out.raw_pairs, repeat(False))
        findings += findings_of(faults, n_pairs, held_out.name, {})
        findings += held_out.findings(finder, corpus.has_parent, text.format_place)
    notes = [note for report in reading for note in report.notes]
    asked = [] if is_training else devs
    gaps = [line for dev in asked for line in _gaps(text, survey.sample.pairs, dev, trained_spellings)]
    return Report(text, notes, n_lines, n_distinct, facts, findings, dropped, corpus.read_train, spellings, gaps)


def _gaps(text: TrainingText, sample: list[SentencePair], dev: HeldOut, spellings: Spellings) -> Iterator[str]:
    """How far dev is from each corpus, and what that costs."""
    from mt_cli.data.distance import gap  # here, as a training does not ask

    sample, is_far = [*respelled(sample, spellings)], [False] * len(text.corpora)
    if len(dev.pairs) < _FEWEST_COMPARED:
        return
    for number, name in enumerate(text.corpus_names):
        own = [pair for pair in sample if pair.corpus == number and pair.src and pair.tgt]
        if len(own) >= _FEWEST_COMPARED:
            found = gap(*(([one.src for one in pairs], [one.tgt for one in pairs]) for pairs in (own, dev.pairs)))
            is_far[number] = found.in_a_word != "near"
            yield f"{name} is {found.told('dev')}."
    if share := sum(is_far[pair.corpus] for pair in sample) / max(1, len(sample)):
        few = "A few hundred pairs of the kind that will be translated help more than many others: mt train ... --in-domain SOURCE --in-domain TARGET"
        yield f"{share:.0%} of the training text is far from dev, so translations will be worse than its size promises. {few}."


def _faults(
    finder: FaultFinder, bad: Iterable[Place], raw_pairs: Iterable[SentencePair], is_repeated: Iterable[int]
) -> Iterator[tuple[Kind, SentencePair]]:
    """`bad`: the places that are not UTF-8. `is_repeated`: of each pair; a file that grows meanwhile may have more."""
    yield from ((Kind.NOT_UTF8, SentencePair("", "", line, corpus)) for corpus, line in bad)
    for repeated, raw in zip(is_repeated, raw_pairs, strict=False):
        pair = normalized(raw)
        kinds = [*finder.faults(pair), *finder.faults_of_characters(raw)]
        if repeated and Kind.EMPTY not in kinds:
            kinds.insert(0, Kind.REPEATED)
        yield from ((kind, pair) for kind in kinds)


class _Survey:
    """What is counted of the training pairs while they pass for the first time."""

    def __init__(self, text: TrainingText, corpus: ReadCorpus):
        self._sets, self._corpora = corpus.sets, text.corpora
        self.sample, self._counts_characters = Sample(), corpus.characters is None
        self.characters = corpus.characters or (Counter(), Counter())
        self._hashes = array("Q"), array("Q")  # of the texts of either side
        self._n_words: tuple[Counter[int], Counter[int]] = (Counter(), Counter())  # lines of each length
        self._n_characters = [0, 0]

    def add(self, raw: SentencePair) -> None:
        pair = normalized(raw)
        corpus = self._corpora[pair.corpus]
        for side, own_words in enumerate(compare(self._sets, pair, corpus.is_like_use)):
            self._hashes[side].append(hash(pair[side]) % 2**64)
            self._n_words[side][len(own_words)] += 1
            self._n_characters[side] += len(pair[:2][side])
        if self._counts_characters and not corpus.synthetic:
            count_characters(self.characters, pair)
        if pair.src and pair.tgt:
            self.sample.add(pair)

    @property
    def n_read(self) -> int:
        return len(self._hashes[0])

    def repetitions(self) -> tuple[int, int, bytes]:
        """How many pairs are distinct, how many texts on the poorer side, and of each pair whether it stood before."""
        sources, targets = (np.frombuffer(hashes, dtype=np.uint64) for hashes in self._hashes)
        is_repeated = np.ones(self.n_read, dtype=bool)
        is_repeated[np.unique(sources * np.uint64(0x9E3779B97F4A7C15) + targets, return_index=True)[1]] = False
        n_texts = min(len(np.unique(side)) for side in (sources, targets))
        return int((~is_repeated).sum()), n_texts, is_repeated.tobytes()

    def facts(self, side: int, code: str) -> SideFacts:
        counts = self._n_words[side]
        lengths, n_lines = np.array(sorted(counts.items())).T
        up_to = np.cumsum(n_lines)
        median, most = (int(lengths[np.searchsorted(up_to, share * up_to[-1])]) for share in (0.5, 0.95))
        return SideFacts(code, int(lengths @ n_lines), self._n_characters[side], median, most, int(lengths[-1]))


def _alignment_findings(report: Report) -> list[Finding]:
    """Shifted stretches and pairs that are no translations; the report's dropped lines get theirs."""
    stretches = list[Finding]()

    def wrong_partners() -> Iterator[tuple[Kind, SentencePair]]:
        for _, of_corpus in groupby(map(cut, map(normalized, report.read())), lambda pair: pair.corpus):
            while chunk := list(islice(of_corpus, _ALIGNED_AT_ONCE)):
                alignment = Alignment(chunk)
                for first, last, shift in alignment.stretches:
                    pairs, kind = chunk[first : last + 1], Kind.UNRELATED if shift is None else Kind.SHIFTED
                    n, lines, by = len(pairs), report.text.format_lines(pairs[0], pairs[-1]), shift or 0
                    where: dict[str, Any] = {"lines": lines, "shift": by, "distance": abs(by)}
                    stretches.append(Finding.of(kind, n, n / report.n_pairs, pairs[:2], report.text, **where))
                    for pair in pairs:
                        report.dropped.setdefault(pair.place, kind)
                yield from ((Kind.WRONG_PARTNER, chunk[index]) for index in alignment.wrong_partners())

    wrong = list(findings_of(wrong_partners(), report.n_pairs, report.text, report.dropped))
    return stretches + wrong
