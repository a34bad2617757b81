"""What a system made of a test set, and how it differs from others: by chance or not, by sentence, by seed; and tables of that, for
a terminal, for a paper (LaTeX, Markdown) and for other programs (JSON). Intervals and tests are sacrebleu's, with the same
random numbers; it holds all resamples at once, 80 KB for each sentence, here 32 are."""

import hashlib
import json
import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import TER

from mt_cli.config import SEARCHED, Config, DecodingConfig, flat_keys
from mt_cli.display import column_width, escaped
from mt_cli.evaluation.metrics import TITLES, Counts, perplexity
from mt_cli.run.logs import versions

SEED, N_RESAMPLES, N_TRIALS = 12345, 1_000, 10_000  # of the sacrebleu command
# Each draw of random truths begins with a new word of 32 bits: 32 rows at a time are the same as all at once.
_AT_ONCE = 32
_LEVEL = 0.05

Floats = npt.NDArray[np.floating]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Interval:
    """Where 95% of the scores of resampled test sets lie."""

    low: float
    high: float
    mean: float
    half_width: float


@dataclass(frozen=True)
class PairedTests:
    """How a system differs from a baseline, and how probable as large a difference is where there is none."""

    difference: float  # above 0 where the system's score is higher
    p_bootstrap: float
    p_randomization: float
    meaning: str


def interval(counts: Counts) -> Interval:
    """The 95% interval of a score by bootstrap resampling (Koehn 2004)."""
    scores = np.sort(_bootstrap(counts))
    low, high = float(scores[len(scores) // 40]), float(scores[-(len(scores) // 40) - 1])
    return Interval(low, high, float(scores.mean()), 0.5 * (high - low))


def paired_tests(baseline: Counts, system: Counts, is_seed: bool = False) -> PairedTests:
    """Paired bootstrap (Koehn 2004), whose p is as sacrebleu's about half of the two-sided one, and paired approximate
    randomization (Riezler and Maxwell 2005). `is_seed`: the same config with another seed, which differs by chance."""
    difference = system.score() - baseline.score()
    if difference == 0:  # sacrebleu counts larger ones only, and would be sure that a system differs from itself
        return PairedTests(0.0, 1.0, 1.0, "the same score")

    def p_value(by_chance: Floats) -> float:
        # Adding 1 to both keeps false alarms at the stated level (sacrebleu does so after multeval).
        return float(np.sum(by_chance > abs(difference)) + 1) / (len(by_chance) + 1)

    resampled = np.abs(_bootstrap(system) - _bootstrap(baseline))
    p_bootstrap = p_value(resampled - resampled.mean())
    # Of the 2^n exchanges two, all and none, always give as large a difference. sacrebleu does not count these.
    n_differing = int((baseline.by_sentence != system.by_sentence).any(axis=1).sum())
    p_randomization = max(p_value(_exchanged(baseline, system)), 2.0 ** (1 - n_differing))
    direction = "better" if (difference > 0) != isinstance(system.metric, TER) else "worse"
    meaning = (
        "no evidence of a difference",
        f"weak evidence that it is {direction}, as only one of the two tests passes",
        f"{direction} by the chance of its seed" if is_seed else f"{direction}, not by chance",
    )[sum(p < _LEVEL for p in (p_bootstrap, p_randomization))]
    return PairedTests(difference, p_bootstrap, p_randomization, meaning)


def _bootstrap(counts: Counts) -> Floats:
    """Scores on test sets of as many sentences, drawn with replacement; the same draws for every system."""
    rng, n_sentences = np.random.default_rng(SEED), len(counts.by_sentence)
    scores = list[float]()
    while n := min(_AT_ONCE, N_RESAMPLES - len(scores)):
        drawn = rng.choice(n_sentences, size=(n, n_sentences))
        n_times = np.array([np.bincount(row, minlength=n_sentences) for row in drawn], np.float64)
        # As float32, in which sacrebleu divides here.
        scores += [counts.score_of(row) for row in (n_times @ counts.by_sentence).astype(np.float32)]
    return np.array(scores)


def _exchanged(first: Counts, second: Counts) -> Floats:
    """Differences of scores when each sentence's two translations are exchanged at random."""
    rng, both = np.random.default_rng(SEED), first.by_sentence.sum(0) + second.by_sentence.sum(0)
    differences = list[float]()
    while n := min(_AT_ONCE, N_TRIALS - len(differences)):
        is_kept = rng.integers(2, size=(n, len(first.by_sentence)), dtype=bool)
        ones = is_kept @ (first.by_sentence - second.by_sentence) + second.by_sentence.sum(0)
        pairs = zip(ones.tolist(), (both - ones).tolist(), strict=True)
        differences += [abs(first.score_of(one) - first.score_of(other)) for one, other in pairs]
    return np.array(differences)


@dataclass(frozen=True)
class TestSet:
    name: str
    sources: list[str]  # none for files of translations
    references: list[list[str]]  # the lines of each file of references
    lines: list[int] = field(default_factory=list)  # of its files, counted from 1
    warnings: list[str] = field(default_factory=list)  # reasons why scores mislead

    @cached_property
    def sha256(self) -> str:
        """Of its text, by which it is recognised, whatever its files are called."""
        return hashlib.sha256("\n".join(sum(self.references, self.sources)).encode()).hexdigest()


@dataclass(frozen=True)
class Comparison:
    """How a system differs from the first one. Sentences are won whose chrF is higher."""

    baseline: str
    scores: dict[str, PairedTests]  # those with the same signature
    wins: int
    losses: int
    ties: int


@dataclass(frozen=True)
class Spread:
    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.deviation:.2f})"


@dataclass(frozen=True)
class Seeds:
    """The runs of one config with several seeds."""

    runs: list[str]
    seeds: list[int]
    scores: dict[str, Spread]


@dataclass(repr=False)
class SetScores:
    """What a system made of a test set, and how good that is."""

    kind: Literal["run", "file", "baseline"]
    system: str  # run, file of translations, or what a baseline is called
    test_set: TestSet
    outputs: list[str]
    counts: Mapping[str, Counts] = field(compare=False)
    facts: dict[str, Any]  # on its origin, for `--json`; of a run as RunEvaluator has them
    note: str = ""  # on how it was scored
    loss: float | None = None
    sentences_per_second: float | None = None
    terms: dict[str, float] | None = None  # of a glossary: how many the sources have, and the % that was used
    comparison: Comparison | None = None
    seeds: Seeds | None = None

    def __post_init__(self) -> None:
        self.scores = {name: one.score() for name, one in self.counts.items()}
        self.signatures = {name: one.signature() for name, one in self.counts.items()}
        self.intervals = {name: interval(one) for name, one in self.counts.items()}

    def __repr__(self) -> str:
        scores = ", ".join(f"{TITLES[name]} {self.cell(name)}" for name in self.counts)
        return f"{self.label} on {self.test_set.name}: {scores}"

    def cell(self, metric: str) -> str:
        return f"{self.scores[metric]:.1f} ± {self.intervals[metric].half_width:.1f}"

    @property
    def label(self) -> str:
        """What the system is called: its run or its file, and its checkpoint if that is not the best."""
        checkpoint = self.facts.get("checkpoint", "best")
        return self.system if checkpoint == "best" else f"{self.system} ({checkpoint})"

    def signature(self, metric: str) -> str:
        return self.counts[metric].signature(bs=N_RESAMPLES, seed=SEED)

    def as_json(self) -> dict[str, Any]:
        """The values as `mt evaluate --json` names them; those that it has not are left out."""
        found: dict[str, Any] = {"hyp" if self.kind == "file" else "run": self.system, "test_set": self.test_set.name}
        found |= {name: self.scores.get(name) for name in TITLES} | {"signatures": self.signatures}
        if self.kind == "run":
            found |= {"loss": self.loss, "perplexity": None if self.loss is None else perplexity(self.loss)}
            found["sentences_per_second"] = self.sentences_per_second
        if self.terms is not None:
            found["terms"] = self.terms
        found["intervals"] = {
            name: asdict(one) | {"signature": self.signature(name)} for name, one in self.intervals.items()
        }
        if self.comparison is not None:
            compared = asdict(self.comparison)
            found["comparison"] = {"with": compared.pop("baseline"), **compared}
        if self.seeds is not None:
            found["seeds"] = asdict(self.seeds)
        return found | {
            "n_sentences": len(self.outputs),
            "test_sha256": self.test_set.sha256,
            **self.facts,
            "versions": versions(),
        }


def with_comparisons(results: list[SetScores]) -> list[SetScores]:
    """The results, each compared with the first of its test set; those of one config get `seeds`."""
    groups = dict[tuple[str, ...], dict[int, SetScores]]()
    for one in results:
        if one.kind == "run":
            origin = one.facts["config_sha256"], one.facts.get("checkpoint", "best"), one.test_set.sha256
            groups.setdefault((*origin, *one.signatures.values()), {}).setdefault(one.facts["seed"], one)
    for group in groups.values():
        if len(group) > 1:
            seeds = Seeds([one.label for one in group.values()], list(group), {})
            for name in next(iter(group.values())).counts:
                values = [one.scores[name] for one in group.values()]
                seeds.scores[name] = Spread(statistics.mean(values), statistics.stdev(values))
            for one in group.values():
                one.seeds = seeds

    by_text, by_name = dict[str, SetScores](), dict[str, SetScores]()
    for one in results:
        first = by_text.setdefault(one.test_set.sha256, one)
        namesake = by_name.setdefault(one.test_set.name, one)
        if first.label != one.label:
            is_seed = one.seeds is not None and first.label in one.seeds.runs
            same = [name for name, signature in one.signatures.items() if signature == first.signatures.get(name)]
            tests = {name: paired_tests(first.counts[name], one.counts[name], is_seed) for name in same}
            own, others = (np.array(of.counts["chrf"].sentence_scores()) for of in (one, first))
            wins, losses = int((own > others).sum()), int((own < others).sum())
            one.comparison = Comparison(first.label, tests, wins, losses, len(own) - wins - losses)
        elif namesake.test_set.sha256 != one.test_set.sha256:
            what = f"{one.test_set.name} of {one.label} is another text than that of {namesake.label}"
            log.warning(f"{what}; to compare them, give --src and --ref")
    return results


def config_sha256(
    config: Config, decoding: DecodingConfig, data_sha256: Mapping[str, str], is_chosen: bool = False
) -> str:
    """Of all that has an effect on translations but the seed, and what the run chose of the search, if it did. Text is known
    by its hash, wherever it lies."""
    training = {"seed", "device", "n_samples", "report"}
    sections = flat_keys(config.model_dump(exclude={"training": training, "decoding": True, "data": {"test": True}}))
    search = decoding.model_dump(exclude={"batch_size", *(SEARCHED if is_chosen else decoding.keys_without_effect())})
    return hashlib.sha256(json.dumps([sections, search, dict(data_sha256)], sort_keys=True).encode()).hexdigest()


Format = Literal["text", "latex", "markdown", "json"]
_TEXT_COLUMNS = ("run", "translations", "checkpoint", "test set")  # which are aligned at their left
_COLUMNS = (*_TEXT_COLUMNS, *TITLES.values(), "terms", "loss", "perplexity", "lines/s")
_LATEX = str.maketrans(
    {char: rf"\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar\allowbreak{}"}
    | {"[": "{[}", "*": "{*}"}  # which a line's end before them would take for its own
)
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in r"\`*_[]<>|#&~"})


def as_table(results: Sequence[SetScores], form: Format = "text") -> str:
    """A row for each result, and for the mean of several seeds; then what the comparisons say, then the signatures."""
    if form == "json":
        return json.dumps([result.as_json() for result in results], indent=2, ensure_ascii=False, allow_nan=False)
    rows = _rows(results)
    titles, blocks = rows[0], below(results)
    if form == "text":
        widths = [max(map(column_width, cells)) for cells in zip(*rows, strict=True)]
        table = []
        for row in rows:
            cells = []
            for title, cell, width in zip(titles, row, widths, strict=True):
                blank = " " * (width - column_width(cell))
                cells.append(cell + blank if title in _TEXT_COLUMNS else blank + cell)
            table.append("  ".join(cells).rstrip())
        return "\n\n".join("\n".join(block) for block in (table, *blocks))
    notes = [line for block in blocks for line in block]
    if form == "markdown":
        title, *body = ["| " + " | ".join(cell.translate(_MARKDOWN) for cell in row) + " |" for row in rows]
        rule = "|" + "|".join("---" if title in _TEXT_COLUMNS else "---:" for title in titles) + "|"
        return "\n".join([title, rule, *body, "", *(f"- {line.translate(_MARKDOWN)}" for line in notes)])
    title, *body = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in rows]
    alignment = "".join("l" if title in _TEXT_COLUMNS else "r" for title in titles)
    lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\hline", title, r"\hline", *body, r"\hline", r"\end{tabular}"]
    return "\n".join([*lines, "", r"{\footnotesize\noindent", *(rf"{line.translate(_LATEX)}\\" for line in notes), "}"])


def _rows(results: Sequence[SetScores]) -> list[list[str]]:
    """The titles of the columns that have a value, and the cells of each row."""
    shows_checkpoints = any(result.label != result.system for result in results)
    rows, means = list[dict[str, str]](), dict[tuple[str, ...], dict[str, str]]()
    for result in results:
        row = {"translations" if result.kind == "file" else "run": result.system}
        if result.kind != "file":
            row["test set"] = result.test_set.name
        if shows_checkpoints:
            row["checkpoint"] = result.facts.get("checkpoint", "")
        row |= {TITLES[name]: result.cell(name) for name in result.counts}
        if result.loss is not None:
            row |= {"loss": f"{result.loss:.3f}", "perplexity": f"{perplexity(result.loss):.2f}"}
        if (of_terms := result.terms) is not None:
            row["terms"] = f"{of_terms['as_written']:.1f} / {of_terms['by_beginning']:.1f} of {of_terms['n']:.0f}"
        if result.sentences_per_second is not None:
            row["lines/s"] = f"{result.sentences_per_second:.0f}"
        rows.append(row)
        if (seeds := result.seeds) is not None:
            mean = {"run": f"mean of {len(seeds.seeds)} seeds", "test set": result.test_set.name}
            means[*seeds.runs, result.test_set.name] = mean | {TITLES[k]: str(one) for k, one in seeds.scores.items()}
    rows += means.values()
    titles = [title for title in _COLUMNS if any(row.get(title) for row in rows)]
    return [titles, *([escaped(row.get(title, "")) for title in titles] for row in rows)]


def below(results: Sequence[SetScores]) -> list[list[str]]:
    """Blocks of lines below a table: comparisons, means of seeds, signatures."""
    blocks, seeds_lines = list[list[str]](), list[str]()
    for result in results:
        if (found := result.comparison) is not None:
            on = f" on {result.test_set.name}" if result.kind == "run" else ""
            block = [f"{result.label} compared with {found.baseline}{on}:"]
            for name, tests in found.scores.items():
                p_values = f"p = {tests.p_randomization:.4f} ({tests.p_bootstrap:.4f})"
                block.append(f"{tests.difference:+.2f} {TITLES[name]}, {p_values}: {tests.meaning}")
            block.append(f"chrF by sentence: {found.wins:,} better, {found.losses:,} worse, {found.ties:,} the same")
            blocks.append(block)
        if (seeds := result.seeds) is not None:
            runs = ", ".join(f"{run} ({seed})" for run, seed in zip(seeds.runs, seeds.seeds, strict=True))
            scores = ", ".join(f"{TITLES[name]} {one}" for name, one in seeds.scores.items())
            name = result.test_set.name
            seeds_lines.append(f"{name}, mean and standard deviation of {len(seeds.seeds)} seeds, {runs}: {scores}")
    lines = [f"±: 95% interval, by bootstrap (bs:{N_RESAMPLES})"]
    if any(result.comparison for result in results):
        lines += [
            f"p: how often chance makes such a difference, by paired approximate randomization (ar:{N_TRIALS})",
            f"(p): the same by paired bootstrap (bs:{N_RESAMPLES}), both with seed:{SEED}",
        ]
    lines += dict.fromkeys(result.note for result in results if result.note)
    if any(result.terms for result in results):
        how = "as written / by common beginning, and their number"
        lines.append(f"terms: % of the glossary's terms that were used, {how}")
    for metric, title in TITLES.items():
        systems_of: dict[str, dict[str, None]] = {}
        for result in results:
            if metric in result.counts:
                systems_of.setdefault(result.signature(metric), {})[result.system] = None
        for signature, systems in systems_of.items():
            of = f" of {', '.join(systems)}" if len(systems_of) > 1 else ""
            lines.append(f"{title}{of}: {signature}")
    all_blocks = (*blocks, list(dict.fromkeys(seeds_lines)), lines)
    return [[escaped(line) for line in block] for block in all_blocks if block]
