"""A run is a build: `train` makes each product of it once, in the order that stands in `prepare`, and then trains.

What `mt train` and Python users call.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from mt_cli.augment.back_translation import back_translate, log_unused
from mt_cli.augment.fine_tuning import inputs_of_runs, like_parent, parent_of, rehearsed, sha256_of_best, take_weights
from mt_cli.augment.reverse_run import reverse_run, run_to_begin_with, translated_share
from mt_cli.config import Config, SeveralPairs, TokenizerConfig, differing_keys, given_keys
from mt_cli.config_file import complete, load_config
from mt_cli.data.corpora import TrainingText, refuse_exchanged, refuse_missing_files
from mt_cli.data.dataset import Mixture
from mt_cli.data.languages import language
from mt_cli.data.tokenizer import REAL, SYNTHETIC, Tokenizer, extend_tokenizer, train_tokenizer, with_tags
from mt_cli.device import choose_device, choose_precision, keep_freed_memory
from mt_cli.errors import DataError, RunDirError, as_typed
from mt_cli.evaluation.metrics import bleu_tokenizer
from mt_cli.explain.estimate import keep_estimate
from mt_cli.processes import n_processes, rank
from mt_cli.recipe import CorpusFacts, FactsCounter, choose, in_brief, tags_real_sources
from mt_cli.run.checkpoint import build_model, load_model
from mt_cli.run.directions import describe_directions, directions_of, tags_of, target_option
from mt_cli.run.lock import locked
from mt_cli.run.manifest import Made
from mt_cli.run.provenance import record_start, versions
from mt_cli.run.run_dir import RunDir
from mt_cli.stages.ids import IdStages
from mt_cli.stages.pair import PairStages
from mt_cli.training.checkpoints import N_KEPT, Checkpoints
from mt_cli.training.loop import Trainer
from mt_cli.training.memory import (
    advise_when_out_of_memory,
    refuse_small_disk,
    smaller_batches,
    try_largest_batches,
    update_seconds,
)
from mt_cli.training.ranks import ALONE, Ranks, meeting
from mt_cli.training.signals import StopSignals, command_line
from mt_cli.training.state import PreparedData, TrainingState
from mt_cli.training.verdict import learning_curve, verdict

log = logging.getLogger(__name__)


# The chain -----------------------------------------------------------------------------------------------------------


def prepare(config: Config, run: RunDir, n_processes: int = 1) -> PreparedData:
    """Makes what a training needs, as far as the run has not got it: from the files of the config to ids.

    `n_processes`: those that train the run. Raises DataError for what is wrong with the files, before anything is trained,
    and RunDirError if the run has checkpoints and was begun with other files.
    """
    for data in config.data.directions:
        bleu_tokenizer(data.bleu_tokenize, data.tgt_lang)  # refused before there is work to score
    parent = None if run.steps() else run_to_begin_with(config, run)
    if parent is not None:
        config = like_parent(config, parent)
        _warn_of_other_codes(config, parent)
    if config.data.monolingual is None:
        run.manifest.discard(["monolingual", "synthetic"])
    _rehearse(config, run)
    facts = FactsCounter()
    reverse = None if run.steps() else reverse_run(config, run)
    pairs = [PairStages(config, data, run, facts, parent, reverse) for data in config.data.directions]
    with contextlib.ExitStack() as stack:
        for pair in pairs:
            stack.callback(pair.text.close)
        for pair in pairs:
            pair.check()
            pair.spell()
            pair.split()
        config = _with_recipe(config, run, parent, pairs, facts, n_processes)
        tokenizer = _tokenizer(config, run, parent, pairs, facts)
        of_ids = [IdStages(pair, tokenizer) for pair in pairs]
        mixtures = [one.ids() for one in of_ids]
        for one, mixture in zip(of_ids, mixtures, strict=True):
            one.describe(mixture)
        prepared = [one.prepared() for one in of_ids]
        for pair in pairs:
            pair.log_findings()
    run.manifest.discard(run.manifest.products.keys() - run.manifest.asked)
    return PreparedData(config, tokenizer, _joined(config, mixtures), prepared, run.manifest.sha256)


def _rehearse(config: Config, run: RunDir) -> None:
    """Text of the run that this one begins with, so that it is not forgotten."""
    if config.training.init_from is None or isinstance(config.data, SeveralPairs):
        run.manifest.discard(["rehearsal"])
        return
    parent, files = None if run.steps() else parent_of(config), run.of_pair(config.data, config.data)
    inputs = {**inputs_of_runs(run, parent=parent), "train": TrainingText(config.data).sha256()}
    settings = {"rehearsal": config.training.rehearsal, "seed": config.training.seed}

    def make() -> Made:
        assert parent is not None
        made = rehearsed(config, parent, files)
        kept = {one.name for one in directions_of(config)}
        if lost := [one for one in directions_of(parent.load_config()) if one.name not in kept]:
            log.info(
                f"{parent.path} translates {describe_directions(lost)}, which this run forgets; data.pairs keep several"
            )
        return made

    run.manifest.product("rehearsal", inputs, settings, make)


def _with_recipe(
    config: Config, run: RunDir, parent: RunDir | None, pairs: list[PairStages], facts: FactsCounter, n_processes: int
) -> Config:
    """The config with a value for each key that it leaves open."""
    if run.steps():
        return config  # which has all that was chosen

    def make() -> Made:
        of_parent = {"has_parent": parent is not None, "knows_both": parent is not None and parent.path == run.back}
        values, reasons = _chosen(config, _facts(pairs, facts), of_parent, n_processes)
        return Made(facts={"values": values, "reasons": reasons})

    train = {name: pair.text.inputs[name] for pair in pairs for name in [f"train{pair.suffix}"]}
    inputs = {**inputs_of_runs(run, parent=parent), **train}
    run.manifest.product("recipe", inputs, {"given": _as_json(given_keys(config))}, make)
    facts_of_recipe = run.manifest.facts("recipe")
    values, reasons = facts_of_recipe["values"], facts_of_recipe["reasons"]
    completed = complete(config, values)
    if reasons:
        for line in [*in_brief(completed), f"        all of it, with the reasons: {run.config_file}"]:
            log.info(line)
    if not run.manifest.is_read_only:
        run.save_config(completed)
    return completed


def _chosen(
    config: Config, facts: CorpusFacts, parent: dict[str, bool], n_processes: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """A value for each key that the config leaves open and that depends on the corpus, and its reason."""
    given, minutes = given_keys(config), config.training.minutes
    choices = choose(facts, given, **parent)
    if minutes is not None and choices:
        best = complete(config, {key: choice.value for key, choice in choices.items()})
        if config.data.monolingual is not None:
            given["training.minutes"] = minutes * (1 - translated_share(config.data.monolingual))
        choices = choose(facts, given, update_seconds(best, facts) / n_processes, **parent)
    return {key: one.value for key, one in choices.items()}, {key: one.reason for key, one in choices.items()}


def _facts(pairs: list[PairStages], facts: FactsCounter) -> CorpusFacts:
    for pair in pairs:
        pair.text.read()
    return facts.facts()


def _as_json(values: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in sorted(values.items()) if not key.startswith(_WITHOUT_RECIPE)}


_WITHOUT_RECIPE = ("data.", "training.device", "training.n_samples", "training.report")


def _tokenizer(
    config: Config, run: RunDir, parent: RunDir | None, pairs: list[PairStages], facts: FactsCounter
) -> Tokenizer:
    settings = config.tokenizer

    def make() -> Made:
        tags = tags_of(config)
        if any(corpus.synthetic for pair in pairs for corpus in pair.data.corpora):
            known = _facts(pairs, facts)
            n_real, n_synthetic = (sum(pair.text.n_of_epoch[kind] for pair in pairs) for kind in (False, True))
            tags.append(REAL if tags_real_sources(known, n_real, n_synthetic) else SYNTHETIC)
        sides = _sides(settings, pairs)
        if parent is None:
            return run.save_tokenizer(train_tokenizer(sides, settings.algorithm, settings.vocab_size, tags))
        return run.save_tokenizer(with_tags(_of_parent(config, parent, sides), tags))

    inputs = inputs_of_runs(run, parent=parent)
    for pair in pairs:
        inputs |= pair.text.inputs
        products = run.manifest.products
        inputs |= {f"{stage}{pair.suffix}": products[f"{stage}{pair.suffix}"].sha256 for stage in ("spelling", "split")}
    extends = config.training.extend_vocabulary
    run.manifest.product("tokenizer", inputs, {**settings.model_dump(), "extend_vocabulary": extends}, make)
    return run.load_tokenizer(settings.joint)


def _of_parent(config: Config, parent: RunDir, sides: list[Callable[[], Iterator[str]]]) -> Tokenizer:
    """The parent's tokenizer, with pieces of this text where it has not learnt its languages."""
    settings, extends = config.tokenizer, config.training.extend_vocabulary
    tokenizer, unknown = parent.load_tokenizer(settings.joint), _unknown_languages(config, parent)
    if extends is None and unknown:
        log.info(f"{parent.path} has not learnt {' and '.join(unknown)}, so subwords of this text join its own")
    if extends or (extends is None and unknown):
        before = sum(tokenizer.vocab_sizes[: len(sides)])
        tokenizer = extend_tokenizer(tokenizer, sides, settings.algorithm, settings.vocab_size)
        log.info(f"tokenizer: {sum(tokenizer.vocab_sizes[: len(sides)]) - before:,} subwords join {before:,}")
    return tokenizer


def _sides(settings: TokenizerConfig, pairs: list[PairStages]) -> list[Callable[[], Iterator[str]]]:
    """What each model of the tokenizer learns from."""
    read = lambda: chain.from_iterable(pair.trained_pairs() for pair in pairs)  # noqa: E731
    if settings.joint:
        return [lambda: (text for pair in read() for text in (pair.src, pair.tgt))]
    return [lambda: (pair.src for pair in read()), lambda: (pair.tgt for pair in read())]


def _unknown_languages(config: Config, parent: RunDir) -> list[str]:
    """Those of the text that the parent has not learnt; where each side has its own subwords, not on that side."""

    def sides(one: Config) -> list[list[str]]:
        src, tgt = ([getattr(pair, key) for pair in one.data.directions] for key in ("src_lang", "tgt_lang"))
        return [[*src, *tgt]] if config.tokenizer.joint else [src, tgt]

    both = zip(sides(config), sides(parent.load_config()), strict=True)
    return list(dict.fromkeys(language for own, known in both for language in own if language not in known))


def _warn_of_other_codes(config: Config, parent: RunDir) -> None:
    """A language that is named by two letters here and by three there is taken for another one, without the parent's tag."""
    own, known = (
        list(dict.fromkeys(code for pair in one.data.directions for code in (pair.src_lang, pair.tgt_lang)))
        for one in (config, parent.load_config())
    )
    for unknown in (one for one in own if one not in known):
        if others := [one for one in known if one not in own and len(language(one)) != len(language(unknown))]:
            log.warning(
                f"{parent.path} calls its languages {', '.join(known)}, and none of them {unknown}; if {' or '.join(others)} is the"
                " same one, name it so with --src-lang or --tgt-lang"
            )


def _joined(config: Config, mixtures: list[Mixture]) -> Mixture:
    """The training text of all language pairs. An epoch has the largest one as its corpora's weights say, and the others so
    often that they are drawn in proportion to n ** (1 / temperature)."""
    if not isinstance(config.data, SeveralPairs):
        return mixtures[0]
    sizes = [sum(part.weight * len(part.dataset) for part in one.parts) for one in mixtures]
    factors = [(max(sizes) / size) ** (1 - 1 / config.data.temperature) for size in sizes]
    return Mixture(
        [
            replace(part, weight=part.weight * factor, name=part.name or pair.corpora[0].files[0])
            for one, factor, pair in zip(mixtures, factors, config.data.directions, strict=True)
            for part in one.parts
        ]
    )


# Training ------------------------------------------------------------------------------------------------------------


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
        join = stack.enter_context(meeting())
        _train_in(run, given, signals, started, on_validation, join)


def _train_in(
    run: RunDir,
    given: Config,
    signals: StopSignals,
    started: float,
    on_validation: Callable[[RunDir], None] | None,
    join: Callable[[], Ranks] | None = None,
) -> None:
    """`join`: of `training.ranks.meeting`; None for a reverse model, which the first process trains alone."""
    with contextlib.ExitStack() as stack:
        data = None
        if rank() == 0:
            config = _begin(given, run, stack)
            if config.data.monolingual is not None:

                def train_reverse(config: Config, reverse: RunDir) -> None:
                    _train_in(reverse, config, signals, started, on_validation)

                seconds = back_translate(config, run, train_reverse, signals)
                if not run.steps():  # which know what was spent
                    started = min(started, time.monotonic() - seconds)
            data = prepare(config, run, 1 if join is None else n_processes())
        ranks = ALONE if join is None else join()
        ranks.refuse_difference(given.model_dump(), {"version": versions()})
        if data is None:
            run.manifest.is_read_only = True
            data = prepare(continued_config(given, run), run)
        trainer = prepared_trainer(data, run, signals, started, ranks, on_validation)
        if not trainer.state.is_finished:
            _train(trainer, run)
        elif ranks.is_first:
            _log_finished(trainer.state, run)
        if ranks.is_first and join is not None and not isinstance(given.data, SeveralPairs):
            counts = data.train.src_counts(data.tokenizer.src_vocab_size)
            keep_estimate(run, data.pairs[0].dev_pairs, counts, lambda: signals.is_stopping)


def _begin(config: Config, run: RunDir, stack: contextlib.ExitStack) -> Config:
    """The config to train with. From here on the run is locked, until `stack` ends."""
    config = continued_config(config, run)
    is_several, pairs = isinstance(config.data, SeveralPairs), config.data.directions
    keys = [f"pairs.{number}." if is_several else "" for number in range(len(pairs))]
    problems = [refuse_missing_files(pair, key, bool(run.steps())) for pair, key in zip(pairs, keys, strict=True)]
    if any(problems):
        raise DataError(*chain.from_iterable(problems))
    if not run.steps():
        refuse_exchanged(config.data)
    if not run.steps() and (parent := parent_of(config)) is not None:
        load_model(parent)  # so that damage shows before anything is prepared
    choose_device(config.training.device)
    run.refuse_links()
    stack.enter_context(locked(run.path))
    run.begin(config)
    return config


def continued_config(config: Config, run: RunDir) -> Config:
    """The config to train with: `config`, in which what it leaves open is what a run that has checkpoints was trained with.

    Raises RunDirError where the folder holds another run, or is no run's.
    """
    if not run.config_file.exists():
        if run.path.is_dir() and any(not file.name.startswith(".") for file in run.path.iterdir()):
            raise RunDirError(f"{run.path} holds other files and no run; choose another --run-dir")
        return config
    run.refuse_links()
    run.refuse_incomplete()
    if not run.steps():  # all may still change
        return config
    begun, update = run.load_config(), dict[str, Any]()
    # A run that was planned for minutes stays so, unless it is given another number of steps.
    if config.training.minutes is None:
        n_steps = given_keys(config).get("training.max_steps", begun.training.max_steps)
        update["minutes"] = begun.training.minutes if n_steps == begun.training.max_steps else None
    config = config.model_copy(update={"training": config.training.model_copy(update=update)})
    config = complete(config, given_keys(begun))
    if differing := differing_keys(config, begun, ("data", "tokenizer", "model", "training")):
        if config.training.init_from != begun.training.init_from:
            parent_of(config)  # a mistyped name is reported as such
        raise RunDirError(
            f"{run.path} holds a run of another config ({'; '.join(differing)});"
            " choose another --run-dir, or give the values it was begun with"
        )
    return config


def prepared_trainer(
    data: PreparedData,
    run: RunDir,
    signals: StopSignals,
    started: float,
    ranks: Ranks = ALONE,
    on_validation: Callable[[RunDir], None] | None = None,
) -> Trainer:
    """A trainer that continues from the run's newest checkpoint, if there is one. The first process must hold the run's
    lock."""
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
    checkpoints = Checkpoints(run, started, ranks)
    with advise_when_out_of_memory(device, lambda: f"while continuing {run.path}; free memory, then start again"):
        checkpoints.restore(state)
    trainer = Trainer(state, data, checkpoints, signals, ranks, on_validation)
    trainer.extend()
    return trainer


def _train(trainer: Trainer, run: RunDir) -> None:
    ranks = trainer.ranks
    ranks.first(lambda: _announce(trainer, run))
    trainer.signals.is_saving_needed = True
    trainer.train()
    ranks.first(lambda: _conclude(trainer, run))


def _announce(trainer: Trainer, run: RunDir) -> None:
    """Tells what begins, after trying that disk and memory suffice for it."""
    run.save_config(trainer.state.config)
    _log_start(trainer.state, trainer.data, run)
    # The newest, the best of each of two, and one that is being written; some may be there already.
    refuse_small_disk(run, trainer.state.model, max(1, N_KEPT + 2 - len(run.steps())))
    try_memory(trainer)


def _conclude(trainer: Trainer, run: RunDir) -> None:
    state, p = trainer.state, trainer.state.progress
    trainer.checkpoints.verify_best(p)
    _log_verdict(trainer, run)
    log_unused(run)
    log.info(
        f"finished at step {p.step} ({_why_finished(state)}); best step {p.best_step}; try: mt translate"
        f" {as_typed(run.path)}{target_option(state.config)}"
    )


def try_memory(trainer: Trainer) -> None:
    """Tries the largest batch, so that too little memory shows before the first step."""
    state, steps = trainer.state, trainer.checkpoints.run.steps()
    with advise_when_out_of_memory(state.model.device, lambda: smaller_batches(state.settings, steps)):
        try_largest_batches(state, trainer.data.train)


# What is logged ------------------------------------------------------------------------------------------------


def _log_start(state: TrainingState, data: PreparedData, run: RunDir) -> None:
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
        products_sha256=data.sha256,
        **({"parent": _describe_parent(state.config)} if training.init_from and not p.step else {}),
    )


def _describe_parent(config: Config) -> dict[str, str] | None:
    """Where the parent lay, and the hash of the weights that were taken."""
    parent = parent_of(config)
    return {"run": str(parent.path), "checkpoint_sha256": sha256_of_best(parent)} if parent is not None else None


def _log_verdict(trainer: Trainer, run: RunDir) -> None:
    data, files_of = trainer.data, lambda pair: run.of_pair(trainer.state.config.data, pair.data)
    curve = learning_curve(run.logs.records(run.metrics_file))
    share_faulty = fmean(0.0 if pair.data.clean else files_of(pair).share_faulty() for pair in data.pairs)
    n_epochs = trainer.state.progress.epoch
    for line in verdict(curve, data.tokenizer.tgt_vocab_size, len(data.train), n_epochs, share_faulty):
        log.info(line)


def _log_finished(state: TrainingState, run: RunDir) -> None:
    p, config, kept = state.progress, state.config, run.load_config()
    if (config.data.test, config.decoding) != (kept.data.test, kept.decoding):
        log.info(f"note: the test sets and the search that you gave are not used; change them in {run.config_file}")
    log_unused(run)
    if state.settings.minutes is None:
        log.info(f"to train it longer, give it more steps, such as --set training.max_steps={2 * p.step}")
    log.info(
        f"{run.path} is finished: step {p.step} ({_why_finished(state)}), best step {p.best_step}; nothing was changed"
    )
    if (minutes := state.settings.minutes) is not None:
        log.info(f"to train it longer, give it more than {minutes:g} minutes in all, such as --minutes {2 * minutes:g}")


def _why_finished(state: TrainingState) -> str:
    return "the last step" if state.is_at_last_step else "no better dev score for long"
