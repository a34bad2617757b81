"""Which source words the words of a translation attended to, and what is placed by that: tags, terms, and spans that were
lost.

Letters in shapes: S source pieces or words, T target pieces or words, all without end symbol.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mt_cli.data.batching import batches_by_length, pad, source_batch, subsequent_mask
from mt_cli.data.normalize import UNSPACED
from mt_cli.data.spans import ATTRIBUTE, SYMBOLS, held, numbered_back
from mt_cli.data.tokenizer import BOS_ID, Tokenizer
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.parts import Mark, Part, SourcePart
from mt_cli.decoding.terms import is_unspaced, unused
from mt_cli.model.transformer import Transformer

Weights = npt.NDArray[np.float64]

_BYTE = re.compile("<0x([0-9A-F]{2})>")
OF_WORD = re.compile(rf"[^\W_{UNSPACED}]")
_OPENS = re.compile(r"<[^/!].*[^/]>|<\w>", re.DOTALL)
_TAG = re.compile(rf"<(/?)([A-Za-z][\w:.-]*+)(?:{ATTRIBUTE}|[^<>/]|/(?!>))*+(/?)>")
_LEAST_SHARE = 0.65  # of a word's links, from which on it belongs to a content
_LEAST_REPLACED = 0.3  # of the links of a word that a term replaces; with 0.2 to 0.35 fewer were wrong than with 0
_COST_WITHIN = 0.05  # of a sign between two words of a content, such as the full stop of Dr. Zhao
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)  # that HTML never closes


class Word(NamedTuple):
    space: str  # before it
    text: str


@torch.inference_mode()
def cross_attention(model: Transformer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Tensor]:
    """For each pair of ids, with the target's end symbol if it has one, the weights (T,S) of its target tokens for the
    source's and for its end symbol: the mean of all heads and layers."""
    found = dict[int, Tensor]()
    for chosen in batches_by_length([max(map(len, pair)) for pair in pairs]):
        src_ids, src_mask = (t.to(model.device) for t in source_batch([pairs[i][0] for i in chosen]))
        tgt_in = pad([[BOS_ID, *pairs[i][1][:-1]] for i in chosen]).to(model.device)
        memory, _ = model.encode(src_ids, src_mask)
        tgt_mask = subsequent_mask(tgt_in.size(1)).to(model.device)
        _, _, cross = model.decode(tgt_in, tgt_mask, memory, src_mask, return_weights=True)
        for i, weights in zip(chosen, torch.stack(cross).mean((0, 2)).float().cpu(), strict=True):
            found[i] = weights[: len(pairs[i][1]), : len(pairs[i][0]) + 1]
    return [found[i] for i in range(len(pairs))]


def written(parts: Sequence[Part], tokenizer: Tokenizer, model: Transformer) -> list[list[str]]:
    """What each hypothesis of each part says, with the symbols of the line; what was lost is placed by attention."""
    texts, unfinished = list[list[str]](), list[tuple[SourcePart, Hypothesis, list[str], int]]()
    for part in parts:
        source, own = part.source, list[str]()
        places = [mark.place for mark in source.marks]
        places += [place for hit in source.terms if source.replaces for place in (hit.start, hit.end)]
        if places:  # a piece that crosses one would belong to both sides
            ids = tokenizer.encode_src_cut(source.text, places)
            source = replace(source, ids=tuple(ids)) if len(ids) < model.positions.n_positions else source
        for one in part.hypotheses:
            text = tokenizer.decode_tgt(one.ids)
            if places or sorted(held(source.text)) != sorted(held(text)):  # else each symbol is there once
                unfinished.append((source, one, own, len(own)))
            own.append(numbered_back(source.sentence.written(text), source.symbols))
        texts.append(own)
    if unfinished:
        attention = cross_attention(model, [(source.ids, one.ids_with_end) for source, one, *_ in unfinished])
        for (source, one, own, n), weights in zip(unfinished, attention, strict=True):
            own[n] = _written_by_alignment(source, one.ids, weights, tokenizer)
    return texts


def _written_by_alignment(source: SourcePart, tgt_ids: Sequence[int], weights: Tensor, tokenizer: Tokenizer) -> str:
    """The translation with tags around the words that belong to theirs, with terms in place of those that translate theirs,
    and with spans that the model has lost."""
    src_words, tgt_words, matrix = word_weights(source, tgt_ids, weights, tokenizer)
    rows, missing = list[int](), set(held(source.text))
    for row, word in enumerate(tgt_words):
        if word.text not in SYMBOLS or word.text in missing:
            rows.append(row)
            missing.discard(word.text)
    ends = list(accumulate(len(word.space) + len(word.text) for word in src_words))
    starts = [end - len(word.text) for word, end in zip(src_words, ends, strict=True)]
    words, matrix = [tgt_words[row] for row in rows], matrix[rows]
    if source.replaces and unused(source.terms, tokenizer.decode_tgt([*tgt_ids]), by_beginning=False):
        places = [(sum(end <= hit.start for end in ends), sum(at < hit.end for at in starts)) for hit in source.terms]
        words, matrix = _with_terms(words, [hit.target for hit in source.terms], places, matrix)
    words = [word._replace(text=source.sentence.cased(word.text)) for word in words]
    if words:
        words[-1] = words[-1]._replace(text=source.sentence.written(words[-1].text))
    lost = [Mark(symbol, symbol, source.text.index(symbol), True, True) for symbol in missing]
    marks = list[Mark]()
    for mark in sorted([*source.marks, *lost], key=lambda mark: mark.place):  # which counts characters, and then words
        if _OPENS.fullmatch(mark.span):
            place = sum(end <= mark.place for end in ends)
        else:  # one within a word takes the whole word
            place = sum(start < mark.place for start in starts)
        marks.append(mark._replace(place=place))
    return numbered_back(placed(words, marks, matrix), source.symbols)


def _with_terms(
    words: Sequence[Word], terms: Sequence[str], places: Sequence[tuple[int, int]], weights: Weights
) -> tuple[list[Word], Weights]:
    """The translation `words` (T), and what they attended to (T,S), with each term in place of the words that are aligned
    with its stretch of the source; where there are none, beside the others. At the beginning it gets a capital where the
    usual word has one."""
    is_word, stretches = [any(map(str.isalnum, word.text)) for word in words], list[tuple[int, int]]()
    spans = [(row, row + 1) for row, word in enumerate(words) if word.text in SYMBOLS]
    for place in places:
        stretch = _best_stretch(weights, is_word, place, (0, len(words)), spans + stretches)
        if _shares(weights, place)[slice(*stretch)].max(initial=0) < _LEAST_REPLACED:
            stretch = (_best_place(weights, place[0], (0, len(words)), spans + stretches),) * 2
        stretches.append(stretch)
    words = list(words)
    for (first, behind), term in sorted(zip(stretches, terms, strict=True), reverse=True):
        usual = words[first:behind]
        if first == 0 and usual and usual[0].text[:1].isupper() and term.islower():
            term = term[0].upper() + term[1:]
        space = "" if is_unspaced(term) else " "
        if not usual and words[first:]:
            words[first] = words[first]._replace(space=words[first].space or space)
        words[first:behind] = [Word(usual[0].space if usual and is_word[first] else space, term)]
        weights = np.concatenate([weights[:first], weights[first:behind].sum(0, keepdims=True), weights[behind:]])
    return words, weights


def word_weights(
    source: SourcePart, tgt_ids: Sequence[int], weights: Tensor, tokenizer: Tokenizer
) -> tuple[list[Word], list[Word], Weights]:
    """The words of both sides, and the attention (T,S) of each target word for each of the source."""
    n_tags = len(tokenizer.src_tags)
    src_words, of_src = words_of(tokenizer.src_pieces(source.ids[n_tags:]))
    tgt_words, of_tgt = words_of(tokenizer.tgt_pieces(tgt_ids))
    matrix = of_tgt @ weights[: len(tgt_ids), n_tags : len(source.ids)].double().numpy() @ of_src.T
    is_word = [np.array([any(map(str.isalnum, one.text)) for one in words], bool) for words in (src_words, tgt_words)]
    matrix[np.ix_(~is_word[1], is_word[0])] = 0  # a full stop attends to words that it does not translate
    return src_words, tgt_words, matrix / np.maximum(of_tgt.sum(1, keepdims=True), 1)


def words_of(pieces: Sequence[str]) -> tuple[list[Word], Weights]:
    """The words that pieces spell, and which pieces belong to which: 1 or 0, (words, pieces). Characters that are no
    letters, and those of scripts without spaces, are words by themselves."""
    words, members, raw = list[Word](), list[list[int]](), b""
    for number, piece in enumerate(pieces):
        if byte := _BYTE.fullmatch(piece):
            raw += bytes([int(byte[1], 16)])
            text, is_begun = raw.decode("utf-8", "ignore"), len(raw) > 1
            raw = b"" if text else raw
        else:
            text, is_begun = piece.replace("\u2581", " "), False
        bare = text.lstrip(" ")
        is_letter = bool(OF_WORD.match(bare)) and not text.startswith(" ")
        if words and (is_begun or not words[-1].text or (is_letter and OF_WORD.match(words[-1].text[-1]))):
            words[-1] = Word(words[-1].space or text[: len(text) - len(bare)], words[-1].text + bare)
            members[-1].append(number)
        else:
            words.append(Word(text[: len(text) - len(bare)] if words else "", bare))
            members.append([number])
    groups = np.zeros((len(words), len(pieces)))
    for word, own in enumerate(members):
        groups[word, own] = 1
    return words, groups


def placed(words: Sequence[Word], marks: Sequence[Mark], weights: Weights) -> str:
    """The translation `words` (T) with its marks, which come in the order of the source, where `weights` (T,S) say: how much
    each target word attended to each source word.

    A pair of tags goes around the words that its content is aligned with, a single mark where the fewest links cross it. What
    is around all stays so, what is nested stays nested.
    """
    closed_by, opened = dict[int, int](), list[tuple[str, int]]()  # the numbers of tags that belong together
    for number, mark in enumerate(marks):
        tag = _TAG.fullmatch(mark.span)
        if tag is None or tag[3] or (name := tag[2].lower()) in _VOID:
            continue
        if not tag[1]:
            opened.append((name, number))
        elif any(name == other for other, _ in opened):
            while opened[-1][0] != name:  # it is closed nowhere
                opened.pop()
            closed_by[opened.pop()[1]] = number
    is_word = [any(map(str.isalnum, word.text)) for word in words]

    def rendered(first: int, behind: int, source: tuple[int, int], target: tuple[int, int]) -> str:
        """The words of the stretch `target` with those marks, from `first` on, that stand in `source`."""
        stretches, own = list[tuple[int, int]](), list[tuple[int, int]]()
        while first < behind:
            own.append((first, closed_by.get(first, first)))
            start, end = (marks[number].place for number in own[-1])
            if start == end:
                stretches.append((_best_place(weights, start, target, stretches),) * 2)
            else:
                is_all = (start, end) == source
                stretches.append(target if is_all else _best_stretch(weights, is_word, (start, end), target, stretches))
            first = own[-1][1] + 1
        text, (here, last), gap = "", target, ""  # what stands before the next word or mark

        def add(addition: str, own_gap: str, next_gap: str | None) -> None:
            nonlocal text, gap
            text += (own_gap if text else "") + addition
            gap = (words[here].space if here < last else "") if next_gap is None else next_gap

        for (start, end), (opening, closing) in sorted(zip(stretches, own, strict=True), key=lambda one: one[0]):
            while here < start:
                here += 1
                add(words[here - 1].text, gap, None)
            mark = marks[opening]
            if opening == closing:
                own_gap = " " if mark.has_space_before else "" if mark.has_space_after else gap
                add(mark.symbol, own_gap, " " if mark.has_space_after and start != last else "")
            else:
                inner = rendered(opening + 1, closing, (mark.place, marks[closing].place), (start, end))
                here = end
                add(f"{mark.symbol}{inner}{marks[closing].symbol}", gap, gap if start == end else None)
        while here < last:
            here += 1
            add(words[here - 1].text, gap, None)
        return text

    return rendered(0, len(marks), (0, weights.shape[1]), (0, len(words)))


def _shares(weights: Weights, source: tuple[int, int]) -> Weights:
    """The share (T) that the source words have of each target word's links. Only words that choose each other are linked
    (Liang et al. 2006): a word without a counterpart attends to its neighbours' ones, which attract others more."""
    links = weights**2 / np.maximum(weights.sum(0), 1e-9)
    return np.asarray(links[:, slice(*source)].sum(1) / np.maximum(links.sum(1), 1e-9))


def _best_stretch(
    weights: Weights,
    is_word: Sequence[bool],
    source: tuple[int, int],
    target: tuple[int, int],
    taken: Sequence[tuple[int, int]],
) -> tuple[int, int]:
    """The target words, of those that are free, that are linked most with the source words: the stretch of the largest
    sum of their `_shares` above `_LEAST_SHARE`."""
    share = _shares(weights, source) - _LEAST_SHARE
    # Between two words of the content another's costs less than one of these.
    share = np.maximum(share, _LEAST_SHARE - 0.99)
    for stretch in taken:
        share[slice(*stretch)] = -np.inf
    best, total, start = (-np.inf, target[1], target[1]), -np.inf, target[0]
    for word in range(*target):
        if total < 0:
            total, start = 0.0, word
        total += share[word] if is_word[word] or total <= 0 else max(share[word], -_COST_WITHIN)
        if total > best[0]:
            best = total, start, word + 1
    return best[1:]


def _best_place(weights: Weights, place: int, target: tuple[int, int], taken: Sequence[tuple[int, int]]) -> int:
    """Between which target words the fewest links cross a mark before the source word `place`."""
    behind = weights[:, place:].sum(1) / np.maximum(weights.sum(1), 1e-9)
    first, last = target
    costs = np.array([behind[first:at].sum() + (1 - behind[at:last]).sum() for at in range(first, last + 1)])
    for start, end in taken:
        costs[start + 1 - first : max(start + 1, end) - first] = np.inf
    return first + int(np.argmin(costs))
