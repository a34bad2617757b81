"""Each system is compared with the first, seeds of one config are recognised, and tables are made for papers."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import CHRF

from mt_cli.config import Config
from mt_cli.evaluation import significance
from mt_cli.evaluation.comparison import SetScores, keys_of, meaning, with_comparisons
from mt_cli.evaluation.evaluate import evaluate
from mt_cli.evaluation.significance import PairedTests
from mt_cli.evaluation.tables import as_table

Mt = Callable[..., Any]
REFERENCES = [" ".join(random.Random(i).choices("a the cat dog sees green house red".split(), k=7)) for i in range(40)]  # noqa: SIM905
WORSE = [line.replace("cat", "car").replace("sees", "") for line in REFERENCES]
OTHER = [line.replace("dog", "do").replace("green ", "") if i % 2 else line for i, line in enumerate(REFERENCES)]
TEXTS = {"ref": REFERENCES, "good": REFERENCES, "worse": WORSE, "other": OTHER}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(significance, "N_RESAMPLES", 200)  # what more of them give is tested elsewhere
    monkeypatch.setattr(significance, "N_TRIALS", 200)
    monkeypatch.chdir(tmp_path)
    for name, lines in TEXTS.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines))


def run_scores(
    outputs: str,
    run: str,
    seed: int = 1,
    references: str = "ref",
    tokenize: str = "13a",
    sha256: dict[str, str] | None = None,
    data: dict[str, Any] | None = None,
    search: dict[str, Any] | None = None,
    **sections: dict[str, Any],
) -> SetScores:
    """Those of a run that translates so."""
    sections["data"] = data or {"src_lang": "en", "tgt_lang": "de", "train": [f"{run}.en", f"{run}.de"]}
    sections["training"] = {"seed": seed} | sections.get("training", {})
    config = Config.model_validate(sections)
    decoding = config.decoding.model_copy(update=search or {})
    keys = keys_of(config, decoding, sha256 or {"train": "t", "dev": "d"})
    about = {"system": run, "checkpoint": "best", "test_set": "test", "test_sha256": references, "seed": seed}
    return SetScores.of(TEXTS[outputs], [TEXTS[references]], tokenize, None, kind="run", keys=keys, **about)


# Two systems ----------------------------------------------------------------------------------------------------------


def test_each_file_is_compared_with_the_first(mt: Mt) -> None:
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


def test_wins_are_sentences_of_which_sacrebleu_gives_a_higher_chrf() -> None:
    _, other = evaluate(hyp=["worse", "other"], ref="ref")
    scores = [
        [CHRF().sentence_score(line, [ref]).score for line, ref in zip(lines, REFERENCES, strict=True)]
        for lines in (WORSE, OTHER)
    ]
    wins = sum(ours > theirs for theirs, ours in zip(*scores, strict=True))
    losses = sum(ours < theirs for theirs, ours in zip(*scores, strict=True))
    found = other.comparison
    assert found is not None and wins and losses
    assert (found.wins, found.losses, found.ties) == (wins, losses, len(REFERENCES) - wins - losses)


@pytest.mark.parametrize(
    ("metric", "difference", "p_values", "expected"),
    [
        ("bleu", 0.33, (0.2, 0.21), "no evidence of a difference"),
        ("chrf", 1.4, (0.001, 0.001), "better, not by chance"),
        ("ter", -1.4, (0.001, 0.001), "better, not by chance"),
        ("ter", 1.4, (0.04, 0.06), "weak evidence that it is worse, as only one of the two tests passes"),
        ("bleu", 0.0, (1.0, 1.0), "the same score"),
    ],
)
def test_a_sentence_says_what_a_difference_means(
    metric: str, difference: float, p_values: tuple[float, float], expected: str
) -> None:
    assert meaning(metric, PairedTests(difference, *p_values)) == expected


def test_what_cannot_be_compared_is_said(caplog: pytest.LogCaptureFixture) -> None:
    several = [run_scores("good", "a"), run_scores("worse", "b", tokenize="zh"), run_scores("good", "c", 3, "other")]
    _, second, third = with_comparisons(several)
    assert second.comparison and list(second.comparison.tests) == ["chrf"]
    assert third.comparison is None
    assert caplog.messages == [
        "BLEU of b is not compared with a, whose signature differs",
        "c has other references than a; to compare them, give --src and --ref",
    ]


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


def test_seeds_of_one_config_get_a_row_with_mean_and_standard_deviation() -> None:
    """The runs' text lies in other places, and they were computed on other devices; its hash tells that it is the same. A
    search does not use all keys."""
    results = with_comparisons(
        [
            run_scores("worse", "a", 1, training={"device": "cuda"}),
            run_scores("good", "b", 2, search={"temperature": 0.5, "length_penalty": 2.0}),
            run_scores("other", "c", 3),
            run_scores("worse", "d", 4, model={"dropout": 0.1}),
            run_scores("worse", "e", 5, sha256={"train": "other text", "dev": "d"}),
            run_scores("worse", "f", 6, sha256={"train": "t", "dev": "another dev set"}),
        ]
    )
    values = [one.scores.chrf for one in results[:3]]
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    for result in results[:3]:
        assert result.seeds and (result.seeds.runs, result.seeds.seeds) == (["a", "b", "c"], [1, 2, 3])
        assert (result.seeds.scores["chrf"].mean, result.seeds.scores["chrf"].deviation) == (mean, deviation)
    assert not any(result.seeds for result in results[3:])
    assert results[1].comparison and "better by the chance of its seed" in results[1].comparison.meanings.values()
    assert results[3].comparison and set(results[3].comparison.meanings.values()) == {"the same score"}
    lines = as_table(results).splitlines()
    cell = f"{mean:.2f} ({deviation:.2f})"
    told = "test, mean and standard deviation of 3 seeds, a (1), b (2), c (3): "
    assert any(line.startswith(told) and f"chrF {cell}" in line for line in lines)
    for table in (lines, as_table(results, "latex").splitlines(), as_table(results, "markdown").splitlines()):
        [row] = [line for line in table if "mean of 3 seeds" in line]
        assert cell in row and "test" in row


def test_weights_of_corpora_and_of_their_pairs_make_other_configs() -> None:
    def results(weights: tuple[float, float], key: str) -> list[SetScores]:
        found = []
        for seed, weight in enumerate(weights, 1):
            corpus = {"files": [f"{seed}.en", f"{seed}.de"], "weight": weight}
            data: dict[str, Any] = {"src_lang": "en", "tgt_lang": "de", "train": [corpus]}
            if key == "data.pairs":
                data = {"pairs": [data | {"dev": [f"{seed}/d.en", f"{seed}/d.de"]}]}
            hashes = {"train en-de" if key == "data.pairs" else "train": "1" * 64}
            found.append(run_scores("good", str(seed), seed, sha256=hashes, data=data))
        return with_comparisons(found)

    for key in ("data.train", "data.pairs"):
        assert all(one.seeds and one.seeds.seeds == [1, 2] for one in results((1.0, 1.0), key))
        different = results((2.0, 0.5), key)
        assert not any(one.seeds for one in different)
        assert [set(one.differing_keys) for one in different] == [{key, "training.seed"}] * 2


def test_one_seed_twice_is_no_spread() -> None:
    for one in with_comparisons([run_scores("good", "a"), run_scores("good", "copy of a")]):
        assert one.seeds is None and not one.differing_keys


def test_keys_that_differ_stand_below_with_their_runs() -> None:
    runs = [("a", 1, 0.3, 1), ("b", 2, 0.3, 1), ("c", 3, 0.1, 5)]
    results = with_comparisons(
        [run_scores("good", r, s, model={"dropout": p}, search={"beam_size": n}) for r, s, p, n in runs]
    )
    assert [result.differing_keys for result in results] == [
        {"model.dropout": p, "training.seed": s, "decoding.beam_size": n} for _, s, p, n in runs
    ]
    lines = as_table(results).splitlines()
    at = lines.index("keys that differ:")
    assert lines[at + 1 : at + 3] == ["model.dropout: 0.3 in a, b; 0.1 in c", "training.seed: 1 in a; 2 in b; 3 in c"]


def test_files_of_one_name_and_other_content_are_told_apart() -> None:
    results = [run_scores("good", name, sha256={"dev": str(i) * 64}) for i, name in enumerate("ab")]
    [line] = [line for line in as_table(with_comparisons(results)).splitlines() if line.startswith("data.dev: ")]
    assert "(sha256 00000000) in a; " in line and line.endswith("(sha256 11111111) in b")


# Formats --------------------------------------------------------------------------------------------------------------


def test_scores_print_as_the_command_does(mt: Mt) -> None:
    command = ["evaluate", "--hyp", "worse", "--ref", "ref"]
    assert mt(*command, "--json").out == mt(*command, "--format", "json").out
    scores = evaluate(hyp="worse", ref="ref")
    assert mt(*command).out == mt(*command, "--format", "text").out == f"{scores}\n".encode()
    assert repr(scores) == str(scores) and repr(scores[0]).startswith("worse on worse: BLEU ")


def test_a_table_keeps_its_columns_whatever_the_names_are() -> None:
    name = r"a_b|$x\y&50%[z]<i>"
    shutil.copy("worse", name)
    results = evaluate(hyp=["good", name], ref="ref")
    table, below = as_table(results, "markdown").split("\n\n")
    rows = table.splitlines()
    assert rows[:2] == ["| translations | BLEU | chrF | TER |", "|---|---:|---:|---:|"]
    assert r"| a\_b\|$x\\y\&50%\[z\]\<i\> |" in rows[3]
    assert "- BLEU: `nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a" in below
    lines = as_table(results, "latex").splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[5].startswith(r"a\_b\textbar\allowbreak{}\$x\textbackslash{}y\&50\%{[}z]\textless{}i\textgreater{} & ")
    assert lines[5].count(" & ") == 3 and lines[5].count(r"$\pm$") == 3 and lines[5].endswith(r" \\")
    assert any(line.startswith(r"BLEU: \texttt{nrefs:1") for line in lines)


def test_a_table_for_programs_has_every_number_under_the_name_that_it_has_in_json(mt: Mt) -> None:
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


def test_control_characters_of_a_name_are_escaped_everywhere(mt: Mt) -> None:
    shutil.copy("worse", "a\x1b[31m\nb")
    for form in ("text", "latex", "markdown", "csv"):
        answer = mt("evaluate", "--hyp", "a\x1b[31m\nb", "--hyp", "good", "--ref", "ref", "--format", form)
        assert b"x1b" in answer.out and b"\x1b" not in answer.out
