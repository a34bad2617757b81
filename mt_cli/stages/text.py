"""The text of one language pair, read once: a copy of its normalized pairs, and what is counted meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import cached_property
from itertools import chain
from pathlib import Path

from mt_cli.augment.word_list import warn_if_exchanged
from mt_cli.checking.sets import SetsCheck
from mt_cli.data.corpora import TextSet, TrainingText, joined_sha256
from mt_cli.data.corpus import CorpusReport, SentencePair, read_copy, read_pairs, sha256_of, write_copy
from mt_cli.data.spelling import CharacterCounter, count_characters, respelled
from mt_cli.files import cannot_write
from mt_cli.recipe import FactsCounter
from mt_cli.run.run_dir import PairFiles


class PairText:
    def __init__(self, files: PairFiles, facts: FactsCounter):
        """`facts`: gets what the recipe is to know of the text."""
        self.files, self._facts, self.data = files, facts, files.training_data()
        self.text = TrainingText(self.data, files.suffix)
        self.sets = self.text.sets
        self.words = TextSet.of_words(self.data)
        self.dev = None if self.data.dev is None else TextSet.dev(self.data, self.data.dev, files.suffix)
        self.n_of_epoch = {False: 0.0, True: 0.0}  # pairs, by whether they are synthetic; counted by `read`
        self.characters = CharacterCounter(), CharacterCounter()  # of what no machine translated; likewise
        self.reports = defaultdict[str, CorpusReport](CorpusReport)  # by set, of what was read
        self._check, self._open = SetsCheck(self.text.format_place), ExitStack()

    @cached_property
    def inputs(self) -> dict[str, str | None]:
        """The files of the pair. Where no dev set is named, it is cut from the training text."""
        found: dict[str, str | None] = {f"train{self.files.suffix}": joined_sha256([one.sha256 for one in self.sets])}
        if self.data.dev is not None:
            found[f"dev{self.files.suffix}"] = sha256_of(self.data.dev)
        if self.words is not None:
            found[f"words{self.files.suffix}"] = self.words.sha256
        return found

    def close(self) -> None:
        """Deletes the copy."""
        self._open.close()

    def read(self) -> None:
        """Reads all sets, unless that was done. Raises DataError for what is wrong with any of them."""
        self.held_out, self._copies  # noqa: B018

    def pairs(self) -> Iterator[SentencePair]:
        """All pairs as they are written."""
        self.read()
        return chain.from_iterable(map(read_copy, self._copies.values()))

    def spelled(self, one: TextSet) -> Iterator[SentencePair]:
        """All pairs of a set in the spelling of the training."""
        self.read()
        pairs = read_copy(self._copies[one.name]) if one.name in self._copies else self.read_set(one)
        spellings = self.files.spellings()
        return respelled(pairs, spellings) if any(spellings) else pairs

    def pairs_of_dev(self, dev: TextSet) -> list[SentencePair]:
        """The pairs of the dev set, which may have been cut from the text. They are not read again."""
        is_read = dev is self.dev and "held_out" in vars(self)
        return self.held_out["dev"] if is_read else list(self.read_set(dev))

    def read_set(self, one: TextSet) -> Iterator[SentencePair]:
        self.reports[one.name] = CorpusReport()
        return one.read(self.reports[one.name])

    @cached_property
    def held_out(self) -> dict[str, list[SentencePair]]:
        """The dev and test sets that are named."""
        named = {**({"dev": self.data.dev} if self.data.dev is not None else {}), **self.data.test}
        columns, on_bad_line = self.data.columns, self.data.on_bad_line
        sets = {
            name: read_pairs(files, columns=columns, on_bad_line=on_bad_line, report=self.reports[name])
            for name, files in named.items()
        }
        return {name: list(self._check.held_out(name, pairs)) for name, pairs in sets.items()}

    @cached_property
    def _copies(self) -> dict[str, Path]:
        """The normalized pairs of each corpus in a temporary file. Raises DataError for what is wrong with any of the sets."""
        copies = {one.name: self.files.cache / f"{one.name}.txt" for one in self.sets}
        try:
            self.files.cache.mkdir(parents=True, exist_ok=True)
            for one in self.sets:
                copies[one.name].unlink(missing_ok=True)  # of a process that was killed
                self._open.callback(_delete, copies[one.name])
                write_copy(self._counted(self._check.train(self.read_set(one))), copies[one.name])
        except OSError as error:
            raise cannot_write(self.files.cache, error) from None
        self._check.finish()
        if self.words is not None and self.data.words is not None:
            entries = list(self.words.read())
            self._check.warn_of_words(entries)
            text = (pair for one in self.sets for pair in read_copy(copies[one.name]))
            warn_if_exchanged(self.data.words, entries, text)
        return copies

    def _counted(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Of synthetic pairs and of text that is rehearsed, the recipe counts as many as an epoch has: a network learns from
        them as from others, and more of them shall not make it too large or the training too long for the others."""
        corpora = self.data.corpora
        shares = [1.0 if one.hold_out and not one.synthetic else min(1.0, one.weight) for one in corpora]
        for n_before, pair in enumerate(pairs):
            corpus = corpora[pair.corpus]
            share = shares[pair.corpus]
            self.n_of_epoch[corpus.synthetic] += corpus.weight
            if not corpus.synthetic:
                count_characters(self.characters, pair)
            if int(share * (n_before + 1)) > int(share * n_before):
                self._facts.add(pair.src, pair.tgt)
            yield pair


def _delete(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)
