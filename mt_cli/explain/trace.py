"""Greedy search, shown step by step, as `mt explain` prints it.

The source is encoded once. The decoder is given `<s>` and predicts the first token, is given that and predicts the second,
and so on, until it predicts `</s>`. Each step attends to all tokens before it, which stand in the lines above. Tokens are
chosen as `greedy_search` chooses them, one sentence at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from mt_cli.data.batching import source_batch
from mt_cli.data.tokenizer import BOS_ID, EOS_ID
from mt_cli.decoding.greedy import next_log_probs, refuse_nan
from mt_cli.decoding.translator import Translator
from mt_cli.display import column_width

_N_SHOWN = 5


@dataclass(frozen=True)
class TraceStep:
    given: str  # the last target piece so far, or `<s>`
    likely: list[tuple[str, float]]  # the most probable next pieces and their probabilities
    chosen_id: int
    chosen: str


@torch.inference_mode()
def trace_steps(translator: Translator, src_ids: list[int]) -> list[TraceStep]:
    """The steps that translate one sentence, given without its end symbol."""
    model, pieces = translator.search_model, translator.tokenizer.tgt_pieces
    max_length = translator.max_length(len(src_ids), translator.config.decoding)
    ids, mask = (tensor.to(translator.device) for tensor in source_batch([src_ids]))
    state = model.start(ids, mask, max_length)
    last, steps = BOS_ID, list[TraceStep]()
    while len(steps) < max_length and not (steps and last == EOS_ID):
        logits = model.advance(state, torch.tensor([last], device=translator.device))
        log_probs = next_log_probs(logits)[0]  # (V)
        refuse_nan([float(log_probs.max())])
        best, likely = log_probs.topk(min(_N_SHOWN, len(log_probs)))
        shown = list(zip(pieces(likely.tolist()), best.exp().tolist(), strict=True))
        chosen = int(log_probs.max(-1).indices)
        steps.append(TraceStep(pieces([last])[0], shown, chosen, pieces([chosen])[0]))
        last = chosen
    return steps


def trace(translator: Translator, line: str) -> Iterator[str]:
    """Lines of text: source pieces, then one for each step of greedy search; none for a blank line. Long lines in
    parts."""
    for ids in (list(part.ids) for part in translator.split(line).parts):
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
