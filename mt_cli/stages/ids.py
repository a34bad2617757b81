"""The stages of one language pair once there is a tokenizer: its token ids, and what its text is like."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Literal

import numpy as np

from mt_cli.augment.fine_tuning import known_characters
from mt_cli.augment.word_list import word_weight
from mt_cli.data.corpora import TextSet
from mt_cli.data.corpus import CorpusReport, Place, SentencePair
from mt_cli.data.dataset import FILES, Lengths, Mixture, Part, TokenDataset, TokenPair
from mt_cli.data.profile import ProfileBuilder
from mt_cli.data.splitting import AbbreviationCounter
from mt_cli.data.tokenizer import REAL, SYNTHETIC, Tokenizer
from mt_cli.errors import DataError
from mt_cli.files import cannot_write, write_text
from mt_cli.run.manifest import Made
from mt_cli.stages.pair import PairStages
from mt_cli.training.state import PreparedPair

log = logging.getLogger(__name__)

_MOST_LENGTHS = 1_000_000  # pairs whose lengths are described: bounds memory
_CHUNK_SIZE = 10_000  # pairs that are encoded at once, by several threads


class IdStages:
    def __init__(self, pair: PairStages, tokenizer: Tokenizer):
        self._pair, self._tokenizer, self.text = pair, tokenizer, pair.text
        self.data, self.files, self.suffix = pair.data, pair.files, pair.suffix

    def ids(self) -> Mixture:
        """The token ids of the text and of the list of words."""
        datasets = [self._dataset(one) for one in self._pair.trained_sets]
        names = [""] if len(self.text.sets) == 1 else self.text.text.corpus_names
        tags, back_tags = self._tokenizer.tags_for(self.data.tgt_lang), self._tokenizer.tags_for(self.data.src_lang)
        real_tags, synthetic_tags = self._marked(tags)
        parts = [
            Part(dataset, one.weight, name, synthetic_tags if one.synthetic else real_tags, back_tags, one.synthetic)
            for one, dataset, name in zip(self.data.corpora, datasets, names, strict=False)
        ]
        if self.data.words is not None:
            weight = word_weight(self.data.words, datasets[-1], parts)
            parts.append(Part(datasets[-1], weight, self.data.words.files[0], tags, back_tags))
        return Mixture(parts)

    def _dataset(self, one: TextSet) -> TokenDataset:
        folder = self.files.cache / one.name

        def make() -> Made:
            pairs = self.dev_pairs if one.name == "dev" else self.text.spelled(one)
            report = self.text.reports[one.name]  # of reading them, just now or for an earlier stage
            kept = self._encoded(pairs, self._pair.not_trained_on(one), report)
            try:
                dataset = TokenDataset.build(folder, kept, self._tokenizer.vocab_sizes)
            except OSError as error:
                raise cannot_write(folder, error) from None
            for line in report.describe(one.label):
                log.info(line)
            if not len(dataset):
                use = "validate" if one.name == "dev" else "train"
                raise DataError(
                    f"{one.files[0]}: no pair is left to {use} on; see data.max_length and the counts above"
                )
            return Made([folder / name for name in FILES])

        products = self._pair.run.manifest.products
        inputs = {
            "text": one.sha256,
            "tokenizer": self._tokenizer.sha256,
            **{stage: products[f"{stage}{self.suffix}"].sha256 for stage in ("spelling", "split")},
        }
        self._pair.product(f"ids {one.name}", inputs, {**one.reading, "max_length": self.data.max_length}, make)
        return TokenDataset.mapped(folder, self._tokenizer.vocab_sizes)

    def _encoded(
        self, pairs: Iterable[SentencePair], left_out: Container[Place], report: CorpusReport
    ) -> Iterator[TokenPair]:
        """The ids of those of `pairs` that are trained on. Counts in `report` those that are left out or too long."""
        tokenizer, data, most = self._tokenizer, self.data, self.data.max_length
        # Each side may be a source; with its tags, it must not be longer than the model can read.
        n_src, n_tgt = (len(tokenizer.tags_for(language)) for language in (data.tgt_lang, data.src_lang))
        n_src += not tokenizer.tags.keys().isdisjoint({REAL, SYNTHETIC})

        def drop(reason: str) -> None:
            report.n_kept -= 1
            report.dropped[reason] += 1

        def kept() -> Iterator[SentencePair]:
            for pair in pairs:
                if pair.place in left_out:
                    drop("held out or left out")
                else:
                    yield pair

        rest = kept()
        while chunk := list(islice(rest, _CHUNK_SIZE)):
            for pair, (src, tgt) in zip(chunk, tokenizer.encode_pairs([pair[:2] for pair in chunk]), strict=True):
                if len(src) <= most - n_src and len(tgt) <= most - n_tgt:
                    yield TokenPair(src, tgt, pair.line)
                else:
                    drop(f"longer than {most} tokens")

    def _marked(self, tags: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tags of sources that people wrote, and of synthetic ones: a further one tells the two apart."""
        real, synthetic = self._tokenizer.tags.get(REAL), self._tokenizer.tags.get(SYNTHETIC)
        if not any(corpus.synthetic for corpus in self.data.corpora):
            return tags, tags
        if real is not None:
            return (*tags, real), tags
        return tags, tags if synthetic is None else (*tags, synthetic)

    def describe(self, mixture: Mixture) -> None:
        """What the text is like, in each direction that is learnt for good: `corpus.json`, `corpus.back.json`."""
        text = Mixture(mixture.parts[: len(self.text.sets)])
        ways: list[tuple[Mixture, Literal[0, 1]]] = [(text, 0), (text.backwards(), 1)]
        ways = ways if self._pair.is_both_ways else ways[:1]

        def make() -> Made:
            counters = [AbbreviationCounter() for _ in ways]
            for pair in self._pairs():
                for counter, (_, side) in zip(counters, ways, strict=True):
                    counter.add(pair[side])
            builders, files = [ProfileBuilder(counter.abbreviations()) for counter in counters], []
            for pair in self._kept_pairs(text):
                for builder, (_, side) in zip(builders, ways, strict=True):
                    builder.add(pair[side])
            for builder, (way, side) in zip(builders, ways, strict=True):
                files.append(self.files.profile_file(is_reverse=side == 1))
                language = (self.data.src_lang, self.data.tgt_lang)[side]
                profile = builder.profile(*_lengths(way), self.files.spellings()[side])
                profile = profile.knowing(known_characters(self._pair.parent, language))
                write_text(files[-1], profile.model_dump_json(indent=2) + "\n")
            return Made(files)

        products = self._pair.run.manifest.products
        inputs = {one.name: products[f"ids {one.name}{self.suffix}"].sha256 for one in self.text.sets}
        self._pair.product(
            "statistics", {**inputs, **self._pair.of_runs}, {"both_directions": self._pair.is_both_ways}, make
        )

    def _kept_pairs(self, mixture: Mixture) -> Iterator[SentencePair]:
        """Those whose ids are in the mixture, in the order of both."""
        for one, part in zip(self.text.sets, mixture.parts, strict=True):
            lines = map(part.dataset.line, range(len(part.dataset)))
            wanted = next(lines, None)
            for pair in self.text.spelled(one):
                if pair.line == wanted:
                    wanted = next(lines, None)
                    yield pair

    def _pairs(self) -> Iterator[SentencePair]:
        """All pairs, the list of words apart, in the spelling of the training."""
        return chain.from_iterable(map(self.text.spelled, self.text.sets))

    @cached_property
    def dev(self) -> TextSet:
        return self.text.dev or TextSet.dev(self.data, self.files.dev_files(), self.suffix)

    @cached_property
    def dev_pairs(self) -> list[SentencePair]:
        return self.text.pairs_of_dev(self.dev)

    def prepared(self) -> PreparedPair:
        # With no-break spaces only where translations can have them, so that samples show the same.
        pairs = [pair._replace(tgt=self._tokenizer.normalize_tgt(pair.tgt)) for pair in self.dev_pairs]
        dataset, profile = self._dataset(self.dev), self.files.load_profile()
        assert profile is not None
        if len(dataset) < len(pairs):
            log.info(
                f"dev{self.suffix}: the loss is that of {len(dataset):,} pairs, BLEU and chrF are those of {len(pairs):,}"
            )
        dev = Mixture([Part(dataset, src_tags=self._tokenizer.tags_for(self.data.tgt_lang))])
        return PreparedPair(self.data, profile, dev, pairs)


def _lengths(mixture: Mixture) -> tuple[Lengths, Lengths, int]:
    """The lengths of sources and targets, of a large corpus those of pairs that are spread over it, and the length of the
    longest source of all."""
    n = len(mixture)
    chunks = (np.arange(first, min(n, first + _MOST_LENGTHS)) for first in range(0, n, _MOST_LENGTHS))
    longest = max(int(mixture.lengths(chunk)[0].max()) for chunk in chunks)
    return *mixture.lengths(np.arange(0, n, -(-n // _MOST_LENGTHS))), longest
