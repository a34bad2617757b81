"""From raw text to ids on disk: trains the tokenizer, builds the datasets of a run and describes its text, once.

The first start reads each file once: it checks all sets, copies the training pairs, and takes everything else from the
copy. A later start of the run uses what the first one made.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mt_cli.config import Config, DataConfig, TokenizerConfig
from mt_cli.errors import DataError
from mt_cli.evaluation.metrics import bleu_tokenizer, refuse_tokenizer
from mt_cli.files import cannot_write
from mt_cli.run_dir import RunDir
from mt_cli.text.check import SetsCheck
from mt_cli.text.corpus import CorpusReport, SentencePair, read_copy, read_pairs, sha256_of, write_copy
from mt_cli.text.dataset import TokenDataset, TokenPair
from mt_cli.text.profile import CorpusProfile, ProfileBuilder
from mt_cli.text.splitting import AbbreviationCounter
from mt_cli.text.tokenizer import Tokenizer, train_tokenizer

log = logging.getLogger(__name__)

ReadPairs = Callable[[], Iterator[SentencePair]]  # starts reading anew


@dataclass
class PreparedData:
    tokenizer: Tokenizer
    profile: CorpusProfile
    train: TokenDataset
    dev: TokenDataset
    dev_pairs: list[SentencePair]
    sha256: dict[str, str]  # of the training and the dev files


def prepare(config: Config, run: RunDir) -> PreparedData:
    """Raises DataError for what is wrong with the files, before anything is trained, and RunDirError if the run began
    with other files."""
    data = config.data
    refuse_tokenizer(bleu_tokenizer(data.bleu_tokenize, data.tgt_lang))
    train, dev = _Set("train", data.train, data, data.dedup), _Set("dev", data.dev, data)
    if run.is_prepared:
        return _prepare_again(config, run, train, dev)
    return _prepare_first(config, run, train, dev)


class _Set:
    """The training set or the dev set of a config."""

    def __init__(self, name: str, files: list[str], data: DataConfig, dedup: bool = False):
        self.name, self.files, self._data, self._dedup = name, files, data, dedup
        self.sha256 = sha256_of(files)
        self.report = CorpusReport()  # on what was read last

    def read(self) -> Iterator[SentencePair]:
        """The normalized pairs; of the files whose hash is `sha256`, or there is a DataError after the last one."""
        self.report = CorpusReport()
        return read_pairs(
            self.files,
            on_bad_line=self._data.on_bad_line,
            dedup=self._dedup,
            report=self.report,
            sha256=self.sha256,
        )

    def open(self, run: RunDir, tokenizer: Tokenizer) -> TokenDataset | None:
        """The ids that an earlier start made of the same text, if they are whole."""
        return TokenDataset.open(run.cache / self.name, tokenizer.vocab_sizes, self._meta(tokenizer))

    def build(
        self, run: RunDir, tokenizer: Tokenizer, pairs: Iterable[SentencePair], profile: ProfileBuilder | None = None
    ) -> TokenDataset:
        """The ids of `pairs`, which were read from this set. Says what was read; `profile` is told each source text."""
        folder = run.cache / self.name
        encoded = self._encode(pairs, tokenizer, profile)
        try:
            dataset = TokenDataset.build(folder, encoded, tokenizer.vocab_sizes, self._meta(tokenizer))
        except OSError as error:
            raise cannot_write(folder, error) from None
        for line in self.report.describe(self.name):
            log.info(line)
        return dataset

    def _encode(
        self, pairs: Iterable[SentencePair], tokenizer: Tokenizer, profile: ProfileBuilder | None
    ) -> Iterator[TokenPair]:
        max_length = self._data.max_length
        for pair in pairs:
            src, tgt = tokenizer.encode_src(pair.src), tokenizer.encode_tgt(pair.tgt)
            if max(len(src), len(tgt)) > max_length:
                self.report.n_kept -= 1
                self.report.drop(f"longer than {max_length} tokens")
                continue
            if profile is not None:
                profile.add(pair.src)
            yield TokenPair(src, tgt, pair.line)

    def _meta(self, tokenizer: Tokenizer) -> dict[str, str]:
        return {
            "data": self.sha256,
            "tokenizer": tokenizer.sha256,
            "max_length": str(self._data.max_length),
            "reading": f"dedup {self._dedup}, bad lines {self._data.on_bad_line}",
        }

    def refuse_empty(self, dataset: TokenDataset) -> None:
        if len(dataset) == 0:
            use = "train" if self.name == "train" else "validate"
            raise DataError(f"{self.files[0]}: no pair is left to {use} on; see data.max_length and the counts above")


def _prepare_first(config: Config, run: RunDir, train: _Set, dev: _Set) -> PreparedData:
    check, abbreviations = SetsCheck(), AbbreviationCounter()
    dev_pairs = list(check.held_out("dev", dev.read()))
    for name, files in config.data.test.items():
        for _ in check.held_out(name, read_pairs(files, on_bad_line=config.data.on_bad_line)):
            pass
    with _copied(_count(check.train(train.read()), abbreviations), run) as read_train:
        check.finish()
        tokenizer = _train_tokenizer(config.tokenizer, read_train)
        train_dataset, profile = _build_with_profile(run, tokenizer, train, read_train, abbreviations)
    dev_dataset = _dev_dataset(run, tokenizer, dev, dev_pairs)
    sha256 = {"train": train.sha256, "dev": dev.sha256}
    run.save_profile(profile)
    run.save_config(config)
    run.save_tokenizer(tokenizer)
    # The last: from here on the run keeps its text and its config. Until now both could still be corrected.
    run.save_data({**sha256, "tokenizer": tokenizer.sha256})
    return PreparedData(tokenizer, profile, train_dataset, dev_dataset, dev_pairs, sha256)


def _prepare_again(config: Config, run: RunDir, train: _Set, dev: _Set) -> PreparedData:
    sha256 = {"train": train.sha256, "dev": dev.sha256}
    tokenizer, profile = run.load_tokenizer(config.tokenizer.joint), run.load_profile()
    run.refuse_other_data({**sha256, "tokenizer": tokenizer.sha256})
    dev_pairs = list(dev.read())
    if profile is None:  # deleted, or the run began before profiles were kept
        abbreviations = AbbreviationCounter()
        for _ in _count(train.read(), abbreviations):
            pass
        train_dataset, profile = _build_with_profile(run, tokenizer, train, train.read, abbreviations)
        run.save_profile(profile)
    else:
        found = train.open(run, tokenizer)
        train_dataset = found if found is not None else train.build(run, tokenizer, train.read())
        train.refuse_empty(train_dataset)
    dev_dataset = _dev_dataset(run, tokenizer, dev, dev_pairs)
    return PreparedData(tokenizer, profile, train_dataset, dev_dataset, dev_pairs, sha256)


def _count(pairs: Iterable[SentencePair], abbreviations: AbbreviationCounter) -> Iterator[SentencePair]:
    for pair in pairs:
        abbreviations.add(pair.src)
        yield pair


@contextlib.contextmanager
def _copied(pairs: Iterable[SentencePair], run: RunDir) -> Iterator[ReadPairs]:
    """Reads all pairs, and gives a function that reads them from a temporary file beside the ids."""
    file = run.cache / "train.txt"
    try:
        try:
            run.cache.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)  # of a process that was killed
            write_copy(pairs, file)
        except OSError as error:
            raise cannot_write(file, error) from None
        yield lambda: read_copy(file)
    finally:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def _train_tokenizer(settings: TokenizerConfig, read_train: ReadPairs) -> Tokenizer:
    sides: list[Callable[[], Iterator[str]]] = [
        lambda: (pair.src for pair in read_train()),
        lambda: (pair.tgt for pair in read_train()),
    ]
    if settings.joint:
        sides = [lambda: (text for pair in read_train() for text in (pair.src, pair.tgt))]
    return train_tokenizer(sides, settings.algorithm, settings.vocab_size)


def _build_with_profile(
    run: RunDir, tokenizer: Tokenizer, train: _Set, read_train: ReadPairs, abbreviations: AbbreviationCounter
) -> tuple[TokenDataset, CorpusProfile]:
    builder = ProfileBuilder(abbreviations.abbreviations())
    dataset = train.build(run, tokenizer, read_train(), builder)
    train.refuse_empty(dataset)
    return dataset, builder.profile(*dataset.lengths(0, len(dataset)))


def _dev_dataset(run: RunDir, tokenizer: Tokenizer, dev: _Set, pairs: list[SentencePair]) -> TokenDataset:
    dataset = dev.open(run, tokenizer)
    if dataset is None:
        dataset = dev.build(run, tokenizer, pairs)
        if 0 < len(dataset) < len(pairs):
            log.info(
                f"dev: the loss is that of these {len(dataset):,} pairs, BLEU and chrF are those of {len(pairs):,}"
            )
    dev.refuse_empty(dataset)
    return dataset
