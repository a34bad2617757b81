"""What people see of a training while it runs."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tiny_trainer import trainer_of
from tqdm import tqdm

from mt_cli.training import metrics_log
from mt_cli.training.metrics_log import BAR, told_time
from mt_cli.training.update import Update


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 s"), (89, "89 s"), (91, "2 min"), (5000, "83 min"), (9000, "2.5 h"), (360_000, "100.0 h")],
)
def test_a_time_is_told_in_the_unit_that_people_would_use(seconds, told):
    assert told_time(seconds) == told


def shown(run: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str, step: int = 12_345, best: float = 41.53) -> str:
    """The line of the bar after an update."""
    monkeypatch.setattr(metrics_log, "_SHOW_EVERY_SECONDS", -1)
    trainer = trainer_of(run, "training.max_steps=66000", *overrides)
    p = trainer.state.progress
    p.step, p.best_step, p.best_score = step, max(0, step - 1234), best
    terminal = io.StringIO()
    with tqdm(total=66_000, initial=step, file=terminal, ncols=80, bar_format=BAR) as bar:
        trainer.metrics.note_update(Update(231.0, 100, 1.0, [0]), 1e-3, bar)
        bar.refresh()
    return terminal.getvalue().split("\r")[-1].rstrip()


@pytest.mark.parametrize(
    ("select_by", "best", "told"), [("chrf", 41.53, "chrF (best 41.5"), ("loss", -1.2345, "dev loss (best 1.234")]
)
def test_the_bar_tells_time_left_loss_and_best_score_in_80_columns(tiny, monkeypatch, select_by, best, told):
    line = shown(tiny / "run", monkeypatch, f"training.select_by={select_by}", best=best)
    assert len(line) <= 80
    assert line.startswith("12345/66000, ") and " left, loss 2.31, " in line and f"{told} at 11111)" in line


def test_the_loss_is_shown_from_the_first_second_on(tiny, monkeypatch):
    assert "1/66000, " in (line := shown(tiny / "run", monkeypatch, step=1, best=0.0)) and "loss 2.31" in line


def test_the_time_left_is_told_once_where_there_is_no_bar(tiny, mt):
    answer = mt("train", "tiny.yaml", "--set", "training.max_steps=120", "--set", "training.n_samples=0")
    assert len([line for line in answer.said if line.startswith("about ") and line.endswith(" left")]) == 1
