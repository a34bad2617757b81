"""The benchmarks run, and count what they say they count."""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def load(name: str) -> ModuleType:
    """A file of `benchmarks/`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_window_counts_tokens_and_not_padding() -> None:
    windows = io.StringIO()
    meter = load("peers/meter").Meter(io.StringIO("0\n0\n0\n"), windows)
    src_ids, tgt_out = torch.tensor([[5, 6, 3], [7, 3, 0]]), torch.tensor([[8, 3], [3, 0]])
    for n_batches in (1, 2):
        for _ in range(n_batches):
            meter.count(src_ids, tgt_out, 0)
        meter.update()
    first, second = map(json.loads, windows.getvalue().splitlines())
    assert [first[key] for key in ("src_tokens", "src_places", "tgt_tokens", "tgt_places")] == [5, 6, 3, 4]
    assert [second[key] for key in ("src_tokens", "src_places", "tgt_tokens", "tgt_places")] == [10, 12, 6, 8]
    assert second["updates"] == 1


def test_a_window_lasts_as_long_as_asked_for_and_starts_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("peers/meter")
    clock = iter([0.0, 1.0, 100.0, 101.0, 104.5, 200.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    windows = io.StringIO()
    meter = module.Meter(io.StringIO("4\n0\n"), windows)
    for _ in range(3):
        meter.update()
    first, second = map(json.loads, windows.getvalue().splitlines())
    assert (first["updates"], second["updates"], second["seconds"]) == (1, 2, 4.5)


def run_training(tiny: Path, *contenders: str) -> list[dict[str, Any]]:
    command = [sys.executable, BENCHMARKS / "training.py", "--config", "tiny.yaml", "--only", *contenders]
    command += ["--threads", "1", "--rounds", "1", "--seconds", "0.1", "--json", "figures.json"]
    command += ["--set", "training.max_steps=100000", "--set", "training.validate_every_steps=100000"]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=tiny)
    assert answer.returncode == 0, answer.stderr
    assert all(name in answer.stdout for name in contenders)
    figures: list[dict[str, Any]] = json.loads((tiny / "figures.json").read_text())
    for row in figures:
        assert row["tokens_per_second"] > 0 and 0 <= row["target_padding"] < 0.5 and row["peak_mib"] > 50
        assert 50 < row["tokens_per_update"] <= 512
    return figures


def test_training_runs_mt_beside_a_peer(tiny: Path) -> None:
    figures = run_training(tiny, "mt", "torch")
    assert [(row["contender"], row["precision"]) for row in figures] == [
        ("mt", "auto"),
        ("mt", "fp32"),
        ("torch", "fp32"),
        ("torch", "bf16"),
    ]


@pytest.mark.slow
def test_training_runs_every_peer_that_is_installed(tiny: Path) -> None:
    installed = [name for name in load("training").SCRIPTS if name != "eole" or (BENCHMARKS / ".envs/eole").exists()]
    run_training(tiny, *installed)
