"""Token ids: what was written is read; each pair of an epoch as often as its corpus' weight says."""

import mmap
import shutil
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mt_cli.data.batching import epoch_batches, make_batch
from mt_cli.data.dataset import BLOCK_SIZE, Mixture, TokenDataset, TokenPair, chosen_blocks

PAIRS = [TokenPair([5, 6, 7], [8], 1), TokenPair([], [9, 9], 3), TokenPair([4], [], 4), TokenPair([1], [65_535], 9)]
OTHERS = [TokenPair([10], [11, 12], 2), TokenPair([13, 14], [15], 7)]
SIZES = (65_536, 65_536)


def content(dataset: TokenDataset | Mixture) -> list[TokenPair]:
    mixture = Mixture([dataset]) if isinstance(dataset, TokenDataset) else dataset
    return list(map(mixture.pair, range(len(dataset))))


def lengths(dataset: TokenDataset | Mixture, indices: Any) -> list[list[int]]:
    return [side.tolist() for side in dataset.lengths(indices)]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, np.uint16), (256_000, np.uint32)])
def test_pairs_are_read_back_as_they_were_written_also_elsewhere(tmp_path, vocab_size, dtype):
    pairs = [*PAIRS, TokenPair([vocab_size - 1], [vocab_size - 2], 10)]
    dataset = TokenDataset.build(tmp_path / "d", iter(pairs), (vocab_size, vocab_size))
    assert content(dataset) == pairs and dataset.src.ids.dtype == dtype
    shutil.copytree(tmp_path / "d", tmp_path / "elsewhere")
    assert content(TokenDataset.mapped(tmp_path / "elsewhere", (vocab_size, vocab_size))) == pairs
    memory: Any = dataset.src.ids
    while isinstance(memory, np.ndarray):
        memory = memory.base
    assert isinstance(memory, mmap.mmap)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 65_535)), st.lists(st.integers(0, 65_535)), st.integers(1, 2**40))))
def test_any_pairs_are_read_back_from_a_folder_and_from_memory(tmp_path_factory, rows):
    pairs = [TokenPair(*row) for row in rows]
    written = TokenDataset.build(tmp_path_factory.getbasetemp() / "any", pairs, SIZES)
    for dataset in (written, TokenDataset.in_memory(pairs)):
        assert content(dataset) == pairs
        assert content(dataset.backwards()) == [TokenPair(tgt, src, line) for src, tgt, line in pairs]
        order = range(len(pairs) - 1, -1, -1)
        assert lengths(dataset, order) == [[len(pairs[i][side]) for i in order] for side in (0, 1)]
        if pairs:
            assert Mixture([dataset]).longest == 1 + max(len(side) for pair in pairs for side in pair[:2])


def mixture_of(*parts: tuple[list[TokenPair], float], names: str = "abc") -> Mixture:
    named = zip(parts, names, strict=False)
    return Mixture(
        [replace(TokenDataset.in_memory(pairs), weight=weight, name=name) for (pairs, weight), name in named]
    )


BOTH = mixture_of((PAIRS, 1.0), (OTHERS, 0.5))


def counts(n_pairs: int, weight: float, epochs: range) -> np.ndarray:
    """How often these epochs have each pair."""
    found = np.zeros(n_pairs, int)
    for epoch in epochs:
        for block in chosen_blocks(n_pairs, weight, np.random.default_rng(0), epoch):
            assert 0 < sum(last - first for first, last in block) <= BLOCK_SIZE
            for first, last in block:
                found[first:last] += 1
    return found


def test_an_index_counts_through_all_corpora():
    assert content(BOTH) == PAIRS + OTHERS
    assert [BOTH.format_location(i) for i in (0, 3, 4, 5)] == ["a:1", "a:9", "b:2", "b:7"]
    assert mixture_of((PAIRS, 1.0), names=[""]).format_location(3) == "9"
    assert lengths(BOTH, [5, 0, 1]) == [[2, 3, 0], [1, 1, 2]]
    assert BOTH.src_counts(15) == [0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 0, 0, 1, 1]
    assert make_batch(BOTH, [4, 3]).src_ids.tolist() == [[10, 3], [1, 3]]
    assert BOTH.n_targets == (1 + 2 + 0 + 1 + 4) + (2 + 1 + 2) // 2
    assert content(BOTH.backwards()) == [TokenPair(tgt, src, line) for src, tgt, line in PAIRS + OTHERS]


def test_tags_stand_before_the_sources_of_their_part_in_either_direction():
    parts = [(PAIRS, 1.0), (OTHERS, 1.0)]
    plain, tagged = mixture_of(*parts), mixture_of(*parts)
    tagged.parts[1] = replace(tagged.parts[1], src_tags=(20, 21), back_tags=(22,))
    for mixture, tags, base in ((tagged, [20, 21], plain), (tagged.backwards(), [22], plain.backwards())):
        untagged, own = content(base), content(mixture)
        assert own[:4] == untagged[:4]
        assert own[4:] == [TokenPair([*tags, *src], tgt, line) for src, tgt, line in untagged[4:]]
        assert lengths(mixture, range(6)) == [[len(pair[side]) for pair in own] for side in (0, 1)]
        counted = Counter(i for pair in own for i in pair.src)
        assert mixture.src_counts(65_536) == [counted[i] for i in range(65_536)]
        assert content(mixture.sample(6)) == own
        assert mixture.n_targets == base.n_targets and mixture.n_sources == base.n_sources + 2 * len(tags)
    assert content(tagged.backwards().backwards()) == content(tagged)


@pytest.mark.parametrize(("n", "lines"), [(1, [1]), (3, [1, 4, 2]), (9, [1, 3, 4, 9, 2, 7]), (0, [1])])
def test_a_sample_is_taken_from_all_corpora(n, lines):
    assert [pair.line for pair in content(BOTH.sample(n))] == lines


@given(n_pairs=st.integers(0, 4_000), weight=st.floats(0.001, 4), n_epochs=st.integers(1, 12))
@example(n_pairs=2_501, weight=0.5, n_epochs=2)
def test_no_pair_is_used_more_than_once_more_often_than_another(n_pairs, weight, n_epochs):
    found = counts(n_pairs, weight, range(n_epochs))
    assert found.sum() == round(n_epochs * weight * n_pairs)
    assert found.max(initial=0) - found.min(initial=100) <= 1
    spread = counts(5_000, 0.5, range(1))
    assert all(200 < part.sum() < 800 for part in np.split(spread, 5)), "from all parts of the corpus"


def test_the_order_of_a_mixture_is_a_function_of_seed_and_epoch():
    pairs = [TokenPair([5] * (i % 7), [6] * (i % 5), i) for i in range(300)]
    orders = {}
    for seed, epoch in ((1, 0), (1, 1), (2, 0)):
        one, again = (mixture_of((pairs, 0.5), (pairs[:40], 2.0)) for _ in range(2))
        orders[seed, epoch] = [i for batch in epoch_batches(one, 64, seed, epoch) for i in batch]
        assert [i for batch in epoch_batches(again, 64, seed, epoch) for i in batch] == orders[seed, epoch]
        assert sorted(i for i in orders[seed, epoch] if i >= 300) == sorted([*range(300, 340)] * 2)
    halves = {key: {i for i in order if i < 300} for key, order in orders.items()}
    assert halves[1, 0] | halves[1, 1] == set(range(300)) and not halves[1, 0] & halves[1, 1]
    assert halves[1, 0] != halves[2, 0]


def test_a_corpus_of_which_an_epoch_has_nothing_is_waited_for():
    mixture = mixture_of((OTHERS, 0.25))
    assert [sum(map(len, epoch_batches(mixture, 64, 1, epoch))) for epoch in range(8)] == [0, 1, 1, 0, 0, 1, 1, 0]
