"""The training loop: validate and save when due, then one update: learning rate, forward, backward, clip, step, log.

It does not know any file: `checkpoints.py` saves and restores, `metrics_log.py` writes the logs.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable

from tqdm import tqdm

from mt_cli.device import fast_float32_products
from mt_cli.run.run_dir import RunDir
from mt_cli.training.checkpoints import Checkpoints
from mt_cli.training.guards import (
    advise_when_out_of_memory,
    refuse_divergence,
    refuse_non_finite_update,
    refuse_non_finite_weights,
    smaller_batches,
    smaller_searches,
)
from mt_cli.training.metrics_log import LOG_EVERY_STEPS, MetricsLog, format_duration
from mt_cli.training.ranks import ALONE, Ranks
from mt_cli.training.schedule import learning_rate, plan_steps, weight_decay
from mt_cli.training.signals import StopSignals
from mt_cli.training.state import PreparedData, TrainingState
from mt_cli.training.update import QueuedUpdate, Updates
from mt_cli.training.validation import Validation, validate

log = logging.getLogger(__name__)

PLAN_EVERY_STEPS = 20


class Trainer:
    """Runs the updates of a training, from its present state to its end."""

    def __init__(
        self,
        state: TrainingState,
        data: PreparedData,
        checkpoints: Checkpoints,
        signals: StopSignals,
        ranks: Ranks = ALONE,
        on_validation: Callable[[RunDir], None] | None = None,
    ):
        self.state, self.data, self.checkpoints, self.signals, self.ranks = state, data, checkpoints, signals, ranks
        self._on_validation = on_validation
        self.started = checkpoints.started
        self.metrics = MetricsLog(checkpoints.run, state, self.started, ranks.is_first)
        self._queued = deque[QueuedUpdate]()
        # A GPU computes an update while the next one is queued: to read its numbers at once would leave the GPU idle.
        self.n_late = 0 if state.model.device.type == "cpu" else 1  # steps after which they are read

    def train(self) -> None:
        """Until the last step or until patience ends. Raises Interrupted after saving when a signal asked for it, and
        TrainingError for an update that is not finite; it is not applied, and nothing is saved after it."""
        state, p, d_model = self.state, self.state.progress, self.state.config.model.d_model
        updates = Updates(state, self.data.train, self.ranks)
        advice = lambda: smaller_batches(state.settings, self.checkpoints.steps())  # noqa: E731
        with (
            contextlib.closing(self.metrics),
            contextlib.closing(updates),
            fast_float32_products(state.model.device),
            advise_when_out_of_memory(state.model.device, advice),
            self.metrics.progress_bar() as bar,
        ):
            updates.begin()
            self.metrics.restart_clock()
            while True:
                if state.is_validation_due and not self._is_stopping():
                    self._validate(bar)
                if self._is_stopping():
                    self._save_and_stop(bar)
                if state.is_finished:
                    break
                began, n_passes = time.monotonic(), state.phase.n_passes
                lr = learning_rate(p.step + 1, state.settings, d_model)
                decay = weight_decay(state.settings, d_model, self.data.train.n_targets)
                update = updates.compute()  # forward, backward, clip
                p.step += 1
                state.optimizer.step(lr, decay, p.step, update.is_finite)
                self._queued.append(update)
                self._read_queued(bar, self.n_late)
                state.speed.note_step(time.monotonic() - began, n_passes)
                if self._plan_is_due():
                    self._plan()
                    bar.total = state.settings.max_steps
                if self.metrics.is_record_due:
                    self._read_queued(bar)
                    refuse_divergence(p, self.metrics.record(lr), state.phase.n_passes, LOG_EVERY_STEPS)

    def _is_stopping(self) -> bool:
        """Whether a signal has come, to any process: all stop at the same step."""
        return self.ranks.any(self.signals.is_stopping)

    def _read_queued(self, bar: tqdm, n_left: int = 0) -> None:
        """Reads the numbers of the queued updates but the last `n_left`."""
        while len(self._queued) > n_left:
            update = self._queued.popleft().read(self.ranks)
            refuse_non_finite_update(update, self.data.train, self.checkpoints.steps)
            self.metrics.note_update(update, bar)

    # Validation ------------------------------------------------------------------------------------------------------

    def _validate(self, bar: tqdm) -> None:
        """Scores the dev set and saves. After a signal it does neither: the run validates when it is continued."""
        state, p, began = self.state, self.state.progress, time.monotonic()
        self._read_queued(bar)
        refuse_non_finite_weights(state, self.checkpoints.steps)
        validation = self.ranks.first(self._score)
        judged = validation.judged_by(state.settings.select_by) if validation is not None else None
        if (judged := self.ranks.shared(judged)) is None:
            return
        p.last_validation_step = p.step
        p.weights, score, loss = judged
        best = p.note_validation(score, loss)
        if validation is not None:
            self.metrics.note_validation(validation, bool(best), time.monotonic() - began)
            state.speed.note_validation(time.monotonic() - began)
        if state.settings.minutes is not None and not state.is_finished:
            self._plan()  # for it may have taken much of the time
        if validation is not None:
            self._save_and_show(validation, best, began)

    def _score(self) -> Validation | None:
        state, advice = self.state, lambda: smaller_searches(self.state.config.decoding)
        with advise_when_out_of_memory(state.model.device, advice):
            return validate(state, self.data, lambda: self.signals.is_stopping, self.checkpoints.steps)

    def _save_and_show(self, validation: Validation, best: str, began: float) -> None:
        state, p, seconds = self.state, self.state.progress, time.monotonic() - began
        self.checkpoints.save(state)  # before the scores are logged
        if self._on_validation is not None:
            self._on_validation(self.checkpoints.run)
        state.speed.validation_seconds += time.monotonic() - began - seconds  # saving and showing take time too
        self.metrics.leave_out(time.monotonic() - began)
        validation.show(p.step, p.epoch, best, state.settings.n_samples)

    def _save_and_stop(self, bar: tqdm) -> None:
        self._read_queued(bar)
        refuse_non_finite_weights(self.state, self.checkpoints.steps)
        self.ranks.first(lambda: self.checkpoints.save(self.state))
        self.signals.stop(f"stopped at step {self.state.progress.step}, saved in {self.checkpoints.run.path}")

    # Training for a given time ---------------------------------------------------------------------------------------

    @property
    def _seconds_left(self) -> float:
        return 60 * (self.state.settings.minutes or 0) - (time.monotonic() - self.started)

    def _plan_is_due(self) -> bool:
        state = self.state
        if state.settings.minutes is None:
            return False
        if state.progress.step % PLAN_EVERY_STEPS == 0:
            return True
        is_tenth_used = state.speed.training_seconds > 0.1 * 60 * state.settings.minutes
        return state.speed.plan is None and self.ranks.shared(is_tenth_used or state.is_at_last_step)

    def extend(self) -> None:
        """Adapts a continued run that was given more minutes, or more steps, than it had."""
        state = self.state
        is_longer = (state.settings.minutes or 0) > state.speed.planned_minutes
        if self.ranks.shared(bool(state.speed.training_seconds) and is_longer and self._seconds_left > 0):
            self._plan()
        state.progress.extend_to(state.settings.max_steps)

    def _plan(self) -> None:
        """Plans the rest by the first process's speed so far. Repeated, since the estimate gets better towards the end."""
        state, p, speed, config = self.state, self.state.progress, self.state.speed, self.state.config
        minutes, is_validated = state.settings.minutes, 0 < p.last_validation_step == p.step
        assert minutes is not None
        previous = speed.plan if minutes == speed.planned_minutes else None
        seconds = self._seconds_left, speed.step_seconds(p.step), speed.mean_validation_seconds
        plan = plan_steps(config.training, config.model.d_model, p.step, is_validated, *seconds, previous)
        plan = self.ranks.shared(plan)
        if minutes != speed.planned_minutes:
            log.info(
                f"about {plan.max_steps:,} steps in {format_duration(60 * minutes)}; training.max_steps does not count"
            )
        speed.planned_minutes = minutes
        state.follow(plan)
