"""One page about one or several runs: how good the translator is, what to do next, and all that stands behind it.

The page's own script draws the charts: a library would be the larger part of the page and know nothing of runs that are told
apart without colours.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mt_cli.config import Config
from mt_cli.data.corpora import TrainingText
from mt_cli.data.languages import writes_spaces
from mt_cli.data.normalize import normalize, words
from mt_cli.data.spelling import Respelling
from mt_cli.errors import CheckpointError, DataError, RunDirError
from mt_cli.evaluation.comparison import SetScores, TestSet, with_comparisons
from mt_cli.evaluation.evaluate import RunEvaluator, read_set
from mt_cli.evaluation.tables import below
from mt_cli.explain.attention import attention_maps
from mt_cli.explain.doubts import Doubt, explain_lines
from mt_cli.explain.estimate import load_estimate
from mt_cli.explain.page import refuse_page, safe_json, write_page
from mt_cli.explain.report_run import RunReport, read_run
from mt_cli.files import read_inside
from mt_cli.run.directions import Direction, describe_directions, directions_of
from mt_cli.run.run_dir import RunDir

_MARK = b'<meta name="generator" content="mt report">'  # of a page that may be written again
_N_ATTENDED = 8  # sentences of each kind whose attention is in the page


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


@dataclass
class ReportedSet:
    """A test set, and what each run makes of it. The keys are the numbers of the runs in the report."""

    test_set: TestSet
    config: Config  # of the first run
    by_run: dict[int, Outputs] = field(default_factory=dict)
    results: dict[int, SetScores] = field(default_factory=dict)  # of the same runs, as `mt evaluate` has them

    def add(self, number: int, evaluator: RunEvaluator) -> None:
        """Translates and scores the set."""
        translator = evaluator.translator
        translations, result = evaluator.evaluate(self.test_set)
        chrf = [round(score, 1) for score in result.counts["chrf"].sentence_scores()]
        first = next((of_run.chrf for of_run in self.by_run.values()), chrf)
        # People look at the worst and the best, at those that another run translates most differently, and the first.
        lines = [line for line, translation in enumerate(translations) if len(translation.parts) == 1]
        by_chrf, n = sorted(lines, key=lambda line: chrf[line]), _N_ATTENDED
        by_change = sorted(lines, key=lambda line: -abs(chrf[line] - first[line]))
        attention = {}
        for line in sorted({*by_chrf[:n], *by_chrf[-n:], *by_change[:n], *lines[:n]}):
            maps = attention_maps(translator, translations[line].parts[0])
            hundredths = (100 * maps.cross.mean((0, 1))).round().int().tolist()
            attention[line] = Heat(maps.src_pieces, maps.tgt_pieces, hundredths)
        explained, estimate = explain_lines(translator, translations), load_estimate(translator)
        estimated = estimate.of(translator, explained) if estimate is not None else [None] * len(explained)
        doubts = {i: line.doubts for i, line in enumerate(explained) if line.doubts}
        rounded = [None if one is None else round(one, 1) for one in estimated]
        self.results[number] = result
        self.by_run[number] = Outputs(result.outputs, chrf, doubts, attention, rounded)

    @cached_property
    def compared(self) -> dict[int, SetScores]:
        """The results, the best by chrF first and the others compared with it; to be asked for when all are there."""
        ranked = sorted(self.results, key=lambda run: -self.results[run].scores.chrf)
        return dict(zip(ranked, with_comparisons([self.results[run] for run in ranked]), strict=True))

    def in_words(self, run: int) -> str:
        """A sentence about the scores of a run."""
        scores, chrf = self.results[run].scores, self.results[run].intervals["chrf"]
        return (
            f"On {self.test_set.name} it has chrF {scores.chrf:.1f} (95%: {chrf.low:.1f} to {chrf.high:.1f})"
            f" and BLEU {scores.bleu:.1f}."
        )

    def for_script(self, run: RunReport) -> dict[str, Any]:
        """What the script of the page reads. `run`: the first one, whose training text tells how rare words are."""
        data = self.config.data
        sources = [words(normalize(source).lower()) for source in self.test_set.sources]
        return {
            "name": self.test_set.name,
            "src_lang": data.src_lang.replace("_", "-"),
            "tgt_lang": data.tgt_lang.replace("_", "-"),
            "is_spaced": writes_spaces(data.tgt_lang),
            "sources": self.test_set.sources,
            "references": self.test_set.references[0],
            "lines": self.test_set.lines,
            "lengths": [len(source) for source in sources],
            "rarities": rarities(run, self.config, sources),
            "by_run": {number: asdict(one) for number, one in self.by_run.items()},
        }


def rarities(run: RunReport, config: Config, sources: Sequence[Sequence[str]]) -> list[int]:
    """How often the rarest word of each source occurs in training; nothing, and a note, where its text is missing."""
    text, counts = TrainingText(config.data), Counter[str]()
    files = run.run.of_pair(run.config.data, config.data)
    try:
        respell = Respelling(files.spellings()[0])
        sources = [[respell(word) for word in one] for one in sources]
        wanted = {word for one in sources for word in one}
        for pair in files.trained(text.read(on_bad_line="skip")):
            counts.update(word for word in words(pair.src.lower()) if word in wanted)
    except (DataError, RunDirError) as error:
        run.notes.append(f"It is not known how rare the words of the test sets are: {error}")
        return []
    return [min((counts[word] for word in one), default=0) for one in sources]


# The page ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """The page that was written, and what it says."""

    path: Path
    summary: list[str]  # how good the translators are, and what to do next
    runs: list[RunReport]
    sets: list[ReportedSet]
    differing_keys: list[list[str]]  # a key of the configs, and its value in each run

    def __str__(self) -> str:
        return "\n".join([*self.summary, f"report: {self.path}"])


def report(
    runs: str | Path | Sequence[str | Path],
    output: str | Path = "report.html",
    *,
    checkpoint: str = "best",
    device: str = "auto",
    quick: bool = False,
) -> Report:
    """Writes the page. It replaces an earlier report, and no other file.

    With `quick` nothing is translated: curves, config and facts come from the files of the runs, within a second, so a
    training can call this at each validation. Otherwise each run that has the checkpoint translates its test sets; where
    their files are missing, the page says so. Raises MTError.
    """
    output = Path(output)
    refuse_page(output, "--output", _MARK)
    folders = [RunDir.existing(Path(run)) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    names = [run.path.resolve().name for run in folders]
    if len(set(names)) < len(names):
        names = [str(run.path) for run in folders]
    found = [read_run(run, name) for run, name in zip(folders, names, strict=True)]
    sets = [] if quick else _translate(found, checkpoint, device)
    made = Report(output, _summary(found, sets), found, sets, _differing_keys(found))
    sets_of_script = [one.for_script(found[min(one.by_run)]) for one in sets]
    data = safe_json({"runs": [run.for_script() for run in found], "sets": sets_of_script})
    corpora = dict[str, tuple[RunReport, list[str]]]()  # what several runs share stands in the page once
    for run in found:
        if run.check:
            corpora.setdefault(f"{run.check.model_dump_json()} {run.n_left_out}", (run, []))[1].append(run.name)
    write_page(
        output,
        "report",
        data,
        made=made,
        checkpoint=checkpoint,
        is_quick=quick,
        below=below([result for one in sets for result in one.compared.values()]),
        corpora=list(corpora.values()),
        notes=_merged({run.name: run.notes for run in found}),
        config=read_inside(folders[0].path, folders[0].config_file).decode("utf-8", "replace"),
        written=time.strftime("%Y-%m-%d %H:%M"),
    )
    return made


def _translate(runs: list[RunReport], checkpoint: str, device: str) -> list[ReportedSet]:
    """The test sets of all runs, or their dev sets where they have none, each with what the runs that have it make of it."""
    sets: dict[tuple[tuple[str, ...], ...], ReportedSet] = {}  # by their texts: one table may hold several
    for number, run in enumerate(runs):
        pairs = run.config.data.directions
        if back := [one for one in directions_of(run.config) if one.is_reverse]:
            run.notes.append(
                f"The reverse direction, {describe_directions(back)}, is not shown; mt evaluate scores it."
            )
        try:
            run.run.find_checkpoint(checkpoint)  # whose message fits a run that has none yet
            evaluators = [RunEvaluator(run.run, checkpoint, Direction(pair), device) for pair in pairs]
        except (RunDirError, CheckpointError) as error:
            run.notes.append(f"Nothing was translated: {error}")
            continue
        for evaluator, pair in zip(evaluators, pairs, strict=True):
            named = run.run.of_pair(run.config.data, pair).all_files()
            dev = named.pop("dev")
            for name, files in (named or {"dev": dev}).items():
                try:
                    one = read_set(pair, name if len(pairs) == 1 else f"{name} {pair.name}", files)
                except (DataError, RunDirError, OSError) as error:
                    run.notes.append(f"The set {name} is not shown: {error}")
                    continue
                texts = tuple(one.sources), tuple(one.references[0])
                sets.setdefault(texts, ReportedSet(one, evaluator.translator.config)).add(number, evaluator)
    return list(sets.values())


def _summary(runs: list[RunReport], sets: list[ReportedSet]) -> list[str]:
    """The first thing that people read. Of several runs it names the best by chrF on the first set that they share."""
    if len(runs) == 1:
        return [*runs[0].summary[:1], *(one.in_words(0) for one in sets), *runs[0].summary[1:]]
    shared = next((one for one in sets if len(one.by_run) > 1), None)
    lines = list[str]()
    if shared is not None:
        first, second, *_ = shared.compared
        best, comparison = runs[first], shared.compared[second].comparison
        lines.append(f"{best.name} has the highest chrF of {len(shared.results)} runs. {shared.in_words(first)}")
        if comparison is not None and "chrf" in comparison.scores:
            tests = comparison.scores["chrf"]
            lines.append(
                f"{runs[second].name} has {-tests.difference:.2f} chrF less, p = {tests.p_randomization:.4f}:"
                f" {tests.meaning}."
            )
        lines += [f"{best.name}: {line}" for line in best.summary[:2] if best.is_finished]
    return lines + _merged({run.name: run.summary[:1] for run in runs if shared is None or not run.is_finished})


def _merged(lines_of: Mapping[str, list[str]]) -> list[str]:
    """Each line once, behind the names of the runs that have it; a single run needs no name."""
    names_of: dict[str, dict[str, None]] = {}
    for name, lines in lines_of.items():
        for line in lines:
            names_of.setdefault(line, {})[name] = None
    return [f"{', '.join(names)}: {line}" if len(lines_of) > 1 else line for line, names in names_of.items()]


def _differing_keys(runs: list[RunReport]) -> list[list[str]]:
    dumped = [
        {f"{section}.{key}": value for section, keys in run.config.model_dump().items() for key, value in keys.items()}
        for run in runs
    ]
    rows = {key: [str(one.get(key)) for one in dumped] for key in dict.fromkeys(key for one in dumped for key in one)}
    return [[key, *values] for key, values in rows.items() if len(set(values)) > 1]
