"""What people see of a training while it runs."""

from __future__ import annotations

import errno
import io
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_trainer import trainer_of
from tqdm import tqdm

from mt_cli.training import metrics_log
from mt_cli.training.metrics_log import _BAR, format_duration
from mt_cli.training.update import Update


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 s"), (89, "89 s"), (91, "2 min"), (5000, "83 min"), (9000, "2.5 h"), (360_000, "100.0 h")],
)
def test_a_time_is_told_in_the_unit_that_people_would_use(seconds, told):
    assert format_duration(seconds) == told


def shown(run: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str, step: int = 12_345, best: float = 41.53) -> str:
    """The line of the bar after an update."""
    monkeypatch.setattr(metrics_log, "_SHOW_EVERY_SECONDS", -1)
    trainer = trainer_of(run, "training.max_steps=66000", *overrides)
    p = trainer.state.progress
    p.step, p.best_step, p.best_score = step, max(0, step - 1234), best
    terminal = io.StringIO()
    with tqdm(total=66_000, initial=step, file=terminal, ncols=80, bar_format=_BAR) as bar:
        trainer.metrics.note_update(Update(step, 231.0, 100, 1.0, [0]), bar)
        bar.refresh()
    return terminal.getvalue().split("\r")[-1].rstrip()


@pytest.mark.parametrize(
    ("select_by", "best", "told"), [("chrf", 41.53, "chrF (best 41.5"), ("loss", -1.2345, "dev loss (best 1.234")]
)
def test_the_bar_tells_time_left_loss_and_best_score_in_80_columns(tiny, monkeypatch, select_by, best, told):
    line = shown(tiny / "run", monkeypatch, f"training.select_by={select_by}", best=best)
    assert len(line) <= 80
    assert line.startswith("12345/66000, ") and " left, loss 2.31, " in line and f"{told} at 11111)" in line


def test_the_time_left_is_told_once_where_there_is_no_bar(tiny, mt):
    answer = mt("train", "tiny.yaml", "--set", "training.max_steps=120", "--set", "training.n_samples=0")
    assert len([line for line in answer.said if line.startswith("about ") and line.endswith(" left")]) == 1


# TensorBoard ---------------------------------------------------------------------------------------------------------


def event_files(run: Path) -> list[Path]:
    return sorted((run / "tensorboard").iterdir())


def scalars(file: Path) -> list[tuple[int, str, float]]:
    """Step, name and value of everything in an event file, read as its format says: length, checksum, data, checksum."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    content, found = file.read_bytes(), []
    while content:
        (n_bytes,) = struct.unpack("<Q", content[:8])
        event = event_pb2.Event.FromString(content[12 : 12 + n_bytes])
        found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
        content = content[16 + n_bytes :]
    return found


def of_metrics(run: Path) -> list[tuple[int, str, float]]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [
        (record["step"], key, pytest.approx(x)) for record in records for key, x in record.items() if type(x) is float
    ]


def test_tensorboard_gets_every_figure_once_also_after_a_stop_and_of_steps_before_it_was_asked(tiny, mt):
    pytest.importorskip("tensorboardX")
    train = ("train", "tiny.yaml", "--run-dir", "run", "--set", "training.n_samples=0")
    mt(*train, "--set", "training.max_steps=80", "--set", "training.validate_every_steps=40")
    run = tiny / "run"
    with (run / "metrics.jsonl").open("a") as file:  # as after a kill: a figure that no checkpoint has
        file.write('{"step": 99, "epoch": 2, "loss": 7.0}\n')
    more = ("--set", "training.validate_every_steps=40", "--set", "training.tensorboard=true")
    for n_steps in (120, 160):
        answer = mt(*train, *more, "--set", f"training.max_steps={n_steps}")
        assert answer.code == 0, answer.err.decode()
        (file,) = event_files(run)
        assert scalars(file) == of_metrics(run)
    assert {tag for _, tag, _ in scalars(file)} >= {"loss", "learning_rate", "grad_norm", "dev_loss", "bleu", "chrf"}


def test_a_full_disk_under_tensorboard_is_told_as_such(tiny, mt, monkeypatch):
    pytest.importorskip("tensorboardX")
    flushes = iter([OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))])
    monkeypatch.setattr("tensorboardX.record_writer.RecordWriter.flush", lambda _: raise_next(flushes))
    answer = mt("train", "tiny.yaml", "--run-dir", "run", "--set", "training.tensorboard=true")
    (error,) = [line for line in answer.said if line.startswith("error")]
    assert answer.code == 1
    assert error.startswith(f"error: cannot write {Path('run/tensorboard')}: No space left on device; free space")


def raise_next(errors: Iterator[OSError]) -> None:
    for error in errors:
        raise error


def test_a_missing_tensorboard_is_told_before_anything_is_prepared(tiny, mt, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = mt("train", "tiny.yaml", "--run-dir", "run", "--set", "training.tensorboard=true")
    command = 'pip install "mt-cli[tensorboard]"'
    assert answer.said == [f"error: training.tensorboard needs tensorboardX; install it with: {command}"]
    assert answer.code == 2 and not (tiny / "run").exists()
