"""From raw text to ids on disk: trains the tokenizer, builds the datasets of a run and describes its text, once.

The first start reads each file once: it checks all sets, copies the training pairs, and takes everything else from the
copy. A later start of the run uses what the first one made. `pair_text.py` does what concerns one language pair alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain

from mt_cli.config import Config, DataConfig, SeveralPairs, TokenizerConfig, given_keys
from mt_cli.config_file import complete
from mt_cli.data.corpus import SentencePair
from mt_cli.data.languages import language
from mt_cli.data.mixture import Mixture
from mt_cli.data.profile import CorpusProfile
from mt_cli.data.tokenizer import REAL, SYNTHETIC, Tokenizer, extend_tokenizer, train_tokenizer, with_tags
from mt_cli.errors import RunDirError
from mt_cli.evaluation.metrics import bleu_tokenizer, refuse_tokenizer
from mt_cli.recipe import CorpusFacts, FactsCounter, Machine, Parent, choose, in_brief, tags_real_sources
from mt_cli.run.directions import directions_of, tags_of, told
from mt_cli.run.run_dir import RunDir
from mt_cli.training.pair_text import PairText
from mt_cli.training.parent import known_characters, like_parent, parent_of
from mt_cli.training.rehearsal import forget_rehearsal, rehearse
from mt_cli.training.reverse_run import run_to_begin_with, translated_share
from mt_cli.training.selection import ReadPairs
from mt_cli.training.timed_update import update_seconds

log = logging.getLogger(__name__)


@dataclass
class PreparedPair:
    """A language pair that is trained on."""

    data: DataConfig
    profile: CorpusProfile
    dev: Mixture  # the dev set; BLEU and chrF are those of `dev_pairs`
    dev_pairs: list[SentencePair]


@dataclass
class PreparedData:
    config: Config  # with a value for each key that was left open
    tokenizer: Tokenizer
    train: Mixture
    pairs: list[PreparedPair]  # at least one
    sha256: dict[str, str]  # of the training and the dev files


def prepare(config: Config, run: RunDir, n_processes: int = 1) -> PreparedData:
    """`n_processes`: those that train the run. Raises DataError for what is wrong with the files, before anything is trained,
    and RunDirError if the run began with other files."""
    for data in config.data.directions:
        refuse_tokenizer(bleu_tokenizer(data.bleu_tokenize, data.tgt_lang))
    return _prepare_again(config, run) if run.is_prepared else _prepare_first(config, run, n_processes)


def _texts(config: Config, run: RunDir) -> list[PairText]:
    return [PairText(config, data, run) for data in config.data.directions]


def _prepare_first(config: Config, run: RunDir, n_processes: int) -> PreparedData:
    parent = run_to_begin_with(config, run)
    if parent is not None:
        config = like_parent(config, parent)
    forget_rehearsal(run)
    if (named := parent_of(config)) is not None:
        rehearse(config, run, named)
        kept = {one.name for one in directions_of(config)}
        if lost := [one for one in directions_of(named.load_config()) if one.name not in kept]:
            log.info(f"{named.path} translates {told(lost)}, which this run forgets; data.pairs keep several")
        _warn_of_other_codes(config, named)
    facts, texts = FactsCounter(), _texts(config, run)
    with ExitStack() as stack:
        for text in texts:
            stack.enter_context(text.copied(facts))
        reports = [text.select(parent) for text in texts]
        of_parent = None if parent is None else Parent(knows_both=parent.path == run.back)
        config, reasons = _completed(config, facts.facts(), of_parent, n_processes)
        if reasons:
            for line in [*in_brief(config), f"        all of it, with the reasons: {run.config_file}"]:
                log.info(line)
        tokenizer = _tokenizer(config, parent, texts, facts.facts())
        built = [_knowing(text.data, parent, *text.build(tokenizer, True)) for text in texts]
    mixture = _mixture(config, [one for one, _ in built])
    pairs = [_prepared(text, tokenizer, profiles[0]) for text, (_, profiles) in zip(texts, built, strict=True)]
    for text, report, (_, profiles) in zip(texts, reports, built, strict=True):
        text.keep_report(report)  # after all that may refuse the corpus
        text.save_profiles(profiles)
    run.save_config(config, reasons)
    run.text.save_tokenizer(tokenizer)
    # Written last: from here on the run keeps its text and its config, which could be corrected until now.
    run.text.save_hashes({**_hashes(texts, tokenizer), "edge_spaces": "kept"})
    return PreparedData(config, tokenizer, mixture, pairs, _sha256(texts))


def _knowing(
    data: DataConfig, parent: RunDir | None, mixture: Mixture, profiles: list[CorpusProfile]
) -> tuple[Mixture, list[CorpusProfile]]:
    """Profiles with the characters that the parent has read."""
    known = [known_characters(parent, language) for language in (data.src_lang, data.tgt_lang)]
    return mixture, [profile.knowing(more) for profile, more in zip(profiles, known, strict=False)]


def _prepare_again(config: Config, run: RunDir) -> PreparedData:
    texts, tokenizer = _texts(config, run), run.text.load_tokenizer(config.tokenizer.joint)
    run.text.refuse_other_data(_hashes(texts, tokenizer), bool(run.steps()))
    keeps_edge_spaces, mixtures, pairs = run.text.keeps_edge_spaces(), list[Mixture](), list[PreparedPair]()
    for text in texts:
        text.dev_pairs = list(text.dev.read())
        mixture, profile = text.load_or_build(tokenizer, keeps_edge_spaces)
        mixtures.append(mixture)
        pairs.append(_prepared(text, tokenizer, profile))
    return PreparedData(config, tokenizer, _mixture(config, mixtures), pairs, _sha256(texts))


def trained_text(run: RunDir, config: Config, tokenizer: Tokenizer) -> tuple[Mixture, list[SentencePair]]:
    """The ids of the training text and the dev pairs of a run of one language pair. Changes nothing but its cache. Raises
    DataError or RunDirError where they are gone or are not what they were."""
    [text] = _texts(config, run)
    run.text.refuse_other_data(text.sha256, bool(run.steps()))
    text.settle()
    dataset = text.train.open(run, tokenizer)
    if dataset is None:
        raise RunDirError(f"{run.cache}: not the ids of the training text; the same `mt train` again makes them")
    return dataset, _as_spelled(text.dev.read(), tokenizer)


def _prepared(text: PairText, tokenizer: Tokenizer, profile: CorpusProfile) -> PreparedPair:
    text.dev_pairs = _as_spelled(text.dev_pairs, tokenizer)
    return PreparedPair(text.data, profile, text.dev_dataset(tokenizer), text.dev_pairs)


def _mixture(config: Config, mixtures: list[Mixture]) -> Mixture:
    """The training text of all language pairs. An epoch has the largest one as its corpora's weights say, and the others so
    often that they are drawn in proportion to n ** (1 / temperature)."""
    if not isinstance(config.data, SeveralPairs):
        return mixtures[0]
    sizes = [sum(part.weight * len(part.dataset) for part in one.parts) for one in mixtures]
    factors = [(max(sizes) / size) ** (1 - 1 / config.data.temperature) for size in sizes]
    return Mixture(
        [
            replace(part, weight=part.weight * factor, name=part.name or pair.corpora[0].files[0])
            for one, factor, pair in zip(mixtures, factors, config.data.directions, strict=True)
            for part in one.parts
        ]
    )


def _as_spelled(pairs: Iterable[SentencePair], tokenizer: Tokenizer) -> list[SentencePair]:
    """The pairs with no-break spaces only where translations can have them, so that samples show the same."""
    return [pair._replace(tgt=tokenizer.normalize_tgt(pair.tgt)) for pair in pairs]


def _sha256(texts: list[PairText]) -> dict[str, str]:
    return {name: value for text in texts for name, value in text.sha256.items()}


def _hashes(texts: list[PairText], tokenizer: Tokenizer) -> dict[str, str]:
    settled = {name: value for text in texts for name, value in text.settled_sha256.items()}
    return {**_sha256(texts), "tokenizer": tokenizer.sha256, **settled}


def _completed(
    config: Config, facts: CorpusFacts, parent: Parent | None, n_processes: int
) -> tuple[Config, dict[str, str]]:
    """The config with a value for each key that it leaves open, and the reasons of those that depend on the corpus."""
    given, minutes = given_keys(config), config.training.minutes

    def completed(seconds: float) -> tuple[Config, dict[str, str]]:
        choices = choose(facts, Machine(seconds), given, parent)
        values = {key: choice.value for key, choice in choices.items()}
        return complete(config, values), {key: choice.reason for key, choice in choices.items()}

    best, reasons = completed(0.0)
    if minutes is None or not reasons:
        return best, reasons
    if config.data.monolingual is not None:
        given["training.minutes"] = minutes * (1 - translated_share(config.data.monolingual))
    return completed(update_seconds(best, facts) / n_processes)


def _tokenizer(config: Config, parent: RunDir | None, texts: list[PairText], facts: CorpusFacts) -> Tokenizer:
    read_kept = lambda: chain.from_iterable(text.train.kept_pairs() for text in texts)  # noqa: E731
    sides, settings, tags = _sides(config.tokenizer, read_kept), config.tokenizer, tags_of(config)
    if any(corpus.synthetic for text in texts for corpus in text.train.data.corpora):
        n_real, n_synthetic = (sum(text.n_of_epoch[kind] for text in texts) for kind in (False, True))
        tags.append(REAL if tags_real_sources(facts, n_real, n_synthetic) else SYNTHETIC)
    if parent is None:
        return train_tokenizer(sides, settings.algorithm, settings.vocab_size, tags)
    tokenizer = parent.text.load_tokenizer(settings.joint)
    extends, unknown = config.training.extend_vocabulary, _unknown_languages(config, parent)
    if extends is None and unknown:
        log.info(f"{parent.path} has not learnt {' and '.join(unknown)}, so subwords of this text join its own")
    if extends or (extends is None and unknown):
        before = sum(tokenizer.vocab_sizes[: len(sides)])
        tokenizer = extend_tokenizer(tokenizer, sides, settings.algorithm, settings.vocab_size)
        log.info(f"tokenizer: {sum(tokenizer.vocab_sizes[: len(sides)]) - before:,} subwords join {before:,}")
    return with_tags(tokenizer, tags)


def _unknown_languages(config: Config, parent: RunDir) -> list[str]:
    """Those of the text that the parent has not learnt; where each side has its own subwords, not on that side."""

    def sides(one: Config) -> list[list[str]]:
        src, tgt = ([getattr(pair, key) for pair in one.data.directions] for key in ("src_lang", "tgt_lang"))
        return [[*src, *tgt]] if config.tokenizer.joint else [src, tgt]

    both = zip(sides(config), sides(parent.load_config()), strict=True)
    return list(dict.fromkeys(language for own, known in both for language in own if language not in known))


def _warn_of_other_codes(config: Config, parent: RunDir) -> None:
    """A language that is named by two letters here and by three there is taken for another one, without the parent's tag."""
    own, known = (
        list(dict.fromkeys(code for pair in one.data.directions for code in (pair.src_lang, pair.tgt_lang)))
        for one in (config, parent.load_config())
    )
    for unknown in (one for one in own if one not in known):
        if others := [one for one in known if one not in own and len(language(one)) != len(language(unknown))]:
            log.warning(
                f"{parent.path} calls its languages {', '.join(known)}, and none of them {unknown}; if {' or '.join(others)} is the"
                " same one, name it so with --src-lang or --tgt-lang"
            )


def _sides(settings: TokenizerConfig, read_train: ReadPairs) -> list[Callable[[], Iterator[str]]]:
    """What each model of the tokenizer learns from."""
    if settings.joint:
        return [lambda: (text for pair in read_train() for text in (pair.src, pair.tgt))]
    return [lambda: (pair.src for pair in read_train()), lambda: (pair.tgt for pair in read_train())]
