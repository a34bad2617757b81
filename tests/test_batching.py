"""Batches: every pair once, within the budget, in an order that only seed and epoch decide."""

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_cli.data.batching import batches_by_length, epoch_batches, fixed_batches, make_batch
from mt_cli.data.dataset import Block, TokenDataset, TokenPair, chosen_blocks
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID


class Lengths:
    """All of a dataset that the order of an epoch depends on; of any size."""

    def __init__(self, src: np.ndarray, tgt: np.ndarray):
        self._src, self._tgt, self.n_asked = np.asarray(src), np.asarray(tgt), 0

    def __len__(self) -> int:
        return len(self._src)

    def lengths(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.n_asked += len(indices)
        return self._src[indices], self._tgt[indices]

    def blocks(self, seed: int, epoch: int, is_last_phase: bool = False) -> list[Block]:
        return chosen_blocks(len(self), 1.0, np.random.default_rng(seed), epoch)

    def size(self, batch: list[int]) -> tuple[int, int, int]:
        """Rows, and the padded source and target tokens with their end symbols."""
        return len(batch), *(len(batch) * (int(side[batch].max()) + 1) for side in (self._src, self._tgt))


def realistic(n: int, seed: int = 1) -> Lengths:
    """Lengths as of a real corpus: a long tail, and sides that go with each other."""
    rng = np.random.default_rng(seed)
    src = np.clip(rng.lognormal(2.6, 0.6, n), 1, 250).astype(np.int64)
    tgt = np.clip(src * rng.normal(1.1, 0.2, n) + rng.integers(-1, 3, n), 1, 250).astype(np.int64)
    return Lengths(src, tgt)


DATASET = TokenDataset.in_memory(
    [TokenPair([10, 11, 12], [20, 21], 1), TokenPair([13], [22, 23, 24, 25], 2), TokenPair([14, 15], [], 3)]
)


def test_a_batch_is_padded_shifted_and_closed():
    batch = make_batch(DATASET, [1, 0])
    assert batch.src_ids.tolist() == [[13, EOS_ID, PAD_ID, PAD_ID], [10, 11, 12, EOS_ID]]
    assert batch.tgt_in.tolist() == [[BOS_ID, 22, 23, 24, 25], [BOS_ID, 20, 21, PAD_ID, PAD_ID]]
    assert batch.tgt_out.tolist() == [[22, 23, 24, 25, EOS_ID], [20, 21, EOS_ID, PAD_ID, PAD_ID]]
    assert batch.n_tokens == 8
    assert batch.src_ids.dtype == batch.tgt_in.dtype == batch.tgt_out.dtype == torch.int64


def test_masks_allow_tokens_and_neither_padding_nor_the_future():
    batch = make_batch(DATASET, [1, 0])
    assert batch.src_mask.int().tolist() == [[[[1, 1, 0, 0]]], [[[1, 1, 1, 1]]]]
    shown = [[[[s <= t and s < n for s in range(5)] for t in range(5)]] for n in (5, 3)]
    assert batch.tgt_mask.tolist() == shown


def test_a_batch_is_repeated_and_goes_to_a_device_whole():
    batch = make_batch(DATASET, [2, 0, 1])
    repeated = batch.repeated()
    for name, tensor in vars(batch).items():
        if name != "target_positions":
            assert torch.equal(getattr(repeated, name), torch.cat([tensor, tensor])), name
    assert torch.equal(repeated.targets, torch.cat([batch.targets, batch.targets]))
    assert repeated.n_tokens == 2 * batch.n_tokens
    assert {tensor.device.type for tensor in vars(batch.to(torch.device("meta"))).values()} == {"meta"}


def assert_within_budget(lengths: Lengths, batches: list[list[int]], batch_tokens: int) -> None:
    for batch in batches:
        n_rows, n_src, n_tgt = lengths.size(batch)
        assert n_rows == 1 or (n_tgt <= batch_tokens and n_src <= 2 * batch_tokens)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), max_size=150),
    st.integers(16, 400),
    st.integers(0, 2**31 - 1),
    st.integers(0, 50),
)
def test_every_pair_is_in_one_batch_of_an_epoch_and_within_the_budget(rows, batch_tokens, seed, epoch):
    lengths = Lengths(*np.array(rows, np.int64).reshape(-1, 2).T)
    for batches in map(list, (epoch_batches(lengths, batch_tokens, seed, epoch), fixed_batches(lengths, batch_tokens))):
        assert sorted(i for batch in batches for i in batch) == list(range(len(rows)))
        assert_within_budget(lengths, batches, batch_tokens)
        assert all(type(i) is int for batch in batches for i in batch)


def test_little_of_a_batch_is_padding():
    lengths = realistic(100_000)
    batches = list(epoch_batches(lengths, 4096, 1, 0))
    padded_src, padded_tgt = (sum(lengths.size(batch)[side] for batch in batches) for side in (1, 2))
    assert 1 - (lengths._tgt + 1).sum() / padded_tgt < 0.02
    assert 1 - (lengths._src + 1).sum() / padded_src < 0.06
    assert np.median([lengths.size(batch)[2] / 4096 for batch in batches]) > 0.9, "batches are full"


def test_a_large_corpus_is_taken_pool_by_pool_in_whole_blocks():
    lengths = realistic(230_500)
    assert next(epoch_batches(lengths, 8192, 5, 1)) and lengths.n_asked <= 100_000, "it waits for one pool only"
    batches = list(epoch_batches(lengths, 8192, 5, 1))
    order = [i for batch in batches for i in batch]
    assert len(order) == len(set(order)) == len(lengths)
    assert_within_budget(lengths, batches, 8192)
    # A hundred blocks are sorted together, from everywhere in the file.
    pool = {i // 1000 for i in order[:100_000]}
    assert len(pool) in {100, 101}
    assert max(pool) - min(pool) > 150
    assert sum(b - a == 1 for a, b in pairwise(sorted(pool))) < 90


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.one_of(st.integers(0, 40), st.integers(0, 5000)), max_size=300))
def test_batches_by_length_hold_every_sentence_once_and_are_bounded(lengths: list[int]) -> None:
    batches = list(batches_by_length(lengths))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = 1 + max(lengths[i] for i in batch)
        assert len(batch) == 1 or (len(batch) * longest <= 4096 and len(batch) * longest**2 <= 1 << 19)
    for batch, following in pairwise(batches):
        assert min(lengths[i] for i in batch) >= max(lengths[i] for i in following)
