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
from mt_cli.errors import DataError, UsageError

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
    src, ref = only_file("--src", sources), only_file("--ref", references)
    assert ref is not None
    refuse_structured(src, ref)
    if src is not None and src == ref:
        raise UsageError(f"--src and --ref are both {src}; give the source and its translations")
    checkpoints = checkpoint or ["best"]
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
    """Log-probabilities of given translations: the sum, a tab, and each token with its own.

    The line is empty where a side is blank, and, with a warning, where one is longer than the model can read: a line that is
    split has no probability as a whole.
    """

    translator: Translator
    references: Iterator[str]
    name: str  # of the input, for messages

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        references = list(islice(self.references, len(lines)))
        if len(references) < len(lines):
            raise DataError(
                f"the references have {n_before + len(references)} lines, {self.name} more; make them line for line"
            )
        pairs = [self.translator.encode_pair(*sides) for sides in zip(lines, references, strict=True)]
        limit = self.translator.n_positions - 1
        for number, pair in enumerate(pairs, n_before + 1):
            if (longest := max(map(len, pair))) > limit:
                log.warning(f"{self.name}:{number}: {longest:,} tokens, the model reads {limit:,} at most; no score")
        can_score = [all(0 < len(ids) <= limit for ids in pair) for pair in pairs]
        scores = iter(self.translator.token_scores([pair for pair, can in zip(pairs, can_score, strict=True) if can]))
        return [
            self._line(tgt_ids, next(scores)) if can else "" for (_, tgt_ids), can in zip(pairs, can_score, strict=True)
        ]

    def _line(self, tgt_ids: list[int], scores: list[float]) -> str:
        from mt_cli.data.tokenizer import EOS_ID

        pieces = self.translator.tokenizer.tgt_pieces([*tgt_ids, EOS_ID])
        tokens = " ".join(f"{piece}:{score:.4f}" for piece, score in zip(pieces, scores, strict=True))
        return f"{math.fsum(scores):.6f}\t{tokens}"

    def finish(self, n_lines: int) -> None:
        if next(self.references, None) is not None:
            raise DataError(
                f"the references have more lines than {self.name}, which has {n_lines}; make them line for line"
            )
