"""`mt score` and `mt explain`: what a model makes of given translations, and how its own come about."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Mt = Callable[..., Any]


def test_a_trace_has_the_source_and_a_line_for_each_token(mt: Mt, trained_run: Path) -> None:
    answer = mt("explain", trained_run, stdin=b"red cat\n")
    assert answer.code == 0 and answer.lines[0].startswith("source: ")
    chosen = [line.rpartition("chosen: ")[2] for line in answer.lines[1:]]
    assert chosen[-1] == "</s>" and "".join(chosen[:-1]).replace("▁", " ").strip() == "rot Katze"


def test_a_page_of_attention_comes_with_the_translations(mt: Mt, tiny: Path, trained_run: Path) -> None:
    answer = mt("explain", trained_run, "test.en", "--attention", "page.html")
    assert (answer.code, answer.said) == (0, ["attention: page.html"])
    assert answer.lines == mt("translate", trained_run, "test.en").lines
    shown = re.findall(r'<b class="translation" [^>]*>(.*?)</b>', Path("page.html").read_text())
    assert shown == answer.lines
    again = mt("explain", trained_run, "test.en", "--attention", "page.html")
    assert (again.code, again.out) == (2, b"") and "page.html exists already" in again.said[0]


def test_scores_are_those_of_the_same_lines_wherever_the_source_comes_from(
    mt: Mt, tiny: Path, trained_run: Path
) -> None:
    files = ("--src", "test.en", "--ref", "test.de")
    piped = mt("score", trained_run, "--ref", "test.de", stdin=Path("test.en").read_bytes())
    assert piped.code == 0 and len(piped.lines) == 12 and mt("score", trained_run, *files).out == piped.out
    for line in piped.lines:
        total, tokens = line.split("\t")
        found = math.fsum(float(token.rpartition(":")[2]) for token in tokens.split())
        assert found == pytest.approx(float(total), abs=1e-3)
    both = mt("score", trained_run, *files, "--checkpoint", "step-80", "--checkpoint", "step-160")
    assert both.code == 0 and both.out != piped.out and len(both.lines) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--src", "none", "--ref", "test.de"), "none: "),
        (("--ref", "test.de", "--ref", "dev.de"), "--ref "),
        (("--src", "dev.en", "--ref", "a.tsv"), "a.tsv: "),
        (("--src", "test.en", "--ref", "test.de", "--beam-size", 2), "No such option: --beam-size"),
    ],
)
def test_a_mistake_is_one_line(
    mt: Mt, tiny: Path, trained_run: Path, options: tuple[object, ...], message: str
) -> None:
    answer = mt("score", trained_run, *options)
    assert answer.code in (1, 2) and len(answer.said) == 1 and answer.said[0].startswith(f"error: {message}")
