"""A run directory that was edited, damaged, cut or made by a stranger: it is refused by name, or continued as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_trainer import options
from yaml import safe_dump, safe_load

Mt = Callable[..., Any]
LONGER = options("training.max_steps=161", "training.n_samples=0")


@pytest.fixture
def run(tiny: Path, trained_run: Path) -> Path:
    """A copy of the trained run, in the folder of its corpus."""
    return Path(shutil.copytree(trained_run, "run"))


def edit(run: Path, section: str, **values: Any) -> None:
    config = safe_load((run / "config.yaml").read_text())
    config[section] |= values
    (run / "config.yaml").write_text(safe_dump(config))


# The config and the profile belong to the weights ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "key", "value", "before"),
    [
        ("model", "n_heads", 1, 2),
        ("model", "positions", "rotary", "sinusoid"),
        ("model", "first_position", 1, 0),
        ("tokenizer", "vocab_size", 301, 300),
        ("data", "max_length", 15, 16),
    ],
)
def test_what_translations_depend_on_is_held_to_the_checkpoint(
    mt: Mt, run: Path, section: str, key: str, value: object, before: object
) -> None:
    edit(run, section, **{key: value})
    expected = (
        f"error: run/config.yaml: not what its checkpoints were trained with ({section}.{key} is {value} here,"
        f" {before} there); put these values back"
    )
    for command in (("translate", "run", "test.en"), ("evaluate", "run"), ("train", "run/config.yaml", *LONGER)):
        answer = mt(*command)
        assert (answer.code, answer.out, answer.said[-1]) == (1, b"", expected), command


def test_what_training_depends_on_is_held_to_the_checkpoint(mt: Mt, run: Path) -> None:
    edit(run, "training", learning_rate=0.01, clip_norm=2.0)
    answer = mt("train", "run/config.yaml", *LONGER)
    assert (answer.code, answer.said) == (
        1,
        [
            "error: run/config.yaml: not what its checkpoints were trained with (training.learning_rate is 0.01 here, 0.02"
            " there; training.clip_norm is 2.0 here, 1.0 there); put these values back"
        ],
    )


def test_the_search_and_the_test_sets_of_a_run_may_be_edited(mt: Mt, run: Path) -> None:
    edit(run, "decoding", beam_size=4)
    edit(run, "data", test={"other": ["dev.en", "dev.de"]})
    for command in (("translate", "run", "test.en"), ("evaluate", "run"), ("train", "run/config.yaml", *LONGER)):
        assert mt(*command).code == 0, command


def test_an_edited_profile_is_refused_and_a_lost_one_is_done_without_or_made_again(mt: Mt, run: Path) -> None:
    profile = run / "corpus.json"
    original = profile.read_text()
    profile.write_text(original.replace('"several_sentences": 0.0', '"several_sentences": 0.1'))
    commands = [("translate", "run", "test.en"), ("train", "tiny.yaml", "--run-dir", "run", *LONGER)]
    for command in commands:
        answer = mt(*command)
        assert (answer.code, answer.said) == (
            1,
            ["error: run/corpus.json: not what it was when the run was trained; restore it from a copy"],
        )
    profile.unlink()
    for command in commands:
        assert mt(*command).code == 0, command
    assert profile.read_text() == original
