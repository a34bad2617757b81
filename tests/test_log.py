"""docs/log.md is a log: dated paragraphs, newest first, with their tables as CSV files in docs/log/."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "log.md"
TEXT = PAGE.read_text(encoding="utf-8")
PARAGRAPHS = TEXT.split("\n## Findings\n", 1)[1].strip().split("\n\n")
TABLES = sorted((ROOT / "docs" / "log").iterdir())


def test_each_table_is_named_in_the_log_and_each_that_is_named_exists() -> None:
    named = set(re.findall(r"docs/log/[\w.-]+", "\n".join(PARAGRAPHS)))
    assert named == {path.relative_to(ROOT).as_posix() for path in TABLES}
