"""What gives reason to doubt a translation, without a reference: output that loops, source that was copied, a length
unlike training's or cut off, source words that no target word attended to, characters that the model has never read.

The thresholds were set by looking at the translations of Multi30k's test sets (English to German and to French) and at
inputs that were spoiled on purpose. A doubt is a reason to look, not a proof.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from mt_cli.decoding.translator import Part, Translation, Translator
from mt_cli.explain.attention import Attended
from mt_cli.text.languages import writes_spaces
from mt_cli.text.profile import CorpusProfile

_LOOPED_TOKENS = 4  # tokens that repeat those directly before them; a doubled word, even of three pieces, is no loop
_LONGEST_LOOP = 16  # tokens of a stretch; a longer one does not come twice within the length of a sentence
_COPIED_WORDS = 3  # in a row; fewer are a name
_COPIED_SHARE = 0.5  # of the words of the translation; less is a long name in a sentence
_UNATTENDED = 0.25  # of the attention that a token of the source can expect
_SHOWN = 10  # words or characters that a doubt names


class Doubt(NamedTuple):
    kind: str  # looped, copied, length, unattended or unseen
    detail: str


def doubts(translator: Translator, translation: Translation, attended: Sequence[Attended]) -> list[Doubt]:
    """The doubts about a line's best translation; `attended` has the cross-attention of each of its parts.

    Length and characters are compared with training only where the run has kept what training was like.
    """
    profile = translator.profile
    found = [_looped(translator, part) or _copied(translator, part) for part in translation.parts]
    found += [_cut_off(part) for part in translation.parts]
    found += [_unattended(translator, part, own) for part, own in zip(translation.parts, attended, strict=True)]
    if profile is not None and translation.parts:
        found += [_length(profile, translation.parts), _unseen(profile, translation.source)]
    kinds = groupby(sorted(filter(None, found), key=lambda doubt: doubt.kind), key=lambda doubt: doubt.kind)
    return [next(of_kind) for _, of_kind in kinds]  # of a line in many parts the first of each kind


def _looped(translator: Translator, part: Part) -> Doubt | None:
    n_tokens, stretch = _longest_loop(part.hypotheses[0].ids)
    # A source that says a thing again and again is translated so.
    if n_tokens < _LOOPED_TOKENS or n_tokens <= 2 * _longest_loop(part.src_ids)[0]:
        return None
    return Doubt("looped", translator.tokenizer.decode_tgt(stretch))


def _longest_loop(ids: Sequence[int]) -> tuple[int, list[int]]:
    """The most tokens in a row that repeat the stretch directly before them, and that stretch."""
    most, repeated = 0, list[int]()
    for n in range(1, min(len(ids) // 2, _LONGEST_LOOP) + 1):
        run = 0
        for i in range(n, len(ids)):
            run = run + 1 if ids[i] == ids[i - n] else 0
            if run >= n and run > most:
                most, repeated = run, list(ids[i - run - n + 1 : i - run + 1])
    return most, repeated


def _copied(translator: Translator, part: Part) -> Doubt | None:
    src = _words(translator.tokenizer.decode_src(part.src_ids))
    tgt = _words(translator.tokenizer.decode_tgt(part.hypotheses[0].ids))
    same = SequenceMatcher(None, src, tgt, autojunk=False).find_longest_match()
    if same.size < _COPIED_WORDS or same.size <= _COPIED_SHARE * len(tgt):
        return None
    return Doubt("copied", " ".join(tgt[same.b : same.b + same.size][:_SHOWN]))


def _words(text: str) -> list[str]:
    """Words of letters with their marks, and single characters of Chinese and Japanese, which put no spaces between."""
    spelt = (char if unicodedata.category(char)[0] in "LM" else " " for char in text)
    return re.sub(r"([\u3040-\u30ff\u3400-\u9fff])", r" \1 ", "".join(spelt)).split()


def _cut_off(part: Part) -> Doubt | None:
    best = part.hypotheses[0]
    if best.is_complete:
        return None
    return Doubt("length", f"cut off after {len(best.ids)} tokens for {len(part.src_ids)} of the source")


def _length(profile: CorpusProfile, parts: Sequence[Part]) -> Doubt | None:
    n_src, n_tgt = (
        sum(len(ids) + 1 for ids in side)
        for side in zip(*((p.src_ids, p.hypotheses[0].ids) for p in parts), strict=True)
    )
    least, most = profile.usual_lengths(n_src)
    if least <= n_tgt <= most:
        return None
    return Doubt("length", f"{n_tgt} tokens for {n_src} of the source; in training {least} to {most}")


def _unattended(translator: Translator, part: Part, attended: Attended) -> Doubt | None:
    profile = translator.profile
    # Every target token has an attention of 1 to give, and there are so many of them for each source token.
    expected = profile.length_ratio if profile is not None else 1.0
    words = []
    for first, last in _word_bounds(translator, part.src_ids):
        word = translator.tokenizer.decode_src(part.src_ids[first:last])
        if float(attended.received[first:last].sum()) < _UNATTENDED * expected and any(map(str.isalnum, word)):
            words.append(word)
    return Doubt("unattended", " ".join(words[:_SHOWN])) if words else None


def _word_bounds(translator: Translator, src_ids: list[int]) -> list[tuple[int, int]]:
    """Where each word begins and ends among the source ids; a piece is a word where a language writes no spaces."""
    pieces = translator.tokenizer.src_pieces(src_ids)
    is_spaced = writes_spaces(translator.config.data.src_lang)
    starts = [
        i for i, piece in enumerate(pieces)
        if i == 0 or piece.startswith("▁") or not (is_spaced or piece.startswith("<0x"))
    ]  # fmt: skip
    return list(zip(starts, [*starts[1:], len(pieces)], strict=True))


def _unseen(profile: CorpusProfile, source: str) -> Doubt | None:
    seen = set(profile.characters)
    unseen = dict.fromkeys(char for char in source if char not in seen and char != " ")
    return Doubt("unseen", "".join(list(unseen)[:_SHOWN])) if unseen else None
