"""Which source words the words of a translation attended to, and what is placed by that: tags, and spans that were lost.

Letters in shapes: S source pieces, T target pieces, both without end symbol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from mt_cli.data.batching import batches_by_length, pad, source_batch, subsequent_mask
from mt_cli.data.normalize import UNSPACED
from mt_cli.data.spans import SYMBOLS, held, numbered_back
from mt_cli.data.tokenizer import BOS_ID, Tokenizer
from mt_cli.decoding.parts import Part, SourcePart
from mt_cli.decoding.placement import Mark, Weights, Word, placed
from mt_cli.model.transformer import Transformer

_BYTE = re.compile("<0x([0-9A-F]{2})>")
OF_WORD = re.compile(rf"[^\W_{UNSPACED}]")
_OPENS = re.compile(r"<[^/!].*[^/]>|<\w>", re.DOTALL)


@torch.inference_mode()
def cross_attention(model: Transformer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[Tensor]:
    """For each pair of ids, with the target's end symbol if it has one, the weights (T,S) of its target tokens for the source's
    and for its end symbol: the mean of all heads and layers."""
    found = dict[int, Tensor]()
    for chosen in batches_by_length([max(map(len, pair)) for pair in pairs]) if pairs else ():
        src_ids, src_mask = (t.to(model.device) for t in source_batch([pairs[i][0] for i in chosen]))
        tgt_in = pad([[BOS_ID, *pairs[i][1][:-1]] for i in chosen]).to(model.device)
        memory, _ = model.encode(src_ids, src_mask)
        tgt_mask = subsequent_mask(tgt_in.size(1)).to(model.device)
        _, _, cross = model.decode(tgt_in, tgt_mask, memory, src_mask, return_weights=True)
        for i, weights in zip(chosen, torch.stack(cross).mean((0, 2)).float().cpu(), strict=True):
            found[i] = weights[: len(pairs[i][1]), : len(pairs[i][0]) + 1]
    return (found[i] for i in range(len(pairs)))


def written(parts: Sequence[Part], tokenizer: Tokenizer, model: Transformer) -> Iterator[list[str]]:
    """What each hypothesis of each part says, as its source is written, with the symbols of the line. What the model did not
    write is placed by its attention."""
    sources = [_cut_at_marks(part.source, tokenizer, model) for part in parts]
    drafts = [
        (source, one, tokenizer.decode_tgt(one.ids))
        for source, part in zip(sources, parts, strict=True)
        for one in part.hypotheses
    ]
    unfinished = [(source.ids, one.ids_with_end) for source, one, text in drafts if not _is_whole(source, text)]
    weights = cross_attention(model, unfinished)
    texts = (
        numbered_back(source.sentence.written(text), source.symbols)
        if _is_whole(source, text)
        else _written_by_alignment(source, one.ids, next(weights), tokenizer)
        for source, one, text in drafts
    )
    return ([next(texts) for _ in part.hypotheses] for part in parts)


def _cut_at_marks(source: SourcePart, tokenizer: Tokenizer, model: Transformer) -> SourcePart:
    """The part in pieces of which none crosses a mark, where the model can read so many: one would belong to both sides."""
    if not source.marks:
        return source
    ids = tokenizer.encode_src_cut(source.text, [mark.place for mark in source.marks])
    return replace(source, ids=tuple(ids)) if len(ids) < model.positions.n_positions else source


def _is_whole(source: SourcePart, translation: str) -> bool:
    """Whether a translation has the symbol of each span of its source once, and nothing else is to be put into it."""
    return not source.marks and sorted(held(source.text)) == sorted(held(translation))


def _written_by_alignment(source: SourcePart, tgt_ids: Sequence[int], weights: Tensor, tokenizer: Tokenizer) -> str:
    """The translation with tags around the words that belong to theirs, and with spans that the model has lost. `weights`: what
    `cross_attention` gave."""
    src_words, tgt_words, matrix = _word_weights(source, tgt_ids, weights, tokenizer)
    rows, missing = list[int](), set(held(source.text))
    for row, word in enumerate(tgt_words):
        if word.text not in SYMBOLS or word.text in missing:
            rows.append(row)
            missing.discard(word.text)
    words = [tgt_words[row]._replace(text=source.sentence.cased(tgt_words[row].text)) for row in rows]
    if words:
        words[-1] = words[-1]._replace(text=source.sentence.written(words[-1].text))
    lost = [Mark(symbol, symbol, source.text.index(symbol), True, True) for symbol in missing]
    ends = list(accumulate(len(word.space) + len(word.text) for word in src_words))
    marks = list[Mark]()
    for mark in sorted([*source.marks, *lost], key=lambda mark: mark.place):  # which counts characters, and then words
        if _OPENS.fullmatch(mark.span):
            place = sum(end <= mark.place for end in ends)
        else:  # one within a word takes the whole word
            place = sum(end - len(word.text) < mark.place for word, end in zip(src_words, ends, strict=True))
        marks.append(mark._replace(place=place))
    return numbered_back(placed(words, marks, matrix[rows]), source.symbols)


def _word_weights(
    source: SourcePart, tgt_ids: Sequence[int], weights: Tensor, tokenizer: Tokenizer
) -> tuple[list[Word], list[Word], Weights]:
    """The words of both sides, and the attention of each target word for each of the source."""
    n_tags = len(tokenizer.src_tags)
    src_words, of_src = words_of(tokenizer.src_pieces(source.ids[n_tags:]))
    tgt_words, of_tgt = words_of(tokenizer.tgt_pieces(tgt_ids))
    matrix = of_tgt @ weights[: len(tgt_ids), n_tags : len(source.ids)].double().numpy() @ of_src.T
    is_word = [np.array([any(map(str.isalnum, one.text)) for one in words], bool) for words in (src_words, tgt_words)]
    matrix[np.ix_(~is_word[1], is_word[0])] = 0  # a full stop attends to words that it does not translate
    return src_words, tgt_words, matrix / np.maximum(of_tgt.sum(1, keepdims=True), 1)


def usual_firsts(
    translated: Sequence[tuple[SourcePart, Sequence[int]]], tokenizer: Tokenizer, model: Transformer
) -> Iterator[list[int]]:
    """For each part and the ids of its translation, of which there are some: with which piece its terms' own words begin."""
    weights = cross_attention(model, [(source.ids, ids) for source, ids in translated])
    for (source, ids), of_part in zip(translated, weights, strict=True):
        src_words, _, matrix = _word_weights(source, ids, of_part, tokenizer)
        firsts = words_of(tokenizer.tgt_pieces(ids))[1].argmax(1)
        ends = np.array(list(accumulate(len(word.space) + len(word.text) for word in src_words)))
        found = list[int]()
        for hit in source.terms:
            is_own = (ends > hit.start) & (ends - [len(word.text) for word in src_words] < hit.end)
            found.append(ids[firsts[matrix[:, is_own].sum(1).argmax()]])
        yield found


def words_of(pieces: Sequence[str]) -> tuple[list[Word], Weights]:
    """The words that pieces spell, and which pieces belong to which: 1 or 0, (words, pieces). Characters that are no letters, and
    those of scripts without spaces, are words by themselves."""
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
