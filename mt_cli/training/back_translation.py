"""Text in the target language alone becomes training text (back-translation: Sennrich et al. 2016). A run of its own learns
to translate from target to source; it translates the text; the pairs that this makes are a further corpus of the run.

Each stage leaves whole files in the run, so that the same command goes on where it was ended: the run `back`; blocks of
chosen lines; blocks of translations; the pairs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mt_cli.config import Config, DataConfig, Monolingual
from mt_cli.data.corpus import CorpusReport, read_monolingual, sha256_of
from mt_cli.data.spelling import AS_IT_IS
from mt_cli.decoding.translator import Translator
from mt_cli.device import choose_device, fast_float32_products
from mt_cli.errors import CheckpointError, DataError, RunDirError, as_typed
from mt_cli.evaluation.baselines import Judgement
from mt_cli.files import write_atomically
from mt_cli.run.run_dir import RunDir
from mt_cli.run.synthetic import About
from mt_cli.training.monolingual import Selection, held_out_targets
from mt_cli.training.parent import held_out_of, sha256_of_best, spellings_of
from mt_cli.training.resume import continued_config
from mt_cli.training.reverse_run import reverse_config, reverse_name, reverse_run, translated_share
from mt_cli.training.signals import StopSignals
from mt_cli.training.verdict import best_of, learning_curve

log = logging.getLogger(__name__)

_MOST_SYNTHETIC = 2.0  # pairs of an epoch for each other one; where there are more, the next epoch has others of them
_FEW = 0.1  # share of the lines that are of use, below which something may be wrong with them
_BLOCK_SIZE = 1024  # lines: enough to fill batches with lines of one length
_SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1, "n_best": 1, "sample": False},
    "beam": {"n_best": 1, "sample": False},
    "sampling": {"n_best": 1, "sample": True},
}


def back_translate(
    config: Config, run: RunDir, train_back: Callable[[Config, RunDir], None], signals: StopSignals
) -> float:
    """Makes the synthetic pairs of a run with monolingual text, unless an earlier start has made them. Returns the seconds
    that they took, in all starts. Raises DataError for text that is of no use, and RunDirError where it has changed."""
    text, about = config.data.monolingual, run.synthetic.about()
    assert text is not None
    if about is not None:
        run.synthetic.refuse_damaged_pairs(config.data, about)
    is_settled = about is not None and about.n_pairs is not None and run.is_prepared
    if about is not None and is_settled and not all(Path(file).exists() for file in text.tgt):
        return about.seconds  # what was made of it is in the run
    sha256 = sha256_of(text.tgt)
    if about is not None and about.monolingual_sha256 != sha256:
        ours = f"--from {as_typed(run.path)}" if run.steps() else f"--set data.monolingual.back={as_typed(about.back)}"
        raise run.text.other_data_error("monolingual", ours)
    if about is not None and is_settled:
        run.synthetic.delete_blocks()
        return about.seconds
    back, settings_sha256 = reverse_run(config, run), _sha256_of_settings(config)
    assert back is not None
    if text.back is None and back.is_prepared:  # refuses other settings than those that it has learnt with
        continued_config(reverse_config(config, back), back)
    if about is not None:
        is_same = _has_made(back, about, text)
        if not is_same or about.settings_sha256 not in {None, settings_sha256}:
            changed = (
                "the settings or the pairs are not what they were" if is_same else f"{about.back} is not what it was"
            )
            log.info(f"{changed} when translating back began, so all lines are translated anew")
            about = None
    if about is None:
        run.begin(config)
        for _ in read_monolingual(text.tgt, on_bad_line=config.data.on_bad_line, report=CorpusReport()):
            pass  # what is wrong with it shows before anything is trained
        if text.back is None:
            _refuse_useless(config.data, text)
            _train(config, back, train_back, signals)
        run.synthetic.forget()  # not before the run back has accepted the config
        if text.back is None and not _judged(back).has_learnt:
            return _leave_aside(run, back, sha256, settings_sha256).seconds
        log.info(f"next come translations of the monolingual text, and then {run.path} itself")
    if about is None or about.n_pairs is None:
        tokenizer = back.text.load_tokenizer(back.load_config().tokenizer.joint)
        held_out = held_out_targets(config.data, held_out_of(back, config))
        written, _ = spellings_of(back, config) or AS_IT_IS  # by the run back, in the language of the sources
        selection = Selection(config.data, held_out, tokenizer, written)
        about = about or _choose(config, sha256, settings_sha256, run, back, selection)
        _translate(config, run, back, about, signals)
        about = _join(config, run, about, selection)
    run.synthetic.delete_blocks()
    return about.seconds


def _train(config: Config, back: RunDir, train_back: Callable[[Config, RunDir], None], signals: StopSignals) -> None:
    log.info(f"first learns to translate back, {config.data.tgt_lang} to {config.data.src_lang}: {back.path}")
    train_back(reverse_config(config, back), back)
    if signals.is_stopping:
        signals.stop(f"stopped after training {back.path}")
    signals.is_saving_needed = False


def _has_made(back: RunDir, about: About, text: Monolingual) -> bool:
    """Whether it is the run that began to translate. One that is lost is not; of the user's, that is an error."""
    try:
        return sha256_of_best(back) == about.back_sha256
    except (CheckpointError, RunDirError):
        if text.back is None:
            return False
        raise


def _refuse_useless(data: DataConfig, text: Monolingual) -> None:
    """Raises DataError where no line is of use, as far as that shows before anything is trained."""
    selection = Selection(data, held_out_targets(data, {}), None, AS_IT_IS[0])
    lines = read_monolingual(text.tgt, on_bad_line=data.on_bad_line, report=CorpusReport())
    if next(selection.lines(lines), None) is None:
        raise _no_line_of_use(data, text, selection.left_out)


def _no_line_of_use(data: DataConfig, text: Monolingual, left_out: dict[str, int]) -> DataError:
    reason = max(left_out, key=lambda one: left_out[one])
    wanted = (
        "a sentence on each line"
        if reason.startswith("longer")
        else f"text in {data.tgt_lang} that is not yet translated"
    )
    return DataError(f"{text.tgt[0]}: no line of use, {_told(left_out)}; give {wanted}")


def _leave_aside(run: RunDir, back: RunDir, sha256: str, settings_sha256: str) -> About:
    """Notes that the monolingual text is of no use."""
    log.warning(
        f"the monolingual text is not used: {back.path} has hardly learnt to translate, and what it writes would teach"
        " mistakes"
    )
    made_by, seconds = (str(back.path), sha256_of_best(back)), _seconds_of(RunDir(run.back))
    about = About(sha256, *made_by, 0, 0, {}, seconds, n_pairs=0, settings_sha256=settings_sha256)
    run.synthetic.begin()
    run.synthetic.save_about(about)
    return about


def tell_unused(run: RunDir) -> None:
    """Says, where it is so, that a run has no synthetic pairs and will not get any."""
    if (about := run.synthetic.about()) is not None and about.n_pairs == 0:
        log.warning(
            f"the monolingual text is not used, since {about.back} had hardly learnt to translate; another run can use it, with"
            " more pairs or --minutes: add --run-dir OTHER"
        )


def _judged(back: RunDir) -> Judgement:
    """By its dev set. With text of one that had hardly learnt, a run was 1.8 chrF worse than without (docs/log.md)."""
    if curve := learning_curve(back.logs.records(back.metrics_file)):
        return best_of(curve)
    raise RunDirError(f"{back.metrics_file}: lost; restore it from a copy, or delete {back.path} to train it anew")


def _seconds_of(back: RunDir) -> float:
    timed = back.logs.records(back.timing_file)
    return float(timed[-1]["elapsed_seconds"]) if timed else 0.0


def _sha256_of_settings(config: Config) -> str:
    """Of what else than the monolingual text and the run back decides which lines are chosen, and how they are translated:
    some keys, and the texts of the pairs."""
    data, text = config.data, config.data.monolingual
    assert text is not None
    files = [*(corpus.files for corpus in data.corpora), *([data.dev] if data.dev else []), *data.test.values()]
    if data.words is not None:
        files.append(data.words.files)
    keys = [text.search, config.training.seed, data.max_length, data.on_bad_line, data.columns]
    files += [text.src] if text.src else []
    return hashlib.sha256(json.dumps([*keys, *map(sha256_of, files)]).encode()).hexdigest()


def _choose(
    config: Config, sha256: str, settings_sha256: str, run: RunDir, back: RunDir, selection: Selection
) -> About:
    """Writes the lines that are worth being translated into blocks."""
    text, began, report, n_chosen = config.data.monolingual, time.monotonic(), CorpusReport(), 0
    assert text is not None
    lines = selection.lines(read_monolingual(text.tgt, on_bad_line=config.data.on_bad_line, report=report))
    run.synthetic.begin()
    while block := list(islice(lines, _BLOCK_SIZE)):
        run.synthetic.save_lines(n_chosen // _BLOCK_SIZE, block)
        n_chosen += len(block)
    if sha256_of(text.tgt) != sha256:
        raise DataError(
            f"{' or '.join(text.tgt)}: changed while it was read; run the same command again when it is complete"
        )
    for note in report.notes:
        log.info(f"monolingual: {note}")
    left_out = report.dropped | selection.left_out
    if not n_chosen:
        raise _no_line_of_use(config.data, text, left_out)
    if n_chosen < _FEW * report.n_pairs:
        log.warning(f"only {n_chosen:,} of {report.n_pairs:,} lines are of use: {_told(left_out)}")
    seconds = (_seconds_of(RunDir(run.back)) if text.back is None else 0.0) + time.monotonic() - began
    made_by, counts = (str(back.path), sha256_of_best(back)), (report.n_pairs, n_chosen)
    about = About(sha256, *made_by, *counts, left_out, seconds, settings_sha256=settings_sha256)
    run.synthetic.save_about(about)
    return about


def _translate(config: Config, run: RunDir, back: RunDir, about: About, signals: StopSignals) -> None:
    """Translates blocks in random order, until all are done or it is time to train."""
    text, synthetic, spent = config.data.monolingual, run.synthetic, about.seconds
    assert text is not None
    end = 60 * translated_share(text) * (config.training.minutes or math.inf)
    device = choose_device(config.training.device)
    translator = Translator.load(back.path, device=str(device), to=reverse_name(config.data))
    signals.is_saving_needed = True
    log.info(f"translating back {about.n_chosen:,} of {about.n_lines:,} lines, {text.search} search")
    with (  # computes as training does, so that a translation is the same whichever start makes it
        fast_float32_products(device),
        tqdm(total=about.n_chosen, desc="translating back", unit=" lines", leave=False, disable=None) as bar,
    ):

        def on_batch(n_lines: int) -> None:
            bar.update(n_lines)
            if signals.is_stopping:
                signals.stop(f"stopped translating back, what is done is kept in {synthetic.folder}")

        for place, number in enumerate(np.random.default_rng(config.training.seed).permutation(_n_blocks(about))):
            if synthetic.has_translations(number):
                translations, seconds = synthetic.translations(number)
                bar.update(len(translations))
            elif spent < end or place == 0:
                began, first = time.monotonic(), int(number) * _BLOCK_SIZE
                options = {"on_batch": on_batch, "first_line": first, **_SEARCHES[text.search]}
                translations = translator.translate(synthetic.lines(number), **options)
                synthetic.save_translations(number, translations, seconds := time.monotonic() - began)
            else:
                break
            spent += seconds
    signals.is_saving_needed = False


def _n_blocks(about: About) -> int:
    return -(-about.n_chosen // _BLOCK_SIZE)


def _join(config: Config, run: RunDir, about: About, selection: Selection) -> About:
    """Writes the pairs of all blocks that are translated."""
    synthetic, n_translated, seconds = run.synthetic, 0, about.seconds
    numbers = [number for number in range(_n_blocks(about)) if synthetic.has_translations(number)]

    def pairs() -> Iterator[tuple[str, str]]:
        nonlocal n_translated, seconds
        selection.left_out.clear()
        n_translated, seconds = 0, about.seconds
        for number in numbers:
            (translations, of_block), lines = synthetic.translations(number), synthetic.lines(number)
            n_translated, seconds = n_translated + len(lines), seconds + of_block
            yield from selection.pairs(zip(translations, lines, strict=True))

    for side, file in enumerate(synthetic.files(config.data)):
        lines = (f"{pair[side]}\n".encode() for pair in pairs())
        write_atomically(Path(file), methodcaller("writelines", lines))
    untimely = {"not translated, for want of time": about.n_chosen - n_translated}
    left_out = about.left_out | selection.left_out | (untimely if n_translated < about.n_chosen else {})
    n_pairs = n_translated - selection.left_out.total()
    if not n_pairs:
        synthetic.forget()
        text = config.data.monolingual
        is_own = text is not None and text.back is None
        advice = "run the same command with more minutes or steps" if is_own else "give another data.monolingual.back"
        raise DataError(
            f"{synthetic.folder}: no pair of use, {_told(left_out)}; {about.back} has hardly learnt to translate: {advice}"
        )
    weight = max(0.001, min(1.0, _MOST_SYNTHETIC * selection.n_trained / n_pairs))
    sha256 = [sha256_of([file]) for file in synthetic.files(config.data)]
    about = replace(about, left_out=left_out, n_pairs=n_pairs, weight=weight, seconds=seconds, pairs_sha256=sha256)
    synthetic.save_about(about)
    log.info(f"{n_pairs:,} synthetic pairs: {synthetic.folder}; lines left out: {_told(left_out)}")
    return about


def _told(left_out: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {reason}" for reason, n in left_out.items()) or "none"
