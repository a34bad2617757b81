"""`mt score` and `mt explain`: what a model makes of given translations, and how its own come about."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Mt = Callable[..., Any]


def translations_in(page: Path) -> list[str]:
    return re.findall(r'<span class="translation" [^>]*>(.*?)</span>', page.read_text())


def test_a_trace_has_the_source_and_a_line_for_each_token(mt: Mt, trained_run: Path) -> None:
    answer = mt("explain", trained_run, stdin=b"red cat\n")
    assert answer.code == 0 and answer.lines[0].startswith("source: ")
    chosen = [line.rpartition("chosen: ")[2] for line in answer.lines[1:]]
    assert chosen[-1] == "</s>" and "".join(chosen[:-1]).replace("▁", " ").strip() == "rot Katze"


def test_a_page_of_attention_comes_with_the_translations(mt: Mt, tiny: Path, trained_run: Path) -> None:
    answer = mt("explain", trained_run, "test.en", "--attention", "page.html")
    assert (answer.code, answer.said) == (0, ["attention: page.html"])
    assert answer.lines == mt("translate", trained_run, "test.en").lines
    assert translations_in(Path("page.html")) == answer.lines


def test_the_options_of_a_search_decide_which_translation_is_attended_to(mt: Mt, tiny: Path, trained_run: Path) -> None:
    longer = ("--min-length", 9)
    answer = mt("explain", trained_run, "test.en", "--attention", "page.html", *longer)
    assert answer.lines == mt("translate", trained_run, "test.en", *longer).lines
    assert answer.lines != mt("translate", trained_run, "test.en").lines
    assert translations_in(Path("page.html")) == answer.lines


def test_no_page_is_written_over_another_file_and_none_without_a_folder(mt: Mt, tiny: Path, trained_run: Path) -> None:
    Path("page.html").write_text("precious")
    messages = {
        "page.html": "error: page.html exists already; delete it or choose another --attention",
        "none/page.html": "error: none: no such directory; make it or choose another --attention",
    }
    for page, message in messages.items():
        answer = mt("explain", trained_run, "test.en", "--attention", page)
        assert (answer.code, answer.out, answer.said) == (2, b"", [message])
    assert Path("page.html").read_text() == "precious"


def test_scores_are_those_of_the_same_lines_wherever_the_source_comes_from(
    mt: Mt, tiny: Path, trained_run: Path
) -> None:
    piped = mt("score", trained_run, "--ref", "test.de", stdin=Path("test.en").read_bytes())
    assert piped.code == 0 and len(piped.lines) == 12
    assert mt("score", trained_run, "--src", "test.en", "--ref", "test.de").out == piped.out
    for line in piped.lines:
        total, tokens = line.split("\t")
        assert math.fsum(float(token.rpartition(":")[2]) for token in tokens.split()) == pytest.approx(
            float(total), abs=1e-3
        )


def test_several_checkpoints_score_together(mt: Mt, tiny: Path, trained_run: Path) -> None:
    files = ("--src", "test.en", "--ref", "test.de")
    alone = mt("score", trained_run, *files).out
    both = mt("score", trained_run, *files, "--checkpoint", "step-80", "--checkpoint", "step-160")
    assert both.code == 0 and both.out != alone and len(both.lines) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--src", "none", "--ref", "test.de"), "none: No such file or directory; give a text file, or none to read"),
        (("--src", "test.en", "--ref", "none"), "none: No such file or directory"),
        (("--ref", "test.de", "--ref", "dev.de"), "--ref is given 2 times; score against one file at a time"),
        (("--src", "dev.en", "--ref", "a.tsv"), "a.tsv: a .tsv file, expected plain text"),
        (("--src", "test.en", "--ref", "test.de", "--beam-size", 2), "No such option: --beam-size"),
    ],
)
def test_a_mistake_is_one_line(
    mt: Mt, tiny: Path, trained_run: Path, options: tuple[object, ...], message: str
) -> None:
    answer = mt("score", trained_run, *options)
    assert answer.code in (1, 2) and len(answer.said) == 1 and answer.said[0].startswith(f"error: {message}")
