"""Greedy search told step by step: the source is encoded once, the decoder is fed `<s>` and says the first token, is fed
that and says the second, until it says `</s>`. Each step attends to all that was fed before it.

What `mt translate --trace` shows. It chooses as `greedy_search` does, one sentence at a time, and writes no file.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from mt_cli.decoding.greedy import next_log_probs
from mt_cli.decoding.translator import Translator
from mt_cli.text.batching import source_batch
from mt_cli.text.corpus import normalize
from mt_cli.text.tokenizer import BOS_ID, EOS_ID

_N_SHOWN = 5
_MAX_FED_COLUMNS = 40  # leaves a step on one line of a wide terminal


@dataclass(frozen=True)
class TraceStep:
    fed: list[str]  # the target pieces so far, `<s>` first
    likely: list[tuple[str, float]]  # the most probable next pieces and their probabilities
    chosen: str
    chosen_id: int


def trace(translator: Translator, line: str) -> Iterator[str]:
    """Lines of text: the source pieces, then a line for each step of the greedy search. None for a blank line.

    A line longer than the model can read at once is told part by part, as it is translated.
    """
    for ids in translator.split(normalize(line)):
        steps = trace_steps(translator, ids)
        yield f"source: {' '.join(translator.tokenizer.src_pieces([*ids, EOS_ID]))}"
        yield from _aligned([_cells(number, step) for number, step in enumerate(steps, 1)])
        if steps[-1].chosen_id != EOS_ID:
            yield f"stopped before the end symbol: {len(steps)} tokens are the limit for this source"


@torch.inference_mode()
def trace_steps(translator: Translator, src_ids: list[int]) -> list[TraceStep]:
    """The steps that translate one sentence, given without its end symbol."""
    model, pieces = translator.search_model, translator.tokenizer.tgt_pieces
    max_length = translator.max_length(len(src_ids), translator.config.decoding)
    ids, mask = (tensor.to(translator.device) for tensor in source_batch([src_ids]))
    state = model.start(ids, mask, max_length)
    fed, steps = [BOS_ID], list[TraceStep]()
    while len(steps) < max_length:
        last = torch.tensor(fed[-1:], device=translator.device)
        log_probs = next_log_probs(model.advance(state, last))[0]  # (V)
        chosen = int(log_probs.max(-1).indices)
        best, likely = log_probs.topk(min(_N_SHOWN, len(log_probs)))
        shown = list(zip(pieces(likely.tolist()), best.exp().tolist(), strict=True))
        steps.append(TraceStep(pieces(fed), shown, pieces([chosen])[0], chosen))
        if chosen == EOS_ID:
            break
        fed.append(chosen)
    return steps


def _cells(number: int, step: TraceStep) -> list[str]:
    likely = [cell for piece, probability in step.likely for cell in ("|", piece, f"{probability:.2f}")]
    return [str(number), _shorten(step.fed), "->", *likely[1:], f"  chosen: {step.chosen}"]


def _shorten(fed: list[str]) -> str:
    """The pieces, or the first and the last few: the lines above show the others."""
    if _width(" ".join(fed)) <= _MAX_FED_COLUMNS:
        return " ".join(fed)
    kept: list[str] = []
    while _width(" ".join([fed[0], "…", fed[-len(kept) - 1], *kept])) <= _MAX_FED_COLUMNS:
        kept.insert(0, fed[-len(kept) - 1])
    return " ".join([fed[0], "…", *kept])


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The cells of each row side by side in columns of equal width; the first, a number, to the right."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padding = [" " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        yield " ".join([padding[0] + row[0], *map("".join, zip(row[1:], padding[1:], strict=True))]).rstrip()


def _width(text: str) -> int:
    """Columns of a terminal: Chinese characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
