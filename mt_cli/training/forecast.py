"""What a training would take on this machine, from a few timed updates; nothing of it is kept."""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

import torch

from mt_cli.config import AUTO, Config
from mt_cli.data.batching import source_batch
from mt_cli.decoding.translator import Translator
from mt_cli.device import peak_memory
from mt_cli.evaluation.metrics import mean_loss
from mt_cli.run.run_dir import RunDir
from mt_cli.training.loop import Trainer
from mt_cli.training.metrics_log import told_time
from mt_cli.training.run import fit_batch_tokens, prepared_trainer
from mt_cli.training.schedule import learning_rate, phase, seconds_left
from mt_cli.training.signals import StopSignals
from mt_cli.training.update import Updates

_N_UNTIMED, _N_TIMED = 2, 6  # updates of each kind; the first ones are slower
# After the training, sentences of dev to which estimates are fitted; and how many times as long as in a validation each takes,
# as it is searched for with a beam and then looked into.
_N_FITTED, _FITTED_TAKES = 500, 3.0


def forecast(config: Config) -> list[str]:
    """Lines that say how long a training of this config takes here, and how much memory."""
    log = logging.getLogger("mt_cli")
    level, began = log.level, time.monotonic()
    log.setLevel(logging.ERROR)  # what preparing tells is told when a training begins
    try:
        with tempfile.TemporaryDirectory(prefix="mt-forecast-") as folder:
            run = RunDir(Path(folder) / "run")
            run.path.mkdir()
            is_part = config.data.monolingual is not None
            if is_part:  # the pairs alone are timed
                config = config.model_copy(update={"data": config.data.model_copy(update={"monolingual": None})})
            trainer = prepared_trainer(config, run, StopSignals(), began)
            if trainer.state.settings.batch_tokens == AUTO:
                fit_batch_tokens(trainer)
            preparing = time.monotonic() - began
            seconds = preparing + _training_seconds(trainer)
            of_pairs = ["That is the training on the pairs alone, without the monolingual text."]
            return [_told(trainer, seconds), *(of_pairs if is_part else [])]
    finally:
        log.setLevel(level)


def _training_seconds(trainer: Trainer) -> float:
    settings = trainer.state.settings
    steps = {phase(step, settings): step for step in (settings.max_steps - 1, 1, 0)}  # one of each kind
    timed: dict[int, list[float]] = {1: [], 2: []}  # by the number of forward passes
    for one, step in steps.items():
        timed[one.n_passes].append(_seconds_of_a_step(trainer, step))
    one_pass, two_pass = (sum(seconds) / max(1, len(seconds)) for seconds in timed.values())
    n_sentences = sum(len(pair.dev) for pair in trainer.data.pairs)
    losses, search = _validation_seconds(trainer)
    fitting = _FITTED_TAKES * search * min(_N_FITTED, n_sentences)
    return seconds_left(settings, 0, (one_pass, two_pass), losses + search * n_sentences) + fitting


def _seconds_of_a_step(trainer: Trainer, step: int) -> float:
    """The mean of some updates that are done as the update after `step` updates is."""
    state, data, settings = trainer.state, trainer.data.train, trainer.state.settings
    state.progress.step = step
    updates = Updates(state, data)
    times = []
    for _ in range(_N_UNTIMED + _N_TIMED):
        began = time.monotonic()
        update = updates.compute()
        state.optimizer.step(learning_rate(1, settings, state.config.model.d_model), 0.0, 1, update.is_finite)
        update.read()
        times.append(time.monotonic() - began)
    updates.close()
    return sum(times[_N_UNTIMED:]) / _N_TIMED


@torch.inference_mode()
def _validation_seconds(trainer: Trainer) -> tuple[float, float]:
    """Of the losses of all sentences, which are computed, and of the search for one: a network that has learnt nothing would
    not end its sentences, so one batch is decoded for as long as the references are."""
    pairs, config = trainer.data.pairs, trainer.state.config
    dev = pairs[0].dev
    began = time.monotonic()
    for model in trainer.state.candidates.values():
        for pair in pairs:
            mean_loss(model.eval(), pair.dev, config.training.batch_tokens)
    losses = time.monotonic() - began
    translator = Translator([trainer.state.model], trainer.data.tokenizer, config, pairs[0].profile)
    n = min(len(dev), config.decoding.batch_size)
    src_ids, src_mask = (x.to(translator.device) for x in source_batch([dev.src(i).tolist() for i in range(n)]))
    _, lengths = dev.lengths(0, len(dev))
    n_steps = int(lengths.mean()) + 1
    began = time.monotonic()
    decoder = translator.search_model.start(src_ids, src_mask, n_steps + 1)
    last_ids = torch.ones(n, dtype=torch.long, device=translator.device)
    for _ in range(n_steps):
        last_ids = translator.search_model.advance(decoder, last_ids).argmax(-1)
    return losses, (time.monotonic() - began) / n


def _told(trainer: Trainer, seconds: float) -> str:
    state = trainer.state
    n_parameters = sum(weight.numel() for weight in state.model.parameters())
    memory = peak_memory()
    told_memory = f", {memory / 2**30:.1f} GiB of memory" if memory is not None else ""
    minutes = f"; with --minutes {state.settings.minutes:g} it ends then" if state.settings.minutes else ""
    return (
        f"A training here: {told_time(seconds)} for {state.settings.max_steps:,} steps{told_memory},"
        f" {n_parameters / 1e6:.1f} million parameters{minutes}."
    )
