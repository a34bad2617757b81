"""A run that begins with another one (`training.init_from`), its parent, until it has a checkpoint: it takes over tokenizer,
network, weights and held-out sets, and rehearses some of the parent's text (mixed fine-tuning: Chu et al. 2017)."""

import logging
from collections.abc import Callable, Iterator
from itertools import compress, islice
from pathlib import Path

import numpy as np
import torch

from mt_cli.config import Config, SeveralPairs, given_keys
from mt_cli.config_file import complete
from mt_cli.data.corpus import SentencePair, TrainingText
from mt_cli.data.tokenizer import Tokenizer, extend_tokenizer
from mt_cli.errors import ConfigError, DataError, RunDirError
from mt_cli.files import sha256_of_file, write_rows
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import load_model
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import PairFiles, RunDir, directions_of

log = logging.getLogger(__name__)

_N_NAMED = 8  # weights, in a message
_N_REMEMBERED = 1_000_000  # pairs; bounds memory at about 100 MB
_ROWS_OF_PIECES = ("token.weight", "projection.weight", "projection.bias")
_KEPT_SECTIONS = ("tokenizer.", "model.", "decoding.")
_TAKES_ITS_PLACE = 0.5  # of the parent's pairs: so large a text is the parent's own one, mended or added to
_N_REHEARSED = 20_000  # pairs at most, or as many as an epoch needs
_FEWEST_REHEARSED = 200  # pairs of an epoch: beside fewer, a handful of new ones is read so often that all else goes


def parent_of(config: Config) -> RunDir | None:
    """Raises RunDirError when it is not there."""
    return RunDir.existing(Path(config.training.init_from)) if config.training.init_from else None


def run_to_begin_with(config: Config, run: RunDir) -> RunDir | None:
    """The parent, or the reverse model within the run if it has learnt both ways. Raises RunDirError when it is missing."""
    parent, text = parent_of(config), config.data.monolingual
    if parent is not None or text is None or text.back is not None:
        return parent
    back = RunDir.existing(run.back)
    return back if back.load_config().training.both_directions == 1 else None


def sha256_of_best(run: RunDir) -> str:
    """Of its best checkpoint's file."""
    return sha256_of_file(run.find_checkpoint("best"))


def inputs_of_runs(run: RunDir, **others: RunDir | None) -> dict[str, str | None]:
    """The other runs that a product of `run` is made of, by name. Once `run` has a checkpoint it needs them no more."""
    if run.steps():
        return dict.fromkeys(others)
    return {name: sha256_of_best(other) for name, other in others.items() if other is not None}


def like_parent(config: Config, parent: RunDir) -> Config:
    """The config with what it leaves open as the parent's: tokenizer, network, search. Raises ConfigError for another one."""
    of_parent = parent.load_config()
    keys = {key: value for key, value in given_keys(of_parent).items() if key.startswith(_KEPT_SECTIONS)}
    most = of_parent.model.max_positions - 1 - config.data.has_synthetic  # an end symbol and a tag are read as well
    keys["data.max_length"] = min(config.data.max_length, most)
    config = complete(config, keys)
    if config.tokenizer != of_parent.tokenizer:
        raise ConfigError(f"{parent.path} has another tokenizer, which its weights need; leave out tokenizer.*")
    return config


def tokenizer_of_parent(config: Config, parent: RunDir, sides: list[Callable[[], Iterator[str]]]) -> Tokenizer:
    """The parent's tokenizer, with pieces of this text if it lacks a language. `sides` as in `train_tokenizer`."""
    settings, extends = config.tokenizer, config.training.extend_vocabulary
    own, known = _languages(config), _languages(parent.load_config())
    unknown = [code for codes, others in zip(own, known, strict=True) for code in codes if code not in others]
    if extends is None and unknown:
        names = " and ".join(dict.fromkeys(unknown))
        log.info(f"{parent.path} has not learnt {names}, so subwords of this text join its own")
    tokenizer = parent.load_tokenizer(settings.joint)
    if extends or (extends is None and unknown):
        before = sum(tokenizer.vocab_sizes[: len(sides)])
        tokenizer = extend_tokenizer(tokenizer, sides, settings.algorithm, settings.vocab_size)
        log.info(f"tokenizer: {sum(tokenizer.vocab_sizes[: len(sides)]) - before:,} subwords join {before:,}")
    return tokenizer


def _languages(config: Config) -> list[list[str]]:
    """Those that each model of the tokenizer has learnt."""
    src, tgt = ([getattr(pair, side) for pair in config.data.directions] for side in ("src_lang", "tgt_lang"))
    return [[*src, *tgt]] if config.tokenizer.joint else [src, tgt]


def take_weights(model: Transformer, tokenizer: Tokenizer, parent: RunDir) -> None:
    """Copies the parent's best weights into the model. Rows of new pieces begin as the mean of those that spelt them,
    rows of tags as the mean of its tags or of all rows. Raises CheckpointError and RunDirError."""
    loaded = load_model(parent)
    old = loaded.tokenizer
    src, tgt = old.src_vocabulary(), old.tgt_vocabulary()
    if (src, tgt) != (tokenizer.src_vocabulary()[: len(src)], tokenizer.tgt_vocabulary()[: len(tgt)]):
        raise RunDirError(f"{parent.path}: its tokenizer is no longer that of this run; choose another --run-dir")
    weights, own, random = loaded.model.state_dict(), model.state_dict(), list[str]()
    with torch.no_grad():
        for name, weight in own.items():
            theirs = weights.get(name)
            if theirs is not None and theirs.shape == weight.shape:
                weight.copy_(theirs)
            elif theirs is not None and name.endswith(_ROWS_OF_PIECES) and theirs.shape[1:] == weight.shape[1:]:
                spelt = spelling_ids(old, tokenizer, is_src=name.startswith("src_"))
                weight.copy_(torch.cat([theirs, *(theirs[ids].mean(0, keepdim=True) for ids in spelt)]))
            else:
                random.append(name)
    log.info(f"begun with the weights of {parent.path}")
    if random:
        more = f" and {len(random) - _N_NAMED:,} more" if len(random) > _N_NAMED else ""
        log.info(f"missing or of another shape, randomly initialized: {', '.join(random[:_N_NAMED])}{more}")


def spelling_ids(old: Tokenizer, new: Tokenizer, is_src: bool) -> list[list[int]]:
    """For each piece that only the new tokenizer has, the old ids whose mean it begins as."""
    encode, pieces_of = (old.encode_src, old.src_pieces) if is_src else (old.encode_tgt, old.tgt_pieces)
    vocabulary, every = new.src_vocabulary() if is_src else new.tgt_vocabulary(), range(old.vocab_sizes[not is_src])
    found = list[list[int]]()
    for piece in vocabulary[len(every) :]:
        if piece in new.tags:
            found.append(list(old.tags.values()) or list(every))
            continue
        ids = encode(piece.replace("▁", " "))
        if len(ids) > 1 and not piece.startswith("▁") and pieces_of(ids[:1]) == ["▁"]:
            ids = ids[1:]  # a piece within a word has no space before it
        found.append(ids or list(every))  # the rules of an imported tokenizer may delete all of a piece
    return found


def same_pair(other: RunDir | None, config: Config) -> PairFiles | None:
    """What another run keeps of the language pair of `config`, in either direction. None where it translates others."""
    if other is None:
        return None
    theirs, own = other.load_config().data, (config.data.src_lang, config.data.tgt_lang)
    pairs = [pair for pair in theirs.directions if (pair.src_lang, pair.tgt_lang) in (own, own[::-1])]
    pair = max(pairs, key=lambda pair: pair.name == config.data.name, default=None)
    return None if pair is None else other.of_pair(theirs, pair, (pair.src_lang, pair.tgt_lang) != own)


def known_pairs(files: PairFiles) -> set[int]:
    """Hashes of pairs a run was trained on, where its config names the dev set: held out they would score too high."""
    folder = files.manifest.folder
    if files.pair.dev is None or RunDir(folder).is_imported:
        return set()
    pairs = islice(TrainingText(files.pair).read(on_bad_line="skip"), _N_REMEMBERED)
    try:
        return {hash(pair[1::-1] if files.is_exchanged else pair[:2]) for pair in pairs}
    except DataError as error:
        why = "has no training text any more, so sentences may be held out that it was trained on"
        log.warning(f"{folder} {why}, and score too high ({error}); give --dev and --test of your own")
        return set()


def known_characters(parent: RunDir | None, language: str) -> set[str]:
    """The characters that the parent has read in a language, so that its heir calls none of them unseen."""
    if parent is None:
        return set()
    config = parent.load_config()
    ways = [one for one in directions_of(config) if one.data.src_lang == language]
    profiles = [parent.of_pair(config.data, one.pair).load_profile(one.is_reverse) for one in ways]
    return set().union(*(profile.characters for profile in profiles if profile is not None))


def rehearse(config: Config, run: RunDir) -> None:
    """Copies pairs of the parent's text into the run, where so little text of its languages would make it forget."""
    if config.training.init_from is None or isinstance(config.data, SeveralPairs):
        run.manifest.discard(["rehearsal"])
        return
    parent, products = None if run.steps() else parent_of(config), run.manifest.products
    inputs = {**inputs_of_runs(run, parent=parent), "train": TrainingText(config.data).sha256()}
    inputs |= {name: products[name].sha256 for name in ("synthetic",) if name in products}
    weights = [corpus.weight for corpus in config.data.corpora]
    settings = {"rehearsal": config.training.rehearsal, "seed": config.training.seed, "weights": weights}
    run.manifest.product("rehearsal", inputs, settings, lambda: _rehearsed(config, run, parent))


def _rehearsed(config: Config, run: RunDir, parent: RunDir | None) -> Made:
    nothing, share, own = Made(facts={"n_pairs": 0}), config.training.rehearsal, run.of_pair(config.data, config.data)
    files = same_pair(parent, config)
    if parent is None or files is None or files.is_exchanged or parent.is_imported or not share:
        return nothing
    data = own.training_data()
    corpora = [corpus for corpus in data.corpora if corpus.files != own.made_files("rehearsal")]  # of an earlier start
    text = TrainingText(data.model_copy(update={"train": corpora}))
    n_new = sum(corpora[pair.corpus].weight for pair in text.read())
    n_wanted = max(_FEWEST_REHEARSED, round(share / (1 - share) * n_new))
    if n_new >= _TAKES_ITS_PLACE * files.n_written():
        return nothing  # before its text is read, which may be this one with new lines
    try:
        n_theirs = sum(1 for _ in _learnt_pairs(files))
    except (DataError, RunDirError) as error:
        why = f"has no training text any more, so what it knows may be forgotten ({error})"
        log.warning(f"{parent.path} {why}; restore its files, or go on without")
        return nothing
    if not n_theirs or n_new >= _TAKES_ITS_PLACE * n_theirs:
        return nothing
    n_pairs = min(n_theirs, max(_N_REHEARSED, n_wanted))
    is_chosen = np.zeros(n_theirs, bool)
    is_chosen[np.random.default_rng(config.training.seed).choice(n_theirs, n_pairs, replace=False)] = True
    saved = [Path(file) for file in own.made_files("rehearsal")]
    for side, file in enumerate(saved):
        write_rows(file, (f"{pair[side]}\n" for pair in compress(_learnt_pairs(files), is_chosen)))
    weight = max(0.001, min(1.0, n_wanted / n_pairs))
    share = weight * n_pairs / (weight * n_pairs + n_new)
    log.info(f"{share:.0%} of an epoch is text of {parent.path}, so that it is not forgotten: {saved[0].parent}")
    return Made(saved, {"n_pairs": n_pairs, "weight": weight})


def _learnt_pairs(files: PairFiles) -> Iterator[SentencePair]:
    """What a run was trained on, without synthetic pairs. Raises DataError or RunDirError when it is gone or changed."""
    text = TrainingText(files.training_data())
    if text.sha256() != files.manifest.products[f"check{files.suffix}"].inputs[f"train{files.suffix}"]:
        raise RunDirError("the training text has changed since")
    pairs = text.read(on_bad_line="skip")
    is_own = lambda corpus: not corpus.synthetic and not corpus.tgt_lang
    return files.training_pairs(pair for pair in pairs if is_own(text.corpora[pair.corpus]))
