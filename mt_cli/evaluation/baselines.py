"""Translations that need no training, to compare a run with: the copied source, one sentence for all, and the most similar
training pair. This file knows text, not tokens."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import CHRF

from mt_cli.data.corpus import SentencePair, TrainingText
from mt_cli.data.normalize import normalize, words
from mt_cli.data.spelling import Respelling, Spelling
from mt_cli.errors import DataError
from mt_cli.run.run_dir import Direction, RunDir

_ABOVE_COPY = 5.0  # chrF; words that both languages share move it by as much
_ABOVE_CONSTANT = 2.5  # chrF; sentences of a dev set in another order have at most 1.7 more, in seven languages
_FEW_DISTINCT = 0.25
_N_SENTENCES, _N_CONSTANTS = 100, 4  # that are tried, so that each validation can afford it


@dataclass(frozen=True)
class Judgement:
    """How the translations of a dev set compare with what can be said without reading the sources."""

    chrf: float
    copied_chrf: float  # of the sources, taken as translations
    constant_chrf: float  # of one of the translations, taken for all sentences
    distinct: float  # different translations, as a share of the different references

    @property
    def has_learnt(self) -> bool:
        """Whether a model that translates so has learnt to translate at all."""
        least = max(self.copied_chrf + _ABOVE_COPY, self.constant_chrf + _ABOVE_CONSTANT)
        return self.chrf >= least and self.distinct >= _FEW_DISTINCT

    def __str__(self) -> str:
        few = f", and {self.distinct:.0%} of the translations are different" if self.distinct < _FEW_DISTINCT else ""
        return (
            f"dev chrF {self.chrf:.1f}, copying the source has {self.copied_chrf:.1f},"
            f" the same sentence for all {self.constant_chrf:.1f}{few}"
        )


def judge(outputs: Sequence[str], references: Sequence[str], sources: Sequence[str], chrf: float) -> Judgement:
    """Compares translations, whose chrF is `chrf`. Translations of the same words are not different."""
    sample = references[:: -(-len(references) // _N_SENTENCES)]
    metric = CHRF(references=[sample])
    [(frequent, _)] = Counter(outputs).most_common(1)
    constants = dict.fromkeys([frequent, *outputs[:: -(-len(outputs) // (_N_CONSTANTS - 1))]])
    constant_chrf = max(metric.corpus_score([constant] * len(sample), None).score for constant in constants)
    distinct, expected = (len({frozenset(words(line)) for line in lines}) for lines in (outputs, references))
    copied_chrf = _copied_chrf(tuple(sources), tuple(references))
    return Judgement(chrf, copied_chrf, constant_chrf, min(1.0, distinct / expected))


@lru_cache(maxsize=16)  # of each language pair; it is the same at each validation
def _copied_chrf(sources: tuple[str, ...], references: tuple[str, ...]) -> float:
    return CHRF().corpus_score(sources, [references]).score


_ORDERS = (2, 3)  # bigrams find more in Chinese, trigrams more in alphabets; with 4 no corpus that was tried gained
_MAX_SEARCHED = 5_000_000  # characters of different sources: up to 500 MB, and 10 ms for a search
_MAX_CHARACTERS = 1_000  # of a sentence that are looked at


class TranslationMemory:
    """Translates by the most similar sentence: the highest cosine of TF-IDF weights of character bigrams and trigrams."""

    def __init__(self, pairs: Iterable[SentencePair], sources: Sequence[str] = (), spelling: Spelling | None = None):
        """Keeps the first translation of sentences of 5,000,000 characters, and of `sources`. `spelling`: of the pairs."""
        self._respell = Respelling(spelling or {})
        wanted = {self._respell(normalize(source)) for source in sources}
        self._equal, sample, n_characters = dict[str, str](), dict[str, str](), 0
        for pair in pairs:
            if pair.src in wanted:
                self._equal.setdefault(pair.src, pair.tgt)
            if n_characters < _MAX_SEARCHED and pair.src not in sample:
                sample[pair.src] = pair.tgt
                n_characters += len(pair.src[:_MAX_CHARACTERS])
        self._targets = list(sample.values())

        # For each n-gram the sentences that have it, with its weight in each of them.
        keys, self._holders, counts = _count(list(sample))
        grams, begins, n_holders = np.unique(keys, return_index=True, return_counts=True)
        self._grams = np.append(grams, np.uint64(2**64 - 1))  # no n-gram, so that each place to insert one is in it
        self._starts = np.append(begins, len(keys))
        self._idf = np.log((1 + len(sample)) / n_holders)  # above 0 even for an n-gram that all sentences have
        weights = counts * np.repeat(self._idf, n_holders)
        lengths = np.sqrt(np.bincount(self._holders, weights**2, minlength=len(sample)))
        self._weights = weights / lengths[self._holders]

    def translate(self, source: str) -> str:
        """'' for a blank source, and where no sentence has an n-gram of it."""
        source = self._respell(normalize(source))
        if source in self._equal:
            return self._equal[source]
        keys, _, counts = _count([source])
        places = np.searchsorted(self._grams, keys)
        is_known = self._grams[places] == keys
        places, counts = places[is_known], counts[is_known]
        if not len(places):
            return ""
        begins, ends = self._starts[places], self._starts[places + 1]
        found = np.concatenate([np.arange(*one) for one in zip(begins, ends, strict=True)])
        weights = self._weights[found] * np.repeat(counts * self._idf[places], ends - begins)
        return self._targets[int(np.bincount(self._holders[found], weights).argmax())]


def memory_of(run: RunDir, direction: Direction, sources: Sequence[str]) -> TranslationMemory:
    """The memory of the pairs that the run is trained on. Raises DataError when their files are missing."""
    text, files = TrainingText(direction.pair.own), run.of_pair(run.load_config().data, direction.pair)
    if missing := [path for path in text.files if not Path(path).exists()]:
        what = f"it is data.train of {run.config_file}, relative to where mt is started"
        raise DataError(f"{missing[0]}: no such file; {what}; go there, or leave out --baselines")
    pairs = files.training_pairs(text.read())
    if direction.is_reverse:
        pairs = (pair._replace(src=pair.tgt, tgt=pair.src) for pair in pairs)
    return TranslationMemory(pairs, sources, files.spellings()[direction.is_reverse])


def _count(sentences: list[str]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """For each n-gram of each sentence: its key, the number of the sentence, and how often it has it; sorted by these."""
    texts = [f" {sentence[:_MAX_CHARACTERS].casefold()} " if sentence else "" for sentence in sentences]
    characters = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32).astype(np.uint64)
    owners = np.repeat(np.arange(len(texts), dtype=np.int32), [len(text) for text in texts])
    keys_of, owners_of = [], []
    for n in _ORDERS:
        n_windows = max(0, len(characters) - n + 1)
        keys = np.zeros(n_windows, np.uint64)
        for i in range(n):
            keys = keys << np.uint64(21) | characters[i : i + n_windows]  # no character takes more than 21 bits
        is_inside = owners[:n_windows] == owners[len(owners) - n_windows :]
        keys_of.append(keys[is_inside])
        owners_of.append(owners[:n_windows][is_inside])
    keys, owners = np.concatenate(keys_of), np.concatenate(owners_of)
    order = np.argsort(keys, kind="stable")  # owners ascend already
    keys, owners = keys[order], owners[order]
    is_first = np.ones(len(keys), np.bool_)
    is_first[1:] = (keys[1:] != keys[:-1]) | (owners[1:] != owners[:-1])
    firsts = np.flatnonzero(is_first)
    return keys[firsts], owners[firsts], np.diff(np.append(firsts, len(keys)))
