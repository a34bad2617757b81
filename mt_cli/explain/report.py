"""One page about one or several runs: how good the translator is, what to do next, and all that stands behind it.

The charts are SVG that the page's own script draws: a hundred lines, where a library would be the larger part of the
page and know nothing of runs that are told apart without colours.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mt_cli.data.corpus import sha256_of
from mt_cli.errors import CheckpointError, DataError, RunDirError, UsageError
from mt_cli.evaluation.comparison import meaning
from mt_cli.evaluation.evaluate import RunEvaluator, TestSet, read_set
from mt_cli.evaluation.significance import paired_tests
from mt_cli.evaluation.tables import below
from mt_cli.explain.page import refuse_page, safe_json, write_page
from mt_cli.explain.report_run import RunReport, read_run
from mt_cli.explain.report_sets import ReportedSet
from mt_cli.files import read_inside
from mt_cli.run.directions import Direction, directions_of, told
from mt_cli.run.provenance import versions
from mt_cli.run.run_dir import RunDir
from mt_cli.training.verdict import LEVELS

log = logging.getLogger(__name__)

_MARK = '<meta name="generator" content="mt report">'  # of a page that may be written again
_SEVERITIES = ("fatal", "warning", "info")
# Each run has a shape and a line of its own, so that runs are told apart without colours.
_MARKERS = (
    "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", "m-3-3h6v6h-6z", "m0-4l4 7h-8z", "m0-4.5l4 4.5l-4 4.5l-4-4.5z",
    "m-4-3h8l-4 7z", "m-4-1.5h8v3h-8z",
)  # fmt: skip
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2 1 2", "1 4")


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
    refuse_page(output, "the report is", "--output")
    if output.exists() and (not output.is_file() or _MARK.encode() not in output.read_bytes()[:2000]):
        raise UsageError(f"{output} exists already and is no report; delete it or choose another --output")
    folders = [RunDir.existing(Path(run)) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    names = [run.path.resolve().name for run in folders]
    if len(set(names)) < len(names):
        names = [str(run.path) for run in folders]
    all_runs = [read_run(run, name) for run, name in zip(folders, names, strict=True)]
    sets = [] if quick else _translate(all_runs, checkpoint, device)
    made = Report(output, _summary(all_runs, sets), all_runs, sets, _differing_keys(all_runs))
    data = {
        "runs": [_for_script(run) for run in all_runs],
        "sets": [_set_for_script(one, all_runs[min(one.by_run)]) for one in sets],
        "markers": _MARKERS,
        "dashes": _DASHES,
    }
    write_page(output, "report", safe_json(data), **_values(made), checkpoint=checkpoint, is_quick=quick)
    return made


# What is translated --------------------------------------------------------------------------------------------------


def _translate(runs: list[RunReport], checkpoint: str, device: str) -> list[ReportedSet]:
    """The test sets of all runs, each with what the runs that have it make of it."""
    sets: dict[tuple[tuple[str, ...], ...], ReportedSet] = {}  # by their texts: one table may hold several
    for number, run in enumerate(runs):
        if back := [one for one in directions_of(run.config) if one.is_back]:
            run.notes.append(f"The reverse direction, {told(back)}, is not shown; mt evaluate scores it.")
        try:
            run.run.find_checkpoint(checkpoint)  # whose message fits a run that has none yet
            evaluators = [
                RunEvaluator(run.run, checkpoint, Direction(pair), device) for pair in run.config.data.directions
            ]
        except (RunDirError, CheckpointError) as error:
            run.notes.append(f"Nothing was translated: {error}")
            continue
        for evaluator, test_set in [(one, test_set) for one in evaluators for test_set in _test_sets(run, one)]:
            texts = tuple(test_set.sources), tuple(test_set.references[0])
            sets.setdefault(texts, ReportedSet(test_set, evaluator.translator.config)).add(number, evaluator)
    return list(sets.values())


def _test_sets(run: RunReport, evaluator: RunEvaluator) -> list[TestSet]:
    """Those of the run's config for a language pair; the dev set where there are none, or none can be read."""
    data = evaluator.translator.config.data
    suffix = "" if len(run.config.data.directions) == 1 else f" {data.name}"
    named = run.run.of_pair(run.config.data, data).all_files()
    dev = named.pop("dev")
    for candidates in (named, {"dev": dev}):
        found = list[TestSet]()
        for name, files in candidates.items():
            try:
                found.append(read_set(data, f"{name}{suffix}", files))
            except (DataError, RunDirError, OSError) as error:
                run.notes.append(f"The set {name} is not shown: {error}")
        if found:
            return found
    return []


# The summary ---------------------------------------------------------------------------------------------------------


def _summary(runs: list[RunReport], sets: list[ReportedSet]) -> list[str]:
    """The first thing that people read. Of several runs it names the best by chrF on the first set that they share."""
    if len(runs) == 1:
        return [*runs[0].summary[:1], *(one.in_words(0) for one in sets), *runs[0].summary[1:]]
    shared = next((one for one in sets if len(one.by_run) > 1), None)
    lines = _compare(runs, shared) if shared is not None else [_name_best(runs)]
    names_of: dict[str, list[str]] = {}
    for run in runs:
        if run.state != "finished":
            names_of.setdefault(run.summary[0], []).append(run.name)
    lines += [f"{', '.join(names)}: {line}" for line, names in names_of.items()]
    return list(dict.fromkeys(lines))  # the best run's own words may be among them already


def _name_best(runs: list[RunReport]) -> str:
    validated = [run for run in runs if run.best is not None]
    if not validated:
        return "None of these runs was validated yet."
    if len({_sha256_of_dev(run) for run in validated}) > 1:
        return "These runs have different dev sets, so their scores do not tell which is best."
    best = max(validated, key=lambda run: (run.best and run.best.chrf) or 0.0)
    return f"{best.name} has the highest dev chrF of these {len(runs)} runs. {best.best_in_words}"


def _sha256_of_dev(run: RunReport) -> str:
    """Of the dev sets of all language pairs; the run's name where they are missing, so that it is like no other."""
    data = run.config.data
    try:
        return " ".join(
            f"{sha256_of(run.run.of_pair(data, pair).dev_files())} {pair.columns}" for pair in data.directions
        )
    except (DataError, RunDirError):
        return run.name


def _compare(runs: list[RunReport], shared: ReportedSet) -> list[str]:
    first, second = sorted(shared.results, key=lambda run: -shared.results[run].scores.chrf)[:2]
    best, next_best = runs[first], runs[second]
    tests = paired_tests(*(shared.results[run].counts["chrf"] for run in (second, first)))
    seeds = shared.compared[first].seeds
    is_seed = seeds is not None and shared.results[second].label in seeds.runs
    heading = f"{best.name} has the highest chrF of {len(shared.results)} runs. {shared.in_words(first)}"
    if seeds is not None and len(seeds.seeds) == len(shared.results):
        chrf = seeds.scores["chrf"]
        heading = (
            f"These are {len(seeds.seeds)} seeds of one config: chrF {chrf.mean:.1f} on average, with a standard"
            f" deviation of {chrf.deviation:.1f}. The best is {best.name}."
        )
    difference = f"{next_best.name} has the same."
    if tests.difference:
        difference = (
            f"It has {tests.difference:.2f} chrF more than {next_best.name}, p = {tests.p_randomization:.4f}:"
            f" {meaning('chrf', tests, is_seed)}."
        )
    return [heading, difference, *(f"{best.name}: {line}" for line in best.summary[:2])]


# What the page is made of --------------------------------------------------------------------------------------------


def _for_script(run: RunReport) -> dict[str, Any]:
    training = run.config.training
    return {
        "name": run.name,
        "curves": run.curves,
        "best_step": run.best.step if run.best else None,
        "max_steps": training.max_steps if training.minutes is None else None,
        "minutes": training.minutes,
    }


def _set_for_script(one: ReportedSet, run: RunReport) -> dict[str, Any]:
    return one.for_script(run.run.of_pair(run.config.data, one.config.data), run.notes)


def _values(made: Report) -> dict[str, Any]:
    """What the template shows. What several runs share stands there once, with their names."""
    runs, sets = made.runs, made.sets
    chrf = [next((one.results[i].scores.chrf for one in sets if i in one.results), None) for i in range(len(runs))]
    corpora = dict[str, tuple[RunReport, list[str]]]()
    for run in runs:
        if run.check:
            key = f"{run.check.model_dump_json()} {run.left_out}"
            corpora.setdefault(key, (run, []))[1].append(run.name)
    is_several = len(runs) > 1
    sections = {
        "scores": sets, "curves": runs, "strengths": sets, "sentences": sets, "corpus": corpora, "config": runs,
        "machine": [start for run in runs for start in run.starts],
    }  # fmt: skip
    return {
        "runs": runs,
        "sets": sets,
        "summary": made.summary,
        "chrf": [run.best.chrf if one is None and run.best else one for run, one in zip(runs, chrf, strict=True)],
        "levels": LEVELS[::-1],
        "sections": [name for name, content in sections.items() if content],
        "below": below([result for one in sets for result in one.compared.values()]),
        "plans": _merged({run.name: [run.plan] for run in runs if run.plan}),
        "corpora": [(", ".join(names) if is_several else "", run, _findings(run)) for run, names in corpora.values()],
        "notes": _merged({run.name: run.notes for run in runs}),
        "config": "" if is_several else _config_text(runs[0].run),
        "differing_keys": made.differing_keys,
        "written": time.strftime("%Y-%m-%d %H:%M"),
        "versions": versions(),
        "markers": _MARKERS,
        "dashes": _DASHES,
    }


def _merged(lines_of: dict[str, list[str]]) -> list[str]:
    """Each line once, behind the names of the runs that have it, unless all have."""
    names_of: dict[str, dict[str, None]] = {}
    for name, lines in lines_of.items():
        for line in lines:
            names_of.setdefault(line, {})[name] = None
    return [f"{', '.join(own)}: {line}" if len(own) < len(lines_of) else line for line, own in names_of.items()]


def _findings(run: RunReport) -> list[Any]:
    assert run.check is not None
    return sorted(run.check.findings, key=lambda one: _SEVERITIES.index(one.severity))


def _config_text(run: RunDir) -> str:
    return read_inside(run.path, run.config_file).decode("utf-8", "replace")


def _differing_keys(runs: list[RunReport]) -> list[list[str]]:
    dumped = [
        {
            f"{section}.{key}": value
            for section, values in run.config.model_dump().items()
            for key, value in values.items()
        }
        for run in runs
    ]
    rows = {key: [str(one.get(key)) for one in dumped] for key in dict.fromkeys(key for one in dumped for key in one)}
    return [[key, *values] for key, values in rows.items() if len(set(values)) > 1]
