"""The reverse model, which translates monolingual text from target to source: which run it is, and what it is trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mt_cli.augment.fine_tuning import parent_of
from mt_cli.config import Config, DataConfig, Monolingual, WordList, given_keys
from mt_cli.data.corpora import TrainingText
from mt_cli.data.tables import find_layout
from mt_cli.errors import ConfigError
from mt_cli.recipe import FactsCounter, choose
from mt_cli.run.directions import describe_directions, directions_of
from mt_cli.run.run_dir import RunDir


def back_share(text: Monolingual) -> float:
    """When the reverse model is trained, as a share of the minutes: a third; or half, where it is trained on back-translations
    itself."""
    return 1 / 2 if text.src else 1 / 3


def translated_share(text: Monolingual) -> float:
    """When translating ends at the latest, as a share of the minutes."""
    return (1 + 3 * back_share(text)) / 4


def reverse_run(config: Config, run: RunDir) -> RunDir | None:
    """The user's, or the one within the run; None without monolingual text. Raises RunDirError and ConfigError where it is
    missing, though it has yet to translate, or translates something else."""
    data = config.data
    if data.monolingual is None:
        return None
    if data.monolingual.back is None:
        return RunDir(run.back)
    if run.steps() and not Path(data.monolingual.back).exists():
        return RunDir(Path(data.monolingual.back))  # what it has translated is in the run
    back = RunDir.existing(Path(data.monolingual.back))
    known = directions_of(back.load_config())
    if reverse_name(data) not in {one.name for one in known}:
        raise ConfigError(
            f"data.monolingual.back: {back.path} translates {describe_directions(known)}, expected"
            f" {data.tgt_lang} to {data.src_lang}; give another run, or leave it out"
        )
    return back


def run_to_begin_with(config: Config, run: RunDir) -> RunDir | None:
    """The one that is named, or the reverse model within this one if it has learnt both ways. Raises RunDirError when it is not
    there."""
    parent, text = parent_of(config), config.data.monolingual
    if parent is not None or text is None or text.back is not None:
        return parent
    back = RunDir.existing(run.back)
    return back if back.load_config().training.both_directions == 1 else None


def reverse_name(data: DataConfig) -> str:
    """Of the direction from target to source, such as gn-es."""
    return f"{data.tgt_lang}-{data.src_lang}"


def reverse_config(config: Config, back: RunDir) -> Config:
    """What `back`, the one within the run, is trained with: the same text with its sides exchanged, and the keys that were
    given."""
    parent, minutes, text = parent_of(config), config.training.minutes, config.data.monolingual
    assert text is not None
    if parent is not None and not parent.load_config().tokenizer.joint:
        raise ConfigError(
            f"{parent.path} has a vocabulary for each language, so no reverse model can begin with it; leave out"
            " training.init_from (--from), or give data.monolingual.back"
        )
    update: dict[str, Any] = {"minutes": minutes and minutes * back_share(text)}
    if parent is None and not back.steps() and _can_learn_both_ways(config):
        update["both_directions"] = 1.0
    training = config.training.model_copy(update=update)
    return config.model_copy(update={"data": _exchanged(config.data), "training": training})


def _can_learn_both_ways(config: Config) -> bool:
    """Whether the recipe lets this config learn both ways in the beginning. Then the reverse model does so to its end, and no time
    is lost: the run itself begins with its weights."""
    given, facts = given_keys(config), FactsCounter()
    if given.keys() & {"training.both_directions", "training.r_drop"}:
        return False
    for pair in TrainingText(config.data).read():
        facts.add(pair.src, pair.tgt)
    return bool(choose(facts.facts(), given)["training.both_directions"].value)


def _exchanged(data: DataConfig) -> DataConfig:
    corpora = [corpus for corpus in data.corpora if not corpus.synthetic]
    return data.model_copy(
        update={
            "src_lang": data.tgt_lang,
            "tgt_lang": data.src_lang,
            "train": [corpus.model_copy(update={"files": corpus.files[::-1]}) for corpus in corpora],
            "dev": data.dev and data.dev[::-1],
            "test": {name: files[::-1] for name, files in data.test.items()},
            "words": data.words and _exchanged_words(data.words),
            "columns": _exchanged_columns(data),
            "monolingual": data.monolingual and _exchanged_text(data.monolingual),
            "bleu_tokenize": "auto",
        }
    )


def _exchanged_text(text: Monolingual) -> Monolingual | None:
    """What the reverse model learns from, translated by a run of its own."""
    return None if text.src is None else Monolingual(tgt=text.src, search=text.search)


def _exchanged_words(words: WordList) -> WordList:
    columns = ",".join(words.columns.split(",")[::-1]) if words.columns else None
    if columns is None and len(words.files) == 1:
        src, tgt = find_layout(Path(words.files[0])).columns
        columns = f"{tgt + 1},{src + 1}"
    return words.model_copy(update={"files": words.files[::-1], "columns": columns})


def _exchanged_columns(data: DataConfig) -> str | None:
    """Raises ConfigError where they are not named, and the tables have them in different places."""
    if data.columns is not None:
        return ",".join(data.columns.split(",")[::-1])
    corpora = [corpus.files for corpus in data.corpora if not corpus.synthetic]
    sets = [*corpora, *([data.dev] if data.dev else []), *data.test.values()]
    found = {find_layout(Path(files[0])).columns for files in sets if len(files) == 1}
    if len(found) > 1:
        raise ConfigError(
            "data.monolingual: source and target stand in different columns of the tables; set data.columns to names that"
            f" all of them have, such as {data.src_lang},{data.tgt_lang}"
        )
    return "".join(f"{tgt + 1},{src + 1}" for src, tgt in found) or None
