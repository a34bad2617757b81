"""Several processes train one model: they compute what one does, stop together, and name the one that fails."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from same_training import differences
from tiny_trainer import options

from mt_cli.errors import TrainingError
from mt_cli.run.checkpoint import load_checkpoint
from mt_cli.run.run_dir import RunDir
from mt_cli.training.ranks import Ranks

Start = Callable[..., "list[subprocess.Popen[bytes]]"]
SETTINGS = options("training.batch_tokens=2048", "training.precision=fp32", "training.n_samples=0")
SHORT = [*SETTINGS, *options("training.max_steps=6", "training.validate_every_steps=3", "training.warmup_steps=2")]
ENDLESS = [*SETTINGS, *options("training.max_steps=1000000", "training.validate_every_steps=20")]


@pytest.fixture
def start(mt_process: Callable[..., subprocess.Popen[bytes]]) -> Iterator[Start]:
    """`start(n, ...)`: the command as `torchrun` starts it, n times."""
    started = []

    def processes(n: int, *arguments: object, folders: dict[int, Path] | None = None) -> list[subprocess.Popen[bytes]]:
        environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(n)}
        for rank in range(n):
            environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            started.append(mt_process(*arguments, env=environment, cwd=(folders or {}).get(rank)))
        return started[-n:]

    yield processes
    for process in started:
        process.kill()
        process.communicate()


def torchrun(*words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "torch.distributed.run", *map(str, words)]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def answers(processes: list[subprocess.Popen[bytes]]) -> list[tuple[int, str]]:
    """Exit codes, and what was said on stderr."""
    said = [process.communicate(timeout=200)[1].decode() for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def weights(run: Path) -> dict[str, Any]:
    return load_checkpoint(RunDir(run).find_checkpoint("last"))["model"]


def test_two_processes_of_one_thread_train_as_one_process_of_two_threads(tiny, start, mt_process):
    both_kinds = options("training.both_directions=0.5", "training.r_drop=1")
    two_threads = {"env": {"OMP_NUM_THREADS": "2"}, "is_forked": False}  # torch reads it when it is imported
    alone = mt_process("train", "tiny.yaml", *SHORT, *both_kinds, "--run-dir", "one", **two_threads)
    assert alone.communicate(timeout=250) and alone.returncode == 0
    (first, said), other = answers(start(2, "train", "tiny.yaml", *SHORT, *both_kinds, "--run-dir", "two"))
    assert (first, *other) == (0, 0, "") and "finished at step 6" in said
    assert differences(tiny / "two", tiny / "one") == []


@pytest.mark.slow
def test_four_processes_agree_with_one_and_another_number_continues(tiny, start, mt):
    same = [*SHORT, *options("model.dropout=0")]  # which each part of a batch draws for itself
    assert mt("train", "tiny.yaml", *same, "--run-dir", "one").code == 0
    assert [code for code, _ in answers(start(4, "train", "tiny.yaml", *same, "--run-dir", "four"))] == [0] * 4
    for name, weight in weights(tiny / "four").items():
        if name.endswith("w_k.bias"):
            continue  # its gradient is zero but for rounding, which AdamW enlarges
        assert weight.allclose(weights(tiny / "one")[name], atol=1e-4), name
    longer = [*same, *options("training.max_steps=9")]
    assert [code for code, _ in answers(start(2, "train", "tiny.yaml", *longer, "--run-dir", "four"))] == [0, 0]
    assert RunDir(tiny / "four").steps()[-1] == 9


def wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if file.exists() and file.stat().st_size:
            return
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.1)
    raise AssertionError(f"{file} was not written")


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_process_stops_all_at_the_same_step_and_one_that_dies_ends_the_others_with_a_message(
    tiny, start, rank
):
    processes = start(2, "train", "tiny.yaml", *ENDLESS, "--run-dir", "run")
    wait_for(tiny / "run" / "metrics.jsonl", processes[0])
    processes[rank].send_signal(signal.SIGTERM)
    (first, said), (second, nothing) = answers(processes)
    assert {first, second} == {143, 130} and ((first, second)[rank] == 143) and nothing == ""
    step = RunDir(tiny / "run").steps()[-1]
    assert f"stopped at step {step}, saved in run" in said
    processes = start(2, "train", "tiny.yaml", *ENDLESS, "--run-dir", "killed")
    wait_for(tiny / "killed" / "last", processes[0])
    processes[rank].kill()
    other = processes[1 - rank]
    said = other.communicate(timeout=250)[1].decode()
    assert other.returncode == 1
    assert "another process of this training has ended or hangs" in said and "start the same command again" in said


@pytest.mark.slow
def test_a_process_with_other_files_or_another_config_is_refused_by_name(tiny, start):
    other = tiny / "other"
    other.mkdir()
    for name in ("tiny.yaml", "train.en", "train.de", "dev.en", "dev.de", "test.en", "test.de"):
        (other / name).write_bytes((tiny / name).read_bytes())
    (other / "train.de").write_text((tiny / "train.de").read_text().replace("e", "a"))
    command = ("train", "tiny.yaml", *SHORT, "--run-dir", tiny / "run")
    (first, said), (second, told) = answers(start(2, *command, folders={1: other}))
    assert (first, second) == (1, 1), said + told
    assert "error: process 1: " in told and "train" in told, told
    assert "another process of this training has ended" in said
    (other / "tiny.yaml").write_text((tiny / "tiny.yaml").read_text().replace("n_heads: 2", "n_heads: 1"))
    (first, said), (second, told) = answers(start(2, *command, folders={1: other}))
    assert (first, second) == (1, 1)
    assert "error: process 1: model.n_heads is 1 here, 2 in process 0; give all the same" in told


@pytest.mark.slow
def test_torchrun_starts_the_processes_again_and_they_continue(tiny):
    longer = [*SETTINGS, *options("training.max_steps=600", "training.validate_every_steps=20")]
    many = ("--nproc-per-node", 2, "--max-restarts", 1, "-m", "mt_cli")
    process = torchrun(*many, "train", "tiny.yaml", *longer, "--run-dir", "run")
    wait_for(tiny / "run" / "last", process)
    os.kill(int((tiny / "run" / ".owner").read_text().split()[1]), signal.SIGKILL)
    [(code, said)] = answers([process])
    assert code == 0, said
    assert "continuing run from step " in said and "finished at step 600" in said


@pytest.mark.slow
def test_the_commands_of_the_page_run(tiny):
    page = (Path(__file__).parents[1] / "docs" / "scaling.md").read_text(encoding="utf-8")
    alone, many = re.findall(r"^    torchrun (--n.*)$", page[: page.index("## Slurm")], re.MULTILINE)
    changes = {
        "configs/phrasebook.yaml": "tiny.yaml",
        "mine.yaml": "tiny.yaml",
        "first:29500": f"localhost:{free_port()}",
    }
    changes["--nproc-per-node 4"] = "--nproc-per-node 1"
    for line, n_times in ((alone, 1), (many, 2)):
        for old, new in changes.items():
            line = line.replace(old, new)
        started = [torchrun(*line.split(), *SHORT, "--run-dir", f"run-{n_times}") for _ in range(n_times)]
        assert [code for code, _ in answers(started)] == [0] * n_times
    assert differences(Path("run-2"), Path("run-1")) == []


def test_a_message_that_fails_is_told_with_its_reason(monkeypatch):
    fails = Mock(side_effect=RuntimeError("No backend type associated with device type mps\nmore"))
    monkeypatch.setattr("mt_cli.training.ranks.dist.all_reduce", fails)
    with pytest.raises(TrainingError, match=r"hangs \(No backend type associated with device type mps\); start"):
        Ranks(0, 2).sum(1.0)


@pytest.mark.slow
def test_one_process_trains_several_runs_one_after_the_other(tiny):
    script = (
        "from mt_cli import train\nfrom mt_cli.config_file import load_config\nfrom pathlib import Path\n"
        "for name in 'ab':\n"
        "    train(load_config(Path('tiny.yaml'), ['training.max_steps=1']), Path(name))\n"
    )
    Path("twice.py").write_text(script)
    [(code, said)] = answers([torchrun("--nproc-per-node", 2, "--standalone", "twice.py")])
    assert code == 0, said
    assert (tiny / "a/best").exists() and (tiny / "b/best").exists()
