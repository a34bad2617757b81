"""A line is translated in parts that the model can read at once: splits it into these, and says what stands around them."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from mt_cli.data.languages import writes_spaces_between_sentences
from mt_cli.data.normalize import edge_spaces, normalize
from mt_cli.data.reading import CorpusProfile, Reader, Sentence, halves, sentences
from mt_cli.data.spans import HELD, N_SYMBOLS, TAG, Markup, escaped, held, hold_tags, numbered_anew, put_back
from mt_cli.data.spelling import Respelling
from mt_cli.data.tokenizer import MAX_PIECE, Tokenizer
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.terms import Glossary, Hit, annotation, unused

_MIN_PART_TOKENS = 30  # where all training sentences were shorter, shorter parts would lose their context
# Below this share of the training lines, several sentences in a line are taken for mistakes of sentence detection.
_MIN_SHARE_OF_SEVERAL = 0.01
LINE_BREAK = re.compile("(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
_SYMBOL = re.compile(f"({HELD})")


class Mark(NamedTuple):
    """A tag or another span, which stands in the source before the word of number `place`."""

    symbol: str  # what is put into the translation
    span: str  # what it stands for
    place: int
    has_space_before: bool = False
    has_space_after: bool = False


@dataclass(frozen=True)
class SourcePart:
    """A part of a line as the model reads it, and what its translation is written with."""

    before: str  # what stands before its translation
    ids: tuple[int, ...]  # without end symbol
    text: str  # what they spell, with `SYMBOLS`
    symbols: tuple[str, ...]  # those of the line that these stand for
    marks: tuple[Mark, ...]  # spans that the model does not read, such as tags; their places count characters of `text`
    sentence: Sentence
    terms: tuple[Hit, ...] = ()  # of a glossary
    replaces: bool = False  # whether these are written in place of the words that translate theirs
    held_terms: tuple[Hit, ...] = ()  # those that are spans


@dataclass(frozen=True)
class SourceLine:
    """A line with symbols for its spans."""

    parts: list[SourcePart]
    end: str  # what stands behind the last translation: all of a line without anything to translate
    spans: list[str]
    is_markup: bool


@dataclass(frozen=True)
class Part:
    """A part and its translations: best first, or as they were drawn."""

    source: SourcePart
    hypotheses: list[Hypothesis]

    @property
    def src_ids(self) -> list[int]:
        return list(self.source.ids)


@dataclass(frozen=True)
class Translation:
    source: str  # normalized
    texts: list[str]  # best first, or as they were drawn; [''] for a blank line
    scores: list[float]  # of the texts; summed over the parts
    parts: list[Part]  # none for a blank line, several for one that was split

    @property
    def text(self) -> str:
        return self.texts[0]

    @property
    def hits(self) -> list[Hit]:
        """The terms of a glossary in the source."""
        return [hit for part in self.parts for hit in (*part.source.terms, *part.source.held_terms)]

    def unused_hits(self, by_beginning: bool = True) -> list[Hit]:
        """Those of them whose translation is not in the best text."""
        return unused(self.hits, self.text, by_beginning)

    def __str__(self) -> str:
        return self.text


class LineSplitter:
    """Splits a line into parts of at most `max_tokens`, as training text of this `profile` makes it necessary."""

    def __init__(
        self, tokenizer: Tokenizer, max_tokens: int, profile: CorpusProfile | None, src_lang: str, tgt_lang: str
    ):
        self._tokenizer, self.max_tokens = tokenizer, max_tokens
        self.saw_several_sentences, self.abbreviations = True, tuple[str, ...]()
        self.respell = Respelling(profile.spelling if profile is not None else {})
        self.space = " " if writes_spaces_between_sentences(tgt_lang) else ""
        self._keeps_edges, self._reader = profile is not None, Reader(None)
        if profile is None:
            return
        self.max_tokens = min(max_tokens, max(profile.longest_src - 1, _MIN_PART_TOKENS))
        self.saw_several_sentences = profile.several_sentences >= _MIN_SHARE_OF_SEVERAL
        self.abbreviations = profile.abbreviations
        self._reader = Reader(profile.style, profile.tgt_characters, src_lang, tgt_lang)

    def split(self, line: str, markup: Markup | None = None) -> SourceLine:
        """The parts in which a line is translated: usually one, none for a blank line and for text of which the tokenizer
        keeps nothing, as an imported one may. A line break within the line divides it, and is kept."""
        parts, gap = list[SourcePart](), ""
        line, spans = (line, list[str]()) if markup is None else hold_tags(line, markup)
        for text in LINE_BREAK.split(line):
            if not normalize(text):
                gap += text
                continue
            first, last = edge_spaces(text) if self._keeps_edges else ("", "")
            gap += first
            visible = self._reader.visible(text, spans, markup)
            text = self.respell(normalize(visible))
            # A model that never saw several sentences, or none of this length, would translate the first one alone.
            is_one = self.saw_several_sentences and self._encode_if_short(numbered_anew(text)[0]) is not None
            for number, one in enumerate([text] if is_one else sentences(text, self.abbreviations)):
                n_of_markup = len(spans)
                sentence = self._reader.sentence(one, spans)
                if markup is not None:  # what the tokenizer does not know is text, unlike tags
                    spans[n_of_markup:] = map(escaped, spans[n_of_markup:])
                gap += (self.space if number else "") + sentence.before
                for n, part in enumerate(self._parts(sentence.text, sentence, spans)):
                    parts.append(replace(part, before=gap + (self.space if n else "")))
                    gap = ""
                gap += sentence.after
            gap += last
        return SourceLine(parts, gap, spans, markup is not None)

    def _parts(self, text: str, sentence: Sentence, spans: Sequence[str]) -> Iterator[SourcePart]:
        """A sentence, which is cut near its middle until each part is short enough for the model, and has few spans."""
        plain, marks = "", list[Mark]()
        for piece, following in pairwise([*_SYMBOL.split(text), ""]):
            span = put_back(piece, spans) if held(piece) else ""
            # The model does not read tags, nor any span where the tokenizer has no symbols.
            if not span or (self._tokenizer.symbol_ids and not TAG.fullmatch(span)):
                plain += piece.lstrip() if plain.endswith(" ") else piece
            else:
                marks.append(Mark(piece, span, len(plain), plain.endswith(" "), following.startswith(" ")))
        plain, own = numbered_anew(plain.strip())
        ids = self._encode_if_short(plain)
        if len(text) > 1 and (ids is None or len(own) > N_SYMBOLS):
            for half in halves(text):
                yield from self._parts(half, sentence, spans)
        elif ids := ids or self._tokenizer.encode_src(plain):  # one character can take several byte pieces
            yield SourcePart("", tuple(ids), plain, tuple(own), tuple(marks), sentence)

    def _encode_if_short(self, text: str) -> list[int] | None:
        """None for text of more than `max_tokens` tokens."""
        if len(text) > MAX_PIECE * self.max_tokens:  # too long, whatever its pieces are
            return None
        ids = self._tokenizer.encode_src(text)
        return ids if len(ids) <= self.max_tokens else None


def with_terms(line: SourceLine, glossary: Glossary, tokenizer: Tokenizer | None, max_tokens: int) -> SourceLine:
    """The line with the terms of its parts, and for a model that has learnt to use them, which has this `tokenizer`, with
    their translations behind them: of the first ones where it cannot read all. Without a tokenizer they replace what is
    written for them. A span that is a term, such as CO2, is written as its translation."""
    texts = [html.unescape(span) if line.is_markup else span for span in line.spans]
    write = escaped if line.is_markup else str
    spans = [
        write(glossary.terms[text]) if text in glossary.terms else span
        for text, span in zip(texts, line.spans, strict=True)
    ]
    parts = list[SourcePart]()
    for part in line.parts:
        symbols = (*part.symbols, *(mark.symbol for mark in part.marks))
        own = [text for symbol in symbols if (text := put_back(symbol, texts)) in glossary.terms]
        of_spans = tuple(Hit(0, 0, text, glossary.terms[text]) for text in own)
        hits = tuple(glossary.hits(part.text))
        parts.append(replace(part, terms=hits, replaces=bool(hits) and tokenizer is None, held_terms=of_spans))
    line = replace(line, spans=spans)
    if tokenizer is None:
        return replace(line, parts=parts)
    for number, part in enumerate(parts):
        for n in range(len(part.terms), 0, -1):
            text, marks = part.text, part.marks
            for hit in reversed(part.terms[:n]):
                added = annotation(hit.target)
                text = f"{text[: hit.end]}{added}{text[hit.end :]}"
                marks = tuple(one._replace(place=one.place + len(added) * (one.place >= hit.end)) for one in marks)
            if len(ids := tokenizer.encode_src(text)) <= max_tokens:
                parts[number] = replace(part, ids=tuple(ids), text=text, marks=marks)
                break
    return replace(line, parts=parts)
