"""A checkpoint is whole or it is refused, cannot run code, and is replaced at once or not at all."""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import pickle
import random
import resource
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from same_training import unequal

from mt_cli.config import Config
from mt_cli.data.tokenizer import Tokenizer, train_tokenizer
from mt_cli.errors import CheckpointError, RunDirError, TrainingError
from mt_cli.files import write_atomically, write_bytes, write_text
from mt_cli.run import checkpoint
from mt_cli.run.checkpoint import FORMAT, build_model, load_checkpoint, load_model, save_checkpoint
from mt_cli.run.run_dir import RunDir

CONFIG = Config.model_validate(
    {
        "data": {"src_lang": "en", "tgt_lang": "de", "train": ["a", "b"], "dev": ["c", "d"]},
        "model": {"d_model": 8, "ffn_dim": 8, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1},
    }
)


NOTES = {"progress": {}, "tokenizer_sha256": "", "data_sha256": {}, "weights": "model"}


def small_tokenizer(text: str = "the cat sees the dog") -> Tokenizer:
    return train_tokenizer([lambda: iter([text] * 3)], "bpe", 290)


def new_run(path: Path, step: int = 5, **content) -> RunDir:
    """A run directory with a checkpoint, as a training leaves it."""
    run, tokenizer = RunDir(path), small_tokenizer()
    run.path.mkdir()
    run.save_config(CONFIG)
    run.text.save_tokenizer(tokenizer)
    torch.manual_seed(1)
    model = build_model(CONFIG, tokenizer)
    whole = {**NOTES, "model": model.state_dict(), "tokenizer_sha256": tokenizer.sha256, "progress": {"step": step}}
    whole |= content
    save_checkpoint(run.checkpoint_file(step), whole)
    run.point("best", step)
    run.point("last", step)
    return run


@pytest.fixture(scope="session")
def made_run(tmp_path_factory):
    return new_run(tmp_path_factory.mktemp("checkpoint") / "run").path


@pytest.fixture
def run(made_run, tmp_path):
    return RunDir(Path(shutil.copytree(made_run, tmp_path / "run")))


@pytest.fixture(scope="session")
def whole(made_run):
    return RunDir(made_run).checkpoint_file(5).read_bytes()


def assert_refused(file: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ") and "\n" not in message
    return message


# Whole or refused ----------------------------------------------------------------------------------------------------


def test_a_checkpoint_comes_back_as_it_was_saved(tmp_path):
    content = {
        **NOTES,
        "model": {"w": torch.arange(6.0).view(2, 3), "half": torch.ones(3, dtype=torch.bfloat16)},
        "progress": {"step": 7, "best_score": -float("inf"), "flag": True, "none": None},
        "bytes": torch.get_rng_state(),
    }
    save_checkpoint(tmp_path / "a.pt", content)
    loaded = load_checkpoint(tmp_path / "a.pt")
    assert loaded["format"] == FORMAT
    assert loaded["progress"] == content["progress"] and torch.equal(loaded["bytes"], content["bytes"])
    assert all(torch.equal(loaded["model"][name], content["model"][name]) for name in content["model"])
    assert loaded["model"]["half"].dtype == torch.bfloat16


def test_a_checkpoint_cut_anywhere_is_refused(whole, tmp_path):
    file = tmp_path / "cut.pt"
    for end in [*range(0, len(whole), max(1, len(whole) // 300)), len(whole) - 1]:
        file.write_bytes(whole[:end])
        assert_refused(file)


FLIPS = settings(max_examples=300, deadline=None)


@FLIPS
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_never_loaded_as_other_content(whole, tmp_path_factory, place, bit):
    file = tmp_path_factory.getbasetemp() / "flipped.pt"
    damaged = bytearray(whole)
    damaged[int(place * len(whole))] ^= 1 << bit
    file.write_bytes(damaged)
    try:
        loaded = load_checkpoint(file)
    except CheckpointError:
        return
    # A few bits of a zip file, such as dates and flags of a record, mean nothing to its content.
    assert_same(loaded, whole, file)


def assert_same(loaded: dict, whole: bytes, file: Path) -> None:
    file.with_name("whole.pt").write_bytes(whole)
    assert not list(unequal(loaded, load_checkpoint(file.with_name("whole.pt"))))


def test_a_flipped_bit_in_the_weights_is_always_refused(whole, tmp_path):
    file = tmp_path / "flipped.pt"
    file.write_bytes(whole)
    with zipfile.ZipFile(file) as archive:
        records = [record for record in archive.infolist() if "/data" in record.filename and record.file_size]
    assert len(records) > 10
    rng = random.Random(1)
    for record in records:
        start = record.header_offset + 30 + int.from_bytes(
            whole[record.header_offset + 26 : record.header_offset + 28], "little"
        ) + int.from_bytes(whole[record.header_offset + 28 : record.header_offset + 30], "little")  # fmt: skip
        for _ in range(4):
            damaged = bytearray(whole)
            damaged[start + rng.randrange(record.file_size)] ^= 1 << rng.randrange(8)
            file.write_bytes(damaged)
            assert "damaged" in assert_refused(file)


@pytest.fixture(scope="module")
def smallest(tmp_path_factory) -> bytes:
    file = tmp_path_factory.mktemp("smallest") / "a.pt"
    content = {"model": {"w": torch.arange(6.0)}, "progress": {"step": 5}, "bytes": torch.get_rng_state()[:8]}
    save_checkpoint(file, content)
    return file.read_bytes()


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_the_smallest_checkpoint_cut_at_any_byte_is_refused(smallest, tmp_path, every):
    file = tmp_path / "cut.pt"
    for end in range(0, len(smallest), every):
        file.write_bytes(smallest[:end])
        assert_refused(file)


@pytest.mark.slow
def test_the_smallest_checkpoint_with_any_bit_flipped_is_refused_or_the_same(smallest, tmp_path):
    file, n_refused = tmp_path / "flipped.pt", 0
    for place in range(len(smallest)):
        for bit in range(8):
            flipped = bytearray(smallest)
            flipped[place] ^= 1 << bit
            file.write_bytes(flipped)
            try:
                loaded = load_checkpoint(file)
            except CheckpointError:
                n_refused += 1
                continue
            assert_same(loaded, smallest, file)
    assert n_refused > 4 * len(smallest)


def test_a_block_of_zeros_is_refused(whole, tmp_path):
    file = tmp_path / "zeroed.pt"
    for start in range(0, len(whole) - 512, len(whole) // 40):
        file.write_bytes(whole[:start] + bytes(512) + whole[start + 512 :])
        try:
            loaded = load_checkpoint(file)
        except CheckpointError:
            continue
        assert_same(loaded, whole, file)  # it was zero before


@pytest.mark.parametrize("content", [b"", b"text\n", b"PK\x03\x04", b"\x80\x02.", bytes(5000)])
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "a.pt").write_bytes(content)
    assert assert_refused(tmp_path / "a.pt").startswith(f"{tmp_path}/a.pt: damaged or not a checkpoint (")


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    assert_refused(tmp_path)
    assert_refused(tmp_path / "none.pt")


@pytest.mark.parametrize("content", [[1], {}, {"model": 3, "format": FORMAT}, {"format": FORMAT}, torch.ones(2)])
def test_something_else_that_torch_has_saved_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "a.pt")
    assert assert_refused(tmp_path / "a.pt") == f"{tmp_path}/a.pt: not an mt checkpoint (no weights in it)"


@pytest.mark.parametrize(
    ("number", "told"),
    [(FORMAT + 1, f"format {FORMAT + 1}"), (0, "format 0"), *[(odd, "another format") for odd in (None, "1", [1])]],
)
def test_a_checkpoint_of_another_format_is_refused_and_the_remedy_named(tmp_path, number, told):
    torch.save({"format": number, "model": {}}, tmp_path / "a.pt")
    assert assert_refused(tmp_path / "a.pt") == (
        f"{tmp_path}/a.pt: {told}, this version of mt reads 1 to {FORMAT}; update mt"
    )


# No code -------------------------------------------------------------------------------------------------------------


class Evil:
    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / "made"),)


@pytest.mark.parametrize("where", ["bare pickle", "top", "model", "deep in the optimizer"])
def test_code_in_a_checkpoint_is_not_run(tmp_path, where):
    file, evil = tmp_path / "a.pt", Evil(tmp_path)
    content = {
        "top": evil,
        "model": {"format": FORMAT, "model": evil},
        "deep in the optimizer": {"format": FORMAT, "model": {}, "optimizer": {"state": {0: [1, (evil,)]}}},
    }
    if where == "bare pickle":
        file.write_bytes(pickle.dumps(evil))
    else:
        torch.save(content[where], file)
    assert_refused(file)
    assert not (tmp_path / "made").exists()
    with file.open("rb") as handle:  # the same file does run code where somebody lets it
        if where == "bare pickle":
            pickle.load(handle)
        else:
            torch.load(handle, weights_only=False)
    assert (tmp_path / "made").exists()


def test_compressed_records_that_could_swell_up_are_refused(whole, tmp_path):
    (tmp_path / "a.pt").write_bytes(whole)
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as archive,
        zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in archive.namelist():
            packed.writestr(name, archive.read(name))
    assert assert_refused(tmp_path / "b.pt") == f"{tmp_path}/b.pt: not a file of weights (its records are compressed)"


@pytest.mark.parametrize("claimed", [torch.ones(1).expand(10**6, 10**6), torch.ones(2, device="meta"), torch.ones(2).to_sparse(), torch.ones(2).double(), torch.nn.Parameter(torch.ones(2))])  # fmt: skip
def test_a_weight_that_is_less_than_it_claims_is_refused_before_memory_is_taken(run, claimed):
    content = dict(load_checkpoint(run.checkpoint_file(5)))
    name = sorted(content["model"])[0]
    save_checkpoint(run.checkpoint_file(6), {**content, "model": {**content["model"], name: claimed}})
    with pytest.raises(
        CheckpointError, match=rf"step-000006\.pt: not of this config: {name} is .*expected \(|_rebuild_"
    ):
        load_model(run, "step-6")


@pytest.mark.parametrize("claim", [bytearray, set, complex])
def test_what_weights_only_makes_beside_tensors_is_refused_before_it_is_made(tmp_path, monkeypatch, claim):
    class Claim:
        def __reduce__(self):
            return claim, (10**12,) if claim is bytearray else ()

    torch.save({"format": FORMAT, "model": {}, "progress": {}, "claim": Claim()}, tmp_path / "a.pt")
    monkeypatch.setattr(torch, "load", lambda *args, **kwargs: pytest.fail("it was made"))
    assert f"not a file of weights (a __builtin__ {claim.__name__} in it)" in assert_refused(tmp_path / "a.pt")


@pytest.mark.parametrize("memoize", [b"q\x05", b"(uq\x05", b"r\x05\0\0\0"])  # the second one by way of an empty update
def test_tuples_that_would_take_hours_to_hash_are_refused(tmp_path, memoize):
    file = tmp_path / "a.pt"
    nested = b")\x85" + (memoize + b"h\x05" * 2 + b"\x87") * 60
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}(" + nested + b"K\x01u.")
    assert "not a file of weights (a tuple stands twice in it)" in assert_refused(file)


def test_records_that_lie_in_one_another_are_refused(tmp_path):
    """A small file whose every record is all of it would take hours to verify."""
    file, content = tmp_path / "a.pt", bytes(1000)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data/0", content)
        for number in range(1, 50):
            record = copy.copy(archive.filelist[0])
            record.filename = f"a/data/{number}"
            archive.filelist.append(record)
    assert "not a file of weights (its records lie in one another)" in assert_refused(file)


def test_a_model_larger_than_the_memory_is_refused_before_any_is_taken(run, monkeypatch):
    monkeypatch.setattr(checkpoint, "available_memory", lambda: 1000)
    with pytest.raises(TrainingError, match=r"^out of memory: the model takes 0\.\d GiB, 0\.0 GiB are free; lower "):
        load_model(run)


# A run's model -------------------------------------------------------------------------------------------------------


def test_a_signal_while_a_checkpoint_is_read_is_no_damage(run, monkeypatch):
    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "load", stopped)
    with pytest.raises(KeyboardInterrupt):
        load_checkpoint(run.checkpoint_file(5))


def test_the_model_of_a_run_is_loaded_ready_to_translate(run):
    model, tokenizer, config, content, _ = load_model(run)
    assert not model.training and config == CONFIG and content["progress"]["step"] == 5
    torch.manual_seed(1)
    fresh = build_model(CONFIG, tokenizer)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), fresh.state_dict().values(), strict=True))


def test_weights_of_another_size_are_refused_before_memory_is_taken(run, monkeypatch):
    run.config_file.write_text(run.config_file.read_text().replace("ffn_dim: 8\n", "ffn_dim: 9\n"))
    monkeypatch.setattr(checkpoint, "build_model", lambda *sizes: pytest.fail("memory was taken"))
    with pytest.raises(CheckpointError, match=r"step-000005\.pt: not of this config: .* expected "):
        load_model(run)


@pytest.mark.parametrize("change", ["missing", "too many", "no tensor", "other shape"])
def test_weights_that_are_not_the_models_are_refused(run, change):
    content = dict(load_checkpoint(run.checkpoint_file(5)))
    weights = dict(content["model"])
    name = sorted(weights)[0]
    if change == "missing":
        del weights[name]
    else:
        other = {"too many": torch.ones(2), "no tensor": 3, "other shape": torch.ones(3, 2, 1)}[change]
        weights["zzz" if change == "too many" else name] = other
    content["model"] = weights
    save_checkpoint(run.checkpoint_file(6), content)
    with pytest.raises(CheckpointError, match=r"step-000006\.pt: not of this config: ") as caught:
        load_model(run, "step-6")
    assert ("zzz" if change == "too many" else name) in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(run, value):
    content = load_checkpoint(run.checkpoint_file(5))
    content["model"]["encoder_norm.gamma"] = torch.full((8,), value)
    save_checkpoint(run.checkpoint_file(5), content)
    with pytest.raises(CheckpointError) as caught:
        load_model(run)
    assert str(caught.value) == (
        f"{run.checkpoint_file(5)}: encoder_norm.gamma has values that are not finite; choose an earlier checkpoint"
    )


def test_another_tokenizer_than_that_of_the_training_is_refused(run):
    run.text.save_tokenizer(small_tokenizer("quite another text for this"))
    with pytest.raises(
        CheckpointError, match=r"step-000005\.pt: trained with another tokenizer than the one in .*/run"
    ):
        load_model(run)


def test_a_missing_tokenizer_is_named(run):
    (run.path / "tokenizer.model").unlink()
    with pytest.raises(RunDirError, match=r"tokenizer\.model: No such file or directory; "):
        load_model(run)


@pytest.mark.parametrize(
    "pointer",
    ["../../../../etc/passwd", "/etc/passwd", "checkpoints/../../x.pt", "step-5", "", "\x00", "step-000005.pt\nx"],
)
def test_a_pointer_never_leads_out_of_the_run(run, pointer):
    (run.path / "best").write_text(pointer)
    with pytest.raises(RunDirError, match=r"no 'best' checkpoint; train first, or choose one of step-5"):
        run.find_checkpoint("best")


@pytest.mark.parametrize("name", ["config.yaml", "tokenizer.model", "best", "checkpoints/step-000005.pt"])
def test_a_link_never_leads_out_of_the_run(run, tmp_path, name):
    file, outside = run.path / name, tmp_path / "outside"
    shutil.move(file, outside)
    file.symlink_to(outside)
    with pytest.raises(RunDirError, match=rf"{name}: a link that leads out of the run directory; "):
        load_model(RunDir.existing(run.path))


@pytest.mark.parametrize("name", ["best", "tokenizer.model"])
def test_a_file_of_any_size_takes_no_memory(run, name):
    os.truncate(run.path / name, 1 << 40)  # a terabyte of nothing, which takes no disk
    with pytest.raises(RunDirError, match=rf"{name}: more than [\d,]+ bytes; restore it from a copy"):
        load_model(run)


@pytest.mark.parametrize("name", ["../run/best", "step-", "step-x", "middle", "", "config.yaml", "/etc/passwd"])
def test_a_checkpoint_that_is_none_is_refused(run, name):
    with pytest.raises(RunDirError):
        run.find_checkpoint(name)


def test_a_checkpoint_that_is_gone_names_the_others(run):
    with pytest.raises(RunDirError, match=r"step-000007\.pt: no such checkpoint; choose one of step-5$"):
        run.find_checkpoint("step-7")
    assert run.find_checkpoint("step-5") == run.find_checkpoint("best") == run.checkpoint_file(5)


def test_a_run_works_wherever_it_is_moved(run, tmp_path):
    moved = tmp_path / "an other place ü"
    shutil.move(run.path, moved)
    assert load_model(RunDir.existing(moved))[3]["progress"]["step"] == 5


@pytest.mark.parametrize(("found", "reason"), [("nothing", "no such directory"), ("file", "not a directory"), ("folder", "no config.yaml in it")])  # fmt: skip
def test_what_is_no_run_directory_says_so(tmp_path, found, reason):
    path = tmp_path / "run"
    if found == "file":
        path.write_text("x")
    if found == "folder":
        path.mkdir()
    with pytest.raises(RunDirError) as caught:
        RunDir.existing(path)
    assert str(caught.value) == f"{path}: {reason}; expected a run directory, as `mt train` makes it"


# Written at once or not at all ---------------------------------------------------------------------------------------


def test_a_file_is_replaced_only_when_the_new_one_is_whole(tmp_path):
    file = tmp_path / "a"
    write_bytes(file, b"old")

    def fail(handle):
        handle.write(b"half of the n")
        assert file.read_bytes() == b"old"
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(RunDirError, match=r"^cannot write .*/a: Input/output error; "):
        write_atomically(file, fail)
    assert file.read_bytes() == b"old" and list(tmp_path.iterdir()) == [file]
    write_text(file, "neu ü")
    assert file.read_bytes() == "neu ü".encode() and list(tmp_path.iterdir()) == [file]


def test_a_stopped_process_leaves_the_old_file_and_no_other(tmp_path):
    file = tmp_path / "a"
    write_bytes(file, b"old")

    def stop(handle):
        handle.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(file, stop)
    assert file.read_bytes() == b"old" and list(tmp_path.iterdir()) == [file]


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    done: list[object] = []
    real_fsync, real_replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(os.fstat(fd).st_ino), real_fsync(fd))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (done.append("replace"), real_replace(self, to))[1])
    file = tmp_path / "new" / "a"
    write_bytes(file, b"new")
    folder, itself, named, folder_again = done
    assert (folder, itself, named, folder_again) == (
        tmp_path.stat().st_ino,
        file.stat().st_ino,
        "replace",
        file.parent.stat().st_ino,
    ), "the folder made for it, the content, the name, the folder that has the name"


def test_a_full_disk_is_told_and_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    file = tmp_path / "a.pt"
    save_checkpoint(file, {"model": {"w": torch.ones(10)}})
    before = file.read_bytes()

    def full(content, handle):
        handle.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(RunDirError) as caught:
        save_checkpoint(file, {"model": {"w": torch.zeros(10)}})
    assert str(caught.value) == (
        f"cannot write {file}: No space left on device; free space and run the same command again"
    )
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


def test_a_disk_that_fails_once_is_asked_once_more(tmp_path, monkeypatch):
    real, n_calls = torch.save, 0

    def hiccup(content, handle):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(content, handle)

    monkeypatch.setattr(torch, "save", hiccup)
    save_checkpoint(tmp_path / "a.pt", {**NOTES, "model": {"w": torch.ones(10)}})
    assert n_calls == 2 and torch.equal(load_checkpoint(tmp_path / "a.pt")["model"]["w"], torch.ones(10))


def test_a_disk_that_fills_up_within_torch_is_told_too(tmp_path):
    file = tmp_path / "a.pt"
    save_checkpoint(file, {"model": {"w": torch.ones(10)}})
    before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(RunDirError) as caught:
            save_checkpoint(file, {"model": {"w": torch.zeros(1_000_000)}})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    message = str(caught.value)
    assert message.startswith(f"cannot write {file}: ") and "\n" not in message
    assert message.endswith("; free space and run the same command again")
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


def test_a_checkpoint_has_the_permissions_that_the_user_wants(tmp_path):
    umask = os.umask(0o027)
    try:
        save_checkpoint(tmp_path / "a.pt", {"model": {}})
    finally:
        os.umask(umask)
    assert (tmp_path / "a.pt").stat().st_mode & 0o777 == 0o640


def test_a_run_directory_that_vanished_is_not_made_anew(tmp_path):
    with pytest.raises(RunDirError, match=r"^cannot write .*; bring the folder back and run the same command again$"):
        write_text(tmp_path / "run" / "checkpoints" / "x", "x")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_a_file_is_told(tmp_path):
    (tmp_path / "run").write_text("x")
    with pytest.raises(
        RunDirError, match=r"^cannot write .*; make the folder writable and run the same command again$"
    ):
        write_text(tmp_path / "run" / "best", "x")


def test_loading_a_run_and_translating_does_not_load_torchs_compiler(trained_run: Path) -> None:
    """It takes a second to import, half of what `mt translate` takes to its first line."""
    code = (
        "import sys; from mt_cli import Translator;"
        f" Translator.load({str(trained_run)!r}).translate(['the red cat']);"
        " print([name for name in ('torch._dynamo', 'sympy') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout == "[]\n", answer.stderr


def test_a_log_that_cannot_be_synced_is_named_with_the_remedy(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    run = RunDir(tmp_path)
    run.logs.append(run.metrics_file, {"step": 1})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunDirError, match=r"cannot write .*metrics.jsonl: No space left on device; free space and run"):
        run.logs.sync()


@pytest.mark.parametrize(("number", "is_refused"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_a_file_system_that_syncs_no_folders_will_do(tmp_path, monkeypatch, number, is_refused):
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(RunDirError) if is_refused else contextlib.nullcontext():
        write_text(tmp_path / "note", "text")
    assert (tmp_path / "note").read_text() == "text"


def test_a_device_that_failed_is_not_taken_for_a_full_disk(tmp_path, monkeypatch):
    def fail(content, handle):
        raise torch.AcceleratorError("CUDA error: unspecified launch failure\nSearch for it")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(torch.AcceleratorError):
        save_checkpoint(tmp_path / "step-000001.pt", {})


def test_two_machines_that_number_their_processes_alike_write_one_file_each_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 17)
    file = tmp_path / "file"

    def write(handle):
        handle.write(b"one")
        write_bytes(file, b"two")
        assert file.read_bytes() == b"two"

    write_atomically(file, write)
    assert file.read_bytes() == b"one" and [path.name for path in tmp_path.iterdir()] == ["file"]
