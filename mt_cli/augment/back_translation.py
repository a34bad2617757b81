"""Text in the target language alone becomes training text (back-translation: Sennrich et al. 2016). A reverse model, which
translates from target to source, is trained first; it translates the text; the pairs that this makes are a further corpus
of the run.

There are two products: the lines that are worth being translated, and the pairs. Translating goes on after the last whole
block of lines where it was ended.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from tqdm import tqdm

from mt_cli.augment.fine_tuning import held_out_of, sha256_of_best, spellings_of
from mt_cli.augment.monolingual import Selection, held_out_targets
from mt_cli.augment.reverse_run import reverse_config, reverse_name, reverse_run, translated_share
from mt_cli.config import Config, Monolingual
from mt_cli.data.corpora import TrainingText
from mt_cli.data.corpus import CorpusReport, read_monolingual, sha256_of
from mt_cli.data.spelling import AS_IT_IS
from mt_cli.decoding.translator import Translator
from mt_cli.device import choose_device, fast_float32_products
from mt_cli.errors import DataError, RunDirError
from mt_cli.evaluation.baselines import Judgement
from mt_cli.files import make_folder, read_inside, write_bytes
from mt_cli.run.manifest import Made, Product
from mt_cli.run.run_dir import RunDir
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
_TRANSLATIONS = TypeAdapter(tuple[list[str], float])  # and the seconds that they took


def back_translate(
    config: Config, run: RunDir, train_reverse: Callable[[Config, RunDir], None], signals: StopSignals
) -> float:
    """Makes the synthetic pairs of a run with monolingual text. Returns the seconds that they took, in all starts. Raises
    DataError for text that is of no use, and RunDirError where it has changed."""
    text, reverse = config.data.monolingual, reverse_run(config, run)
    assert text is not None and reverse is not None
    if text.back is None and not _is_made(run, reverse):
        _refuse_useless(config, text)
        log.info(f"first trains the reverse model, {config.data.tgt_lang} to {config.data.src_lang}: {reverse.path}")
        train_reverse(reverse_config(config, reverse), reverse)
        if signals.is_stopping:
            signals.stop(f"stopped after training {reverse.path}")
        signals.is_saving_needed = False
    inputs = {
        "monolingual text": sha256_of(text.tgt) if all(Path(file).exists() for file in text.tgt) else None,
        "reverse model": _sha256_of(reverse),
        "train": TrainingText(config.data).sha256(),
    }
    settings: dict[str, Any] = {"max_length": config.data.max_length, "on_bad_line": config.data.on_bad_line}
    lines = run.manifest.product("monolingual", inputs, settings, lambda: _select(config, run, reverse))
    settings = {"search": text.search, "seed": config.training.seed}
    inputs = {"monolingual lines": lines.sha256, "reverse model": inputs["reverse model"]}
    run.manifest.product("synthetic", inputs, settings, lambda: _translated(config, run, reverse, lines, signals))
    shutil.rmtree(run.synthetic / "blocks", ignore_errors=True)
    return float(run.manifest.facts("synthetic")["seconds"])


def _sha256_of(reverse: RunDir) -> str | None:
    try:
        return sha256_of_best(reverse)
    except RunDirError:  # gone; what it has translated is in the run
        return None


def _is_made(run: RunDir, reverse: RunDir) -> bool:
    """Whether the pairs are there, and of the reverse model as it is."""
    made, sha256 = run.manifest.products.get("synthetic"), _sha256_of(reverse)
    return made is not None and sha256 in {None, made.inputs.get("reverse model")}


def _refuse_useless(config: Config, text: Monolingual) -> None:
    """Raises DataError where no line is of use, as far as that shows before anything is trained."""
    for _ in read_monolingual(text.tgt, on_bad_line=config.data.on_bad_line, report=CorpusReport()):
        pass
    selection = Selection(config.data, held_out_targets(config.data, {}), None, AS_IT_IS[0])
    if next(selection.lines(read_monolingual(text.tgt, on_bad_line="skip", report=CorpusReport())), None) is None:
        raise _no_line_of_use(config, text, selection.left_out)


def _no_line_of_use(config: Config, text: Monolingual, left_out: dict[str, int]) -> DataError:
    is_long = max(left_out, key=lambda one: left_out[one]).startswith("longer")
    wanted = "a sentence on each line" if is_long else f"text in {config.data.tgt_lang} that is not yet translated"
    return DataError(f"{text.tgt[0]}: no line of use, {_format_counts(left_out)}; give {wanted}")


def log_unused(run: RunDir) -> None:
    """Says, where it is so, that a run has no synthetic pairs and will not get any."""
    if run.manifest.facts("synthetic").get("n_pairs") == 0:
        log.warning(
            "the monolingual text was not used, as the reverse model was too weak; another run can use it, with more pairs"
            " or --minutes: add --run-dir OTHER"
        )


# The lines -----------------------------------------------------------------------------------------------------------


def _selection(config: Config, reverse: RunDir) -> Selection:
    tokenizer = reverse.load_tokenizer(reverse.load_config().tokenizer.joint)
    written, _ = spellings_of(reverse, config) or AS_IT_IS  # by the reverse model, in the language of the sources
    return Selection(config.data, held_out_targets(config.data, held_out_of(reverse, config)), tokenizer, written)


def _select(config: Config, run: RunDir, reverse: RunDir) -> Made:
    """Writes the lines that are worth being translated."""
    text, report, selection, n_chosen = config.data.monolingual, CorpusReport(), _selection(config, reverse), 0
    assert text is not None
    file, sha256 = run.synthetic / "lines.txt", sha256_of(text.tgt)
    make_folder(run.synthetic)
    with file.open("w", encoding="utf-8", newline="\n") as handle:
        for line in selection.lines(read_monolingual(text.tgt, on_bad_line=config.data.on_bad_line, report=report)):
            handle.write(f"{line}\n")
            n_chosen += 1
    if sha256_of(text.tgt) != sha256:
        raise DataError(
            f"{' or '.join(text.tgt)}: changed while it was read; run the same command again when it is complete"
        )
    for note in report.notes:
        log.info(f"monolingual: {note}")
    left_out = report.dropped | selection.left_out
    if not n_chosen:
        raise _no_line_of_use(config, text, left_out)
    if n_chosen < _FEW * report.n_pairs:
        log.warning(f"only {n_chosen:,} of {report.n_pairs:,} lines are of use: {_format_counts(left_out)}")
    return Made([file], {"n_lines": report.n_pairs, "n_chosen": n_chosen, "left_out": dict(left_out)})


class _Blocks:
    """The lines in blocks, and the translations of those that are done."""

    def __init__(self, run: RunDir, lines: Product, key: str):
        """`key`: of all that the translations depend on."""
        self._run, self._file, self.folder = run, run.synthetic / "lines.txt", run.synthetic / "blocks" / key[:16]
        self.n_lines = TypeAdapter(int).validate_python(lines.facts["n_chosen"])
        with self._file.open("rb") as content:
            sizes = np.fromiter(map(len, content), np.int64, self.n_lines)
        self._starts = np.concatenate([[0], np.cumsum(sizes)])[::_BLOCK_SIZE].tolist()
        for folder in (self.folder.parent, self.folder):
            make_folder(folder)

    def __len__(self) -> int:
        return -(-self.n_lines // _BLOCK_SIZE)

    def lines(self, number: int) -> list[str]:
        with self._file.open("rb") as content:
            content.seek(self._starts[number])
            return [line.decode().removesuffix("\n") for line in islice(content, _BLOCK_SIZE)]

    def translations(self, number: int) -> tuple[list[str], float] | None:
        """And the seconds that they took. None where they are not there or damaged."""
        try:
            sha256, _, content = read_inside(self._run.path, self._path(number), 1 << 28).partition(b"\n")
            translations, seconds = _TRANSLATIONS.validate_json(content)
        except (FileNotFoundError, ValidationError):
            return None
        is_whole = hashlib.sha256(content).hexdigest().encode() == sha256
        return (translations, seconds) if is_whole and len(translations) == len(self.lines(number)) else None

    def save(self, number: int, translations: list[str], seconds: float) -> None:
        content = json.dumps([translations, seconds]).encode()
        write_bytes(self._path(number), hashlib.sha256(content).hexdigest().encode() + b"\n" + content)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.json"


# The pairs -----------------------------------------------------------------------------------------------------------


def _translated(config: Config, run: RunDir, reverse: RunDir, lines: Product, signals: StopSignals) -> Made:
    text, seconds = config.data.monolingual, _seconds_of(reverse) if reverse.path == run.back else 0.0
    assert text is not None
    if text.back is None and not (judged := _judged(reverse)).has_learnt:
        log.warning(
            f"back-translation skipped: the reverse model {reverse.path} is too weak ({judged}), and what it writes would teach"
            " mistakes"
        )
        return Made(facts={"n_pairs": 0, "seconds": seconds})
    log.info(f"next come translations of the monolingual text, and then {run.path} itself")
    blocks = _Blocks(
        run, lines, hashlib.sha256(f"{lines.sha256} {sha256_of_best(reverse)} {text.search}".encode()).hexdigest()
    )
    end = 60 * translated_share(text) * (config.training.minutes or math.inf)
    seconds = _translate(config, reverse, blocks, seconds, end, signals)
    return _joined(config, run, reverse, blocks, seconds)


def _translate(
    config: Config, reverse: RunDir, blocks: _Blocks, seconds: float, end: float, signals: StopSignals
) -> float:
    """Translates blocks in random order, until all are done or it is time to train. Returns `seconds`, with those added."""
    text, device = config.data.monolingual, choose_device(config.training.device)
    assert text is not None
    translator = Translator.load(reverse.path, device=str(device), to=reverse_name(config.data))
    log.info(f"translating {blocks.n_lines:,} lines to {config.data.src_lang}, {text.search} search")
    signals.is_saving_needed = True
    with (  # computes as training does, so that a translation is the same whichever start makes it
        fast_float32_products(device),
        tqdm(total=blocks.n_lines, desc="back-translating", unit=" lines", leave=False, disable=None) as bar,
    ):

        def on_batch(n_lines: int) -> None:
            bar.update(n_lines)
            if signals.is_stopping:
                signals.stop(f"stopped back-translating, what is done is kept in {blocks.folder}")

        for place, number in enumerate(np.random.default_rng(config.training.seed).permutation(len(blocks)).tolist()):
            if (known := blocks.translations(number)) is not None:
                bar.update(len(known[0]))
                seconds += known[1]
            elif seconds < end or place == 0:
                began, options = time.monotonic(), {"first_line": number * _BLOCK_SIZE, **_SEARCHES[text.search]}
                translations = translator.translate(blocks.lines(number), on_batch=on_batch, **options)
                blocks.save(number, translations, took := time.monotonic() - began)
                seconds += took
            else:
                break
    signals.is_saving_needed = False
    return seconds


def _joined(config: Config, run: RunDir, reverse: RunDir, blocks: _Blocks, seconds: float) -> Made:
    """Writes the pairs of all blocks that are translated."""
    selection, n_translated = _selection(config, reverse), 0
    files = [Path(file) for file in run.of_pair(config.data, config.data).synthetic_files()]

    def pairs() -> Iterator[tuple[str, str]]:
        nonlocal n_translated
        for number in range(len(blocks)):
            if (known := blocks.translations(number)) is not None:
                n_translated += len(known[0])
                yield from selection.pairs(zip(known[0], blocks.lines(number), strict=True))

    with (
        files[0].open("w", encoding="utf-8", newline="\n") as src,
        files[1].open("w", encoding="utf-8", newline="\n") as tgt,
    ):
        for pair in pairs():
            src.write(f"{pair[0]}\n")
            tgt.write(f"{pair[1]}\n")
    left_out, n_pairs = dict(selection.left_out), n_translated - selection.left_out.total()
    if n_translated < blocks.n_lines:
        left_out["not translated, for want of time"] = blocks.n_lines - n_translated
    if not n_pairs:
        is_own = config.data.monolingual is not None and config.data.monolingual.back is None
        advice = "run the same command with more minutes or steps" if is_own else "give another data.monolingual.back"
        raise DataError(
            f"{run.synthetic}: no pair of use, {_format_counts(left_out)}; the reverse model {reverse.path} is too weak: {advice}"
        )
    weight = max(0.001, min(1.0, _MOST_SYNTHETIC * selection.n_trained / n_pairs))
    log.info(f"{n_pairs:,} synthetic pairs: {run.synthetic}; lines left out: {_format_counts(left_out)}")
    return Made(files, {"n_pairs": n_pairs, "weight": weight, "seconds": seconds, "left_out": left_out})


def _judged(reverse: RunDir) -> Judgement:
    """By its dev set. With text of one that had hardly learnt, a run was 1.8 chrF worse than without (docs/log.md)."""
    if curve := learning_curve(reverse.logs.records(reverse.metrics_file)):
        return best_of(curve)
    raise RunDirError(
        f"{reverse.metrics_file}: lost; restore it from a copy, or delete {reverse.path} to train it anew"
    )


def _seconds_of(reverse: RunDir) -> float:
    timed = reverse.logs.records(reverse.timing_file)
    return float(timed[-1]["elapsed_seconds"]) if timed else 0.0


def _format_counts(left_out: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {reason}" for reason, n in left_out.items()) or "none"
