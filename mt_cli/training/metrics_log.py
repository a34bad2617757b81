"""The two logs of a training: `metrics.jsonl`, equal for equal trainings, and `timing.jsonl`, which has the clock."""

from __future__ import annotations

import time

from tqdm import tqdm

from mt_cli.run_dir import RunDir
from mt_cli.training.state import TrainingState
from mt_cli.training.update import Update
from mt_cli.training.validation import Validation

LOG_EVERY_STEPS = 50


class MetricsLog:
    """Writes a record every 50 updates and at each validation, and measures the speed between."""

    def __init__(self, run: RunDir, state: TrainingState, started: float):
        """`started`: when the training did, earlier starts included, in seconds of `time.monotonic`."""
        self._run, self._state, self._started = run, state, started
        self.restart_clock()

    def restart_clock(self) -> None:
        self._window_tokens, self._window_started = 0, time.monotonic()

    def note_update(self, update: Update, learning_rate: float, bar: tqdm) -> float | None:
        """Returns the mean loss since the last record where one was due."""
        p = self._state.progress
        p.loss_sum += update.loss_sum
        p.n_tokens += update.n_tokens
        self._window_tokens += update.n_tokens
        bar.update()
        if p.step % LOG_EVERY_STEPS and not self._state.is_at_last_step:
            return None
        loss, speed = p.loss_sum / p.n_tokens, self._window_tokens / (time.monotonic() - self._window_started)
        self._append(loss=loss, learning_rate=learning_rate, grad_norm=update.grad_norm)
        self._append_time(tokens_per_second=round(speed, 1))
        bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s, rate {learning_rate:.2e}")
        p.loss_sum, p.n_tokens = 0.0, 0
        self.restart_clock()
        return loss

    def note_validation(self, validation: Validation, is_best: bool, seconds: float) -> None:
        self._append(**validation.figures, weights=validation.weights, is_best=is_best)
        self._append_time(validation_seconds=round(seconds, 2))

    def leave_out(self, seconds: float) -> None:
        """Time that was not spent on updates: the speed is theirs."""
        self._window_started += seconds

    def _append(self, **figures: object) -> None:
        p = self._state.progress
        self._run.logs.append(self._run.metrics_file, {"step": p.step, "epoch": p.epoch + 1, **figures})

    def _append_time(self, **figures: float) -> None:
        elapsed = round(time.monotonic() - self._started, 2)
        record = {"step": self._state.progress.step, "elapsed_seconds": elapsed, **figures}
        self._run.logs.append(self._run.timing_file, record)
