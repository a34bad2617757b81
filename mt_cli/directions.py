"""Between which languages a run translates, and which of these is meant by `--to`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mt_cli.config import Config, DataConfig
from mt_cli.errors import UsageError
from mt_cli.run_dir import RunDir
from mt_cli.text.tokenizer import tag_of


class Direction(NamedTuple):
    pair: DataConfig  # of the language pair
    is_back: bool = False  # from the target of the pair to its source

    @property
    def data(self) -> DataConfig:
        """That of the pair, with the languages of this direction."""
        pair = self.pair
        if not self.is_back:
            return pair
        return pair.model_copy(update={"src_lang": pair.tgt_lang, "tgt_lang": pair.src_lang, "bleu_tokenize": "auto"})

    @property
    def name(self) -> str:
        return f"{self.data.src_lang}-{self.data.tgt_lang}"

    @property
    def told(self) -> str:
        return f"{self.data.src_lang} to {self.data.tgt_lang}"


def directions_of(config: Config) -> list[Direction]:
    """What a run of this config learns for good."""
    there = [Direction(pair) for pair in config.data.directions]
    return there + [Direction(one.pair, True) for one in there] if config.training.both_directions == 1 else there


def pair_dir(run: RunDir, config: Config, direction: Direction) -> RunDir:
    """Where the run keeps what belongs to one of its language pairs alone: its sets, its profile, its ids."""
    return run


def tags_of(config: Config) -> list[str]:
    """The tags that a new run of this config needs: of the languages that it translates into for good."""
    found = directions_of(config)
    return list(dict.fromkeys(tag_of(one.data.tgt_lang) for one in found)) if len(found) > 1 else []


def choose_direction(config: Config, to: str | None, run: Path) -> Direction:
    """The direction that `to` names: a target language, or both languages such as es-gn. None: that of the config. Raises
    UsageError for what the run has not learnt."""
    known = directions_of(config)
    if to is None:
        return known[0]
    for one in known:
        if to.casefold() in (one.data.tgt_lang.casefold(), one.name.casefold()):
            return one
    choices = " or ".join(dict.fromkeys(f"--to {one.data.tgt_lang}" for one in known))
    raise UsageError(
        f"{run} translates {' and '.join(one.told for one in known)}{_forgotten(config, to)}; give {choices}"
    )


def _forgotten(config: Config, to: str) -> str:
    """What is to be said when `to` is the language of a source, and the way back was not learnt for good."""
    share = config.training.both_directions
    if share == 1 or to.casefold() != config.data.src_lang.casefold():
        return ""
    learnt = "has forgotten the way back, which it learnt in the beginning" if share else "never learnt the way back"
    return f" and {learnt} (training.both_directions is {share:g}, 1 keeps both)"
