"""Puts pairs of like length together, pads them, shifts the target for teacher forcing and makes the masks.

The order of an epoch is a function of (seed, epoch) alone, so a training continues from a position, not from a
sampler's state. Masks: True means "may be attended", as in `F.scaled_dot_product_attention`.

Letters in shapes: B sentences, S source length, T target length, N target tokens that are no padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mt_cli.text.dataset import Ids, TokenDataset
from mt_cli.text.tokenizer import BOS_ID, EOS_ID, PAD_ID

Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    src_ids: Tensor  # (B,S)      x1 .. xn </s>
    src_mask: Tensor  # (B,1,1,S)  True where there is no padding
    tgt_in: Tensor  # (B,T)      <s> y1 .. ym       what the decoder is shown
    tgt_out: Tensor  # (B,T)      y1 .. ym </s>      what it is to say
    tgt_mask: Tensor  # (B,1,T,T)  True where a target token may look: at itself and what stands before it
    target_positions: Tensor  # (N,)  where in tgt_out, flattened, there is no padding; a GPU would be waited for

    @property
    def n_tokens(self) -> int:
        """N: target tokens, end symbols included, without padding."""
        return len(self.target_positions)

    @property
    def targets(self) -> Tensor:
        """(N,): tgt_out without padding."""
        return self.without_padding(self.tgt_out)

    def without_padding(self, x: Tensor) -> Tensor:
        """(B,T,...) -> (N,...)."""
        return x.flatten(0, 1).index_select(0, self.target_positions)

    def twice(self) -> Batch:
        """All pairs once more after the last one, so 2B sentences; targets come out as all of one reading, then all of the
        other."""
        both = Batch(*(torch.cat([tensor, tensor]) for tensor in (getattr(self, field.name) for field in fields(self))))
        again = self.target_positions + self.tgt_out.numel()
        return replace(both, target_positions=torch.cat([self.target_positions, again]))

    def to(self, device: torch.device) -> Batch:
        """From pinned memory a GPU fetches it while the CPU goes on."""

        def moved(tensor: Tensor) -> Tensor:
            return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)

        return Batch(*(moved(getattr(self, field.name)) for field in fields(self)))


def pad(sentences: Sequence[Sequence[int] | Ids]) -> Tensor:
    """(B, longest), filled up with padding on the right."""
    ids = np.full((len(sentences), max(map(len, sentences))), PAD_ID, dtype=np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return torch.from_numpy(ids)


def padding_mask(ids: Tensor) -> Tensor:
    """(B,1,1,L) for ids (B,L): no query may look at padding."""
    return (ids != PAD_ID)[:, None, None, :]


def subsequent_mask(length: int) -> Tensor:
    """(1,1,T,T): position t may look at 1 .. t, never at what comes after it."""
    return torch.ones(length, length, dtype=torch.bool).tril()[None, None]


def source_batch(sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """src_ids (B,S), each sentence closed by `</s>`, and src_mask (B,1,1,S)."""
    src_ids = pad([[*sentence, EOS_ID] for sentence in sentences])
    return src_ids, padding_mask(src_ids)


_TOKENS_READ = 4096
_WEIGHTS = 1 << 19  # of one head


def batches_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Sentences by their numbers, those of like length together, as many at once as can be read with all of their attention
    weights, which grow with the square of the length."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])  # longest first
    while order:
        longest = lengths[order[0]] + 1
        n = max(1, min(_TOKENS_READ // longest, _WEIGHTS // longest**2))
        yield order[:n]
        del order[:n]


def make_batch(dataset: TokenDataset, indices: list[int]) -> Batch:
    return batch_of([dataset.src(i).tolist() for i in indices], [dataset.tgt(i).tolist() for i in indices])


def batch_of(sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Batch:
    """The batch of pairs of ids, given without begin and end symbols."""
    src_ids, src_mask = source_batch(sources)
    tgt_in, tgt_out = pad([[BOS_ID, *ids] for ids in targets]), pad([[*ids, EOS_ID] for ids in targets])
    tgt_mask = padding_mask(tgt_in) & subsequent_mask(tgt_in.size(1))
    target_positions = (tgt_out != PAD_ID).flatten().nonzero().squeeze(1)
    return Batch(src_ids, src_mask, tgt_in, tgt_out, tgt_mask, target_positions)


_POOL = 100_000  # pairs sorted together: enough for full batches of one length, and memory stays bounded
_BLOCK = 1_000  # neighbouring pairs that stay in one pool: a large file is read in stretches, not pair by pair


def epoch_batches(dataset: TokenDataset, batch_tokens: int, seed: int, epoch: int) -> Iterator[list[int]]:
    """The pairs of each batch of an epoch, every pair once, in an order that depends on (seed, epoch) alone.

    A batch holds as many pairs of like length as keep rows x longest target within `batch_tokens`, and rows x longest
    source within twice that.
    """
    rng = np.random.default_rng((seed, epoch))
    blocks = rng.permutation(-(-len(dataset) // _BLOCK))
    for first in range(0, len(blocks), _POOL // _BLOCK):
        stretches = [(b * _BLOCK, min((b + 1) * _BLOCK, len(dataset))) for b in blocks[first : first + _POOL // _BLOCK]]
        indices = np.concatenate([np.arange(*stretch) for stretch in stretches])
        src, tgt = (np.concatenate(side) + 1 for side in zip(*(dataset.lengths(*s) for s in stretches), strict=True))
        order = _by_length(src, tgt, rng.random(len(indices)))
        batches = list(_cut(src[order], tgt[order], batch_tokens))
        for b in rng.permutation(len(batches)):
            yield indices[order[batches[b]]].tolist()


def fixed_batches(dataset: TokenDataset, batch_tokens: int) -> Iterator[list[int]]:
    """Every pair once, sorted by length: for measuring, where the order does not matter."""
    src, tgt = (side + 1 for side in dataset.lengths(0, len(dataset)))
    order = _by_length(src, tgt, np.zeros(len(src)))
    for batch in _cut(src[order], tgt[order], batch_tokens):
        yield order[batch].tolist()


_SHARE_APART = 0.03  # of the pairs; with more, targets are padded by over 2% where batches are few


def _by_length(src: Lengths, tgt: Lengths, tie_break: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """By target length; within one, by source length in turns up and down, so that the last sources of one length and
    the first of the next are alike: a batch that spans both is padded little.

    Pairs with a source far longer than their target would pad all sources of their batch: they come after the others,
    by source length, the longest first.
    """
    if len(src) == 0:
        return np.empty(0, np.intp)
    is_apart = src - tgt > np.quantile(src - tgt, 1 - _SHARE_APART)
    first = np.where(is_apart, -src, tgt)
    second = np.where(is_apart, -tgt, np.where(tgt % 2, src, -src))
    return np.lexsort((tie_break, second, first, is_apart))


def _cut(src: Lengths, tgt: Lengths, batch_tokens: int) -> Iterator[slice]:
    """Cuts pairs in the order of `_by_length` (lengths with end symbols) into batches."""
    start, longest_src, longest_tgt = 0, 0, 0
    for end, (n_src, n_tgt) in enumerate(zip(src.tolist(), tgt.tolist(), strict=True)):
        longest_src, longest_tgt = max(longest_src, n_src), max(longest_tgt, n_tgt)
        n_rows = end + 1 - start
        if n_rows > 1 and (n_rows * longest_tgt > batch_tokens or n_rows * longest_src > 2 * batch_tokens):
            yield slice(start, end)
            start, longest_src, longest_tgt = end, n_src, n_tgt
    if len(tgt):
        yield slice(start, len(tgt))
