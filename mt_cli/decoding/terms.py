"""A glossary: which words of a text have a translation of the user's own, and whether a translation has it. A term is
found as it is written, else by a common beginning, which inflected forms share."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mt_cli.config import is_table
from mt_cli.data.corpus import CorpusReport, read_raw_pairs
from mt_cli.data.normalize import EDGES, UNSPACED, normalize
from mt_cli.data.spans import TERM_BEGIN, TERM_END
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
