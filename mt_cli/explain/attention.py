"""How a translation comes about: what every layer and head attended to, which pieces that aligns, greedy search step by step.
Letters in shapes: L layers, H heads, S source pieces, T target pieces, both with the end symbol."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mt_cli.data.batching import source_batch, subsequent_mask
from mt_cli.data.spans import SYMBOLS
from mt_cli.data.tokenizer import BOS_ID, EOS_ID
from mt_cli.decoding.greedy import left_to_right
from mt_cli.decoding.parts import Part
from mt_cli.decoding.translator import Translator
from mt_cli.display import column_width
from mt_cli.explain.doubts import Alignment, align

_SHOWN = str.maketrans(SYMBOLS, "①②③④⑤⑥⑦⑧")  # a browser shows no symbols of spans
_N_SHOWN = 5  # of the most probable next pieces


@dataclass(frozen=True)
class AttentionMaps:
    """All attention weights of one sentence, or of one part of a line that was split."""

    source: str
    translation: str
    src_lang: str
    tgt_lang: str
    src_pieces: list[str]  # S
    tgt_pieces: list[str]  # T; what each row of the decoder predicts
    tgt_inputs: list[str]  # T; what the decoder gets to predict it, `<s>` first
    encoder: Tensor  # (L,H,S,S)
    decoder: Tensor  # (L,H,T,T)
    cross: Tensor  # (L,H,T,S)
    alignment: Alignment  # by the mean of all heads and layers


@torch.inference_mode()
def attention_maps(translator: Translator, part: Part) -> AttentionMaps:
    """The attention of the first model while it writes the best translation of a part."""
    tokenizer, data = translator.tokenizer, translator.config.data
    src_ids, tgt_ids = part.src_ids, part.hypotheses[0].ids_with_end
    tgt_in = [BOS_ID, *tgt_ids[:-1]]
    inputs = (*source_batch([src_ids]), torch.tensor([tgt_in]), subsequent_mask(len(tgt_in)))
    _, weights = translator.model.forward_with_weights(*(tensor.to(translator.device) for tensor in inputs))
    encoder, decoder, cross = (torch.cat(of_layers).float().cpu() for of_layers in weights)
    pieces = tokenizer.src_pieces([*src_ids, EOS_ID]), tokenizer.tgt_pieces(tgt_ids), tokenizer.tgt_pieces(tgt_in)
    src_pieces, tgt_pieces, tgt_inputs = ([piece.translate(_SHOWN) for piece in own] for own in pieces)
    source, translation = tokenizer.decode_src(src_ids), tokenizer.decode_tgt(part.hypotheses[0].ids)
    texts = source.translate(_SHOWN), translation.translate(_SHOWN)
    languages = data.src_lang.replace("_", "-"), data.tgt_lang.replace("_", "-")
    shown = *texts, *languages, src_pieces, tgt_pieces, tgt_inputs
    return AttentionMaps(*shown, encoder, decoder, cross, align(cross.mean((0, 1)), tgt_ids))


class TraceStep(NamedTuple):
    given: str  # the last target piece so far, or `<s>`
    likely: list[tuple[str, float]]  # the most probable next pieces and their probabilities
    chosen_id: int
    chosen: str


def trace_steps(translator: Translator, src_ids: list[int]) -> list[TraceStep]:
    """The steps by which greedy search translates one sentence, given without its end symbol."""
    pieces, steps = translator.tokenizer.tgt_pieces, list[TraceStep]()
    max_length = translator.max_length(len(src_ids), translator.config.decoding)

    def choose(log_probs: Tensor, sentences: list[int], ids: list[list[int]]) -> Tensor:
        best, likely = log_probs[0].topk(min(_N_SHOWN, log_probs.size(1)))
        given, shown = pieces([BOS_ID, *ids[0]])[-1], zip(pieces(likely.tolist()), best.exp().tolist(), strict=True)
        chosen = log_probs.argmax(-1)
        steps.append(TraceStep(given, list(shown), int(chosen), pieces(chosen.tolist())[0]))
        return chosen

    source, mask = (tensor.to(translator.device) for tensor in source_batch([src_ids]))
    left_to_right(translator.search_model, source, mask, [max_length], choose)
    return steps


def trace(translator: Translator, line: str) -> Iterator[str]:
    """Lines of text: source pieces, then one for each step of greedy search; none for a blank line. Long lines in parts."""
    for part in translator.split(line).parts:
        ids = list(part.ids)
        yield f"source: {' '.join(translator.tokenizer.src_pieces([*ids, EOS_ID]))}"
        rows, steps = list[list[str]](), trace_steps(translator, ids)
        for number, step in enumerate(steps, 1):
            likely = [cell for piece, probability in step.likely for cell in ("|", piece, f"{probability:.2f}")]
            rows.append([str(number), step.given, "->", *likely[1:], f"  chosen: {step.chosen}"])
        widths = [max(map(column_width, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            padding = [" " * (width - column_width(cell)) for cell, width in zip(row, widths, strict=True)]
            yield " ".join([padding[0] + row[0], *map("".join, zip(row[1:], padding[1:], strict=True))]).rstrip()
        if steps[-1].chosen_id != EOS_ID:
            yield f"stopped before the end symbol: {len(steps)} tokens are the limit for this source"
