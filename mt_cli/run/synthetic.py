"""The synthetic pairs of a run: lines of its monolingual text, and their translations by a run that translates back."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from mt_cli.config import Corpus, DataConfig
from mt_cli.data.corpus import sha256_of
from mt_cli.errors import DataError, RunDirError
from mt_cli.files import make_folder, read_inside, refuse_outside, write_text

_MAX_BLOCK_BYTES = 1 << 28


@dataclass(config=ConfigDict(strict=True, extra="forbid"), frozen=True)
class About:
    """What is known of the synthetic pairs."""

    monolingual_sha256: str
    back: str  # the run that translates them
    back_sha256: str  # of its weights
    n_lines: int  # of the monolingual text
    n_chosen: int  # of these, that are to be translated
    left_out: dict[str, int]  # lines by the reason
    seconds: float  # that all this took
    n_pairs: int | None = None  # None until they are made; 0 where the run back has not learnt enough
    weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0  # how often an epoch has each of them
    settings_sha256: str | None = None  # of what else they depend on; None in runs of earlier versions
    pairs_sha256: list[str] | None = None  # of the files of them; None in runs of earlier versions


_Content = TypeVar("_Content")
_LINES = TypeAdapter(list[str])
_TRANSLATIONS = TypeAdapter(tuple[list[str], float])  # and the seconds that they took


class RunSynthetic:
    """The folder `synthetic` of a run."""

    def __init__(self, run: Path):
        self._run = run
        self.folder = run / "synthetic"
        self._blocks = self.folder / "blocks"
        self._about_file = self.folder / "about.json"

    def files(self, data: DataConfig) -> list[str]:
        """Of their sources and of their targets. Raises RunDirError for a link that leads out of the run."""
        files = [self.folder / f"tgt.{tag}" for tag in (data.src_lang, data.tgt_lang)]
        for file in files:
            refuse_outside(self._run, file)
        return [str(file) for file in files]

    def with_pairs(self, data: DataConfig) -> DataConfig:
        """The section in which they are the last corpus; as it is where there are none."""
        about = self.about() if data.monolingual is not None else None
        if about is None or not about.n_pairs:
            return data
        own = Corpus(files=self.files(data), weight=about.weight, synthetic=True)
        return data.model_copy(update={"train": [*data.corpora, own]})

    def about(self) -> About | None:
        """None before the lines are chosen. Raises RunDirError when it is damaged."""
        try:
            return TypeAdapter(About).validate_json(read_inside(self._run, self._about_file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise self._damaged(self._about_file) from None

    def refuse_damaged_pairs(self, data: DataConfig, about: About) -> None:
        """Raises RunDirError where they are not those that were written."""
        for file, sha256 in zip(self.files(data), about.pairs_sha256 or (), strict=False):
            try:
                is_whole = sha256_of([file]) == sha256
            except DataError:  # lost
                is_whole = False
            if not is_whole:
                raise self._damaged(Path(file))

    def save_about(self, about: About) -> None:
        write_text(self._about_file, json.dumps(asdict(about), indent=2, ensure_ascii=False) + "\n")

    # While they are made: blocks of lines, each with its translations once it has them

    def begin(self) -> None:
        self.delete_blocks()  # of a start that broke off
        for folder in (self.folder, self._blocks):
            make_folder(folder)

    def save_lines(self, block: int, lines: list[str]) -> None:
        write_text(self._file(block, "lines"), json.dumps(lines))

    def lines(self, block: int) -> list[str]:
        return self._load(block, "lines", _LINES)

    def has_translations(self, block: int) -> bool:
        return self._file(block, "translations").exists()

    def save_translations(self, block: int, translations: list[str], seconds: float) -> None:
        write_text(self._file(block, "translations"), json.dumps([translations, seconds]))

    def translations(self, block: int) -> tuple[list[str], float]:
        """Of its lines, and the seconds that they took."""
        translations, seconds = self._load(block, "translations", _TRANSLATIONS)
        if len(translations) != len(self.lines(block)):
            raise self._damaged(self._file(block, "translations"))
        return translations, seconds

    def forget(self) -> None:
        """So that the next start begins anew: lets the run back learn for longer, chooses and translates."""
        self._about_file.unlink(missing_ok=True)
        self.delete_blocks()

    def delete_blocks(self) -> None:
        """Also what a process left that was killed while it wrote."""
        shutil.rmtree(self._blocks, ignore_errors=True)
        for orphan in self.folder.glob(".tmp-*"):
            orphan.unlink(missing_ok=True)

    def _file(self, block: int, kind: str) -> Path:
        return self._blocks / f"{block:06d}-{kind}.json"

    def _load(self, block: int, kind: str, form: TypeAdapter[_Content]) -> _Content:
        try:
            return form.validate_json(read_inside(self._run, self._file(block, kind), _MAX_BLOCK_BYTES))
        except (OSError, ValueError):
            raise self._damaged(self._file(block, kind)) from None

    def _damaged(self, file: Path) -> RunDirError:
        return RunDirError(
            f"{file}: damaged or lost; restore it from a copy, or delete {self.folder}, and the same command makes it anew"
        )
