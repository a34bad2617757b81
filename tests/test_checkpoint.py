"""A checkpoint is whole or it is refused, cannot run code, and is replaced at once or not at all."""

import copy
import errno
import os
import pickle
import random
import resource
import shutil
import stat
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from fuzz_targets import NOTES, run_dir
from same_training import unequal

from mt_cli.errors import CheckpointError, RunDirError, TrainingError
from mt_cli.files import write_atomically, write_bytes, write_text
from mt_cli.run import checkpoint
from mt_cli.run.checkpoint import FORMAT, load_checkpoint, load_model, save_checkpoint
from mt_cli.run.run_dir import RunDir


@pytest.fixture
def run(tmp_path):
    return RunDir(Path(shutil.copytree(run_dir().path, tmp_path / "run")))


@pytest.fixture(scope="session")
def whole():
    return run_dir().checkpoint_file(5).read_bytes()


def assert_refused(file: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ") and "\n" not in message
    return message


def test_a_checkpoint_comes_back_as_it_was_saved(tmp_path):
    content = {
        **NOTES,
        "model": {"w": torch.arange(6.0).view(2, 3), "half": torch.ones(3, dtype=torch.bfloat16)},
        "progress": {"step": 7, "best_score": -float("inf"), "flag": True, "none": None},
        "bytes": torch.get_rng_state(),
    }
    umask = os.umask(0o027)
    save_checkpoint(tmp_path / "a.pt", content)
    os.umask(umask)
    assert not list(unequal(load_checkpoint(tmp_path / "a.pt"), {"format": FORMAT, **content}))
    assert (tmp_path / "a.pt").stat().st_mode & 0o777 == 0o640


def test_a_checkpoint_cut_anywhere_is_refused(whole, tmp_path):
    file = tmp_path / "cut.pt"
    for end in [*range(0, len(whole), max(1, len(whole) // 300)), len(whole) - 1]:
        file.write_bytes(whole[:end])
        assert_refused(file)


def test_a_flipped_bit_in_the_weights_is_always_refused(whole, tmp_path):
    file = tmp_path / "flipped.pt"
    file.write_bytes(whole)
    with zipfile.ZipFile(file) as archive:
        records = [record for record in archive.infolist() if "/data" in record.filename and record.file_size]
    assert len(records) > 10
    rng = random.Random(1)
    for record in records:
        lengths = whole[record.header_offset + 26 : record.header_offset + 30]
        start = record.header_offset + 30 + sum(int.from_bytes(two, "little") for two in (lengths[:2], lengths[2:]))
        damaged = bytearray(whole)
        damaged[start + rng.randrange(record.file_size)] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        assert "damaged" in assert_refused(file)


@pytest.mark.slow
def test_the_smallest_checkpoint_cut_anywhere_or_with_any_bit_flipped_is_refused_or_the_same(tmp_path):
    file, n_refused = tmp_path / "a.pt", 0
    save_checkpoint(file, {**NOTES, "config": {}, "model": {"w": torch.arange(6.0)}})
    smallest, whole = file.read_bytes(), load_checkpoint(file)
    for end in range(len(smallest)):
        file.write_bytes(smallest[:end])
        assert_refused(file)
    for place in range(len(smallest)):
        for bit in range(8):
            flipped = bytearray(smallest)
            flipped[place] ^= 1 << bit
            file.write_bytes(flipped)
            try:
                assert not list(unequal(load_checkpoint(file), whole))
            except CheckpointError:
                n_refused += 1
    assert n_refused > 4 * len(smallest)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    file = tmp_path / "a.pt"
    for content in (b"", b"text\n", b"PK\x03\x04", b"\x80\x02.", bytes(5000)):
        file.write_bytes(content)
        assert "damaged" in assert_refused(file)
    for saved in ([1], {}, {"model": 3, "format": FORMAT}, torch.ones(2)):
        torch.save(saved, file)
        assert "not an mt checkpoint" in assert_refused(file)
    for number in (FORMAT - 1, None, str(FORMAT), [1]):
        torch.save({**NOTES, "model": {}, "format": number}, file)
        assert "of another version of mt" in assert_refused(file)
    for name in NOTES:
        torch.save({**NOTES, "model": {}, "format": FORMAT, name: 3}, file)
        assert f"no {name} in it" in assert_refused(file)
    assert_refused(tmp_path)
    assert_refused(tmp_path / "none.pt")


class Evil:
    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / "made"),)


@pytest.mark.parametrize("where", ["bare pickle", "top", "deep in the optimizer"])
def test_code_in_a_checkpoint_is_not_run(tmp_path, where):
    file, evil = tmp_path / "a.pt", Evil(tmp_path)
    if where == "bare pickle":
        file.write_bytes(pickle.dumps(evil))
    else:
        deep = {"format": FORMAT, "model": {}, "optimizer": {"state": {0: [1, (evil,)]}}}
        torch.save(evil if where == "top" else deep, file)
    assert_refused(file)
    assert not (tmp_path / "made").exists()
    with file.open("rb") as handle:  # the same file does run code where somebody lets it
        pickle.load(handle) if where == "bare pickle" else torch.load(handle, weights_only=False)
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("claim", [bytearray, set])
def test_what_weights_only_makes_beside_tensors_is_refused_before_it_is_made(tmp_path, monkeypatch, claim):
    class Claim:
        def __reduce__(self):
            return claim, (10**12,) if claim is bytearray else ()

    torch.save({"format": FORMAT, "model": {}, "progress": {}, "claim": Claim()}, tmp_path / "a.pt")
    monkeypatch.setattr(torch, "load", lambda *args, **kwargs: pytest.fail("it was made"))
    assert f"{claim.__name__} in it" in assert_refused(tmp_path / "a.pt")


@pytest.mark.parametrize("memoize", [b"q\x05", b"(uq\x05", b"r\x05\0\0\0"])  # the second one by way of an empty update
def test_tuples_that_would_take_hours_to_hash_are_refused(tmp_path, memoize):
    file = tmp_path / "a.pt"
    nested = b")\x85" + (memoize + b"h\x05" * 2 + b"\x87") * 60
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}(" + nested + b"K\x01u.")
    assert "unsupported content" in assert_refused(file)


def test_archives_that_swell_up_or_take_hours_to_verify_are_refused(whole, tmp_path):
    file = tmp_path / "a.pt"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data/0", bytes(1000))
    assert "compressed" in assert_refused(file)
    with zipfile.ZipFile(file, "w") as archive:  # every record is all of the file
        archive.writestr("a/data/0", bytes(1000))
        for number in range(1, 50):
            record = copy.copy(archive.filelist[0])
            record.filename = f"a/data/{number}"
            archive.filelist.append(record)
    assert "overlapping records" in assert_refused(file)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_a_signal_or_want_of_memory_while_a_checkpoint_is_read_is_no_damage(run, monkeypatch, stop):
    monkeypatch.setattr(torch, "load", Mock(side_effect=stop))
    with pytest.raises(stop):
        load_checkpoint(run.checkpoint_file(5))


WEIGHTS = {
    "missing": None,
    "no tensor": 3,
    "other shape": torch.ones(3, 2, 1),
    "huge claim": torch.ones(1).expand(10**6, 10**6),
    "without memory": torch.ones(2, device="meta"),
    "sparse": torch.ones(2).to_sparse(),
    "double": torch.ones(2).double(),
    "parameter": torch.nn.Parameter(torch.ones(2)),
}


@pytest.mark.parametrize("found", [*WEIGHTS, "too many"])
def test_weights_that_are_not_the_models_are_refused_before_memory_is_taken(run, monkeypatch, found):
    monkeypatch.setattr(checkpoint, "build_model", lambda *sizes: pytest.fail("memory was taken"))
    content = dict(load_checkpoint(run.checkpoint_file(5)))
    name = "zzz" if found == "too many" else min(content["model"])
    weights = content["model"] | {name: torch.ones(2) if found == "too many" else WEIGHTS[found]}
    if found == "missing":
        del weights[name]
    save_checkpoint(run.checkpoint_file(6), content | {"model": weights})
    with pytest.raises(CheckpointError, match=rf"step-000006\.pt: not of this config: {name} is |_rebuild_"):
        load_model(run, "step-6")


def test_a_model_larger_than_the_memory_is_refused_before_any_is_taken(run, monkeypatch):
    monkeypatch.setattr(checkpoint, "available_memory", lambda: 1000)
    with pytest.raises(TrainingError, match=r"^out of memory: the model takes 0\.\d GiB, 0\.0 GiB are free"):
        load_model(run)


def test_a_run_json_that_is_none_or_damaged_is_refused(run):
    whole = run.manifest.file.read_bytes()
    flipped = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(0, len(whole), 9)]
    for content in (b"", b"[" * 100_000, b'{"sha256": "", "products": {}}', b"\xff", *flipped, None):
        run.manifest.file.write_bytes(content) if content is not None else run.manifest.file.unlink()
        with pytest.raises(RunDirError, match=r"run\.json: (damaged|missing); restore it from a copy"):
            load_model(RunDir(run.path))


@pytest.mark.parametrize("name", ["config.yaml", "run.json", "tokenizer.model", "best", "checkpoints/step-000005.pt"])
def test_a_link_never_leads_out_of_the_run(run, tmp_path, name):
    file, outside = run.path / name, tmp_path / "outside"
    shutil.move(file, outside)
    file.symlink_to(outside)
    with pytest.raises(RunDirError, match=rf"{name}: a link that leads out of the run directory; "):
        load_model(RunDir.existing(run.path))


@pytest.mark.parametrize("name", ["best", "tokenizer.model", "run.json"])
def test_a_file_of_any_size_takes_no_memory(run, name):
    os.truncate(run.path / name, 1 << 40)  # a terabyte of nothing, which takes no disk
    with pytest.raises(
        RunDirError, match=rf"{name}: more than [\d,]+ bytes; restore it from a copy|no 'best' checkpoint"
    ):
        load_model(run)


@pytest.mark.parametrize("error", [OSError(errno.EIO, os.strerror(errno.EIO)), KeyboardInterrupt()])
def test_a_file_is_replaced_only_when_the_new_one_is_whole(tmp_path, error):
    file = tmp_path / "a"
    write_bytes(file, b"old")

    def fail(handle):
        handle.write(b"half of the n")
        assert file.read_bytes() == b"old"
        raise error

    with pytest.raises(RunDirError if isinstance(error, OSError) else KeyboardInterrupt):
        write_atomically(file, fail)
    assert file.read_bytes() == b"old" and list(tmp_path.iterdir()) == [file]


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    done: list[object] = []
    real_fsync, real_replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(os.fstat(fd).st_ino), real_fsync(fd))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (done.append("replace"), real_replace(self, to))[1])
    file = tmp_path / "new" / "a"
    write_bytes(file, b"new")
    made_in, itself, folder = (path.stat().st_ino for path in (tmp_path, file, file.parent))
    assert done == [made_in, itself, "replace", folder]


def test_a_disk_that_fills_up_within_torch_is_reported_and_keeps_the_old_checkpoint(tmp_path):
    file = tmp_path / "a.pt"
    save_checkpoint(file, {"model": {"w": torch.ones(10)}})
    before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(RunDirError, match=rf"\Acannot write {file}: .*\Z"):
            save_checkpoint(file, {"model": {"w": torch.zeros(1_000_000)}})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


def test_a_run_directory_that_vanished_is_not_made_anew(tmp_path):
    with pytest.raises(
        RunDirError, match=r"^cannot write .*; mend that or choose another place, and run the same command again$"
    ):
        write_text(tmp_path / "run" / "checkpoints" / "x", "x")
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").write_text("a file where the folder was")
    with pytest.raises(RunDirError, match=r"^cannot write "):
        write_text(tmp_path / "run" / "best", "x")


def test_a_log_that_cannot_be_synced_is_named_with_the_remedy(tmp_path, monkeypatch):
    run = RunDir(tmp_path)
    run.logs.append(run.metrics_file, {"step": 1})
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(RunDirError, match=r"cannot write .*metrics.jsonl: No space left on device; free space and run"):
        run.logs.sync()


def test_a_file_system_that_syncs_no_folders_will_do(tmp_path, monkeypatch):
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_text(tmp_path / "note", "text")
    assert (tmp_path / "note").read_text() == "text"
