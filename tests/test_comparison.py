"""Each system is compared with the first, seeds of one config are recognised, and tables are made for papers."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import CHRF

from mt_cli.config import Config, Corpus
from mt_cli.evaluation import significance
from mt_cli.evaluation.comparison import Result, meaning, with_comparisons
from mt_cli.evaluation.evaluate import evaluate_files
from mt_cli.evaluation.significance import PairedTests
from mt_cli.evaluation.tables import Format, as_table

Mt = Callable[..., Any]
REFERENCES = [" ".join(random.Random(i).choices("a the cat dog sees green house red".split(), k=7)) for i in range(40)]  # noqa: SIM905
WORSE = [line.replace("cat", "car").replace("sees", "") for line in REFERENCES]
OTHER = [line.replace("dog", "do").replace("green ", "") if i % 2 else line for i, line in enumerate(REFERENCES)]


@pytest.fixture(autouse=True)
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What more of them give is tested elsewhere."""
    monkeypatch.setattr(significance, "N_RESAMPLES", 200)
    monkeypatch.setattr(significance, "N_TRIALS", 200)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ref", REFERENCES), ("good", REFERENCES), ("worse", WORSE), ("other", OTHER)):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def run_result(files: Path, hyp: str, run: str, seed: int = 1, **changes: Any) -> Result:
    """What `evaluate_run` gives, of translations that are there."""
    result = evaluate_files(files / hyp, files / "ref", None)
    config: dict[str, Any] = {"data": {"src_lang": "en", "tgt_lang": "de", "train": [f"{run}.en", f"{run}.de"]}}
    config["model"] = {"dropout": changes.get("dropout", 0.3)}
    config["training"] = {"seed": seed, "device": changes.get("device", "auto")}
    made = Config.model_validate(config)
    system = replace(result["system"], config=made)
    del result["hyp"], result["ref"]
    about = {"run": run, "checkpoint": "best", "test_set": "test", "test_sha256": "0", "seed": seed}
    text = {"train": changes.get("train", "t"), "dev": "d"}
    return result | about | {"decoding": made.decoding.model_dump(), "data_sha256": text, "system": system}


# Two systems ----------------------------------------------------------------------------------------------------------


def test_each_file_is_compared_with_the_first(files: Path, mt: Mt) -> None:
    answer = mt("evaluate", "--hyp", "worse", "--hyp", "good", "--hyp", "worse", "--ref", "ref", "--json")
    assert (answer.code, answer.err) == (0, b"")
    worse, good, same = json.loads(answer.out)
    assert "comparison" not in worse and good["comparison"]["with"] == same["comparison"]["with"] == "worse"
    for name, found in good["comparison"]["scores"].items():
        assert found["difference"] == good[name] - worse[name]
        assert found["meaning"] == "better, not by chance" and found["p_randomization"] < 0.01
    assert good["comparison"]["wins"] > 0 == good["comparison"]["losses"]
    assert {one["meaning"] for one in same["comparison"]["scores"].values()} == {"the same score"}
    assert (same["comparison"]["wins"], same["comparison"]["ties"]) == (0, len(REFERENCES))


def test_wins_are_sentences_of_which_sacrebleu_gives_a_higher_chrf(files: Path) -> None:
    _, other = with_comparisons([evaluate_files(files / name, files / "ref", None) for name in ("worse", "other")])
    scores = [
        [CHRF().sentence_score(line, [ref]).score for line, ref in zip(lines, REFERENCES, strict=True)]
        for lines in (WORSE, OTHER)
    ]
    wins = sum(ours > theirs for theirs, ours in zip(*scores, strict=True))
    losses = sum(ours < theirs for theirs, ours in zip(*scores, strict=True))
    found = other["comparison"]
    assert (found["wins"], found["losses"], found["ties"]) == (wins, losses, len(REFERENCES) - wins - losses)
    assert wins and losses


@pytest.mark.parametrize(
    ("metric", "difference", "p_values", "expected"),
    [
        ("bleu", 0.33, (0.2, 0.21), "no evidence of a difference"),
        ("chrf", 1.4, (0.001, 0.001), "better, not by chance"),
        ("chrf", -1.4, (0.001, 0.001), "worse, not by chance"),
        ("ter", -1.4, (0.001, 0.001), "better, not by chance"),
        ("ter", 1.4, (0.04, 0.06), "weak evidence that it is worse, as only one of the two tests passes"),
        ("bleu", 0.0, (1.0, 1.0), "the same score"),
    ],
)
def test_a_sentence_says_what_a_difference_means(
    metric: str, difference: float, p_values: tuple[float, float], expected: str
) -> None:
    assert meaning(metric, PairedTests(difference, *p_values)) == expected


def test_what_cannot_be_compared_is_told(files: Path) -> None:
    first, second = run_result(files, "good", "a"), run_result(files, "worse", "b")
    (files / "ref").write_text("a\n" * len(REFERENCES))
    third = run_result(files, "worse", "c")
    second["signatures"] = second["signatures"] | {"bleu": "tok:zh"}
    _, second, third = with_comparisons([first, second, third])
    assert list(second["comparison"]["scores"]) == ["chrf", "ter"]
    assert second["warnings"] == ["BLEU of b is not compared, a has not the same signature"]
    assert "comparison" not in third
    assert third["warnings"] == ["c has other references than a; to compare them, give --src and --ref"]


def test_runs_and_checkpoints_are_compared_on_each_test_set(mt: Mt, trained_run: Path, tiny: Path) -> None:
    other = Path(shutil.copytree(trained_run, tiny / "other"))
    kept = other / "config.yaml"
    kept.write_text(kept.read_text().replace("beam_size: 1", "beam_size: 3"))
    answer = mt("evaluate", trained_run, other, "--checkpoint", "step-80", "--checkpoint", "best", "--json")
    compared = {(r["run"], r["checkpoint"], r["test_set"]): r.get("comparison") for r in json.loads(answer.out)}
    assert [key for key, found in compared.items() if not found] == [
        (str(trained_run), "step-80", name) for name in ("dev", "held_out")
    ]
    assert {found["with"] for found in compared.values() if found} == {f"{trained_run} (step-80)"}
    table = mt("evaluate", trained_run, other)
    assert f"{other} compared with {trained_run} on held_out:" in table.lines
    assert f"decoding.beam_size: 1 in {trained_run}; 3 in {other}" in table.lines
    assert "compared" not in mt("evaluate", trained_run).out.decode()


# Seeds, and keys that differ ------------------------------------------------------------------------------------------


def test_seeds_of_one_config_are_told_as_mean_and_standard_deviation(files: Path) -> None:
    """The runs' text lies in other places, and they were computed on other devices; its hash tells that it is the same."""
    results = [
        run_result(files, "good", "a", 1, device="cuda"),
        run_result(files, "worse", "b", 2),
        run_result(files, "other", "c", 3),
        run_result(files, "worse", "d", 4, dropout=0.1),
        run_result(files, "worse", "e", 5, train="other text"),
    ]
    compared = with_comparisons(results)
    for result in compared[:3]:
        assert (result["seeds"]["runs"], result["seeds"]["seeds"]) == (["a", "b", "c"], [1, 2, 3])
        values = [one["chrf"] for one in results[:3]]
        expected = {"mean": statistics.mean(values), "deviation": statistics.stdev(values)}
        assert result["seeds"]["scores"]["chrf"] == expected
    assert not any("seeds" in result for result in compared[3:])
    told = f"test: BLEU {statistics.mean(r['bleu'] for r in results[:3]):.2f} ({statistics.stdev(r['bleu'] for r in results[:3]):.2f}), chrF"  # fmt: skip
    lines = as_table(compared).splitlines()
    heading = lines.index("one config with 3 seeds, a (1), b (2), c (3); mean and standard deviation:")
    assert lines[heading + 1].startswith(told)


def test_another_dev_set_makes_another_config(files: Path) -> None:
    results = [run_result(files, "good", "a"), run_result(files, "worse", "b", 2)]
    results[1]["data_sha256"]["dev"] = "of another dev set"
    assert not any("seeds" in result for result in with_comparisons(results))


def test_other_weights_of_the_same_files_make_another_config(files: Path) -> None:
    results = [run_result(files, "good", name, seed) for name, seed in (("a", 1), ("b", 2))]
    for result, weight in zip(results, (2.0, 0.5), strict=True):
        config = result["system"].config
        corpora = [Corpus(files=["a.en", "a.de"], weight=weight)]
        data = config.data.model_copy(update={"train": corpora})
        result["system"] = replace(result["system"], config=config.model_copy(update={"data": data}))
        result["data_sha256"] = {"train": "1" * 64}
    compared = with_comparisons(results)
    assert not any("seeds" in result for result in compared)
    assert [set(result["differing_keys"]) for result in compared] == [{"data.train", "training.seed"}] * 2


def test_files_of_several_pairs_are_known_by_their_hashes_too(files: Path) -> None:
    def result(run: str, seed: int, weight: float = 1.0) -> Result:
        result = run_result(files, "good", run, seed)
        corpus = {"files": [f"{run}/a.en", f"{run}/a.de"], "weight": weight}
        pair = {"src_lang": "en", "tgt_lang": "de", "train": [corpus], "dev": [f"{run}/d.en", f"{run}/d.de"]}
        config = Config.model_validate({"data": {"pairs": [pair]}, "training": {"seed": seed}})
        hashes = {"train en-de": "1" * 64, "dev en-de": "2" * 64}
        return result | {"data_sha256": hashes, "system": replace(result["system"], config=config)}

    assert all(one["seeds"]["seeds"] == [1, 2] for one in with_comparisons([result("a", 1), result("b", 2)]))
    other = with_comparisons([result("a", 1), result("b", 2, weight=0.5)])
    assert [set(one["differing_keys"]) for one in other] == [{"data.pairs", "training.seed"}] * 2


def test_keys_that_a_search_does_not_use_tell_no_runs_apart(files: Path) -> None:
    results = [run_result(files, "good", name, seed) for name, seed in (("a", 1), ("b", 2))]
    results[0]["decoding"] |= {"temperature": 0.5, "length_penalty": 2.0}
    assert all("seeds" in one for one in with_comparisons(results))


def test_one_seed_twice_is_no_spread(files: Path) -> None:
    results = with_comparisons([run_result(files, "good", "a"), run_result(files, "good", "copy of a")])
    assert not any("seeds" in result or "differing_keys" in result for result in results)


def test_keys_that_differ_stand_below_with_their_runs(files: Path) -> None:
    runs = [("a", 1, 0.3), ("b", 2, 0.3), ("c", 3, 0.1)]
    results = [run_result(files, "good", name, seed, dropout=p) for name, seed, p in runs]
    results[2]["decoding"]["beam_size"] = 5  # as an option asked for it
    results = with_comparisons(results)
    assert [result["differing_keys"] for result in results] == [
        {"model.dropout": p, "training.seed": seed, "decoding.beam_size": 5 if name == "c" else 1}
        for name, seed, p in runs
    ]
    lines = as_table(results).splitlines()
    at = lines.index("keys that differ:")
    assert lines[at + 1 : at + 3] == ["model.dropout: 0.3 in a, b; 0.1 in c", "training.seed: 1 in a; 2 in b; 3 in c"]


def test_files_of_one_name_and_other_content_are_told_apart(files: Path) -> None:
    results = [run_result(files, "good", name) for name in ("a", "b")]
    results[0]["data_sha256"], results[1]["data_sha256"] = {"dev": "1" * 64}, {"dev": "2" * 64}
    lines = as_table(with_comparisons(results)).splitlines()
    [line] = [line for line in lines if line.startswith("data.dev: ")]
    assert "(sha256 11111111) in a; " in line and line.endswith("(sha256 22222222) in b")


# Formats --------------------------------------------------------------------------------------------------------------


def test_json_is_a_format(files: Path, mt: Mt) -> None:
    command = ["evaluate", "--hyp", "worse", "--ref", "ref"]
    assert mt(*command, "--json").out == mt(*command, "--format", "json").out == mt(*command, "--json", "--format", "json").out  # fmt: skip
    assert mt(*command).out == mt(*command, "--format", "text").out


def of_a_hostile_name(files: Path, form: Format) -> str:
    shutil.copy(files / "worse", files / r"a_b|$x\y&50%[z]<i>")
    results = [evaluate_files(Path(name), Path("ref"), None) for name in ("good", r"a_b|$x\y&50%[z]<i>")]
    return as_table(with_comparisons(results), form)


def test_a_table_for_markdown_keeps_its_columns_whatever_the_names_are(files: Path) -> None:
    table, below = of_a_hostile_name(files, "markdown").split("\n\n")
    rows = table.splitlines()
    assert rows[:2] == ["| translations | BLEU | chrF | TER |", "|---|---:|---:|---:|"]
    assert r"| a\_b\|$x\\y\&50%\[z\]\<i\> |" in rows[3]
    assert "- BLEU: `nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a" in below


def test_a_table_for_latex_holds_no_command_of_a_name(files: Path) -> None:
    lines = of_a_hostile_name(files, "latex").splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[5].startswith(r"a\_b\textbar\allowbreak{}\$x\textbackslash{}y\&50\%{[}z]\textless{}i\textgreater{} & ")
    assert lines[5].count(" & ") == 3 and lines[5].count(r"$\pm$") == 3 and lines[5].endswith(r" \\")
    assert any(line.startswith(r"BLEU: \texttt{nrefs:1") for line in lines)


def test_a_table_for_programs_has_every_number_under_the_name_that_it_has_in_json(files: Path, mt: Mt) -> None:
    name = 'a "b", c'
    shutil.copy("worse", name)
    command = ["evaluate", "--hyp", "good", "--hyp", name, "--ref", "ref", "--format"]
    rows = list(csv.DictReader(io.StringIO(mt(*command, "csv").out.decode())))
    results = json.loads(mt(*command, "json").out)
    assert [row["hyp"] for row in rows] == ["good", name]
    assert [float(row["bleu"]) for row in rows] == [result["bleu"] for result in results]
    assert float(rows[1]["intervals.ter.low"]) == results[1]["intervals"]["ter"]["low"]
    compared = results[1]["comparison"]
    assert rows[1]["comparison.scores.chrf.meaning"] == compared["scores"]["chrf"]["meaning"]
    assert (rows[0]["comparison.losses"], int(rows[1]["comparison.losses"])) == ("", compared["losses"])
    assert rows[0]["signatures.bleu"] == results[0]["signatures"]["bleu"]


def test_control_characters_of_a_name_are_escaped_below_the_table_too(files: Path, mt: Mt) -> None:
    shutil.copy("worse", "a\x1b[31m\nb")
    answer = mt("evaluate", "--hyp", "a\x1b[31m\nb", "--hyp", "good", "--ref", "ref")
    assert r"good compared with a\x1b[31m\nb:" in answer.lines and b"\x1b" not in answer.out


def test_a_difference_of_two_seeds_is_chance(files: Path) -> None:
    results = with_comparisons([run_result(files, name, name, seed) for seed, name in enumerate(("worse", "good"))])
    meanings = {scores["meaning"] for scores in results[1]["comparison"]["scores"].values()}
    assert "better by the chance of its seed" in meanings and "better, not by chance" not in meanings
