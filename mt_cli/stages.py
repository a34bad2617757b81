"""What one language pair goes through before it is trained on. A stage is a function of its text; what it makes is a
product of the run (`run/manifest.py`), made once of what it names. `build.prepare` calls the stages in their order."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, cached_property, partial, reduce
from itertools import chain, filterfalse, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mt_cli.augment.fine_tuning import inputs_of_runs, known_characters, known_pairs, same_pair
from mt_cli.augment.variation import MOST_VARIED, annotated, varied
from mt_cli.checking.check import HeldOut, ReadCorpus, quick_check
from mt_cli.checking.check import check as full_check
from mt_cli.checking.report import Report
from mt_cli.config import Config, DataConfig
from mt_cli.data.corpus import CorpusReport, SentencePair, TextSet, TrainingText, read_copy, write_copy
from mt_cli.data.dataset import FILES, Mixture, TokenDataset, TokenPair
from mt_cli.data.reading import AbbreviationCounter, ProfileBuilder
from mt_cli.data.spelling import AS_IT_IS, count_characters, format_spelling, respelled
from mt_cli.data.split import Split, repetitions
from mt_cli.data.split import split as split_text
from mt_cli.data.tokenizer import REAL, SYNTHETIC, Tokenizer
from mt_cli.decoding.terms import Glossary
from mt_cli.errors import DataError
from mt_cli.files import cannot_write, write_rows, write_text
from mt_cli.recipe import FactsCounter
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir
from mt_cli.training.state import PreparedPair

log = logging.getLogger(__name__)

Change = Callable[[Iterable[SentencePair]], Iterable[SentencePair]]
Encode = Callable[[], Iterator[TokenPair]]
_MOST_CHECKED = 500_000  # pairs: the first start of a large corpus shall not wait long; `mt check` looks at all
_SPLIT_SEED = 1  # not the training's: runs of several seeds are scored on one text
_MOST_REPEATED = 10.0  # times that an epoch has an entry of a list of words
_CHUNK_SIZE = 10_000  # pairs that are encoded at once, by several threads
_MOST_TAGS = 2  # before a source
_MOST_LENGTHS = 1_000_000  # pairs whose lengths are described: bounds memory


class PairText:
    """The text of a language pair, read when a stage first needs it, then from a copy of its normalized pairs."""

    def __init__(
        self, config: Config, data: DataConfig, run: RunDir, facts: FactsCounter, stack: ExitStack,
        parent: RunDir | None, reverse: RunDir | None,
    ):  # fmt: skip
        """`facts`: gets what the recipe is to know. `stack` deletes the copy. `parent`: the run that it begins with;
        `reverse`: the one that translates for it."""
        self.run, self.files = run, run.of_pair(config.data, data)
        self.parent, self.reverse = parent, reverse
        self.data, self.suffix, self.facts = self.files.training_data(), self.files.suffix, facts
        self.config = config.model_copy(update={"data": self.data})  # of this pair alone
        self.training_text = TrainingText(self.data, self.suffix)
        self.sets, self.words = self.training_text.sets, self.training_text.words
        self.own_sets = self.sets[: len(self.data.own.corpora)]  # without those of related languages
        self.training_sets = self.training_text.trained
        hashes = {"train": self.training_text.sha256()}
        if self.data.dev is not None:
            self.dev = self.training_text.named[0]
            hashes["dev"] = self.dev.sha256
        else:
            files = self.files.files_of("held_out", "dev")  # as it is cut from the training text
            self.dev = TextSet("dev", f"dev{self.suffix}", files, None, self.data.on_bad_line)
        if self.words is not None:
            hashes["words"] = self.words.sha256
        self.inputs: dict[str, str | None] = {f"{name}{self.suffix}": sha256 for name, sha256 in hashes.items()}
        self.of_runs = inputs_of_runs(run, parent=parent, reverse=reverse)
        self.made, self.made_with = dict[str, str](), dict[str, Any]()  # hashes and settings of the stages so far
        self._changes, self._stack = list[Change](), stack
        self.n_of_epoch = {False: 0.0, True: 0.0}  # pairs, by whether they are synthetic
        self.characters = Counter[str](), Counter[str]()  # of what no machine translated
        self.reports = defaultdict[str, CorpusReport](CorpusReport)  # by set, of what was read
        self.is_read, self.named_sets = False, dict[str, HeldOut]()  # dev and test sets of the config, once it is read
        self.report: Report | None = None  # once it is checked

    def product(self, stage: str, settings: Mapping[str, Any], make: Callable[[], Made]) -> None:
        """Makes a product once, of the files and of all that the stages before it have made. All later ones depend on it,
        and on these settings."""
        name, inputs = f"{stage}{self.suffix}", {**self.inputs, **self.of_runs, **self.made}
        self.made[name] = self.run.manifest.product(name, inputs, {**self.made_with, **settings}, make).sha256
        self.made_with[name] = dict(settings)

    def add_change(self, change: Change) -> None:
        """The training text and the list of words are from now on what `change` gives for their pairs."""
        self._changes.append(change)

    def apply_changes(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        yield from reduce(lambda text, change: change(text), self._changes, pairs)

    @property
    def reading(self) -> dict[str, Any]:
        """The settings that reading and checking depend on."""
        kinds = [(one.synthetic, one.hold_out, one.tgt_lang) for one in self.data.corpora]
        return {"languages": self.data.name, "corpora": kinds, "reading": [one.reading for one in self.sets]}

    def pairs(self, *sets: TextSet) -> Iterator[SentencePair]:
        """The pairs of these sets, or of all, as they are written. Raises DataError for what is wrong with any of them."""
        self.read()
        return chain.from_iterable(read_copy(self._copy_of(text_set)) for text_set in sets or self.sets)

    def training_pairs(self, *sets: TextSet) -> Iterator[SentencePair]:
        """The pairs of these sets as the stages so far have changed them; of all sets where none is given."""
        return self.apply_changes(self.pairs(*sets or self.training_sets))

    def read(self) -> None:
        """Reads all sets, unless that was done: the named ones, then all that is trained on, which is compared with them,
        counted and copied. Raises DataError with the problems of all sets."""
        if self.is_read:
            return
        problems = dict[str, None]()  # each once
        for text_set in self.training_text.named:
            if text_set.name != "dev" and self.run.steps():
                continue  # what a test set has is left out already
            self.named_sets[text_set.name] = HeldOut(text_set.name, list(_readable(self._read(text_set), problems)))
        try:
            self.files.cache.mkdir(parents=True, exist_ok=True)
            for text_set in self.training_sets:
                copy = self._copy_of(text_set)
                copy.unlink(missing_ok=True)  # of a process that was killed
                self._stack.callback(copy.unlink, missing_ok=True)
                write_copy(self._counted(text_set, _readable(self._read(text_set), problems)), copy)
        except OSError as error:
            raise cannot_write(self.files.cache, error) from None
        if problems:
            raise DataError(*problems)
        self.is_read = True

    def _read(self, text_set: TextSet) -> Iterator[SentencePair]:
        self.reports[text_set.name] = CorpusReport()
        return text_set.read(self.reports[text_set.name])

    def _copy_of(self, text_set: TextSet) -> Path:
        return self.files.cache / f"{text_set.name}.txt"

    def _counted(self, text_set: TextSet, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Counts the pairs, and looks for them in the named sets, as they pass. Of synthetic and rehearsed ones the recipe
        counts as many as an epoch has, of words none: else the others got too large a network, and too long a training."""
        corpus = self.data.corpora[text_set.corpus] if text_set is not self.words else None
        share = 1.0 if corpus is None or corpus.is_like_use else min(1.0, corpus.weight)
        for n_before, pair in enumerate(pairs):
            if corpus is not None:
                self.n_of_epoch[corpus.synthetic] += corpus.weight
                if not corpus.synthetic and corpus.tgt_lang is None:
                    count_characters(self.characters, pair)
                if int(share * (n_before + 1)) > int(share * n_before):
                    self.facts.add(pair.src, pair.tgt)
            for held_out in self.named_sets.values() if corpus is None or corpus.is_like_use else ():
                held_out.look_for_pair(pair)
            yield pair

    @cached_property
    def dev_pairs(self) -> list[SentencePair]:
        named = self.named_sets.get("dev") if self.is_read else None
        return named.raw_pairs if named is not None else list(self._read(self.dev))

    def checked(self) -> Report:
        """What the check of the text found: all of it where the corpus is to be cleaned by it, else the quick part."""
        if self.report is None:
            self.read()
            data = self.data.in_language
            # Copies are normalized, which hides text that was decoded wrongly.
            of_copies = lambda: self.pairs(*self.sets[: len(data.corpora)])
            read = TrainingText(data).read_raw if data.clean else of_copies
            corpus = ReadCorpus(read, [*self.named_sets.values()], self.characters, self.parent is not None)
            first = corpus._replace(read_train=lambda: islice(read(), _MOST_CHECKED))
            self.report = full_check(data, corpus) if data.clean else quick_check(data, first)
        return self.report


def _readable(pairs: Iterable[SentencePair], problems: dict[str, None]) -> Iterator[SentencePair]:
    """The pairs up to the first problem, which is added to the others."""
    try:
        yield from pairs
    except DataError as error:
        problems[str(error)] = None


def check(text: PairText) -> None:
    """What is wrong with the corpus: `check.json`."""
    file, settings = text.files.check_file, {"clean": text.data.clean, **text.reading}

    def make() -> Made:
        report = text.checked()
        write_text(file, report.as_json() + "\n")
        return Made([file], {"share_faulty": len(report.dropped) / max(1, report.n_pairs)})

    text.run.manifest.product(f"check{text.suffix}", text.inputs, settings, make)


def spell(text: PairText) -> None:
    """How either side is spelled: as the dev set is, or as the parent has learnt, whose tokenizer knows nothing else."""

    def make() -> Made:
        spellings = AS_IT_IS
        if text.data.spelling == "dev":
            learnt = same_pair(text.parent, text.config)
            spellings = learnt.spellings() if learnt is not None else text.checked().spellings
        for side, spelling in zip(("source", "target"), spellings, strict=True):
            if spelling:
                small = {char: other for char, other in spelling.items() if char == char.lower()}
                log.info(f"trains with {format_spelling(small)} in the {side} (data.spelling)")
        return Made(facts=dict(zip(("src", "tgt"), spellings, strict=True)))

    text.product("spelling", {"spelling": text.data.spelling}, make)
    spellings = text.files.spellings()
    if any(spellings):
        text.add_change(lambda pairs: respelled(pairs, spellings))


def split(text: PairText) -> None:
    """Cuts dev and test sets where the config names none: `held_out/`. And lists what is not trained on: these, what
    resembles them, and what a cleaned corpus lacks: `left_out.tsv`."""
    # A trained run needs no test set: what it has is left out already.
    named = {} if text.run.steps() else {one.name: one.sha256 for one in text.training_text.named}
    settings = {"clean": text.data.clean, "named": named, **text.reading}
    text.product("split", settings, lambda: _hold_out(text))
    left_out = cache(text.files.left_out_places)
    text.add_change(lambda pairs: (pair for pair in pairs if pair.place not in left_out()))


def _hold_out(text: PairText) -> Made:
    faulty, is_cleaned, sets = text.checked().dropped, text.data.clean, dict[str, list[SentencePair]]()
    found, cut_from = Split(), "the corpus"
    read = lambda: (pair for pair in text.pairs() if not is_cleaned or pair.place not in faulty)
    if text.data.dev is None:
        parent, reverse = (same_pair(run, text.config) for run in (text.parent, text.reverse))
        for other in filter(None, (parent, reverse)):
            if not sets and (sets := other.held_out_pairs()):
                found.left_out, cut_from = repetitions(read, sets), str(other.manifest.folder)
        known = known_pairs(parent) if parent is not None and not sets else set()
    if text.data.dev is None and not sets:

        def is_like_use(pair: SentencePair) -> bool:
            return text.data.corpora[pair.corpus].is_like_use and hash(pair[:2]) not in known

        fit, others = (lambda: filter(is_like_use, read())), (lambda: filterfalse(is_like_use, read()))
        found = split_text(fit, _SPLIT_SEED, not text.data.test, faulty, text.training_text.format_place, others)
        sets = {name: [] for name in ("dev", "test") if name in found.held_out.values()}
        for pair in text.pairs():
            if name := found.held_out.get(pair.place):
                sets[name].append(pair)
        changed = {name: enumerate(text.apply_changes(pairs), 1) for name, pairs in sets.items()}
        sets = {name: [pair._replace(line=n) for n, pair in pairs] for name, pairs in changed.items()}  # of held_out/
    given = {" ".join(corpus.files) for corpus in text.files.pair.corpora if not corpus.is_like_use}
    unlike = [text_set for text_set in text.sets if " ".join(text_set.files) in given]
    named = {name: held_out.pairs for name, held_out in text.named_sets.items()}
    if (words := text.words) is not None:
        found.left_out |= repetitions(lambda: text.pairs(words), sets | named)
    if unlike and named:
        # A verse of the dev set, beside its translation into a related language, gives it away.
        found.left_out |= (given_away := repetitions(lambda: text.pairs(*unlike), named))
        if given_away:
            first = f", first {text.training_text.format_place(min(given_away))}, which {given_away[min(given_away)]}"
            log.info(f"not trained on, since a named set has them: {len(given_away):,} pairs{first}")

    def left_out() -> Iterator[tuple[str, SentencePair]]:
        for pair in text.pairs(*text.training_sets):
            if reason := found.held_out.get(pair.place) or found.left_out.get(pair.place):
                yield reason, pair
            elif is_cleaned and (kind := faulty.get(pair.place)):
                yield kind.replace("_", " "), pair

    files = [text.files.left_out_file]
    write_rows(files[0], text.training_text.table(left_out()))
    if sets:
        for name, pairs in sets.items():
            for side, file in enumerate(map(Path, text.files.files_of("held_out", name))):
                write_text(file, "".join(f"{pair[side]}\n" for pair in pairs))
                files.append(file)
        sizes = " and ".join(f"{len(pairs):,} as {name} set" for name, pairs in sets.items())
        n_similar = len(found.left_out) if found.held_out else 0
        similar = f"; {n_similar:,} more are not trained on, since they resemble these" if n_similar else ""
        groups = ", whole groups of near repetitions," if found.way == "in groups" else ""
        log.info(f"held out {sizes}{groups} from {cut_from}{similar}")
    return Made(files)


def log_findings(text: PairText) -> None:
    """Logs what changes a training, where it was checked just now; `mt check` shows all of it."""
    lines = list(text.report.in_brief()) if text.report is not None else []
    for severity, line in lines:
        log.log(logging.WARNING if severity == "fatal" else logging.INFO, f"found in{text.suffix} {line}")
    if lines:
        log.info("  (mt check says more of what was found, and what to do)")


def ids(text: PairText, tokenizer: Tokenizer) -> Mixture:
    """The token ids of text and word list. A further tag before sources tells synthetic from real ones."""
    data, marks_real = text.data, REAL in tokenizer.tags
    tags, back_tags = tokenizer.tags_for(data.tgt_lang), tokenizer.tags_for(data.src_lang)
    mark = tokenizer.tags.get(REAL if marks_real else SYNTHETIC)
    marked = tags if mark is None or not any(corpus.synthetic for corpus in data.corpora) else (*tags, mark)
    untagged = [_dataset(text, text_set, tokenizer) for text_set in text.training_sets]
    datasets = [replace(dataset, src_tags=tags, back_tags=back_tags) for dataset in untagged]
    parts = list[TokenDataset]()
    for corpus, dataset, name in zip(data.corpora, datasets, text.training_text.corpus_names, strict=False):
        name = name if len(text.sets) > 1 else ""
        own_tags = tags if corpus.synthetic == marks_real else marked
        if corpus.tgt_lang is not None:
            own_tags = tokenizer.tags_for(corpus.tgt_lang)
        how = dict[str, Any](weight=corpus.weight, last_weight=corpus.last_weight, is_synthetic=corpus.synthetic)
        parts.append(replace(dataset, name=name, src_tags=own_tags, **how))
    n_own, of_corpora = len(Mixture(parts[: len(text.own_sets)])), Mixture(parts).n_pairs
    last_weights = [part.weight if part.last_weight is None else part.last_weight for part in parts]
    last_ratio = sum(len(part) * weight for part, weight in zip(parts, last_weights, strict=True)) / of_corpora
    if (words := data.words) is not None:
        # Their share of an epoch and no more: words alone end early, and many would teach sentences to end early, too.
        weight = min(_MOST_REPEATED, words.share / (1 - words.share) * of_corpora / len(datasets[-1]))
        parts.append(replace(datasets[-1], weight=weight, last_weight=last_ratio * weight, name=words.files[0]))

    def with_terms(pairs: list[SentencePair]) -> Iterator[SentencePair]:
        words = text.training_pairs(text.words) if text.words is not None else ()
        return annotated(pairs, Glossary({pair.src: pair.tgt for pair in words}))

    def made_of_text(change: Callable[[list[SentencePair]], Iterable[SentencePair]]) -> Iterator[TokenPair]:
        chosen = list(islice(text.training_pairs(*text.own_sets), 0, None, -(-n_own // MOST_VARIED)))
        encoded = tokenizer.encode_pairs([pair[:2] for pair in change(chosen)])
        token_pairs = (TokenPair(*sides, line) for line, sides in enumerate(encoded, 1))
        return (made for made in token_pairs if max(map(len, made[:2])) < data.max_length - _MOST_TAGS)

    varies = lambda pairs: varied(pairs, bool(tokenizer.symbol_ids))
    of_text = Mixture(parts).n_pairs  # in an epoch
    for name, share, change in (("varied", data.variation, varies), ("terms", data.terms, with_terms)):
        make = partial(made_of_text, change)
        if share and len(made := _ids(text, name, tokenizer, make)):
            weight = min(1.0, share / (1 - data.variation - data.terms) * of_text / len(made))
            how = dict[str, Any](weight=weight, last_weight=last_ratio * weight, src_tags=tags, is_synthetic=True)
            parts.append(replace(made, name="variations", **how))
    return Mixture(parts)


def _ids(
    text: PairText, name: str, tokenizer: Tokenizer, encode: Encode, text_set: TextSet | None = None
) -> TokenDataset:
    """Of one set, or of all of the text."""
    folder = text.files.cache / name

    def make() -> Made:
        try:
            TokenDataset.build(folder, encode(), tokenizer.vocab_sizes)
        except OSError as error:
            raise cannot_write(folder, error) from None
        return Made([folder / file for file in FILES])

    of_text, settings = (text.inputs, {}) if text_set is None else ({"text": text_set.sha256}, text_set.reading)
    inputs = {**of_text, "tokenizer": tokenizer.sha256, **text.made}
    settings = {**text.made_with, **settings, "max_length": text.data.max_length}
    text.run.manifest.product(f"ids {name}{text.suffix}", inputs, settings, make)
    return TokenDataset.mapped(folder, tokenizer.vocab_sizes)


def _dataset(text: PairText, text_set: TextSet, tokenizer: Tokenizer) -> TokenDataset:
    longest = text.data.max_length
    # Each side may be a source; with its tags, it must not be longer than the model can read.
    most_src = longest - len(tokenizer.tags_for(text.data.tgt_lang)) - bool(tokenizer.tags.keys() & {REAL, SYNTHETIC})
    most_tgt = longest - len(tokenizer.tags_for(text.data.src_lang))

    def encoded() -> Iterator[TokenPair]:
        pairs = iter(text.dev_pairs if text_set.name == "dev" else text.training_pairs(text_set))
        n, n_long = 0, 0
        while chunk := list(islice(pairs, _CHUNK_SIZE)):
            for pair, (src, tgt) in zip(chunk, tokenizer.encode_pairs([pair[:2] for pair in chunk]), strict=True):
                if len(src) <= most_src and len(tgt) <= most_tgt:
                    n += 1
                    yield TokenPair(src, tgt, pair.line)
                else:
                    n_long += 1
        report = text.reports[text_set.name]  # of reading them, just now or for an earlier stage
        left_out = {"held out or left out": report.n_kept - n_long - n, f"longer than {longest} tokens": n_long}
        report.dropped += Counter(left_out)
        report.n_kept = n
        for line in report.describe(text_set.label):
            log.info(line)
        if not n:
            use = "validate" if text_set.name == "dev" else "train"
            found = f"{text_set.files[0]}: no pair is left to {use} on"
            raise DataError(f"{found}; see data.max_length and the counts above")

    return _ids(text, text_set.name, tokenizer, encoded, text_set)


def describe(text: PairText, mixture: Mixture, tokenizer: Tokenizer) -> PreparedPair:
    """What the text is like, in each direction that is learnt for good: `corpus.json`, `corpus.back.json`."""
    own, is_both_ways = Mixture(mixture.parts[: len(text.own_sets)]), text.config.training.both_directions == 1
    ways: list[tuple[Mixture, Literal[0, 1]]] = [(own, 0), (own.backwards(), 1)]
    ways = ways if is_both_ways else ways[:1]
    parts = mixture.parts[: len(text.data.in_language.corpora)]
    n_written = sum(len(part) for part in parts if not part.is_synthetic)

    def make() -> Made:
        files = list[Path]()
        for way, side in ways:
            counter = AbbreviationCounter()
            for pair in text.training_pairs(*text.own_sets):
                counter.add(pair[side])
            known = known_characters(text.parent, (text.data.src_lang, text.data.tgt_lang)[side])
            builder = ProfileBuilder(counter.abbreviations(), known)
            for pair in _kept_pairs(text, own):
                builder.add(*(pair[:2] if side == 0 else pair[1::-1]))
            n = len(way)
            chunks = (np.arange(first, min(n, first + _MOST_LENGTHS)) for first in range(0, n, _MOST_LENGTHS))
            longest = max(int(way.lengths(chunk)[0].max()) for chunk in chunks)
            lengths = way.lengths(np.arange(0, n, -(-n // _MOST_LENGTHS)))  # of pairs from all of the text
            profile = builder.profile(*lengths, longest, text.files.spellings()[side])
            files.append(text.files.profile_file(is_reverse=side == 1))
            write_text(files[-1], profile.model_dump_json(indent=2) + "\n")
        return Made(files, {"n_written": n_written})

    products = text.run.manifest.products
    inputs = {text_set.name: products[f"ids {text_set.name}{text.suffix}"].sha256 for text_set in text.own_sets}
    settings = {"both_directions": is_both_ways, "n_written": n_written}  # which the inputs do not decide
    text.run.manifest.product(f"statistics{text.suffix}", {**inputs, **text.of_runs}, settings, make)
    # With no-break spaces only where translations can have them, so that samples show the same.
    dev_pairs = [pair._replace(tgt=tokenizer.normalize_tgt(pair.tgt)) for pair in text.dev_pairs]
    dataset, profile = _dataset(text, text.dev, tokenizer), text.files.load_profile()
    assert profile is not None
    dev = Mixture([replace(dataset, src_tags=tokenizer.tags_for(text.data.tgt_lang))])
    return PreparedPair(text.data, profile, dev, dev_pairs)


def _kept_pairs(text: PairText, mixture: Mixture) -> Iterator[SentencePair]:
    """Those whose ids are in the mixture, in the order of both."""
    for text_set, part in zip(text.own_sets, mixture.parts, strict=True):
        lines = map(int, part.lines)
        wanted = next(lines, None)
        for pair in text.training_pairs(text_set):
            if pair.line == wanted:
                wanted = next(lines, None)
                yield pair
