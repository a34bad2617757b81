"""What a report shows of a test set: each translation with its chrF and its doubts, and which kinds of sentences are
easy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mt_cli.config import Config
from mt_cli.data.corpora import TrainingText
from mt_cli.data.corpus import normalize
from mt_cli.data.languages import writes_spaces
from mt_cli.data.spelling import Respelling
from mt_cli.data.words import words
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.translator import Translator
from mt_cli.errors import DataError, RunDirError
from mt_cli.evaluation.comparison import SetScores, with_comparisons
from mt_cli.evaluation.evaluate import RunEvaluator, TestSet
from mt_cli.evaluation.tables import below
from mt_cli.explain.attention import attention_maps
from mt_cli.explain.estimate import agreement, estimates
from mt_cli.explain.json_lines import explain_lines
from mt_cli.explain.training_log import finite
from mt_cli.run.run_dir import RunDir

_SHOWN = ("bleu", "chrf", "ter", "loss", "sentences_per_second", "intervals", "warnings")  # of the scores
_N_GROUPS = 5  # of about as many sentences each, by length
_RARITIES = ((0, "never"), (2, "1 or 2 times"), (9, "3 to 9"), (99, "10 to 99"), (10**12, "100 and more"))
_N_ATTENDED = 8  # sentences of each kind whose attention is in the page
_MIN_FOR_INTERVAL = 5  # sentences of a group


@dataclass
class ReportedSet:
    """A test set, and what each run makes of it. The keys of `by_run` are the numbers of the runs in the report."""

    test_set: TestSet
    config: Config  # of the first run
    by_run: dict[int, dict[str, Any]] = field(default_factory=dict)
    results: dict[int, SetScores] = field(default_factory=dict)  # of the same runs, as `mt evaluate` has them

    def add(self, number: int, evaluator: RunEvaluator) -> None:
        """Translates and scores the set."""
        translations, result = evaluator.evaluate(self.test_set)
        chrf = [round(score, 1) for score in result.counts["chrf"].sentence_scores()]
        explained = explain_lines(evaluator.translator, translations)
        self.results[number] = result
        shown = result.as_json() | {"warnings": result.warnings}
        self.by_run[number] = {
            "texts": result.outputs,
            "chrf": chrf,
            "doubts": {i: list(line.doubts) for i, line in enumerate(explained) if line.doubts},
            "attention": _attention(evaluator.translator, translations, chrf, self._first_chrf or chrf),
            "scores": {key: shown[key] for key in _SHOWN},
            **_estimated(estimates(evaluator.translator, explained), chrf),
        }

    @property
    def _first_chrf(self) -> list[float] | None:
        return next((of_run["chrf"] for of_run in self.by_run.values()), None)

    @cached_property
    def compared(self) -> dict[int, SetScores]:
        """The results with what the comparisons say; to be asked for when all are there."""
        return dict(zip(self.results, with_comparisons(list(self.results.values())), strict=True))

    def told(self, run: int) -> str:
        """A sentence about the scores of a run."""
        result = self.results[run]
        chrf = result.intervals["chrf"]
        return (
            f"On {result.test_set} it has chrF {result.scores.chrf:.1f} (95%: {chrf.low:.1f} to {chrf.high:.1f})"
            f" and BLEU {result.scores.bleu:.1f}."
        )

    def groups(self, labels: Sequence[str], order: Iterable[str]) -> list[dict[str, Any]]:
        """The mean chrF of each run, with its interval, on the sentences of each label."""
        lines_of: dict[str, list[int]] = {}
        for line, label in enumerate(labels):
            lines_of.setdefault(label, []).append(line)
        return [
            {
                "label": label,
                "n": len(lines_of[label]),
                "means": {
                    run: _mean([of_run["chrf"][i] for i in lines_of[label]]) for run, of_run in self.by_run.items()
                },
            }
            for label in order
            if label in lines_of
        ]

    def as_page(self, run: RunDir, notes: list[str]) -> dict[str, Any]:
        sources = [words(normalize(source).lower()) for source in self.test_set.sources]
        data = self.config.data
        rarities = _rarities(run, self.config, sources, notes)
        return {
            "name": self.test_set.name,
            "srcLang": data.src_lang.replace("_", "-"),
            "tgtLang": data.tgt_lang.replace("_", "-"),
            "isSpaced": writes_spaces(data.tgt_lang),
            "sources": self.test_set.sources,
            "references": self.test_set.references[0],
            "lines": self.test_set.lines,
            "byLength": self.groups(*_lengths(sources)),
            "byRarity": self.groups(rarities, (label for _, label in _RARITIES)) if rarities else [],
            "byRun": self.by_run,
            "below": below(list(self.compared.values())),
        }


def _estimated(estimated: Sequence[float | None], chrf: Sequence[float]) -> dict[str, Any]:
    """The estimate of each line, and how well all of them tell good translations from bad ones; nothing without one."""
    known = [(estimate, true) for estimate, true in zip(estimated, chrf, strict=True) if estimate is not None]
    if not known:
        return {}
    shown = {"estimate": [None if estimate is None else round(estimate, 1) for estimate in estimated]}
    sides = list(zip(*known, strict=True))
    if min(len(set(side)) for side in sides) < 2:  # where all lines are alike there is no correlation
        return shown
    return shown | {"agreement": {key: finite(value) for key, value in agreement(*sides)._asdict().items()}}


def _mean(values: Sequence[float]) -> list[float | None]:
    """The mean and half of its 95% interval; None where there are too few values for one."""
    n = len(values)
    half = _t_quantile(n - 1) * stdev(values) / n**0.5 if n >= _MIN_FOR_INTERVAL else None
    return [round(fmean(values), 1), None if half is None else round(half, 1)]


def _t_quantile(n_free: int) -> float:
    """The 97.5% quantile of Student's t, from 4 degrees of freedom on within 2% (Cornish and Fisher's series)."""
    z = 1.96
    return z + (z**3 + z) / (4 * n_free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n_free**2)


def _lengths(sources: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """A label for each source, such as `5 to 8 words`, and all labels in order."""
    lengths = sorted(map(len, sources))
    lasts = sorted({lengths[(len(lengths) * n - 1) // _N_GROUPS] for n in range(1, _N_GROUPS + 1)})
    firsts = [lengths[0], *(last + 1 for last in lasts[:-1])]
    order = [f"{first} to {last}" if first < last else str(first) for first, last in zip(firsts, lasts, strict=True)]
    return [next(label for label, last in zip(order, lasts, strict=True) if len(one) <= last) for one in sources], order


def _rarities(run: RunDir, config: Config, sources: Sequence[Sequence[str]], notes: list[str]) -> list[str]:
    """How often the rarest word of each source occurs in training; nothing where its text is gone."""
    text = TrainingText(config.data)
    if missing := [file for file in text.files if not Path(file).exists()]:
        notes.append(f"{missing[0]}: no such file; so it is not known how rare the words of the test sets are.")
        return []
    counts = Counter[str]()
    try:
        respell = Respelling(run.sets.spellings()[0])
        sources = [[respell(word) for word in one] for one in sources]
        wanted = {word for one in sources for word in one}
        for pair in run.sets.trained(text.read(on_bad_line="skip")):
            counts.update(word for word in words(pair.src.lower()) if word in wanted)
    except (DataError, RunDirError) as error:
        notes.append(f"It is not known how rare the words of the test sets are: {error}")
        return []
    rarest = (min((counts[word] for word in one), default=0) for one in sources)
    return [next(label for most, label in _RARITIES if count <= most) for count in rarest]


def _attention(
    translator: Translator, translations: Sequence[Translation], chrf: Sequence[float], other_chrf: Sequence[float]
) -> dict[int, dict[str, Any]]:
    """By line, the cross-attention in hundredths, the mean of all heads and layers, of the sentences that people look at:
    the worst and the best, those that another run translates most differently, and the first."""
    lines = [line for line, translation in enumerate(translations) if len(translation.parts) == 1]
    by_chrf = sorted(lines, key=lambda line: chrf[line])
    by_change = sorted(lines, key=lambda line: -abs(chrf[line] - other_chrf[line]))
    n = _N_ATTENDED
    chosen = {*by_chrf[:n], *by_chrf[-n:], *by_change[:n], *lines[:n]}
    found = {}
    for line in sorted(chosen):
        [maps] = attention_maps(translator, translations[line])
        heads = [head for layer in maps.cross for head in layer]
        mean = [[round(100 * fmean(cells)) for cells in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)]
        found[line] = {"src": maps.src_pieces, "tgt": maps.tgt_pieces, "weights": mean}
    return found
