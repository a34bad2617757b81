"""What a request may want of a translator, and its doing: translations, scores of them, or all that the page shows of them.

Letters in shapes: S source words, T target words, as they are shown; the model reads and writes others.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

import numpy as np

from mt_cli.data.spans import Markup
from mt_cli.decoding.alignment import words_of
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.placement import Weights
from mt_cli.decoding.translator import Translator
from mt_cli.explain.doubts import Doubt, ExplainedLine
from mt_cli.explain.estimate import explain_estimated
from mt_cli.serve.translators import Pair, Served

_OF_SOURCE = {"unattended", "unseen"}  # doubts that name words or characters of the source


class Task(NamedTuple):
    """What a request wants; requests with equal tasks are translated together."""

    pair: Pair
    markup: Markup | None = None
    n_best: int = 1
    kind: Literal["translated", "explained", "scored"] = "translated"
    glossary: tuple[tuple[str, str], ...] = ()


def do(served: Served, task: Task, lines: list[str]) -> list[Any]:
    """For each line its texts, best first; what the page shows of it; or the mean log-probability of its tokens."""
    options: dict[str, Any] = {"n_best": task.n_best} if task.n_best > 1 else {}
    translator = served.translator
    if task.glossary:
        options["glossary"] = dict(task.glossary)
        if type(translator) is not Translator:  # CTranslate2 has no search for terms
            parts = translator.models, translator.tokenizer, translator.config, translator.profile, translator.origin
            translator = Translator(*parts)
    elif task.n_best > 1 and type(translator) is not Translator:
        options["length_normalization"] = "average"  # the one that CTranslate2 has
    translations = translator.translations(lines, markup=task.markup, **options)
    if task.kind == "scored":
        return [_score(served, one) for one in translations]
    if task.kind == "translated":
        return [one.texts for one in translations]
    return [_shown(served, line) for line in explain_estimated(translator, translations, served.estimate)]


def _score(served: Served, translation: Translation) -> float:
    """That of a copy is very low: it is no translation."""
    if translation.text == translation.source:
        return -100.0
    pairs = [(part.src_ids, part.hypotheses[0].ids) for part in translation.parts]
    scores = [one for of_part in served.translator.token_scores(pairs) for one in of_part]
    return max(-100.0, sum(scores) / len(scores))


def _shown(served: Served, line: ExplainedLine) -> dict[str, Any]:
    """What `/mt/translate` answers."""
    source, target = (_words(text) for text in (line.translation.source, line.translation.text))
    weights = _attention(served, line, source, target)
    return {
        "source": line.translation.source,
        "texts": line.translation.texts,
        "estimate": None if line.chrf is None else round(line.chrf, 1),
        "is_low": bool(served.estimate and line.chrf is not None and line.chrf < served.estimate.low),
        "doubts": [_doubt(one, source, target, weights) for one in line.doubts],
        "source_words": source,
        "target_words": target,
        "attention": weights.round(3).tolist(),
    }


def _doubt(doubt: Doubt, source: Sequence[str], target: Sequence[str], weights: Weights) -> dict[str, Any]:
    """With the target words that it is about: those that it names, or that attended most to the source words that it names."""
    named = doubt.detail.split()
    if doubt.kind in _OF_SOURCE:
        chosen = [
            i
            for i, word in enumerate(source)
            if word in named or (doubt.kind == "unseen" and set(word) & set(doubt.detail))
        ]
        words = sorted({int(weights[:, i].argmax()) for i in chosen}) if len(target) else []
    else:
        words = [i for i, word in enumerate(target) if word in named and doubt.kind != "length"]
    return {"kind": doubt.kind, "detail": doubt.detail, "words": words}


def _words(text: str) -> list[str]:
    """The words and the other characters of a text, without spaces."""
    words, _ = words_of(list(text.replace(" ", "\u2581")))
    return [word.text for word in words if word.text]


def _attention(served: Served, line: ExplainedLine, source: Sequence[str], target: Sequence[str]) -> Weights:
    """(T,S), from 0 to 1: how much each word that is shown attended to each source word that is shown."""
    tokenizer = served.translator.tokenizer
    n_tags, src_words, tgt_words, blocks = len(tokenizer.src_tags), list[str](), list[str](), list[Weights]()
    for part, attention in zip(line.translation.parts, line.attention, strict=True):
        own_src, of_src = words_of(tokenizer.src_pieces(part.src_ids[n_tags:]))
        own_tgt, of_tgt = words_of(tokenizer.tgt_pieces(part.hypotheses[0].ids))
        weights = attention.weights[: of_tgt.shape[1], n_tags : n_tags + of_src.shape[1]].double().numpy()
        blocks.append(of_tgt @ weights @ of_src.T / np.maximum(of_tgt.sum(1, keepdims=True), 1))
        src_words += [word.text for word in own_src]
        tgt_words += [word.text for word in own_tgt]
    matrix, row, column = np.zeros((len(tgt_words), len(src_words))), 0, 0
    for block in blocks:
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return _same(target, tgt_words) @ matrix @ _same(source, src_words).T


def _same(shown: Sequence[str], own: Sequence[str]) -> Weights:
    """(shown, own): 1 where a word that is shown is one of the model's, which may have another case or be a symbol."""
    found = np.zeros((len(shown), len(own)))
    matcher = SequenceMatcher(None, [*map(str.casefold, shown)], [*map(str.casefold, own)], autojunk=False)
    for kind, start, end, own_start, own_end in matcher.get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == own_end - own_start):
            found[range(start, end), range(own_start, own_end)] = 1
    return found
