"""What a training would take, told before it begins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mt_cli.config_file import load_config
from mt_cli.training.forecast import forecast


def test_a_forecast_tells_time_and_memory_and_leaves_nothing_behind(tiny, said):
    before = sorted(tiny.rglob("*"))
    [time] = forecast(load_config(Path("tiny.yaml")))
    assert re.match(r"A training here: [\d.]+ (s|min|h) for 160 steps, \d\.\d GiB of memory, 0\.0 million param", time)
    assert sorted(tiny.rglob("*")) == before and said() == []


def test_a_slower_machine_and_more_steps_have_a_longer_forecast(tiny, monkeypatch):
    def seconds(*overrides: str) -> float:
        line = forecast(load_config(Path("tiny.yaml"), overrides))[0]
        number, unit = re.findall(r"here: ([\d.]+) (s|min|h)", line)[0]
        return float(number) * {"s": 1, "min": 60, "h": 3600}[unit]

    monkeypatch.setattr("mt_cli.training.forecast._seconds_of_a_step", lambda trainer, step: 0.5)
    assert seconds("training.max_steps=100") == pytest.approx(50, rel=0.3)
    assert seconds("training.max_steps=1000") == pytest.approx(500, rel=0.3)


def test_what_follows_the_last_step_is_counted(tiny, monkeypatch):
    n_dev = len(Path("dev.de").read_text().splitlines())
    monkeypatch.setattr("mt_cli.training.forecast._seconds_of_a_step", lambda trainer, step: 0.0)
    monkeypatch.setattr("mt_cli.training.forecast._validation_seconds", lambda trainer: (0.0, 60 / n_dev))
    line = forecast(load_config(Path("tiny.yaml"), ["training.max_steps=10", "training.validate_every_steps=5"]))[0]
    assert line.startswith("A training here: 5 min"), "two validations of a minute each, and what is fitted to dev"


def test_batches_that_are_chosen_for_the_machine_are_chosen_before_they_are_timed(tiny, monkeypatch):
    timed = []
    monkeypatch.setattr(
        "mt_cli.training.forecast._seconds_of_a_step",
        lambda trainer, step: float(timed.append(trainer.state.settings.batch_tokens) or 1),
    )
    forecast(load_config(Path("tiny.yaml"), ["training.batch_tokens=auto"]))
    assert timed and min(timed) > 0


def test_of_a_config_with_monolingual_text_the_pairs_alone_are_timed(tiny):
    config = load_config(Path("tiny.yaml"), ["data.monolingual.tgt=news.de", "data.dev=null", "data.test={}"])
    time, of_what = forecast(config)
    assert time.startswith("A training here: ") and "the pairs alone" in of_what
