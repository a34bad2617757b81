"""Memory that does not suffice is reported before the first step, with what to set; trying it changes nothing."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_trainer import options, trainer_of

from mt_cli import device
from mt_cli.build import prepare
from mt_cli.config_file import config_of
from mt_cli.data.batching import epoch_batches, make_batch
from mt_cli.decoding.translator import Translator
from mt_cli.errors import is_out_of_memory
from mt_cli.run.run_dir import RunDir
from mt_cli.training import memory, update
from mt_cli.training.ranks import Ranks
from mt_cli.training.state import Progress
from mt_cli.training.update import Updates

FULL = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 12345 bytes.")


def fail(*_: object) -> Any:
    raise FULL


@pytest.fixture
def memory_for(monkeypatch):
    """Batches of more target positions than given end the memory; gives back a list of those that were tried."""

    def limit(n_positions):
        real, tried = update.summed_loss, []

        def loss(network, batch, label_smoothing, r_drop, is_fused):
            tried.append((2 if r_drop else 1) * batch.tgt_out.numel())
            if batch.tgt_out.numel() > n_positions:
                raise FULL
            return real(network, batch, label_smoothing, r_drop, is_fused)

        monkeypatch.setattr(update, "summed_loss", loss)
        return tried

    return limit


def test_the_batches_tried_are_the_largest(tiny, memory_for):
    trainer = trainer_of(tiny / "run", "training.batch_tokens=128")
    dataset, training = trainer.data.train, trainer.state.settings
    tried = [make_batch(dataset, indices) for indices in memory.largest_batches(dataset, training, 0)]
    every = [make_batch(dataset, indices) for indices in epoch_batches(dataset, 128, training.seed, epoch=0)]
    assert 1 <= len(tried) <= 3 < len(every)
    for size in (lambda b: b.tgt_out.numel(), lambda b: b.src_ids.numel(), lambda b: b.tgt_mask.numel()):
        assert max(map(size, tried)) == max(map(size, every))
    tried = memory_for(10**9)
    trainer = trainer_of(tiny / "both", "training.both_directions=0.5", "training.r_drop=1")
    memory.try_largest_batches(trainer.state, trainer.data.train)
    largest = memory.largest_batches(trainer.data.train, trainer.state.settings, 0)
    batches = [make_batch(trainer.data.train, indices) for indices in largest]
    forth, back = ([getattr(batch, name).numel() for batch in batches] for name in ("tgt_out", "src_ids"))
    assert tried == [*forth, *back, *(2 * size for size in forth)]


def test_an_epoch_without_a_pair_is_tried_with_any(tiny):
    trainer = trainer_of(tiny / "run", "data.train=[{files: [train.en, train.de], weight: 0.001}]")
    assert memory.largest_batches(trainer.data.train, trainer.state.settings, 0)


def test_too_large_a_batch_is_reported_before_the_first_step(mt, tiny, memory_for):
    memory_for(300)
    answer = mt("train", "tiny.yaml")
    assert answer.code == 1
    assert "out of memory on cpu at training.batch_tokens 512; set training.batch_tokens to 256" in answer.said[-1]
    assert RunDir(Path("runs/tiny")).steps() == [] and not Path("runs/tiny/metrics.jsonl").exists()
    advised = options("training.batch_tokens=256", "training.accumulate=2", "training.max_steps=2")
    assert mt("train", "tiny.yaml", *advised).code == 0, "nothing was trained yet, so the run may be begun otherwise"


def test_each_of_eight_processes_tries_its_share_of_the_largest_batches(mt, tiny, memory_for, monkeypatch):
    """Batches of up to 512 target positions, of which each process has memory for 128."""
    trainer = trainer_of(tiny / "run")
    dataset = trainer.data.train
    largest = memory.largest_batches(dataset, trainer.state.settings, 0)
    shares = [[make_batch(dataset, pairs[rank::8]).tgt_out.numel() for pairs in largest] for rank in range(8)]
    tried = memory_for(128)
    monkeypatch.setattr(Ranks, "_together", lambda *_: None)  # the seven others are not there
    for rank in range(1, 8):
        memory.try_largest_batches(trainer.state, dataset, Ranks(rank, 8))
        assert tried == shares[rank]
        tried.clear()
    monkeypatch.setattr("mt_cli.build.meeting", lambda: nullcontext(lambda: Ranks(0, 8)))
    assert mt("train", "tiny.yaml", *options("training.max_steps=1")).code == 0
    assert tried[: len(largest)] == shares[0]


@pytest.mark.parametrize("also", [(), ("training.optimizer=muon",)])
def test_trying_changes_neither_weights_nor_random_numbers(tiny, also):
    trainer = trainer_of(tiny / "run", "model.dropout=0.5", "training.precision=bf16", *also)
    models = trainer.state.model, trainer.state.optimizer.network, trainer.state.optimizer.averaged
    before = [{name: weight.clone() for name, weight in model.state_dict().items()} for model in models]
    state = torch.get_rng_state()
    memory.try_largest_batches(trainer.state, trainer.data.train)
    assert torch.equal(torch.get_rng_state(), state)
    for model, of_model in zip(models, before, strict=True):
        assert all(torch.equal(weight, of_model[name]) for name, weight in model.state_dict().items())
        assert all(weight.grad is None for weight in model.parameters())
    assert not trainer.state.optimizer.state()
    assert trainer.state.progress == Progress(max_steps=trainer.state.settings.max_steps)


def test_memory_that_ends_later_is_reported(mt, tiny, monkeypatch):
    real = Updates.next

    def ending(updates: Updates) -> Any:
        if updates._state.progress.step == 7:
            raise FULL
        return real(updates)

    with monkeypatch.context() as patch:
        patch.setattr(Updates, "next", ending)
        answer = mt("train", "tiny.yaml", *options("training.validate_every_steps=5", "training.max_steps=9"))
    assert answer.code == 1
    assert "in a new run set training.batch_tokens to 256" in answer.said[-1]
    assert answer.said[-1].endswith("the last checkpoint is step 5")
    assert RunDir(Path("runs/tiny")).steps() == [5]
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "search", fail)
        answer = mt("train", "tiny.yaml", "--run-dir", "run", *options("training.max_steps=2"))
    assert answer.code == 1 and "while validating, at decoding.batch_size 64; set it to 32" in answer.said[-1]
    advised = options("training.max_steps=2", "decoding.batch_size=32")
    assert mt("train", "tiny.yaml", "--run-dir", "run", *advised).code == 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_a_batch_beyond_the_memory_of_the_machine_fails_and_kills_no_process(mt_process, tiny):
    """The kernel's own limit, 100 MiB above what the libraries take, and sentences of 400 words in a batch of 50,000 tokens."""
    for side, word in (("en", "red"), ("de", "rot")):
        Path(f"long.{side}").write_text((" ".join([word] * 400) + "\n") * 125)
    large = options("data.train=[long.en, long.de]", "data.max_length=1000", "model.max_positions=1001", "training.batch_tokens=50000")  # fmt: skip
    small = """if True:
        import resource
        taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + (100 << 20), taken + (100 << 20)))
    """
    with mt_process("train", "tiny.yaml", *large, before=small) as process:
        err = process.communicate(timeout=250)[1].decode()
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("error: out of memory on cpu at training.batch_tokens 50000; set ")


def test_the_limit_is_lifted_again(monkeypatch):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(device, "available_memory", lambda: 1 << 28)
    with device.memory_limited(torch.device("cpu")), pytest.raises(RuntimeError) as caught:
        torch.ones(1 << 28)
    assert is_out_of_memory(caught.value)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_what_is_available_is_what_the_machine_says_and_no_more_than_the_container_may(monkeypatch):
    if not Path("/proc/meminfo").exists():
        assert device.available_memory() is None
        return
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < (device.available_memory() or 0) <= total * 2
    monkeypatch.setattr(device, "_left_to_groups", lambda: iter([12345]))
    assert device.available_memory() == 12345


def test_minutes_are_few_on_a_slow_machine_and_many_on_a_fast_one_or_for_many_processes(tiny, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1000")  # those that a reverse model trains beside, alone
    data = {"train": ["train.en", "train.de"], "dev": ["dev.en", "dev.de"], "src_lang": "en", "tgt_lang": "de"}
    config, usual, found = config_of(data, ["training.minutes=0.02"]), 60 * 0.02 / 100, []
    for seconds, n_processes in (1e6, 1), (usual, 1), (usual, 1000), (1e-6, 1):
        monkeypatch.setattr("mt_cli.training.memory.update_seconds", lambda config, facts: seconds)  # noqa: B023
        run = RunDir(Path(f"run-{len(found)}"))
        run.begin(config)
        found.append(prepare(config, run, n_processes).config.training.r_drop)
    assert found == [0.0, 0.0, 1.0, 1.0]
