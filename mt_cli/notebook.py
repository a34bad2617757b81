"""What a notebook calls: `train` and `check` take what their commands take, and return what prints well."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mt_cli.config import Config
from mt_cli.config_file import load_config
from mt_cli.corpus_config import as_settings, files_of_set, read_config, usual_run_dir
from mt_cli.run.run_dir import RunDir

if TYPE_CHECKING:
    from mt_cli.checking.report import Report
    from mt_cli.decoding.translator import Translator

Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Run:
    """A trained run: where it lies, and the scores of its best checkpoint on the dev set."""

    path: Path
    step: int
    bleu: float
    chrf: float
    loss: float

    def translator(self) -> Translator:
        from mt_cli.decoding.translator import Translator

        return Translator.load(self.path)

    def __repr__(self) -> str:
        scores = f"dev BLEU {self.bleu:.1f}, chrF {self.chrf:.1f}, loss {self.loss:.3f} at step {self.step:,}"
        return f"<Run {self.path}: {scores}; .translator() translates>"

    __str__ = __repr__


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
    settings: Sequence[str] = (),
    progress: bool = True,
) -> Run:
    """Trains as `mt train` does, or continues the run that is there: `train(["a.es", "a.gn"], minutes=10)`.

    `corpus`: two text files, a table, or a config or its file. `settings`: `section.key=value`, as `--set` takes them.
    Without `run_dir` the run has the name that `mt train` gives it. Raises MTError, and Interrupted after Ctrl-C, when
    the work so far is saved.
    """
    from mt_cli.build import train as train_run

    show_progress(progress)
    if isinstance(corpus, Config):
        if run_dir is None:
            raise ValueError("a Config names no run; give run_dir")
        config = corpus
    else:
        files, parent, more = _paths(corpus), Path(init_from) if init_from else None, _paths(monolingual)
        chosen = {
            "data.words.files": files_of_set("words", _paths(words)) if words else None,
            "training.minutes": minutes,
            "data.clean": clean,
            "training.init_from": str(parent) if parent else None,
        }
        overrides = [*settings, *as_settings(chosen)]
        sets = _paths(dev) or None, _paths(test) or None
        config = read_config(files, src_lang, tgt_lang, columns, *sets, overrides, more or None, parent)
        names = {"clean": clean, "monolingual": monolingual, "words": words}
        run_dir = run_dir or usual_run_dir(files, config, [name for name, given in names.items() if given], parent)
    train_run(config, run_dir)
    return load_run(run_dir)


def load_run(path: str | Path) -> Run:
    """A run that was trained. Raises RunDirError where there is none, or none that was validated."""
    from mt_cli.errors import RunDirError

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
    settings: Sequence[str] = (),
) -> Report:
    """What `mt check` finds in a corpus: `print` shows it. Raises MTError."""
    from mt_cli.checking.check import check as check_corpus

    return check_corpus(
        corpus
        if isinstance(corpus, Config)
        else read_config(_paths(corpus), src_lang, tgt_lang, columns, overrides=settings)
    )


def show_progress(is_shown: bool = True) -> None:
    """Shows what is logged, unless somebody handles it already."""
    log = logging.getLogger("mt_cli")
    if is_shown and not log.hasHandlers():
        log.setLevel(logging.INFO)
        log.addHandler(logging.StreamHandler(sys.stderr))


def _paths(given: Paths) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(one) for one in given]


__all__ = ["Run", "check", "load_config", "load_run", "train"]
