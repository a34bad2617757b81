"""The training loop: validate and save when due, then one update: learning rate, forward, backward, clip, step, log."""

import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Callable

from mt_cli.decoding.search import usual_batch_size
from mt_cli.device import fast_float32_products
from mt_cli.errors import TrainingError
from mt_cli.processes import StopSignals
from mt_cli.run.run_dir import RunDir
from mt_cli.training.memory import advise_when_out_of_memory, smaller_batches
from mt_cli.training.metrics_log import LOG_EVERY_STEPS, MetricsLog, format_duration
from mt_cli.training.schedule import learning_rate, step_kind, weight_decay
from mt_cli.training.state import Checkpoints, PreparedData
from mt_cli.training.update import Update, Updates
from mt_cli.training.validation import Validation, validate

log = logging.getLogger(__name__)

OnValidation = Callable[[RunDir], None] | None  # called once a validation's checkpoint is saved
PLAN_EVERY_STEPS = 20
N_RECORDS_FAR_ABOVE = 10  # log records, 500 steps: a training that recovers from a bad stretch has done so by then


class Trainer:
    """Runs the updates of a training, from its present state to its end."""

    def __init__(self, checkpoints: Checkpoints, data: PreparedData, signals: StopSignals):
        self.checkpoints, self.state, self.ranks = checkpoints, checkpoints.state, checkpoints.ranks
        self.data, self.signals = data, signals
        self.on_validation: OnValidation = None
        self.metrics = MetricsLog(checkpoints)
        self._queued = deque[Update]()
        # A GPU computes an update while the next one is queued: to read its numbers at once would leave the GPU idle.
        self.n_late = 0 if self.state.model.device.type == "cpu" else 1  # steps after which they are read

    def train(self) -> None:
        """Until the last step or early stopping (patience). Raises Interrupted once saved, TrainingError for NaN."""
        state, p, d_model = self.state, self.state.progress, self.state.config.model.d_model
        advice = lambda: smaller_batches(state.settings, self.checkpoints.steps())
        with (
            advise_when_out_of_memory(state.model.device, advice),
            contextlib.closing(Updates(state, self.data.train, self.ranks)) as updates,
            fast_float32_products(state.model.device),
            self.metrics.progress_bar(),
        ):
            if not updates.is_fused:
                log.info("training with loss_of_logits (objective.py): fused_loss.py, the faster one, differs from it")
            while True:
                if state.is_validation_due and not self.ranks.any(self.signals.is_stopping):
                    self._validate()
                if self.ranks.any(self.signals.is_stopping):  # after a signal to any process all stop at the same step
                    self._read_queued()
                    self._refuse_non_finite()
                    self.ranks.on_first(self.checkpoints.save)
                    self.signals.stop(f"stopped at step {p.step}, saved in {self.checkpoints.run.path}")
                if state.is_finished:
                    break
                began = time.monotonic()
                lr = learning_rate(p.step + 1, state.settings, d_model)
                decay = weight_decay(state.settings, d_model, self.data.train.n_targets)
                update = updates.next()  # forward, backward, clip
                p.step += 1
                self._queued.append(update)
                self._read_queued(self.n_late)
                state.optimizer.step(lr, decay, p.step)
                state.speed.note_step(time.monotonic() - began, update.kind.n_passes)
                if (minutes := state.settings.minutes) is not None:
                    # The first plan: after 20 steps; sooner if these take a tenth of the minutes or training would end.
                    is_due = state.speed.training_seconds > 60 * minutes / 10 or state.is_at_last_step
                    is_first = state.speed.plan is None and self.ranks.broadcast(is_due)
                    if is_first or p.step % PLAN_EVERY_STEPS == 0:
                        self._plan_rest()
                if p.step % LOG_EVERY_STEPS == 0 or state.is_at_last_step:
                    self._read_queued()
                    p.note_loss(loss := self.metrics.record(lr), step_kind(p.step, state.settings).n_passes)
                    if p.n_records_far_above >= N_RECORDS_FAR_ABOVE:  # it does not come down again
                        lowest, n_steps = p.lowest_loss, p.n_records_far_above * LOG_EVERY_STEPS
                        what = f"loss {loss:.2f}, far above its lowest, {lowest:.2f}, for {n_steps} steps"
                        raise self._diverged(p.step, what)

    def _read_queued(self, n_left: int = 0) -> None:
        """Reads the numbers of the queued updates but the last `n_left`. Raises TrainingError where one is not finite."""
        while len(self._queued) > n_left:
            update = self._queued.popleft().read(self.ranks)
            for what, value in (("loss", update.loss_sum), ("the gradient's norm", update.grad_norm)):
                if not math.isfinite(value):
                    lines = ", ".join(map(self.data.train.format_location, update.batches[0][:5]))
                    what = f"{what} is {value} (batch with training lines {lines}, ...); not saved"
                    raise self._diverged(update.step, what)
            self.metrics.note_update(update)

    def _validate(self) -> None:
        """Scores the dev set and saves. After a signal it does neither: the run validates when it is continued."""
        state, p, speed, began = self.state, self.state.progress, self.state.speed, time.monotonic()
        self._read_queued()
        self._refuse_non_finite()
        validation, judged = self.ranks.on_first(self._score), None
        if validation is not None:
            judged = validation.weights, validation.score(state.settings.select_by), validation.figures["dev_loss"]
        if (judged := self.ranks.broadcast(judged)) is None:
            return
        p.last_validation_step = p.step
        p.weights, score, loss = judged
        best, seconds = p.note_validation(score, loss), time.monotonic() - began
        if validation is not None:
            speed.note_validation(seconds)
        if state.settings.minutes is not None and not state.is_finished:
            self._plan_rest()  # for it may have taken much of the time
        if validation is not None:
            self.metrics.note_validation(validation, bool(best), seconds)
            self.checkpoints.save()  # before the scores are shown
            if self.on_validation is not None:
                self.on_validation(self.checkpoints.run)
            speed.validation_seconds += time.monotonic() - began - seconds  # saving and showing take time too
            validation.show(p.step, p.epoch, best, state.settings.n_samples)

    def _score(self) -> Validation | None:
        """None after a signal. Raises TrainingError when a loss is not finite: finite weights can be too large."""
        n = self.state.config.decoding.batch_size or usual_batch_size(self.state.model.device)
        advice = f"while validating, at decoding.batch_size {n}; set it to {max(1, n // 2)} and start again"
        try:
            with advise_when_out_of_memory(self.state.model.device, lambda: advice):
                return validate(self.state, self.data, self.signals.check)
        except FloatingPointError as error:
            raise self._diverged(self.state.progress.step, f"{error}; not saved") from None

    def _refuse_non_finite(self) -> None:
        for model in self.state.candidates.values():
            for name, weight in model.named_parameters():
                if not weight.isfinite().all():
                    raise self._diverged(self.state.progress.step, f"{name} has values that are not finite; not saved")

    def _diverged(self, step: int, what: str) -> TrainingError:
        steps = ", ".join(map(str, self.checkpoints.steps()))
        kept = f"checkpoints of steps {steps} are kept; in a new run" if steps else "no checkpoint yet;"
        advice = "lower training.learning_rate or training.clip_norm, or raise training.warmup_steps"
        return TrainingError(f"step {step}: {what}, {kept} {advice}")

    def extend(self) -> None:
        """Adapts a continued run that was given more minutes, or more steps, than it had."""
        state, minutes = self.state, self.state.settings.minutes or 0
        is_longer = minutes > state.speed.planned_minutes and 60 * minutes > time.monotonic() - self.checkpoints.started
        if self.ranks.broadcast(is_longer and state.speed.training_seconds > 0):
            self._plan_rest()
        state.progress.extend_to(state.settings.max_steps)

    def _plan_rest(self) -> None:
        """Plans what is left of the minutes by the first process's speed so far, which gets more exact towards the end."""
        config, speed, p = self.state.config, self.state.speed, self.state.progress
        minutes, is_validated = self.state.settings.minutes or 0, 0 < p.last_validation_step == p.step
        seconds = 60 * minutes - (time.monotonic() - self.checkpoints.started)
        plan = speed.plan_steps(config.training, config.model.d_model, p.step, is_validated, seconds)
        plan = self.ranks.broadcast(plan)
        if minutes != speed.planned_minutes:
            duration = format_duration(60 * minutes)
            log.info(f"about {plan.max_steps:,} steps in {duration}; training.max_steps does not count")
        speed.planned_minutes = minutes
        self.state.follow(plan)
