"""The files of a run directory, which docs/guide.md lists, what is read from them and written to them, and its languages."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from filelock import FileLock, Timeout
from pydantic import ConfigDict, TypeAdapter

from mt_cli.config import Config, Corpus, DataConfig, SeveralPairs
from mt_cli.config_file import load_config, to_yaml
from mt_cli.data.corpus import Place, SentencePair, places_in_table, read_pairs
from mt_cli.data.reading import CorpusProfile
from mt_cli.data.spelling import Spelling, Spellings, respelled
from mt_cli.data.tokenizer import Tokenizer, tag_of
from mt_cli.errors import CheckpointError, RunDirError, UsageError, as_typed
from mt_cli.files import (
    cannot_write,
    make_folder,
    open_inside,
    read_inside,
    refuse_outside,
    refuse_special_file,
    write_bytes,
    write_text,
)
from mt_cli.run.manifest import Made, Manifest

if TYPE_CHECKING:
    from mt_cli.run.logs import RunLogs

RUNS = Path("runs")  # where `mt train` puts a run, relative to where it is started
_STEP_NAME = re.compile(r"^step-\d{6,}\.pt$")
_JOINT, _APART = ["tokenizer.model"], ["tokenizer.src.model", "tokenizer.tgt.model"]


class RunDir:
    def __init__(self, path: Path):
        self.path = path
        self.config_file = path / "config.yaml"
        self.provenance_file = path / "provenance.json"
        self.metrics_file = path / "metrics.jsonl"
        self.timing_file = path / "timing.jsonl"
        self.estimate_file = path / "estimate.json"
        self.checkpoints = path / "checkpoints"
        self.back = path / "back"
        self.synthetic = path / "synthetic"

    @classmethod
    def existing(cls, path: Path) -> RunDir:
        run = cls(path)
        if run.config_file.is_file():
            refuse_outside(run.path, run.config_file)
            return run
        found = "no config.yaml in it" if path.is_dir() else "not a directory" if path.exists() else "no such directory"
        runs = sorted(file.parent for file in RUNS.glob("[!.]*/config.yaml"))
        near = difflib.get_close_matches(path.name, [run.name for run in runs], n=1)
        holds = f"; it holds {', '.join(map(str, runs[:5]))}" if path == RUNS and runs else ""
        more = f"; did you mean {RUNS / near[0]}?" if near and not path.exists() else holds
        raise RunDirError(f"{path}: {found}; expected a run directory, as `mt train` makes it{more}")

    @cached_property
    def manifest(self) -> Manifest:
        return Manifest(self.path, is_trained=bool(self.steps()))

    @cached_property
    def logs(self) -> RunLogs:
        from mt_cli.run.logs import RunLogs  # here, as translating does not need it

        return RunLogs(self.metrics_file, self.timing_file)

    def load_config(self) -> Config:
        """Before the first checkpoint, the keys that were not given are open."""
        refuse_special_file(self.config_file)
        return load_config(self.config_file, is_open=not self.steps())

    def save_config(self, config: Config) -> None:
        """Writes every key with its value, and with the reason of what was chosen."""
        reasons = [self.manifest.facts(name).get("reasons", {}) for name in ("recipe", "search")]
        write_text(self.config_file, to_yaml(config, reasons[0] | reasons[1]))

    def begin(self, config: Config) -> None:
        """Marks the folder as a run's by the keys that were given."""
        if not self.config_file.exists():
            write_text(self.config_file, to_yaml(config, only_given=True))

    def of_pair(self, data: DataConfig, pair: DataConfig, is_exchanged: bool = False) -> PairFiles:
        """What the run, whose data is `data`, keeps of one of its language pairs."""
        folder = self.path / pair.name if isinstance(data, SeveralPairs) else self.path
        return PairFiles(self.manifest, pair, folder, is_exchanged)

    def quality_of_text(self, data: DataConfig) -> tuple[int, float]:
        """The pairs of all language pairs that people wrote, and the share of faulty ones: what a training is judged by."""
        pairs = [self.of_pair(data, pair) for pair in data.directions]
        return sum(one.n_written() for one in pairs), sum(one.share_faulty() for one in pairs) / len(pairs)

    def load_tokenizer(self, is_joint: bool) -> Tokenizer:
        files = [self.path / name for name in (_JOINT if is_joint else _APART)]
        try:
            return Tokenizer([self.manifest.read("tokenizer", file) for file in files])
        except CheckpointError as error:
            raise CheckpointError(f"{' or '.join(map(str, files))}: {error}") from None

    def save_tokenizer(self, tokenizer: Tokenizer) -> Made:
        files = [self.path / name for name in (_JOINT if tokenizer.is_joint else _APART)]
        for file, model in zip(files, tokenizer.models, strict=True):
            write_bytes(file, model)
        return Made(files)

    def refuse_links(self) -> None:
        """Raises RunDirError where a link would lead writing out of the run directory, or a pipe would block it."""
        for path in self.path.iterdir() if self.path.is_dir() else ():
            refuse_outside(self.path, path)
            if not path.is_dir():
                refuse_special_file(path)

    @property
    def is_imported(self) -> bool:
        return self.steps() == [0] and not any(name.startswith("ids") for name in self.manifest.products)

    def refuse_incomplete(self) -> None:
        """Raises RunDirError for an imported run, and where all checkpoints are lost: what is left is not overwritten."""
        if self.is_imported:
            other = f"begin a run with its weights: --from {as_typed(self.path)}"
            raise RunDirError(f"{self.path}: imported, so there is no training to continue; {other}")
        for pointer in (self.path / "last", self.path / "best"):
            if not self.steps() and pointer.is_file():
                what = f"names a checkpoint, and {self.checkpoints} has none"
                raise RunDirError(f"{pointer}: {what}; restore them from a copy, or choose another --run-dir")

    def checkpoint_file(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:06d}.pt"

    def steps(self) -> list[int]:
        """Steps of which there is a checkpoint, oldest first."""
        return sorted(int(file.stem[5:]) for file in self.checkpoints.glob("step-*.pt") if _STEP_NAME.match(file.name))

    def point(self, name: str, step: int) -> None:
        """Makes `best` or `last` name the checkpoint of `step`."""
        write_text(self.path / name, f"checkpoints/{self.checkpoint_file(step).name}\n")

    def find_checkpoint(self, name: str) -> Path:
        """The file of `best`, `last`, `step-N` or `averaged` (that of `last`). A name never leads out of the run."""
        steps = self.steps()
        choices = f"one of {', '.join(f'step-{step}' for step in steps)}" if steps else "another run"
        if re.fullmatch(r"step-\d{1,12}", name):
            file = self.checkpoint_file(int(name[5:]))
        elif name not in {"best", "last", "averaged"}:
            raise RunDirError(f"'{name}' is no checkpoint's name; give best, last, step-N or averaged")
        else:
            try:
                pointer = self.path / ("last" if name == "averaged" else name)
                named = read_inside(self.path, pointer).decode().strip().removeprefix("checkpoints/")
            except (OSError, UnicodeDecodeError):
                named = ""
            if not _STEP_NAME.match(named):
                raise RunDirError(f"{self.path}: no '{name}' checkpoint; train first, or choose {choices}")
            file = self.checkpoints / named
        if not file.is_file():
            raise RunDirError(f"{file}: no such checkpoint; choose {choices}")
        refuse_outside(self.path, file)
        return file


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, made if need be, for this process alone, however it ends. Raises RunDirError when another has it."""
    owner, lock = folder / ".owner", FileLock(folder / ".lock", timeout=0)
    try:
        for path in (*reversed(folder.parents), folder):
            make_folder(path)
        lock.acquire()
    except Timeout:
        who = owner.read_text(encoding="utf-8", errors="replace") if owner.exists() else "another process"
        who = " ".join(who.split())[:80]
        raise RunDirError(f"{folder} is in use ({who}); wait for it, or choose another --run-dir") from None
    except OSError as error:
        raise cannot_write(folder, error) from None
    except NotImplementedError:
        raise RunDirError(f"{folder}: its disk has no locks of files; choose another --run-dir") from None
    try:
        for orphan in folder.rglob(".tmp-*"):
            if not orphan.is_dir():  # a folder belongs to an export, which may still be writing
                orphan.unlink(missing_ok=True)  # left by a process that was killed while it wrote
        write_text(owner, f"pid {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M')}")
        yield
    finally:
        with contextlib.suppress(OSError):  # the folder is gone, or may no longer be written
            owner.unlink(missing_ok=True)
        lock.release()


@contextlib.contextmanager
def _damage_of(file: Path) -> Iterator[None]:
    """Raises RunDirError for content that is not what the run has written."""
    try:
        yield
    except (OSError, ValueError, KeyError):
        raise RunDirError(f"{file}: damaged; restore it from a copy") from None


_SPELLINGS = TypeAdapter(dict[Literal["src", "tgt"], Spelling], config=ConfigDict(strict=True))


class PairFiles:
    """What a run keeps of one language pair: in its own folder, or in one for each of several pairs."""

    def __init__(self, manifest: Manifest, pair: DataConfig, folder: Path, is_exchanged: bool = False):
        """`is_exchanged`: for a run that translates from target to source, which gets spellings and sets in its order."""
        self.manifest, self.pair, self.folder, self.is_exchanged = manifest, pair, folder, is_exchanged
        self.suffix = "" if folder == manifest.folder else f" {pair.name}"  # of the names of products
        self.held_out = folder / "held_out"
        self.left_out_file = folder / "left_out.tsv"
        self.check_file = folder / "check.json"
        self.corrections_file = folder / "corrections.tsv"
        self.cache = folder / "cache"
        refuse_outside(manifest.folder, folder)

    def all_files(self) -> dict[str, list[str]]:
        """The files of the dev set and of each test set, by name."""
        if self.pair.dev is not None:
            return {"dev": self.pair.dev, **self.pair.test}
        cut = {name: self.files_of("held_out", name) for name in ("dev", "test")}
        return {"dev": cut["dev"], **self.pair.test} if self.pair.test else cut

    def files_of(self, folder: str, stem: str) -> list[str]:
        """Those of source and target. Raises RunDirError for a link that leads out of the run."""
        files = [self.folder / folder / f"{stem}.{tag}" for tag in (self.pair.src_lang, self.pair.tgt_lang)]
        for file in files:
            refuse_outside(self.manifest.folder, file)
        return [str(file) for file in files]

    def held_out_pairs(self) -> dict[str, list[SentencePair]]:
        """The sets that were cut from the training text, by name; none where the config names them."""
        files = {} if self.pair.dev is not None else {name: self.files_of("held_out", name) for name in ("dev", "test")}
        sets = {name: list(read_pairs(own)) for name, own in files.items() if all(Path(one).is_file() for one in own)}
        if self.is_exchanged:
            return {name: [pair._replace(src=pair.tgt, tgt=pair.src) for pair in own] for name, own in sets.items()}
        return sets

    def training_data(self) -> DataConfig:
        """The section, with what the run has made for itself as the last corpora: synthetic pairs, text of its parent.
        Those of other languages are behind them."""
        made = list[Corpus]()
        for name, is_synthetic in (("synthetic", True), ("rehearsal", False)):
            facts, files = self.manifest.facts(name), self.made_files(name)
            with _damage_of(self.manifest.file):
                if facts.get("n_pairs"):
                    weight = facts["weight"]
                    made.append(Corpus(files=files, weight=weight, synthetic=is_synthetic, hold_out=is_synthetic))
        corpora = sorted([*self.pair.corpora, *made], key=lambda one: one.tgt_lang is not None)
        return self.pair.model_copy(update={"train": corpora}) if made else self.pair

    def made_files(self, product: str) -> list[str]:
        """Those of `synthetic` or of `rehearsal` pairs."""
        return self.files_of(product, "tgt" if product == "synthetic" else "old")

    def spellings(self) -> Spellings:
        """Characters of either side that are read as others."""
        with _damage_of(self.manifest.file):
            sides = _SPELLINGS.validate_python(self.manifest.facts(f"spelling{self.suffix}"))
        src, tgt = sides.get("src", {}), sides.get("tgt", {})
        return (tgt, src) if self.is_exchanged else (src, tgt)

    def left_out_places(self) -> set[Place]:
        """The places in the training text that are not trained on. Raises RunDirError when the list is damaged."""
        with _damage_of(self.left_out_file):
            try:
                file = open_inside(self.manifest.folder, self.left_out_file)
            except FileNotFoundError:
                return set()
            with io.TextIOWrapper(file, "utf-8", newline="\n") as rows:
                return places_in_table(rows)

    def training_pairs(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Those of the pairs of the training text that are trained on, in the spelling of the training."""
        left_out = self.left_out_places()
        return respelled((pair for pair in pairs if pair.place not in left_out), self.spellings())

    def share_faulty(self) -> float:
        """Of the pairs, those that the check of the corpus would drop; 0 where they are left out, or nothing is known."""
        share = self.manifest.facts(f"check{self.suffix}").get("share_faulty", 0.0)
        return 0.0 if self.pair.clean else float(share)

    def n_written(self) -> int:
        """Pairs it is trained on that no machine has made, without the list of words; very many where nothing is known."""
        return int(self.manifest.facts(f"statistics{self.suffix}").get("n_written", 10**9))

    def profile_file(self, is_reverse: bool = False) -> Path:
        return self.folder / ("corpus.back.json" if is_reverse else "corpus.json")

    def load_profile(self, is_reverse: bool = False) -> CorpusProfile | None:
        """None in a run that was imported."""
        product, file = f"statistics{self.suffix}", self.profile_file(is_reverse)
        if product not in self.manifest.products:
            return None
        with _damage_of(file):
            return CorpusProfile.model_validate_json(self.manifest.read(product, file))


# Between which languages it translates, and which of these `--to` means ------------------------------------------------


class Direction(NamedTuple):
    pair: DataConfig  # of the language pair
    is_reverse: bool = False  # from the target of the pair to its source

    @property
    def data(self) -> DataConfig:
        """That of the pair, with the languages of this direction."""
        src, tgt = self.pair.tgt_lang, self.pair.src_lang
        reverse = {"src_lang": src, "tgt_lang": tgt, "bleu_tokenize": "auto", "terms": 0.0}
        return self.pair.model_copy(update=reverse) if self.is_reverse else self.pair

    @property
    def name(self) -> str:
        return f"{self.data.src_lang}-{self.data.tgt_lang}"


def directions_of(config: Config) -> list[Direction]:
    """What a run of this config learns for good."""
    found = [Direction(pair) for pair in config.data.directions]
    if config.training.both_directions == 1:
        names = {one.name for one in found}
        found += [other for one in found if (other := Direction(one.pair, True)).name not in names]
    return found


def tags_of(config: Config) -> list[str]:
    """Tags of all languages that a new run of this config translates into, if only in part; none for one direction."""
    if not isinstance(config.data, SeveralPairs) and len(directions_of(config)) == 1:
        return []
    pairs = config.data.directions
    languages = [pair.tgt_lang for pair in pairs]
    if config.training.both_directions:
        languages += [pair.src_lang for pair in pairs]
    return [tag_of(language) for language in dict.fromkeys(languages)]


def choose_direction(config: Config, to: str | None, run: Path) -> Direction:
    """The direction that `to` names, as gn or es-gn; None: the only one, or of a single pair. Raises UsageError."""
    known, share = directions_of(config), config.training.both_directions
    if to is None and (len(config.data.directions) == 1 or len({one.data.tgt_lang for one in known}) == 1):
        return known[0]
    for one in known:
        if to is not None and to.casefold() in (one.data.tgt_lang.casefold(), one.name.casefold()):
            return one
    message = f"{run} translates {describe_directions(known)}"
    if to is not None and share < 1 and to.casefold() in {one.data.src_lang.casefold() for one in known}:
        message += f" (training.both_directions is {share:g}; a run that is trained with 1 translates both ways)"
    elif to is not None:
        message = f"--to {to}: {message}"
    choices = " or ".join(dict.fromkeys(f"--to {one.data.tgt_lang}" for one in known))
    raise UsageError(f"{message}; give {choices}")


def target_option(config: Config) -> str:
    """The option that says into which language, where a run needs it."""
    targets = [pair.tgt_lang for pair in config.data.directions]
    return f" --to {targets[0]}" if len(set(targets)) > 1 else ""


def describe_directions(directions: list[Direction]) -> str:
    """`en to de, en to fr and de to en`."""
    *most, last = (f"{one.data.src_lang} to {one.data.tgt_lang}" for one in directions)
    return f"{', '.join(most)} and {last}" if most else last
