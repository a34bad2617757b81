"""What a system made of a test set, and how it differs from others: by chance or not, by sentence, by seed. Intervals and tests
are sacrebleu's, with the same random numbers; it holds all resamples at once, 80 KB for each sentence, here 32 are."""

import hashlib
import json
import logging
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import TER

from mt_cli.config import Config, DecodingConfig, flat_keys
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


def config_sha256(config: Config, decoding: DecodingConfig, data_sha256: Mapping[str, str]) -> str:
    """Of all that has an effect on translations but the seed. Text is known by its hash, wherever it lies."""
    training = {"seed", "device", "n_samples", "report"}
    sections = flat_keys(config.model_dump(exclude={"training": training, "decoding": True, "data": {"test": True}}))
    search = decoding.model_dump(exclude={"batch_size", *decoding.keys_without_effect()})
    return hashlib.sha256(json.dumps([sections, search, dict(data_sha256)], sort_keys=True).encode()).hexdigest()
