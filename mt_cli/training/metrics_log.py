"""What is recorded of a training: `metrics.jsonl`, and `timing.jsonl`, which has the clock; the progress bar; and what it came
to, in two lines: whether it has learnt, and what would help most."""

import logging
import math
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from tqdm import tqdm

from mt_cli.evaluation.baselines import Judgement
from mt_cli.training.state import Checkpoints
from mt_cli.training.update import Update
from mt_cli.training.validation import Validation

log = logging.getLogger(__name__)

LOG_EVERY_STEPS = 50
_BAR = "{desc}|{bar}|{percentage:3.0f}%"  # the time left is ours: tqdm knows nothing of validations and phases
_SHOW_EVERY_SECONDS = 1.0
_DEV_SCORES = {"bleu": ("BLEU", "{:.1f}"), "chrf": ("chrF", "{:.1f}"), "loss": ("dev loss", "{:.3f}")}


class MetricsLog:
    """Writes a record every 50 updates and at each validation, and measures speed; the first process alone."""

    def __init__(self, checkpoints: Checkpoints):
        self._run, self._state, self._started = checkpoints.run, checkpoints.state, checkpoints.started
        self._is_writing = checkpoints.ranks.is_first
        self._dev_score: float | None = None
        self._grad_norm = math.nan  # of the last update
        self._last_shown, self._is_time_logged = 0.0, False
        self._events: Any = None  # a SummaryWriter, from the first record on that `tensorboard` asks for
        self._n_tokens = 0  # trained since the last record
        self._seconds = self._state.speed.training_seconds  # until then

    def progress_bar(self) -> tqdm:
        """Of all steps; silent where there is no terminal."""
        total, step, is_hidden = self._state.settings.max_steps, self._state.progress.step, not self._is_writing
        self._bar = tqdm(total=total, initial=step, disable=is_hidden or None, ncols=80, bar_format=_BAR)
        return self._bar

    def note_update(self, update: Update) -> None:
        p = self._state.progress
        p.loss_sum += update.loss_sum
        p.n_tokens += update.n_tokens
        self._n_tokens += update.n_tokens
        self._grad_norm = update.grad_norm
        self._bar.total = self._state.settings.max_steps
        self._bar.update()
        if time.monotonic() - self._last_shown > _SHOW_EVERY_SECONDS:
            self._last_shown, settings = time.monotonic(), self._state.settings
            # As short as the line of a terminal asks.
            text = f"{p.step}/{settings.max_steps}, {self._time_left} left, loss {p.loss_sum / p.n_tokens:.2f}"
            if p.best_step:
                name, form = _DEV_SCORES[settings.select_by]
                now = "" if self._dev_score is None else f" {form.format(self._dev_score)}"
                text += f", {name}{now} (best {form.format(abs(p.best_score))} at {p.best_step})"
            self._bar.set_description_str(text)

    def record(self, learning_rate: float) -> float:
        """Writes a record, and returns the mean loss since the last one."""
        p = self._state.progress
        loss, seconds = p.loss_sum / p.n_tokens, self._state.speed.training_seconds
        if not self._is_time_logged and not self._state.is_at_last_step:
            log.info(f"about {self._time_left} left")
            self._is_time_logged = True
        figures = {"loss": loss, "learning_rate": learning_rate, "grad_norm": self._grad_norm}
        self._append(figures, tokens_per_second=round(self._n_tokens / max(1e-9, seconds - self._seconds), 1))
        p.loss_sum, p.n_tokens, self._n_tokens, self._seconds = 0.0, 0, 0, seconds
        return loss

    def note_validation(self, validation: Validation, is_best: bool, seconds: float) -> None:
        self._dev_score = abs(validation.score(self._state.settings.select_by))
        kind = {"weights": validation.weights, "is_best": is_best, "is_last": self._state.is_finished}
        self._append({**validation.figures, **kind}, validation_seconds=round(seconds, 2))

    @property
    def _time_left(self) -> str:
        state = self._state
        return format_duration(state.speed.seconds_left(state.settings, state.progress.step))

    def _append(self, figures: dict[str, Any], **timing: float) -> None:
        if not self._is_writing:
            return
        p, elapsed, logs = self._state.progress, round(time.monotonic() - self._started, 2), self._run.logs
        records = [{"step": p.step, "epoch": p.epoch + 1, **figures}]
        logs.append(self._run.metrics_file, records[0])
        logs.append(self._run.timing_file, {"step": p.step, "elapsed_seconds": elapsed, **timing})
        if not self._state.settings.tensorboard:
            return
        if self._events is None:  # at first also what was recorded before, by an earlier start or without `tensorboard`
            from torch.utils.tensorboard import SummaryWriter  # needs the extra

            shutil.rmtree(folder := self._run.path / "tensorboard", ignore_errors=True)
            self._events = SummaryWriter(folder, purge_step=0)  # a TensorBoard that is open reads everything anew
            records = logs.records(self._run.metrics_file)
        for one in records:
            for name, figure in one.items():
                if type(figure) is float:
                    self._events.add_scalar(name, figure, one.get("step"))
        self._events.flush()


def format_duration(seconds: float) -> str:
    """`40 s`, `38 min` or `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


LEVELS = (  # from this chrF on
    (65, "most sentences are right"),
    (50, "many sentences can be used"),
    (35, "the topic comes across"),
    (0, "so far only single words come across"),
)
_ABOVE_UNIFORM = 0.5  # nats; a model that has hardly begun may be a little above
_STILL_RISING = 0.5  # chrF in the last quarter of the training, where the learning rate is low
_MANY_FAULTS = 0.02
_FEW_EPOCHS = 10  # of a small corpus
_SOLVED = 90.0
_TOO_FEW_PAIRS, _ENOUGH_PAIRS = 1_000, 300_000
_JUDGED = [field.name for field in fields(Judgement)]


class Point(NamedTuple):
    """A validation."""

    step: int
    loss: float
    judged: Judgement


def learning_curve(records: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The validations of a log, without those before the best that scored higher: by chance, before it had learnt."""
    points = list[Point]()
    for record in records:
        if record.keys() >= {"dev_loss", *_JUDGED}:
            if record.get("is_best"):
                points = [point for point in points if point.judged.chrf <= record["chrf"]]
            judged = Judgement(**{name: record[name] for name in _JUDGED})
            points.append(Point(record["step"], record["dev_loss"], judged))
    return points


def best_of(curve: Sequence[Point]) -> Judgement:
    return max((point.judged for point in curve), key=lambda judged: judged.chrf)


def verdict(
    curve: Sequence[Point], vocab_size: int, n_pairs: int, n_epochs: float, share_faulty: float = 0.0
) -> list[str]:
    """Two lines for people. `n_epochs`: how often the pairs were read; `share_faulty`: of them; `vocab_size`: of the
    target."""
    best, last, uniform = best_of(curve), curve[-1], math.log(vocab_size)
    earlier = [point for point in curve if point.step <= 0.75 * last.step]
    if best.chrf > _SOLVED:
        advice = "sentences of other kinds, those of the dev set are nearly all known"
    elif n_epochs < (_FEW_EPOCHS if n_pairs < _ENOUGH_PAIRS else 1):
        times = "once at most" if n_epochs < 1 else "only once" if n_epochs < 2 else f"only {n_epochs:.0f} times"
        few = f"; and more pairs, {n_pairs:,} are too few" if n_pairs < _TOO_FEW_PAIRS else ""
        advice = f"more time, each pair was read {times} (--minutes, or training.max_steps){few}"
    elif earlier and best.chrf - best_of(earlier).chrf > _STILL_RISING:
        advice = "more time, the score still rose at the end (--minutes, or training.max_steps)"
    elif n_pairs < _TOO_FEW_PAIRS:
        advice = f"more pairs, {n_pairs:,} are too few to learn a language from"
    elif share_faulty > _MANY_FAULTS:
        advice = f"a cleaner corpus, {share_faulty:.0%} of its pairs have a fault (mt check, then mt train --clean)"
    elif not best.has_learnt:
        advice = "a look at the corpus, whether its lines belong together (mt check)"
    else:
        is_small = n_pairs < _ENOUGH_PAIRS
        advice = f"more pairs, {n_pairs:,} are few" if is_small else "a larger network (model.d_model)"
    if last.loss > uniform + _ABOVE_UNIFORM and len(curve) > 1:  # else it may only have had no time
        learnt = f"it has diverged: its dev loss is {last.loss:,.1f}, and {uniform:.1f} with all tokens equally likely"
        advice = "a lower learning rate (training.learning_rate), or a longer warm-up (training.warmup_steps)"
    elif best.has_learnt:
        level = next(words for least, words in LEVELS if best.chrf >= least)
        learnt = f"it has learnt to translate: {best}; {level}"
    else:
        learnt = f"it has hardly learnt to translate: {best}"
    return [learnt, f"what would help most: {advice}"]
