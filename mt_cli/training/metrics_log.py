"""The two logs of a training: `metrics.jsonl`, equal for equal trainings, and `timing.jsonl`, which has the clock; and the
progress bar."""

from __future__ import annotations

import logging
import math
import time

from tqdm import tqdm

from mt_cli.run.run_dir import RunDir
from mt_cli.training.event_file import EventFile
from mt_cli.training.schedule import seconds_left
from mt_cli.training.state import TrainingState
from mt_cli.training.update import Update
from mt_cli.training.validation import Validation

log = logging.getLogger(__name__)

LOG_EVERY_STEPS = 50
_BAR = "{desc}|{bar}|{percentage:3.0f}%"  # the time left is ours: tqdm knows nothing of validations and phases
_SHOW_EVERY_SECONDS = 1.0
_DEV_SCORES = {"bleu": ("BLEU", "{:.1f}"), "chrf": ("chrF", "{:.1f}"), "loss": ("dev loss", "{:.3f}")}


class MetricsLog:
    """Writes a record every 50 updates and at each validation, and measures the speed between."""

    def __init__(self, run: RunDir, state: TrainingState, started: float, is_writing: bool = True):
        """`started`: when the training did, earlier starts included, in seconds of `time.monotonic`."""
        self._run, self._state, self._started, self._is_writing = run, state, started, is_writing
        self._events: EventFile | None = None
        self._dev_score: float | None = None
        self._grad_norm = math.nan  # of the last update
        self._last_shown, self._is_time_logged = 0.0, False
        self.restart_clock()

    def restart_clock(self) -> None:
        self._window_tokens, self._window_started = 0, time.monotonic()

    def progress_bar(self) -> tqdm:
        """Of all steps. Silent where there is no terminal, and in other processes than the first."""
        total, step = self._state.settings.max_steps, self._state.progress.step
        return tqdm(total=total, initial=step, disable=None if self._is_writing else True, ncols=80, bar_format=_BAR)

    def note_update(self, update: Update, bar: tqdm) -> None:
        p = self._state.progress
        p.loss_sum += update.loss_sum
        p.n_tokens += update.n_tokens
        self._window_tokens += update.n_tokens
        bar.update()
        if time.monotonic() - self._last_shown > _SHOW_EVERY_SECONDS:
            self._last_shown = time.monotonic()
            bar.set_description_str(self._describe(p.loss_sum / p.n_tokens))
        self._grad_norm = update.grad_norm

    @property
    def is_record_due(self) -> bool:
        return self._state.progress.step % LOG_EVERY_STEPS == 0 or self._state.is_at_last_step

    def record(self, learning_rate: float) -> float:
        """Writes a record, and returns the mean loss since the last one."""
        p = self._state.progress
        loss, speed = p.loss_sum / p.n_tokens, self._window_tokens / (time.monotonic() - self._window_started)
        if not self._is_time_logged and not self._state.is_at_last_step:
            log.info(f"about {format_duration(self._seconds_left)} left")
            self._is_time_logged = True
        self._append(loss=loss, learning_rate=learning_rate, grad_norm=self._grad_norm)
        self._append_time(tokens_per_second=round(speed, 1))
        p.loss_sum, p.n_tokens = 0.0, 0
        self.restart_clock()
        return loss

    @property
    def _seconds_left(self) -> float:
        step, speed = self._state.progress.step, self._state.speed
        return seconds_left(self._state.settings, step, speed.step_seconds(step), speed.mean_validation_seconds)

    def _describe(self, loss: float) -> str:
        """`1200/6600, 38 min left, loss 2.31, chrF 41.2 (best 41.5 at 1100)`: as short as the line of a terminal asks."""
        p, settings = self._state.progress, self._state.settings
        dev = ""
        if p.best_step:
            name, form = _DEV_SCORES[settings.select_by]
            now = f" {form.format(self._dev_score)}" if self._dev_score is not None else ""
            dev = f", {name}{now} (best {form.format(abs(p.best_score))} at {p.best_step})"
        return f"{p.step}/{settings.max_steps}, {format_duration(self._seconds_left)} left, loss {loss:.2f}{dev}"

    def note_validation(self, validation: Validation, is_best: bool, seconds: float) -> None:
        self._dev_score = abs(validation.score(self._state.settings.select_by))
        self._append(**validation.figures, weights=validation.weights, is_best=is_best, is_last=self._state.is_finished)
        self._append_time(validation_seconds=round(seconds, 2))

    def leave_out(self, seconds: float) -> None:
        """Excludes seconds that were not spent on updates from the measured speed."""
        self._window_started += seconds

    def close(self) -> None:
        if self._events is not None:
            self._events.close()

    def _append(self, **figures: object) -> None:
        p = self._state.progress
        if not self._is_writing:
            return
        record = {"step": p.step, "epoch": p.epoch + 1, **figures}
        if self._state.settings.tensorboard:
            if self._events is None:  # made late, since nothing is written into a run that is finished
                self._events = EventFile(self._run, self._started)
            self._events.append(record, time.monotonic() - self._started)
            self._events.flush()
        self._run.logs.append(self._run.metrics_file, record)

    def _append_time(self, **figures: float) -> None:
        elapsed = round(time.monotonic() - self._started, 2)
        record = {"step": self._state.progress.step, "elapsed_seconds": elapsed, **figures}
        if self._is_writing:
            self._run.logs.append(self._run.timing_file, record)


def format_duration(seconds: float) -> str:
    """`40 s`, `38 min` or `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
