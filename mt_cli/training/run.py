"""`train(config, run_dir)`: what `mt train` and Python users call. From a config to a finished run."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import torch

from mt_cli.config import Config, DataConfig, SeveralPairs
from mt_cli.config_file import load_config
from mt_cli.data.direction import refuse_exchanged
from mt_cli.device import choose_device, choose_precision, keep_freed_memory
from mt_cli.errors import DataError, as_typed
from mt_cli.run.checkpoint import build_model, load_model
from mt_cli.run.directions import told_target
from mt_cli.run.provenance import record_start, versions
from mt_cli.run.run_dir import RunDir
from mt_cli.training.back_translation import back_translate, tell_unused
from mt_cli.training.event_file import refuse_missing_tensorboard
from mt_cli.training.guards import advise_when_out_of_memory, refuse_small_disk, smaller_batches
from mt_cli.training.loop import Trainer
from mt_cli.training.memory import fit_batches
from mt_cli.training.parent import about_parent, parent_of, take_weights
from mt_cli.training.prepare import PreparedData, prepare
from mt_cli.training.ranks import ALONE, Ranks, joined_ranks
from mt_cli.training.resume import N_KEPT, Checkpoints, continued_config
from mt_cli.training.reverse_run import run_to_begin_with
from mt_cli.training.signals import StopSignals, command_line
from mt_cli.training.state import TrainingState
from mt_cli.training.verdict import learning_curve, verdict

log = logging.getLogger(__name__)


def train(
    config: Config | str | Path,
    run_dir: str | Path,
    signals: StopSignals | None = None,
    started: float | None = None,
    on_validation: Callable[[RunDir], None] | None = None,
) -> None:
    """Trains in `run_dir`, or continues the run that is there; changes nothing in one that is finished.

    `config` may be the path of a YAML file. `signals` were caught since the command began, which was at `started`, in
    seconds of `time.monotonic`: both from now on by default. `on_validation` is called after each validation, when its
    checkpoint is saved. Raises MTError (`errors.py`), and Interrupted once a signal was answered by saving.
    """
    started = time.monotonic() if started is None else started
    given = config if isinstance(config, Config) else load_config(Path(config))
    run = RunDir(Path(run_dir))
    with contextlib.ExitStack() as stack:
        if signals is None:
            signals = StopSignals()
            if threading.current_thread() is threading.main_thread():  # no other may handle signals
                stack.enter_context(signals)
        ranks = stack.enter_context(joined_ranks())
        ranks.refuse_difference(given.model_dump(), {"version": versions()})
        _train_in(run, given, signals, started, ranks, on_validation)


def _train_in(
    run: RunDir,
    given: Config,
    signals: StopSignals,
    started: float,
    ranks: Ranks,
    on_validation: Callable[[RunDir], None] | None,
) -> None:
    with contextlib.ExitStack() as stack:
        config = ranks.first(lambda: _begin(given, run, stack)) or given
        if config.data.monolingual is not None:
            train_back = lambda config, back: _train_in(back, config, signals, started, ALONE, on_validation)  # noqa: E731
            seconds = ranks.first(lambda: back_translate(config, run, train_back, signals))
            if seconds is not None and not run.steps():  # which know what was spent
                started = min(started, time.monotonic() - seconds)
        trainer = prepared_trainer(config, run, signals, started, ranks, on_validation)
        if not trainer.state.is_finished:
            _train(trainer, run)
        elif ranks.is_first:
            _tell_finished(trainer.state, run)


def _begin(config: Config, run: RunDir, stack: contextlib.ExitStack) -> Config:
    """The config to train with. From here on the run is locked, until `stack` ends."""
    config = continued_config(config, run)
    _refuse_missing_files(config, run.is_prepared)
    if not run.is_prepared:
        refuse_exchanged(config.data)
    if not run.steps() and (parent := parent_of(config)) is not None:
        load_model(parent)  # so that damage shows before anything is prepared
    choose_device(config.training.device)
    refuse_missing_tensorboard(config.training)
    run.refuse_links()
    stack.enter_context(run.lock.held())
    return config


def prepared_trainer(
    config: Config,
    run: RunDir,
    signals: StopSignals,
    started: float,
    ranks: Ranks = ALONE,
    on_validation: Callable[[RunDir], None] | None = None,
) -> Trainer:
    """A trainer that continues from the run's newest checkpoint, if there is one. The first process must hold the run's
    lock; the others use what it has prepared."""
    ranks.first(lambda: run.begin(config))
    data = ranks.first(lambda: prepare(config, run, ranks.n))
    if data is None:
        data = prepare(continued_config(config, run), run)
    config = data.config
    keep_freed_memory()  # only from here on, so that what preparing took is given back
    device = choose_device(config.training.device)
    with torch.random.fork_rng():
        torch.manual_seed(config.training.seed)
        model = build_model(config, data.tokenizer)
    if not run.steps() and (parent := run_to_begin_with(config, run)) is not None:
        take_weights(model, data.tokenizer, parent, config.training.freeze)
    precision = ranks.shared(choose_precision(config.training.precision, device))  # `auto` measures
    state = TrainingState.new(config, model.to(device), *precision)
    ranks.first(run.make_checkpoints_folder)
    checkpoints = Checkpoints(run, data, started, ranks)
    with advise_when_out_of_memory(device, lambda: f"while continuing {run.path}; free memory, then start again"):
        checkpoints.restore(state)
    trainer = Trainer(state, data, checkpoints, signals, ranks, on_validation)
    trainer.extend()
    return trainer


def _train(trainer: Trainer, run: RunDir) -> None:
    state, ranks = trainer.state, trainer.ranks
    ranks.first(lambda: _announce(trainer, run))
    state.use_batch_tokens(ranks.shared(state.settings.batch_tokens))
    trainer.signals.is_saving_needed = True
    trainer.train()
    ranks.first(lambda: _conclude(trainer, run))


def _announce(trainer: Trainer, run: RunDir) -> None:
    """Tells what begins, after trying that disk and memory suffice for it."""
    run.save_config(trainer.state.config)
    _tell_start(trainer.state, trainer.data, run)
    # The newest, the best of each of two, and one that is being written; some may be there already.
    refuse_small_disk(run, trainer.state.model, max(1, N_KEPT + 2 - len(run.steps())))
    fit_batch_tokens(trainer)


def _conclude(trainer: Trainer, run: RunDir) -> None:
    state, p = trainer.state, trainer.state.progress
    trainer.checkpoints.verify_best(p)
    _tell_verdict(trainer, run)
    tell_unused(run)
    log.info(
        f"finished at step {p.step} ({_why_finished(state)}); best step {p.best_step}; try: mt translate"
        f" {as_typed(run.path)}{told_target(state.config)}"
    )


def fit_batch_tokens(trainer: Trainer) -> None:
    """Tries the largest batch, so that too little memory shows before the first step. Saves what `auto` is resolved to."""
    state, run = trainer.state, trainer.checkpoints.run
    advice = lambda: smaller_batches(state.settings, run.steps())  # noqa: E731
    with advise_when_out_of_memory(state.model.device, advice):
        n_tokens = fit_batches(state.optimizer, trainer.data.train, state.settings, state.progress.epoch)
    if n_tokens != state.settings.batch_tokens:
        state.use_batch_tokens(n_tokens)
        run.save_config(state.config)
        log.info(f"training.batch_tokens: auto is {n_tokens:,} here")


def _refuse_missing_files(config: Config, is_prepared: bool) -> None:
    is_several = isinstance(config.data, SeveralPairs)
    named = {
        f"pairs.{number}.{key}" if is_several else key: files
        for number, pair in enumerate(config.data.directions)
        for key, files in _named_files(pair, is_prepared).items()
    }
    problems = [told for pair in config.data.directions for told in _training_files_once_more(pair)]
    for key, files in named.items():
        paths = [Path(file) for file in files]
        if len(paths) == 2 and all(path.is_file() for path in paths) and paths[0].samefile(paths[1]):
            problems.append(f"{files[0]} and {files[1]} are the same file; check data.{key}")
        for path in paths:
            if not path.is_file():
                found = "is not a regular file" if path.exists() else "no such file"
                told = f"data.{key}{_OPTIONS.get(key, '')} (paths are relative to where mt is started)"
                problems.append(f"{path}: {found}; check {told}")
            elif not os.access(path, os.R_OK):
                problems.append(f"{path}: cannot be read; check its permissions (data.{key})")
    if problems:
        raise DataError(*problems)


_OPTIONS = {  # that set the key for files
    "dev": " or --dev", "test.test": " or --test", "words.files": " or --words",
    "monolingual.tgt": " or --monolingual", "monolingual.src": " or --monolingual",
}  # fmt: skip


def _named_files(data: DataConfig, is_prepared: bool) -> dict[str, list[str]]:
    """The files that have to be there, by key."""
    named = {"train": data.corpora[0].files}
    if len(data.corpora) > 1:
        named = {f"train.{number}": corpus.files for number, corpus in enumerate(data.corpora)}
    if data.dev is not None:
        named["dev"] = data.dev
    if not is_prepared:  # test sets are looked at once, before anything is trained
        named |= {f"test.{name}": files for name, files in data.test.items()}
    if data.words is not None:
        named["words.files"] = data.words.files
    if data.monolingual is not None and not is_prepared:  # then the pairs are made
        named |= {f"monolingual.{side}": files for side, files in _monolingual_files(data).items()}
    return named


def _monolingual_files(data: DataConfig) -> dict[str, list[str]]:
    text = data.monolingual
    return {} if text is None else {"tgt": text.tgt, "src": text.src or []}


def _training_files_once_more(data: DataConfig) -> list[str]:
    files = [Path(file) for corpus in data.corpora for file in corpus.files]
    return [
        f"{text} is a file of data.train, too; give data.monolingual.{side} text that is not translated yet"
        for side, texts in _monolingual_files(data).items()
        for text in texts
        if Path(text).exists() and any(file.exists() and file.samefile(text) for file in files)
    ]


# What people are told ------------------------------------------------------------------------------------------------


def _tell_start(state: TrainingState, data: PreparedData, run: RunDir) -> None:
    p, training = state.progress, state.settings
    n_parameters = sum(parameter.numel() for parameter in state.model.parameters())
    precision = f"{str(state.dtype).removeprefix('torch.')} ({state.dtype_reason})"
    log.info(
        f"{n_parameters:,} parameters on {state.model.device}, computing in {precision};"
        f" vocabulary {data.tokenizer.tgt_vocab_size:,}; run directory {run.path}"
    )
    if training.minutes is None and training.warmup_steps >= training.max_steps:
        log.warning(
            f"the learning rate only rises: training.warmup_steps is {training.warmup_steps:,}, training.max_steps"
            f" {training.max_steps:,}; a tenth of the steps is enough to warm up"
        )
    if training.freeze and training.init_from is None:
        log.warning("training.freeze without another run to begin with (--from RUN): these parts stay random")
    if training.minutes is not None and p.step:
        used = p.elapsed_seconds / 60
        log.info(
            f"{used:.1f} of the run's {training.minutes:g} minutes were used by earlier starts,"
            f" {max(0.0, training.minutes - used):.1f} are left"
        )
    record_start(
        run,
        command=command_line(),
        from_step=p.step,
        seed=training.seed,
        device=str(state.model.device),
        precision=precision,
        data_sha256=data.sha256,
        tokenizer_sha256=data.tokenizer.sha256,
        **({"parent": about_parent(state.config)} if training.init_from and not p.step else {}),
    )


def _tell_verdict(trainer: Trainer, run: RunDir) -> None:
    data, folder_of = trainer.data, lambda pair: run.of_pair(trainer.state.config.data, pair.data)
    curve = learning_curve(run.logs.records(run.metrics_file))
    shares = (0.0 if pair.data.clean else folder_of(pair).sets.share_faulty() for pair in data.pairs)
    share_faulty = fmean(shares)
    for line in verdict(
        curve, data.tokenizer.tgt_vocab_size, len(data.train), trainer.state.progress.epoch, share_faulty
    ):
        log.info(line)


def _tell_finished(state: TrainingState, run: RunDir) -> None:
    p, config, kept = state.progress, state.config, run.load_config()
    if (config.data.test, config.decoding) != (kept.data.test, kept.decoding):
        log.info(f"note: the test sets and the search that you gave are not used; change them in {run.config_file}")
    tell_unused(run)
    if state.settings.minutes is None:
        log.info(f"to train it longer, give it more steps, such as --set training.max_steps={2 * p.step}")
    log.info(
        f"{run.path} is finished: step {p.step} ({_why_finished(state)}), best step {p.best_step}; nothing was changed"
    )
    if (minutes := state.settings.minutes) is not None:
        log.info(f"to train it longer, give it more than {minutes:g} minutes in all, such as --minutes {2 * minutes:g}")


def _why_finished(state: TrainingState) -> str:
    return "the last step" if state.is_at_last_step else "no better dev score for long"
