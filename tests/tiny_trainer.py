"""A `Trainer` of the tiny corpus, what its run keeps, and a translator of random weights."""

import time
from pathlib import Path
from typing import Any

import torch
from conftest import TINY

from mt_cli.build import prepare, prepared_trainer
from mt_cli.config import Config
from mt_cli.config_file import load_config
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.decoding.translator import Translator
from mt_cli.processes import StopSignals
from mt_cli.run.checkpoint import build_model
from mt_cli.run.run_dir import PairFiles, RunDir
from mt_cli.training.loop import Trainer


def options(*overrides: str) -> list[str]:
    return [word for override in overrides for word in ("--set", override)]


def trainer_of(run: Path, *overrides: str, began: float | None = None) -> Trainer:
    """What `mt train tiny.yaml --run-dir RUN` trains with; `began`: when, on the clock of the test."""
    run.mkdir(parents=True, exist_ok=True)
    began = time.monotonic() if began is None else began
    prepared = prepare(load_config(Path("tiny.yaml"), overrides), folder := RunDir(run))
    return prepared_trainer(prepared, folder, StopSignals(), began)


def pair_of(run: RunDir) -> PairFiles:
    """What a run keeps of its only or first language pair."""
    data = run.load_config().data
    return run.of_pair(data, data.directions[0])


def random_translator(tokenizer: Tokenizer, **switches: Any) -> Translator:
    torch.manual_seed(0)
    sections = {
        "data": {"src_lang": "en", "tgt_lang": "de", "train": ["a", "b"], "dev": ["c", "d"], "max_length": 60},
        "tokenizer": {"joint": tokenizer.is_joint},
        "model": {**TINY, "n_decoder_layers": 1, "max_positions": 128, **switches},
        "decoding": {"max_length_ratio": 0.1},  # and 10 more: random models never end
    }
    config = Config.model_validate(sections)
    model = build_model(config, tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return Translator([model], tokenizer, config)
