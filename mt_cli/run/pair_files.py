"""What a run keeps of one language pair: the sets that were held out, what is not trained on, and how text is read.

A run of one pair keeps it in its own folder, a run of several pairs in a folder for each.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mt_cli.config import Corpus, DataConfig
from mt_cli.data.corpora import Places, TrainingText, places_in_table
from mt_cli.data.corpus import CorpusReport, SentencePair, read_pairs
from mt_cli.data.profile import CorpusProfile
from mt_cli.data.spelling import Spelling, Spellings, respelled
from mt_cli.errors import RunDirError
from mt_cli.files import make_folder, open_inside, read_inside, refuse_outside, write_atomically, write_text
from mt_cli.run.manifest import Manifest

_MAX_LIST_BYTES = 1 << 31
_SPELLINGS = TypeAdapter(dict[Literal["src", "tgt"], Spelling], config=ConfigDict(strict=True))


class MadeCorpus(BaseModel):
    """The facts of a corpus that the run has made for itself."""

    model_config = ConfigDict(strict=True)

    n_pairs: int = Field(ge=0)  # 0: there is none
    weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0  # how often an epoch has each of them


class PairFiles:
    def __init__(self, manifest: Manifest, pair: DataConfig, folder: Path):
        self.manifest, self.pair, self.folder = manifest, pair, folder
        self.suffix = "" if folder == manifest.folder else f" {pair.name}"  # of the names of products
        self.held_out = folder / "held_out"
        self.left_out_file = folder / "left_out.tsv"
        self.check_file = folder / "check.json"
        self.cache = folder / "cache"
        refuse_outside(manifest.folder, folder)

    # The sets

    def dev_files(self) -> list[str]:
        return self.held_out_files("dev") if self.pair.dev is None else self.pair.dev

    def all_files(self) -> dict[str, list[str]]:
        """The files of the dev set and of each test set, by name."""
        sets = {"dev": self.dev_files(), **self.pair.test}
        if self.pair.dev is None and not self.pair.test:
            sets["test"] = self.held_out_files("test")
        return sets

    def held_out_files(self, name: str) -> list[str]:
        """Raises RunDirError for a link that leads out of the run."""
        files = [self.held_out / f"{name}.{tag}" for tag in (self.pair.src_lang, self.pair.tgt_lang)]
        for file in files:
            refuse_outside(self.manifest.folder, file)
        return [str(file) for file in files]

    def held_out_pairs(self) -> dict[str, list[SentencePair]]:
        """The sets that were cut from the training text, by name."""
        files = {name: self.held_out_files(name) for name in ("dev", "test")}
        return {
            name: list(read_pairs(paths, report=CorpusReport()))
            for name, paths in files.items()
            if all(Path(path).is_file() for path in paths)
        }

    def save_held_out(self, sets: Mapping[str, Sequence[SentencePair]]) -> list[Path]:
        make_folder(self.held_out)
        saved = []
        for name, pairs in sets.items():
            for file, side in zip(map(Path, self.held_out_files(name)), ("src", "tgt"), strict=True):
                write_text(file, "".join(f"{getattr(pair, side)}\n" for pair in pairs))
                saved.append(file)
        return saved

    # What training reads

    def training_data(self) -> DataConfig:
        """The section in which what the run has made for itself, synthetic pairs and text of its parent, are the last
        corpora."""
        corpora = self.pair.corpora
        if (made := self._made_corpus("synthetic")) is not None:
            corpora = [*corpora, Corpus(files=self.synthetic_files(), weight=made.weight, synthetic=True)]
        if (made := self._made_corpus("rehearsal")) is not None:
            corpora = [*corpora, Corpus(files=self.rehearsal_files(), weight=made.weight, hold_out=False)]
        return self.pair if corpora == self.pair.corpora else self.pair.model_copy(update={"train": corpora})

    def training_data_sha256(self) -> str:
        """Of the corpora that the config names."""
        return TrainingText(self.pair).sha256()

    def _made_corpus(self, name: str) -> MadeCorpus | None:
        try:
            made = MadeCorpus.model_validate(self.manifest.facts(name)) if name in self.manifest.products else None
        except ValidationError:
            raise RunDirError(f"{self.manifest.file}: damaged; restore it from a copy") from None
        return made if made is not None and made.n_pairs else None

    def synthetic_files(self) -> list[str]:
        return self._files("synthetic", "tgt")

    def rehearsal_files(self) -> list[str]:
        return self._files("rehearsal", "old")

    def _files(self, folder: str, stem: str) -> list[str]:
        files = [self.folder / folder / f"{stem}.{tag}" for tag in (self.pair.src_lang, self.pair.tgt_lang)]
        for file in files:
            refuse_outside(self.manifest.folder, file)
        return [str(file) for file in files]

    def spellings(self) -> Spellings:
        """Characters of either side that are read as others."""
        try:
            sides = _SPELLINGS.validate_python(self.manifest.facts(f"spelling{self.suffix}"))
        except ValidationError:
            raise RunDirError(f"{self.manifest.file}: damaged; restore it from a copy") from None
        return sides.get("src", {}), sides.get("tgt", {})

    def save_left_out(self, text: TrainingText, pairs: Iterable[tuple[str, SentencePair]]) -> Path:
        """`pairs` come with the reason why they are not trained on."""
        lines = (line.encode("utf-8", "backslashreplace") for line in text.table(pairs))  # a path need not be UTF-8
        write_atomically(self.left_out_file, methodcaller("writelines", lines))
        return self.left_out_file

    def left_out_places(self) -> Places:
        """The places in the training text that are not trained on. Raises RunDirError when the list is damaged."""
        try:
            file = open_inside(self.manifest.folder, self.left_out_file)
            with io.TextIOWrapper(file, "utf-8", newline="\n") as rows:
                return places_in_table(rows)
        except FileNotFoundError:
            return Places()
        except (OSError, ValueError):
            raise RunDirError(f"{self.left_out_file}: damaged; restore it from a copy") from None

    def trained(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Those of the pairs of the training text that are trained on, in the spelling of the training."""
        left_out = self.left_out_places()
        return respelled((pair for pair in pairs if pair.place not in left_out), self.spellings())

    # What is known of the text

    def share_faulty(self) -> float:
        """The share of the pairs that the check of the corpus would drop; 0 where nothing is known."""
        try:
            report = json.loads(read_inside(self.manifest.folder, self.check_file, _MAX_LIST_BYTES))
            return len(report["dropped"]) / max(1, report["n_pairs"])
        except (RunDirError, OSError, ValueError, KeyError, TypeError, RecursionError):
            return 0.0  # it is for people; a training does not need it

    def profile_file(self, is_back: bool = False) -> Path:
        return self.folder / ("corpus.back.json" if is_back else "corpus.json")

    def load_profile(self, is_back: bool = False) -> CorpusProfile | None:
        """Of the text read from source to target, or from target to source. None where nothing was trained on a text: the
        run was imported."""
        product = f"statistics{self.suffix}"
        if product not in self.manifest.products:
            return None
        file = self.profile_file(is_back)
        try:
            return CorpusProfile.model_validate_json(self.manifest.read(product, file))
        except ValidationError:
            raise RunDirError(f"{file}: damaged; restore it from a copy") from None
