"""The sets of a config while they become ids: the dev set, the corpora of the training set, and a list of words. Each of them
is read, verified and built by itself, in a folder of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from mt_cli.config import DataConfig, WordList
from mt_cli.data.corpora import TrainingText, joined_sha256, line_of, placed
from mt_cli.data.corpus import CorpusReport, SentencePair, read_copy, read_pairs, write_copy
from mt_cli.data.dataset import TokenDataset, TokenPair
from mt_cli.data.ids_writer import SHARD_SIZE, IdsWriter
from mt_cli.data.known_hashes import HASHES, known_sha256
from mt_cli.data.mixture import Mixture, Part
from mt_cli.data.spelling import AS_IT_IS, Spellings, respelled
from mt_cli.data.split import repetitions
from mt_cli.data.tokenizer import REAL, SYNTHETIC, Tokenizer
from mt_cli.errors import DataError
from mt_cli.files import cannot_write
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

Note = Callable[[SentencePair], None]


class TokenSet:
    """The dev set, or a corpus of the training set."""

    _columns_option = "--columns"

    def __init__(
        self,
        run: RunDir,
        name: str,
        files: list[str],
        data: DataConfig,
        dedup: bool = False,
        corpus: int = 0,
        told: str = "",
    ):
        """`name`: of its folder in the run. `corpus`: its number. `told`: what it is called."""
        self._told = told or name
        self.name, self.files, self._data, self._dedup, self._corpus = name, files, data, dedup, corpus
        self.sha256 = known_sha256(files, run.cache / HASHES)
        self.left_out: Container[int] = ()  # places that are not trained on
        self.spellings = AS_IT_IS
        self.report = CorpusReport()  # on what was read last
        self._copy: Path | None = None

    def read(self) -> Iterator[SentencePair]:
        """The normalized pairs. Raises DataError after the last one if the files no longer have the hash `sha256`."""
        self.report = CorpusReport()
        pairs = read_pairs(
            self.files,
            columns=self._data.columns,
            on_bad_line=self._data.on_bad_line,
            dedup=self._dedup,
            report=self.report,
            sha256=self.sha256,
        )
        return placed(self._corpus, pairs)

    def copy(self, run: RunDir, pairs: Iterable[SentencePair]) -> None:
        """Writes `pairs`, which come from `read`, into a temporary file beside the ids."""
        self._copy = run.cache / f"{self.name}.txt"
        try:
            run.cache.mkdir(parents=True, exist_ok=True)
            self._copy.unlink(missing_ok=True)  # of a process that was killed
            write_copy(pairs, self._copy)
        except OSError as error:
            raise cannot_write(self._copy, error) from None

    def delete_copy(self) -> None:
        if self._copy is not None:
            with contextlib.suppress(OSError):
                self._copy.unlink(missing_ok=True)
        self._copy = None

    def pairs(self) -> Iterator[SentencePair]:
        """What `read` gives, from the copy while there is one, in the spelling that is trained on."""
        pairs = self.read() if self._copy is None else read_copy(self._copy)
        return respelled(pairs, self.spellings) if any(self.spellings) else pairs

    def open(self, run: RunDir, tokenizer: Tokenizer) -> TokenDataset | None:
        """The ids that an earlier start made of the same text, if they are whole."""
        return TokenDataset.open(run.cache / self.name, tokenizer.vocab_sizes, self._meta(tokenizer))

    def build(
        self, run: RunDir, tokenizer: Tokenizer, pairs: Iterable[SentencePair], note: Note | None = None
    ) -> TokenDataset:
        """The ids of `pairs`, which were read from this set; goes on where a start was killed. Logs what was read, and
        calls `note` with each pair that is kept."""
        folder, meta, rest = run.cache / self.name, self._meta(tokenizer), iter(pairs)
        made_of = {**meta, "left_out": run.sets.left_out_sha256() or "none", "columns": self._data.columns or "found"}
        try:
            with IdsWriter(folder, tokenizer.vocab_sizes, made_of) as writer:
                for number in itertools.count():
                    if not (shard := list(islice(rest, SHARD_SIZE))):
                        break
                    trained_on = [pair for pair in shard if pair.line not in self.left_out]
                    if number == writer.n_shards:
                        writer.write(self._encode(trained_on, tokenizer))
                    self._note(trained_on, writer.lines_of(number), len(shard), note)
                writer.finish(meta)
        except OSError as error:
            raise cannot_write(folder, error) from None
        for line in self.report.describe(self._told):
            log.info(line.replace("--columns", self._columns_option))
        return TokenDataset.mapped(folder, tokenizer.vocab_sizes)

    def _encode(self, pairs: list[SentencePair], tokenizer: Tokenizer) -> list[TokenPair]:
        """The ids of those that are not too long."""
        encoded = zip(pairs, tokenizer.encode_pairs([pair[:2] for pair in pairs]), strict=True)
        most = self._data.max_length
        # Each side may be a source; with its tags, it must not be longer than the model can read.
        n_src, n_tgt = (len(tokenizer.tags_for(one)) for one in (self._data.tgt_lang, self._data.src_lang))
        is_marked = not tokenizer.tags.keys().isdisjoint({REAL, SYNTHETIC})
        most_src, most_tgt = most - n_src - is_marked, most - n_tgt
        return [
            TokenPair(src, tgt, line_of(pair.line))
            for pair, (src, tgt) in encoded
            if len(src) <= most_src and len(tgt) <= most_tgt
        ]

    def _note(self, trained_on: list[SentencePair], written: list[int], n_read: int, note: Note | None) -> None:
        """Counts what is missing among the lines `written` of a shard of `n_read` pairs, and calls `note`
        with the others."""
        lines = set(written)
        for reason, n in (
            ("held out or left out", n_read - len(trained_on)),
            (f"longer than {self._data.max_length} tokens", len(trained_on) - len(written)),
        ):
            self.report.n_kept -= n
            self.report.drop(reason, n)
        if note is not None:
            for pair in trained_on:
                if line_of(pair.line) in lines:
                    note(pair)

    def _meta(self, tokenizer: Tokenizer) -> dict[str, str]:
        return {
            "data": self.sha256,
            "tokenizer": tokenizer.sha256,
            "max_length": str(self._data.max_length),
            "reading": f"dedup {self._dedup}, bad lines {self._data.on_bad_line}",
            **({"spellings": str(self.spellings)} if any(self.spellings) else {}),  # ids of earlier versions have none
        }

    def refuse_empty(self, dataset: TokenDataset) -> None:
        if len(dataset) == 0:
            use = "validate" if self.name == "dev" else "train"
            raise DataError(f"{self.files[0]}: no pair is left to {use} on; see data.max_length and the counts above")


class WordListSet(TokenSet):
    """The entries of a list."""

    _columns_option = "--set data.words.columns=SOURCE,TARGET"

    def __init__(self, run: RunDir, data: DataConfig, words: WordList):
        self._words = words
        own = data.model_copy(update={"columns": words.columns})
        super().__init__(run, "words", words.files, own, dedup=True, corpus=len(data.corpora))

    def warn_if_exchanged(self, text: Iterable[SentencePair]) -> None:
        """Warns of a list whose sources are written with words of the targets of `text`, and the other way round."""
        src_words, tgt_words = set[str](), set[str]()
        for pair in islice(text, _N_LOOKED_AT):
            src_words.update(pair.src.lower().split())
            tgt_words.update(pair.tgt.lower().split())
        n_right, n_wrong = 0, 0
        for pair in islice(self.read(), _N_LOOKED_AT):
            for entry, own, others in ((pair.src, src_words, tgt_words), (pair.tgt, tgt_words, src_words)):
                words = set(entry.lower().split())
                n_right += len(words & own - others)
                n_wrong += len(words & others - own)
        if n_wrong > max(4, 2 * n_right):
            log.warning(
                f"{self.files[0]}: its sources look like targets of the corpus, its targets like sources; exchange the two"
                " columns or files"
            )

    def weight(self, dataset: TokenDataset, texts: Sequence[Part]) -> float:
        """So that the list has its share of an epoch, and no more: words alone end early, and many of them would teach
        sentences to end early, too. A few words are repeated, but not without end."""
        n_text = sum(part.weight * len(part.dataset) for part in texts)
        return min(_MOST_REPEATED, self._words.share / (1 - self._words.share) * n_text / len(dataset))

    def _meta(self, tokenizer: Tokenizer) -> dict[str, str]:
        return {**super()._meta(tokenizer), "columns": str(self._words.columns)}


_N_LOOKED_AT = 100_000  # pairs, and entries
_MOST_REPEATED = 10.0  # times in an epoch


class TrainingSet:
    """The corpora of a config: one text, and one mixture of their ids. A list of words is in the mixture but not in the text:
    nothing of it is held out, and what is usual in the text is learnt without it."""

    def __init__(self, run: RunDir, data: DataConfig, suffix: str = ""):
        """`suffix`: of its name in messages."""
        self.data, self.text = data, TrainingText(data)
        self._is_one = len(self.text.corpora) == 1
        self.sets = [TokenSet(run, "train", self.text.files, data, data.dedup, told=f"train{suffix}")]
        if not self._is_one:
            named = enumerate(zip(self.text.corpora, self.text.corpus_names, strict=True))
            self.sets = [
                TokenSet(run, f"train-{number + 1}", corpus.files, data, data.dedup, number, f"train{suffix} {name}")
                for number, (corpus, name) in named
            ]
        self.words = WordListSet(run, data, data.words) if data.words is not None else None
        self._all_sets = [*self.sets, *([self.words] if self.words is not None else [])]
        self.sha256 = joined_sha256([one.sha256 for one in self.sets])

    @contextlib.contextmanager
    def copied(
        self, run: RunDir, passing: Callable[[Iterator[SentencePair]], Iterator[SentencePair]]
    ) -> Iterator[None]:
        """Reads all pairs through `passing` into temporary files, from which `pairs` then reads."""
        try:
            for one in self.sets:
                one.copy(run, passing(one.read()))
            if self.words is not None:
                self.words.warn_if_exchanged(self.pairs())
            yield
        finally:
            for one in self.sets:
                one.delete_copy()

    def pairs(self) -> Iterator[SentencePair]:
        """The normalized pairs of all corpora."""
        return chain.from_iterable(one.pairs() for one in self.sets)

    def kept_pairs(self) -> Iterator[SentencePair]:
        """Those that are trained on, and the list of words."""
        return (pair for one in self._all_sets for pair in one.pairs() if pair.line not in one.left_out)

    def respell(self, spellings: Spellings) -> None:
        """From now on."""
        for one in self._all_sets:
            one.spellings = spellings

    def leave_out(self, places: Container[int], held_out: dict[str, list[SentencePair]]) -> None:
        """From now on. `held_out`: the sets that were cut from the text, which the list of words shall not repeat."""
        for one in self.sets:
            one.left_out = places
        if self.words is not None:
            self.words.left_out = repetitions(self.words.read, held_out)

    def _marked(self, tags: tuple[int, ...], tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tags of sources that people wrote, and of synthetic ones: a further one tells the two apart."""
        real, synthetic = tokenizer.tag_id(REAL), tokenizer.tag_id(SYNTHETIC)
        if not any(corpus.synthetic for corpus in self.text.corpora):
            return tags, tags
        if real is not None:
            return (*tags, real), tags
        return tags, tags if synthetic is None else (*tags, synthetic)

    def without_words(self, mixture: Mixture) -> Mixture:
        """Of a mixture that was opened or built here, the corpora."""
        return Mixture(mixture.parts[: len(self.sets)])

    def open(self, run: RunDir, tokenizer: Tokenizer) -> Mixture | None:
        """The ids of all corpora, if they are whole."""
        found = [one.open(run, tokenizer) for one in self._all_sets]
        whole = [dataset for dataset in found if dataset is not None]
        return self._mixture(whole, tokenizer) if len(whole) == len(found) else None

    def open_or_build(self, run: RunDir, tokenizer: Tokenizer) -> Mixture:
        """The ids of all corpora, of which those are built that are not whole."""
        found = [one.open(run, tokenizer) for one in self._all_sets]
        return self._mixture(
            [
                dataset if dataset is not None else one.build(run, tokenizer, one.pairs())
                for one, dataset in zip(self._all_sets, found, strict=True)
            ],
            tokenizer,
        )

    def build(self, run: RunDir, tokenizer: Tokenizer, note: Note) -> Mixture:
        """The ids of all. Calls `note` with each pair of the text that is kept."""
        notes = [*(note for _ in self.sets), None]
        built = [one.build(run, tokenizer, one.pairs(), own) for one, own in zip(self._all_sets, notes, strict=False)]
        return self._mixture(built, tokenizer)

    def _mixture(self, datasets: list[TokenDataset], tokenizer: Tokenizer) -> Mixture:
        for one, dataset in zip(self._all_sets, datasets, strict=True):
            one.refuse_empty(dataset)
        names = [""] if self._is_one else self.text.corpus_names
        tags, back_tags = tokenizer.tags_for(self.data.tgt_lang), tokenizer.tags_for(self.data.src_lang)
        real_tags, synthetic_tags = self._marked(tags, tokenizer)
        parts = []
        for corpus, dataset, name in zip(self.text.corpora, datasets, names, strict=False):
            own = synthetic_tags if corpus.synthetic else real_tags
            parts.append(Part(dataset, corpus.weight, name, own, back_tags, corpus.synthetic))
        if self.words is not None:
            weight = self.words.weight(datasets[-1], parts)
            parts.append(Part(datasets[-1], weight, self.words.files[0], tags, back_tags))
        return Mixture(parts)
