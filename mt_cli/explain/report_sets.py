"""What a report shows of a test set: each translation with its chrF and its doubts, and which kinds of sentences are
easy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mt_cli.config import Config
from mt_cli.data.corpora import TrainingText
from mt_cli.data.languages import writes_spaces
from mt_cli.data.normalize import normalize, words
from mt_cli.data.spelling import Respelling
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.translator import Translator
from mt_cli.errors import DataError, RunDirError
from mt_cli.evaluation.comparison import SetScores, with_comparisons
from mt_cli.evaluation.evaluate import RunEvaluator, TestSet
from mt_cli.explain.attention import attention_maps
from mt_cli.explain.doubts import Doubt
from mt_cli.explain.estimate import Agreement, agreement, estimates
from mt_cli.explain.json_lines import explain_lines
from mt_cli.run.pair_files import PairFiles

_N_GROUPS = 5  # of about as many sentences each, by length
_RARITIES = ((0, "never"), (2, "1 or 2 times"), (9, "3 to 9"), (99, "10 to 99"), (10**12, "100 and more"))
_N_ATTENDED = 8  # sentences of each kind whose attention is in the page
_MIN_FOR_INTERVAL = 5  # sentences of a group


@dataclass(frozen=True)
class Heat:
    """The cross-attention of a sentence, the mean of all heads and layers."""

    src: list[str]
    tgt: list[str]
    weights: list[list[int]]  # in hundredths, by target and source piece


@dataclass(frozen=True)
class Outputs:
    """What a run makes of a test set, by sentence."""

    texts: list[str]
    chrf: list[float]
    doubts: dict[int, list[Doubt]]
    attention: dict[int, Heat]
    estimate: list[float | None]  # chrF; all None where the run has no estimate
    agreement: Agreement | None  # of estimates with chrF


@dataclass(frozen=True)
class Mean:
    mean: float
    low: float | None = None  # of the 95% interval; None where there are too few values
    high: float | None = None


@dataclass(frozen=True)
class Group:
    """The mean chrF that each run has on the sentences of one kind."""

    label: str
    n: int
    means: dict[int, Mean]


@dataclass
class ReportedSet:
    """A test set, and what each run makes of it. The keys are the numbers of the runs in the report."""

    test_set: TestSet
    config: Config  # of the first run
    by_run: dict[int, Outputs] = field(default_factory=dict)
    results: dict[int, SetScores] = field(default_factory=dict)  # of the same runs, as `mt evaluate` has them

    @property
    def name(self) -> str:
        return self.test_set.name

    def add(self, number: int, evaluator: RunEvaluator) -> None:
        """Translates and scores the set."""
        translator = evaluator.translator
        translations, result = evaluator.evaluate(self.test_set)
        chrf = [round(score, 1) for score in result.counts["chrf"].sentence_scores()]
        first = next((of_run.chrf for of_run in self.by_run.values()), chrf)
        explained = explain_lines(translator, translations)
        estimate = estimates(translator, explained)
        self.results[number] = result
        self.by_run[number] = Outputs(
            texts=result.outputs,
            chrf=chrf,
            doubts={i: line.doubts for i, line in enumerate(explained) if line.doubts},
            attention=_attention(translator, translations, chrf, first),
            estimate=[None if one is None else round(one, 1) for one in estimate],
            agreement=_agreement(estimate, chrf),
        )

    @cached_property
    def compared(self) -> dict[int, SetScores]:
        """The results with what the comparisons say; to be asked for when all are there."""
        return dict(zip(self.results, with_comparisons(list(self.results.values())), strict=True))

    @property
    def warnings(self) -> list[str]:
        return list(dict.fromkeys(warning for result in self.compared.values() for warning in result.warnings))

    def in_words(self, run: int) -> str:
        """A sentence about the scores of a run."""
        result = self.results[run]
        chrf = result.intervals["chrf"]
        return (
            f"On {self.name} it has chrF {result.scores.chrf:.1f} (95%: {chrf.low:.1f} to {chrf.high:.1f})"
            f" and BLEU {result.scores.bleu:.1f}."
        )

    def groups(self, labels: Sequence[str], order: Iterable[str]) -> list[Group]:
        """The sentences of each label, in the order of the labels."""
        lines_of: dict[str, list[int]] = {}
        for line, label in enumerate(labels):
            lines_of.setdefault(label, []).append(line)
        return [
            Group(label, len(lines), {run: mean_of([one.chrf[i] for i in lines]) for run, one in self.by_run.items()})
            for label in order
            if (lines := lines_of.get(label))
        ]

    def for_script(self, run: PairFiles, notes: list[str]) -> dict[str, Any]:
        """What the script of the page reads. `run`: where the first run keeps what belongs to this language pair."""
        sources = [words(normalize(source).lower()) for source in self.test_set.sources]
        rarities = _rarities(run, self.config, sources, notes)
        by_rarity = self.groups(rarities, (label for _, label in _RARITIES))
        return {
            "name": self.name,
            "src_lang": self.config.data.src_lang.replace("_", "-"),
            "tgt_lang": self.config.data.tgt_lang.replace("_", "-"),
            "is_spaced": writes_spaces(self.config.data.tgt_lang),
            "sources": self.test_set.sources,
            "references": self.test_set.references[0],
            "lines": self.test_set.lines,
            "by_length": [asdict(group) for group in self.groups(*_lengths(sources))],
            "by_rarity": [asdict(group) for group in by_rarity],
            "by_run": {number: asdict(one) for number, one in self.by_run.items()},
        }


def _agreement(estimated: Sequence[float | None], chrf: Sequence[float]) -> Agreement | None:
    """None without estimates, and where all lines are alike, so that there is no correlation."""
    known = [(estimate, true) for estimate, true in zip(estimated, chrf, strict=True) if estimate is not None]
    sides = list(zip(*known, strict=True))
    return agreement(*sides) if sides and min(len(set(side)) for side in sides) > 1 else None


def mean_of(values: Sequence[float]) -> Mean:
    """Of scores from 0 to 100, with the interval where there are enough."""
    mean, n = fmean(values), len(values)
    if n < _MIN_FOR_INTERVAL:
        return Mean(round(mean, 1))
    half = _t_quantile(n - 1) * stdev(values) / n**0.5
    return Mean(round(mean, 1), round(max(0.0, mean - half), 1), round(min(100.0, mean + half), 1))


def _t_quantile(n_free: int) -> float:
    """The 97.5% quantile of Student's t, from 4 degrees of freedom on within 2% (Cornish and Fisher's series)."""
    z = 1.96
    return z + (z**3 + z) / (4 * n_free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n_free**2)


def _lengths(sources: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """A label for each source, such as `5 to 8`, and all labels in order."""
    lengths = sorted(map(len, sources))
    lasts = sorted({lengths[(len(lengths) * n - 1) // _N_GROUPS] for n in range(1, _N_GROUPS + 1)})
    firsts = [lengths[0], *(last + 1 for last in lasts[:-1])]
    order = [f"{first} to {last}" if first < last else str(first) for first, last in zip(firsts, lasts, strict=True)]
    return [next(label for label, last in zip(order, lasts, strict=True) if len(one) <= last) for one in sources], order


def _rarities(run: PairFiles, config: Config, sources: Sequence[Sequence[str]], notes: list[str]) -> list[str]:
    """How often the rarest word of each source occurs in training; nothing where its text is missing."""
    text, counts = TrainingText(config.data), Counter[str]()
    if missing := [file for file in text.files if not Path(file).exists()]:
        notes.append(f"{missing[0]}: no such file; so it is not known how rare the words of the test sets are.")
        return []
    try:
        respell = Respelling(run.spellings()[0])
        sources = [[respell(word) for word in one] for one in sources]
        wanted = {word for one in sources for word in one}
        for pair in run.trained(text.read(on_bad_line="skip")):
            counts.update(word for word in words(pair.src.lower()) if word in wanted)
    except (DataError, RunDirError) as error:
        notes.append(f"It is not known how rare the words of the test sets are: {error}")
        return []
    rarest = (min((counts[word] for word in one), default=0) for one in sources)
    return [next(label for most, label in _RARITIES if count <= most) for count in rarest]


def _attention(
    translator: Translator, translations: Sequence[Translation], chrf: Sequence[float], other_chrf: Sequence[float]
) -> dict[int, Heat]:
    """By line, that of the sentences that people look at: the worst and the best, those that another run translates most
    differently, and the first."""
    lines = [line for line, translation in enumerate(translations) if len(translation.parts) == 1]
    by_chrf = sorted(lines, key=lambda line: chrf[line])
    by_change = sorted(lines, key=lambda line: -abs(chrf[line] - other_chrf[line]))
    n = _N_ATTENDED
    found = {}
    for line in sorted({*by_chrf[:n], *by_chrf[-n:], *by_change[:n], *lines[:n]}):
        [maps] = attention_maps(translator, translations[line])
        heads = [head for layer in maps.cross for head in layer]
        mean = [[round(100 * fmean(cells)) for cells in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)]
        found[line] = Heat(maps.src_pieces, maps.tgt_pieces, mean)
    return found
