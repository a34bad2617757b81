"""What lies where in a run directory.

    config.yaml            every key with its value, and why, where it was chosen; can be trained from again
    tokenizer.model        or tokenizer.src.model and tokenizer.tgt.model
    held_out/              dev.es, dev.gn, test.es, test.gn: the sets that were cut from the training text, if it was
    left_out.tsv           training pairs that are not trained on: line, reason, source, target
    data.json              hashes of the files it is trained on and of its tokenizer; written last when a run begins
    corpus.json            what the training text was like: lengths, characters
    provenance.json        versions, command, seed, hashes: what made this run
    metrics.jsonl          losses and scores, a line each; equal for equal runs, so no clock in it
    timing.jsonl           the clock: seconds and tokens/s at the same steps
    checkpoints/           step-000500.pt ...
    best, last             text files that name one of these each
    cache/                 token ids of the corpus; may be deleted, is built again
    .lock, .owner          held, and by whom, while it trains

`mt translate RUN` needs the config, the tokenizer and one checkpoint, also after the directory was moved.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mt_cli.config import Config
from mt_cli.config_file import comments_of, load_config, to_yaml
from mt_cli.errors import CheckpointError, RunDirError
from mt_cli.files import cannot_write, make_folder, refuse_special_file, write_bytes, write_text
from mt_cli.run_lock import RunLock
from mt_cli.run_logs import RunLogs
from mt_cli.text.corpus import SentencePair
from mt_cli.text.profile import CorpusProfile
from mt_cli.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)

_MAX_TOKENIZER_BYTES = 1 << 26  # several times what the largest vocabulary takes
_MAX_NOTES_BYTES = 1 << 24  # corpus.json has each character of the training text
_MAX_LIST_BYTES = 1 << 31
_STEP_NAME = re.compile(r"^step-\d{6,}\.pt$")


class RunDir:
    def __init__(self, path: Path):
        self.path = path
        self.config_file = path / "config.yaml"
        self.data_file = path / "data.json"
        self.held_out = path / "held_out"
        self.left_out_file = path / "left_out.tsv"
        self.profile_file = path / "corpus.json"
        self.provenance_file = path / "provenance.json"
        self.metrics_file = path / "metrics.jsonl"
        self.timing_file = path / "timing.jsonl"
        self.checkpoints = path / "checkpoints"
        self.cache = path / "cache"
        self.lock = RunLock(path)
        self.logs = RunLogs((self.metrics_file, self.timing_file), self.lock)

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
        refuse_special_file(self.config_file)
        return load_config(self.config_file)

    def save_config(self, config: Config, comments: Mapping[str, str] | None = None) -> None:
        """Writes every key with its value. Comments that stand there already stay."""
        kept = comments_of(self.read(self.config_file).decode()) if self.config_file.exists() else {}
        write_text(self.config_file, to_yaml(config, {**kept, **(comments or {})}))

    def begin(self, config: Config) -> None:
        """Marks the folder as a run's by what is settled at its first start: the keys that were given."""
        if not self.config_file.exists():
            write_text(self.config_file, to_yaml(config, only_given=True))

    # Sets that were cut from the training text

    def dev_files(self, config: Config) -> list[str]:
        return self.held_out_files(config, "dev") if config.data.dev is None else config.data.dev

    def test_sets(self, config: Config) -> dict[str, list[str]]:
        """The files of the dev set and of each test set, by name."""
        sets = {"dev": self.dev_files(config), **config.data.test}
        if config.data.dev is None and not config.data.test:
            sets["test"] = self.held_out_files(config, "test")
        return sets

    def save_held_out(self, config: Config, sets: Mapping[str, Sequence[SentencePair]]) -> None:
        make_folder(self.held_out)
        for name, pairs in sets.items():
            for file, side in zip(self.held_out_files(config, name), ("src", "tgt"), strict=True):
                write_text(Path(file), "".join(f"{getattr(pair, side)}\n" for pair in pairs))

    def save_left_out(self, pairs: Iterable[tuple[str, SentencePair]]) -> None:
        """`pairs` come with the reason why they are not trained on."""
        rows = (f"{pair.line}\t{reason}\t{pair.src}\t{pair.tgt}\n" for reason, pair in pairs)
        write_text(self.left_out_file, "line\treason\tsource\ttarget\n" + "".join(rows))

    def left_out_lines(self) -> set[int]:
        """The lines of the training files that are not trained on. Raises RunDirError when the list is damaged."""
        if not self.left_out_file.exists():
            return set()
        try:
            rows = self.read(self.left_out_file, _MAX_LIST_BYTES).decode("utf-8").split("\n")[1:-1]
            return {int(row.partition("\t")[0]) for row in rows}
        except ValueError:
            raise RunDirError(f"{self.left_out_file}: damaged; restore it from a copy") from None

    def held_out_files(self, config: Config, name: str) -> list[str]:
        return [str(self.held_out / f"{name}.{tag}") for tag in (config.data.src_lang, config.data.tgt_lang)]

    def settled_sections(self) -> tuple[str, ...]:
        """The sections of the config that may no longer change: none before the text is prepared, everything that is
        trained with once there is a checkpoint."""
        if self.steps():
            return "data", "tokenizer", "model", "training"
        return ("data", "tokenizer") if self.is_prepared else ()

    @property
    def is_prepared(self) -> bool:
        """Whether tokenizer and profile are made: `data.json` is written after them."""
        return self.data_file.exists() or bool(self.steps())

    def refuse_links(self) -> None:
        """Raises RunDirError where writing in place would go wherever a stranger wants, or would block."""
        for path in (*self.lock.files, *self.logs.files, self.checkpoints, self.cache):
            is_folder = path in (self.checkpoints, self.cache)
            if path.is_symlink():
                raise RunDirError(
                    f"{path}: is a symbolic link, expected a {'folder' if is_folder else 'file'}; delete it"
                )
            if not is_folder:
                refuse_special_file(path)

    def refuse_incomplete(self, config: Config) -> None:
        """Raises RunDirError where a part of a run is lost, so that nothing of what is left is overwritten."""
        if not self.steps():
            for name in ("last", "best"):
                if (self.path / name).is_file():
                    raise RunDirError(
                        f"{self.path / name}: names a checkpoint, and {self.checkpoints} has none; restore them from a copy,"
                        " or choose another --run-dir"
                    )
        if self.is_prepared:
            held_out = [Path(file) for file in self.dev_files(config)] if config.data.dev is None else []
            for file in self._tokenizer_files(config.tokenizer.joint) + held_out:
                if not file.exists():
                    raise RunDirError(f"{file}: lost; restore it from a copy, or choose another --run-dir")

    def save_data(self, sha256: dict[str, str]) -> None:
        """Remembers what the run is trained on: the hashes of the `train` and `dev` files and of the `tokenizer`."""
        if (left_out := self._sha256_of(self.left_out_file)) is not None:
            sha256 = {**sha256, "left_out": left_out}
        write_text(self.data_file, json.dumps({**sha256, "sha256": _sha256_of_values(sha256)}, indent=2) + "\n")

    def refuse_other_data(self, sha256: dict[str, str]) -> None:
        """Raises RunDirError when what the run is trained on has changed since it began. Where `data.json` is lost, a
        checkpoint knows the hashes and is asked later."""
        try:
            known = json.loads(self.read(self.data_file))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError):
            known = None
        is_dict = isinstance(known, dict) and all(isinstance(value, str) for value in known.values())
        own = known.pop("sha256", None) if is_dict else None  # runs of earlier versions have none
        if not is_dict or not known.keys() >= {"train", "dev"} or own not in {None, _sha256_of_values(known)}:
            if not self.steps():
                raise RunDirError(f"{self.data_file}: damaged; restore it from a copy, or choose another --run-dir")
            log.warning(f"{self.data_file}: damaged; delete it, the checkpoints know the data as well")
            return
        if known.get("left_out") != self._sha256_of(self.left_out_file):
            raise RunDirError(f"{self.left_out_file}: not what it was when this run began; restore it from a copy")
        changed = [name for name in known if name in sha256 and sha256[name] != known[name]]
        if "tokenizer" in changed:
            raise RunDirError(f"{self.path}: its tokenizer was replaced since this run began; restore it")
        if changed:
            raise self.other_data_error(" and ".join(changed))

    def other_data_error(self, names: str) -> RunDirError:
        return RunDirError(
            f"{self.path}: the {names} files are not what they were when this run began;"
            " restore them, or choose another --run-dir"
        )

    # Tokenizer

    def _tokenizer_files(self, is_joint: bool) -> list[Path]:
        names = ["tokenizer.model"] if is_joint else ["tokenizer.src.model", "tokenizer.tgt.model"]
        return [self.path / name for name in names]

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
        """A file of the run. Raises RunDirError for one that leads out of it, is larger or no regular file; OSError for
        none."""
        self._refuse_leading_out(file)
        refuse_special_file(file)
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

    def profile_sha256(self) -> str | None:
        return self._sha256_of(self.profile_file)

    def _sha256_of(self, file: Path) -> str | None:
        try:
            return hashlib.sha256(self.read(file, _MAX_LIST_BYTES)).hexdigest()
        except OSError:
            return None

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


def _sha256_of_values(values: dict[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in sorted(values.items())).encode()).hexdigest()
