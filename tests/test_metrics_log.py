"""What people see of a training while it runs."""

import io
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_trainer import trainer_of
from tqdm import tqdm

from mt_cli.training import metrics_log
from mt_cli.training.metrics_log import _BAR, format_duration
from mt_cli.training.state import Progress


def test_a_time_has_the_unit_that_people_would_use():
    assert [format_duration(seconds) for seconds in (89, 91, 5000, 9000)] == ["89 s", "2 min", "83 min", "2.5 h"]


@pytest.mark.parametrize(
    ("key", "best", "text"), [("chrf", 41.53, "chrF (best 41.5"), ("loss", -1.2345, "dev loss (best 1.234")]
)
def test_the_bar_shows_time_left_loss_and_best_score_in_80_columns(tiny, monkeypatch, key, best, text):
    monkeypatch.setattr(metrics_log, "_SHOW_EVERY_SECONDS", -1)
    trainer, terminal = trainer_of(Path("run"), "training.max_steps=66000", f"training.select_by={key}"), io.StringIO()
    p = trainer.state.progress
    p.step, p.best_step, p.best_score = 12_345, 11_111, best
    with tqdm(total=66_000, initial=p.step, file=terminal, ncols=80, bar_format=_BAR) as trainer.metrics._bar:
        trainer.metrics.note_update(SimpleNamespace(loss_sum=231.0, n_tokens=100, grad_norm=1.0))
        trainer.metrics._bar.refresh()
    line = terminal.getvalue().split("\r")[-1].rstrip()
    assert len(line) <= 80
    assert line.startswith("12345/66000, ") and " left, loss 2.31, " in line and f"{text} at 11111)" in line


def test_the_time_left_is_logged_once_where_there_is_no_bar_and_all_figures_are_recorded(tiny, mt):
    settings = ("max_steps=60", "validate_every_steps=40", "n_samples=0")
    answer = mt("train", "tiny.yaml", *(f"--set=training.{one}" for one in settings))
    assert len([line for line in answer.said if re.fullmatch(r"about \d+ (s|min) left", line)]) == 1
    records = [json.loads(line) for line in (tiny / "runs/tiny/metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [40, 50, 60, 60]
    assert {"loss", "learning_rate", "grad_norm"} <= records[1].keys()
    assert {"dev_loss", "train_loss", "bleu", "chrf", "weights", "is_best"} <= records[-1].keys()


def test_tensorboard_gets_every_figure_once_also_after_a_stop_and_of_steps_before_it_was_asked(tiny, mt, trained_run):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    shutil.copytree(trained_run, "run")
    metrics = Path("run/metrics.jsonl")
    with metrics.open("a") as file:  # as after a kill: a figure that no checkpoint has
        file.write('{"step": 199, "epoch": 2, "loss": 7.0}\n')
    train = ["train", "tiny.yaml", "--run-dir", "run", "--set", "training.tensorboard=true"]
    for n_steps in (165, 210):
        answer = mt(*train, "--set", f"training.max_steps={n_steps}")
        assert answer.code == 0, answer.err.decode()
        (file,) = Path("run/tensorboard").iterdir()
        events = reader.LegacyEventFileLoader(str(file)).Load()
        found = [(event.step, one.tag, one.simple_value) for event in events for one in event.summary.value]
        records = map(json.loads, metrics.read_text().splitlines())
        of_each = [(record["step"], *item) for record in records for item in record.items()]
        assert found == [(step, key, pytest.approx(x)) for step, key, x in of_each if type(x) is float]
    assert {tag for _, tag, _ in found} >= {"loss", "learning_rate", "grad_norm", "dev_loss", "bleu", "chrf"}


def test_a_missing_tensorboard_is_reported_before_anything_is_prepared(tiny, mt, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = mt("train", "tiny.yaml", "--run-dir", "run", "--set", "training.tensorboard=true")
    assert answer.said[0].startswith('error: training.tensorboard needs tensorboard; install it with: pip install "mt')
    assert answer.code == 2 and not Path("run").exists()


@pytest.mark.parametrize(
    ("validations", "best"),
    [
        ([(13.1, 6.9), (0.5, 5.7), (6.9, 5.5)], 3),  # babble first, then a few words, then sentences
        ([(20.0, 4.0), (22.0, 3.8), (21.0, 3.6)], 2),  # what has been learnt is judged by its score
        ([(20.0, 4.0), (22.0, 4.8), (21.0, 4.4)], 2),  # also where it knows the training text by heart
        ([(20.0, 4.0), (19.0, 3.7), (18.0, 3.4)], 3),
    ],
)
def test_the_best_has_the_highest_score_or_a_loss_that_is_clearly_lower(validations, best):
    progress = Progress()
    for progress.step, (score, loss) in enumerate(validations, 1):
        is_best = bool(progress.note_validation(score, loss))
        assert is_best == (progress.best_step == progress.step) == (not progress.n_validations_without_best)
    assert progress.best_step == best
