"""Token ids on disk: what was written is read, and nothing half-written or outdated ever is."""

from __future__ import annotations

import json
import mmap
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_cli.data.dataset import TokenDataset, TokenPair

META = {"data": "1234", "tokenizer": "abcd"}
PAIRS = [TokenPair([5, 6, 7], [8], 1), TokenPair([], [9, 9], 3), TokenPair([4], [], 4), TokenPair([1], [65_535], 9)]


def content(dataset: TokenDataset) -> list[TokenPair]:
    return [TokenPair(dataset.src(i).tolist(), dataset.tgt(i).tolist(), dataset.line(i)) for i in range(len(dataset))]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_pairs_are_read_back_as_they_were_written(tmp_path, vocab_size, dtype):
    dataset = TokenDataset.build(tmp_path / "d", iter(PAIRS), (vocab_size, vocab_size), META)
    assert content(dataset) == PAIRS
    assert dataset.src(0).dtype == dtype
    assert content(TokenDataset.open(tmp_path / "d", (vocab_size, vocab_size), META)) == PAIRS


def test_ids_of_a_large_vocabulary_are_not_cut(tmp_path):
    pairs = [TokenPair([70_000, 255_999], [65_536], 1)]
    assert content(TokenDataset.build(tmp_path / "d", pairs, (256_000, 256_000), META)) == pairs


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 65_535)), st.lists(st.integers(0, 65_535)), st.integers(1, 2**40))))
def test_any_pairs_are_read_back(tmp_path_factory, rows):
    pairs = [TokenPair(*row) for row in rows]
    dataset = TokenDataset.build(tmp_path_factory.getbasetemp() / "any", pairs, (65_536, 65_536), META)
    assert content(dataset) == pairs and len(dataset) == len(pairs)
    src, tgt = dataset.lengths(0, len(dataset))
    assert src.tolist() == [len(pair.src) for pair in pairs]
    assert tgt.tolist() == [len(pair.tgt) for pair in pairs]
    assert dataset.n_targets == sum(len(pair.tgt) + 1 for pair in pairs)
    backwards = list(reversed(range(len(pairs))))
    assert [side.tolist() for side in dataset.lengths_of(backwards)] == [src.tolist()[::-1], tgt.tolist()[::-1]]


def test_lengths_are_those_of_the_stretch_asked_for(tmp_path):
    dataset = TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536), META)
    assert [side.tolist() for side in dataset.lengths(1, 3)] == [[0, 1], [2, 0]]
    assert [side.tolist() for side in dataset.lengths(2, 2)] == [[], []]


def test_backwards_the_sides_change_places(tmp_path):
    dataset = TokenDataset.build(
        tmp_path / "d", [TokenPair([5, 6, 7], [8], 1), TokenPair([4], [9, 9], 3)], (8, 10), META
    )
    assert content(dataset.backwards()) == [TokenPair([8], [5, 6, 7], 1), TokenPair([9, 9], [4], 3)]
    assert [side.tolist() for side in dataset.backwards().lengths(0, 2)] == [[1, 2], [3, 1]]
    assert content(dataset.backwards().backwards()) == content(dataset)


def test_ids_are_on_the_disk_before_they_count(tmp_path, monkeypatch):
    synced: set[int] = set()
    real_fsync, real_write_text = os.fsync, Path.write_text
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.add(os.fstat(fd).st_ino), real_fsync(fd))[1])

    def write_text(self, *args, **kwargs):
        found = {file.name: file.stat().st_ino in synced for file in self.parent.iterdir()}
        assert found == dict.fromkeys(("src.ids", "tgt.ids", "src.starts", "tgt.starts", "lines"), True)
        return real_write_text(self, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", write_text)
    TokenDataset.build(tmp_path / "d", iter(PAIRS), (65_536, 65_536), META)
    assert (tmp_path / "d/meta.json").exists()


def test_no_pairs_at_all_are_a_dataset_too(tmp_path):
    assert len(TokenDataset.build(tmp_path / "d", [], (65_536, 65_536), META)) == 0
    assert content(TokenDataset.build(tmp_path / "e", [TokenPair([], [], 1)], (65_536, 65_536), META)) == [
        TokenPair([], [], 1)
    ]


def test_a_dataset_in_memory_is_like_one_in_a_folder(tmp_path):
    for pairs in (PAIRS, [], [TokenPair([], [], 1)]):
        mapped = TokenDataset.build(tmp_path / "d", pairs, (65_536, 65_536), META)
        dataset = TokenDataset.in_memory(pairs)
        assert content(dataset) == content(mapped) == pairs
        assert (len(dataset), dataset.n_targets) == (len(mapped), mapped.n_targets)
        for mine, theirs in zip(dataset.lengths(0, len(pairs)), mapped.lengths(0, len(pairs)), strict=True):
            assert mine.tolist() == theirs.tolist()
        assert content(dataset.backwards()) == content(mapped.backwards())


def test_ids_are_mapped_and_not_read(tmp_path):
    dataset = TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536), META)
    memory: Any = dataset.src(0)
    while isinstance(memory, np.ndarray):
        memory = memory.base
    assert isinstance(memory, mmap.mmap)


def test_what_was_made_from_the_same_is_used_again(tmp_path):
    TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536), META)
    found = TokenDataset.open(tmp_path / "d", (65_536, 65_536), META)
    assert found is not None and content(found) == PAIRS


def test_what_was_made_from_something_else_is_not_used(tmp_path):
    TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536), META)
    assert TokenDataset.open(tmp_path / "d", (65_536, 65_536), {**META, "tokenizer": "dcba"}) is None
    assert TokenDataset.open(tmp_path / "d", (65_536, 65_536), {**META, "max_length": "256"}) is None


def test_what_is_missing_or_half_written_is_not_used(tmp_path):
    folder = tmp_path / "d"
    assert TokenDataset.open(folder, (65_536, 65_536), META) is None

    def pairs_of_a_killed_process():
        yield from PAIRS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TokenDataset.build(folder, pairs_of_a_killed_process(), (65_536, 65_536), META)
    assert TokenDataset.open(folder, (65_536, 65_536), META) is None
    assert content(TokenDataset.build(folder, PAIRS[:2], (65_536, 65_536), META)) == PAIRS[:2]


def test_building_again_leaves_nothing_of_before(tmp_path):
    TokenDataset.build(tmp_path / "d", PAIRS * 10, (70_000, 70_000), META)
    assert content(TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536), META)) == PAIRS


@pytest.mark.parametrize("name", ["src.ids", "tgt.ids", "src.starts", "tgt.starts", "lines", "meta.json"])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "flipped"])
def test_a_dataset_with_a_damaged_file_is_not_used(tmp_path, name, damage):
    TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536), META)
    file = tmp_path / "d" / name
    if damage == "gone":
        file.unlink()
    else:
        content = file.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        file.write_bytes({"empty": b"", "cut": content[:middle], "flipped": flipped}[damage])
    assert TokenDataset.open(tmp_path / "d", (65_536, 65_536), META) is None


def test_a_description_that_is_no_description_is_not_used(tmp_path):
    TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536), META)
    known = json.loads((tmp_path / "d" / "meta.json").read_text(encoding="utf-8"))
    for text in (
        "[]",
        "3",
        "{}",
        json.dumps({**META, "dtype": "nonsense"}),
        json.dumps({**known, "dtype": "uint32"}),
        "\udcff",
    ):
        (tmp_path / "d" / "meta.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        assert TokenDataset.open(tmp_path / "d", (65_536, 65_536), META) is None


def test_a_dataset_may_be_moved(tmp_path):
    TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536), META)
    shutil.move(tmp_path / "d", tmp_path / "elsewhere")
    assert content(TokenDataset.open(tmp_path / "elsewhere", (65_536, 65_536), META)) == PAIRS
