"""mt: train, run and score your own machine translator.

    from mt_cli import evaluate, train
    run = train(["train.es", "train.gn"], minutes=10)
    run.translator().translate(["Buenos días."])
    evaluate(run.path)

`train` and `check` take most options of their commands. What they need is imported at their first use: torch takes a second,
and `mt --help` must not wait for it.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mt_cli.checking.report import Report
    from mt_cli.config import Config
    from mt_cli.config_file import load_config
    from mt_cli.decoding.translator import Translator
    from mt_cli.evaluation.evaluate import evaluate
    from mt_cli.explain.report import report

    __version__: str

__all__ = ["Run", "Translator", "__version__", "check", "evaluate", "load_config", "load_run", "report", "train"]
_HOMES = {
    "Translator": "decoding.translator", "evaluate": "evaluation.evaluate", "load_config": "config_file",
    "report": "explain.report",
}  # fmt: skip
Paths = str | Path | Sequence[str | Path]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("mt-cli")
    if name not in _HOMES:
        raise AttributeError(f"module 'mt_cli' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"mt_cli.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Run:
    """A trained run: where it lies, and the scores of its best checkpoint on the dev set."""

    path: Path
    step: int
    bleu: float
    chrf: float
    loss: float

    def translator(self) -> Translator:
        return __getattr__("Translator").load(self.path)

    def __repr__(self) -> str:
        scores = f"dev BLEU {self.bleu:.1f}, chrF {self.chrf:.1f}, loss {self.loss:.3f} at step {self.step:,}"
        return f"<Run {self.path}: {scores}; .translator() translates>"


def train(
    corpus: Config | Paths,
    run_dir: str | Path | None = None,
    *,
    minutes: float | None = None,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    columns: str | None = None,
    dev: Paths = (),
    test: Paths = (),
    clean: bool = False,
    init_from: str | Path | None = None,
    monolingual: Paths = (),
    words: Paths = (),
    in_domain: Paths = (),
    settings: Sequence[str] = (),
    progress: bool = True,
) -> Run:
    """Trains as `mt train` does, or continues the run that is there: `train(["a.es", "a.gn"], minutes=10)`.

    `corpus`: two text files, a table, several of these, a folder, or a config or its file. `settings`:
    `section.key=value`, as `--set` takes them. Without `run_dir` the run has the name that `mt train` gives it. Raises
    MTError, and Interrupted after Ctrl-C, when the work so far is saved.
    """
    from mt_cli.build import train as train_run
    from mt_cli.config import Config
    from mt_cli.corpus_config import read_config, usual_run_dir

    log = logging.getLogger("mt_cli")
    if progress and not log.hasHandlers():
        log.setLevel(logging.INFO)
        log.addHandler(logging.StreamHandler(sys.stderr))
    if isinstance(corpus, Config):
        if run_dir is None:
            raise ValueError("a Config names no run; give run_dir")
        config = corpus
    else:
        files, parent = _paths(corpus), Path(init_from) if init_from else None
        config = read_config(
            files, src_lang, tgt_lang, columns, _paths(dev), _paths(test), settings, _paths(monolingual), parent,
            _paths(words), minutes, clean, in_domain=_paths(in_domain),
        )  # fmt: skip
        names = {"clean": clean, "monolingual": monolingual, "words": words, "in-domain": in_domain}
        run_dir = run_dir or usual_run_dir(files, config, [name for name, given in names.items() if given], parent)
    train_run(config, run_dir)
    return load_run(run_dir)


def load_run(path: str | Path) -> Run:
    """A run that was trained. Raises RunDirError where there is none, or none that was validated."""
    from mt_cli.errors import RunDirError
    from mt_cli.run.run_dir import RunDir

    run = RunDir.existing(Path(path))
    scored = [record for record in run.logs.records(run.metrics_file) if record.get("is_best")]
    if not scored:
        raise RunDirError(f"{path}: not validated yet; train it on")
    return Run(run.path, *(scored[-1][name] for name in ("step", "bleu", "chrf", "dev_loss")))


def check(
    corpus: Config | Paths,
    *,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    columns: str | None = None,
    dev: Paths = (),
    test: Paths = (),
    settings: Sequence[str] = (),
) -> Report:
    """What `mt check` finds in a corpus: `print` shows it. Raises MTError."""
    from mt_cli.checking.check import check as check_corpus
    from mt_cli.config import Config
    from mt_cli.corpus_config import read_config

    if not isinstance(corpus, Config):
        corpus = read_config(_paths(corpus), src_lang, tgt_lang, columns, _paths(dev), _paths(test), settings)
    return check_corpus(corpus)


def _paths(given: Paths) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(one) for one in given]
