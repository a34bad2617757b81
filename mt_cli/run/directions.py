"""Between which languages a run translates, and which of these is meant by `--to`."""

from pathlib import Path
from typing import NamedTuple

from mt_cli.config import Config, DataConfig, SeveralPairs
from mt_cli.data.tokenizer import tag_of
from mt_cli.errors import UsageError


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
