"""A list of words that a training learns beside its text. Nothing of it is held out, and what is usual in the text is found
without it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import islice

from mt_cli.config import WordList
from mt_cli.data.corpus import SentencePair
from mt_cli.data.dataset import Part, TokenDataset

log = logging.getLogger(__name__)

_N_COMPARED = 100_000  # pairs, and entries
_MOST_REPEATED = 10.0  # times in an epoch


def warn_if_exchanged(words: WordList, entries: Iterable[SentencePair], text: Iterable[SentencePair]) -> None:
    """Warns of a list whose sources are written with words of the targets of `text`, and the other way round."""
    src_words, tgt_words = set[str](), set[str]()
    for pair in islice(text, _N_COMPARED):
        src_words.update(pair.src.lower().split())
        tgt_words.update(pair.tgt.lower().split())
    n_right, n_wrong = 0, 0
    for pair in islice(entries, _N_COMPARED):
        for entry, own, others in ((pair.src, src_words, tgt_words), (pair.tgt, tgt_words, src_words)):
            found = set(entry.lower().split())
            n_right += len(found & own - others)
            n_wrong += len(found & others - own)
    if n_wrong > max(4, 2 * n_right):
        log.warning(
            f"{words.files[0]}: its sources look like targets of the corpus, its targets like sources; exchange the two columns"
            " or files"
        )


def word_weight(words: WordList, dataset: TokenDataset, texts: Sequence[Part]) -> float:
    """How often an epoch has each entry, so that the list has its share and no more: words alone end early, and many of them
    would teach sentences to end early, too. A few words are repeated, but not without end."""
    n_text = sum(part.weight * len(part.dataset) for part in texts)
    return min(_MOST_REPEATED, words.share / (1 - words.share) * n_text / len(dataset))
