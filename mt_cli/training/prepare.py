"""From raw text to ids on disk: trains the tokenizer, builds the datasets of a run and describes its text, once.

The first start reads each file once: it checks all sets, copies the training pairs, and takes everything else from the
copy. A later start of the run uses what the first one made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mt_cli.check.sets import SetsCheck
from mt_cli.config import Config, TokenizerConfig, given_keys
from mt_cli.config_file import complete
from mt_cli.device import choose_device, choose_precision, measured_gflops
from mt_cli.errors import RunDirError
from mt_cli.evaluation.metrics import bleu_tokenizer, refuse_tokenizer
from mt_cli.files import write_text
from mt_cli.recipe import CorpusFacts, FactsCounter, Machine, choose, in_brief
from mt_cli.run_dir import RunDir
from mt_cli.text.corpus import SentencePair, read_pairs
from mt_cli.text.dataset import TokenDataset
from mt_cli.text.mixture import Mixture
from mt_cli.text.profile import CorpusProfile, ProfileBuilder
from mt_cli.text.splitting import AbbreviationCounter
from mt_cli.text.tokenizer import Tokenizer, extend_tokenizer, train_tokenizer
from mt_cli.training.parent import held_out_of, like_parent, parent_of
from mt_cli.training.selection import ReadPairs, hold_out, leave_out_faulty, look_through, tell_findings
from mt_cli.training.token_sets import TokenSet, TrainingSet

log = logging.getLogger(__name__)


@dataclass
class PreparedData:
    config: Config  # with a value for each key that was left open
    tokenizer: Tokenizer
    profile: CorpusProfile
    train: Mixture
    dev: TokenDataset
    dev_pairs: list[SentencePair]
    sha256: dict[str, str]  # of the training and the dev files


def prepare(config: Config, run: RunDir) -> PreparedData:
    """Raises DataError for what is wrong with the files, before anything is trained, and RunDirError if the run began
    with other files."""
    data = config.data
    refuse_tokenizer(bleu_tokenizer(data.bleu_tokenize, data.tgt_lang))
    train = TrainingSet(run, data)
    return _prepare_again(config, run, train) if run.is_prepared else _prepare_first(config, run, train)


def _prepare_first(config: Config, run: RunDir, train: TrainingSet) -> PreparedData:
    parent = parent_of(config)
    if parent is not None:
        config = like_parent(config, parent)
    check, abbreviations, facts = SetsCheck(train.text.told), AbbreviationCounter(), FactsCounter()
    dev_pairs = list[SentencePair]()
    if config.data.dev is not None:
        dev = TokenSet(run, "dev", config.data.dev, config.data)
        dev_pairs = list(check.held_out("dev", dev.read()))
    sets = {"dev": dev_pairs} if config.data.dev is not None else {}
    for name, files in config.data.test.items():
        pairs = read_pairs(files, columns=config.data.columns, on_bad_line=config.data.on_bad_line)
        sets[name] = list(check.held_out(name, pairs))
    with train.copied(run, lambda pairs: _count(check.train(pairs), abbreviations, facts)):
        check.finish()
        report = look_through(config.data, train.pairs, sets)
        run.sets.forget()  # what a start wrote that broke off
        if config.data.dev is None:
            hold_out(config, run.sets, train.pairs, report, held_out_of(parent, config) if parent is not None else {})
            dev = TokenSet(run, "dev", run.sets.dev_files(config.data), config.data)
            dev_pairs = list(dev.read())
        elif config.data.clean:
            leave_out_faulty(run.sets, train.pairs, report)
        train.leave_out(run.sets.left_out_lines())
        config, reasons = _completed(config, facts.facts())
        if reasons:
            for line in [*in_brief(config), f"        all of it, with the reasons: {run.config_file}"]:
                log.info(line)
        sides = _sides(config.tokenizer, train.kept_pairs)
        algorithm, vocab_size = config.tokenizer.algorithm, config.tokenizer.vocab_size
        if parent is not None:
            tokenizer = parent.text.load_tokenizer(config.tokenizer.joint)
            if config.training.extend_vocabulary:
                tokenizer = extend_tokenizer(tokenizer, sides, algorithm, vocab_size)
        else:
            tokenizer = train_tokenizer(sides, algorithm, vocab_size)
        train_dataset, profile = _build_with_profile(run, tokenizer, train, abbreviations, True)
    dev_pairs = _as_spelled(dev_pairs, tokenizer)
    dev_dataset = _dev_dataset(run, tokenizer, dev, dev_pairs)
    sha256 = {"train": train.sha256, "dev": dev.sha256}
    tell_findings(report)  # after all that may refuse the corpus
    write_text(run.sets.check_file, report.as_json() + "\n")
    run.text.save_profile(profile)
    run.save_config(config, reasons)
    run.text.save_tokenizer(tokenizer)
    # Written last: from here on the run keeps its text and its config, which could be corrected until now.
    run.text.save_hashes({**_hashes(sha256, tokenizer, run), "edge_spaces": "kept"})
    return PreparedData(config, tokenizer, profile, train_dataset, dev_dataset, dev_pairs, sha256)


def _prepare_again(config: Config, run: RunDir, train: TrainingSet) -> PreparedData:
    dev = TokenSet(run, "dev", run.sets.dev_files(config.data), config.data)
    sha256 = {"train": train.sha256, "dev": dev.sha256}
    tokenizer, profile = run.text.load_tokenizer(config.tokenizer.joint), run.text.load_profile()
    run.text.refuse_other_data(_hashes(sha256, tokenizer, run), bool(run.steps()))
    dev_pairs = _as_spelled(dev.read(), tokenizer)
    train.leave_out(run.sets.left_out_lines())
    if profile is None:  # deleted, or the run began before profiles were kept
        abbreviations = AbbreviationCounter()
        for pair in train.pairs():
            abbreviations.add(pair.src)
        keeps = run.text.keeps_edge_spaces()
        train_dataset, profile = _build_with_profile(run, tokenizer, train, abbreviations, keeps)
        run.text.save_profile(profile)
    else:
        train_dataset = train.open_or_build(run, tokenizer)
    dev_dataset = _dev_dataset(run, tokenizer, dev, dev_pairs)
    return PreparedData(config, tokenizer, profile, train_dataset, dev_dataset, dev_pairs, sha256)


def trained_text(run: RunDir, config: Config, tokenizer: Tokenizer) -> tuple[Mixture, list[SentencePair]]:
    """The ids of the training text and the dev pairs of a run that was trained. Changes nothing but its cache. Raises DataError or
    RunDirError where they are gone or are not what they were."""
    train = TrainingSet(run, config.data)
    dev = TokenSet(run, "dev", run.sets.dev_files(config.data), config.data)
    run.text.refuse_other_data({"train": train.sha256, "dev": dev.sha256}, bool(run.steps()))
    dataset = train.open(run, tokenizer)
    if dataset is None:
        raise RunDirError(f"{run.cache}: not the ids of the training text; the same `mt train` again makes them")
    return dataset, _as_spelled(dev.read(), tokenizer)


def _as_spelled(pairs: Iterable[SentencePair], tokenizer: Tokenizer) -> list[SentencePair]:
    """The pairs with no-break spaces only where translations can have them, so that samples show the same."""
    return [pair._replace(tgt=tokenizer.normalize_tgt(pair.tgt)) for pair in pairs]


def _hashes(files: dict[str, str], tokenizer: Tokenizer, run: RunDir) -> dict[str, str]:
    return {**files, "tokenizer": tokenizer.sha256, "left_out": run.sets.left_out_sha256() or "none"}


def _count(
    pairs: Iterable[SentencePair], abbreviations: AbbreviationCounter, facts: FactsCounter
) -> Iterator[SentencePair]:
    for pair in pairs:
        abbreviations.add(pair.src)
        facts.add(pair.src, pair.tgt)
        yield pair


def _completed(config: Config, facts: CorpusFacts) -> tuple[Config, dict[str, str]]:
    """The config with a value for each key that it leaves open, and the reasons of those that depend on the corpus."""
    device = choose_device(config.training.device)
    dtype, _ = choose_precision(config.training.precision, device)
    choices = choose(facts, Machine(measured_gflops(device, dtype)), given_keys(config))
    completed = complete(config, {key: choice.value for key, choice in choices.items()})
    return completed, {key: choice.reason for key, choice in choices.items()}


def _sides(settings: TokenizerConfig, read_train: ReadPairs) -> list[Callable[[], Iterator[str]]]:
    """What each model of the tokenizer learns from."""
    if settings.joint:
        return [lambda: (text for pair in read_train() for text in (pair.src, pair.tgt))]
    return [lambda: (pair.src for pair in read_train()), lambda: (pair.tgt for pair in read_train())]


def _build_with_profile(
    run: RunDir,
    tokenizer: Tokenizer,
    train: TrainingSet,
    abbreviations: AbbreviationCounter,
    keeps_edge_spaces: bool,
) -> tuple[Mixture, CorpusProfile]:
    builder = ProfileBuilder(abbreviations.abbreviations())
    dataset = train.build(run, tokenizer, builder)
    return dataset, builder.profile(*dataset.lengths(0, len(dataset)), keeps_edge_spaces)


def _dev_dataset(run: RunDir, tokenizer: Tokenizer, dev: TokenSet, pairs: list[SentencePair]) -> TokenDataset:
    dataset = dev.open(run, tokenizer)
    if dataset is None:
        dataset = dev.build(run, tokenizer, pairs)
        if 0 < len(dataset) < len(pairs):
            log.info(
                f"dev: the loss is that of these {len(dataset):,} pairs, BLEU and chrF are those of {len(pairs):,}"
            )
    dev.refuse_empty(dataset)
    return dataset
