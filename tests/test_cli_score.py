"""`mt score`: what a model makes of given translations."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Mt = Callable[..., Any]


def test_scores_are_those_of_the_same_lines_wherever_the_source_comes_from(mt, tiny, trained_run):
    files = ("--src", "test.en", "--ref", "test.de")
    piped = mt("score", trained_run, "--ref", "test.de", stdin=Path("test.en").read_bytes())
    assert piped.code == 0 and len(piped.lines) == 12 and mt("score", trained_run, *files).out == piped.out
    for line in piped.lines:
        total, tokens = line.split("\t")
        found = math.fsum(float(token.rpartition(":")[2]) for token in tokens.split())
        assert found == pytest.approx(float(total), abs=1e-3)
    both = mt("score", trained_run, *files, "--checkpoint", "step-80", "--checkpoint", "step-160")
    assert both.code == 0 and both.out != piped.out and len(both.lines) == 12
