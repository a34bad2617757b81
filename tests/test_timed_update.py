"""How long an update takes is measured before the recipe chooses for given minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mt_cli.build import prepare
from mt_cli.config import Config, given_keys
from mt_cli.config_file import complete, config_of, load_config
from mt_cli.recipe import CorpusFacts, choose
from mt_cli.run.run_dir import RunDir
from mt_cli.training import timed_update
from mt_cli.training.timed_update import update_seconds

FACTS = CorpusFacts(3_000, 3_000, 120_000, 80, 1.0)

SMALL = ["model.d_model=64", "model.ffn_dim=64", "model.n_heads=2", "tokenizer.vocab_size=500"]


def recipe(*overrides: str) -> Config:
    config = config_of({"src_lang": "es", "tgt_lang": "gn", "train": ["a.es", "a.gn"]}, [*SMALL, *overrides])
    choices = choose(FACTS, given_keys(config))
    return complete(config, {key: choice.value for key, choice in choices.items()})


def test_more_arithmetic_takes_longer():
    # Other work may interrupt.
    small = min(update_seconds(recipe("training.batch_tokens=128"), FACTS) for _ in range(3))
    assert 0 < small < update_seconds(recipe("training.batch_tokens=128", "training.accumulate=4"), FACTS)
    assert small < update_seconds(recipe("training.batch_tokens=128", "model.n_encoder_layers=24"), FACTS)


@pytest.mark.parametrize(
    "override", ["training.batch_tokens=auto", "training.batch_tokens=48", "tokenizer.joint=false"]
)
def test_any_config_is_timed(override):
    assert 0 < update_seconds(recipe(override), FACTS) < float("inf")


def test_a_network_that_does_not_fit_into_memory_takes_for_ever(monkeypatch):
    def refuse(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 10 bytes")

    monkeypatch.setattr(timed_update, "Transformer", refuse)
    assert update_seconds(recipe(), FACTS) == float("inf")


@pytest.mark.parametrize(("seconds", "r_drop"), [(1e-6, 1.0), (1e6, 0.0)])
def test_minutes_are_few_on_a_slow_machine_and_many_on_a_fast_one(tiny, mt, monkeypatch, seconds, r_drop):
    monkeypatch.setattr("mt_cli.build.update_seconds", lambda config, facts: seconds)
    sets, small = ("--dev", "dev.en", "--dev", "dev.de"), ("--set", "model.d_model=16", "--run-dir", "run")
    answer = mt("train", "train.en", "train.de", *sets, "--minutes", "0.02", *small)
    assert answer.code == 0, answer.err.decode()
    assert load_config(Path("run/config.yaml")).training.r_drop == r_drop


def test_a_training_without_minutes_waits_for_no_measurement(tiny, mt, monkeypatch):
    monkeypatch.setattr("mt_cli.build.update_seconds", None)
    assert mt("train", "tiny.yaml", "--set", "training.max_steps=2").code == 0


def test_processes_that_share_the_updates_make_more_of_them(tiny, monkeypatch):
    seconds = 60 * 0.02 / 100
    monkeypatch.setattr("mt_cli.build.update_seconds", lambda config, facts: seconds)
    monkeypatch.setenv("WORLD_SIZE", "1000")  # those that a run back trains beside, alone
    found = []
    for n in (1, 1000):
        run = RunDir(Path(f"run-{n}"))
        config = config_of(
            {"train": ["train.en", "train.de"], "dev": ["dev.en", "dev.de"], "src_lang": "en", "tgt_lang": "de"},
            ["training.minutes=0.02"],
        )
        run.begin(config)
        found.append(prepare(config, run, n).config.training.r_drop)
    assert found == [0.0, 1.0]
