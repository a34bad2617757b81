"""The text of one language pair while a training is prepared: its sets are verified, some of it is held out, and it is
described in each direction that is learnt.

A run of one pair keeps what comes of it in its own folder, a run of several pairs in a folder for each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

from mt_cli.checking.check import ReadCorpus
from mt_cli.checking.report import Report
from mt_cli.checking.sets import SetsCheck
from mt_cli.config import Config, DataConfig
from mt_cli.data.corpora import corpus_of
from mt_cli.data.corpus import SentencePair, read_pairs
from mt_cli.data.mixture import Lengths, Mixture, Part
from mt_cli.data.profile import CorpusProfile, ProfileBuilder
from mt_cli.data.spelling import AS_IT_IS, CharacterCounter, Spellings, count_characters
from mt_cli.data.splitting import AbbreviationCounter
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.files import write_text
from mt_cli.recipe import FactsCounter
from mt_cli.run.run_dir import RunDir
from mt_cli.training.parent import held_out_of, known_pairs, named_sets_of, spellings_of
from mt_cli.training.rehearsal import with_rehearsal
from mt_cli.training.reverse_run import reverse_run
from mt_cli.training.selection import hold_out, leave_out_faulty, look_through, respell, tell_findings
from mt_cli.training.token_sets import TokenSet, TrainingSet

log = logging.getLogger(__name__)

_ITS_CORPUS = 0.5  # of the pairs are known to the run that this one begins with: so they have one corpus


class PairText:
    def __init__(self, config: Config, data: DataConfig, run: RunDir):
        """`data`: that of the language pair. `self.config` is the config as if it were the only one."""
        self.config, self.data = config.model_copy(update={"data": data}), data
        self.folder = run.of_pair(config.data, data)
        self.suffix = "" if self.folder is run else f" {data.name}"  # of names
        if self.folder is not run:
            self.folder.refuse_links()
        self.train = TrainingSet(self.folder, with_rehearsal(self.folder, data), self.suffix)
        self.dev_pairs = list[SentencePair]()
        self.n_of_epoch = {False: 0.0, True: 0.0}  # pairs, by whether they are synthetic; counted by the first start
        self._dev: TokenSet | None = None
        self._check, self._signs = SetsCheck(self.train.text.told), (CharacterCounter(), CharacterCounter())
        self._description = _Description(config.training.both_directions == 1)

    @property
    def dev(self) -> TokenSet:
        if self._dev is None:
            files = self.folder.sets.dev_files(self.data)
            self._dev = TokenSet(self.folder, "dev", files, self.data, told=f"dev{self.suffix}")
        return self._dev

    @property
    def sha256(self) -> dict[str, str]:
        """Of the files of the training set, the dev set and the list of words."""
        found = {"train": self.train.sha256, "dev": self.dev.sha256}
        if self.train.words is not None:
            found["words"] = self.train.words.sha256
        return {f"{name}{self.suffix}": sha256 for name, sha256 in found.items()}

    @property
    def settled_sha256(self) -> dict[str, str]:
        """Of what else was settled at the first start."""
        sets = self.folder.sets
        found = {"left_out": sets.left_out_sha256(), "spelling": sets.spelling_sha256()}
        return {f"{name}{self.suffix}": sha256 or "none" for name, sha256 in found.items()}

    # The first start -------------------------------------------------------------------------------------------------

    def copied(self, facts: FactsCounter) -> AbstractContextManager[None]:
        """Reads all sets, and copies the training pairs while the context lasts."""
        if self.data.dev is not None:
            self.dev_pairs = list(self._check.held_out("dev", self.dev.read()))
        self._sets = {"dev": self.dev_pairs} if self.data.dev is not None else {}
        for name, files in self.data.test.items():
            pairs = read_pairs(files, columns=self.data.columns, on_bad_line=self.data.on_bad_line)
            self._sets[name] = list(self._check.held_out(name, pairs))
        return self.train.copied(self.folder, lambda pairs: self._count(self._check.train(pairs), facts))

    def _count(self, pairs: Iterable[SentencePair], facts: FactsCounter) -> Iterator[SentencePair]:
        """Of synthetic pairs and of text that is rehearsed, the recipe counts as many as an epoch has: a network learns from
        them as from others, and more of them shall not make it too large or the training too long for the others."""
        corpora = self.train.data.corpora
        shares = [1.0 if one.hold_out and not one.synthetic else min(1.0, one.weight) for one in corpora]
        for n_before, pair in enumerate(pairs):
            corpus = corpus_of(pair.line)
            share = shares[corpus]
            self.n_of_epoch[corpora[corpus].synthetic] += corpora[corpus].weight
            self._description.count(pair)
            if not corpora[corpus].synthetic:
                count_characters(self._signs, pair)
            if int(share * (n_before + 1)) > int(share * n_before):
                facts.add(pair.src, pair.tgt)
            yield pair

    def select(self, parent: RunDir | None) -> Report:
        """Writes what is held out, and what else is not trained on, into the run. Raises DataError for what is wrong with
        any of the sets."""
        self._check.finish()
        train, sets = self.train, self.folder.sets
        if train.words is not None:
            self._check.warn_of_words(train.words.read())
        report = look_through(train.data, ReadCorpus(train.pairs, self._sets, self._signs, parent is not None))
        sets.forget()  # what a start wrote that broke off
        spellings = self._spellings(report, parent)
        if self.data.dev is None:
            others = [other for other in (parent, reverse_run(self.config, self.folder)) if other is not None]
            found = ((held_out_of(other, self.config), other.path) for other in others)
            inherited, heir_of = next(((pairs, path) for pairs, path in found if pairs), ({}, None))
            known = set[int]()
            if parent is not None and not inherited:
                known = known_pairs(parent, self.config)
                if known and _share(known, train) > _ITS_CORPUS:
                    inherited, heir_of, known = named_sets_of(parent, self.config), parent.path, set()
            hold_out(self.config, sets, train.pairs, report, inherited, spellings, heir_of, known)
            self.dev_pairs = list(self.dev.read())
        elif self.data.clean:
            leave_out_faulty(sets, train.pairs, report)
        if any(spellings):
            respell(sets, spellings)
        self.settle()
        if any(spellings):
            self._description.count_again(self.train.pairs())
        return report

    def _spellings(self, report: Report, parent: RunDir | None) -> Spellings:
        """Those of the run that this one begins with, if it has learnt these languages, as its tokenizer knows no other signs;
        else those of the dev set."""
        if self.data.spelling == "own":
            return AS_IT_IS
        learnt = spellings_of(parent, self.config) if parent is not None else None
        return report.spellings if learnt is None else learnt

    def keep_report(self, report: Report) -> None:
        tell_findings(report, self.suffix.strip())
        write_text(self.folder.sets.check_file, report.as_json() + "\n")

    def settle(self) -> None:
        """Reads the training text from now on as the first start has settled it."""
        sets = self.folder.sets
        self.train.respell(sets.spellings())
        self.train.leave_out(sets.left_out_lines(), sets.held_out_pairs(self.data) if self.data.dev is None else {})

    # Ids -------------------------------------------------------------------------------------------------------------

    def build(self, tokenizer: Tokenizer, keeps_edge_spaces: bool) -> tuple[Mixture, list[CorpusProfile]]:
        """The ids of the training pairs, and their description in each direction that is learnt."""
        self._description.begin()
        mixture = self.train.build(self.folder, tokenizer, self._description.note)
        spellings = self.folder.sets.spellings()
        return mixture, self._description.profiles(self.train.without_words(mixture), keeps_edge_spaces, spellings)

    def save_profiles(self, profiles: list[CorpusProfile]) -> None:
        for number, profile in enumerate(profiles):
            self.folder.text.save_profile(profile, is_back=number == 1)

    def load_or_build(self, tokenizer: Tokenizer, keeps_edge_spaces: bool) -> tuple[Mixture, CorpusProfile]:
        """What an earlier start made, as far as it is whole."""
        self.settle()
        kept = [self.folder.text.load_profile(is_back) for is_back in (False, True)[: self._description.n]]
        if kept[0] is not None and kept[-1] is not None:
            return self.train.open_or_build(self.folder, tokenizer), kept[0]
        for pair in self.train.pairs():  # deleted, or the run began before profiles were kept
            self._description.count(pair)
        mixture, profiles = self.build(tokenizer, keeps_edge_spaces)
        self.save_profiles(profiles)
        return mixture, profiles[0]

    def dev_dataset(self, tokenizer: Tokenizer) -> Mixture:
        dev, pairs = self.dev, self.dev_pairs
        dataset = dev.open(self.folder, tokenizer)
        if dataset is None:
            dataset = dev.build(self.folder, tokenizer, pairs)
            if 0 < len(dataset) < len(pairs):
                log.info(
                    f"dev{self.suffix}: the loss is that of these {len(dataset):,} pairs, BLEU and chrF are those of"
                    f" {len(pairs):,}"
                )
        dev.refuse_empty(dataset)
        return Mixture([Part(dataset, src_tags=tokenizer.tags_for(self.data.tgt_lang))])


def _share(known: set[int], train: TrainingSet) -> float:
    """Of the training pairs, without those of another run that are rehearsed."""
    is_own = [corpus.hold_out for corpus in train.data.corpora]
    n_own, n_known = 0, 0
    for pair in train.pairs():
        if is_own[corpus_of(pair.line)]:
            n_own, n_known = n_own + 1, n_known + (hash(pair[:2]) in known)
    return n_known / max(1, n_own)


class _Description:
    """Describes the sources of a text, and the targets too where they are sources of the way back."""

    def __init__(self, both_ways: bool):
        self.n = 2 if both_ways else 1
        self._counters = [AbbreviationCounter() for _ in range(self.n)]
        self._builders = list[ProfileBuilder]()

    def count_again(self, pairs: Iterable[SentencePair]) -> None:
        """What was counted before has been in another spelling."""
        self._counters = [AbbreviationCounter() for _ in range(self.n)]
        for pair in pairs:
            self.count(pair)

    def count(self, pair: SentencePair) -> None:
        """To be called with all pairs."""
        for counter, text in zip(self._counters, (pair.src, pair.tgt), strict=False):
            counter.add(text)

    def begin(self) -> None:
        self._builders = [ProfileBuilder(counter.abbreviations()) for counter in self._counters]

    def note(self, pair: SentencePair) -> None:
        """To be called with the pairs that are trained on, once `begin` was."""
        for builder, text in zip(self._builders, (pair.src, pair.tgt), strict=False):
            builder.add(text)

    def profiles(self, mixture: Mixture, keeps_edge_spaces: bool, spellings: Spellings) -> list[CorpusProfile]:
        ways = (mixture, mixture.backwards())
        described = zip(self._builders, ways[: self.n], spellings, strict=False)
        return [builder.profile(*_lengths(way), keeps_edge_spaces, spelling) for builder, way, spelling in described]


_MOST_LENGTHS = 1_000_000  # pairs: bounds memory


def _lengths(mixture: Mixture) -> tuple[Lengths, Lengths, int]:
    """The lengths of sources and targets, of a large corpus those of pairs that are spread over it, and the length of the
    longest source of all."""
    n = len(mixture)
    longest = max(
        int(mixture.lengths(first, min(n, first + _MOST_LENGTHS))[0].max()) for first in range(0, n, _MOST_LENGTHS)
    )
    return *mixture.lengths_of(range(0, n, -(-n // _MOST_LENGTHS))), longest
