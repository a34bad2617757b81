"""Further training pairs, made from those of the text: with spans, typing errors, and translations of a glossary."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from mt_cli.checking.alignment import Lexicon, unit_places
from mt_cli.data.corpus import SentencePair
from mt_cli.data.normalize import UNSPACED
from mt_cli.data.spans import N_SYMBOLS, SYMBOLS, held
from mt_cli.decoding.terms import TOKENS, Glossary, alike, annotation, is_unspaced, key_of
from mt_cli.evaluation.robustness import with_typing_errors

MOST_VARIED = 20_000  # that are varied, which bounds the time
_SHARE_OF_ERRORS = 0.05  # of the letters
_MANY_SPANS = 0.5  # chance of one span more

_MOST_ANNOTATED = 6  # words of a sentence
_ONE_MORE, _OTHER_WORD, _FREQUENT_FORM = 0.5, 0.75, 0.3  # chances
_LONGEST_OF_GRAMMAR = 3  # letters: articles, prepositions and the like are not terms

Edit = tuple[int, int, str]  # from a place to another one, what stands there instead
Link = tuple[int, int, int, int]  # where the source's words begin and end, and those of the target


def varied(pairs: Sequence[SentencePair], has_symbols: bool) -> Iterator[SentencePair]:
    """The pairs, each with spans or with typing errors in its source; those in which nothing can be changed are left out."""
    for number, (pair, of_pair) in enumerate(zip(pairs, word_links(pairs), strict=True)):
        rng = random.Random(number)
        if has_symbols and rng.random() < 0.5:
            src, tgt = _with_spans(pair, of_pair, rng)
        else:
            src, tgt = with_typing_errors(pair.src, _SHARE_OF_ERRORS, rng), pair.tgt
        if src.strip() and (src, tgt) != pair[:2]:
            yield pair._replace(src=src, tgt=tgt)


def word_links(pairs: Sequence[SentencePair]) -> list[list[tuple[str, str]]]:
    """For each pair the units (alignment.py) of source and target that translate each other."""
    lexicon = Lexicon(pairs)
    lexicon.learn(np.ones(len(pairs), dtype=bool))
    links: list[list[tuple[str, str]]] = [[] for _ in pairs]
    for line, src, tgt in zip(*map(np.ndarray.tolist, lexicon.links(np.arange(len(pairs)))), strict=True):
        links[line].append((lexicon.units[src], lexicon.units[tgt]))
    return links


def _with_spans(pair: SentencePair, links: list[tuple[str, str]], rng: random.Random) -> tuple[str, str]:
    """Symbols of spans in the place of, or before, the two words of one link or more: it is learnt where they belong."""
    if held(pair.src) or not links:
        return pair.src, pair.tgt
    places, n_wanted = (unit_places(pair.src), unit_places(pair.tgt)), 1
    while n_wanted < N_SYMBOLS and rng.random() < _MANY_SPANS:
        n_wanted += 1
    chosen = list[tuple[tuple[int, int], tuple[int, int]]]()
    for src, tgt in sorted(rng.sample(links, len(links)), key=lambda link: len(link[0]) == 1):  # single characters last
        found = places[0][src], places[1][tgt]
        before = lambda one, other, side: one[side][1] <= other[side][0]
        is_free = all(before(one, found, side) or before(found, one, side) for one in chosen for side in (0, 1))
        if is_free and len(chosen) < n_wanted:
            chosen.append(found)
    edits: tuple[list[Edit], list[Edit]] = ([], [])
    texts: tuple[str, str] = pair.src, pair.tgt
    for symbol, found in zip(SYMBOLS, sorted(chosen), strict=False):
        is_before = rng.random() < 0.5
        for side in (0, 1):
            start, end = found[side]
            is_spaced = not re.match(f"[{UNSPACED}]", texts[side][start]) or (side == 0 and rng.random() < 0.5)
            space = " " if is_before and is_spaced else ""
            edits[side].append((start, start if is_before else end, f"{symbol}{space}"))
    return edited(pair.src, edits[0]), edited(pair.tgt, edits[1])


def edited(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    return text


def annotated(pairs: Sequence[SentencePair], words: Glossary) -> Iterator[SentencePair]:
    """The pairs with translations behind some words of their source, as a glossary adds them (decoding/terms.py); those
    without words that are known to translate each other, by the alignment of the pairs or by `words`, are left out.

    Most of these translations are words that elsewhere follow on the same word, and the text gets them, too: else a network
    that knows the usual translation would overlook them. And some stand in the most frequent form of the word, so that it
    learns to inflect (Bergmanis and Pinnis 2021, who have lemmas).
    """
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
        n_wanted = next(n for n in range(1, _MOST_ANNOTATED + 1) if n == _MOST_ANNOTATED or rng.random() > _ONE_MORE)
        # Rare words are more like terms than frequent ones.
        for link in sorted(links, key=lambda link: rng.random() * counts[pair.src[link[0] : link[1]]] ** 0.5):
            is_free = all(
                link[side] >= other[side + 1] or other[side] >= link[side + 1] for other in chosen for side in (0, 2)
            )
            if len(chosen) < n_wanted and is_free:
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
