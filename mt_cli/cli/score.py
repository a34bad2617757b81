"""`mt score`."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mt_cli.cli import options
from mt_cli.cli.pipe import Batches, open_input, process_lines
from mt_cli.data.corpus import read_lines
from mt_cli.errors import DataError

if TYPE_CHECKING:
    from mt_cli.decoding.translator import Translator

log = logging.getLogger(__name__)


def score(
    runs: options.RunsArgument,
    references: Annotated[list[Path], typer.Option("--ref", help="Translations to score, line for line.")],
    sources: Annotated[list[Path] | None, typer.Option("--src", help="Source text; stdin by default.")] = None,
    checkpoint: options.CheckpointsOption = None,
    bad_input: options.BadInputOption = "error",
    device: options.DeviceOption = "auto",
    to: options.ToOption = None,
) -> None:
    """Print how probable given translations are.

    There is a line for each: the sum, a tab, and each token with its own log-probability (natural logarithms). It is empty
    where a side is blank or longer than the model can read.
    """
    src, ref = options.only_file("--src", sources), options.only_file("--ref", references)
    assert ref is not None
    options.refuse_structured(ref)
    name = str(src or "stdin")
    with open_input(src) as source:
        translator = options.load_translator(runs, checkpoint, device, to)
        process = partial(score_lines, translator, iter(read_lines(ref)), name)
        process_lines(source, name, process, sys.stdout.buffer, bad_input == "replace")


def score_lines(translator: Translator, references: Iterator[str], name: str, batches: Batches) -> Iterator[list[str]]:
    """Scores lines of the input `name` beside their references; none for what is longer than the model can read."""
    from mt_cli.data.tokenizer import EOS_ID

    limit, n_lines = translator.n_positions - 1, 0
    for n_before, lines in batches:
        chosen, n_lines = list(islice(references, len(lines))), n_before + len(lines)
        if (n_found := n_before + len(chosen)) < n_lines:
            raise DataError(f"the references have {n_found} lines, {name} more; make them line for line")
        pairs = [translator.encode_pair(*sides) for sides in zip(lines, chosen, strict=True)]
        scored, output = list[int](), [""] * len(lines)
        for i, (src_ids, tgt_ids) in enumerate(pairs):
            if (longest := max(len(src_ids), len(tgt_ids))) > limit:
                line = n_before + i + 1
                log.warning(f"{name}:{line}: {longest:,} tokens, the model reads {limit:,} at most; no score")
            elif src_ids and tgt_ids:
                scored.append(i)
        for i, scores in zip(scored, translator.token_scores([pairs[i] for i in scored]), strict=True):
            pieces = translator.tokenizer.tgt_pieces([*pairs[i][1], EOS_ID])
            tokens = " ".join(f"{piece}:{score:.4f}" for piece, score in zip(pieces, scores, strict=True))
            output[i] = f"{math.fsum(scores):.6f}\t{tokens}"
        yield output
    if next(references, None) is not None:
        raise DataError(f"the references have more lines than {name}, which has {n_lines}; make them line for line")
