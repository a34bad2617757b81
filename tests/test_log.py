"""docs/log.md is a log: dated paragraphs, newest first, with their tables as CSV files in docs/log/."""

from __future__ import annotations

import csv
import datetime
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "log.md"
TEXT = PAGE.read_text(encoding="utf-8")
PARAGRAPHS = TEXT.split("\n## Findings\n", 1)[1].strip().split("\n\n")
TABLES = sorted((ROOT / "docs" / "log").iterdir())


def test_each_paragraph_begins_with_a_date_and_a_title_and_the_newest_come_first() -> None:
    dates = []
    for paragraph in PARAGRAPHS:
        match = re.match(r"\*\*(\d{4}-\d\d-\d\d), .+?\.\*\* \S", paragraph.replace("\n", " "))
        assert match, paragraph
        dates.append(datetime.date.fromisoformat(match[1]))
    assert len(dates) >= 50
    assert dates == sorted(dates, reverse=True)


def test_no_line_is_longer_than_120_columns_and_no_table_is_left_in_the_text() -> None:
    lines = TEXT.splitlines()
    assert [line for line in lines if len(line) > 120] == []
    assert [line for line in lines if line.startswith("|")] == []


def test_each_table_is_named_in_the_log_and_each_that_is_named_exists() -> None:
    named = set(re.findall(r"docs/log/[\w.-]+", "\n".join(PARAGRAPHS)))
    assert named == {path.relative_to(ROOT).as_posix() for path in TABLES}


def test_a_table_has_a_header_line_and_rows_of_as_many_cells() -> None:
    for path in TABLES:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        assert header[0] == "date" and rows, path.name
        for row in rows:
            assert len(row) == len(header) and datetime.date.fromisoformat(row[0]), (path.name, row)
