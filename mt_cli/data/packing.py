"""Packs pairs into batches of one fixed shape, sentences one after another in a row, for which a GPU computes one
recorded graph. Letters in shapes: M source tokens, N target tokens, Z sentences, those of padding included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mt_cli.data.batching import moved
from mt_cli.data.dataset import Mixture
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID

NO_TARGET = -100  # what torch's cross-entropy leaves out
ROOM = 1.25  # for source tokens, above the mean: with 1.1, one batch in five was cut in two


class PackedShape(NamedTuple):
    """What fits into a batch: at most so many pairs, source and target tokens."""

    n_pairs: int
    n_src: int
    n_tgt: int
    longest: int  # tokens that a sentence may have, the end symbol included
    n_back: int  # source tokens where both sides are exchanged

    @property
    def n_fillers(self) -> int:
        """Sentences of padding, 1 to `longest` tokens each, as attention takes every token into one; a multiple of 8 is
        fastest."""
        return 8 * -(-max(self.n_src, self.n_tgt) // (8 * (self.longest - 1)))

    def backwards(self) -> PackedShape:
        return self._replace(n_src=self.n_back, n_tgt=self.n_src, n_back=self.n_src)


def packed_shape(dataset: Mixture, batch_tokens: int, n_parts: int = 1) -> PackedShape:
    """The shape for each of `n_parts` of batches of `batch_tokens`. Nearly all fit into it; `pieces` cuts the others."""
    longest = dataset.longest
    room = longest if n_parts > 1 else 0  # of sentences dealt out in turn, the first part may have one more
    n_tgt = max(-(-batch_tokens // n_parts) + room, longest)
    n_batches = dataset.n_targets / n_tgt  # of an epoch
    n_src = max(min(2 * n_tgt, int(ROOM * dataset.n_sources / n_batches)), longest)
    n_pairs = min(n_tgt, int(3 * dataset.n_pairs / n_batches) + 1)  # short sentences are batched together
    # Source tokens of an epoch that the other direction has beside the targets of this one, such as tags.
    n_more = max(0, dataset.backwards().n_sources - dataset.n_targets)
    n_back = n_tgt + min(n_tgt, int(ROOM * n_more / n_batches))
    n_src, n_tgt, n_back = (64 * -(-n // 64) for n in (n_src, n_tgt, n_back))
    return PackedShape(n_pairs, n_src, n_tgt, longest, n_back)


@dataclass(frozen=True)
class PackedBatch:
    longest: int  # no sentence has more tokens
    src_ids: Tensor  # (1,M)   x1 .. xn </s>  of all sentences
    src_starts: Tensor  # (Z+1,)  where each sentence begins, and the end of the last; int32
    src_positions: Tensor  # (M,)    of each token in its sentence, counted from 0
    tgt_in: Tensor  # (1,N)   <s> y1 .. ym
    tgt_starts: Tensor  # (Z+1,)
    tgt_positions: Tensor  # (N,)
    targets: Tensor  # (N,)    y1 .. ym </s>, and NO_TARGET for padding

    @property
    def tensors(self) -> list[Tensor]:
        return [value for value in vars(self).values() if isinstance(value, Tensor)]

    def repeated(self) -> PackedBatch:
        """The batch followed by itself: two forward passes in one."""
        rows = [torch.cat([tensor, tensor], dim=-1) for tensor in self.tensors]
        for n, starts in ((1, self.src_starts), (4, self.tgt_starts)):
            rows[n] = torch.cat([starts, starts[1:] + starts[-1]])
        return PackedBatch(self.longest, *rows)

    def to(self, device: torch.device) -> PackedBatch:
        return PackedBatch(self.longest, *(moved(tensor, device) for tensor in self.tensors))


def pieces(dataset: Mixture, pairs: list[int], shape: PackedShape) -> Iterator[list[int]]:
    """The pairs in their order, cut where `shape` is full."""
    start, n_src, n_tgt = 0, 0, 0
    for end, lengths in enumerate(zip(*(side.tolist() for side in dataset.lengths(pairs)), strict=True)):
        own_src, own_tgt = (length + 1 for length in lengths)
        if end - start == shape.n_pairs or n_src + own_src > shape.n_src or n_tgt + own_tgt > shape.n_tgt:
            yield pairs[start:end]
            start, n_src, n_tgt = end, 0, 0
        n_src, n_tgt = n_src + own_src, n_tgt + own_tgt
    yield pairs[start:]


def pack(dataset: Mixture, pairs: list[int], shape: PackedShape) -> PackedBatch:
    """A batch of pairs that fit into `shape`."""
    (src, n_src), (tgt, n_tgt) = dataset.rows(pairs)
    src_starts, src_positions = _sentences(n_src + 1, shape.n_src, shape)
    tgt_starts, tgt_positions = _sentences(n_tgt + 1, shape.n_tgt, shape)
    src_ids, targets = np.insert(src, n_src.cumsum(), EOS_ID), np.insert(tgt, n_tgt.cumsum(), EOS_ID)
    src_ids = _filled(src_ids, len(src_positions), PAD_ID)[None]
    tgt_in = _filled(np.insert(tgt, n_tgt.cumsum() - n_tgt, BOS_ID), len(tgt_positions), PAD_ID)[None]
    targets = _filled(targets, len(tgt_positions), NO_TARGET)
    arrays = src_ids, src_starts, src_positions, tgt_in, tgt_starts, tgt_positions, targets
    return PackedBatch(shape.longest, *map(torch.from_numpy, arrays))


def _sentences(lengths: np.ndarray, n_tokens: int, shape: PackedShape) -> tuple[np.ndarray, np.ndarray]:
    """Where each begins, and the position of each token in its own, of sentences one after another, then those of padding."""
    n_all = n_tokens + shape.n_fillers
    fillers = np.diff(np.arange(shape.n_fillers + 1) * (n_all - lengths.sum()) // shape.n_fillers)  # equally long
    lengths = np.concatenate([lengths, fillers, np.zeros(shape.n_pairs - len(lengths), np.int64)])
    starts = np.append(0, lengths.cumsum())
    return starts.astype(np.int32), np.arange(n_all) - np.repeat(starts[:-1], lengths)


def _filled(ids: np.ndarray, n: int, filler: int) -> np.ndarray:
    return np.concatenate([ids, np.full(n - len(ids), filler, np.int64)])
