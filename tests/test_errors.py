"""docs/errors.md is executed: each of its commands gives the lines and the exit code that stand below it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"


@dataclass
class Step:
    """A command of the page and what it says; commands of `mt` say with which code they end."""

    command: str
    said: list[str] = field(default_factory=list)
    code: int = 0


def cases() -> dict[str, list[Step]]:
    """The commands below each heading that has some."""
    found: dict[str, list[Step]] = {}
    title = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif line.startswith("    $ "):
            assert title not in found or found[title], title
            found.setdefault(title, []).append(Step(line.removeprefix("    $ ")))
        elif re.fullmatch(r"    \[\d+\]", line):
            found[title][-1].code = int(line.strip(" []"))
        elif line.startswith("    "):
            found[title][-1].said.append(line.removeprefix("    "))
    return found


CASES = cases()


def test_the_page_has_its_cases() -> None:
    steps = [step for steps in CASES.values() for step in steps if is_mt(step.command)]
    assert len(CASES) >= 100
    assert all(step.said and all(line.startswith(("error: ", "warning: ")) for line in step.said) for step in steps)
    assert all(step.code in {1, 2} for step in steps if any(line.startswith("error: ") for line in step.said))


def is_mt(command: str) -> bool:
    return command.startswith("mt ") or "| mt " in command


def run(command: str, mt: Any) -> tuple[int, list[str]]:
    """The exit code of a command of `mt` and its lines on stderr; input comes by `|` or `<`, output may go by `>`."""
    before, _, own = command.rpartition("| ") if "| mt " in command else ("", "", command)
    stdin = subprocess.run(["bash", "-c", before], capture_output=True, check=True).stdout if before else b""
    words, stdout = shlex.split(own)[1:], None
    if words[-2:-1] == [">"]:
        stdout = words[-1]
    elif words[-2:-1] == ["<"]:
        stdin = Path(words[-1]).read_bytes()
    answer = mt(*(words[:-2] if words[-2:-1] in (["<"], [">"]) else words), stdin=stdin, stdout=stdout)
    return answer.code, answer.said


@pytest.mark.skipif(not shutil.which("bash"), reason="the page is written for a shell")
@pytest.mark.parametrize("title", CASES)
def test_what_the_page_shows_is_what_happens(
    title: str, mt: Any, tiny: Path, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    shutil.copytree(trained_run, "run")
    kept = files_of(tiny)
    for step in CASES[title]:
        if not is_mt(step.command):
            subprocess.run(["bash", "-c", step.command], check=True)
            kept = files_of(tiny)
            continue
        code, said = run(step.command, mt)
        told = [line for line in said if line.startswith(("error: ", "warning: "))]
        expected = [re.escape(line).replace(r"\.\.\.", ".*") for line in step.said]
        assert (code, len(told)) == (step.code, len(step.said)), said
        assert all(map(re.fullmatch, expected, told)), told
        assert not [line for line in said if "Traceback" in line]
        assert code == 0 or said[-1] == told[-1], "the mistake is the last thing that is said"
        now = files_of(tiny)
        assert code == 0 or not [name for name in kept if now.get(name) != kept[name]], "what was there is as it was"


def files_of(folder: Path) -> dict[str, bytes]:
    """What must not be lost."""
    found = {}
    for directory, _, names in os.walk(folder):
        for name in names:
            file = Path(directory, name)
            if file.is_file() and not file.is_symlink() and name != ".lock":
                found[str(file.relative_to(folder))] = file.read_bytes()
    return found


def test_a_mistake_is_one_line_of_a_process_too(mt_process: Any, tiny: Path) -> None:
    with mt_process("train", "tiny.yaml", "--set", "training.max_stesp=1") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, b"")
    assert err.decode().splitlines() == [
        "error: --set training.max_stesp=1: training.max_stesp: unknown key, did you mean 'max_steps'?"
    ]
