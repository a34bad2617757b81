"""Greedy search, shown step by step.

The source is encoded once. The decoder is given `<s>` and predicts the first token, is given that and predicts the second,
and so on, until it predicts `</s>`. Each step attends to all tokens before it. `mt explain` shows this; tokens are chosen as
`greedy_search` chooses them, one sentence at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from mt_cli.data.batching import source_batch
from mt_cli.data.tokenizer import BOS_ID, EOS_ID
from mt_cli.decoding.greedy import next_log_probs
from mt_cli.decoding.translator import Translator
from mt_cli.display import column_width

_N_SHOWN = 5
_MAX_INPUT_COLUMNS = 40  # so that a step fits on a line of a wide terminal


@dataclass(frozen=True)
class TraceStep:
    inputs: list[str]  # the target pieces so far, `<s>` first
    likely: list[tuple[str, float]]  # the most probable next pieces and their probabilities
    chosen: str
    chosen_id: int


def trace(translator: Translator, line: str) -> Iterator[str]:
    """Lines of text: the source pieces, then a line for each step of the greedy search. Nothing for a blank line.

    A line that is longer than the model can read at once is traced part by part, as it is translated.
    """
    for ids in translator.split(line):
        steps = trace_steps(translator, ids)
        yield f"source: {' '.join(translator.tokenizer.src_pieces([*ids, EOS_ID]))}"
        yield from _in_columns([_cells(number, step) for number, step in enumerate(steps, 1)])
        if steps[-1].chosen_id != EOS_ID:
            yield f"stopped before the end symbol: {len(steps)} tokens are the limit for this source"


@torch.inference_mode()
def trace_steps(translator: Translator, src_ids: list[int]) -> list[TraceStep]:
    """The steps that translate one sentence, given without its end symbol."""
    model, pieces = translator.search_model, translator.tokenizer.tgt_pieces
    max_length = translator.max_length(len(src_ids), translator.config.decoding)
    ids, mask = (tensor.to(translator.device) for tensor in source_batch([src_ids]))
    state = model.start(ids, mask, max_length)
    tgt_in, steps = [BOS_ID], list[TraceStep]()
    while len(steps) < max_length:
        last = torch.tensor(tgt_in[-1:], device=translator.device)
        log_probs = next_log_probs(model.advance(state, last))[0]  # (V)
        chosen = int(log_probs.max(-1).indices)
        best, likely = log_probs.topk(min(_N_SHOWN, len(log_probs)))
        shown = list(zip(pieces(likely.tolist()), best.exp().tolist(), strict=True))
        steps.append(TraceStep(pieces(tgt_in), shown, pieces([chosen])[0], chosen))
        if chosen == EOS_ID:
            break
        tgt_in.append(chosen)
    return steps


def _cells(number: int, step: TraceStep) -> list[str]:
    likely = [cell for piece, probability in step.likely for cell in ("|", piece, f"{probability:.2f}")]
    return [str(number), _shorten(step.inputs), "->", *likely[1:], f"  chosen: {step.chosen}"]


def _shorten(inputs: list[str]) -> str:
    """The pieces, or, if they are too many, the first and the last few: the lines above show the others."""
    if column_width(" ".join(inputs)) <= _MAX_INPUT_COLUMNS:
        return " ".join(inputs)
    kept: list[str] = []
    while column_width(" ".join([inputs[0], "…", inputs[-len(kept) - 1], *kept])) <= _MAX_INPUT_COLUMNS:
        kept.insert(0, inputs[-len(kept) - 1])
    return " ".join([inputs[0], "…", *kept])


def _in_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines whose cells stand in columns; the first column, a number, is aligned to the right."""
    widths = [max(map(column_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padding = [" " * (width - column_width(cell)) for cell, width in zip(row, widths, strict=True)]
        yield " ".join([padding[0] + row[0], *map("".join, zip(row[1:], padding[1:], strict=True))]).rstrip()
