"""A training that is killed, cut off or stopped anywhere ends as if nothing had happened."""

import itertools
import random
import re
import shutil
import signal
import time
from pathlib import Path

import crash_points
import pytest
from nursery import Nursery, announced_step, continued_step
from same_training import differences
from tiny_trainer import options

LIFE = options(
    *("model.dropout=0.2", "training.n_samples=0", "training.batch_tokens=256", "training.accumulate=2"),
    *("training.max_steps=4", "training.validate_every_steps=1"),
    *("training.select_by=bleu", "training.patience=3"),  # the first step stays the best, and so the fourth is the last
)
LONG = [*LIFE, *options("training.max_steps=20", "training.validate_every_steps=5")]
LONG += options("training.select_by=chrf", "training.patience=4")


@pytest.fixture(scope="module")
def whole(nursery: Nursery, folder: Path) -> Path:
    """A short training that nothing disturbed."""
    assert nursery.run("train", "tiny.yaml", "--run-dir", "whole", *LIFE) == 0, nursery.said
    return folder / "whole"


@pytest.fixture(scope="module")
def begun(nursery: Nursery, folder: Path, whole: Path) -> Path:
    """The same one, killed when it had saved two steps."""
    before = "import crash_points; crash_points.kill_after('Checkpoints.save', 2)"
    assert nursery.run("train", "tiny.yaml", "--run-dir", "begun", *LIFE, before=before) == -signal.SIGKILL
    return folder / "begun"


class Sweep:
    """Disturbs a training at one change of the disk after the other, from an empty folder or from a begun run."""

    def __init__(self, nursery: Nursery, whole: Path, begun: Path | None):
        self.nursery, self.whole, self.begun, self.run = nursery, whole, begun, whole.with_name("disturbed")

    def train(self, before: str = "") -> int:
        return self.nursery.run("train", "tiny.yaml", "--run-dir", self.run.name, *LIFE, before=before)

    def meets(self, mishap: str, moment: int) -> bool:
        """Whether the training was still alive at that moment; and if so, that nothing was lost."""
        shutil.rmtree(self.run, ignore_errors=True)
        if self.begun is not None:
            shutil.copytree(self.begun, self.run)
        code = self.train(f"from crash_points import CrashPoints; CrashPoints({mishap!r}, {moment})")
        said, where = self.nursery.said, f"{mishap} at change {moment}"
        assert "Traceback" not in said, where + said
        if code == 0 and "finished at step" in said:
            assert not differences(self.run, self.whole), where
            return False
        assert code == {"full disk": 1, "SIGTERM": 143, "SIGINT": 130}.get(mishap, crash_points.EXIT_CODE), where + said
        if mishap == "full disk":
            told = r"error: cannot write (\S+): No space left on device; free space and run the same command again"
            assert re.fullmatch(told, said.splitlines()[-1]), where + said
        saved = announced_step(said) or (2 if self.begun else 0)
        assert self.train() == 0, where + self.nursery.said
        again = self.nursery.said
        went_on = continued_step(again)
        assert went_on >= saved, f"{where}: step {saved} was saved, and it went on from {went_on}"
        assert "trying the one before" not in again, f"{where}: {again}"
        found = differences(self.run, self.whole)
        assert not found, f"{where}: {found}"
        assert not list(self.run.rglob(".tmp-*")), where
        return True


@pytest.mark.parametrize("mishap", crash_points.MISHAPS)
def test_a_training_disturbed_somewhere_loses_nothing(nursery, whole, begun, mishap):
    """A sample of the next test."""
    rng = random.Random(mishap)
    Sweep(nursery, whole, None).meets(mishap, rng.randint(1, 150))
    Sweep(nursery, whole, begun).meets(mishap, rng.randint(1, 100))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("start", ["first", "continued"])
@pytest.mark.parametrize("mishap", crash_points.MISHAPS)
def test_a_training_disturbed_at_any_change_of_the_disk_loses_nothing(nursery, whole, begun, mishap, start):
    """Of the first start (tokenizer, token ids, config, lock), of continuing, of every save and of its pruning."""
    sweep = Sweep(nursery, whole, begun if start == "continued" else None)
    assert next(moment for moment in itertools.count(1) if not sweep.meets(mishap, moment)) > 21


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_training_killed_again_and_again_a_little_later_each_time_loses_nothing(nursery, whole):
    sweep = Sweep(nursery, whole, None)
    shutil.rmtree(sweep.run, ignore_errors=True)
    reached = 0
    for moment in itertools.count(1):
        code = sweep.train(f"from crash_points import CrashPoints; CrashPoints('killed', {moment})")
        assert not reached or continued_step(nursery.said) in {0, reached}
        reached = max(reached, announced_step(nursery.said))
        if code == 0:
            break
        assert code == crash_points.EXIT_CODE, nursery.said
    assert moment > 20 and not differences(sweep.run, whole)


@pytest.fixture(scope="module")
def long_run(nursery: Nursery, folder: Path) -> tuple[Path, float]:
    """A longer training that nothing disturbed, and its seconds."""
    started = time.monotonic()
    assert nursery.run("train", "tiny.yaml", "--run-dir", "long", *LONG) == 0, nursery.said
    return folder / "long", time.monotonic() - started


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_nothing(nursery, folder, long_run):
    expected, seconds = long_run
    rng, n_kills, n_runs = random.Random(1), 0, 0
    while n_kills < 20:
        n_runs, reached, code = n_runs + 1, 0, -signal.SIGKILL
        run = folder / f"killed-{n_runs}"
        while code != 0:
            process = nursery.start("train", "tiny.yaml", "--run-dir", run.name, *LONG)
            if n_kills < 20:
                time.sleep(rng.uniform(0, seconds))
                process.kill()
            code, said = process.wait(), nursery.said
            n_kills += code != 0
            assert code in {0, -signal.SIGKILL}, said
            if "computing in" in said or code == 0:
                assert continued_step(said) >= reached, said
            reached = max(reached, announced_step(said))
        assert not differences(run, expected)


@pytest.mark.parametrize(
    ("function", "n_calls"),
    [
        ("make_batch", 5),  # in the middle of an epoch
        ("summed_loss", 27),  # between the two batches of an update
        ("Optimizer.average_and_clip", 14),  # between gradients and update
        ("Optimizer.step", 13),
        ("mean_loss", 2),  # in the middle of a validation
        ("count_texts", 1),
        ("save_checkpoint", 3),  # before `last` and `best` are told
        ("Checkpoints.save", 2),  # before anybody is told
    ],
)
def test_a_kill_between_two_steps_of_anything_changes_nothing(nursery, folder, long_run, function, n_calls):
    run = folder / f"killed-after-{function}"
    command = ["train", "tiny.yaml", "--run-dir", run.name, *LONG]
    before = f"import crash_points; crash_points.kill_after({function!r}, {n_calls})"
    assert nursery.run(*command, before=before) == -signal.SIGKILL
    reached = announced_step(nursery.said)
    assert nursery.run(*command) == 0
    assert continued_step(nursery.said) >= reached
    assert not differences(run, long_run[0])


def test_a_signal_between_the_last_step_and_its_validation_loses_no_validation(nursery, folder, whole):
    run = folder / "signalled-at-the-end"
    command = ["train", "tiny.yaml", "--run-dir", run.name, *LIFE]
    before = "import crash_points; crash_points.kill_after('Optimizer.step', 4, 'SIGTERM')"
    assert nursery.run(*command, before=before) == 143, nursery.said
    assert nursery.run(*command) == 0
    assert not differences(run, whole)
