"""Ids are written shard by shard: a start that was killed goes on, and the bytes are those of one that was not."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from mt_cli.data.ids_writer import FILES, IdsWriter

Pair = tuple[list[int], list[int], int]
SHARDS: list[list[Pair]] = [
    [([5, 6, 7], [8], 1), ([], [9, 9], 3)],
    [([4], [], 4)],
    [],
    [([1], [300], 9), ([2, 2], [3], 12)],
]
MADE_OF = {"data": "12", "tokenizer": "ab"}


class Killed(BaseException):
    pass


def written(folder: Path, n: int = 4, made_of: dict[str, str] | None = MADE_OF) -> int:
    """Writes the shards, killed before shard `n`; gives back how many an earlier start had left."""
    with IdsWriter(folder, (400, 400), made_of) as writer:
        kept = writer.n_shards
        for number, shard in enumerate(SHARDS):
            if number == n:
                raise Killed
            if number >= kept:
                writer.write(shard)
            assert writer.lines_of(number) == [line for _, _, line in shard]
        writer.finish({"of": "test"})
    return kept


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    written(tmp_path / "whole")
    return content(tmp_path / "whole")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_killed_start_is_continued_to_the_same_bytes(tmp_path, whole, n):
    with pytest.raises(Killed):
        written(tmp_path / "d", n)
    assert not (tmp_path / "d/meta.json").exists()
    assert written(tmp_path / "d") == n - 1, "the last shard was not yet known to be on the disk"
    assert content(tmp_path / "d") == whole and set(whole) == {*FILES, "meta.json"}


def test_a_start_that_is_killed_while_it_hashes_keeps_the_shards(tmp_path, whole, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("mt_cli.data.ids_writer.described", Mock(side_effect=Killed))
        written(tmp_path / "d")
    assert written(tmp_path / "d") == 3 and content(tmp_path / "d") == whole


def test_what_was_written_after_the_last_whole_shard_is_cut_off(tmp_path, whole):
    with pytest.raises(Killed):
        written(tmp_path / "d", 3)
    for name in FILES:
        with (tmp_path / "d" / name).open("ab") as file:
            file.write(b"half a sha")
    assert written(tmp_path / "d") == 2
    assert content(tmp_path / "d") == whole


@pytest.mark.parametrize("made_of", [{**MADE_OF, "tokenizer": "ba"}, {"data": "12"}, None])
def test_ids_that_were_made_of_something_else_are_made_anew(tmp_path, whole, made_of):
    with pytest.raises(Killed):
        written(tmp_path / "d", 3)
    assert written(tmp_path / "d", made_of=made_of) == 0
    assert content(tmp_path / "d") == whole


@pytest.mark.parametrize("name", FILES)
def test_ids_that_are_missing_are_made_anew(tmp_path, whole, name):
    with pytest.raises(Killed):
        written(tmp_path / "d", 3)
    (tmp_path / "d" / name).write_bytes(b"")
    assert written(tmp_path / "d") == 0
    assert content(tmp_path / "d") == whole


@pytest.mark.parametrize(
    "record", ["", "[]", "{}", '{"ends": []}', '{"ends": ["x"]}', '{"ends": [99], "made_of": 1}', None]
)
def test_a_damaged_record_is_no_record(tmp_path, whole, record):
    with pytest.raises(Killed):
        written(tmp_path / "d", 3)
    path = tmp_path / "d/shards.json"
    if record is None:
        path.write_text(json.dumps({**json.loads(path.read_text()), "ends": [2, 99]}))
    else:
        path.write_text(record)
    assert written(tmp_path / "d") == 0
    assert content(tmp_path / "d") == whole
