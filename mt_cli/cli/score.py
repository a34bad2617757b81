"""`mt score`."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mt_cli.cli.options import (
    BadInputOption,
    CheckpointsOption,
    DeviceOption,
    RunsArgument,
    ToOption,
    catch_ctrl_c,
    only_file,
    refuse_missing_checkpoints,
    refuse_structured,
)
from mt_cli.cli.pipe import LineProcess, process_lines
from mt_cli.cli.streams import open_input
from mt_cli.data.corpus import read_lines
from mt_cli.errors import DataError

if TYPE_CHECKING:
    from mt_cli.decoding.translator import Translator

log = logging.getLogger(__name__)


def score(
    runs: RunsArgument,
    references: Annotated[list[Path], typer.Option("--ref", help="Translations to score, line for line.")],
    sources: Annotated[list[Path] | None, typer.Option("--src", help="Source text; stdin by default.")] = None,
    checkpoint: CheckpointsOption = None,
    bad_input: BadInputOption = "error",
    device: DeviceOption = "auto",
    to: ToOption = None,
) -> None:
    """Print how probable given translations are.

    There is a line for each: the sum, a tab, and each token with its own log-probability (natural logarithms). It is empty
    where a side is blank or longer than the model can read.
    """
    src, ref, checkpoints = only_file("--src", sources), only_file("--ref", references), checkpoint or ["best"]
    assert ref is not None
    refuse_structured(src, ref)
    refuse_missing_checkpoints(runs, checkpoints)
    with open_input(src) as source:
        from mt_cli.decoding.translator import Translator
        from mt_cli.device import keep_freed_memory

        keep_freed_memory()
        translator = Translator.load(*runs, checkpoint=checkpoints, device=device, to=to)
        name = str(src or "stdin")
        process = ScoreLines(translator, iter(read_lines(ref)), name)
        catch_ctrl_c()
        process_lines(source, name, process, sys.stdout.buffer, bad_input == "replace")


@dataclass
class ScoreLines(LineProcess):
    """Scores lines beside their references. A line that is longer than the model can read gets none: in parts it has no
    probability as a whole."""

    translator: Translator
    references: Iterator[str]
    name: str  # of the input, for messages

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        from mt_cli.data.tokenizer import EOS_ID

        references = list(islice(self.references, len(lines)))
        if (n_lines := n_before + len(references)) < n_before + len(lines):
            raise DataError(f"the references have {n_lines} lines, {self.name} more; make them line for line")
        pairs = [self.translator.encode_pair(*sides) for sides in zip(lines, references, strict=True)]
        limit, scored, output = self.translator.n_positions - 1, list[int](), [""] * len(lines)
        for i, (src_ids, tgt_ids) in enumerate(pairs):
            if (longest := max(len(src_ids), len(tgt_ids))) > limit:
                log.warning(
                    f"{self.name}:{n_before + i + 1}: {longest:,} tokens, the model reads {limit:,} at most; no score"
                )
            elif src_ids and tgt_ids:
                scored.append(i)
        for i, scores in zip(scored, self.translator.token_scores([pairs[i] for i in scored]), strict=True):
            pieces = self.translator.tokenizer.tgt_pieces([*pairs[i][1], EOS_ID])
            tokens = " ".join(f"{piece}:{score:.4f}" for piece, score in zip(pieces, scores, strict=True))
            output[i] = f"{math.fsum(scores):.6f}\t{tokens}"
        return output

    def finish(self, n_lines: int) -> None:
        if next(self.references, None) is not None:
            raise DataError(
                f"the references have more than the {n_lines} lines of {self.name}; make them line for line"
            )
