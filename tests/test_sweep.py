"""Several trainings by one command: `mt train CONFIG --set KEY=A,B`."""

import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tiny_trainer import options

from mt_cli.cli.train import combinations
from mt_cli.config_file import alternatives
from mt_cli.errors import TrainingError, UsageError
from mt_cli.evaluation import comparison
from mt_cli.explain import report as module
from mt_cli.training.loop import Trainer

SHORT = options(
    *("training.max_steps=12", "training.warmup_steps=2", "training.n_samples=0", "training.precision=fp32"),
    *("decoding.beam_size=1", "decoding.max_length_ratio=0.1"),  # what has learnt so little never ends a sentence
)


def test_commas_separate_values_and_name_combinations():
    for key, *values in (
        ("training.seed", "1", " 2"),
        ("data.train", "[a.en, a.de]", "[b.en, b.de]"),
        ("data.test", "{one: [a.en, a.de], two: [b.en, b.de]}"),
        ("training.init_from", '"runs/a,b"'),
        ("data.columns", "es,gn"),
        ("model.head_dim", "[1"),
    ):
        assert alternatives(f"{key}={','.join(values)}") == [f"{key}={value.strip()}" for value in values]
    assert len(alternatives("training.seed=1,1")) == 1
    assert list(combinations(["model.dropout=0.1,0.3", "training.max_steps=10", "training.seed=1,2"])) == [
        f"-dropout-{dropout}-seed-{seed}" for dropout in (0.1, 0.3) for seed in (1, 2)
    ]
    assert combinations(["training.seed=1,2", "training.seed=3"]) == {"": ["training.seed=3"]}
    assert next(iter(combinations(["training.seed=1,2", "decoding.seed=1,2"]))) == "-training.seed-1-decoding.seed-1"
    assert list(combinations(["data.train=[a/x.en, a/x.de],[../b.en, b.de]"]))[1] == "-train-..-b.en-b.de"


def test_what_is_no_sweep_is_refused(tiny, mt):
    with pytest.raises(UsageError, match="two runs would be called train-a-b;"):
        combinations(["data.train=a/b,a-b"])
    ten = ",".join(map(str, range(10)))
    assert len(combinations([f"training.seed={ten}", f"decoding.seed={ten}"])) == 100
    with pytest.raises(UsageError, match="asks for 200 runs, expected at most 100"):
        combinations([f"training.seed={ten}", f"decoding.seed={ten}", "model.dropout=0.1,0.2"])
    answer = mt("train", "tiny.yaml", *SHORT, "--set", "training.seed=1,-1")
    assert (answer.code, answer.out) == (2, b"") and not (tiny / "runs").exists()
    assert answer.said[0].startswith("error: --set training.seed=-1: training.seed: ")
    for name in ("runs/a,b", "null"):  # no YAML
        answer = mt("train", "tiny.yaml", *SHORT, "--from", name)
        assert answer.code == 1 and f"error: {name}: no such directory;" in answer.said[-1]


@pytest.fixture
def pages(monkeypatch):
    """What `report` was called with."""
    calls = list[Any]()
    monkeypatch.setattr(comparison, "N_RESAMPLES", 100)
    monkeypatch.setattr(comparison, "N_TRIALS", 100)
    monkeypatch.setattr(module, "report", lambda runs, output, **settings: calls.append((runs, output, settings)))
    return calls


def metrics(run: str) -> bytes:
    return (Path(run) / "metrics.jsonl").read_bytes()


def test_a_sweep_trains_each_run_as_it_would_be_alone_and_compares_them(tiny, mt, pages):
    answer = mt("train", "tiny.yaml", *SHORT, "--set", "training.seed=1,2")
    assert answer.code == 0, answer.err.decode()
    runs = [Path("runs/tiny-seed-1"), Path("runs/tiny-seed-2")]
    assert all(any(line.startswith(f"{run} ") for line in answer.lines) for run in runs)
    assert any("mean of 2 seeds" in line for line in answer.lines)
    assert pages == [(runs, Path("runs/tiny.html"), {"device": "cpu"})]
    assert mt("train", "tiny.yaml", *SHORT, "--set", "training.seed=2", "--run-dir", "alone").code == 0
    assert metrics("runs/tiny-seed-2") == metrics("alone") != metrics("runs/tiny-seed-1")

    before = metrics("runs/tiny-seed-1")
    again = mt("train", "tiny.yaml", *SHORT, "--set", "training.seed=1,2,3", "--run-dir", "runs/tiny")
    assert again.code == 0 and metrics("runs/tiny-seed-1") == before
    assert sum(line.endswith("; nothing was changed") for line in again.said) == 2
    assert sum(line.startswith("finished at step 12") for line in again.said) == 1


def test_a_run_that_fails_is_reported_and_the_others_go_on(tiny, mt, pages, monkeypatch):
    train = Trainer.train

    def diverge(trainer):
        if trainer.state.settings.seed == 1:
            raise TrainingError("step 5: loss 9.00, far above its lowest")
        train(trainer)

    monkeypatch.setattr(Trainer, "train", diverge)
    answer = mt("train", "tiny.yaml", *SHORT, "--set", "training.seed=1,2", "--set", "training.device=cuda,cpu")
    assert answer.code == 1
    failed = [line.split()[1] for line in answer.said if line.startswith("error: ")]
    assert failed == [f"runs/tiny-seed-{end}" for end in ("1-device-cuda", "1-device-cpu", "2-device-cuda")]
    assert [line.split()[0] for line in answer.lines if line.startswith("runs/")] == ["runs/tiny-seed-2-device-cpu"] * 2
    assert pages == [([Path("runs/tiny-seed-2-device-cpu")], Path("runs/tiny.html"), {"device": "cpu"})]


def test_ctrl_c_saves_the_run_and_ends_the_sweep_which_the_same_command_continues(tiny, mt, pages, monkeypatch):
    validate, n_validations = Trainer._validate, count(1)

    def press_ctrl_c(trainer):
        validate(trainer)
        if next(n_validations) == 3:  # the first of the second run
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "_validate", press_ctrl_c)
    command = ["train", "tiny.yaml", *SHORT, *options("training.validate_every_steps=6", "training.seed=1,2,3")]
    answer = mt(*command)
    assert (answer.code, answer.out, pages) == (130, b"", [])
    assert answer.said[-1].startswith("stopped at step 6, saved in runs/tiny-seed-2; continue with: mt train tiny.yaml")
    assert sorted(path.name for path in Path("runs").iterdir()) == ["tiny-seed-1", "tiny-seed-2"]
    again = mt(*command)
    assert again.code == 0 and "continuing runs/tiny-seed-2 from step 6" in again.said
    assert len(pages[0][0]) == 3


def test_the_page_of_a_run_is_written_at_each_validation_and_may_fail(tiny, mt, pages, monkeypatch):
    arguments = options("training.validate_every_steps=6", "training.report=true")
    assert mt("train", "tiny.yaml", "--run-dir", "run", *SHORT, *arguments).code == 0
    assert pages == [([Path("run")], Path("run/report.html"), {"quick": True})] * 2

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a curve of\nno points")

    monkeypatch.setattr(module, "report", fail)
    answer = mt("train", "tiny.yaml", "--run-dir", "other", *SHORT, *arguments)
    assert answer.code == 0 and metrics("other") == metrics("run")
    assert "other/report.html: not written (a curve of no points)" in answer.err.decode()
