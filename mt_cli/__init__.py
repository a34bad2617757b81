"""mt: train, run and score your own machine translator.

from mt_cli import Translator, train
train("configs/phrasebook.yaml", "runs/phrasebook")
Translator.load("runs/phrasebook").translate(["我有一只猫。"])

Progress is logged to the logger "mt_cli".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mt_cli.build import train
    from mt_cli.decoding.translator import Translator

__all__ = ["Translator", "train"]


def __getattr__(name: str) -> Any:
    # torch takes a second to import, and `mt --help` must not wait for it.
    if name == "Translator":
        from mt_cli.decoding.translator import Translator

        return Translator
    if name == "train":
        from mt_cli.build import train

        return train
    raise AttributeError(f"module 'mt_cli' has no attribute {name!r}")
