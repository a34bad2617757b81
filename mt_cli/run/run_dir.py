"""The files of a run directory.

    config.yaml            every key with its value, and why, where it was chosen; can be trained from again
    tokenizer.model        or tokenizer.src.model and tokenizer.tgt.model
    held_out/              dev.es, dev.gn, test.es, test.gn: the sets that were cut from the training text, if it was
    spelling.json          signs that training reads as the dev set writes them, if there are any
    left_out.tsv           training pairs that are not trained on: line, reason, source, target
    check.json             what a check of the corpus found
    data.json              hashes of the files it is trained on and of its tokenizer; written last when a run begins
    corpus.json            what the training text was like: lengths, characters
    corpus.back.json       the same from target to source, where that was learnt for good
    estimate.json          how chrF is estimated, fitted to the dev set; may be deleted, is made again
    back/                  the run from target to source, where data.monolingual is given; a run directory as this one
    rehearsal/             text of the run that it began with, which it learns as well: old.es and old.gn, and about.json
    synthetic/             what it made of the monolingual text: tgt.es and tgt.gn, line for line, and about.json
    provenance.json        versions, command, seed, hashes: what made this run
    metrics.jsonl          losses and scores, a line each; equal for equal runs, so no clock in it
    timing.jsonl           the clock: seconds and tokens/s at the same steps
    tensorboard/           the metrics once more, for TensorBoard; where training.tensorboard asks for it
    report.html            the page of `mt report`; where training.report asks for it
    checkpoints/           step-000500.pt ...
    best, last             text files that name one of these each
    cache/                 token ids of the corpus; may be deleted, is built again
    .lock, .owner          held, and by whom, while it trains

A run of several language pairs has held_out/, spelling.json, left_out.tsv, check.json, corpus.json and cache/ of each in a
folder of its own, such as en-de/.

`mt translate RUN` needs the config, the tokenizer and one checkpoint, also after the directory was moved.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from mt_cli.config import Config, DataConfig, SeveralPairs
from mt_cli.config_file import comments_of, load_config, to_yaml
from mt_cli.errors import RunDirError, as_typed
from mt_cli.files import cannot_write, read_inside, refuse_outside, refuse_special_file, write_text
from mt_cli.run.held_out import RunSets
from mt_cli.run.lock import RunLock
from mt_cli.run.logs import RunLogs
from mt_cli.run.synthetic import RunSynthetic
from mt_cli.run.text_files import RunText

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
        self.cache = path / "cache"
        self.tensorboard = path / "tensorboard"
        self.text = RunText(path)
        self.sets = RunSets(path)
        self.back = path / "back"
        self.rehearsal = path / "rehearsal"
        self.synthetic = RunSynthetic(path)
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

    def load_config(self) -> Config:
        """Before the text is prepared, the keys that were not given are open."""
        refuse_special_file(self.config_file)
        return load_config(self.config_file, is_open=not self.is_prepared)

    def save_config(self, config: Config, comments: Mapping[str, str] | None = None) -> None:
        """Writes every key with its value. Comments that stand there already stay."""
        kept = comments_of(read_inside(self.path, self.config_file).decode()) if self.config_file.exists() else {}
        write_text(self.config_file, to_yaml(config, {**kept, **(comments or {})}))

    def begin(self, config: Config) -> None:
        """Marks the folder as a run's by what is settled at its first start: the keys that were given."""
        if not self.config_file.exists():
            write_text(self.config_file, to_yaml(config, only_given=True))

    def of_pair(self, data: DataConfig, pair: DataConfig) -> RunDir:
        """Where the run, whose data is `data`, keeps what belongs to one of its language pairs alone: itself, unless there
        are several. Raises RunDirError for a link that leads out of the run."""
        if not isinstance(data, SeveralPairs):
            return self
        folder = self.path / pair.name
        refuse_outside(self.path, folder)
        return RunDir(folder)

    def settled_sections(self) -> tuple[str, ...]:
        """The sections and keys of the config that may no longer change: none before the text is prepared, everything that is
        trained with once there is a checkpoint."""
        if self.steps():
            return "data", "tokenizer", "model", "training"
        return ("data", "tokenizer", "training.init_from") if self.is_prepared else ()

    @property
    def is_prepared(self) -> bool:
        """Whether tokenizer and profile are made: the hashes of the text are written after them."""
        return self.text.hashes_file.exists() or bool(self.steps())

    def refuse_links(self) -> None:
        """Raises RunDirError where a link would lead writing out of the run directory, or a pipe would block it."""
        folders = (
            self.checkpoints, self.cache, self.tensorboard, self.sets.held_out, self.back, self.rehearsal,
            self.synthetic.folder,
        )  # fmt: skip
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
        return self.steps() == [0] and not self.text.hashes_file.exists()

    def refuse_incomplete(self, config: Config) -> None:
        """Raises RunDirError for an imported run, and where a part is lost, so that nothing of what is left is overwritten."""
        if self.is_imported:
            raise RunDirError(
                f"{self.path}: imported, so there is no training to continue; begin a run with its weights: --from {as_typed(self.path)}"
            )
        if not self.steps():
            for name in ("last", "best"):
                if (self.path / name).is_file():
                    raise RunDirError(
                        f"{self.path / name}: names a checkpoint, and {self.checkpoints} has none; restore them from a copy,"
                        " or choose another --run-dir"
                    )
        if self.is_prepared:
            cut = [pair for pair in config.data.directions if pair.dev is None]
            held_out = [Path(file) for pair in cut for file in self.of_pair(config.data, pair).sets.dev_files(pair)]
            for file in (*self.text.tokenizer_files(config.tokenizer.joint), *held_out):
                if not file.exists():
                    raise RunDirError(f"{file}: lost; restore it from a copy, or choose another --run-dir")

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
