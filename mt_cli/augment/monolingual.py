"""Which lines of monolingual text are worth being translated back, and which of the pairs that this makes are trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from mt_cli.checking.faults import FaultFinder
from mt_cli.checking.statistics import CorpusStatistics, Sample
from mt_cli.config import DataConfig
from mt_cli.data.corpora import TrainingText
from mt_cli.data.corpus import SentencePair, read_pairs
from mt_cli.data.normalize import normalize
from mt_cli.data.similarity import NearIndex, letters
from mt_cli.data.spelling import Spelling
from mt_cli.data.tokenizer import MAX_PIECE, Tokenizer

_N_REMEMBERED = 1_000_000  # lines of either text; bounds the memory of looking for repetitions at about 120 MB


class Selection:
    """Chooses lines of monolingual text, and then pairs of a line and its translation. Counts what it leaves out."""

    def __init__(self, data: DataConfig, held_out: Iterable[str], tokenizer: Tokenizer | None, spelling: Spelling):
        """`held_out`: the targets of all dev and test sets. `tokenizer`, `spelling`: of the run that translates back, and of what
        it writes. None: lines are not counted in tokens."""
        self._max_length, self._tokenizer = data.max_length, tokenizer
        self.left_out = Counter[str]()  # by the reason
        self.n_trained = 0.0  # pairs of an epoch of the training text
        self._trained, self._src_characters, sample = set[int](), set[str]().union(*spelling.values()), Sample()
        for pair in TrainingText(data).read():
            self.n_trained += data.corpora[pair.corpus].weight
            sample.add(pair)
            self._src_characters.update(pair.src)
            if len(self._trained) < _N_REMEMBERED:
                self._trained.add(hash(normalize(pair.tgt)))
        self._near_held_out = NearIndex([letters(text) for text in held_out])
        self._finder = FaultFinder(CorpusStatistics(sample.pairs), data.src_lang, data.tgt_lang)

    def lines(self, texts: Iterable[str]) -> Iterator[str]:
        """Those of `texts`, normalized, that are to be translated."""
        seen = set[int]()
        for raw in texts:
            text = normalize(raw, keep_no_break_spaces=True)
            plain = normalize(text)
            if reason := self._fault_of_line(raw, plain, seen):
                self.left_out[reason] += 1
                continue
            if len(seen) < _N_REMEMBERED:
                seen.add(hash(plain))
            yield text

    def _fault_of_line(self, raw: str, text: str, seen: set[int]) -> str | None:
        if not text:
            return "blank"
        if len(text) > MAX_PIECE * self._max_length or self._n_tokens(text) > self._max_length:
            return f"longer than {self._max_length} tokens"
        if hash(text) in seen:
            return "repeated"
        if hash(text) in self._trained:
            return "training targets"
        if self._near_held_out.near(letters(text)):
            return "nearly in a dev or test set"
        faults = self._finder.faults_of_characters(SentencePair("", raw, 0))
        return next((kind.replace("_", " ") for kind in faults if kind.is_dropped), None)

    def _n_tokens(self, text: str) -> int:
        return len(self._tokenizer.encode_src(text)) if self._tokenizer is not None else 0

    def pairs(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Those of `pairs`, a translation and its line each, that look like translations of each other."""
        for src, tgt in pairs:
            faults: list[str] = [kind for kind in self._finder.faults(SentencePair(src, tgt, 0)) if kind.is_dropped]
            if not faults and not self._src_characters.issuperset(set(src).difference(tgt)):
                faults = ["of characters that no source has"]  # they would become pieces of the tokenizer
            if faults:
                self.left_out[f"with a translation that is {_PLAIN.get(faults[0], faults[0])}"] += 1
            else:
                yield src, tgt


_PLAIN = {
    "length_ratio": "far too short or too long", "debris": "punctuation alone", "untranslated": "the same as the line",
}  # fmt: skip


def held_out_targets(data: DataConfig, inherited: dict[str, list[SentencePair]]) -> Iterator[str]:
    """The targets of the dev and test sets that a config names, and of those that another run has held out for it."""
    named: Sequence[list[str]] = [*([data.dev] if data.dev is not None else []), *data.test.values()]
    for files in named:
        yield from (pair.tgt for pair in read_pairs(files, columns=data.columns, on_bad_line=data.on_bad_line))
    for pairs in inherited.values():
        yield from (pair.tgt for pair in pairs)
