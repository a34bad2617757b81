"""Which files are the dev set and the test sets of a run, which training pairs are left out, and how the others are spelled,
in its own directory.

Where a config names no dev set, some pairs of the training text are held out and kept here.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from mt_cli.config import DataConfig
from mt_cli.data.corpora import TrainingText, places_in_table
from mt_cli.data.corpus import CorpusReport, SentencePair, read_pairs
from mt_cli.data.spelling import AS_IT_IS, Spelling, Spellings, respelled
from mt_cli.errors import RunDirError
from mt_cli.files import make_folder, open_inside, read_inside, refuse_outside, write_atomically, write_text

_MAX_LIST_BYTES = 1 << 31


class RunSets:
    def __init__(self, folder: Path):
        self._folder = folder
        self.held_out = folder / "held_out"
        self.left_out_file = folder / "left_out.tsv"
        self.spelling_file = folder / "spelling.json"
        self.check_file = folder / "check.json"

    def dev_files(self, data: DataConfig) -> list[str]:
        return self.held_out_files(data, "dev") if data.dev is None else data.dev

    def all_files(self, data: DataConfig) -> dict[str, list[str]]:
        """The files of the dev set and of each test set, by name."""
        sets = {"dev": self.dev_files(data), **data.test}
        if data.dev is None and not data.test:
            sets["test"] = self.held_out_files(data, "test")
        return sets

    def held_out_files(self, data: DataConfig, name: str) -> list[str]:
        """Raises RunDirError for a link that leads out of the run."""
        files = [self.held_out / f"{name}.{tag}" for tag in (data.src_lang, data.tgt_lang)]
        for file in files:
            refuse_outside(self._folder, file)
        return [str(file) for file in files]

    def held_out_pairs(self, data: DataConfig) -> dict[str, list[SentencePair]]:
        """The sets that were cut from the training text, by name."""
        files = {name: self.held_out_files(data, name) for name in ("dev", "test")}
        return {
            name: list(read_pairs(paths, report=CorpusReport()))
            for name, paths in files.items()
            if all(Path(path).is_file() for path in paths)
        }

    def save_held_out(self, data: DataConfig, sets: Mapping[str, Sequence[SentencePair]]) -> None:
        make_folder(self.held_out)
        for name, pairs in sets.items():
            for file, side in zip(self.held_out_files(data, name), ("src", "tgt"), strict=True):
                write_text(Path(file), "".join(f"{getattr(pair, side)}\n" for pair in pairs))

    def forget(self) -> None:
        shutil.rmtree(self.held_out, ignore_errors=True)
        self.left_out_file.unlink(missing_ok=True)
        self.spelling_file.unlink(missing_ok=True)

    def save_spellings(self, spellings: Spellings) -> None:
        sides = dict(zip(("src", "tgt"), spellings, strict=True))
        write_text(self.spelling_file, json.dumps(sides, ensure_ascii=False, indent=2) + "\n")

    def spellings(self) -> Spellings:
        """Of the pairs that are trained on. Raises RunDirError when the file is damaged."""
        try:
            content = read_inside(self._folder, self.spelling_file)
            sides = TypeAdapter(dict[Literal["src", "tgt"], Spelling]).validate_json(content, strict=True)
            return sides.get("src", {}), sides.get("tgt", {})
        except FileNotFoundError:
            return AS_IT_IS
        except (OSError, ValueError):
            raise RunDirError(f"{self.spelling_file}: damaged; restore it from a copy") from None

    def save_left_out(self, text: TrainingText, pairs: Iterable[tuple[str, SentencePair]]) -> None:
        """`pairs` come with the reason why they are not trained on."""
        lines = (line.encode("utf-8", "backslashreplace") for line in text.table(pairs))  # a path need not be UTF-8
        write_atomically(self.left_out_file, methodcaller("writelines", lines))

    def left_out_lines(self) -> set[int]:
        """The places in the training text that are not trained on. Raises RunDirError when the list is damaged."""
        try:
            file = open_inside(self._folder, self.left_out_file)
            with io.TextIOWrapper(file, "utf-8", newline="\n") as rows:
                return places_in_table(rows)
        except FileNotFoundError:
            return set()
        except (OSError, ValueError):
            raise RunDirError(f"{self.left_out_file}: damaged; restore it from a copy") from None

    def trained(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Those of the pairs of the training text that are trained on, in the spelling of the training. Raises RunDirError as
        `left_out_lines` and `spellings` do."""
        left_out = self.left_out_lines()
        return respelled((pair for pair in pairs if pair.line not in left_out), self.spellings())

    def share_faulty(self) -> float:
        """The share of the pairs that the check of the corpus would drop; 0 where nothing is known."""
        try:
            report = json.loads(read_inside(self._folder, self.check_file, _MAX_LIST_BYTES))
            return len(report["dropped"]) / max(1, report["n_pairs"])
        except (RunDirError, OSError, ValueError, KeyError, TypeError, RecursionError):
            return 0.0  # it is for people; a training does not need it

    def left_out_sha256(self) -> str | None:
        return self._sha256_of(self.left_out_file)

    def spelling_sha256(self) -> str | None:
        return self._sha256_of(self.spelling_file)

    def _sha256_of(self, file: Path) -> str | None:
        try:
            with open_inside(self._folder, file) as content:
                return hashlib.file_digest(content, "sha256").hexdigest()
        except OSError:
            return None
