"""What the peers' loops train on: sentences as subword pieces, and batches of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)


class Pair(NamedTuple):
    src: list[int]  # x1 .. xn </s>
    tgt: list[int]  # <s> y1 .. ym </s>


def read_pairs(folder: Path, name: str = "train") -> list[Pair]:
    """The pairs of `folder/NAME.src` and `.tgt`: a sentence a line, pieces with spaces between them."""
    pieces = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    ids = {piece: i for i, piece in enumerate(pieces)}
    src, tgt = (
        [
            [ids[piece] for piece in line.split(" ")]
            for line in file.read_text(encoding="utf-8").rstrip("\n").split("\n")
        ]
        for file in (folder / f"{name}.src", folder / f"{name}.tgt")
    )
    return [Pair([*s, EOS_ID], [BOS_ID, *t, EOS_ID]) for s, t in zip(src, tgt, strict=True)]


def pad(sentences: list[list[int]]) -> Tensor:
    """(B, longest)"""
    return torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, sentences)), batch_first=True, padding_value=PAD_ID)


def given(pairs: list[Pair], folder: Path) -> Iterator[tuple[Tensor, Tensor]]:
    """src_ids (B,S) and tgt (B,1+T) without end, by `folder/batches.txt`: numbers of pairs, a batch a line."""
    for line in itertools.cycle((folder / "batches.txt").read_text(encoding="utf-8").splitlines()):
        yield _tensors([pairs[int(i)] for i in line.split()])


def bucketed(pairs: list[Pair], batch_tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Each epoch, pairs of like length together (sources in turns up and down), batches in random order."""
    while True:
        random.shuffle(pairs)
        pairs.sort(key=lambda pair: (len(pair.tgt), len(pair.src) * (-1) ** len(pair.tgt)))
        batches: list[list[Pair]] = [[]]
        for pair in pairs:
            if batches[-1] and (len(batches[-1]) + 1) * (len(pair.tgt) - 1) > batch_tokens:
                batches.append([])
            batches[-1].append(pair)
        random.shuffle(batches)
        yield from map(_tensors, batches)


def of_random_pairs(pairs: list[Pair], n_pairs: int) -> Iterator[tuple[Tensor, Tensor]]:
    """As a `DataLoader(shuffle=True)` of so many pairs does it."""
    while True:
        random.shuffle(pairs)
        for first in range(0, len(pairs), n_pairs):
            yield _tensors(pairs[first : first + n_pairs])


def _tensors(batch: list[Pair]) -> tuple[Tensor, Tensor]:
    return pad([pair.src for pair in batch]), pad([pair.tgt for pair in batch])
