"""What tells systems apart: tests of significance, wins and losses by sentence, seeds, and keys of their configs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mt_cli.config import Config, DecodingConfig, keys_without_effect
from mt_cli.evaluation.metrics import Counts
from mt_cli.evaluation.significance import PairedTests, paired_tests

Result = dict[str, Any]  # of a system on a test set, as `evaluate_run` gives it
TITLES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
_LEVEL = 0.05
_WITHOUT_EFFECT = {  # on translations
    "data.test", "training.n_samples", "training.report", "training.tensorboard", "training.device", "decoding.batch_size",
}  # fmt: skip


@dataclass(frozen=True)
class System:
    """What a system made of a test set. It stands in a result beside the numbers, as `system`."""

    sources: list[str]  # none where only files of translations are scored
    outputs: list[str]
    references: list[str]
    counts: Mapping[str, Counts] = field(compare=False)
    config: Config | None = None


def with_comparisons(results: Sequence[Result]) -> list[Result]:
    """The results, in which each but the first of a test set has a `comparison` with the first. Those of one config in
    several seeds get `seeds`, and where configs differ each gets its `differing_keys`."""
    firsts, of_text = dict[str, Result](), dict[str, Result]()
    compared = []
    for result, seeds, keys in zip(results, _seeds(results), _differing_keys(results), strict=True):
        # The same set has another name in a run of several directions: dev en-de, not dev.
        same = of_text.setdefault(result["test_sha256"], result) if "test_sha256" in result else result
        first = firsts.setdefault(str(result.get("ref", result["test_set"])), result)
        if first is result and label(same) != label(result):
            first = same
        is_seed = label(first) in seeds.get("seeds", {}).get("runs", ())
        compared.append(result | seeds | keys | (_compare(first, result, is_seed) if result is not first else {}))
    return compared


def label(result: Result) -> str:
    """What a system is called: its run or its file, and its checkpoint if that is not the best."""
    name = str(result.get("run", result.get("hyp", "")))
    return name if result.get("checkpoint") in {None, "best"} else f"{name} ({result['checkpoint']})"


# Two systems ----------------------------------------------------------------------------------------------------------


def _compare(first: Result, result: Result, is_seed: bool) -> Result:
    """The `comparison` of a result with the first one, and its `warnings` with what cannot be compared. `is_seed`: of the
    same config."""
    baseline, system = first["system"], result["system"]
    ours, theirs = label(result), label(first)
    if baseline.references != system.references:
        warning = f"{ours} has other references than {theirs}; to compare them, give --src and --ref"
        return {"warnings": [*result["warnings"], warning]}
    scores, warnings = {}, list(result["warnings"])
    for name, counts in system.counts.items():
        if result["signatures"][name] == first["signatures"].get(name):
            tests = paired_tests(baseline.counts[name], counts)
            scores[name] = asdict(tests) | {"meaning": meaning(name, tests, is_seed)}
        else:
            warnings.append(f"{TITLES[name]} of {ours} is not compared, {theirs} has not the same signature")
    wins = _wins(baseline.counts["chrf"], system.counts["chrf"])
    return {"comparison": {"with": theirs, "scores": scores, **wins}, "warnings": warnings}


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


def _wins(baseline: Counts, system: Counts) -> dict[str, int]:
    """How many sentences have a higher chrF than the baseline's, a lower one, and the same."""
    pairs = list(zip(system.sentence_scores(), baseline.sentence_scores(), strict=True))
    wins, losses = sum(ours > theirs for ours, theirs in pairs), sum(ours < theirs for ours, theirs in pairs)
    return {"wins": wins, "losses": losses, "ties": len(pairs) - wins - losses}


# Configs --------------------------------------------------------------------------------------------------------------


def _seeds(results: Sequence[Result]) -> list[Result]:
    """For each result, its `seeds`: mean and standard deviation, if the config was trained with several."""
    groups: dict[str, list[int]] = {}
    for number, result in enumerate(results):
        if result["system"].config is not None:
            config = {key: identity for key, (identity, _) in _keys(result).items() if key != "training.seed"}
            same = [result["test_set"], result["test_sha256"], result["checkpoint"], result["signatures"], config]
            groups.setdefault(json.dumps(same, sort_keys=True), []).append(number)
    found: list[Result] = [{} for _ in results]
    for numbers in groups.values():
        by_seed: dict[int, Result] = {}
        for number in numbers:
            by_seed.setdefault(results[number]["seed"], results[number])
        if len(by_seed) > 1:
            for number in numbers:
                found[number] = {"seeds": _mean(list(by_seed.values()))}
    return found


def _mean(results: Sequence[Result]) -> Result:
    scores = {name: [result[name] for result in results] for name in TITLES if results[0][name] is not None}
    return {
        "runs": [label(result) for result in results],
        "seeds": [result["seed"] for result in results],
        "scores": {
            name: {"mean": statistics.mean(values), "deviation": statistics.stdev(values)}
            for name, values in scores.items()
        },
    }


def _differing_keys(results: Sequence[Result]) -> list[Result]:
    """For each result, its own values of the `differing_keys`: those that not all runs have the same value of."""
    keys_of = [_keys(result) if result["system"].config is not None else {} for result in results]
    identities: dict[str, dict[str, set[str]]] = {}  # of a key, by its value
    for keys in keys_of:
        for key, (identity, value) in keys.items():
            identities.setdefault(key, {}).setdefault(json.dumps(value), set()).add(identity)

    def shown(key: str, identity: str, value: Any) -> Any:
        """Files of one name, and sets that were held out, with what tells them apart."""
        is_clear = len(identities[key][json.dumps(value)]) == 1
        return value if is_clear else f"{json.dumps(value, ensure_ascii=False)} (sha256 {identity[:8]})"

    differing = {key for key, by_value in identities.items() if len(set.union(*by_value.values())) > 1}
    own = [{key: shown(key, *of_key) for key, of_key in keys.items() if key in differing} for keys in keys_of]
    return [{"differing_keys": one} if one else {} for one in own]


def _keys(result: Result) -> dict[str, tuple[str, Any]]:
    """For each key with an effect on translations: what it is known by, and its value. Files are known by their hash, wherever
    they lie; the keys of a search are those that it used."""
    unused = keys_without_effect(DecodingConfig(**result["decoding"]))
    search = {key: value for key, value in result["decoding"].items() if key not in unused}
    sections = result["system"].config.model_dump() | {"decoding": search}
    flat = {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}
    identities = {key: json.dumps(value) for key, value in flat.items() if key not in _WITHOUT_EFFECT}
    hashes = result["data_sha256"] or {}
    for name, sha256 in hashes.items():
        identities[f"data.{name}"] = sha256 + _besides_files(flat.get(f"data.{name}"))
    if hashes and (pairs := flat.get("data.pairs")):  # the files of each have hashes of their own
        identities["data.pairs"] = json.dumps([_pair_besides_files(pair) for pair in pairs])
    return {key: (identity, flat.get(key, identity)) for key, identity in identities.items()}


def _pair_besides_files(pair: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in pair.items() if key not in {"dev", "test"}}
    return rest | {key: _besides_files(rest.get(key)) for key in ("train", "words")}


def _besides_files(value: Any) -> str:
    """The settings of corpora or of a word list, such as their weights; '' for plain files."""
    corpora = value if isinstance(value, list) else [value]
    settings = [{key: one[key] for key in one if key != "files"} for one in corpora if isinstance(one, dict)]
    return json.dumps(settings) if settings else ""
