"""What all export formats have in common: the files of the tokenizer, and symbols that are never generated."""

from __future__ import annotations

from pathlib import Path

from mt_cli.data.tokenizer import Tokenizer

FORBIDDEN_BIAS = -1e4  # gives symbols that are no part of a translation probability 0, also in float16


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """`source.spm` and `target.spm`, the names that engines look for."""
    (folder / "source.spm").write_bytes(tokenizer.models[0])
    (folder / "target.spm").write_bytes(tokenizer.models[-1])
