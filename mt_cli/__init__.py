"""mt: train, run and score your own machine translator.

    from mt_cli import evaluate, train
    run = train(["train.es", "train.gn"], minutes=10)
    run.translator().translate(["Buenos días."])
    evaluate(run.path)

What is imported from here is loaded at its first use: torch takes a second, and `mt --help` must not wait for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mt_cli.config_file import load_config
    from mt_cli.decoding.translator import Translator
    from mt_cli.evaluation.evaluate import evaluate
    from mt_cli.explain.report import report
    from mt_cli.notebook import Run, check, load_run, train

    __version__: str

__all__ = ["Run", "Translator", "__version__", "check", "evaluate", "load_config", "load_run", "report", "train"]

_HOMES = {
    "Translator": "decoding.translator",
    "evaluate": "evaluation.evaluate",
    "load_config": "config_file",
    "report": "explain.report",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("mt-cli")
    if name not in __all__:
        raise AttributeError(f"module 'mt_cli' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"mt_cli.{_HOMES.get(name, 'notebook')}"), name)
    return found


def __dir__() -> list[str]:
    return __all__
