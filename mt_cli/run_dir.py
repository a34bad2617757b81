"""What lies where in a run directory, how files get there whole, who holds the lock, and the metrics log.

    config.yaml            every key with its value; can be trained from again
    tokenizer.model        or tokenizer.src.model and tokenizer.tgt.model
    data.json              hashes of the files it is trained on
    corpus.json            what the training text was like: lengths, characters
    provenance.json        versions, command, seed, hashes: what made this run
    metrics.jsonl          losses and scores, a line each; equal for equal runs, so no clock in it
    timing.jsonl           the clock: seconds and tokens/s at the same steps
    checkpoints/           step-000500.pt ...
    best, last             text files that name one of these each
    cache/                 token ids of the corpus; may be deleted, is built again

`mt translate RUN` needs the config, the tokenizer and one checkpoint, also after the directory was moved.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mt_cli.config import Config
from mt_cli.config_file import load_config, to_yaml
from mt_cli.errors import CheckpointError, RunDirError
from mt_cli.files import cannot_write, make_folder, sync_folder, write_bytes, write_text
from mt_cli.text.profile import CorpusProfile
from mt_cli.text.tokenizer import Tokenizer

_MAX_TOKENIZER_BYTES = 1 << 26  # several times what the largest vocabulary takes
_MAX_NOTES_BYTES = 1 << 24  # corpus.json has each character of the training text
_STEP_NAME = re.compile(r"^step-\d{6,}\.pt$")


class RunDir:
    def __init__(self, path: Path):
        self.path = path
        self.config_file = path / "config.yaml"
        self.data_file = path / "data.json"
        self.profile_file = path / "corpus.json"
        self.provenance_file = path / "provenance.json"
        self.metrics_file = path / "metrics.jsonl"
        self.timing_file = path / "timing.jsonl"
        self.checkpoints = path / "checkpoints"
        self.cache = path / "cache"
        self._logs = (self.metrics_file, self.timing_file)

    @classmethod
    def existing(cls, path: Path) -> RunDir:
        run = cls(path)
        if not run.config_file.is_file():
            found = (
                "no config.yaml in it" if path.is_dir() else "not a directory" if path.exists() else "no such directory"
            )
            raise RunDirError(f"{path}: {found}; expected a run directory, as `mt train` makes it")
        run._refuse_leading_out(run.config_file)
        return run

    def _refuse_leading_out(self, file: Path) -> None:
        """A run from a stranger reads nothing but itself."""
        if not file.resolve().is_relative_to(self.path.resolve()):
            raise RunDirError(f"{file}: a link that leads out of the run directory; put the file itself there")

    def load_config(self) -> Config:
        return load_config(self.config_file)

    def save_config(self, config: Config) -> None:
        write_text(self.config_file, to_yaml(config))

    def settled_sections(self, begun: Config) -> tuple[str, ...]:
        """What may no longer change: nothing before a tokenizer is made of the text, everything that is trained with
        once there is a checkpoint. `begun` is the run's own config."""
        if self.steps():
            return "data", "tokenizer", "model", "training"
        return ("data", "tokenizer") if self.has_tokenizer(begun.tokenizer.joint) else ()

    def save_data(self, sha256: dict[str, str]) -> None:
        """Remembers what the run is trained on."""
        write_text(self.data_file, json.dumps(sha256, indent=2) + "\n")

    def refuse_other_data(self, sha256: dict[str, str]) -> None:
        """Raises RunDirError when what the run is trained on has changed since it began. Where that was lost, a checkpoint
        knows it and is asked later."""
        try:
            known = json.loads(self.read(self.data_file))
            known["train"], known["dev"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            if not self.steps():
                self.save_data(sha256)
            return
        changed = [name for name in sha256 if sha256[name] != known.get(name)]
        if changed:
            raise RunDirError(
                f"{self.path}: the {' and '.join(changed)} files are not what they were when this run began;"
                " restore them, or choose another --run-dir"
            )

    # Tokenizer

    def _tokenizer_files(self, is_joint: bool) -> list[Path]:
        names = ["tokenizer.model"] if is_joint else ["tokenizer.src.model", "tokenizer.tgt.model"]
        return [self.path / name for name in names]

    def has_tokenizer(self, is_joint: bool) -> bool:
        return all(file.is_file() for file in self._tokenizer_files(is_joint))

    def load_tokenizer(self, is_joint: bool) -> Tokenizer:
        files = self._tokenizer_files(is_joint)
        try:
            return Tokenizer([self.read(file, _MAX_TOKENIZER_BYTES) for file in files])
        except OSError as error:
            raise RunDirError(
                f"{error.filename}: {error.strerror}; the tokenizer belongs to the run directory"
            ) from None
        except CheckpointError as error:
            raise CheckpointError(f"{' or '.join(map(str, files))}: {error}") from None

    def read(self, file: Path, max_bytes: int = _MAX_NOTES_BYTES) -> bytes:
        """A file of the run. Raises RunDirError for one that leads out of it or is larger, OSError for none."""
        self._refuse_leading_out(file)
        with file.open("rb") as handle:
            content = handle.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise RunDirError(f"{file}: more than {max_bytes:,} bytes; restore it from a copy")
        return content

    def save_tokenizer(self, tokenizer: Tokenizer) -> None:
        for file, model in zip(self._tokenizer_files(tokenizer.is_joint), tokenizer.models, strict=True):
            write_bytes(file, model)

    def load_profile(self) -> CorpusProfile | None:
        """What the training text was like; None for a run that was made before this was kept."""
        try:
            return CorpusProfile.model_validate_json(self.read(self.profile_file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise RunDirError(
                f"{self.profile_file}: damaged; restore it, or delete it and do without what it is for"
            ) from None

    def save_profile(self, profile: CorpusProfile) -> None:
        write_text(self.profile_file, profile.model_dump_json(indent=2) + "\n")

    # Checkpoints

    def make_checkpoints_folder(self) -> None:
        """What stands in its way is better met before the first step than after the first validation."""
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
        """The file of `best`, `last`, `step-N` or `averaged` (that of the last). A name never leads out of the run."""
        if re.fullmatch(r"step-\d{1,12}", name):
            file = self.checkpoint_file(int(name[5:]))
        elif name not in {"best", "last", "averaged"}:
            raise RunDirError(f"'{name}' is no checkpoint's name; give best, last, step-N or averaged")
        else:
            try:
                file = self.path / ("last" if name == "averaged" else name)
                named = self.read(file, 1000).decode("utf-8").strip().removeprefix("checkpoints/")
            except (OSError, UnicodeDecodeError):
                named = ""
            if not _STEP_NAME.match(named):
                raise RunDirError(f"{self.path}: no '{name}' checkpoint; train first, or choose {self._choices()}")
            file = self.checkpoints / named
        if not file.is_file():
            raise RunDirError(f"{file}: no such checkpoint; choose {self._choices()}")
        self._refuse_leading_out(file)
        return file

    def _choices(self) -> str:
        return "one of " + ", ".join(f"step-{step}" for step in self.steps()) if self.steps() else "another run"

    # Metrics

    def append(self, file: Path, record: dict[str, Any]) -> None:
        try:
            with file.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            raise cannot_write(file, error) from None

    def sizes(self) -> dict[str, int]:
        """Bytes of the two logs, which a checkpoint keeps; they are on the disk before it is."""
        sizes, file = dict[str, int](), self.path
        try:
            for file in self._logs:
                if file.exists():
                    with file.open("ab") as handle:
                        os.fsync(handle.fileno())
                sizes[file.name] = file.stat().st_size if file.exists() else 0
            sync_folder(self.path)
        except OSError as error:
            raise cannot_write(file, error) from None
        return sizes

    def rewind(self, sizes: dict[str, int]) -> None:
        """Cuts the logs back to what they were at a checkpoint: what came after it is done again."""
        if min(sizes.values()) < 0:
            raise ValueError("a log of a negative size")
        for file in self._logs:
            if file.exists() and file.stat().st_size > sizes[file.name]:
                os.truncate(file, sizes[file.name])

    # Lock

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Held while training; the kernel lets go of it when the process ends, however it ends."""
        owner, lock_file = self.path / ".owner", self.path / ".lock"
        for path in (owner, lock_file, *self._logs, self.checkpoints, self.cache):
            if path.is_symlink():  # what is written to it in place would go wherever a stranger wants
                kind = "folder" if path in (self.checkpoints, self.cache) else "file"
                raise RunDirError(f"{path}: is a symbolic link, expected a {kind}; delete it")
        try:
            for folder in (*reversed(self.path.parents), self.path):
                make_folder(folder)
            lock = FileLock(lock_file, timeout=0)
            lock.acquire()
        except Timeout:
            who = owner.read_text(encoding="utf-8", errors="replace") if owner.exists() else "another process"
            who = " ".join(who.split())[:80]
            raise RunDirError(f"{self.path} is in use ({who}); wait for it, or choose another --run-dir") from None
        except OSError as error:
            raise RunDirError(f"{self.path}: {error.strerror}; choose another --run-dir") from None
        try:
            for orphan in (*self.path.glob(".tmp-*"), *self.checkpoints.glob(".tmp-*")):
                if not orphan.is_dir():  # an export's, which may still be writing
                    orphan.unlink(missing_ok=True)  # of a process that was killed while it wrote
            write_text(owner, f"pid {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M')}")
            yield
        finally:
            with contextlib.suppress(OSError):  # the folder is gone, or may no longer be written
                owner.unlink(missing_ok=True)
            lock.release()
