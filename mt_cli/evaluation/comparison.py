"""What a system made of a test set, and what tells systems apart: tests of significance, wins and losses by sentence, seeds,
and keys of their configs."""

from __future__ import annotations

import json
import logging
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sacrebleu.metrics import TER

from mt_cli.config import Config, DecodingConfig
from mt_cli.evaluation.metrics import TITLES, Counts, Scores, count_texts, perplexity, scores_of
from mt_cli.evaluation.significance import N_RESAMPLES, SEED, Interval, PairedTests, interval, paired_tests
from mt_cli.run.provenance import versions

log = logging.getLogger(__name__)

_LEVEL = 0.05
_WITHOUT_EFFECT = {  # on translations
    "data.test", "training.n_samples", "training.report", "training.tensorboard", "training.device", "decoding.batch_size",
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """How a system differs from the first one. Sentences are won whose chrF is higher."""

    baseline: str
    tests: dict[str, PairedTests]  # of each score with the same signature
    wins: int
    losses: int
    ties: int
    is_seed: bool  # whether both are of the same config

    @property
    def meanings(self) -> dict[str, str]:
        return {name: meaning(name, tests, self.is_seed) for name, tests in self.tests.items()}

    def as_json(self) -> dict[str, Any]:
        scores = {name: asdict(self.tests[name]) | {"meaning": words} for name, words in self.meanings.items()}
        counts = {"wins": self.wins, "losses": self.losses, "ties": self.ties}
        return {"with": self.baseline, "scores": scores, **counts}


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


@dataclass(frozen=True)
class Key:
    """A key of a config with an effect on translations. Files are the same where their hash is, wherever they lie."""

    identity: str
    value: Any


@dataclass(frozen=True, repr=False)
class SetScores:
    """What a system made of a test set, and how good that is."""

    kind: Literal["run", "file", "baseline"]
    system: str  # run, file of translations, or what a baseline is called
    test_set: str
    outputs: list[str]
    references: list[list[str]]  # the lines of each file of references
    scores: Scores
    intervals: dict[str, Interval]
    counts: Mapping[str, Counts] = field(compare=False)
    warnings: list[str]  # reasons why scores mislead
    notes: list[str] = field(default_factory=list)  # on how it was scored
    facts: dict[str, Any] = field(default_factory=dict)  # what else `--json` shows of its origin
    test_sha256: str | None = None
    checkpoint: str | None = None
    seed: int | None = None
    keys: dict[str, Key] = field(default_factory=dict)  # of a run's config
    loss: float | None = None
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
        blank = [] if any(line.strip() for line in outputs) else ["every translation is blank"]
        others |= {"warnings": [*blank, *others.get("warnings", ())], "counts": counts, "scores": scores_of(counts)}
        intervals = {name: interval(one) for name, one in counts.items()}
        return cls(outputs=outputs, references=references, intervals=intervals, **others)

    def __repr__(self) -> str:
        return (
            f"{self.label} on {self.test_set}: {', '.join(f'{TITLES[name]} {self.cell(name)}' for name in self.counts)}"
        )

    def cell(self, metric: str) -> str:
        """A score with its interval."""
        return f"{getattr(self.scores, metric):.1f} ± {self.intervals[metric].half_width:.1f}"

    @property
    def label(self) -> str:
        """What the system is called: its run or its file, and its checkpoint if that is not the best."""
        return self.system if self.checkpoint in {None, "best"} else f"{self.system} ({self.checkpoint})"

    @property
    def perplexity(self) -> float | None:
        return None if self.loss is None else perplexity(self.loss)

    def signature(self, metric: str) -> str:
        """That of the score with its interval."""
        return self.counts[metric].signature(bs=N_RESAMPLES, seed=SEED)

    def as_json(self) -> dict[str, Any]:
        """The values as `mt evaluate --json` names them."""
        found: dict[str, Any] = {"hyp" if self.kind == "file" else "run": self.system, "test_set": self.test_set}
        if self.kind != "file":
            found |= {"checkpoint": self.checkpoint, "test_sha256": self.test_sha256}
        found |= self.facts | asdict(self.scores)
        found["intervals"] = {
            name: asdict(one) | {"half_width": one.half_width, "signature": self.signature(name)}
            for name, one in self.intervals.items()
        }
        if self.kind == "run":
            speed = self.sentences_per_second
            found |= {"loss": self.loss, "perplexity": self.perplexity, "sentences_per_second": speed}
        found |= {"n_sentences": len(self.outputs), "versions": versions()}
        found |= {"seeds": asdict(self.seeds)} if self.seeds else {}
        found |= {"differing_keys": self.differing_keys} if self.differing_keys else {}
        return found | ({"comparison": self.comparison.as_json()} if self.comparison else {})


def with_comparisons(results: Sequence[SetScores]) -> list[SetScores]:
    """The results, of which each but the first of a test set is compared with the first. Those of one config with several
    seeds get `seeds`, and where configs differ each gets its `differing_keys`. What cannot be compared is logged."""
    by_name, by_text = dict[str, SetScores](), dict[str, SetScores]()
    compared = []
    for result, seeds, keys in zip(results, _seeds(results), _differing_keys(results), strict=True):
        # The same set has another name in a run of several directions: dev en-de, not dev.
        same = by_text.setdefault(result.test_sha256, result) if result.test_sha256 else result
        first = by_name.setdefault("" if result.kind == "file" else result.test_set, result)
        if first is result and same.label != result.label:
            first = same
        is_seed = seeds is not None and first.label in seeds.runs
        comparison = None if first is result else _compare(first, result, is_seed)
        compared.append(replace(result, seeds=seeds, differing_keys=keys, comparison=comparison))
    return compared


# Two systems ----------------------------------------------------------------------------------------------------------


def _compare(first: SetScores, result: SetScores, is_seed: bool) -> Comparison | None:
    ours, theirs, tests = result.label, first.label, dict[str, PairedTests]()
    if first.references != result.references:
        log.warning(f"{ours} has other references than {theirs}; to compare them, give --src and --ref")
        return None
    for name, counts in result.counts.items():
        if result.scores.signatures[name] == first.scores.signatures.get(name):
            tests[name] = paired_tests(first.counts[name], counts)
        else:
            log.warning(f"{TITLES[name]} of {ours} is not compared with {theirs}, whose signature differs")
    own, others = (one.counts["chrf"].sentence_scores() for one in (result, first))
    wins = sum(mine > other for mine, other in zip(own, others, strict=True))
    losses = sum(mine < other for mine, other in zip(own, others, strict=True))
    return Comparison(theirs, tests, wins, losses, len(own) - wins - losses, is_seed)


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
    identities = defaultdict[str, set[str]](set)
    for result in results:
        for name, key in result.keys.items():
            identities[name].add(key.identity)
    return [{name: key.value for name, key in one.keys.items() if len(identities[name]) > 1} for one in results]


def keys_of(config: Config, decoding: DecodingConfig, data_sha256: Mapping[str, str]) -> dict[str, Key]:
    """The keys of a run's config with an effect on translations. Those of a search are those that it used; text is known by
    its hash, and by the settings of its corpora, such as their weights."""
    unused = decoding.keys_without_effect()
    search = {key: value for key, value in decoding.model_dump().items() if key not in unused}
    sections = config.model_dump() | {"decoding": search}
    flat = {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}
    keys = {key: Key(json.dumps(value), value) for key, value in flat.items() if key not in _WITHOUT_EFFECT}
    for name, sha256 in data_sha256.items():
        value = flat.get(f"data.{name}")
        shown = f"{json.dumps(value, ensure_ascii=False)} " if value else ""
        identity = sha256 + json.dumps(_without_files(value))
        keys[f"data.{name}"] = Key(identity, f"{shown}(sha256 {sha256[:8]})")
    if data_sha256 and (pairs := flat.get("data.pairs")):  # the files of each have hashes of their own
        keys["data.pairs"] = Key(json.dumps(_without_files(pairs)), pairs)
    return keys


def _without_files(value: Any) -> Any:
    """The settings of corpora, of a word list or of language pairs, without the names of their files."""
    if isinstance(value, list):
        return [_without_files(one) for one in value if not isinstance(one, str)]
    if isinstance(value, dict):
        return {key: _without_files(one) for key, one in value.items() if key not in {"files", "dev", "test"}}
    return value
