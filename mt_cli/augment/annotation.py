"""Further training pairs with translations behind some words of their source, as a glossary adds them (decoding/terms.py).

Most of these translations are not those of the text, which gets them, too: words that elsewhere follow on the same word, so that
they agree with it. Otherwise a network that knows the usual translation would learn to overlook them. And some stand in the most
frequent form of the word, so that it learns to inflect (Bergmanis and Pinnis 2021, who have lemmas).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from mt_cli.augment.variation import edited, word_links
from mt_cli.checking.alignment import unit_places
from mt_cli.data.corpus import SentencePair
from mt_cli.decoding.terms import TOKENS, Glossary, alike, annotation, is_unspaced, key_of

_MOST = 6  # annotations of a sentence
_ONE_MORE, _OTHER_WORD, _FREQUENT_FORM = 0.5, 0.75, 0.3  # chances
_LONGEST_OF_GRAMMAR = 3  # letters: articles, prepositions and the like are not terms

Link = tuple[int, int, int, int]  # where the source's words begin and end, and those of the target


def annotated(pairs: Sequence[SentencePair], words: Glossary) -> Iterator[SentencePair]:
    """The pairs with annotations; those without words that are known to translate each other, by the alignment of the pairs or by
    `words`, are left out."""
    linked = [_phrases(pair, own, words) for pair, own in zip(pairs, word_links(pairs), strict=True)]
    counts, following = Counter[str](), defaultdict[tuple[str, bool, int], list[str]](list)
    for pair, links in zip(pairs, linked, strict=True):
        counts.update(pair.src[link[0] : link[1]] for link in links)
        for link in links:
            following[_surroundings(pair.tgt, link)].append(pair.tgt[link[2] : link[3]])
    forms = defaultdict[str, Counter[str]](Counter)  # of target words, by their first letters
    for pair in pairs:
        for word in TOKENS.findall(pair.tgt):
            forms[key_of(word)][word] += 1

    @cache
    def frequent_form(word: str) -> str:
        like = [one for one in forms[key_of(word)] if alike(word, one)]
        return max(like, key=forms[key_of(word)].__getitem__, default=word)

    for number, (pair, links) in enumerate(zip(pairs, linked, strict=True)):
        rng, chosen = random.Random(number), list[Link]()
        n_wanted = next(n for n in range(1, _MOST + 1) if n == _MOST or rng.random() > _ONE_MORE)
        # Rare words are more like terms than frequent ones.
        for link in sorted(links, key=lambda link: rng.random() * counts[pair.src[link[0] : link[1]]] ** 0.5):
            if len(chosen) < n_wanted and not any(_overlap(link, other) for other in chosen):
                chosen.append(link)
        in_src, in_tgt = list[tuple[int, int, str]](), list[tuple[int, int, str]]()
        for link in chosen:
            word = pair.tgt[link[2] : link[3]]
            if rng.random() < _OTHER_WORD and (len(word) > _LONGEST_OF_GRAMMAR or is_unspaced(word)):
                word = rng.choice(following[_surroundings(pair.tgt, link)])
            in_tgt.append((link[2], link[3], word))
            form = frequent_form(word) if rng.random() < _FREQUENT_FORM else word
            in_src.append((link[1], link[1], annotation(form)))
        if chosen:
            yield pair._replace(src=edited(pair.src, in_src), tgt=edited(pair.tgt, in_tgt))


def _phrases(pair: SentencePair, units: Sequence[tuple[str, str]], words: Glossary) -> list[Link]:
    """Where the linked units are, and two neighbours whose translations are neighbours in the same order; and `words`."""
    places = unit_places(pair.src), unit_places(pair.tgt)
    found = sorted((*places[0][src], *places[1][tgt]) for src, tgt in units)
    for one, other in pairwise(found[:]):
        between = pair.src[one[1] : other[0]] + pair.tgt[one[3] : other[2]]
        if one[1] <= other[0] and one[3] <= other[2] and not between.strip():
            found.append((one[0], other[1], one[2], other[3]))
    for hit in words.hits(pair.src):
        found += [(hit.start, hit.end, one.start, one.end) for one in Glossary({hit.target: ""}).hits(pair.tgt)[:1]]
    return found


def _surroundings(text: str, link: Link) -> tuple[str, bool, int]:
    """By what it is told which words may stand at a place: the word before, a capital, the number of words."""
    words = text[link[2] : link[3]]
    return "".join(TOKENS.findall(text[: link[2]])[-1:]), words[:1].isupper(), words.count(" ")


def _overlap(one: Link, other: Link) -> bool:
    return (one[0] < other[1] and other[0] < one[1]) or (one[2] < other[3] and other[2] < one[3])
