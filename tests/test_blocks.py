"""Several processes translate one file: whole, in order, as one process does, and on from where a command broke off."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mt_cli.cli import blocks, pipe
from mt_cli.run.checkpoint import load_checkpoint, save_checkpoint
from mt_cli.run.run_dir import RunDir

Mt = Callable[..., Any]
LINES = [f"the {animal} sees {n}" if n % 7 else "" for n in range(40) for animal in ("cat", "dog")]


@pytest.fixture
def file(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (pipe, blocks):
        monkeypatch.setattr(module, "MAX_LINES", 9)
    Path("in.txt").write_text("\n".join(LINES))  # the last line has no end
    return Path("in.txt")


def as_process(monkeypatch: pytest.MonkeyPatch, rank: int, n: int) -> None:
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n, "MASTER_ADDR": "localhost", "MASTER_PORT": 1}
    for key, value in variables.items():
        monkeypatch.setenv(key, str(value))


def test_the_blocks_of_all_processes_are_what_one_process_writes(
    file: Path, mt: Mt, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("translate", trained_run, file, "--output")
    assert mt(*command, "one.txt").code == 0
    for rank in (2, 1, 0):  # the first process waits for the others
        as_process(monkeypatch, rank, 3)
        assert mt(*command, "three.txt").code == 0
        assert Path("three.txt").exists() == (rank == 0)
    assert Path("three.txt").read_bytes() == Path("one.txt").read_bytes()
    assert not list(Path().glob(".three*"))
    assert mt(*command, "three.txt").code == 2
    as_process(monkeypatch, 1, 3)
    assert mt(*command, "three.txt").code == 0  # the first one has said it


def test_blocks_that_are_done_are_kept_by_another_number_of_processes_and_refused_for_another_search(
    file: Path, mt: Mt, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("translate", trained_run, file, "--output", "out.txt")
    as_process(monkeypatch, 1, 2)
    assert mt(*command).code == 0
    kept = sorted(Path(".out.txt.blocks").glob("0*"))
    assert [int(block.name) for block in kept] == [1, 3, 5, 7]
    kept[0].write_text("kept\n" * 9)
    as_process(monkeypatch, 0, 2)
    refused = mt(*command, "--beam-size", "2")
    assert refused.code == 1
    assert refused.said[0].startswith(
        "error: .out.txt.blocks: has blocks of another input, run, search or version of mt; delete it"
    )
    as_process(monkeypatch, 0, 1)
    assert mt(*command).code == 0
    assert not Path(".out.txt.blocks").exists()
    lines = Path("out.txt").read_text().splitlines()
    assert lines[9:18] == ["kept"] * 9 and len(lines) == len(LINES)


def test_several_processes_need_a_file_and_an_output(
    file: Path, mt: Mt, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_process(monkeypatch, 0, 2)
    for arguments in ([file], ["--output", "out.txt"]):
        answer = mt("translate", trained_run, *arguments)
        told = "error: several processes share a file; give INPUT and --output, or choose another --output"
        assert (answer.code, answer.said) == (2, [told])
    as_process(monkeypatch, 1, 2)
    assert mt("translate", trained_run, file, "--output", "begun.txt").code == 0
    as_process(monkeypatch, 0, 1)
    assert mt("translate", trained_run, "--output", "begun.txt", stdin=b"the cat\n").said == [told]


def test_variables_that_a_cluster_sets_for_every_job_start_no_processes(
    file: Path, mt: Mt, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_process(monkeypatch, 3, 8)
    monkeypatch.delenv("MASTER_ADDR")
    answer = mt("translate", trained_run, "none.txt")
    assert answer.said == ["error: none.txt: No such file or directory; give a text file, or none to read stdin"]
    assert len(mt("translate", trained_run, file).lines) == len(LINES)


def test_a_process_that_comes_late_leaves_nothing_behind(
    file: Path, mt: Mt, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("translate", trained_run, file, "--output", "out.txt")
    assert mt(*command).code == 0
    whole = Path("out.txt").read_bytes()
    as_process(monkeypatch, 1, 3)
    answers = iter([False, True])  # when it starts, and when it has loaded its model
    monkeypatch.setattr("mt_cli.cli.translate._is_there", lambda output: next(answers))
    assert mt(*command).code == 0
    assert not list(Path().glob(".out*"))
    folder = blocks.BlockFolder(Path("out.txt"), "late")  # joined just before
    with file.open("rb", buffering=0) as source:
        blocks.share_blocks(source, "in.txt", Mock(side_effect=AssertionError), folder, 1, 3, False)
    assert not list(Path().glob(".out*")) and Path("out.txt").read_bytes() == whole


def test_blocks_of_other_weights_and_of_another_format_are_refused(
    file: Path, mt: Mt, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(trained_run, "run"))
    command = ("translate", run, file, "--output", "out.txt")
    as_process(monkeypatch, 1, 2)
    assert mt(*command).code == 0
    refusal = ".out.txt.blocks: has blocks of another input, run, search or version of mt; delete it"
    assert refusal in mt(*command, "--n-best", "1").said[0]
    best = RunDir(run).find_checkpoint("best")
    content = load_checkpoint(best)
    content["model"] = {name: 1.01 * weight for name, weight in content["model"].items()}
    save_checkpoint(best, content)
    assert refusal in mt(*command).said[0]
