"""The benchmarks run, and count what they say they count."""

import argparse
import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tiny_trainer import options

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def load(name: str) -> ModuleType:
    """A file of `benchmarks/`, which is no package."""
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))  # as when it is run as a script
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_window_counts_tokens_and_not_padding():
    windows = io.StringIO()
    meter = load("peers/meter").Meter(io.StringIO("0\n0\n0\n"), windows)
    src_ids, tgt_out = torch.tensor([[5, 6, 3], [7, 3, 0]]), torch.tensor([[8, 3], [3, 0]])
    for n_batches in (1, 2):
        for _ in range(n_batches):
            meter.count(src_ids, tgt_out, 0)
        meter.update()
    found = [json.loads(line) for line in windows.getvalue().splitlines()]
    keys = ("src_tokens", "src_places", "tgt_tokens", "tgt_places", "updates")
    assert [[one[key] for key in keys] for one in found] == [[5, 6, 3, 4, 1], [10, 12, 6, 8, 1]]


def run(script: str, *arguments: object, cwd: Path) -> str:
    answer = subprocess.run([sys.executable, BENCHMARKS / script, *map(str, arguments)], capture_output=True, text=True, cwd=cwd)  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.slow
def test_training_runs_mt_beside_every_peer_that_is_installed(tiny: Path):
    peers = [one for one in load("training").SCRIPTS if one != "eole" or (BENCHMARKS / ".envs/eole").exists()]
    endless = options("training.max_steps=100000", "training.validate_every_steps=100000")
    few = ["--threads", "1", "--rounds", "1", "--seconds", "0.1", "--json", "figures.json", *endless]
    out = run("training.py", "--config", "tiny.yaml", "--only", "mt", *peers, *few, cwd=tiny)
    assert all(name in out for name in peers)
    figures = json.loads((tiny / "figures.json").read_text())
    kinds = {("mt", "auto"), ("mt", "fp32"), ("torch", "fp32"), ("torch", "bf16")}
    assert kinds <= {(row["contender"], row["precision"]) for row in figures}
    for row in figures:
        assert row["tokens_per_second"] > 0 and 0 <= row["target_padding"] < 0.5 and row["peak_mib"] > 50
        assert 50 < row["tokens_per_update"] <= 512


def test_the_clock_stops_where_it_is_good_enough_and_differing_lines_are_counted():
    speedrun = load("speedrun")
    validations = [{"seconds": 60.0 * n, "step": 100 * n, "bleu": bleu} for n, bleu in enumerate((20, 38.9, 39, 41), 1)]
    arguments = argparse.Namespace(bleu=39.0, minutes=90)
    mine = speedrun.until_reached("mt", iter(validations), arguments)
    assert mine[-1]["seconds"] == 180
    theirs = speedrun.until_reached("marian", iter(validations[:2]), arguments)
    assert "not reached" in speedrun.table({"mt": mine, "marian": theirs}, 39.0)[-1]
    slower = [*mine, {**mine[-1], "seconds": 360.0}]
    assert speedrun.table({"mt": mine, "marian": slower}, 39.0)[-1] == "mt needs 0.50 of the time of marian"
    late = speedrun.until_reached("marian", iter(validations), argparse.Namespace(bleu=50, minutes=1.5))
    assert late[-1]["seconds"] == 120
    module = load("decoding")
    case = module.Case(1, 4)
    passes = [{"texts": ["a", "b", "c"], "seconds": 1.5, "latencies": [], "peak_mib": 1.0}]
    others = [{**passes[0], "texts": ["a", "x", "c"], "seconds": 3.0}]
    rows = module.compared([module.Engine("mt", {}, {case: passes}), module.Engine("ct2", {}, {case: others})], case)
    assert [row["n_differing"] for row in rows] == [0, 1]
    assert [row["first_is_faster"] for row in rows] == [1.0, 2.0]


@pytest.mark.slow
def test_speedrun_runs_mt_beside_its_peer(tiny: Path):
    sets = ["training.validate_every_steps=5", "training.batch_tokens=4096", "data.bleu_tokenize=none"]
    few = ["--threads", "1", "--bleu", "0", "--json", "runs.json", *options(*sets)]
    run("speedrun.py", "--config", "tiny.yaml", *few, cwd=tiny)
    runs = json.loads((tiny / "runs.json").read_text())
    steps = {name: [validation["step"] for validation in validations] for name, validations in runs.items()}
    assert steps == {"mt": [5], "marian": [5]}


@pytest.mark.slow
def test_decoding_runs_mt_beside_an_engine_with_the_same_weights(trained_run: Path, tmp_path: Path):
    pytest.importorskip("ctranslate2")
    (tmp_path / "sentences.en").write_text("the red cat\n\nhouse\n" * 8)
    sizes = ["--batch-sizes", "1", "4", "--beam-sizes", "1", "--threads", "1", "--rounds", "1"]
    few = ["--sentences", "sentences.en", "--only", "mt", "ct2", *sizes, "--json", "figures.json"]
    assert "first translated line" in run("decoding.py", trained_run, *few, cwd=tmp_path)
    content = json.loads((tmp_path / "figures.json").read_text())
    assert 0 < content["seconds_to_first_line"] < 60
    rows = content["figures"]
    assert [(row["batch_size"], row["engine"]) for row in rows] == [(1, "mt"), (1, "ct2"), (4, "mt"), (4, "ct2")]
    assert [row["n_sentences"] for row in rows] == [2, 2, 16, 16]  # one at a time it is one in ten
    for row in rows:
        assert row["sentences_per_second"] > 0 and row["n_differing"] == 0 and row["peak_mib"] > 20
        assert (row["p95_ms"] is not None) == (row["batch_size"] == 1)


def test_the_table_of_robustness_is_made_for_a_run_and_another_engine(tiny, trained_run, monkeypatch, capsys):
    def table(*options: object) -> dict[str, list[str]]:
        command = ["robustness.py", "test.en", "test.de", *map(str, options)]
        monkeypatch.setattr(sys, "argv", command)
        load("robustness").main()
        rows = [line.strip("| ").split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
        return {name.strip(): [cell.strip() for cell in cells] for name, *cells in rows}

    assert table("other") == {}
    for source in Path("other").glob("*.src"):  # an engine that copies, and loses emoji
        source.with_suffix(".out").write_text(source.read_text("utf-8").replace("😀", ""), "utf-8")
    copied, own = table("other"), table("own", "--run", trained_run)
    assert copied.keys() == own.keys() and copied["emoji alone"][3] == "0.0%"
    assert own["invisible mark in front"][:3] == [*own["as it is"][:2], "0.0%"]
    assert own["emoji alone"][1:] == ["100.0", "0.0%", "100.0%"] and own["tag within"][3] == "100.0%"


def test_new_words_are_new_and_stand_in_other_sentences_in_the_test(tmp_path: Path):
    new_words = load("new_words")
    new_words.make(tmp_path)
    words = [word for family in new_words.FAMILIES.values() for word in family.items()]
    known = "".join((new_words.PHRASEBOOK / f"train.{side}").read_text("utf-8") for side in ("zh", "en"))
    assert len(words) == 30 and not any(word in known for both in words for word in both)
    patterns = []
    for name, n_pairs in (("new", 200), ("new-test", 90)):
        sides = [(tmp_path / f"{name}.{side}").read_text("utf-8").splitlines() for side in ("zh", "en")]
        pairs = list(zip(words * 7, *sides, strict=False))
        assert len(sides[0]) == len(sides[1]) == n_pairs and all(new[0] in zh and new[1] in en for new, zh, en in pairs)
        patterns.append({zh.replace(new[0], "_") for new, zh, _ in pairs})
    assert not patterns[0] & patterns[1]
