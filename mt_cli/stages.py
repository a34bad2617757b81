"""The stages that one language pair goes through before it is trained on: check, spelling, split, ids, statistics.

Each stage makes a product of the run (`run/manifest.py`) from inputs that it names, so it is skipped where the product is
there and whole. What a stage has to read, it reads from a copy of the normalized text that is made when it is first needed.
`build.py` says in which order they run.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from mt_cli.augment.fine_tuning import (
    held_out_of,
    inputs_of_runs,
    known_characters,
    known_pairs,
    named_sets_of,
    spellings_of,
)
from mt_cli.augment.word_list import warn_if_exchanged, word_weight
from mt_cli.checking.check import ReadCorpus, quick_check
from mt_cli.checking.check import check as full_check
from mt_cli.checking.faults import Kind
from mt_cli.checking.report import Report
from mt_cli.checking.sets import SetsCheck
from mt_cli.config import Config, DataConfig
from mt_cli.data.corpora import TrainingText, corpus_of, joined_sha256
from mt_cli.data.corpus import CorpusReport, SentencePair, read_copy, read_pairs, sha256_of, write_copy
from mt_cli.data.dataset import FILES, TokenDataset
from mt_cli.data.mixture import Lengths, Mixture, Part
from mt_cli.data.profile import ProfileBuilder
from mt_cli.data.spelling import AS_IT_IS, CharacterCounter, count_characters, format_spelling, respelled
from mt_cli.data.split import Split, repetitions, split
from mt_cli.data.splitting import AbbreviationCounter
from mt_cli.data.text_sets import TextSet, encoded
from mt_cli.data.tokenizer import REAL, SYNTHETIC, Tokenizer
from mt_cli.files import cannot_write, write_text
from mt_cli.recipe import FactsCounter
from mt_cli.run.manifest import Made, Product
from mt_cli.run.run_dir import RunDir
from mt_cli.training.prepared import PreparedPair

log = logging.getLogger(__name__)

_SPLIT_SEED = 1  # not the training's: runs of several seeds are scored on one text
_MOST_CHECKED = 500_000  # pairs: the first start of a large corpus shall not wait long; `mt check` looks at all
_SAME_CORPUS = 0.5  # of the pairs are known to the run that this one begins with: so they have one corpus
_MOST_LENGTHS = 1_000_000  # pairs whose lengths are described: bounds memory


class PairStages:
    def __init__(
        self,
        config: Config,
        data: DataConfig,
        run: RunDir,
        facts: FactsCounter,
        parent: RunDir | None,
        reverse: RunDir | None,
    ):
        """`data`: that of the language pair. `facts`: gets what the recipe is to know of the text, when the text is read.
        `parent`: the run that this one begins with; `reverse`: the one that translates for it."""
        self.run, self.files = run, run.of_pair(config.data, data)
        self.config, self._facts = config.model_copy(update={"data": data}), facts
        self._parent, self._reverse, self._is_both_ways = parent, reverse, config.training.both_directions == 1
        self.suffix = self.files.suffix
        self.data = self.files.training_data()
        self.text, self.sets = TrainingText(self.data), TextSet.of_training(self.data, self.suffix)
        self.words = TextSet.of_words(self.data)
        self.n_of_epoch = {False: 0.0, True: 0.0}  # pairs, by whether they are synthetic; counted when the text is read
        self._left_out: Container[int] | None = None
        self._reports = defaultdict[str, CorpusReport](CorpusReport)  # by set, of what was read
        self._open = ExitStack()

    def close(self) -> None:
        """Deletes the copy of the text."""
        self._open.close()

    def _product(
        self, stage: str, inputs: Mapping[str, str | None], settings: Mapping[str, Any], make: Callable[[], Made]
    ) -> Product:
        return self.run.manifest.product(f"{stage}{self.suffix}", inputs, settings, make)

    @cached_property
    def inputs(self) -> dict[str, str | None]:
        """The files of the pair. Where no dev set is named, it is cut from the training text."""
        found: dict[str, str | None] = {f"train{self.suffix}": joined_sha256([one.sha256 for one in self.sets])}
        if self.data.dev is not None:
            found[f"dev{self.suffix}"] = sha256_of(self.data.dev)
        if self.words is not None:
            found[f"words{self.suffix}"] = self.words.sha256
        return found

    @property
    def _of_runs(self) -> dict[str, str | None]:
        """The runs whose sets and spelling are taken over."""
        return inputs_of_runs(self.run, parent=self._parent, reverse=self._reverse)

    # Reading -------------------------------------------------------------------------------------------------------------

    @cached_property
    def _copies(self) -> dict[str, Path]:
        """The normalized pairs of each corpus in a temporary file. Raises DataError for what is wrong with any of the sets."""
        copies = {one.name: self.files.cache / f"{one.name}.txt" for one in self.sets}
        try:
            self.files.cache.mkdir(parents=True, exist_ok=True)
            for one in self.sets:
                copies[one.name].unlink(missing_ok=True)  # of a process that was killed
                self._open.callback(_delete, copies[one.name])
                write_copy(self._counted(self._sets_check.train(self._read(one))), copies[one.name])
        except OSError as error:
            raise cannot_write(self.files.cache, error) from None
        self._sets_check.finish()
        if self.words is not None and self.data.words is not None:
            entries = list(self.words.read())
            self._sets_check.warn_of_words(entries)
            text = (pair for one in self.sets for pair in read_copy(copies[one.name]))
            warn_if_exchanged(self.data.words, entries, text)
        return copies

    @cached_property
    def _sets_check(self) -> SetsCheck:
        return SetsCheck(self.text.told)

    @cached_property
    def _held_out(self) -> dict[str, list[SentencePair]]:
        """The dev and test sets that are named."""
        named = {**({"dev": self.data.dev} if self.data.dev is not None else {}), **self.data.test}
        columns, on_bad_line = self.data.columns, self.data.on_bad_line
        sets = {
            name: read_pairs(files, columns=columns, on_bad_line=on_bad_line, report=self._reports[name])
            for name, files in named.items()
        }
        return {name: list(self._sets_check.held_out(name, pairs)) for name, pairs in sets.items()}

    def _read(self, one: TextSet) -> Iterator[SentencePair]:
        self._reports[one.name] = CorpusReport()
        return one.read(self._reports[one.name])

    def read(self) -> None:
        """Reads all text, unless that was done."""
        self._held_out, self._copies  # noqa: B018

    def _counted(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Of synthetic pairs and of text that is rehearsed, the recipe counts as many as an epoch has: a network learns from
        them as from others, and more of them shall not make it too large or the training too long for the others."""
        corpora = self.data.corpora
        shares = [1.0 if one.hold_out and not one.synthetic else min(1.0, one.weight) for one in corpora]
        for n_before, pair in enumerate(pairs):
            corpus = corpora[corpus_of(pair.line)]
            share = shares[corpus_of(pair.line)]
            self.n_of_epoch[corpus.synthetic] += corpus.weight
            if not corpus.synthetic:
                count_characters(self._characters, pair)
            if int(share * (n_before + 1)) > int(share * n_before):
                self._facts.add(pair.src, pair.tgt)
            yield pair

    @cached_property
    def _characters(self) -> tuple[CharacterCounter, CharacterCounter]:
        return CharacterCounter(), CharacterCounter()

    def _pairs(self) -> Iterator[SentencePair]:
        """All pairs as they are written."""
        self.read()
        return chain.from_iterable(map(read_copy, self._copies.values()))

    def _spelled(self, one: TextSet) -> Iterator[SentencePair]:
        """All pairs of a set in the spelling of the training."""
        self.read()
        pairs = read_copy(self._copies[one.name]) if one.name in self._copies else self._read(one)
        spellings = self.files.spellings()
        return respelled(pairs, spellings) if any(spellings) else pairs

    def _text_pairs(self) -> Iterator[SentencePair]:
        """All pairs, the list of words apart, in the spelling of the training."""
        return chain.from_iterable(map(self._spelled, self.sets))

    # check, spelling, split ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What is wrong with the corpus: `check.json`."""

        def make() -> Made:
            log_findings(self._report, self.suffix.strip())
            write_text(self.files.check_file, self._report.as_json() + "\n")
            return Made([self.files.check_file])

        self._product("check", self.inputs, {"clean": self.data.clean, **self._reading}, make)

    @property
    def _reading(self) -> dict[str, Any]:
        return {key: getattr(self.data, key) for key in ("columns", "on_bad_line", "dedup", "src_lang", "tgt_lang")}

    @cached_property
    def _report(self) -> Report:
        """All of it where the corpus is to be cleaned by it, else the quick part."""
        self.read()
        corpus = ReadCorpus(self._pairs, self._held_out, self._characters, self._parent is not None)
        if self.data.clean:
            return full_check(self.data, corpus)
        return quick_check(self.data, corpus._replace(read_train=lambda: islice(self._pairs(), _MOST_CHECKED)))

    def spell(self) -> None:
        """How either side is spelled: as the dev set is, or as the parent has learnt, whose tokenizer knows no other
        characters."""

        def make() -> Made:
            spellings = AS_IT_IS
            if self.data.spelling == "dev":
                learnt = spellings_of(self._parent, self.config) if self._parent is not None else None
                spellings = self._report.spellings if learnt is None else learnt
            for side, spelling in zip(("source", "target"), spellings, strict=True):
                if spelling:
                    small = {s: o for s, o in spelling.items() if s.lower() == s or s.lower() not in spelling}
                    log.info(f"trains with {format_spelling(small)} in the {side} (data.spelling)")
            return Made(facts=dict(zip(("src", "tgt"), spellings, strict=True)))

        self._product("spelling", {**self.inputs, **self._of_runs}, {"spelling": self.data.spelling}, make)

    def split(self) -> None:
        """Which pairs are not trained on: the sets that are cut from the text, what resembles them, and what a cleaned corpus
        lacks."""
        settings = {"clean": self.data.clean, "test": not self.data.test, **self._reading}
        inputs = {
            **self.inputs,
            **self._of_runs,
            "spelling": self.run.manifest.products[f"spelling{self.suffix}"].sha256,
        }
        self._product("split", inputs, settings, self._split)

    def _split(self) -> Made:
        faulty = {place: reason.replace("_", " ") for place, reason in self._report.dropped}
        cleaned = faulty if self.data.clean else {}
        read_kept = lambda: (pair for pair in self._pairs() if pair.line not in cleaned)  # noqa: E731
        sets, found, n_similar = dict[str, list[SentencePair]](), Split(), 0
        inherited, inherited_from, known = self._inherited()
        if inherited:
            found.left_out = repetitions(read_kept, inherited)
        elif self.data.dev is None:
            is_fit = lambda pair: self._is_like_use(pair) and hash(pair[:2]) not in known  # noqa: E731
            read_fit = lambda: (pair for pair in read_kept() if is_fit(pair))  # noqa: E731
            read_others = lambda: (pair for pair in read_kept() if not is_fit(pair))  # noqa: E731
            found = split(read_fit, _SPLIT_SEED, True, not self.data.test, faulty, self.text.told, read_others)
            sets = {name: [] for name in ("dev", "test") if name in found.held_out.values()}
        own = {pair[:2] for pairs in inherited.values() for pair in pairs}  # they resemble themselves

        def left_out() -> Iterator[tuple[str, SentencePair]]:
            for pair in self._pairs():
                if reason := found.held_out.get(pair.line) or found.left_out.get(pair.line) or cleaned.get(pair.line):
                    yield reason, pair

        files = [self.files.save_left_out(self.text, left_out())]
        for pair in self._pairs():
            if name := found.held_out.get(pair.line):
                sets[name].append(pair)
            n_similar += pair.line in found.left_out and pair[:2] not in own
        sets = inherited or {name: list(respelled(pairs, self.files.spellings())) for name, pairs in sets.items()}
        if sets:
            files += self.files.save_held_out(sets)
            sizes = " and ".join(f"{len(pairs):,} as {name} set" for name, pairs in sets.items())
            similar = f"; {n_similar:,} more are not trained on, since they resemble these" if n_similar else ""
            log.info(f"held out {sizes} from {inherited_from or 'the corpus'}{similar}")
        return Made(files)

    def _is_like_use(self, pair: SentencePair) -> bool:
        corpus = self.data.corpora[corpus_of(pair.line)]
        return corpus.hold_out and not corpus.synthetic  # whose sources nobody wrote

    def _inherited(self) -> tuple[dict[str, list[SentencePair]], Path | None, set[int]]:
        """The sets of a run that this one begins with, and that run; or hashes of the pairs that it was trained on, which are
        held out for no set."""
        if self.data.dev is not None:
            return {}, None, set()
        for other in (self._parent, self._reverse):
            if other is not None and (sets := held_out_of(other, self.config)):
                return sets, other.path, set()
        if self._parent is None:
            return {}, None, set()
        known, n_own, n_known = known_pairs(self._parent, self.config), 0, 0
        for pair in self._pairs() if known else ():
            if self.data.corpora[corpus_of(pair.line)].hold_out:
                n_own, n_known = n_own + 1, n_known + (hash(pair[:2]) in known)
        if n_known > _SAME_CORPUS * n_own:
            return named_sets_of(self._parent, self.config), self._parent.path, set()
        return {}, None, known

    @property
    def left_out(self) -> Container[int]:
        """The places of the training text that are not trained on, once it is split."""
        if self._left_out is None:
            self._left_out = self.files.left_out_places()
        return self._left_out

    def _not_trained_on(self, one: TextSet) -> Container[int]:
        """The list of words shall not repeat the sets that were cut from the text."""
        if one is not self.words:
            return () if one.name == "dev" else self.left_out
        return repetitions(one.read, self.files.held_out_pairs()) if self.data.dev is None else ()

    def trained_pairs(self) -> Iterator[SentencePair]:
        """Of the text and the list of words, what is trained on."""
        for one in self._trained_sets:
            left_out = self._not_trained_on(one)
            yield from (pair for pair in self._spelled(one) if pair.line not in left_out)

    @property
    def _trained_sets(self) -> list[TextSet]:
        return [*self.sets, *([self.words] if self.words is not None else [])]

    # ids, statistics -----------------------------------------------------------------------------------------------------

    def ids(self, tokenizer: Tokenizer) -> Mixture:
        """The token ids of the text and of the list of words."""
        datasets = [self._dataset(one, tokenizer) for one in self._trained_sets]
        names = [""] if len(self.sets) == 1 else self.text.corpus_names
        tags, back_tags = tokenizer.tags_for(self.data.tgt_lang), tokenizer.tags_for(self.data.src_lang)
        real_tags, synthetic_tags = self._marked(tags, tokenizer)
        parts = [
            Part(dataset, one.weight, name, synthetic_tags if one.synthetic else real_tags, back_tags, one.synthetic)
            for one, dataset, name in zip(self.data.corpora, datasets, names, strict=False)
        ]
        if self.data.words is not None:
            weight = word_weight(self.data.words, datasets[-1], parts)
            parts.append(Part(datasets[-1], weight, self.data.words.files[0], tags, back_tags))
        return Mixture(parts)

    def _dataset(self, one: TextSet, tokenizer: Tokenizer) -> TokenDataset:
        folder = self.files.cache / one.name

        def make() -> Made:
            pairs = self.dev_pairs if one.name == "dev" else self._spelled(one)
            report = self._reports[one.name]  # of reading them, just now or for an earlier stage
            kept = encoded(pairs, tokenizer, self.data, self._not_trained_on(one), report)
            try:
                dataset = TokenDataset.build(folder, (ids for _, ids in kept), tokenizer.vocab_sizes)
            except OSError as error:
                raise cannot_write(folder, error) from None
            for line in one.describe(report):
                log.info(line)
            one.refuse_empty(len(dataset))
            return Made([folder / name for name in FILES])

        products = self.run.manifest.products
        inputs = {
            "text": one.sha256,
            "tokenizer": tokenizer.sha256,
            **{stage: products[f"{stage}{self.suffix}"].sha256 for stage in ("spelling", "split")},
        }
        self._product(f"ids {one.name}", inputs, {**one.reading, "max_length": self.data.max_length}, make)
        return TokenDataset.mapped(folder, tokenizer.vocab_sizes)

    def _marked(self, tags: tuple[int, ...], tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tags of sources that people wrote, and of synthetic ones: a further one tells the two apart."""
        real, synthetic = tokenizer.tag_id(REAL), tokenizer.tag_id(SYNTHETIC)
        if not any(corpus.synthetic for corpus in self.data.corpora):
            return tags, tags
        if real is not None:
            return (*tags, real), tags
        return tags, tags if synthetic is None else (*tags, synthetic)

    def describe(self, mixture: Mixture) -> None:
        """What the text is like, in each direction that is learnt for good: `corpus.json`, `corpus.back.json`."""
        text = Mixture(mixture.parts[: len(self.sets)])
        ways: list[tuple[Mixture, Literal[0, 1]]] = [(text, 0), (text.backwards(), 1)]
        ways = ways if self._is_both_ways else ways[:1]

        def make() -> Made:
            counters = [AbbreviationCounter() for _ in ways]
            for pair in self._text_pairs():
                for counter, (_, side) in zip(counters, ways, strict=True):
                    counter.add(pair[side])
            builders, files = [ProfileBuilder(counter.abbreviations()) for counter in counters], []
            for pair in self._text_pairs():
                if pair.line not in self.left_out:
                    for builder, (_, side) in zip(builders, ways, strict=True):
                        builder.add(pair[side])
            for builder, (way, side) in zip(builders, ways, strict=True):
                files.append(self.files.profile_file(is_back=side == 1))
                language = (self.data.src_lang, self.data.tgt_lang)[side]
                profile = builder.profile(*_lengths(way), self.files.spellings()[side])
                profile = profile.knowing(known_characters(self._parent, language))
                write_text(files[-1], profile.model_dump_json(indent=2) + "\n")
            return Made(files)

        products = self.run.manifest.products
        inputs = {one.name: products[f"ids {one.name}{self.suffix}"].sha256 for one in self.sets}
        self._product("statistics", {**inputs, **self._of_runs}, {"both_directions": self._is_both_ways}, make)

    # The dev set ---------------------------------------------------------------------------------------------------------

    @cached_property
    def dev(self) -> TextSet:
        return TextSet.dev(self.data, self.files.dev_files(), self.suffix)

    @cached_property
    def dev_pairs(self) -> list[SentencePair]:
        return self._held_out["dev"] if "dev" in vars(self).get("_held_out", {}) else list(self._read(self.dev))

    def prepared(self, tokenizer: Tokenizer) -> PreparedPair:
        # With no-break spaces only where translations can have them, so that samples show the same.
        pairs = [pair._replace(tgt=tokenizer.normalize_tgt(pair.tgt)) for pair in self.dev_pairs]
        dataset, profile = self._dataset(self.dev, tokenizer), self.files.load_profile()
        assert profile is not None
        if len(dataset) < len(pairs):
            log.info(
                f"dev{self.suffix}: the loss is that of {len(dataset):,} pairs, BLEU and chrF are those of {len(pairs):,}"
            )
        dev = Mixture([Part(dataset, src_tags=tokenizer.tags_for(self.data.tgt_lang))])
        return PreparedPair(self.data, profile, dev, pairs)


def log_findings(report: Report, name: str) -> None:
    """Logs what changes a training; `mt check` shows all of it, with lines and advice. `name`: of the language pair, where there
    are several."""
    lines = list(report.in_brief(without=Kind.IN_TRAINING))
    if name and lines:
        log.info(f"{name}:")
    for severity, line in lines:
        if severity == "fatal":
            log.warning(f"{line}; what is trained on it may be worthless, see: mt check")
        else:
            log.info(f"found in {line}")
    if lines:
        log.info("  (mt check tells more of what was found, and what to do)")


def _lengths(mixture: Mixture) -> tuple[Lengths, Lengths, int]:
    """The lengths of sources and targets, of a large corpus those of pairs that are spread over it, and the length of the
    longest source of all."""
    n = len(mixture)
    longest = max(
        int(mixture.lengths(first, min(n, first + _MOST_LENGTHS))[0].max()) for first in range(0, n, _MOST_LENGTHS)
    )
    return *mixture.lengths_of(range(0, n, -(-n // _MOST_LENGTHS))), longest


def _delete(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)
