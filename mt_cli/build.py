"""A run is a build: `train` makes each product of it once, in the order that stands in `prepare`, and then trains."""

import contextlib
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mt_cli.augment import fine_tuning
from mt_cli.augment.back_translation import BackTranslation, reverse_run, translated_share
from mt_cli.config import Config, SeveralPairs, differing_keys, flat_keys, given_keys
from mt_cli.config_file import complete, load_config
from mt_cli.data.corpus import refuse_exchanged, refuse_missing_files
from mt_cli.data.dataset import Mixture, TokenDataset
from mt_cli.data.spans import SYMBOLS, TERM_SYMBOLS, without_symbols
from mt_cli.data.tokenizer import REAL, SYNTHETIC, Tokenizer, tag_of, train_tokenizer, with_tags
from mt_cli.device import choose_device, choose_precision, keep_freed_memory
from mt_cli.errors import DataError, RunDirError, as_typed, missing_extra
from mt_cli.evaluation.metrics import bleu_tokenizer
from mt_cli.explain.estimate import keep_estimate
from mt_cli.files import make_folders
from mt_cli.processes import StopSignals, command_line, n_processes, rank
from mt_cli.recipe import FactsCounter, choose, in_brief, tags_real_sources
from mt_cli.run.checkpoint import build_model, load_model
from mt_cli.run.logs import record_start, versions
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir, locked, tags_of, target_option
from mt_cli.stages import PairText, check, describe, ids, log_findings, spell, split
from mt_cli.training import memory
from mt_cli.training.loop import OnValidation, Trainer
from mt_cli.training.metrics_log import learning_curve, verdict
from mt_cli.training.ranks import ALONE, Ranks, meeting
from mt_cli.training.state import N_KEPT, Checkpoints, PreparedData, TrainingState
from mt_cli.training.validation import keep_search

log = logging.getLogger(__name__)

_WITHOUT_RECIPE = ("data.", "training.device", "training.n_samples", "training.report", "training.tensorboard")


def prepare(config: Config, run: RunDir, n_ranks: int = 1) -> PreparedData:
    """Makes what the run has not got yet, from the files of the config to ids. Raises DataError and RunDirError."""
    for data in config.data.directions:
        bleu_tokenizer(data.bleu_tokenize, data.tgt_lang)  # refused before there is work to score
    parent = reverse = None
    if config.data.monolingual is None:
        run.manifest.discard(["monolingual", "synthetic"])
    if not run.steps():
        parent, reverse = fine_tuning.run_to_begin_with(config, run), reverse_run(config, run)
    if parent is not None:
        config = fine_tuning.like_parent(config, parent)
    fine_tuning.rehearse(config, run)
    facts = FactsCounter()  # of all pairs
    with contextlib.ExitStack() as stack:
        texts = [PairText(config, data, run, facts, stack, parent, reverse) for data in config.data.directions]
        for text in texts:
            check(text)
            spell(text)
            split(text)
            # A new stage is a function of the text, and a line here. `text.product` keeps what it has found, and
            # `text.add_change` edits or leaves out pairs to train on: the tokenizer and ids depend on both, the recipe counts
            # the text as it is read. Where its setting is off it makes no product, as runs from before it have none. What
            # translating needs as well is a spelling (`spell`), and who reads the text of a run (`PairFiles.training_pairs`)
            # knows `left_out.tsv` and spellings alone.
        config = _choose_open_keys(config, texts, n_ranks)
        tokenizer = _make_tokenizer(config, texts)
        mixtures = [ids(text, tokenizer) for text in texts]
        prepared = [describe(text, mixture, tokenizer) for text, mixture in zip(texts, mixtures, strict=True)]
        for text in texts:
            log_findings(text)
    run.manifest.discard(run.manifest.products.keys() - run.manifest.asked)
    return PreparedData(config, tokenizer, _joined(config, mixtures), prepared, run.manifest.sha256)


def _choose_open_keys(config: Config, texts: list[PairText], n_ranks: int) -> Config:
    """The config with a value for each key that it leaves open, which depends on the corpus."""
    run, parent = texts[0].run, texts[0].parent
    if run.steps():
        return config  # which has all that was chosen
    given, minutes, monolingual = given_keys(config), config.training.minutes, config.data.monolingual

    def make() -> Made:
        for text in texts:
            text.read()
        known = texts[0].facts.facts()
        of_parent = {"has_parent": parent is not None, "knows_both": parent is not None and parent.path == run.back}
        choices = choose(known, given, **of_parent)
        if minutes is not None and choices:
            best = complete(config, {key: choice.value for key, choice in choices.items()})
            share = 1 - translated_share(monolingual) if monolingual is not None else 1
            step_seconds = memory.update_seconds(best, known) / n_ranks
            choices = choose(known, {**given, "training.minutes": minutes * share}, step_seconds, **of_parent)
        values = {key: choice.value for key, choice in choices.items()}
        return Made(facts={"values": values, "reasons": {key: choice.reason for key, choice in choices.items()}})

    train = {name: sha256 for text in texts for name, sha256 in text.inputs.items() if name.startswith("train")}
    settings: dict[str, Any] = {
        "given": {k: str(v) for k, v in sorted(given.items()) if not k.startswith(_WITHOUT_RECIPE)},
        "text": [[text.reading, [corpus.weight for corpus in text.data.corpora]] for text in texts],
    }
    run.manifest.product("recipe", {**fine_tuning.inputs_of_runs(run, parent=parent), **train}, settings, make)
    made = run.manifest.facts("recipe")
    completed = complete(config, made["values"])
    if made["reasons"]:
        for line in (*in_brief(completed), f"        all of it, with the reasons: {run.config_file}"):
            log.info(line)
    if not run.manifest.is_read_only:
        run.save_config(completed)
    return completed


def _make_tokenizer(config: Config, texts: list[PairText]) -> Tokenizer:
    run, parent, settings = texts[0].run, texts[0].parent, config.tokenizer
    symbols = SYMBOLS if any(text.data.variation for text in texts) else ""  # which only variations teach
    of_terms = TERM_SYMBOLS if any(text.data.terms for text in texts) else ""

    def sentences(sides: Sequence[int]) -> Iterator[str]:
        return (without_symbols(pair[:2][side]) for text in texts for pair in text.training_pairs() for side in sides)

    # Where sources have translations of terms, they are spelt in pieces of the target language, too.
    models = [(0, 1)] if settings.joint else [(0, 1) if of_terms else (0,), (1,)]
    sides: list[Callable[[], Iterator[str]]] = [partial(sentences, model) for model in models]

    corpora = [corpus for text in texts for corpus in text.data.corpora]
    others = [tag_of(corpus.tgt_lang) for corpus in corpora if corpus.tgt_lang is not None]
    of_languages = list(dict.fromkeys([*tags_of(config), *others]))

    def make() -> Made:
        tags = [*of_languages]
        if any(corpus.synthetic for corpus in corpora):
            for text in texts:
                text.read()
            n_real, n_synthetic = (sum(text.n_of_epoch[kind] for text in texts) for kind in (False, True))
            tags.append(REAL if tags_real_sources(texts[0].facts.facts(), n_real, n_synthetic) else SYNTHETIC)
        if parent is None:
            made = train_tokenizer(sides, settings.algorithm, settings.vocab_size, symbols=symbols)
        else:
            made = fine_tuning.tokenizer_of_parent(config, parent, sides)
        return run.save_tokenizer(with_tags(made, tags, of_terms))

    inputs = fine_tuning.inputs_of_runs(run, parent=parent)
    more: dict[str, Any] = {"extend_vocabulary": config.training.extend_vocabulary, "symbols": symbols + of_terms}
    more |= {"tags": of_languages, "weights": [corpus.weight for corpus in corpora]}
    for text in texts:
        inputs |= text.inputs | text.made
        more |= text.made_with
    run.manifest.product("tokenizer", inputs, {**settings.model_dump(), **more}, make)
    return run.load_tokenizer(settings.joint)


def _joined(config: Config, mixtures: list[Mixture]) -> Mixture:
    """The text of all language pairs, drawn in proportion to n ** (1 / temperature); the largest as its weights say."""
    if not isinstance(config.data, SeveralPairs):
        return mixtures[0]
    largest, parts = max(one.n_pairs for one in mixtures), list[TokenDataset]()
    for one, pair in zip(mixtures, config.data.directions, strict=True):
        factor = (largest / one.n_pairs) ** (1 - 1 / config.data.temperature)
        for part in one.parts:
            name, last = part.name or pair.corpora[0].files[0], part.last_weight
            last = None if last is None else last * factor
            parts.append(replace(part, weight=part.weight * factor, last_weight=last, name=name))
    return Mixture(parts)


# Training ------------------------------------------------------------------------------------------------------------


def train(
    config: Config | str | Path,
    run_dir: str | Path,
    signals: StopSignals | None = None,
    started: float | None = None,
    on_validation: OnValidation = None,
    is_reverse: bool = False,
) -> None:
    """Trains in `run_dir`, or continues the run that is there; changes nothing in one that is finished.

    `config` may be a YAML file. `signals` were caught since the command began, at `started` in seconds of
    `time.monotonic`. `on_validation` is called once a validation's checkpoint is saved. `is_reverse`: a reverse model,
    which the first process trains alone. Raises MTError, and Interrupted when a signal was answered by saving.
    """
    started = time.monotonic() if started is None else started
    run, given = RunDir(Path(run_dir)), config if isinstance(config, Config) else load_config(Path(config))
    with contextlib.ExitStack() as stack:
        if signals is None:
            signals = StopSignals()
            if threading.current_thread() is threading.main_thread():  # no other may handle signals
                stack.enter_context(signals)
        join = (lambda: ALONE) if is_reverse else stack.enter_context(meeting())
        data = None
        if rank() == 0:
            begun = _begin(given, run, stack)
            if begun.data.monolingual is not None:
                train_reverse = lambda other, path: train(other, path, signals, started, on_validation, True)
                seconds = BackTranslation(begun, run, signals).make(train_reverse)
                if not run.steps():  # which know what was spent
                    started = min(started, time.monotonic() - seconds)
            data = prepare(begun, run, 1 if is_reverse else n_processes())
        ranks = join()
        ranks.refuse_difference(flat_keys(given.model_dump()) | versions())
        if data is None:
            run.manifest.is_read_only = True
            data = prepare(continued_config(given, run), run)
        trainer = prepared_trainer(data, run, signals, started, ranks)
        trainer.on_validation = on_validation
        if is_new := not trainer.state.is_finished:
            ranks.on_first(lambda: _announce(trainer, run))
            advice = lambda: memory.smaller_batches(trainer.state.settings, run.steps())
            with memory.advise_when_out_of_memory(trainer.state.model.device, advice):
                memory.try_largest_batches(trainer.state, data.train, ranks)
            signals.is_saving_needed = True
            trainer.train()
        ranks.on_first(lambda: _conclude(trainer, run, is_new))
        if ranks.is_first and not is_reverse:
            keep_search(run, data.pairs, signals.check)
            if not isinstance(given.data, SeveralPairs):
                counts = data.train.src_counts(data.tokenizer.src_vocab_size)
                keep_estimate(run, data.pairs[0].dev_pairs, counts, lambda: signals.is_stopping)


def _begin(config: Config, run: RunDir, stack: contextlib.ExitStack) -> Config:
    """The config to train with. From here on the run is locked, until `stack` ends."""
    config = continued_config(config, run)
    problems = list[str]()
    for number, pair in enumerate(config.data.directions):
        key = f"pairs.{number}." if isinstance(config.data, SeveralPairs) else ""
        problems += refuse_missing_files(pair, key, bool(run.steps()))
    if problems:
        raise DataError(*problems)
    if not run.steps():
        refuse_exchanged(config.data)
        if (parent := fine_tuning.parent_of(config)) is not None:
            load_model(parent)  # so that damage shows before anything is prepared
    choose_device(config.training.device)
    if config.training.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise missing_extra("training.tensorboard", "tensorboard", "tensorboard")
    run.refuse_links()
    stack.enter_context(locked(run.path))
    run.begin(config)
    return config


def continued_config(config: Config, run: RunDir) -> Config:
    """The config to train with: open keys as a run with checkpoints has them. Raises RunDirError for another run's folder."""
    if not run.config_file.exists():
        if run.path.is_dir() and any(not file.name.startswith(".") for file in run.path.iterdir()):
            raise RunDirError(f"{run.path} holds other files and no run; choose another --run-dir")
        return config
    run.refuse_links()
    run.refuse_incomplete()
    if not run.steps():  # all may still change
        return config
    begun = run.load_config()
    # A run that was planned for minutes stays so, unless it is given another number of steps.
    if config.training.minutes is None:
        n_steps = given_keys(config).get("training.max_steps", begun.training.max_steps)
        minutes = begun.training.minutes if n_steps == begun.training.max_steps else None
        config = config.model_copy(update={"training": config.training.model_copy(update={"minutes": minutes})})
    config = complete(config, given_keys(begun))
    if differing := "; ".join(differing_keys(config, begun, ("data", "tokenizer", "model", "training"))):
        if config.training.init_from != begun.training.init_from:
            fine_tuning.parent_of(config)  # a mistyped name is reported as such
        remedy = "choose another --run-dir, or give the values it was begun with"
        raise RunDirError(f"{run.path} holds a run of another config ({differing}); {remedy}")
    return config


def prepared_trainer(
    data: PreparedData, run: RunDir, signals: StopSignals, started: float, ranks: Ranks = ALONE
) -> Trainer:
    """A trainer that continues from the newest checkpoint, if any. The first process must hold the run's lock."""
    config = data.config
    keep_freed_memory()  # only from here on, so that what preparing took is given back
    device = choose_device(config.training.device)
    with torch.random.fork_rng():
        torch.manual_seed(config.training.seed)
        model = build_model(config, data.tokenizer)
    if not run.steps() and (parent := fine_tuning.run_to_begin_with(config, run)) is not None:
        fine_tuning.take_weights(model, data.tokenizer, parent)
    precision = ranks.broadcast(choose_precision(config.training.precision, device))  # `auto` measures
    checkpoints = Checkpoints(run, TrainingState(config, model.to(device), *precision), started, ranks)
    ranks.on_first(lambda: make_folders(run.checkpoints))  # else a file in its way would show only at the first save
    advice = f"while continuing {run.path}; free memory, then start again"
    with memory.advise_when_out_of_memory(device, lambda: advice):
        checkpoints.restore()
    trainer = Trainer(checkpoints, data, signals)
    trainer.extend()
    return trainer


def _announce(trainer: Trainer, run: RunDir) -> None:
    """Says and records what begins, and whether the disk suffices for it."""
    state = trainer.state
    p, training, minutes = state.progress, state.settings, state.settings.minutes
    run.save_config(state.config)
    n_parameters = sum(parameter.numel() for parameter in state.model.parameters())
    precision = f"{str(state.dtype).removeprefix('torch.')} ({state.dtype_reason})"
    network = f"{n_parameters:,} parameters on {state.model.device}, computing in {precision}"
    log.info(f"{network}; vocabulary {trainer.data.tokenizer.tgt_vocab_size:,}; run directory {run.path}")
    if minutes is None and training.warmup_steps >= training.max_steps:
        keys = f"training.warmup_steps is {training.warmup_steps:,}, training.max_steps {training.max_steps:,}"
        log.warning(f"the learning rate only rises: {keys}; a tenth of the steps is enough to warm up")
    if minutes is not None and p.step:
        used = p.elapsed_seconds / 60
        left = f"{max(0.0, minutes - used):.1f} are left"
        log.info(f"{used:.1f} of the run's {minutes:g} minutes were used by earlier starts, {left}")
    of_parent = dict[str, Any]()
    if not p.step and (parent := fine_tuning.parent_of(state.config)) is not None:
        of_parent["parent"] = {"run": str(parent.path), "checkpoint_sha256": fine_tuning.sha256_of_best(parent)}
    record_start(
        run.provenance_file,
        n_threads=torch.get_num_threads(),
        command=command_line(),
        from_step=p.step,
        seed=training.seed,
        device=str(state.model.device),
        precision=precision,
        products_sha256=trainer.data.sha256,
        **of_parent,
    )
    # The newest, the best of each of two, and one that is being written; some may be there already.
    memory.refuse_small_disk(run, state.model, max(1, N_KEPT + 2 - len(run.steps())))


def _conclude(trainer: Trainer, run: RunDir, is_new: bool) -> None:
    """Says how the training has ended; `is_new`: just now."""
    data, state, p = trainer.data, trainer.state, trainer.state.progress
    why = "the last step" if state.is_at_last_step else "no better dev score for long"
    end = f"step {p.step} ({why}); best step {p.best_step}"
    if not is_new:
        minutes = state.settings.minutes
        more = f"--set training.max_steps={2 * p.step}" if minutes is None else f"--minutes {2 * minutes:g} in all"
        log.info(f"to train it longer, give it more, such as {more}")
        log.info(f"{run.path} is finished: {end}; nothing was changed")
        return
    trainer.checkpoints.verify_best()
    n_written, share_faulty = run.quality_of_text(state.config.data)
    curve = learning_curve(run.logs.records(run.metrics_file))
    for line in verdict(curve, data.tokenizer.tgt_vocab_size, n_written, p.epoch, share_faulty):
        log.info(line)
    log.info(f"finished at {end}; try: mt translate {as_typed(run.path)}{target_option(state.config)}")
