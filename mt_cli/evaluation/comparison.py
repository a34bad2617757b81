"""What a system made of a test set, and what tells systems apart: tests of significance, wins and losses by sentence, seeds,
and keys of their configs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sacrebleu.metrics import TER

from mt_cli.config import Config, DecodingConfig, keys_without_effect
from mt_cli.evaluation.metrics import TITLES, Counts, Scores, count_texts, scores_of
from mt_cli.evaluation.significance import N_RESAMPLES, SEED, Interval, PairedTests, interval, paired_tests
from mt_cli.run.provenance import versions

_LEVEL = 0.05
_WITHOUT_EFFECT = {  # on translations
    "data.test", "training.n_samples", "training.report", "training.tensorboard", "training.device", "decoding.batch_size",
}  # fmt: skip


@dataclass(frozen=True)
class MetricComparison:
    tests: PairedTests
    meaning: str


@dataclass(frozen=True)
class Comparison:
    """How a system differs from the first one. Sentences are won whose chrF is higher."""

    baseline: str
    scores: dict[str, MetricComparison]
    wins: int
    losses: int
    ties: int


@dataclass(frozen=True)
class Spread:
    mean: float
    deviation: float


@dataclass(frozen=True)
class Seeds:
    """The runs of one config with several seeds."""

    runs: list[str]
    seeds: list[int]
    scores: dict[str, Spread]


@dataclass(frozen=True)
class Key:
    """A key of a config with an effect on translations. Files are the same where their hash is, wherever they lie."""

    identity: str
    value: Any


@dataclass(frozen=True)
class SetScores:
    """What a system made of a test set, and how good that is."""

    kind: Literal["run", "file", "baseline"]
    system: str  # run, file of translations, or what a baseline is called
    test_set: str
    outputs: list[str] = field(repr=False)
    references: list[list[str]] = field(repr=False)  # the lines of each file of references
    scores: Scores
    intervals: dict[str, Interval]
    counts: Mapping[str, Counts] = field(repr=False, compare=False)
    origin: dict[str, Any] = field(default_factory=dict, repr=False)  # what made it, as `--json` shows it
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # on how it was scored
    test_sha256: str = ""
    checkpoint: str | None = None
    seed: int | None = None
    keys: dict[str, Key] = field(default_factory=dict, repr=False)  # of a run's config
    loss: float | None = None
    perplexity: float | None = None
    sentences_per_second: float | None = None
    comparison: Comparison | None = None
    seeds: Seeds | None = None
    differing_keys: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, outputs: list[str], references: list[list[str]], tokenize: str, ter: TER | None, **others: Any
    ) -> SetScores:
        """Scores the outputs. Raises DataError where they are not line for line with the references."""
        counts = count_texts(outputs, references, tokenize, ter)
        intervals = {name: interval(one) for name, one in counts.items()}
        return cls(
            outputs=outputs,
            references=references,
            scores=scores_of(counts),
            intervals=intervals,
            counts=counts,
            **others,
        )

    @property
    def label(self) -> str:
        """What the system is called: its run or its file, and its checkpoint if that is not the best."""
        return self.system if self.checkpoint in {None, "best"} else f"{self.system} ({self.checkpoint})"

    def signature(self, metric: str) -> str:
        """That of the score with its interval."""
        return self.counts[metric].signature(bs=N_RESAMPLES, seed=SEED)

    def as_json(self) -> dict[str, Any]:
        """The values as `mt evaluate --json` names them."""
        intervals = {
            name: asdict(one) | {"half_width": one.half_width, "signature": self.signature(name)}
            for name, one in self.intervals.items()
        }
        found = self.origin | {"test_set": self.test_set, **asdict(self.scores), "intervals": intervals}
        if self.kind == "run":
            names = ("loss", "perplexity", "sentences_per_second")
            found |= {"seed": self.seed, **{name: getattr(self, name) for name in names}}
        found |= {"n_sentences": len(self.outputs), "versions": versions()}
        if self.seeds is not None:
            found["seeds"] = asdict(self.seeds)
        if self.differing_keys:
            found["differing_keys"] = self.differing_keys
        if (compared := self.comparison) is not None:
            scores = {name: asdict(one.tests) | {"meaning": one.meaning} for name, one in compared.scores.items()}
            found["comparison"] = {"with": compared.baseline, **asdict(compared), "scores": scores}
            del found["comparison"]["baseline"]
        return found


def with_comparisons(results: Sequence[SetScores]) -> list[SetScores]:
    """The results, of which each but the first of a test set is compared with the first. Those of one config with several
    seeds get `seeds`, and where configs differ each gets its `differing_keys`."""
    by_name, by_text = dict[str, SetScores](), dict[str, SetScores]()
    compared = []
    for result, seeds, keys in zip(results, _seeds(results), _differing_keys(results), strict=True):
        # The same set has another name in a run of several directions: dev en-de, not dev.
        same = by_text.setdefault(result.test_sha256, result) if result.test_sha256 else result
        first = by_name.setdefault("" if result.kind == "file" else result.test_set, result)
        if first is result and same.label != result.label:
            first = same
        own = replace(result, seeds=seeds, differing_keys=keys)
        is_seed = seeds is not None and first.label in seeds.runs
        compared.append(own if first is result else _compared(first, own, is_seed))
    return compared


# Two systems ----------------------------------------------------------------------------------------------------------


def _compared(first: SetScores, result: SetScores, is_seed: bool) -> SetScores:
    """The result with its comparison, and with warnings about what cannot be compared. `is_seed`: of the same config."""
    ours, theirs = result.label, first.label
    if first.references != result.references:
        warning = f"{ours} has other references than {theirs}; to compare them, give --src and --ref"
        return replace(result, warnings=[*result.warnings, warning])
    scores, warnings = {}, list(result.warnings)
    for name, counts in result.counts.items():
        if result.scores.signatures[name] == first.scores.signatures.get(name):
            tests = paired_tests(first.counts[name], counts)
            scores[name] = MetricComparison(tests, meaning(name, tests, is_seed))
        else:
            warnings.append(f"{TITLES[name]} of {ours} is not compared with {theirs}, whose signature differs")
    own, others = (one.counts["chrf"].sentence_scores() for one in (result, first))
    wins = sum(mine > other for mine, other in zip(own, others, strict=True))
    losses = sum(mine < other for mine, other in zip(own, others, strict=True))
    comparison = Comparison(theirs, scores, wins, losses, len(own) - wins - losses)
    return replace(result, comparison=comparison, warnings=warnings)


def meaning(metric: str, tests: PairedTests, is_seed: bool = False) -> str:
    """What the tests say of a difference: that it is none, that the choice of sentences may explain it, or that it does not.
    That of two seeds is chance, whatever the sentences."""
    if tests.difference == 0:
        return "the same score"
    direction = "better" if (tests.difference > 0) != (metric == "ter") else "worse"
    n_passed = sum(p < _LEVEL for p in (tests.p_bootstrap, tests.p_randomization))
    return (
        "no evidence of a difference",
        f"weak evidence that it is {direction}, as only one of the two tests passes",
        f"{direction} by the chance of its seed" if is_seed else f"{direction}, not by chance",
    )[n_passed]


# Configs --------------------------------------------------------------------------------------------------------------


def _seeds(results: Sequence[SetScores]) -> list[Seeds | None]:
    """For each result, those of its config, if it was trained with several."""
    groups: dict[str, dict[int, SetScores]] = {}
    group_of = []
    for result in results:
        config = {key: one.identity for key, one in result.keys.items() if key != "training.seed"}
        same = [result.test_set, result.test_sha256, result.checkpoint, result.scores.signatures, config]
        group_of.append(groups.setdefault(json.dumps(same, sort_keys=True), {}))
        if result.seed is not None:
            group_of[-1].setdefault(result.seed, result)
    return [_spread(list(group.values())) if len(group) > 1 else None for group in group_of]


def _spread(results: list[SetScores]) -> Seeds:
    values = {name: [getattr(result.scores, name) for result in results] for name in results[0].intervals}
    scores = {name: Spread(statistics.mean(one), statistics.stdev(one)) for name, one in values.items()}
    return Seeds([result.label for result in results], [result.seed or 0 for result in results], scores)


def _differing_keys(results: Sequence[SetScores]) -> list[dict[str, Any]]:
    """For each result, its own values of the keys that not all runs have the same value of."""
    identities: dict[str, dict[str, set[str]]] = {}  # of a key, by its value
    for result in results:
        for name, key in result.keys.items():
            identities.setdefault(name, {}).setdefault(json.dumps(key.value), set()).add(key.identity)

    def shown(name: str, key: Key) -> Any:
        """Files of one name, and sets that were held out, with what tells them apart."""
        is_clear = len(identities[name][json.dumps(key.value)]) == 1
        return key.value if is_clear else f"{json.dumps(key.value, ensure_ascii=False)} (sha256 {key.identity[:8]})"

    differing = {name for name, by_value in identities.items() if len(set.union(*by_value.values())) > 1}
    return [{name: shown(name, key) for name, key in one.keys.items() if name in differing} for one in results]


def keys_of(config: Config, decoding: DecodingConfig, data_sha256: Mapping[str, str]) -> dict[str, Key]:
    """The keys of a run's config with an effect on translations. Those of a search are those that it used."""
    unused = keys_without_effect(decoding)
    search = {key: value for key, value in decoding.model_dump().items() if key not in unused}
    sections = config.model_dump() | {"decoding": search}
    flat = {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}
    identities = {key: json.dumps(value) for key, value in flat.items() if key not in _WITHOUT_EFFECT}
    for name, sha256 in data_sha256.items():
        identities[f"data.{name}"] = sha256 + _besides_files(flat.get(f"data.{name}"))
    if data_sha256 and (pairs := flat.get("data.pairs")):  # the files of each have hashes of their own
        rest = [{key: value for key, value in pair.items() if key not in {"dev", "test"}} for pair in pairs]
        identities["data.pairs"] = json.dumps(
            [pair | {key: _besides_files(pair.get(key)) for key in ("train", "words")} for pair in rest]
        )
    return {key: Key(identity, flat.get(key, identity)) for key, identity in identities.items()}


def _besides_files(value: Any) -> str:
    """The settings of corpora or of a word list, such as their weights; '' for plain files."""
    corpora = value if isinstance(value, list) else [value]
    settings = [{key: one[key] for key in one if key != "files"} for one in corpora if isinstance(one, dict)]
    return json.dumps(settings) if settings else ""
