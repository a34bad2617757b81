"""Text of another run that a run which begins with its weights learns as well, so that it forgets little of what that run
knew (mixed fine-tuning: Chu et al. 2017).

It is copied into the run, which then needs neither the other run nor its files.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from itertools import compress
from operator import methodcaller
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from mt_cli.config import Config, Corpus, DataConfig, SeveralPairs
from mt_cli.data.corpora import TrainingText, corpus_of
from mt_cli.data.corpus import SentencePair
from mt_cli.errors import DataError, RunDirError
from mt_cli.files import make_folder, read_inside, refuse_outside, write_atomically, write_text
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

_TAKES_ITS_PLACE = 0.5  # of the parent's pairs: so large a text is the parent's own one, mended or added to
_N_COPIED = 20_000  # pairs at most, or as many as an epoch needs


@dataclass(config=ConfigDict(strict=True, extra="forbid"), frozen=True)
class About:
    run: str  # whose text it is
    n_pairs: int
    weight: Annotated[float, Field(ge=0.001, le=1000)]  # how often an epoch has each of them


def rehearse(config: Config, run: RunDir, parent: RunDir) -> None:
    """Copies pairs of the parent's training text into the run, where the new text is of the same languages and so little
    that learning it would cost what the parent knows."""
    theirs, share = _same_pair(config.data, parent), config.training.rehearsal
    if theirs is None or not share or parent.is_imported:
        return
    text = TrainingText(config.data)
    n_new = sum(text.corpora[corpus_of(pair.line)].weight for pair in text.read())
    n_wanted = round(share / (1 - share) * n_new)
    try:
        pairs = _Text(parent, theirs)
        n_theirs = sum(1 for _ in pairs.read())
    except (DataError, RunDirError) as error:
        log.warning(
            f"{parent.path} has no training text any more, so what it knows may be forgotten ({error}); restore its files, or"
            " go on without"
        )
        return
    if not n_theirs or n_new >= _TAKES_ITS_PLACE * n_theirs:
        return
    n_pairs = min(n_theirs, max(_N_COPIED, n_wanted))
    is_chosen = np.zeros(n_theirs, bool)
    is_chosen[np.random.default_rng(config.training.seed).choice(n_theirs, n_pairs, replace=False)] = True
    make_folder(run.rehearsal)
    for side, file in enumerate(_files(run, config.data)):
        lines = (f"{pair[side]}\n".encode() for pair in compress(pairs.read(), is_chosen))
        write_atomically(Path(file), methodcaller("writelines", lines))
    about = About(str(parent.path), n_pairs, max(0.001, min(1.0, n_wanted / n_pairs)))
    write_text(_about_file(run), json.dumps(asdict(about), indent=2, ensure_ascii=False) + "\n")
    log.info(f"{share:.0%} of an epoch is text of {parent.path}, so that it is not forgotten: {run.rehearsal}")


class _Text:
    """What a run is trained on, without what machines translated."""

    def __init__(self, run: RunDir, data: DataConfig):
        """Raises DataError or RunDirError when it is not there or not what it was."""
        config = run.load_config()
        folder = run.of_pair(config.data, data)
        name = f"train {data.name}" if isinstance(config.data, SeveralPairs) else "train"
        self._text, self._sets = TrainingText(with_rehearsal(folder, data)), folder.sets
        run.text.refuse_other_data({name: self._text.sha256()}, True)

    def read(self) -> Iterator[SentencePair]:
        is_synthetic = [corpus.synthetic for corpus in self._text.corpora]
        pairs = self._text.read(on_bad_line="skip")
        return self._sets.trained(pair for pair in pairs if not is_synthetic[corpus_of(pair.line)])


def forget_rehearsal(run: RunDir) -> None:
    """Deletes what a start wrote that broke off."""
    shutil.rmtree(run.rehearsal, ignore_errors=True)


def with_rehearsal(run: RunDir, data: DataConfig) -> DataConfig:
    """The section in which what the run has made for itself, synthetic pairs and text of another run, are the last corpora.
    Raises RunDirError where it is damaged."""
    data = run.synthetic.with_pairs(data)
    try:
        about = TypeAdapter(About).validate_json(read_inside(run.path, _about_file(run)))
    except FileNotFoundError:
        return data
    except (OSError, ValueError):
        raise RunDirError(f"{_about_file(run)}: damaged; restore it from a copy") from None
    own = Corpus(files=_files(run, data), weight=about.weight, hold_out=False)
    return data.model_copy(update={"train": [*data.corpora, own]})


def _same_pair(data: DataConfig, parent: RunDir) -> DataConfig | None:
    """The parent's data between the same languages, in the same direction."""
    if isinstance(data, SeveralPairs):
        return None
    return next((pair for pair in parent.load_config().data.directions if pair.name == data.name), None)


def _files(run: RunDir, data: DataConfig) -> list[str]:
    files = [run.rehearsal / f"old.{tag}" for tag in (data.src_lang, data.tgt_lang)]
    for file in files:
        refuse_outside(run.path, file)
    return [str(file) for file in files]


def _about_file(run: RunDir) -> Path:
    return run.rehearsal / "about.json"
