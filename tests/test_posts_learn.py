"""Each post's architecture learns: the phrasebook for some hundred steps, and to copy what it has never seen."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mt_cli.decoding.translator import Translator

REPOSITORY = Path(__file__).parents[1]
POSTS = sorted((REPOSITORY / "configs" / "posts").glob("*.yaml"))
Mt = Callable[..., Any]

# Nats a token on dev after 500 steps. Before them it is about 9; what was learned lay between 0.5 and 2.9 (the last for
# the unscaled attention of post 004).
N_STEPS, DEV_LOSS = 500, 3.2


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("config", POSTS, ids=lambda path: path.stem)
def test_it_learns_the_phrasebook(config: Path, mt: Mt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    settings = {"max_steps": N_STEPS, "validate_every_steps": N_STEPS, "batch_tokens": 1024}
    sets = [word for key, value in settings.items() for word in ("--set", f"training.{key}={value}")]
    assert mt("train", config, "--run-dir", tmp_path / "run", *sets).code == 0
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert records[-1]["dev_loss"] < DEV_LOSS


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("config", POSTS, ids=lambda path: path.stem)
def test_it_learns_to_copy(config: Path, mt: Mt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    lines = list(dict.fromkeys(" ".join(rng.choices("abcdefgh", k=rng.randint(3, 8))) for _ in range(4000)))
    held_out = lines[-200:]
    for name, part in (("train", lines[:-250]), ("dev", lines[-250:-200])):
        for language in ("zh", "en"):
            Path(f"{name}.{language}").write_text("\n".join(part) + "\n")
    settings = {
        "data.train": "[train.zh, train.en]",
        "data.dev": "[dev.zh, dev.en]",
        "data.test": "{}",
        "tokenizer.vocab_size": 300,
        "training.max_steps": 900,
        "training.validate_every_steps": 900,
        "training.batch_tokens": 512,
        "training.select_by": "loss",
    }
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    answer = mt("train", config, "--run-dir", "run", *sets)
    assert answer.code == 0, answer.err.decode()
    outputs = Translator.load("run").translate(held_out)
    n_right = sum(output == line for output, line in zip(outputs, held_out, strict=True))
    assert n_right >= 170  # of 200; 189 and more were seen, and a model that loses its place gets a handful
