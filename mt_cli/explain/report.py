"""One page about one or several runs: how good the translator is, what to do next, and all that stands behind it.

The charts are SVG that the page's own script draws: a hundred lines, where a library would be the larger part of the
page and know nothing of runs that are told apart without colours.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from mt_cli.data.corpus import sha256_of
from mt_cli.errors import CheckpointError, DataError, RunDirError, UsageError
from mt_cli.evaluation.comparison import meaning
from mt_cli.evaluation.evaluate import RunEvaluator, TestSet, read_set
from mt_cli.evaluation.significance import paired_tests
from mt_cli.explain.page import refuse_page, safe_json, write_page
from mt_cli.explain.report_facts import RunFacts
from mt_cli.explain.report_sets import ReportedSet
from mt_cli.files import read_inside
from mt_cli.run.directions import Direction, directions_of, told
from mt_cli.run.provenance import versions
from mt_cli.run.run_dir import RunDir
from mt_cli.training.verdict import LEVELS

log = logging.getLogger(__name__)

_MARK = '<meta name="generator" content="mt report">'  # of a page that may be written again


def write_report(
    runs: list[RunDir], output: Path, *, checkpoint: str = "best", device: str = "auto", quick: bool = False
) -> None:
    """Writes the page. It replaces an earlier report, and no other file.

    With `quick` nothing is translated: curves, config and facts come from the files of the runs, within a second, so a
    training can call this at each validation. Otherwise each run that has the checkpoint translates its test sets; where
    their files are gone, the page says so. Raises MTError.
    """
    refuse_output(output)
    names = [run.path.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run.path) for run in runs]
    all_facts = [RunFacts(run, run.load_config(), name) for run, name in zip(runs, names, strict=True)]
    sets = [] if quick else _translate(all_facts, checkpoint, device)
    pages = [facts.as_page() for facts in all_facts]
    data = {
        "written": time.strftime("%Y-%m-%d %H:%M"),
        "versions": versions(),
        "checkpoint": checkpoint,
        "isQuick": quick,
        "levels": LEVELS,
        "runs": pages,
        "summary": _summary(all_facts, pages, sets),
        "config": _config(all_facts),
        "sets": [_set_page(one, all_facts[min(one.by_run)], pages[min(one.by_run)]["notes"]) for one in sets],
    }
    write_page(output, "report.html", safe_json(data))


def _set_page(one: ReportedSet, facts: RunFacts, notes: list[str]) -> dict[str, Any]:
    return one.as_page(facts.run.of_pair(facts.config.data, one.config.data), notes)


def refuse_output(output: Path) -> None:
    """Raises UsageError where the page cannot be written, or another file would be lost."""
    refuse_page(output, "the report is", "--output")
    if output.exists() and (not output.is_file() or _MARK.encode() not in output.read_bytes()[:2000]):
        raise UsageError(f"{output} exists already and is no report; delete it or choose another --output")


def _translate(all_facts: list[RunFacts], checkpoint: str, device: str) -> list[ReportedSet]:
    """The test sets of all runs, each with what the runs that have it make of it."""
    sets: dict[tuple[tuple[str, ...], ...], ReportedSet] = {}  # by their texts: one table may hold several
    for number, facts in enumerate(all_facts):
        if back := [one for one in directions_of(facts.config) if one.is_back]:
            facts.notes.append(f"The way back is not shown, {told(back)}; mt evaluate scores it.")
        try:
            facts.run.find_checkpoint(checkpoint)  # whose message fits a run that has none yet
            evaluators = [
                RunEvaluator(facts.run, checkpoint, device=device, direction=Direction(pair))
                for pair in facts.config.data.directions
            ]
        except (RunDirError, CheckpointError) as error:
            facts.notes.append(f"Nothing was translated: {error}")
            continue
        for evaluator, test_set in [(one, test_set) for one in evaluators for test_set in _test_sets(facts, one)]:
            config = evaluator.translator.config
            texts = tuple(test_set.sources), tuple(test_set.references[0])
            reported = sets.setdefault(texts, ReportedSet(test_set, config))
            reported.add(number, evaluator)
    return list(sets.values())


def _test_sets(facts: RunFacts, evaluator: RunEvaluator) -> list[TestSet]:
    """Those of the run's config for a language pair; the dev set where there are none, or none can be read."""
    data = evaluator.translator.config.data
    suffix = "" if len(facts.config.data.directions) == 1 else f" {data.name}"
    named = facts.run.of_pair(facts.config.data, data).sets.all_files(data)
    dev = named.pop("dev")
    for candidates in (named, {"dev": dev}):
        found = list[TestSet]()
        for name, files in candidates.items():
            try:
                found.append(read_set(data, f"{name}{suffix}", files))
            except (DataError, RunDirError, OSError) as error:
                facts.notes.append(f"The set {name} is not shown: {error}")
        if found:
            return found
    return []


def _summary(all_facts: list[RunFacts], pages: list[dict[str, Any]], sets: list[ReportedSet]) -> list[str]:
    """The first thing that people read. Of several runs it names the best by chrF on the first set that they share."""
    if len(all_facts) == 1:
        return [*pages[0]["summary"][:1], *(one.told(0) for one in sets), *pages[0]["summary"][1:]]
    shared = next((one for one in sets if len(one.by_run) > 1), None)
    lines = _compared(all_facts, pages, shared) if shared is not None else [_told_best_of(all_facts)]
    lines += [f"{page['name']}: {page['summary'][0]}" for page in pages if page["state"] != "finished"]
    return list(dict.fromkeys(lines))  # the best run's own words may be among them already


def _told_best_of(all_facts: list[RunFacts]) -> str:
    validated = [facts for facts in all_facts if facts.log.best is not None]
    if not validated:
        return "None of these runs was validated yet."
    if len({_sha256_of_dev(facts) for facts in validated}) > 1:
        return "These runs have different dev sets, so their scores do not tell which is best."
    best = max(validated, key=lambda facts: facts.log.best["chrf"] if facts.log.best else 0.0)
    return f"{best.name} has the highest dev chrF of these {len(all_facts)} runs. {best.told_best}"


def _sha256_of_dev(facts: RunFacts) -> str:
    """Of the dev sets of all language pairs; the run's name where they are gone, so that it is like no other."""
    data = facts.config.data
    try:
        return " ".join(
            f"{sha256_of(facts.run.of_pair(data, pair).sets.dev_files(pair))} {pair.columns}"
            for pair in data.directions
        )
    except (DataError, RunDirError):
        return facts.name


def _compared(all_facts: list[RunFacts], pages: list[dict[str, Any]], shared: ReportedSet) -> list[str]:
    first, second = sorted(shared.results, key=lambda run: -shared.results[run].scores.chrf)[:2]
    counts = (shared.results[run].counts["chrf"] for run in (second, first))
    tests, seeds = paired_tests(*counts), shared.compared[first].seeds
    is_seed = seeds is not None and shared.results[second].label in seeds.runs
    lines = [
        f"{all_facts[first].name} has the highest chrF of {len(shared.results)} runs. {shared.told(first)}",
        f"It has {tests.difference:.2f} chrF more than {all_facts[second].name}, p = {tests.p_randomization:.4f}:"
        f" {meaning('chrf', tests, is_seed)}."
        if tests.difference
        else f"{all_facts[second].name} has the same.",
    ]
    if seeds is not None and len(seeds.seeds) == len(shared.results):
        chrf = seeds.scores["chrf"]
        lines[0] = (
            f"These are {len(seeds.seeds)} seeds of one config: chrF {chrf.mean:.1f} on average, with a standard"
            f" deviation of {chrf.deviation:.1f}. The best is {all_facts[first].name}."
        )
    return lines + [f"{all_facts[first].name}: {line}" for line in pages[first]["summary"][:2]]


def _config(all_facts: list[RunFacts]) -> dict[str, Any]:
    """Of one run its `config.yaml`, which has the reasons; of several the keys whose values differ."""
    if len(all_facts) == 1:
        run = all_facts[0].run
        return {"text": read_inside(run.path, run.config_file).decode("utf-8", "replace")}
    dumped = [
        {
            f"{section}.{key}": value
            for section, values in facts.config.model_dump().items()
            for key, value in values.items()
        }
        for facts in all_facts
    ]
    rows = {key: [str(one.get(key)) for one in dumped] for key in dict.fromkeys(key for one in dumped for key in one)}
    return {"rows": [[key, *values] for key, values in rows.items() if len(set(values)) > 1]}
