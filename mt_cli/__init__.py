"""mt: train, run and score your own machine translator.

from mt_cli import Translator
Translator.load("runs/phrasebook").translate(["我有一只猫。"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mt_cli.decoding.translator import Translator

__all__ = ["Translator"]


def __getattr__(name: str) -> Any:
    # torch takes a second to import; `mt --help` shall not wait for it.
    if name == "Translator":
        from mt_cli.decoding.translator import Translator

        return Translator
    raise AttributeError(f"module 'mt_cli' has no attribute {name!r}")
