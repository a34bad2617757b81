"""One page about one or several runs: how good the translator is, what to do next, and all that stands behind it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter

from mt_cli.checking.report import Finding, SideFacts
from mt_cli.config import Config
from mt_cli.data.languages import writes_spaces
from mt_cli.data.normalize import normalize, words
from mt_cli.errors import CheckpointError, DataError, RunDirError, as_typed
from mt_cli.evaluation.comparison import SetScores, TestSet, below, with_comparisons
from mt_cli.evaluation.evaluate import RunEvaluator, read_set
from mt_cli.explain.attention import attention_maps
from mt_cli.explain.estimate import explain_lines, load_estimate
from mt_cli.explain.page import refuse_page, safe_json, write_page
from mt_cli.files import read_inside
from mt_cli.run.run_dir import Direction, RunDir, describe_directions, directions_of, target_option
from mt_cli.training.metrics_log import format_duration, learning_curve, verdict
from mt_cli.training.state import FAR_ABOVE

_MARK = b'<meta name="generator" content="mt report">'  # of a page that may be written again
_N_ATTENDED = 8  # sentences of each kind whose attention is in the page
_CURVES = ("dev_loss", "train_loss", "chrf", "bleu", "loss", "learning_rate", "grad_norm", "tokens_per_second")
_MAX_POINTS = 600  # of a curve; more cannot be told apart on a screen
_MAX_BYTES = 1 << 31  # of a file: the check of a large corpus lists many pairs

_PROVENANCE = TypeAdapter(dict[str, list[dict[str, Any]]])
T = TypeVar("T")


class Check(BaseModel):
    """The part of `check.json` that the page shows."""

    name: str
    n_pairs: int
    n_distinct: int
    src: SideFacts
    tgt: SideFacts
    findings: list[Finding]


class RunReport:
    """A run as its files describe it. Of several language pairs the corpus is that of the first."""

    def __init__(self, run: RunDir, name: str):
        self.run, self.name, self.config = run, name, run.load_config()
        self.notes = list[str]()  # on what could not be read
        pair, *others = self.config.data.directions
        files, content_of = run.of_pair(self.config.data, pair), partial(read_inside, run.path, max_bytes=_MAX_BYTES)
        self.records = self._read(run.metrics_file, self._numbers) or []
        self.times = self._read(run.timing_file, self._numbers) or []
        self.check = self._read(files.check_file, lambda file: Check.model_validate_json(content_of(file)))
        self.n_left_out = self._read(files.left_out_file, lambda file: max(0, content_of(file).count(b"\n") - 1)) or 0
        provenance = self._read(run.provenance_file, lambda file: _PROVENANCE.validate_json(content_of(file)))
        self.starts = (provenance or {}).get("starts", [])
        validations = [record for record in self.records if "chrf" in record]
        self.best = next((record for record in reversed(validations) if record.get("is_best")), None)
        self.is_finished = any("chrf" in record and record.get("is_last") for record in self.records[-1:])
        if others:
            self.notes.append(f"The corpus that is shown is that of {pair.name}, the first language pair.")

    def _read(self, file: Path, parse: Callable[[Path], T]) -> T | None:
        try:
            return parse(file)
        except FileNotFoundError:
            return None
        except RunDirError as error:
            self.notes.append(str(error))
        except (OSError, ValueError) as error:
            self.notes.append(f"{file} cannot be read: {str(error).splitlines()[0]}")
        return None

    def _numbers(self, file: Path) -> list[dict[str, float]]:
        """The records of a log, without what is no number, and no integer that a script can read."""
        found = (
            {key: x for key, x in record.items() if isinstance(x, float) or (isinstance(x, int) and abs(x) < 1 << 53)}
            for record in self.run.logs.records(file)
        )
        return [record for record in found if isinstance(record.get("step"), int)]

    def for_script(self) -> dict[str, Any]:
        """What the page's script reads. A point of a curve is step, minute and value; None: not known, or not finite."""
        training, curves = self.config.training, dict[str, list[tuple[float, float | None, float | None]]]()
        times = ((one["step"], one.get("elapsed_seconds", math.nan)) for one in self.times)
        minutes = {step: round(seconds / 60, 3) for step, seconds in times if math.isfinite(seconds)}
        for key in _CURVES:
            if known := [(one["step"], one[key]) for one in (*self.records, *self.times) if key in one]:
                stride = -(-len(known) // _MAX_POINTS)
                curves[key] = [
                    (step, minutes.get(step), float(f"{value:.5g}") if math.isfinite(value) else None)
                    for step, value in known[:-1:stride] + known[-1:]
                ]
        return {
            "name": self.name,
            "curves": curves,
            "best_step": self.best["step"] if self.best else None,
            "max_steps": training.max_steps if training.minutes is None else None,
            "minutes": training.minutes,
        }

    @cached_property
    def summary(self) -> list[str]:
        """A few sentences: how good it is, what to do next, how far it is."""
        command = f"Translate with it: mt translate {as_typed(self.run.path)}{target_option(self.config)}"
        if not self.records:
            if self.run.is_imported:
                return [f"It was imported, so nothing is known of its training. {command}"]
            return ["The training has just begun: nothing is measured yet. Open this page again after its first steps."]
        steps, best = f"{self.records[-1]['step']:,}", "It was not validated yet."
        if (of_best := self.best) is not None:
            best = f"The best checkpoint is that of step {of_best['step']:,}, with a dev chrF of {of_best['chrf']:.1f}."
        time = f" in {format_duration(self.times[-1].get('elapsed_seconds', 0))}" if self.times else ""
        losses = [one["train_loss"] for one in self.records if "train_loss" in one]
        # The objective rises by itself where R-Drop begins.
        losses = losses or [one["loss"] for one in self.records if "loss" in one]
        finite = [loss for loss in losses if math.isfinite(loss)]
        if finite and not losses[-1] <= min(finite) + FAR_ABOVE:  # also where it is not a number
            why = "its loss is far above its lowest, and such a loss does not come down again"
            advice = "Begin a new run with a lower training.learning_rate or more training.warmup_steps."
            return [f"The training diverged: after {steps} steps{time} {why}. {best}", advice]
        if not self.is_finished:
            planned = f" of {self.config.training.max_steps:,}" if self.config.training.minutes is None else ""
            advice = "If it was stopped, the same mt train command continues it."
            return [f"The training has not finished: {steps}{planned} steps{time}. {best}", advice]
        lines = list[str]()
        if curve := learning_curve(self.records):
            n_written, share_faulty = self.run.quality_of_text(self.config.data)
            n_epochs = self.records[-1].get("epoch", 1) - 1  # the last one has hardly ever ended
            settings = self.config.tokenizer
            tokenizer = self._read(self.run.path, lambda _: self.run.load_tokenizer(settings.joint))
            # Of a small text there are fewer pieces than its config asks for.
            vocab_size = tokenizer.tgt_vocab_size if tokenizer else settings.vocab_size
            lines = verdict(curve, vocab_size, n_written, n_epochs, share_faulty)
        finished = f"The training has finished after {steps} steps{time}. {best} {command}"
        return [*(f"{line[:1].upper()}{line[1:]}." for line in lines), finished]


@dataclass
class ReportedSet:
    """A test set, and what each run makes of it. The keys are the numbers of the runs in the report."""

    test_set: TestSet
    config: Config  # of the first run
    by_run: dict[int, dict[str, Any]] = field(default_factory=dict)  # by sentence, for the page's script
    results: dict[int, SetScores] = field(default_factory=dict)  # of the same runs, as `mt evaluate` has them
    changed: dict[int, list[SetScores]] = field(default_factory=dict)  # under the changes that people make in text

    def add(self, number: int, evaluator: RunEvaluator) -> None:
        """Translates and scores the set."""
        translator = evaluator.translator
        translations, result = evaluator.evaluate(self.test_set)
        chrf = [round(score, 1) for score in result.counts["chrf"].sentence_scores()]
        first = next((of_run["chrf"] for of_run in self.by_run.values()), chrf)
        # People look at the worst and the best, at those that another run translates most differently, and the first.
        lines = [line for line, translation in enumerate(translations) if len(translation.parts) == 1]
        by_chrf, n = sorted(lines, key=lambda line: chrf[line]), _N_ATTENDED
        by_change = sorted(lines, key=lambda line: -abs(chrf[line] - first[line]))
        attention = {}
        for line in sorted({*by_chrf[:n], *by_chrf[-n:], *by_change[:n], *lines[:n]}):
            maps = attention_maps(translator, translations[line].parts[0])
            weights = (100 * maps.cross.mean((0, 1))).round().int().tolist()  # hundredths, of all heads and layers
            attention[line] = {"src": maps.src_pieces, "tgt": maps.tgt_pieces, "weights": weights}
        explained = explain_lines(translator, translations, load_estimate(translator))
        self.results[number] = result
        self.by_run[number] = {
            "texts": result.outputs,
            "chrf": chrf,
            "doubts": {i: line.doubts for i, line in enumerate(explained) if line.doubts},
            "attention": attention,
            "estimate": [None if line.chrf is None else round(line.chrf, 1) for line in explained],
        }

    @cached_property
    def compared(self) -> dict[int, SetScores]:
        """The results, the best by chrF first and the others compared with it; to be asked for when all are there."""
        ranked = sorted(self.results, key=lambda run: -self.results[run].scores["chrf"])
        return dict(zip(ranked, with_comparisons([self.results[run] for run in ranked]), strict=True))

    def in_words(self, run: int) -> str:
        """A sentence about the scores of a run."""
        scores, chrf = self.results[run].scores, self.results[run].intervals["chrf"]
        found = f"chrF {scores['chrf']:.1f} (95%: {chrf.low:.1f} to {chrf.high:.1f}) and BLEU {scores['bleu']:.1f}"
        return f"On {self.test_set.name} it has {found}."

    def for_script(self) -> dict[str, Any]:
        """What the script of the page reads."""
        data = self.config.data
        return {
            "name": self.test_set.name,
            "src_lang": data.src_lang.replace("_", "-"),
            "tgt_lang": data.tgt_lang.replace("_", "-"),
            "is_spaced": writes_spaces(data.tgt_lang),
            "sources": self.test_set.sources,
            "references": self.test_set.references[0],
            "lines": self.test_set.lines,
            "lengths": [len(words(normalize(source))) for source in self.test_set.sources],
            "by_run": self.by_run,
        }


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
    robustness: bool = False,
) -> Report:
    """Writes the page, over an earlier report alone. `quick`: within a second, from files of the runs; otherwise each run
    translates its test sets, with `robustness` also under each change that people make in text. Raises MTError."""
    output = Path(output)
    refuse_page(output, "--output", _MARK)
    folders = [RunDir.existing(Path(run)) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    names = [run.path.resolve().name for run in folders]
    if len(set(names)) < len(names):
        names = [str(run.path) for run in folders]
    found = [RunReport(run, name) for run, name in zip(folders, names, strict=True)]
    sets = [] if quick else _translate(found, checkpoint, device, robustness)
    configs = [list(run.config.model_dump().items()) for run in found]
    values = [{f"{name}.{key}": str(one) for name, own in config for key, one in own.items()} for config in configs]
    keys = dict.fromkeys(key for own in values for key in own)
    rows = ([key, *(own.get(key, "") for own in values)] for key in keys)
    differing = [row for row in rows if len({*row[1:]}) > 1]
    made = Report(output, _summary(found, sets), found, sets, differing)
    data = safe_json({"runs": [run.for_script() for run in found], "sets": [one.for_script() for one in sets]})
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


def _translate(runs: list[RunReport], checkpoint: str, device: str, robustness: bool) -> list[ReportedSet]:
    """The test sets of all runs, or their dev sets where they have none, each with what the runs that have it make of it."""
    sets: dict[tuple[tuple[str, ...], ...], ReportedSet] = {}  # by their texts: one table may hold several
    for number, run in enumerate(runs):
        pairs = run.config.data.directions
        if back := [one for one in directions_of(run.config) if one.is_reverse]:
            reverse = describe_directions(back)
            run.notes.append(f"The reverse direction, {reverse}, is not shown; mt evaluate scores it.")
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
                shown = sets.setdefault(texts, ReportedSet(one, evaluator.translator.config))
                shown.add(number, evaluator)
                shown.changed[number] = list(evaluator.under_changes(shown.results[number])) if robustness else []
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
            less = f"{abs(tests.difference):.2f} chrF less, p = {tests.p_randomization:.4f}: {tests.meaning}"
            lines.append(f"{runs[second].name} has {less}.")
        lines += [f"{best.name}: {line}" for line in best.summary[:2] if best.is_finished]
    return lines + _merged({run.name: run.summary[:1] for run in runs if shared is None or not run.is_finished})


def _merged(lines_of: Mapping[str, list[str]]) -> list[str]:
    """Each line once, behind the names of the runs that have it; a single run needs no name."""
    names_of: dict[str, dict[str, None]] = {}
    for name, lines in lines_of.items():
        for line in lines:
            names_of.setdefault(line, {})[name] = None
    return [f"{', '.join(names)}: {line}" if len(lines_of) > 1 else line for line, names in names_of.items()]
