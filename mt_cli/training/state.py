"""What a training is given, everything that it changes (weights, moments, counters, plan), and its checkpoints, which by the
types of `Progress` and `Speed` refuse wrong values when they are read back."""

import contextlib
import logging
import math
import time
from dataclasses import asdict, field
from dataclasses import dataclass as plain_dataclass
from typing import Annotated

import torch
from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from mt_cli.config import Config, DataConfig, TrainingConfig
from mt_cli.data.corpus import SentencePair
from mt_cli.data.dataset import Mixture
from mt_cli.data.reading import CorpusProfile
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.errors import CheckpointError, RunDirError, is_of_machine
from mt_cli.model.transformer import Transformer
from mt_cli.run import checkpoint
from mt_cli.run.run_dir import RunDir
from mt_cli.training.optimizer import Optimizer
from mt_cli.training.ranks import ALONE, Ranks
from mt_cli.training.schedule import STRICT, Count, Plan, Seconds, Speed

log = logging.getLogger(__name__)

N_KEPT = 2  # newest checkpoints, beside the best one
Step = Annotated[int, Field(ge=0, le=100_000_000)]
Score = Annotated[float, Field(lt=math.inf)]  # -inf: none yet

FAR_ABOVE = 1.0  # nats above the lowest loss, where it may not stay; with configs/ it varies by a quarter of that
_CLEARLY_BELOW = 0.5  # nats


@plain_dataclass
class PreparedPair:
    """A language pair that is trained on."""

    data: DataConfig
    profile: CorpusProfile
    dev: Mixture  # the dev set; BLEU and chrF are those of `dev_pairs`
    dev_pairs: list[SentencePair]


@plain_dataclass
class PreparedData:
    config: Config  # with a value for each key that was left open
    tokenizer: Tokenizer
    train: Mixture
    pairs: list[PreparedPair]  # at least one
    sha256: str  # of all that the training depends on


@dataclass(config=STRICT)
class Progress:
    """How far a training has come. Dropout and the order of the batches follow from it."""

    step: Step = 0  # updates done
    epoch: Count = 0
    batch: Count = 0  # batches of this epoch already trained on
    is_last_phase: bool = False  # of this epoch
    best_step: Step = 0  # 0: none yet
    previous_best_step: Step = 0
    best_score: Score = -math.inf  # higher is better, whatever `select_by` is
    best_loss: Score = -math.inf  # on dev, of the best; -inf where it is not known
    last_validation_step: Step = 0
    weights: Annotated[str, Field(pattern="^(model|averaged)$")] = "model"  # of the lower dev loss at that validation
    elapsed_seconds: Seconds = 0.0
    loss_sum: float = 0.0  # nats, since the last log record
    n_tokens: Count = 0  # likewise, of the target
    n_passes: Annotated[int, Field(ge=1, le=2)] = 1  # forward passes of each pair in the steps of the next log record
    is_of_last_phase: bool = False  # the last log record

    # Starting anew when the run is given more steps (`extend_to`):
    max_steps: Step = 0
    best_score_since: Score = -math.inf
    n_validations_without_best: Count = 0  # in a row
    lowest_loss: Annotated[float, Field(gt=-math.inf)] = math.inf  # of the log records with this number of passes
    n_records_far_above: Count = 0  # log records in a row whose loss is far above it

    def extend_to(self, max_steps: int) -> None:
        """A run that gets more steps than it had is judged anew: its learning rate rises again, and with it the loss."""
        if max_steps > self.max_steps:
            self.best_score_since, self.n_validations_without_best = -math.inf, 0
            self.lowest_loss, self.n_records_far_above = math.inf, 0
        self.max_steps = max_steps

    def note_loss(self, loss: float, n_passes: int) -> None:
        """Of a log record. When R-Drop or the last phase begins, the loss is a different one and may start higher."""
        if (self.n_passes, self.is_of_last_phase) != (n_passes, self.is_last_phase):
            self.n_passes, self.is_of_last_phase = n_passes, self.is_last_phase
            self.lowest_loss, self.n_records_far_above = math.inf, 0
            return
        self.lowest_loss = min(self.lowest_loss, loss)
        self.n_records_far_above = self.n_records_far_above + 1 if loss > self.lowest_loss + FAR_ABOVE else 0

    def note_validation(self, score: float, loss: float) -> str:
        """How this validation is the best so far, or "": by its score, or by a clearly lower loss, as with scores by chance."""
        best = "best" if score > self.best_score else ""
        if not best and loss < self.best_loss - _CLEARLY_BELOW:
            best = "best, by its loss"
        is_best_since = bool(best) or score > self.best_score_since
        self.n_validations_without_best = 0 if is_best_since else self.n_validations_without_best + 1
        self.best_score_since = score if best else max(score, self.best_score_since)
        if best:
            self.best_score, self.best_loss = score, loss
            self.best_step, self.previous_best_step = self.step, self.best_step
        return best


@plain_dataclass
class TrainingState:
    config: Config
    model: Transformer  # float32, on the device
    dtype: torch.dtype  # that the network computes in
    dtype_reason: str
    progress: Progress = field(default_factory=Progress)
    speed: Speed = field(default_factory=Speed)
    optimizer: Optimizer = field(init=False)
    settings: TrainingConfig = field(init=False)  # the config's `training`, with the values of the plan

    def __post_init__(self) -> None:
        self.optimizer = Optimizer(self.model, self.config.training, self.dtype)
        self.follow(self.speed.plan)

    def follow(self, plan: Plan | None) -> None:
        """Replaces the config's steps and schedule by those of a plan for a given time."""
        self.speed.plan = plan
        self.settings = self.config.training.model_copy(update=asdict(plan) if plan else None)

    @property
    def candidates(self) -> dict[str, Transformer]:
        """The weights of a checkpoint, plain and averaged: those with the lower dev loss translate."""
        averaged = self.optimizer.averaged
        return {"model": self.model} if averaged is None else {"model": self.model, "averaged": averaged}

    @property
    def is_at_last_step(self) -> bool:
        return self.progress.step >= self.settings.max_steps

    @property
    def is_validation_due(self) -> bool:
        p = self.progress
        is_time = p.step % self.settings.validate_every_steps == 0 or self.is_at_last_step
        return p.step > p.last_validation_step and is_time

    @property
    def is_finished(self) -> bool:
        """Also validated: a signal can come between the last step and its validation."""
        # In a training for a given time the best scores come at the end, where the learning rate is low.
        n_without = self.progress.n_validations_without_best if self.settings.minutes is None else 0
        return (self.is_at_last_step or n_without >= self.settings.patience) and not self.is_validation_due


class Checkpoints:
    """The checkpoints of one training, on the disk."""

    def __init__(self, run: RunDir, state: TrainingState, started: float, ranks: Ranks = ALONE):
        """`started`: when the command did, in seconds of `time.monotonic`."""
        self.run, self.state, self.ranks = run, state, ranks
        self.started = started  # of the training, earlier starts included, once one is restored
        self._damaged: set[int] = set()  # steps whose checkpoints were found to be damaged
        self._step = 0  # of the newest that was saved or restored

    def save(self) -> None:
        state, p = self.state, self.state.progress
        p.elapsed_seconds, p.max_steps = time.monotonic() - self.started, state.settings.max_steps
        content = {
            **{name: model.state_dict() for name, model in state.candidates.items()},
            "weights": p.weights,
            "optimizer": {"state": state.optimizer.state()},
            "progress": asdict(p),
            "speed": asdict(state.speed),
            "logs": self.run.logs.sync(),
            "config": state.config.model_dump(),
            "manifest_sha256": self.run.manifest.sha256,
            "precision": str(state.dtype).removeprefix("torch."),
        }
        checkpoint.save_checkpoint(self.run.checkpoint_file(p.step), content)
        self._damaged.discard(p.step)
        self._step = p.step
        self._point_and_prune()

    def steps(self) -> list[int]:
        """Those with a checkpoint, up to the present one. A later file is damaged, and stays until its step is saved anew."""
        return [step for step in self.run.steps() if step <= self._step]

    def restore(self) -> None:
        """Restores the state in all processes from the checkpoint that the first one finds to be the newest whole one."""
        step = self.ranks.broadcast(self.ranks.on_first(self._restore_newest))
        if step is not None and not self.ranks.is_first:
            self._step = step
            self._restore(step)
        self.state.progress = self.ranks.broadcast(self.state.progress)  # in which a damaged best one is forgotten

    def _restore_newest(self) -> int | None:
        """The step of the newest whole checkpoint, restored. Raises CheckpointError where there are only damaged ones."""
        steps = self.run.steps()
        for step in reversed(steps):
            try:
                self._restore(step)
            except CheckpointError as error:
                self._damaged.add(step)
                log.warning(f"{error}; trying the one before it")
                continue
            self.started -= self.state.progress.elapsed_seconds
            self._step = step
            log.info(f"continuing {self.run.path} from step {step}")
            self.verify_best()
            # The process may have ended after saving the checkpoint and before these two.
            self._point_and_prune()
            return step
        if steps:
            raise CheckpointError(f"{self.run.checkpoints}: none of {len(steps)} checkpoints can be read; restore one")
        self.run.logs.rewind({file.name: 0 for file in self.run.logs.files})  # of steps that were never saved
        return None

    def verify_best(self) -> None:
        """Warns of a damaged best checkpoint; the next validation then makes a new best one."""
        progress = self.state.progress
        try:
            if progress.best_step not in {0, self._step}:  # the latter has just been written or read
                checkpoint.load_checkpoint(self.run.checkpoint_file(progress.best_step))
        except CheckpointError as error:
            log.warning(f"{error}; it was the best one: restore it from a copy, or translate with --checkpoint last")
            progress.best_step, progress.best_score = 0, -torch.inf

    def _point_and_prune(self) -> None:
        """Keeps the newest whole checkpoints, to go on from any, and the best one that each of them knows."""
        progress = self.state.progress
        self.run.point("last", progress.step)
        steps, best = self.steps(), progress.best_step
        if best:
            self.run.point("best", best)
        else:  # of a damaged one the file is kept, as the disk may be to blame
            with contextlib.suppress(RunDirError):
                best = int(self.run.find_checkpoint("best").stem.removeprefix("step-"))
        kept = {*[step for step in steps if step not in self._damaged][-N_KEPT:], best}
        if progress.best_step > min(kept):
            kept.add(progress.previous_best_step)
        for file in map(self.run.checkpoint_file, set(steps) - kept):
            with contextlib.suppress(PermissionError, IsADirectoryError):  # Windows, while another program reads it
                file.unlink(missing_ok=True)

    def _restore(self, step: int) -> None:
        state, file = self.state, self.run.checkpoint_file(step)
        content = checkpoint.load_checkpoint(file)
        try:
            checkpoint.refuse_other_run(content, state.config, self.run, ("data", "tokenizer", "model", "training"))
            dtype = {"bfloat16": torch.bfloat16, "float32": torch.float32}[content["precision"]]
            if dtype != state.dtype:
                state.dtype, state.dtype_reason = dtype, "as this run began"
                state.optimizer = Optimizer(state.model, state.settings, dtype)
            for name, model in state.candidates.items():
                checkpoint.refuse_other_weights(model, content[name], file)
                model.load_state_dict(content[name])
            moments = content["optimizer"]["state"]
            state.optimizer.restore(moments)
            for index, of_weight in moments.items():
                of_tensors = {f"{name} of weight {index}": moment for name, moment in of_weight.items()}
                checkpoint.refuse_non_finite(of_tensors, file)
            state.progress = Progress(**content["progress"])
            plan = content["speed"]["plan"]
            state.speed = Speed(**{**content["speed"], "plan": Plan(**plan) if plan else None})
            state.follow(state.speed.plan if state.settings.minutes is not None else None)
            if state.progress.step != step:
                raise ValueError(f"it is of step {state.progress.step}")
            for damage in self.run.logs.rewind(content["logs"]) if self.ranks.is_first else ():
                log.warning(f"{damage}, and goes on as it is; restore it from a copy")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            if is_of_machine(error):
                raise
            # The text of a ValidationError has the values: a stranger's can take gigabytes.
            found = error.title if isinstance(error, ValidationError) else " ".join(str(error).split())[:100]
            raise CheckpointError(f"{file}: not a training's checkpoint ({type(error).__name__}: {found})") from None
