"""From pairs of token ids to the tensors of one forward pass.

    source    x1 x2 x3 </s>             what the encoder reads
    tgt_in    <s> y1 y2                 what the decoder is given
    tgt_out   y1  y2 </s>               what it shall predict, at each position from those up to it (teacher forcing)

Sentences of one batch are padded on the right to the longest, so an epoch batches pairs of similar length. Its order is a
function of (seed, epoch) alone: a training continues from a position, and no sampler has a state to save.

Masks: True means "may be attended", as in `F.scaled_dot_product_attention`. Letters in shapes: B sentences, S source
length, T target length, N target tokens without padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from mt_cli.data.dataset import Lengths, Mixture, TokenDataset

_POOL = 100  # blocks of a thousand pairs that are sorted together: enough for full batches of one length
_SHARE_APART = 0.03  # of the pairs; with a larger share, targets get over 2% of padding where batches are few
_MAX_TOKENS, _MAX_WEIGHTS = 4096, 1 << 19  # of a forward pass that keeps the attention weights; weights of one head


@dataclass(frozen=True)
class Batch:
    src_ids: Tensor  # (B,S)
    src_mask: Tensor  # (B,1,1,S)  True where there is no padding
    tgt_in: Tensor  # (B,T)
    tgt_out: Tensor  # (B,T)
    tgt_mask: Tensor  # (B,1,T,T)  True where a target token may attend: to itself and to earlier tokens
    # Where the flattened tgt_out has no padding, (N,). Found on the CPU: on a GPU, it would take a synchronisation.
    target_positions: Tensor

    @property
    def n_tokens(self) -> int:
        """N, end symbols included."""
        return len(self.target_positions)

    @property
    def targets(self) -> Tensor:
        """(N,): tgt_out without padding."""
        return self.without_padding(self.tgt_out)

    def without_padding(self, x: Tensor) -> Tensor:
        """(B,T,...) -> (N,...)."""
        return x.flatten(0, 1).index_select(0, self.target_positions)

    def repeated(self) -> Batch:
        """The batch followed by itself, 2B sentences: two forward passes in one. Targets of the first pass come first."""
        both = Batch(*(torch.cat([tensor, tensor]) for tensor in vars(self).values()))
        again = self.target_positions + self.tgt_out.numel()
        return replace(both, target_positions=torch.cat([self.target_positions, again]))

    def to(self, device: torch.device) -> Batch:
        return Batch(*(moved(tensor, device) for tensor in vars(self).values()))


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on `device`. A GPU copies it from pinned memory while the CPU continues."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def make_batch(dataset: TokenDataset | Mixture, indices: Sequence[int]) -> Batch:
    sides = (np.split(ids, lengths.cumsum()[:-1]) for ids, lengths in dataset.rows(indices))
    return batch_of(*([sentence.tolist() for sentence in side] for side in sides))


def batch_of(sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Batch:
    """A batch of pairs of ids, which come without begin and end symbols."""
    src_ids, src_mask = source_batch(sources)
    tgt_in = pad([[BOS_ID, *ids] for ids in targets])
    tgt_out = pad([[*ids, EOS_ID] for ids in targets])
    tgt_mask = padding_mask(tgt_in) & subsequent_mask(tgt_in.size(1))
    target_positions = (tgt_out != PAD_ID).flatten().nonzero().squeeze(1)
    return Batch(src_ids, src_mask, tgt_in, tgt_out, tgt_mask, target_positions)


def source_batch(sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """src_ids (B,S), each sentence ended by `</s>`, and src_mask (B,1,1,S)."""
    src_ids = pad([[*sentence, EOS_ID] for sentence in sentences])
    return src_ids, padding_mask(src_ids)


def pad(sentences: Sequence[Sequence[int]]) -> Tensor:
    """(B, longest), padded on the right."""
    ids = np.full((len(sentences), max(map(len, sentences))), PAD_ID, dtype=np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return torch.from_numpy(ids)


def padding_mask(ids: Tensor) -> Tensor:
    """(B,1,1,L) for ids (B,L): no query may attend to padding."""
    return (ids != PAD_ID)[:, None, None, :]


def subsequent_mask(length: int) -> Tensor:
    """(1,1,T,T): position t may attend to 1 .. t, and not to later positions."""
    return torch.ones(length, length, dtype=torch.bool).tril()[None, None]


# Which pairs share a batch -------------------------------------------------------------------------------------------


def epoch_batches(
    dataset: Mixture, batch_tokens: int, seed: int, epoch: int, is_last_phase: bool = False
) -> Iterator[list[int]]:
    """Indices of the pairs of each batch. Padded size: n_pairs * longest target <= batch_tokens and
    n_pairs * longest source <= 2 * batch_tokens, or a single pair."""
    rng = np.random.default_rng((seed, epoch))
    blocks = dataset.blocks(seed, epoch, is_last_phase)
    order = rng.permutation(len(blocks))
    for first in range(0, len(blocks), _POOL):
        pool = [stretch for b in order[first : first + _POOL] for stretch in blocks[b]]
        indices = np.concatenate([np.arange(*stretch) for stretch in pool])
        batches = _batches(dataset, indices, batch_tokens, rng.random(len(indices)))
        yield from (batches[b] for b in rng.permutation(len(batches)))


def fixed_batches(dataset: TokenDataset | Mixture, batch_tokens: int) -> list[list[int]]:
    """The same for measuring, where the order does not matter: every pair once, sorted by length."""
    return _batches(dataset, np.arange(len(dataset)), batch_tokens, np.zeros(len(dataset)))


def _batches(
    dataset: TokenDataset | Mixture, indices: Lengths, batch_tokens: int, tie_break: npt.NDArray[np.float64]
) -> list[list[int]]:
    """The pairs cut into batches in this order: by target length, then by source length, up for one target length and
    down for the next, so that a batch of two lengths has little padding. Pairs with far longer sources, which would pad
    their batch, come last, the longest first."""
    if not len(indices):
        return []
    src, tgt = (length + 1 for length in dataset.lengths(indices))
    is_apart = src - tgt > np.quantile(src - tgt, 1 - _SHARE_APART)
    second = np.where(is_apart, -tgt, np.where(tgt % 2, src, -src))
    order = np.lexsort((tie_break, second, np.where(is_apart, -src, tgt), is_apart))
    batches, start, longest_src, longest_tgt = list[list[int]](), 0, 0, 0
    for end, (n_src, n_tgt) in enumerate(zip(src[order].tolist(), tgt[order].tolist(), strict=True)):
        longest_src, longest_tgt = max(longest_src, n_src), max(longest_tgt, n_tgt)
        n_rows = end + 1 - start
        if n_rows > 1 and (n_rows * longest_tgt > batch_tokens or n_rows * longest_src > 2 * batch_tokens):
            batches.append(indices[order[start:end]].tolist())
            start, longest_src, longest_tgt = end, n_src, n_tgt
    return [*batches, indices[order[start:]].tolist()]


def batches_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of sentences that share a forward pass that keeps its attention weights, which grow with length squared."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])  # longest first
    while order:
        longest = lengths[order[0]] + 1
        n = max(1, min(_MAX_TOKENS // longest, _MAX_WEIGHTS // longest**2))
        yield order[:n]
        del order[:n]
