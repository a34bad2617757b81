"""What every format is told of the vocabulary: the files of the tokenizer, and what is never said."""

from __future__ import annotations

from pathlib import Path

from mt_cli.text.tokenizer import Tokenizer

NEVER = -1e4  # the bias of what is no part of a translation: no probability, as in our own search; float16 has it


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """`source.spm` and `target.spm`, the names that engines look for."""
    (folder / "source.spm").write_bytes(tokenizer.models[0])
    (folder / "target.spm").write_bytes(tokenizer.models[-1])
