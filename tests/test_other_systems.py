"""The three commands without what only Linux has, and what they do in its place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mt_cli import files, processes
from mt_cli.errors import is_out_of_memory

COMMANDS = """
import other_systems
other_systems.take_away()
import os, sys
from pathlib import Path
from crash_points import kill_after
from mt_cli import build
from mt_cli.__main__ import main

build.keep_estimate = build.keep_search = lambda *_: None  # they take as long as the training

def check(code, *arguments):
    sys.argv = ["mt", *arguments]
    try:
        found = main()
    except SystemExit as end:
        found = end.code
    assert found == code, (arguments, found)

train = "train", "tiny.yaml", "--run-dir", "läufe/run"
kill_after("Checkpoints.save", 1, "SIGINT")
check(130, *train)
[checkpoint] = Path("läufe/run/checkpoints").iterdir()
with checkpoint.open("rb"):  # as another program may have it
    check(0, *train)
    assert checkpoint.exists()
check(0, *train, "--set", "training.max_steps=16")
assert not checkpoint.exists()
check(0, "translate", "läufe/run", "test.en", "--output", "out")
check(0, "translate", "läufe/run")
check(1, "translate", "läufe/run", "latin", "--output", "none")
assert not Path("none").exists()
check(0, "evaluate", "läufe/run")
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="knows by /proc which files are open")
def test_the_three_commands_work_without_what_windows_and_macos_have_not(tiny):
    for name in ("train.de", "train.en"):
        Path(name).write_text(f"{Path(name).read_text()}größer 你好\n", encoding="utf-8")
    config = Path("tiny.yaml").read_text().replace("_steps: 80", "_steps: 4").replace("_steps: 160", "_steps: 12")
    Path("tiny.yaml").write_text(f"# größer 你好\n{config}", encoding="utf-8")
    Path("latin").write_bytes("größer".encode("latin-1"))
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command, lines = [sys.executable, "-W", "error", "-c", COMMANDS], "the größer 你好\r\n\r\ncat\r\n".encode()
    done = subprocess.run(command, input=lines, capture_output=True, env=environment)
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    assert done.returncode == 0, err
    assert "continuing läufe/run from step 4\n" in err and "latin:1: invalid UTF-8" in err
    assert out.splitlines()[1] == "" and "läufe/run" in out
    assert len(Path("out").read_bytes().split(b"\n")) == 13
    written = [file for file in Path("läufe/run").iterdir() if file.is_file() and file.suffix != ".model"]
    assert [file for file in written if b"\r" in file.read_bytes()] == []
    assert [*Path().rglob(".tmp-*"), *Path().rglob("train.txt")] == []


def test_a_file_that_another_program_reads_is_replaced_when_it_is_closed(tmp_path, monkeypatch):
    refused, pauses = [PermissionError(13, "Permission denied")] * 2, []

    def replace(self: Path, target: Path, real=Path.replace) -> Path:
        if refused:
            raise refused.pop()
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(files.time, "sleep", pauses.append)
    files.write_text(tmp_path / "best", "new")
    assert (tmp_path / "best").read_text() == "new" and len(pauses) == 2


def test_the_command_that_continues_is_quoted_for_the_shell_of_the_system(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mt", "train", r"my configs\a.yaml"])
    assert processes.command_line() == r"mt train 'my configs\a.yaml'"
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        line = processes.command_line()
    assert line == r'mt train "my configs\a.yaml"'


def test_out_of_memory_is_known_in_the_words_of_windows():
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8000 bytes."))
    assert is_out_of_memory(OSError("[WinError 1455] The paging file is too small for this operation to complete"))
