"""A glossary: which words of a text have a translation of the user's own, and whether a translation has it. A term is
found as it is written, else by a common beginning, which inflected forms share."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mt_cli.config import is_table
from mt_cli.data.corpus import CorpusReport, read_raw_pairs
from mt_cli.data.normalize import EDGES, UNSPACED, normalize
from mt_cli.data.spans import TERM_BEGIN, TERM_END
from mt_cli.data.tokenizer import EOS_ID, UNK_ID, Tokenizer
from mt_cli.decoding.beam import Beams, Finished
from mt_cli.errors import DataError

log = logging.getLogger(__name__)

TERM_OPTIONS = ("glossary", "strict_terms")  # of `Translator.translations`, beside keys of `decoding`
TOKENS = re.compile(rf"[{UNSPACED}\ue000-\uf8ff]|[^\s{UNSPACED}\ue000-\uf8ff{re.escape(EDGES)}]+|\S")
_ANNOTATION = re.compile(f"{TERM_BEGIN}[^{TERM_END}]*{TERM_END}")
# Letters, and the share of the longer word that is common: of the inflected forms in dictionaries of 14 languages 92 % were found
# in English, 89 in German, 75 in French and Russian, 61 in Finnish; 2 % of English words were taken for one of 1,000 others.
_LEAST_COMMON, _MOST_DIFFERING, _LEAST_SHARE = 4, 4, 0.6


class Hit(NamedTuple):
    """A term in a text, and where it begins and ends there."""

    start: int
    end: int
    source: str  # as the glossary has it
    target: str


class Glossary:
    """Terms with their translations."""

    def __init__(self, terms: Mapping[str, str]):
        self.terms = {normalize(source): normalize(target) for source, target in terms.items()}
        self._longest, self._like = 0, dict[tuple[str, ...], list[tuple[list[str], str]]]()
        for term in self.terms:
            words = TOKENS.findall(term)
            self._longest = max(self._longest, len(words))
            self._like.setdefault(tuple(map(key_of, words)), []).append((words, term))

    @classmethod
    def read(cls, file: Path) -> Glossary:
        """From a table of terms and translations. Of a term with two the first counts, and a warning. Raises DataError."""
        if not is_table(str(file)):
            expected = "a glossary as a table (.tsv, .csv, .xlsx): a term, a tab, its translation"
            raise DataError(f"{file}: expected {expected}")
        terms, again = dict[str, str](), list[str]()
        for pair in read_raw_pairs([str(file)], on_bad_line="error", report=CorpusReport()):
            place, src, tgt = f"{file}:{pair.line}", normalize(pair.src), normalize(pair.tgt)
            if not src or not tgt:
                found = f"no {'translation' if src else 'term'}, expected a term and its translation"
                raise DataError(f"{place}: {found}; complete the row")
            if terms.setdefault(src, tgt) != tgt:
                again.append(f"{place}: '{src}' is also '{tgt}', but above it is '{terms[src]}', which is used")
        if again:
            log.warning(again[0] + (f"; so it is with {len(again) - 1:,} more" if len(again) > 1 else ""))
        return cls(terms)

    def hits(self, text: str, by_beginning: bool = True) -> list[Hit]:
        """The terms in the text from left to right, the longest at each place; of several the one most like the text."""
        found, at, tokens = list[Hit](), 0, list(TOKENS.finditer(text))
        words = [token[0] for token in tokens]
        keys = list(map(key_of, words))
        while at < len(tokens):
            for n in range(min(self._longest, len(tokens) - at), 0, -1):
                like = self._like.get(tuple(keys[at : at + n]), ())
                costs = [(_differing(words[at : at + n], own), term) for own, term in like]
                cost, term = min(costs, default=(1000, ""))
                if cost < (1000 if by_beginning else 1):
                    found.append(Hit(tokens[at].start(), tokens[at + n - 1].end(), term, self.terms[term]))
                    at += n - 1
                    break
            at += 1
        return found


def as_glossary(terms: Glossary | Mapping[str, str] | str | Path) -> Glossary:
    if isinstance(terms, str | Path):
        return Glossary.read(Path(terms))
    return terms if isinstance(terms, Glossary) else Glossary(terms)


def key_of(word: str) -> str:
    return word.lower()[:_LEAST_COMMON]


def _differing(words: Sequence[str], of_term: Sequence[str]) -> int:
    """How many letters differ; 1000 for other words. A term without capitals stands for words with them, too."""
    total = 0
    for word, own in zip(words, of_term, strict=True):
        word = own if word == own.upper() else word.lower() if own == own.lower() else word
        if not alike(word, own):
            return 1000
        total += len(word) + len(own) - 2 * _n_common(word, own)
    return total


def _n_common(word: str, other: str) -> int:
    """Letters that both begin with."""
    different = (i for i, (own, theirs) in enumerate(zip(word, other, strict=False)) if own != theirs)
    return next(different, min(len(word), len(other)))


def alike(word: str, other: str) -> bool:
    """Whether the two are taken for forms of one word, by their common beginning."""
    n, longer = _n_common(word, other), max(len(word), len(other))
    is_form = n >= _LEAST_COMMON and longer - n <= _MOST_DIFFERING and n >= _LEAST_SHARE * longer
    has_other_number = all(any(map(str.isdigit, rest)) for rest in (word[n:], other[n:]))  # 27001 is not 27002
    return word == other or (is_form and not has_other_number)


def unused(hits: Sequence[Hit], translation: str, by_beginning: bool = True) -> list[Hit]:
    """The hits in a source whose translation is not in that of the source, or not as often."""
    targets = Glossary(dict.fromkeys((hit.target for hit in hits), ""))
    found, missing = Counter(one.source for one in targets.hits(translation, by_beginning)), list[Hit]()
    for hit in hits:
        found[hit.target] -= 1
        if found[hit.target] < 0:
            missing.append(hit)
    return missing


def annotation(translation: str) -> str:
    """What stands behind a word of a source that is to be translated so (Dinu et al. 2019)."""
    return f"{TERM_BEGIN}{'' if is_unspaced(translation) else ' '}{translation}{TERM_END}"


def is_unspaced(text: str) -> bool:
    """Whether it begins with a character of a script without spaces."""
    return bool(re.match(f"[{UNSPACED}]", text))


def without_annotations(text: str) -> str:
    return _ANNOTATION.sub("", text)


TERM_WIDTH = 8  # of the beam at least, so that there is room for the pieces of several terms


class Phrase(NamedTuple):
    ids: tuple[int, ...]
    other_first: int  # that may stand for the first: a capital, or the beginning of a line
    is_spaced: bool  # no letter may follow
    usual_first: int = -1  # by which the word begins that the model would write for it


def phrases_of(hits: Sequence[Hit], usual_firsts: Sequence[int], tokenizer: Tokenizer) -> tuple[Phrase, ...]:
    """The translations of these terms, but for those that the tokenizer cannot spell."""
    found = list[Phrase]()
    for (_, _, _, target), usual_first in zip(hits, usual_firsts, strict=True):
        is_spaced = not is_unspaced(target)
        ids = tokenizer.encode_tgt(target) if is_spaced else tokenizer.encode_tgt_within(target)
        other = tokenizer.encode_tgt(target[:1].upper() + target[1:])
        if ids and UNK_ID not in ids:
            first = other[0] if other[1:] == ids[1:] else ids[0]
            found.append(Phrase(tuple(ids), first, is_spaced, usual_first))
    return tuple(found)


class TermBeams(Beams):
    """The W partial hypotheses of each sentence, and how much each has of each phrase. The places of the beam are shared out
    among the numbers of tokens of phrases that these have written; the end comes after the last phrase (Post and Vilar
    2018). Shapes: B sentences, W beam width, K candidates, P phrases of a sentence, L tokens of a phrase, V vocabulary."""

    def __init__(
        self, beam_size: int, device: torch.device, phrases: Sequence[Sequence[Phrase]], inner_ids: Sequence[int]
    ):
        """`inner_ids`: pieces that continue a word."""
        super().__init__(len(phrases), beam_size, device)
        n, longest = max(map(len, phrases)), max(len(one.ids) for own in phrases for one in own)
        padded = [[*own, *[Phrase((), -1, False)] * (n - len(own))] for own in phrases]

        def tensor(of: Callable[[Phrase], Any]) -> Tensor:
            return torch.tensor([[of(one) for one in own] for own in padded], device=device)

        self.ids = tensor(lambda one: [*one.ids, *[-1] * (longest - len(one.ids))])  # (B,P,L)
        self.lengths = tensor(lambda one: len(one.ids))  # (B,P)
        self.other_firsts, self.usual_firsts = tensor(lambda one: one.other_first), tensor(lambda one: one.usual_first)
        self.is_spaced = tensor(lambda one: one.is_spaced)
        self.inner_ids = torch.tensor(inner_ids, dtype=torch.long, device=device)
        self.n_written = self.lengths.new_zeros(len(phrases), beam_size, n)  # tokens of each, (B,W,P)
        self.is_word_whole = self.is_spaced.new_zeros(len(phrases), beam_size)  # a phrase has just ended

    def extend(self, log_probs: Tensor, finished: list[Finished]) -> Tensor:
        parents = super().extend(log_probs, finished)
        self.n_written, self.is_word_whole = self._advanced(parents, self.tokens[:, :, -1])
        # What is cut off has as much of the phrases as there was time for.
        is_cut_off = [finished[sentence].max_length <= self.length for sentence in self.sentences]
        n = self.n_written.sum(2).masked_fill(self.scores == -torch.inf, -1)
        is_behind = n < n.amax(1, keepdim=True)
        self.scores[torch.tensor(is_cut_off, device=n.device)[:, None] & is_behind] = -torch.inf
        return parents

    def keep(self, rows: list[int]) -> Tensor:
        index = super().keep(rows)
        for name in ("ids", "lengths", "other_firsts", "usual_firsts", "is_spaced", "n_written", "is_word_whole"):
            setattr(self, name, getattr(self, name)[index])
        return index

    def candidates(self, totals: Tensor) -> tuple[Tensor, Tensor]:
        """Of the best continuations, the best one of each hypothesis, and those that go on with a phrase: as many for
        each number of tokens written, as far as there are."""
        n_rows, vocab_size = len(self.sentences), totals.size(1) // self.beam_size
        of_each = totals.view(n_rows, self.beam_size, vocab_size)
        is_open = self.n_written < self.lengths[:, None]  # (B,W,P)
        to_end = of_each[:, :, EOS_ID].clone()
        of_each[:, :, EOS_ID] = to_end.masked_fill(is_open.any(2), -torch.inf)
        whole_words = self.is_word_whole.nonzero(as_tuple=True)
        of_each[(*(one[:, None] for one in whole_words), self.inner_ids)] = -torch.inf
        is_stuck = of_each.amax(2) == -torch.inf
        of_each[:, :, EOS_ID] = torch.where(is_stuck, to_end, of_each[:, :, EOS_ID])

        is_begun = is_open & (self.n_written > 0)
        is_next = is_open & (is_begun | ~is_begun.any(2, keepdim=True))  # a phrase that is begun goes on
        # Where a phrase may begin, its first token is as probable as that of what the model would write for the term: so it
        # gets the place of that, and does not stand somewhere besides.
        for phrase in range(is_next.size(2)):
            firsts, usual = (
                ids[:, phrase, None, None].expand(-1, self.beam_size, 1)
                for ids in (self.ids[..., 0], self.usual_firsts)
            )
            own, likely = (of_each.gather(2, ids.clamp(min=0)) for ids in (firsts, usual))
            is_known = (is_next & ~is_begun)[:, :, phrase, None] & (usual >= 0)
            of_each.scatter_(2, firsts.clamp(min=0), torch.where(is_known, torch.maximum(own, likely), own))
        places = torch.arange(self.beam_size, device=totals.device) * vocab_size
        best = of_each.argmax(2) + places
        forced = torch.where(is_next, self._next_ids(self.n_written) + places[:, None], best[:, :, None])
        top = totals.topk(min(2 * self.beam_size, totals.size(1))).indices
        flat = torch.cat([top, best, forced.flatten(1)], 1).sort().values  # (B,K)
        is_again = torch.nn.functional.pad(flat[:, 1:] == flat[:, :-1], (1, 0))
        scores, order = totals.gather(1, flat).masked_fill(is_again, -torch.inf).sort(descending=True)
        flat = flat.gather(1, order)
        n = self._advanced(flat // vocab_size, flat % vocab_size)[0].sum(2)
        n_better = (n[:, :, None] == n[:, None]).tril(-1).sum(2)  # of as many tokens
        place = n_better * (int(self.lengths.sum(1).max()) + 1) - n
        place.masked_fill_(scores == -torch.inf, torch.iinfo(place.dtype).max)
        order = place.argsort(dim=1, stable=True)[:, : top.size(1)]
        return scores.gather(1, order), flat.gather(1, order)

    def _next_ids(self, n_written: Tensor) -> Tensor:
        """The next token of each phrase, (B,K,P); that of one which is complete means nothing."""
        places = n_written.clamp(max=self.ids.size(2) - 1)
        return self.ids[:, None].expand(-1, n_written.size(1), -1, -1).gather(3, places[..., None])[..., 0]

    def _advanced(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """What hypotheses (B,K) have written that continue their parents by these tokens, and whether a word must end
        behind it. A token belongs to the phrase that is begun if it goes on so, else to the first that begins so."""
        before = self.n_written.gather(1, parents[:, :, None].expand(-1, -1, self.n_written.size(2)))
        is_open, ids = before < self.lengths[:, None], tokens[:, :, None]
        goes_on = is_open & (before > 0) & (ids == self._next_ids(before))
        begins = is_open & ((ids == self.ids[:, None, :, 0]) | (ids == self.other_firsts[:, None]))
        fit, chosen = (2 * goes_on + begins.int()).clamp(max=2).max(2, keepdim=True)
        is_own = torch.zeros_like(is_open).scatter(2, chosen, fit > 0)
        n = torch.where(is_own, torch.where(goes_on, before + 1, 1), before.masked_fill(is_open, 0))
        return n, (is_own & self.is_spaced[:, None] & (n == self.lengths[:, None])).any(2)
