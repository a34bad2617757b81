"""The training loop: rate, validate and save when due, forward, backward, clip, step, log.

A run can be stopped or killed at any step and continued by the same command. Everything the rest of the training depends
on is in the checkpoint: weights, the optimizer's moments, the position in the data, the best score so far.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from mt_cli.checkpoint import build_model, load_checkpoint, refuse_other_shapes, save_checkpoint
from mt_cli.config import Config
from mt_cli.device import choose_device, choose_precision
from mt_cli.errors import CheckpointError, RunDirError, is_device_failure, is_out_of_memory
from mt_cli.model.dropout import seed_dropout
from mt_cli.model.transformer import Transformer
from mt_cli.run_dir import RunDir
from mt_cli.text.batching import epoch_batches, make_batch
from mt_cli.text.dataset import TokenDataset
from mt_cli.training.guards import (
    advice_when_memory_ends,
    refuse_divergence,
    refuse_non_finite,
    refuse_small_disk,
    smaller_batches,
    smaller_searches,
)
from mt_cli.training.memory import fit_batches
from mt_cli.training.objective import summed_loss
from mt_cli.training.optimizer import Optimizer
from mt_cli.training.prepare import PreparedData
from mt_cli.training.progress import Progress, restored
from mt_cli.training.schedule import Pace, fit_to_time, learning_rate, weight_decay
from mt_cli.training.signals import StopSignals
from mt_cli.training.validation import validate
from mt_cli.training.workers import Workers

log = logging.getLogger(__name__)

LOG_EVERY_STEPS = 50
FIT_EVERY_STEPS = 20
N_KEPT = 2  # newest checkpoints, beside the best one


class Trainer:
    """Trains one run from where it stands to its end."""

    def __init__(
        self,
        config: Config,
        run: RunDir,
        data: PreparedData,
        signals: StopSignals,
        began: float | None = None,
    ):
        """`began`: when the command did, in seconds of `time.monotonic`; now by default."""
        self.config, self.run, self.data, self.signals = config, run, data, signals
        self.settings = config.training
        self.device = choose_device(self.settings.device)
        torch.manual_seed(self.settings.seed)
        self.model = build_model(config, data.tokenizer).to(self.device)
        self.dtype, self.why_dtype = choose_precision(self.settings.precision, self.device)
        self.progress, self.pace = Progress(), Pace()
        self.optimizer = Optimizer(self.model, self.settings, self.dtype)
        self._loss_sum, self._n_tokens = 0.0, 0  # since the last line of the log
        self._damaged: set[int] = set()  # steps whose checkpoints were found to be
        self.run.make_checkpoints_folder()
        with advice_when_memory_ends(
            self.device, lambda: f"while continuing {run.path}; free memory, then start again"
        ):
            self._restore_newest()
        self._batches = self._remaining_batches()  # begins with the first step, when `auto` has become a number
        self._started = (time.monotonic() if began is None else began) - self.progress.elapsed_seconds
        self._speed_tokens, self._speed_started = 0, time.monotonic()
        if (minutes := self.settings.minutes) is not None:
            self._follow(self.pace.fitted)
            if self.pace.training_seconds and minutes > self.pace.minutes and self._seconds_left(minutes) > 0:
                self._fit_to_time(minutes)  # the run has got more time than it had
        self.progress.lengthen(self.settings.max_steps)

    @property
    def is_finished(self) -> bool:
        """Also validated: a signal can come between the last step and that."""
        is_at_end = self.progress.step >= self.settings.max_steps or self._patience_ended
        return is_at_end and not self._validation_is_due

    @property
    def _patience_ended(self) -> bool:
        """Never in a given time: the best comes at its end, where the rate is low."""
        return self.settings.minutes is None and self.progress.n_validations_without_best >= self.settings.patience

    @property
    def why_finished(self) -> str:
        return "the last step" if self.progress.step >= self.settings.max_steps else "no better dev score for long"

    def train(self) -> None:
        """Runs until the last step or until patience ends. Raises Interrupted after saving when a signal asked for it,
        TrainingError before an update that is not finite."""
        # The newest, the best of each of two, and one that is being written; some may be there already.
        refuse_small_disk(self.run, self.model, max(1, N_KEPT + 2 - len(self.run.steps())))
        with advice_when_memory_ends(self.device, lambda: smaller_batches(self.settings, self._saved_steps())):
            self._fit_batches()
            self.signals.is_saving_needed = True
            self._train_steps()

    def _train_steps(self) -> None:
        p = self.progress
        self._speed_started = time.monotonic()  # how long batches were tried is no matter of speed
        with tqdm(
            total=self.settings.max_steps, initial=p.step, unit="step", disable=None, dynamic_ncols=True
        ) as self.bar:
            while True:
                if self._validation_is_due and not self.signals.is_stopping:
                    self._validate()
                if self.signals.is_stopping:
                    self._save_and_stop()
                if self.is_finished:
                    break
                started = time.monotonic()
                rate = learning_rate(p.step + 1, self.settings, self.config.model.d_model)
                decay = weight_decay(self.settings, self.config.model.d_model, self.data.train.n_targets)
                reads_twice = self._reads_twice
                loss, grad_norm, indices = self._forward_backward()
                lines = [self.data.train.line(index) for index in indices[:5]]
                refuse_non_finite(loss, grad_norm, p.step + 1, lines, self._saved_steps)
                p.step += 1
                self.optimizer.step(rate, decay, p.step)
                self.pace.note_step(time.monotonic() - started, reads_twice)
                if (minutes := self.settings.minutes) is not None and self._fit_is_due(minutes):
                    self._fit_to_time(minutes)
                    self.bar.total = self.settings.max_steps
                self._log(rate, grad_norm)

    def _seconds_left(self, minutes: float) -> float:
        return 60 * minutes - (time.monotonic() - self._started)

    def _fit_is_due(self, minutes: float) -> bool:
        if self.progress.step % FIT_EVERY_STEPS == 0:
            return True
        are_slow = self.pace.training_seconds > 0.1 * 60 * minutes
        return not self.pace.fitted and (are_slow or self.progress.step >= self.settings.max_steps)

    def _fit_to_time(self, minutes: float) -> None:
        """Fits the schedule to the time by the speed so far, again and again: the nearer the end, the less there is to
        be wrong about."""
        training, d_model = self.config.training, self.config.model.d_model
        if minutes != self.pace.minutes:
            self.pace.fitted = {}
        fitted = fit_to_time(training, d_model, self.progress.step, self._seconds_left(minutes), self.pace)
        if minutes != self.pace.minutes:
            log.info(f"{minutes:g} minutes are about {fitted['max_steps']:,} steps")
        self.pace.minutes = minutes
        self._follow(fitted)

    def _follow(self, fitted: dict[str, Any]) -> None:
        self.pace.fitted = fitted
        self.settings = self.settings.model_copy(update=fitted)

    # One update ------------------------------------------------------------------------------------------------------

    def _forward_backward(self) -> tuple[float, float, list[int]]:
        """Loss of the update in nats for each target token, the norm of its gradient, which is left clipped, and the
        pairs that it learns from."""
        batches = [next(self._batches) for _ in range(self.settings.accumulate)]
        self.optimizer.network.train()
        n = self.workers.n
        parts = [part for batch in batches for k in range(n) if (part := batch[k::n])]
        losses: list[Tensor] = []
        n_tokens = 0
        for part_loss, part_tokens, gradients in self.workers.map(self._gradients, enumerate(parts)):
            self.optimizer.add(gradients)
            losses.append(part_loss)
            n_tokens += part_tokens
        grad_norm = self.optimizer.average_and_clip(n_tokens)
        loss = sum(part_loss.item() for part_loss in losses)  # a GPU has all of its work now, and is waited for
        self._loss_sum += loss
        self._n_tokens += n_tokens
        self._speed_tokens += n_tokens
        return loss / n_tokens, grad_norm.item(), [index for batch in batches for index in batch]

    @functools.cached_property
    def workers(self) -> Workers:
        return Workers(self.device, self.settings.batch_tokens)  # a number by now, if it was `auto`

    def _gradients(self, numbered_part: tuple[int, list[int]]) -> tuple[Tensor, int, tuple[Tensor, ...]]:
        """Summed loss, number of target tokens and summed gradients of some pairs; runs in a thread of its own."""
        number, indices = numbered_part
        seed_dropout(self.settings.seed, self.progress.step, number)
        batch = make_batch(self._step_pairs, indices).to(self.device)
        r_drop = self.settings.r_drop if self._reads_twice else 0.0
        loss = summed_loss(self.optimizer.network, batch, self.settings.label_smoothing, r_drop)
        return loss.detach(), batch.n_tokens, torch.autograd.grad(loss, self.optimizer.network_weights)

    @property
    def _learns_both_directions(self) -> bool:
        return self.progress.step < self.settings.both_directions * self.settings.max_steps

    @property
    def _reads_twice(self) -> bool:
        return self.settings.r_drop > 0 and not self._learns_both_directions

    @property
    def _step_pairs(self) -> TokenDataset:
        """What this step learns from: the pairs, or in every other of the first steps the same backwards, so that a small
        corpus teaches twice as much of both languages before it is all about one direction (Ding et al. 2021)."""
        is_backwards = self._learns_both_directions and self.progress.step % 2 == 1
        return self.data.train.backwards() if is_backwards else self.data.train

    def _remaining_batches(self) -> Iterator[list[int]]:
        """The pairs of each batch from the present position on, epoch after epoch without end."""
        p, settings = self.progress, self.settings
        while True:
            n_done = p.batch
            for number, indices in enumerate(
                epoch_batches(self.data.train, settings.batch_tokens, settings.seed, p.epoch)
            ):
                if number >= n_done:
                    p.batch = number + 1
                    yield indices
            p.epoch, p.batch = p.epoch + 1, 0

    def _log(self, rate: float, grad_norm: float) -> None:
        p = self.progress
        self.bar.update()
        if p.step % LOG_EVERY_STEPS and p.step != self.settings.max_steps:
            return
        now = time.monotonic()
        speed = self._speed_tokens / (now - self._speed_started)
        loss = self._loss_sum / self._n_tokens
        record = {"step": p.step, "epoch": p.epoch + 1, "loss": loss, "learning_rate": rate, "grad_norm": grad_norm}
        self.run.append(self.run.metrics_file, record)
        self._log_time(tokens_per_second=round(speed, 1))
        self.bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s, rate {rate:.2e}")
        self._loss_sum, self._n_tokens = 0.0, 0
        if p.reads_twice != self._reads_twice:  # another loss from here on, which begins higher
            p.reads_twice, p.lowest_loss, p.n_logs_far_above = self._reads_twice, math.inf, 0
        else:
            refuse_divergence(p, loss, LOG_EVERY_STEPS)
        self._speed_tokens, self._speed_started = 0, now

    def _log_time(self, **figures: float) -> None:
        elapsed = round(time.monotonic() - self._started, 2)
        self.run.append(self.run.timing_file, {"step": self.progress.step, "elapsed_seconds": elapsed, **figures})

    # Validation ------------------------------------------------------------------------------------------------------

    @property
    def _validation_is_due(self) -> bool:
        p = self.progress
        is_time = p.step % self.settings.validate_every_steps == 0 or p.step >= self.settings.max_steps
        return p.step > p.last_validation and is_time

    def _validate(self) -> None:
        """Scores the dev set and saves. A signal meanwhile leaves it to be done again."""
        p, data, started = self.progress, self.data, time.monotonic()
        with advice_when_memory_ends(self.device, lambda: smaller_searches(self.config.decoding)):
            validation = validate(self._candidates(), data, self.config, lambda: self.signals.is_stopping)
        if validation is None:
            return
        p.last_validation, p.weights = p.step, validation.weights
        is_best = self._note_score(validation.score(self.settings.select_by))
        record = {"step": p.step, "epoch": p.epoch + 1, **validation.figures, "weights": p.weights, "is_best": is_best}
        self.run.append(self.run.metrics_file, record)
        seconds = time.monotonic() - started
        self.pace.note_validation(seconds)
        self._log_time(validation_seconds=round(seconds, 2))
        self.save()  # what is said below is on the disk
        self.pace.validation_seconds += time.monotonic() - started - seconds  # saving takes time too
        self._speed_started += time.monotonic() - started  # the speed is that of training
        validation.tell(p.step, p.epoch, is_best, data, self.settings.n_samples)

    def _candidates(self) -> dict[str, Transformer]:
        """The weights that a checkpoint holds; the dev loss decides which are translated with."""
        candidates = {"model": self.model}
        if self.optimizer.averaged is not None:
            candidates["averaged"] = self.optimizer.averaged
        return candidates

    def _note_score(self, score: float) -> bool:
        """Whether this validation is the best so far; a score that is not a number never is."""
        p = self.progress
        score = score if math.isfinite(score) else -math.inf
        p.n_validations_without_best = 0 if score > p.best_score_since else p.n_validations_without_best + 1
        p.best_score_since = max(score, p.best_score_since)
        is_best = score > p.best_score
        if is_best:
            p.best_score, p.best_step, p.best_step_before = score, p.step, p.best_step
        return is_best

    # Saving and continuing -------------------------------------------------------------------------------------------

    def save(self) -> None:
        p = self.progress
        p.elapsed_seconds, p.max_steps = time.monotonic() - self._started, self.settings.max_steps
        save_checkpoint(
            self.run.checkpoint_file(p.step),
            {
                **{name: model.state_dict() for name, model in self._candidates().items()},
                "weights": p.weights,
                "optimizer": {"state": self.optimizer.state()},
                "progress": asdict(p),
                "pace": asdict(self.pace),
                "since_log": [self._loss_sum, self._n_tokens],
                "log_sizes": self.run.sizes(),
                "data_sha256": self.data.sha256,
                "tokenizer_sha256": self.data.tokenizer.sha256,
                "precision": str(self.dtype).removeprefix("torch."),
            },
        )
        self._damaged.discard(p.step)
        self._point()
        self._prune()

    def _saved_steps(self) -> list[int]:
        """Those with a checkpoint, up to the present one: a file of a later step is damaged, else it would have been
        continued from, and is left until that step is saved anew."""
        return [step for step in self.run.steps() if step <= self.progress.step]

    def _prune(self) -> None:
        """Keeps the newest checkpoints that are whole and the best one that each of them knows, so that a training can go
        on from either."""
        p = self.progress
        steps = self._saved_steps()
        kept = {*[step for step in steps if step not in self._damaged][-N_KEPT:], p.best_step}
        if p.best_step > min(kept):
            kept.add(p.best_step_before)
        for step in set(steps) - kept:
            self.run.checkpoint_file(step).unlink(missing_ok=True)

    def _point(self) -> None:
        self.run.point("last", self.progress.step)
        if self.progress.best_step:
            self.run.point("best", self.progress.best_step)

    def _fit_batches(self) -> None:
        """Memory that does not suffice is better met now too. What `auto` finds is the run's from now on."""
        n_tokens = fit_batches(self.optimizer, self.data.train, self.settings, self.progress.epoch)
        if n_tokens != self.settings.batch_tokens:
            self.settings = self.settings.model_copy(update={"batch_tokens": n_tokens})
            self.config = self.config.model_copy(update={"training": self.settings})
            self.run.save_config(self.config)
            log.info(f"training.batch_tokens: auto is {n_tokens:,} here")

    def _save_and_stop(self) -> None:
        self.save()
        self.signals.stop(f"stopped at step {self.progress.step}, saved in {self.run.path}")

    def _restore_newest(self) -> None:
        """Continues from the newest checkpoint that is whole; names each one that is not. Never starts from zero where
        there was a checkpoint."""
        steps = self.run.steps()
        for step in reversed(steps):
            file = self.run.checkpoint_file(step)
            try:
                self._restore(load_checkpoint(file), file)
            except CheckpointError as error:
                self._damaged.add(step)
                log.warning(f"{error}; trying the one before it")
                continue
            log.info(f"continuing {self.run.path} from step {self.progress.step}")
            self._point()  # the process may have ended between the checkpoint and these two
            self._prune()
            return
        if steps:
            raise CheckpointError(f"{self.run.checkpoints}: none of {len(steps)} checkpoints can be read; restore one")
        self.run.rewind(dict.fromkeys(self.run.sizes(), 0))  # of steps that were never saved

    def _restore(self, content: dict[str, Any], file: Path) -> None:
        if str(content.get("tokenizer_sha256")) != self.data.tokenizer.sha256:
            raise RunDirError(f"{self.run.path}: its tokenizer was replaced since this run began; restore it")
        if str(content.get("data_sha256")) != str(self.data.sha256):
            raise RunDirError(
                f"{self.run.path}: the train or dev files are not what they were when this run began;"
                " restore them, or choose another --run-dir"
            )
        try:
            self._take_over(content, file)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            if is_out_of_memory(error) or is_device_failure(error):
                raise  # the checkpoint is not to blame
            reason = " ".join(str(error).split())[:100]
            raise CheckpointError(f"{file}: not a training's checkpoint ({type(error).__name__}: {reason})") from None

    def _take_over(self, content: dict[str, Any], file: Path) -> None:
        refuse_other_shapes(self.model, content["model"], file)
        self.model.load_state_dict(content["model"])
        precision = {"bfloat16": torch.bfloat16, "float32": torch.float32}[content["precision"]]
        if precision != self.dtype:
            self.dtype, self.why_dtype = precision, "as this run began"
            self.optimizer = Optimizer(self.model, self.settings, self.dtype)
        if self.optimizer.averaged is not None:
            refuse_other_shapes(self.model, content["averaged"], file)
            self.optimizer.averaged.load_state_dict(content["averaged"])
        self.optimizer.restore(content["optimizer"]["state"])
        self.progress = restored(Progress, content["progress"])
        self.pace = restored(Pace, content["pace"])
        loss_sum, n_tokens = content["since_log"]
        self._loss_sum, self._n_tokens = float(loss_sum), int(n_tokens)
        self.run.rewind(content["log_sizes"])
