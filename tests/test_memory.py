"""Memory that does not suffice is told before the first step, with what to set; trying it changes nothing."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_trainer import options, trainer_of

from mt_cli import build as run
from mt_cli import device
from mt_cli.build import fit_batch_tokens
from mt_cli.config import AUTO
from mt_cli.config_file import load_config
from mt_cli.data.batching import epoch_batches, make_batch
from mt_cli.decoding.translator import Translator
from mt_cli.errors import TrainingError, is_out_of_memory
from mt_cli.run.checkpoint import load_checkpoint
from mt_cli.run.run_dir import RunDir
from mt_cli.training import gradients, memory
from mt_cli.training.state import Progress
from mt_cli.training.update import Updates

FULL = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 12345 bytes."


@pytest.fixture
def memory_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Batches of more target positions than given end the memory; gives back a list of those that were tried."""

    def limit(n_positions: int) -> list[int]:
        real, tried = gradients.summed_loss, []

        def loss(network: Any, batch: Any, label_smoothing: float, r_drop: float, is_fused: bool) -> torch.Tensor:
            n_readings = 2 if r_drop else 1
            tried.append(n_readings * batch.tgt_out.numel())
            if batch.tgt_out.numel() > n_positions:
                raise RuntimeError(FULL)
            return real(network, batch, label_smoothing, r_drop, is_fused)

        monkeypatch.setattr(gradients, "summed_loss", loss)
        monkeypatch.setattr(memory, "AS_FAST", math.inf)  # so that the first that fits is taken
        return tried

    return limit


def test_the_batches_tried_are_the_largest_of_the_epoch(tiny: Path) -> None:
    dataset = trainer_of(tiny / "run").data.train
    tried = [make_batch(dataset, indices) for indices in memory.largest_batches(dataset, 128, seed=1, epoch=0)]
    every = [make_batch(dataset, indices) for indices in epoch_batches(dataset, 128, seed=1, epoch=0)]
    assert 1 <= len(tried) <= 3 < len(every)
    for size in (lambda b: b.tgt_out.numel(), lambda b: b.src_ids.numel(), lambda b: b.tgt_mask.numel()):
        assert max(map(size, tried)) == max(map(size, every))


def test_what_is_learnt_in_both_directions_is_tried_in_both(tiny: Path, memory_for: Callable[[int], list[int]]) -> None:
    tried = memory_for(10**9)
    fit_batch_tokens(trainer_of(tiny / "forth"))
    forth = tried.copy()
    trainer = trainer_of(tiny / "both", "training.both_directions=0.5")
    fit_batch_tokens(trainer)
    training = trainer.state.settings
    largest = memory.largest_batches(trainer.data.train, training.batch_tokens, training.seed, epoch=0)
    back = [make_batch(trainer.data.train, indices).src_ids.numel() for indices in largest]
    assert back and tried == forth + forth + back


def test_what_is_read_twice_is_tried_twice(tiny: Path, memory_for: Callable[[int], list[int]]) -> None:
    tried = memory_for(10**9)
    fit_batch_tokens(trainer_of(tiny / "once", "training.both_directions=0.5"))
    once = tried.copy()
    fit_batch_tokens(trainer_of(tiny / "twice", "training.both_directions=0.5", "training.r_drop=1"))
    n = len(once) // 2
    assert n and tried[len(once) :] == [*once, *(2 * size for size in once[:n])]


def test_the_gradients_of_each_thread_are_tried_too(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(tiny / "run")
    held: dict[int, int] = {}
    empty_like = torch.empty_like
    for n_threads in (1, 4):
        sizes: list[int] = []
        monkeypatch.setattr(memory, "Workers", lambda *args, n=n_threads: SimpleNamespace(n=n))
        monkeypatch.setattr(torch, "empty_like", lambda x, to=sizes: to.append(x.numel()) or empty_like(x))
        fit_batch_tokens(trainer)
        held[n_threads] = sum(sizes)
    assert held[4] - held[1] == 3 * sum(weight.numel() for weight in trainer.state.model.parameters())


def test_too_large_a_batch_is_told_before_the_first_step_and_its_advice_can_be_followed(
    mt: Any, tiny: Path, memory_for: Callable[[int], list[int]]
) -> None:
    memory_for(300)
    answer = mt("train", "tiny.yaml")
    assert answer.code == 1
    assert answer.said[-1] == (
        "error: out of memory on cpu at training.batch_tokens 512; set training.batch_tokens to 256 and"
        " training.accumulate to 2, for updates of the same size"
    )
    assert RunDir(Path("runs/tiny")).steps() == [] and not Path("runs/tiny/metrics.jsonl").exists()
    advised = options("training.batch_tokens=256", "training.accumulate=2", "training.max_steps=2")
    answer = mt("train", "tiny.yaml", *advised)
    assert answer.code == 0, "nothing was trained yet, so the run may be begun otherwise"


@pytest.mark.parametrize("also", [(), ("training.optimizer=muon", "training.batch_tokens=auto")])
def test_trying_changes_neither_weights_nor_random_numbers(tiny: Path, also: tuple[str, ...]) -> None:
    trainer = trainer_of(tiny / "run", "model.dropout=0.5", "training.precision=bf16", *also)
    models = trainer.state.model, trainer.state.optimizer.network, trainer.state.optimizer.averaged
    before = [{name: weight.clone() for name, weight in model.state_dict().items()} for model in models]
    state = torch.get_rng_state()
    memory.fit_batches(trainer.state.optimizer, trainer.data.train, trainer.state.settings, epoch=0)
    assert torch.equal(torch.get_rng_state(), state)
    for model, of_model in zip(models, before, strict=True):
        assert all(torch.equal(weight, of_model[name]) for name, weight in model.state_dict().items())
    assert all(
        weight.grad is None
        for module in (trainer.state.model, trainer.state.optimizer.network)
        for weight in module.parameters()
    )
    assert not trainer.state.optimizer.state()
    assert trainer.state.progress == Progress(max_steps=trainer.state.settings.max_steps)


def test_training_is_the_same_with_and_without_trying(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = [
        "model.dropout=0.3",
        "training.max_steps=6",
        "training.validate_every_steps=3",
        "training.batch_tokens=128",
    ]
    trainer_of(tiny / "tried", *short).train()
    monkeypatch.setattr(run, "fit_batches", lambda optimizer, dataset, training, epoch: training.batch_tokens)
    trainer_of(tiny / "untried", *short).train()
    tried, untried = (load_checkpoint(RunDir(tiny / name).find_checkpoint("last")) for name in ("tried", "untried"))
    assert all(torch.equal(weight, tried["model"][name]) for name, weight in untried["model"].items())


def test_auto_finds_the_most_that_fits_and_a_continued_run_keeps_it(
    mt: Any, tiny: Path, memory_for: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = trainer_of(tiny / "elsewhere").data.train
    room = 256 * 9 // 8  # for 256 and the eighth in reserve; 384 and its eighth would need more
    tried = memory_for(room)
    assert sum(int(n) + 1 for n in dataset.lengths(range(len(dataset)))[1]) > 384 * 9 // 8 > room
    command = ["train", "tiny.yaml", *options("training.batch_tokens=auto", "training.validate_every_steps=3")]
    answer = mt(*command, *options("training.max_steps=3"))
    assert answer.code == 0, answer.err
    assert "training.batch_tokens: auto is 256 here" in answer.said
    assert load_config(Path("runs/tiny/config.yaml")).training.batch_tokens == 256
    assert tried[0] > tried[-1]
    memory_for(10_000)  # another day there is more
    answer = mt(*command, *options("training.max_steps=6"))
    assert answer.code == 0 and "continuing runs/tiny from step 3" in answer.said
    assert not [line for line in answer.said if "batch_tokens" in line]
    assert load_config(Path("runs/tiny/config.yaml")).training.batch_tokens == 256
    whole = mt("train", "tiny.yaml", "--run-dir", "whole", *options("training.batch_tokens=256", "training.validate_every_steps=3", "training.max_steps=6"))  # fmt: skip
    assert whole.code == 0
    mine, theirs = (
        load_checkpoint(RunDir(Path(name)).find_checkpoint("last"))["model"] for name in ("runs/tiny", "whole")
    )
    assert all(torch.equal(weight, mine[name]) for name, weight in theirs.items())


def test_auto_is_tried_where_a_start_with_a_number_has_failed(mt: Any, tiny: Path) -> None:
    Path("short.de").write_text("".join(Path("train.de").read_text().splitlines(keepends=True)[:-1]))
    failing = options("data.train=[train.en, short.de]", "training.batch_tokens=64")
    assert mt("train", "tiny.yaml", *failing).code == 1
    answer = mt("train", "tiny.yaml", *options("training.batch_tokens=auto", "training.max_steps=1"))
    assert answer.code == 0 and any("training.batch_tokens: " in line for line in answer.said)


def test_auto_that_finds_no_room_at_all_says_so(mt: Any, tiny: Path, memory_for: Callable[[int], list[int]]) -> None:
    memory_for(0)
    answer = mt("train", "tiny.yaml", *options("training.batch_tokens=auto"))
    assert answer.code == 1 and answer.said[-1] == (
        "error: out of memory on cpu even at training.batch_tokens 48; use a smaller model, or lower data.max_length"
    )


def test_memory_that_ends_in_the_middle_is_told_and_keeps_the_last_checkpoint(
    mt: Any, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Updates.compute

    def ending(updates: Updates) -> Any:
        if updates._state.progress.step == 7:
            raise RuntimeError(FULL)
        return real(updates)

    monkeypatch.setattr(Updates, "compute", ending)
    answer = mt("train", "tiny.yaml", *options("training.validate_every_steps=5", "training.max_steps=9"))
    assert answer.code == 1
    assert answer.said[-1] == (
        "error: out of memory on cpu at training.batch_tokens 512; in a new run set training.batch_tokens to 256 and"
        " training.accumulate to 2, for updates of the same size; the last checkpoint is step 5"
    )
    assert RunDir(Path("runs/tiny")).steps() == [5]


def test_memory_that_ends_while_validating_is_told_and_its_advice_can_be_followed(
    mt: Any, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "search", lambda *arguments: (_ for _ in ()).throw(RuntimeError(FULL)))
        answer = mt("train", "tiny.yaml", *options("training.max_steps=2"))
    assert answer.code == 1
    assert answer.said[-1] == (
        "error: out of memory on cpu while validating, at decoding.batch_size 64; set it to 32 and start again"
    )
    assert mt("train", "tiny.yaml", *options("training.max_steps=2", "decoding.batch_size=32")).code == 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_a_batch_beyond_the_memory_of_the_machine_fails_and_kills_no_process(mt_process: Any, tiny: Path) -> None:
    """The kernel's own limit, 200 MiB above what the libraries take, and sentences of 400 words in a batch of 100,000 tokens."""
    for side, word in (("en", "red"), ("de", "rot")):
        Path(f"long.{side}").write_text((" ".join([word] * 400) + "\n") * 250)
    large = options("data.train=[long.en, long.de]", "data.max_length=1000", "model.max_positions=1001", "training.batch_tokens=100000")  # fmt: skip
    small = """if True:
        import resource
        taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + (200 << 20), taken + (200 << 20)))
    """
    with mt_process("train", "tiny.yaml", *large, before=small) as process:
        err = process.communicate(timeout=120)[1].decode()
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("error: out of memory on cpu at training.batch_tokens 100000; set ")


@pytest.mark.parametrize(
    "words",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "MPS backend out of memory (MPS allocated: 8 GB)",
    ],
)
def test_memory_that_ends_on_a_gpu_is_given_back_before_less_is_tried(
    words: str, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, given_back = trainer_of(tiny / "run"), []
    trainer.state.optimizer.model.to("meta")

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr(memory, "_try_batches", refuse)
    gpu = SimpleNamespace(empty_cache=lambda: given_back.append(1))
    monkeypatch.setattr(torch, "get_device_module", lambda device: gpu)
    auto = trainer.state.settings.model_copy(update={"batch_tokens": AUTO})
    with pytest.raises(TrainingError, match=r"^out of memory on meta even at training\.batch_tokens "):
        memory.fit_batches(trainer.state.optimizer, trainer.data.train, auto, 0)
    assert len(given_back) > 10


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ({16384: 100.0, 8192: 99.0, 4096: 96.0, 2048: 90.0}, 4096),  # and none of the smaller ones is tried
        ({16384: 100.0, 8192: 110.0, 4096: 108.0, 2048: 105.0, 1024: 104.0}, 2048),
        ({24576: 100.0, 12288: 50.0}, 24576),
    ],
)
def test_auto_takes_the_smallest_batches_that_are_about_as_fast_as_any(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, speeds: dict[int, float], expected: int
) -> None:
    trainer, limits = trainer_of(tiny / "run"), []

    def attempt(optimizer: Any, dataset: Any, training: Any, epoch: int, n_tokens: int) -> float:
        if n_tokens > max(speeds) * 9 // 8:
            raise RuntimeError(FULL)
        return speeds[n_tokens * 8 // 9]

    monkeypatch.setattr(memory, "_try_batches", attempt)
    monkeypatch.setattr(memory, "memory_limit", lambda device, share: limits.append(share))
    auto = trainer.state.settings.model_copy(update={"batch_tokens": AUTO})
    assert memory.fit_batches(trainer.state.optimizer, trainer.data.train, auto, epoch=0) == expected
    assert limits == [0.5], "one limit: what a try has freed the process keeps, and the next one would not count it"


@pytest.mark.parametrize("words", ["could not create a primitive", "could not create a memory object"])
def test_each_size_is_tried_in_a_thread_that_knows_of_no_failure(
    words: str, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As oneDNN behaves: what it has refused to a thread once, it refuses to it ever after."""
    trainer, thread, real = trainer_of(tiny / "run"), threading.local(), gradients.summed_loss

    def loss(network: Any, batch: Any, *rest: Any) -> torch.Tensor:
        if hasattr(thread, "is_refused") or batch.tgt_out.numel() > 300:
            thread.is_refused = True
            raise RuntimeError(words)
        return real(network, batch, *rest)

    monkeypatch.setattr(gradients, "summed_loss", loss)
    monkeypatch.setattr(memory, "AS_FAST", math.inf)
    auto = trainer.state.settings.model_copy(update={"batch_tokens": AUTO})
    assert memory.fit_batches(trainer.state.optimizer, trainer.data.train, auto, epoch=0) == 256


SMALL_MACHINE = """
import random
from pathlib import Path
import torch
from mt_cli import device
from mt_cli.config import ModelConfig, TrainingConfig
from mt_cli.model.transformer import Transformer
from mt_cli.data.dataset import TokenDataset, TokenPair
from mt_cli.data.dataset import Mixture, Part
from mt_cli.training import memory
from mt_cli.training.optimizer import Optimizer

device.keep_freed_memory()
device.available_memory = lambda: 300 << 20
pairs = [TokenPair([5] * random.randint(3, 30), [6] * random.randint(3, 30), line) for line in range(1, 3001)]
dataset = Mixture([Part(TokenDataset.build(Path("ids"), pairs, (8000, 8000)))])
model = Transformer(ModelConfig(d_model=64, ffn_dim=128, n_encoder_layers=1, n_decoder_layers=1), 8000, 8000, 0)
training = TrainingConfig(batch_tokens="auto")
memory.AS_FAST = float("inf")
print(memory.fit_batches(Optimizer(model, training, torch.bfloat16), dataset, training, 0))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_auto_finds_room_after_matrix_products_that_had_none(tmp_path: Path) -> None:
    """oneDNN tells it in words of its own, and refuses everything from then on to the thread that it told."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL_MACHINE], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1000 and done.stderr == ""


def test_the_limit_is_lifted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(device, "available_memory", lambda: 1 << 28)
    with device.memory_limited(device.memory_limit(torch.device("cpu"))), pytest.raises(RuntimeError) as caught:
        torch.ones(1 << 28)
    assert is_out_of_memory(caught.value)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    with device.memory_limited(device.memory_limit(torch.device("meta"))):
        assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_what_is_available_is_what_the_machine_says_and_no_more_than_the_container_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/proc/meminfo").exists():
        assert device.available_memory() is None
        return
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < (device.available_memory() or 0) <= total * 2
    monkeypatch.setattr(device, "_left_to_groups", lambda: iter([12345]))
    assert device.available_memory() == 12345
