"""The files of a run directory.

    config.yaml            every key with its value, and why, where it was chosen; can be trained from again
    run.json               of each product of the run, what it was made from and the hashes of its files (manifest.py)
    tokenizer.model        or tokenizer.src.model and tokenizer.tgt.model
    held_out/              dev.es, dev.gn, test.es, test.gn: the sets that were cut from the training text, if it was
    left_out.tsv           training pairs that are not trained on: line, reason, source, target
    check.json             what a check of the corpus found
    corpus.json            what the training text was like: lengths, characters
    corpus.back.json       the same from target to source, where that was learnt for good
    estimate.json          how chrF is estimated, fitted to the dev set; may be deleted, is made again
    back/                  the reverse model, where data.monolingual is given; a run directory as this one
    rehearsal/             text of the run that it began with, which it learns as well: old.es and old.gn
    synthetic/             the monolingual text and its translations by the reverse model: tgt.es and tgt.gn, line for line
    provenance.json        versions, command, seed, hashes: what made this run
    metrics.jsonl          losses and scores, a line each; equal for equal runs, so no clock in it
    timing.jsonl           the clock: seconds and tokens/s at the same steps
    tensorboard/           the metrics once more, for TensorBoard; where training.tensorboard asks for it
    report.html            the page of `mt report`; where training.report asks for it
    checkpoints/           step-000500.pt ...
    best, last             text files that name one of these each
    cache/                 token ids of the corpus; may be deleted, is built again
    .lock, .owner          held, and by whom, while it trains

A run of several language pairs has held_out/, left_out.tsv, check.json, corpus.json and cache/ of each in a folder of its
own, such as en-de/.

`mt translate RUN` needs the config, run.json, the tokenizer, corpus.json and one checkpoint, also after the directory was
moved.
"""

from __future__ import annotations

import difflib
import re
from functools import cached_property
from pathlib import Path

from mt_cli.config import Config, DataConfig, SeveralPairs
from mt_cli.config_file import load_config, to_yaml
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.errors import CheckpointError, RunDirError, as_typed
from mt_cli.files import cannot_write, read_inside, refuse_outside, refuse_special_file, write_bytes, write_text
from mt_cli.run.lock import RunLock
from mt_cli.run.logs import RunLogs
from mt_cli.run.manifest import Made, Manifest
from mt_cli.run.pair_files import PairFiles

RUNS = Path("runs")  # where `mt train` puts a run, relative to where it is started
_STEP_NAME = re.compile(r"^step-\d{6,}\.pt$")


class RunDir:
    def __init__(self, path: Path):
        self.path = path
        self.config_file = path / "config.yaml"
        self.provenance_file = path / "provenance.json"
        self.metrics_file = path / "metrics.jsonl"
        self.timing_file = path / "timing.jsonl"
        self.estimate_file = path / "estimate.json"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.back = path / "back"
        self.synthetic = path / "synthetic"
        self.lock = RunLock(path)
        self.logs = RunLogs((self.metrics_file, self.timing_file), self.lock)

    @classmethod
    def existing(cls, path: Path) -> RunDir:
        run = cls(path)
        if not run.config_file.is_file():
            found = (
                "no config.yaml in it" if path.is_dir() else "not a directory" if path.exists() else "no such directory"
            )
            raise RunDirError(f"{path}: {found}; expected a run directory, as `mt train` makes it{_meant(path)}")
        refuse_outside(run.path, run.config_file)
        return run

    @cached_property
    def manifest(self) -> Manifest:
        return Manifest(self.path, is_trained=bool(self.steps()))

    def load_config(self) -> Config:
        """Before the first checkpoint, the keys that were not given are open."""
        refuse_special_file(self.config_file)
        return load_config(self.config_file, is_open=not self.steps())

    def save_config(self, config: Config) -> None:
        """Writes every key with its value, and with the reason of what was chosen."""
        write_text(self.config_file, to_yaml(config, self.manifest.facts("recipe").get("reasons", {})))

    def begin(self, config: Config) -> None:
        """Marks the folder as a run's by the keys that were given."""
        if not self.config_file.exists():
            write_text(self.config_file, to_yaml(config, only_given=True))

    def of_pair(self, data: DataConfig, pair: DataConfig) -> PairFiles:
        """What the run, whose data is `data`, keeps of one of its language pairs."""
        return PairFiles(self.manifest, pair, self.path / pair.name if isinstance(data, SeveralPairs) else self.path)

    def tokenizer_files(self, is_joint: bool) -> list[Path]:
        names = ["tokenizer.model"] if is_joint else ["tokenizer.src.model", "tokenizer.tgt.model"]
        return [self.path / name for name in names]

    def load_tokenizer(self, is_joint: bool) -> Tokenizer:
        files = self.tokenizer_files(is_joint)
        try:
            return Tokenizer([self.manifest.read("tokenizer", file) for file in files])
        except CheckpointError as error:
            raise CheckpointError(f"{' or '.join(map(str, files))}: {error}") from None

    def save_tokenizer(self, tokenizer: Tokenizer) -> Made:
        files = self.tokenizer_files(tokenizer.is_joint)
        for file, model in zip(files, tokenizer.models, strict=True):
            write_bytes(file, model)
        return Made(files)

    def refuse_links(self) -> None:
        """Raises RunDirError where a link would lead writing out of the run directory, or a pipe would block it."""
        names = ("checkpoints", "cache", "tensorboard", "held_out", "back", "rehearsal", "synthetic")
        folders = [self.path / name for name in names]
        for path in (*self.lock.files, *self.logs.files, *folders):
            is_folder = path in folders
            if path.is_symlink():
                raise RunDirError(
                    f"{path}: is a symbolic link, expected a {'folder' if is_folder else 'file'}; delete it"
                )
            if not is_folder:
                refuse_special_file(path)

    @property
    def is_imported(self) -> bool:
        return self.steps() == [0] and not any(name.startswith("ids") for name in self.manifest.products)

    def refuse_incomplete(self) -> None:
        """Raises RunDirError for an imported run, and where all checkpoints are lost, so that nothing of what is left is
        overwritten."""
        if self.is_imported:
            raise RunDirError(
                f"{self.path}: imported, so there is no training to continue; begin a run with its weights: --from {as_typed(self.path)}"
            )
        for name in ("last", "best"):
            if not self.steps() and (self.path / name).is_file():
                raise RunDirError(
                    f"{self.path / name}: names a checkpoint, and {self.checkpoints} has none; restore them from a copy,"
                    " or choose another --run-dir"
                )

    # Checkpoints

    def make_checkpoints_folder(self) -> None:
        """Made before the first step, so that a file in its way is not reported only after the first validation."""
        try:
            self.checkpoints.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self.checkpoints, error) from None

    def checkpoint_file(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:06d}.pt"

    def steps(self) -> list[int]:
        """Steps of which there is a checkpoint, oldest first."""
        if not self.checkpoints.is_dir():
            return []
        return sorted(int(file.stem[5:]) for file in self.checkpoints.iterdir() if _STEP_NAME.match(file.name))

    def point(self, name: str, step: int) -> None:
        """Makes `best` or `last` name the checkpoint of `step`."""
        write_text(self.path / name, f"checkpoints/{self.checkpoint_file(step).name}\n")

    def find_checkpoint(self, name: str) -> Path:
        """The file of `best`, `last`, `step-N` or `averaged` (that of `last`). A name never leads out of the run."""
        if re.fullmatch(r"step-\d{1,12}", name):
            file = self.checkpoint_file(int(name[5:]))
        elif name not in {"best", "last", "averaged"}:
            raise RunDirError(f"'{name}' is no checkpoint's name; give best, last, step-N or averaged")
        else:
            try:
                file = self.path / ("last" if name == "averaged" else name)
                named = read_inside(self.path, file, 1000).decode("utf-8").strip().removeprefix("checkpoints/")
            except (OSError, UnicodeDecodeError):
                named = ""
            if not _STEP_NAME.match(named):
                raise RunDirError(f"{self.path}: no '{name}' checkpoint; train first, or choose {self._choices()}")
            file = self.checkpoints / named
        if not file.is_file():
            raise RunDirError(f"{file}: no such checkpoint; choose {self._choices()}")
        refuse_outside(self.path, file)
        return file

    def _choices(self) -> str:
        return "one of " + ", ".join(f"step-{step}" for step in self.steps()) if self.steps() else "another run"


def _meant(path: Path) -> str:
    """The runs that may be meant by a path that is none."""
    runs = sorted(file.parent for file in RUNS.glob("*/config.yaml"))
    if path == RUNS and runs:
        return f"; it holds {', '.join(map(str, runs[:5]))}"
    near = difflib.get_close_matches(path.name, [run.name for run in runs], n=1)
    return f"; did you mean {RUNS / near[0]}?" if near and not path.exists() else ""
