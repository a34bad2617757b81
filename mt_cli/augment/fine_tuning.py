"""A run that begins with another one (`training.init_from`), its parent: it takes over the parent's tokenizer, network and
weights, keeps the sets that the parent held out, and rehearses some of its text (mixed fine-tuning: Chu et al. 2017).

Once a run has a checkpoint of its own, its parent is not needed any more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import compress, islice
from operator import methodcaller
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from mt_cli.config import Config, DataConfig, SeveralPairs, differing_keys, given_keys
from mt_cli.config_file import complete
from mt_cli.data.corpora import TrainingText
from mt_cli.data.corpus import SentencePair, read_pairs
from mt_cli.data.spelling import Spellings
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.errors import ConfigError, DataError, RunDirError
from mt_cli.files import make_folder, sha256_of_file, write_atomically
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import load_model
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import PairFiles, RunDir
from mt_cli.training.optimizer import is_frozen

log = logging.getLogger(__name__)

_N_NAMED = 8  # weights, in a message
_N_REMEMBERED = 1_000_000  # pairs; bounds memory at about 100 MB
_TOO_HIGH = "so sentences may be held out that it was trained on, and score too high"
_GIVE_SETS = "give --dev and --test of your own"
_ROWS_OF_PIECES = ("token.weight", "projection.weight", "projection.bias")
_KEPT_SECTIONS = ("tokenizer.", "model.", "decoding.")
_TAKES_ITS_PLACE = 0.5  # of the parent's pairs: so large a text is the parent's own one, mended or added to
_N_REHEARSED = 20_000  # pairs at most, or as many as an epoch needs


def parent_of(config: Config) -> RunDir | None:
    """Raises RunDirError when it is not there."""
    return RunDir.existing(Path(config.training.init_from)) if config.training.init_from else None


def like_parent(config: Config, parent: RunDir) -> Config:
    """The config in which tokenizer, network and search are the parent's where it leaves them open.

    Raises ConfigError when it asks for another tokenizer: the weights are those of the parent's pieces.
    """
    of_parent = parent.load_config()
    keys = {key: value for key, value in given_keys(of_parent).items() if key.startswith(_KEPT_SECTIONS)}
    most = of_parent.model.max_positions - 1 - config.data.has_synthetic  # an end symbol and a tag are read as well
    keys["data.max_length"] = min(config.data.max_length, most)
    config = complete(config, keys)
    if config.tokenizer != of_parent.tokenizer:
        raise ConfigError(
            f"{parent.path} has another tokenizer, which a run that begins with it keeps; leave out tokenizer.*"
        )
    if unlike := [one for one in differing_keys(config, of_parent, ["model"]) if "dropout" not in one.split()[0]]:
        log.info(f"the network differs from that of {parent.path}: {'; '.join(unlike)}")
    return config


def known_characters(parent: RunDir | None, language: str) -> set[str]:
    """The characters that the parent has read in a language, so that its heir calls none of them unseen."""
    if parent is None:
        return set()
    config = parent.load_config()
    profiles = [
        parent.of_pair(config.data, pair).load_profile(is_reverse=pair.tgt_lang == language)
        for pair in config.data.directions
        if language == pair.src_lang or (language == pair.tgt_lang and config.training.both_directions == 1)
    ]
    return set().union(*(profile.characters for profile in profiles if profile is not None))


def take_weights(model: Transformer, tokenizer: Tokenizer, parent: RunDir, freeze: Sequence[str] = ()) -> None:
    """Copies the parent's best weights into the model. Rows of pieces that the parent lacks begin as the mean of those that
    spelt them, rows of tags as the mean of its tags, or of all rows where it has none; weights that it lacks, or has in
    another shape, are randomly initialized and named. So are those of them that are in a part of `freeze`.

    Raises CheckpointError when they are damaged, and RunDirError when they are of other pieces."""
    loaded = load_model(parent)
    old, new = loaded.tokenizer, tokenizer
    for before, now in (
        (old.src_vocabulary(), new.src_vocabulary()),
        (old.tgt_vocabulary(), new.tgt_vocabulary()),
    ):
        if now[: len(before)] != before:
            raise RunDirError(
                f"{parent.path}: its tokenizer is not the one that this run was prepared with; choose another --run-dir"
            )
    weights, own, random, longer = loaded.model.state_dict(), model.state_dict(), list[str](), list[str]()
    with torch.no_grad():
        for name, weight in own.items():
            theirs = weights.get(name)
            if theirs is not None and theirs.shape == weight.shape:
                weight.copy_(theirs)
            elif theirs is not None and name.endswith(_ROWS_OF_PIECES) and theirs.shape[1:] == weight.shape[1:]:
                spelt = _spelt(loaded.tokenizer, tokenizer, is_src=name.startswith("src_"))
                weight.copy_(torch.cat([theirs, *(theirs[ids].mean(0, keepdim=True) for ids in spelt)]))
                longer.append(name)
            else:
                random.append(name)
    share = sum(own[name].numel() for name in random) / sum(weight.numel() for weight in own.values())
    exceptions = f"; missing or of another shape, randomly initialized: {_named(random)}" if random else ""
    log.info(f"begun with the weights of {parent.path}{exceptions}")
    if untrained := [name for name in (*random, *longer) if is_frozen(name, freeze)]:
        log.warning(
            f"training.freeze: what {parent.path} has not learnt of {_named(untrained)} is never learnt; leave out that part"
        )
    if share > 0.5:
        log.warning(
            f"{share:.0%} of the network is randomly initialized; leave out model.*, so that it is like that of {parent.path}"
        )


def _named(weights: list[str]) -> str:
    more = f" and {len(weights) - _N_NAMED:,} more" if len(weights) > _N_NAMED else ""
    return f"{', '.join(weights[:_N_NAMED])}{more}"


def _spelt(old: Tokenizer, new: Tokenizer, is_src: bool) -> list[list[int]]:
    """For each piece that only the new tokenizer has, the ids whose mean it begins as: those by which the old one writes it, or
    all of them."""
    encode, pieces_of = (old.encode_src, old.src_pieces) if is_src else (old.encode_tgt, old.tgt_pieces)
    vocabularies = (new.src_vocabulary(), old.src_vocab_size) if is_src else (new.tgt_vocabulary(), old.tgt_vocab_size)
    every = list(range(vocabularies[1]))
    found, old_tags = [], list(old.tags.values()) or every
    for piece in vocabularies[0][vocabularies[1] :]:
        if piece in new.tags:
            found.append(old_tags)
            continue
        ids = encode(piece.replace("▁", " "))
        is_begun = len(ids) > 1 and not piece.startswith("▁") and pieces_of(ids[:1]) == ["▁"]
        # A piece within a word has no space before it. The rules of an imported tokenizer may delete all of a piece.
        found.append((ids[1:] if is_begun else ids) or every)
    return found


def sha256_of_best(run: RunDir) -> str:
    """Of its best checkpoint's file."""
    return sha256_of_file(run.find_checkpoint("best"))


def inputs_of_runs(run: RunDir, **others: RunDir | None) -> dict[str, str | None]:
    """The other runs that a product of `run` is made of, by name. Once `run` has a checkpoint it needs them no more."""
    if run.steps():
        return dict.fromkeys(others)
    return {name: sha256_of_best(other) for name, other in others.items() if other is not None}


class _SamePair(NamedTuple):
    """What another run has learnt between the languages of a run."""

    data: DataConfig
    files: PairFiles
    is_exchanged: bool  # from target to source

    def turned(self, sets: dict[str, list[SentencePair]]) -> dict[str, list[SentencePair]]:
        """The other run's sets in the direction of this one."""
        if not self.is_exchanged:
            return sets
        return {name: [pair._replace(src=pair.tgt, tgt=pair.src) for pair in pairs] for name, pairs in sets.items()}


def _same_pair(other: RunDir, config: Config) -> _SamePair | None:
    """For a config of one language pair. None where the other run translates between other languages."""
    theirs, own = other.load_config().data, (config.data.src_lang, config.data.tgt_lang)
    pairs = [pair for pair in theirs.directions if (pair.src_lang, pair.tgt_lang) in (own, own[::-1])]
    data = max(pairs, key=lambda pair: pair.name == config.data.name, default=None)
    if data is None:
        return None
    return _SamePair(data, other.of_pair(theirs, data), (data.src_lang, data.tgt_lang) != own)


def held_out_of(other: RunDir, config: Config) -> dict[str, list[SentencePair]]:
    """For a config of one language pair, the sets that another run of it, in either direction, cut from its training text, by
    name; none where its config names them."""
    same = _same_pair(other, config)
    if same is None or same.data.dev is not None:
        return {}
    return same.turned(same.files.held_out_pairs())


def named_sets_of(other: RunDir, config: Config) -> dict[str, list[SentencePair]]:
    """The dev set and the first test set that the config of such a run names; none, with a warning, where they are gone."""
    same = _same_pair(other, config)
    if same is None or same.data.dev is None:
        return {}
    named, data = zip(("dev", "test"), (same.data.dev, *same.data.test.values()), strict=False), same.data
    try:
        sets = {name: read_pairs(files, columns=data.columns, on_bad_line=data.on_bad_line) for name, files in named}
        return same.turned({name: list(pairs) for name, pairs in sets.items()})
    except DataError as error:
        log.warning(f"{other.path} has no dev set any more, {_TOO_HIGH} ({error}); {_GIVE_SETS}")
        return {}


def known_pairs(other: RunDir, config: Config) -> set[int]:
    """Hashes of the pairs that such a run was trained on, where its config names its dev set: to hold them out would give
    scores that are too high."""
    same = _same_pair(other, config)
    if same is None or same.data.dev is None or other.is_imported:
        return set()
    pairs = TrainingText(same.data).read(on_bad_line="skip")
    try:
        return {hash(pair[1::-1] if same.is_exchanged else pair[:2]) for pair in islice(pairs, _N_REMEMBERED)}
    except DataError as error:
        log.warning(f"{other.path} has no training text any more, {_TOO_HIGH} ({error}); {_GIVE_SETS}")
        return set()


def spellings_of(other: RunDir, config: Config) -> Spellings | None:
    """For a config of one language pair, how another run of it, in either direction, reads source and target. None where it
    translates between other languages."""
    same = _same_pair(other, config)
    if same is None:
        return None
    src, tgt = same.files.spellings()
    return (tgt, src) if same.is_exchanged else (src, tgt)


def rehearsed(config: Config, parent: RunDir, own: PairFiles) -> Made:
    """Copies pairs of the parent's training text into the run, where the new text is of the same languages and so little
    that learning it would cost what the parent knows."""
    nothing, share = Made(facts={"n_pairs": 0}), config.training.rehearsal
    theirs = next((pair for pair in parent.load_config().data.directions if pair.name == own.pair.name), None)
    if theirs is None or not share or parent.is_imported or isinstance(config.data, SeveralPairs):
        return nothing
    text = TrainingText(own.training_data())
    n_new = sum(text.corpora[pair.corpus].weight for pair in text.read())
    n_wanted = round(share / (1 - share) * n_new)
    files = parent.of_pair(parent.load_config().data, theirs)
    try:
        n_theirs = sum(1 for _ in _learnt_pairs(files))
    except (DataError, RunDirError) as error:
        log.warning(
            f"{parent.path} has no training text any more, so what it knows may be forgotten ({error}); restore its files, or"
            " go on without"
        )
        return nothing
    if not n_theirs or n_new >= _TAKES_ITS_PLACE * n_theirs:
        return nothing
    n_pairs = min(n_theirs, max(_N_REHEARSED, n_wanted))
    is_chosen = np.zeros(n_theirs, bool)
    is_chosen[np.random.default_rng(config.training.seed).choice(n_theirs, n_pairs, replace=False)] = True
    saved = [Path(file) for file in own.rehearsal_files()]
    make_folder(saved[0].parent)
    for side, file in enumerate(saved):
        lines = (f"{pair[side]}\n".encode() for pair in compress(_learnt_pairs(files), is_chosen))
        write_atomically(file, methodcaller("writelines", lines))
    log.info(f"{share:.0%} of an epoch is text of {parent.path}, so that it is not forgotten: {saved[0].parent}")
    return Made(saved, {"n_pairs": n_pairs, "weight": max(0.001, min(1.0, n_wanted / n_pairs))})


def _learnt_pairs(files: PairFiles) -> Iterator[SentencePair]:
    """What a run was trained on, without what machines translated. Raises DataError or RunDirError when it is missing or has
    changed."""
    text = TrainingText(files.training_data())
    if text.sha256() != files.manifest.products[f"check{files.suffix}"].inputs[f"train{files.suffix}"]:
        raise RunDirError("the training text has changed since")
    is_synthetic = [corpus.synthetic for corpus in text.corpora]
    pairs = text.read(on_bad_line="skip")
    return files.trained(pair for pair in pairs if not is_synthetic[pair.corpus])
