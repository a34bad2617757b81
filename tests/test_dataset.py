"""Token ids on disk: what was written is read."""

from __future__ import annotations

import mmap
import shutil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_cli.data.dataset import TokenDataset, TokenPair

PAIRS = [TokenPair([5, 6, 7], [8], 1), TokenPair([], [9, 9], 3), TokenPair([4], [], 4), TokenPair([1], [65_535], 9)]


def content(dataset: TokenDataset) -> list[TokenPair]:
    return [TokenPair(dataset.src(i).tolist(), dataset.tgt(i).tolist(), dataset.line(i)) for i in range(len(dataset))]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_pairs_are_read_back_as_they_were_written(tmp_path, vocab_size, dtype):
    dataset = TokenDataset.build(tmp_path / "d", iter(PAIRS), (vocab_size, vocab_size))
    assert content(dataset) == PAIRS
    assert dataset.src(0).dtype == dtype
    assert content(TokenDataset.mapped(tmp_path / "d", (vocab_size, vocab_size))) == PAIRS


def test_ids_of_a_large_vocabulary_are_not_cut(tmp_path):
    pairs = [TokenPair([70_000, 255_999], [65_536], 1)]
    assert content(TokenDataset.build(tmp_path / "d", pairs, (256_000, 256_000))) == pairs


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 65_535)), st.lists(st.integers(0, 65_535)), st.integers(1, 2**40))))
def test_any_pairs_are_read_back(tmp_path_factory, rows):
    pairs = [TokenPair(*row) for row in rows]
    dataset = TokenDataset.build(tmp_path_factory.getbasetemp() / "any", pairs, (65_536, 65_536))
    assert content(dataset) == pairs and len(dataset) == len(pairs)
    src, tgt = dataset.lengths(0, len(dataset))
    assert src.tolist() == [len(pair.src) for pair in pairs]
    assert tgt.tolist() == [len(pair.tgt) for pair in pairs]
    assert dataset.n_targets == sum(len(pair.tgt) + 1 for pair in pairs)
    backwards = list(reversed(range(len(pairs))))
    assert [side.tolist() for side in dataset.lengths_of(backwards)] == [src.tolist()[::-1], tgt.tolist()[::-1]]


def test_lengths_are_those_of_the_stretch_asked_for(tmp_path):
    dataset = TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536))
    assert [side.tolist() for side in dataset.lengths(1, 3)] == [[0, 1], [2, 0]]
    assert [side.tolist() for side in dataset.lengths(2, 2)] == [[], []]


def test_backwards_the_sides_change_places(tmp_path):
    dataset = TokenDataset.build(tmp_path / "d", [TokenPair([5, 6, 7], [8], 1), TokenPair([4], [9, 9], 3)], (8, 10))
    assert content(dataset.backwards()) == [TokenPair([8], [5, 6, 7], 1), TokenPair([9, 9], [4], 3)]
    assert [side.tolist() for side in dataset.backwards().lengths(0, 2)] == [[1, 2], [3, 1]]
    assert content(dataset.backwards().backwards()) == content(dataset)


def test_no_pairs_at_all_are_a_dataset_too(tmp_path):
    assert len(TokenDataset.build(tmp_path / "d", [], (65_536, 65_536))) == 0
    assert content(TokenDataset.build(tmp_path / "e", [TokenPair([], [], 1)], (65_536, 65_536))) == [
        TokenPair([], [], 1)
    ]


def test_a_dataset_in_memory_is_like_one_in_a_folder(tmp_path):
    for pairs in (PAIRS, [], [TokenPair([], [], 1)]):
        mapped = TokenDataset.build(tmp_path / "d", pairs, (65_536, 65_536))
        dataset = TokenDataset.in_memory(pairs)
        assert content(dataset) == content(mapped) == pairs
        assert (len(dataset), dataset.n_targets) == (len(mapped), mapped.n_targets)
        for mine, theirs in zip(dataset.lengths(0, len(pairs)), mapped.lengths(0, len(pairs)), strict=True):
            assert mine.tolist() == theirs.tolist()
        assert content(dataset.backwards()) == content(mapped.backwards())


def test_ids_are_mapped_and_not_read(tmp_path):
    dataset = TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536))
    memory: Any = dataset.src(0)
    while isinstance(memory, np.ndarray):
        memory = memory.base
    assert isinstance(memory, mmap.mmap)


def test_building_again_leaves_nothing_of_before(tmp_path):
    TokenDataset.build(tmp_path / "d", PAIRS * 10, (70_000, 70_000))
    assert content(TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536))) == PAIRS


def test_a_dataset_may_be_moved(tmp_path):
    TokenDataset.build(tmp_path / "d", PAIRS, (65_536, 65_536))
    shutil.move(tmp_path / "d", tmp_path / "elsewhere")
    assert content(TokenDataset.mapped(tmp_path / "elsewhere", (65_536, 65_536))) == PAIRS
