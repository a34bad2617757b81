"""Between which languages a run translates, and which of these is meant by `--to`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mt_cli.config import Config, DataConfig, SeveralPairs
from mt_cli.data.tokenizer import tag_of
from mt_cli.errors import UsageError

_MOST_NAMED = 8  # directions, in a message


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
    if config.training.both_directions < 1:
        return there
    names = {one.name for one in there}
    return there + [back for one in there if (back := Direction(one.pair, True)).name not in names]


def has_several(config: Config) -> bool:
    return len(directions_of(config)) > 1


def tags_of(config: Config) -> list[str]:
    """The tags that a new run of this config needs: of the languages that it translates into, now and then or for good. A
    run of one direction needs none."""
    if not isinstance(config.data, SeveralPairs) and not has_several(config):
        return []
    pairs = config.data.directions
    languages = [pair.tgt_lang for pair in pairs]
    if config.training.both_directions:
        languages += [pair.src_lang for pair in pairs]
    return [tag_of(language) for language in dict.fromkeys(languages)]


def choose_direction(config: Config, to: str | None, run: Path) -> Direction:
    """The direction that `to` names: a target language, or both languages such as es-gn. Of several directions into one
    language it is the first. None: that of the files of a single language pair, or the only target.

    Raises UsageError for what the run has not learnt.
    """
    known = directions_of(config)
    if to is None:
        if len(config.data.directions) == 1 or len({one.data.tgt_lang for one in known}) == 1:
            return known[0]
        raise _not_learnt(run, known)
    for one in known:
        if to.casefold() in (one.data.tgt_lang.casefold(), one.name.casefold()):
            return one
    forgotten = _forgotten(config, to)
    raise _not_learnt(run, known, forgotten, "" if forgotten else f"--to {to}: ")


def told_target(config: Config) -> str:
    """The option that says into which language, where a run needs it."""
    targets = [pair.tgt_lang for pair in config.data.directions]
    return f" --to {targets[0]}" if len(set(targets)) > 1 else ""


def _not_learnt(run: Path, known: list[Direction], more: str = "", asked: str = "") -> UsageError:
    choices = " or ".join(dict.fromkeys(f"--to {one.data.tgt_lang}" for one in known))
    if len(known) > _MOST_NAMED:
        choices = f"--to with one of the languages in {run / 'config.yaml'}"
    return UsageError(f"{asked}{run} translates {told(known)}{more}; give {choices}")


def told(directions: list[Direction]) -> str:
    """`en to de, en to fr and de to en`, of many the first."""
    words = [one.told for one in directions]
    if len(words) > _MOST_NAMED:
        words = [*words[:_MOST_NAMED], f"{len(words) - _MOST_NAMED} more"]
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _forgotten(config: Config, to: str) -> str:
    """What is to be said when `to` is the language of a source, and the way back was not learnt for good."""
    share = config.training.both_directions
    if share == 1 or to.casefold() not in {pair.src_lang.casefold() for pair in config.data.directions}:
        return ""
    learnt = "has forgotten the way back, which it learnt in the beginning" if share else "never learnt the way back"
    return f" and {learnt} (training.both_directions is {share:g}, 1 keeps both)"
