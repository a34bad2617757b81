"""tests/errors.md and docs/errors.md (the common mistakes) are executed: each command gives the lines and
the exit code that stand below it."""

import contextlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from same_training import files_of

from mt_cli.run.run_dir import locked

ALL = Path(__file__).parent / "errors.md"
COMMON = Path(__file__).parents[1] / "docs" / "errors.md"


@dataclass
class Step:
    """A command of a page and the lines that it prints on stderr. A command of `mt` also has its exit code."""

    command: str
    said: list[str] = field(default_factory=list)
    code: int = 0


def steps_of(text: str) -> list[Step]:
    """The commands of a case and what is expected of them."""
    steps: list[Step] = []
    for line in re.findall("^    (.+)$", text, re.MULTILINE):
        if line.startswith("$ "):
            steps.append(Step(line.removeprefix("$ ")))
        elif re.fullmatch(r"\[\d+\]", line):
            steps[-1].code = int(line.strip("[]"))
        else:
            steps[-1].said.append(line)
    return steps


CASES = [steps for case in ALL.read_text(encoding="utf-8").split("\n\n") if (steps := steps_of(case))]
COMMON_CASES = {
    section.split("\n")[0]: steps
    for section in COMMON.read_text(encoding="utf-8").split("\n## ")
    if (steps := steps_of(section))
}


def test_the_pages_have_their_cases():
    assert len(CASES) >= 70
    assert [title.split(".")[0] for title in COMMON_CASES] == [str(number) for number in range(1, 16)]
    steps = [step for steps in (*CASES, *COMMON_CASES.values()) for step in steps if is_mt(step.command)]
    assert all(step.said and all(line.startswith(("error: ", "warning: ")) for line in step.said) for step in steps)
    assert all(step.code in {1, 2} for step in steps if any(line.startswith("error: ") for line in step.said))
    for section in COMMON.read_text(encoding="utf-8").split("\n## ")[1:]:
        assert re.search(r"^\S.*\.$", section.split("\n", 1)[1], re.MULTILINE), f"{section} does not say what to do"


def little_memory(embedding: torch.nn.Embedding, ids: torch.Tensor) -> torch.Tensor:
    """Out of memory in the first layer, when a batch has more than 300 tokens."""
    if ids.numel() > 300:
        raise torch.OutOfMemoryError("out of memory")
    return torch.nn.functional.embedding(ids, embedding.weight, embedding.padding_idx)


# What a shell cannot arrange in a test.
CIRCUMSTANCES = {
    "9. The batch does not fit into memory": lambda: mock.patch.object(torch.nn.Embedding, "forward", little_memory),
    "10. The disk is full": lambda: mock.patch("shutil.disk_usage", lambda path: SimpleNamespace(free=2**16)),
    "12. The run is in use": lambda: locked(Path("run")),
}
# The page of common mistakes leaves out the warnings of the tiny corpus, whose sets overlap.
PAGES = [
    *(pytest.param("", steps, ("error: ", "warning: "), id=steps[-1].command) for steps in CASES),
    *(pytest.param(title, steps, ("error: ",), id=title) for title, steps in COMMON_CASES.items()),
]


@pytest.mark.skipif(not shutil.which("bash"), reason="the page is written for a shell")
@pytest.mark.parametrize(("title", "steps", "kinds"), PAGES)
def test_what_the_page_shows_is_what_happens(title, steps, kinds, mt, tiny, trained_run, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    shutil.copytree(trained_run, "run")
    with CIRCUMSTANCES.get(title, contextlib.nullcontext)():
        kept = files_of(tiny)
        for step in steps:
            if not is_mt(step.command):
                subprocess.run(["bash", "-c", step.command], check=True)
                kept = files_of(tiny)
                continue
            answer = run(step.command, mt)
            code, said = answer.code, answer.said
            found = [line for line in said if line.startswith(kinds)]
            expected = [re.escape(line).replace(r"\.\.\.", ".*") for line in step.said]
            assert (code, len(found)) == (step.code, len(step.said)), said
            assert all(map(re.match, expected, found)), found
            assert not [line for line in said if "Traceback" in line]
            assert code == 0 or said[-1] == found[-1], "the mistake is the last thing that is said"
            assert code == 0 or kept.items() <= files_of(tiny).items(), "what was there is as it was"


def shown(text: str) -> list[str]:
    """The lines of the indented blocks, a `$ ` before a command and the comment after it left out."""
    indented = (line.removeprefix("    ") for line in text.splitlines() if line.startswith("    "))
    return [re.sub(r" +# .*", "", line).removeprefix("$ ") for line in indented]


def is_mt(command: str) -> bool:
    return re.match(r"(\w+=\S+ )*mt ", command) is not None or "| mt " in command


def run(command: str, mt: Callable[..., Any]) -> Any:
    """The answer to a command of `mt`. Input comes by `|` or `<`, output may go by `>`; variables are not set."""
    before, _, own = command.rpartition("| ") if "| mt " in command else ("", "", command)
    stdin = subprocess.run(["bash", "-c", before], capture_output=True, check=True).stdout if before else b""
    words, stdout = shlex.split(own), None
    while words[-2] in {"<", ">"}:
        *words, kind, file = words
        if kind == ">":
            stdout = file
        else:
            stdin = Path(file).read_bytes()
    return mt(*words[words.index("mt") + 1 :], stdin=stdin, stdout=stdout)
