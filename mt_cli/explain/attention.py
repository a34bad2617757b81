"""What every layer and head attended to in a translation, and which pieces that aligns.

Letters in shapes: L layers, H heads, S source pieces, T target pieces, both with the end symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from mt_cli.decoding.translator import Translation, Translator
from mt_cli.text.batching import batches_by_length, pad, source_batch, subsequent_mask
from mt_cli.text.tokenizer import BOS_ID, EOS_ID

Weights = list[list[list[list[float]]]]  # by layer, head, row that asks, column that answers
Links = list[tuple[int, int]]  # (source piece, target piece)


@dataclass(frozen=True)
class AttentionMaps:
    source: str
    translation: str
    src_lang: str
    tgt_lang: str
    src_pieces: list[str]  # S
    tgt_pieces: list[str]  # T; what each row of the decoder predicts
    tgt_fed: list[str]  # T; what the decoder was fed to predict it, `<s>` first
    encoder: Weights  # (L,H,S,S)
    decoder: Weights  # (L,H,T,T)
    cross: Weights  # (L,H,T,S)
    alignment: Links  # by the mean of all heads and layers; without the end symbols


def attend(translator: Translator, translation: Translation) -> list[AttentionMaps]:
    """The attention behind the best translation of a line: one for each part that it was read in, none for a blank."""
    return [attend_to(translator, part.src_ids, part.hypotheses[0].said) for part in translation.parts]


@torch.inference_mode()
def attend_to(translator: Translator, src_ids: list[int], tgt_ids: list[int]) -> AttentionMaps:
    """The attention while the model reads `src_ids`, without end symbol, and says `tgt_ids`, as a rule with it."""
    tokenizer, data, fed = translator.tokenizer, translator.config.data, [BOS_ID, *tgt_ids[:-1]]
    src, src_mask = source_batch([src_ids])
    inputs = (src, src_mask, torch.tensor([fed]), subsequent_mask(len(fed)))
    _, weights = translator.model.forward_with_weights(*(tensor.to(translator.device) for tensor in inputs))
    encoder, decoder, cross = (torch.cat(w).float().cpu() for w in (weights.encoder, weights.decoder, weights.cross))
    return AttentionMaps(
        source=tokenizer.decode_src(src_ids),
        translation=tokenizer.decode_tgt([i for i in tgt_ids if i != EOS_ID]),
        src_lang=data.src_lang,
        tgt_lang=data.tgt_lang,
        src_pieces=tokenizer.src_pieces([*src_ids, EOS_ID]),
        tgt_pieces=tokenizer.tgt_pieces(tgt_ids),
        tgt_fed=tokenizer.tgt_pieces(fed),
        encoder=encoder.tolist(),
        decoder=decoder.tolist(),
        cross=cross.tolist(),
        alignment=_links(cross.mean((0, 1)), tgt_ids),
    )


def _links(weights: Tensor, tgt_ids: list[int]) -> Links:
    """Each target piece with the source piece that it looked at most, by weights (T,S); end symbols apart."""
    n_pieces = len(tgt_ids) - tgt_ids.count(EOS_ID)
    return [(src, tgt) for tgt, src in enumerate(weights[:n_pieces, :-1].argmax(-1).tolist())]


class Attended(NamedTuple):
    """How the best translation of a part attended to its source, by the mean of all heads and layers."""

    received: Tensor  # (S,) by each source piece and the end symbol, from all target pieces together
    alignment: Links  # without end symbols


@torch.inference_mode()
def attended(translator: Translator, translations: Sequence[Translation]) -> list[list[Attended]]:
    """For each line how each of its parts was attended to. Unlike `attend`, for any number of lines."""
    pairs = [(part.src_ids, part.hypotheses[0].said) for one in translations for part in one.parts]
    found: dict[int, Attended] = {}
    for chosen in batches_by_length([max(map(len, pair)) for pair in pairs]):
        src_ids, src_mask = (t.to(translator.device) for t in source_batch([pairs[i][0] for i in chosen]))
        tgt_in = pad([[BOS_ID, *pairs[i][1][:-1]] for i in chosen]).to(translator.device)
        tgt_mask = subsequent_mask(tgt_in.size(1)).to(translator.device)
        memory, _ = translator.model.encode(src_ids, src_mask)
        _, _, cross = translator.model.decode(tgt_in, tgt_mask, memory, src_mask, return_weights=True)
        for i, weights in zip(chosen, torch.stack(cross).mean((0, 2)).float().cpu(), strict=True):  # (T,S)
            source, said = pairs[i]
            weights = weights[: len(said), : len(source) + 1]
            found[i] = Attended(weights.sum(0), _links(weights, said))
    in_order = (found[i] for i in range(len(pairs)))
    return [list(islice(in_order, len(one.parts))) for one in translations]


def links_of_line(parts: Iterable[tuple[Links, int, int]]) -> str:
    """The alignment of a line as `0-0 1-2`: source piece, target piece, counted through all parts of the line, of which
    each has its links, its number of source pieces and that of its target pieces."""
    links, n_src, n_tgt = list[str](), 0, 0
    for own, n_src_pieces, n_tgt_pieces in parts:
        links += [f"{n_src + src}-{n_tgt + tgt}" for src, tgt in own]
        n_src, n_tgt = n_src + n_src_pieces, n_tgt + n_tgt_pieces
    return " ".join(links)
