"""What the training text is like, and text as people write it read in that way: other quotation marks, digits and
capitals as it has them, words with unknown characters as spans; what none of its lines begins or ends with is put
around the translation."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from mt_cli.data.languages import lower, upper, writes_spaces
from mt_cli.data.normalize import UNSPACED, is_letter, words
from mt_cli.data.spans import HELD, Markup, hold, hold_between_tags, put_back, stays_inside
from mt_cli.data.spelling import Spelling

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FAMILIES = (  # characters that may stand for each other
    "\"“”„“«»‟”〝〞「」『』", "'’‘‚‹›‛´`′ʼ", "-‐‑‒–—―−", ".。．｡", ",，、､", "(（)）[［]］【】〔〕", "·•‧・",
)  # fmt: skip
_FAMILY = {char: family for family in FAMILIES for char in family}
_OPENING = frozenset("“„«‟〝「『‘‚‹‛(（[［【〔")
_PLAIN = {ord(char): family[0] for char, family in _FAMILY.items()}
_IN_PAIRS = frozenset("\"'(")  # the plain forms of what is opened and closed
_HELD = re.compile(HELD)
_ELLIPSIS = re.compile("[.。]{2}|[…⋯]")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LONGEST_EDGE = 4  # characters of what a line begins or ends with that are counted
_USUAL = 0.001  # share of the lines that begin or end so, from which on the model has learnt it
_MOSTLY = 0.9  # of the lines
_MAX_WORDS = 300_000  # counted at a time: about 50 MB
_MAX_CAPITALS = 50_000  # words that are kept
_OUTLIERS = 0.001  # share of the pairs at either end that counts as unusual: any corpus has a few misaligned pairs
_LEAST_IN_CAPITALS, _LEAST_IN_TITLE = 4, 4  # letters of a text in capitals, words of one in title case


# Sentences -------------------------------------------------------------------------------------------------------------

# Several marks may follow each other (！？), and closing quotes may follow them. A language with spaces between words has
# a space between sentences, too (Latin, Arabic, Urdu, Devanagari, Armenian, Ethiopic); Chinese, Japanese, Burmese and
# Khmer need none.
SENTENCE_END = re.compile(r"[.!?…؟۔।॥։።፧][\"'”’»)\]]*(?= )|(?:[。！？｡။។៕][”’」』）]*+)++")
SHORT_ABBREVIATION = re.compile(r"(?<!\w)(\d\d?|[^\W\d_]\w?)\.$")  # Dr., the ordinal 3., the ends of U.S. and e.g.
PAUSE = "(?:[.…]{2}|[…\"'”’»])"  # ends a sentence only where no small letter follows: "Stop!" he said.
COMMA = "[,;:](?: |$)|[،؛၊፣，、；] ?"  # not within 12,500 or 12:30
_PAUSE_AT_END = re.compile(f"{PAUSE}$")
_MAX_LETTERS = 20  # of an abbreviation
_MIN_COUNT = 5  # repeated lines make two or three occurrences of a rare word look like a habit
_MAX_SEVERAL = 0.1  # inner sentence ends for each line
MAX_ABBREVIATIONS = 1_000


def sentences(text: str, abbreviations: Collection[str] = ()) -> list[str]:
    """The sentences of normalized text; together they are the text. A full stop ends none after one of `abbreviations`,
    one letter, two letters of which the first is a capital, or a number of one or two digits."""
    ends = [match.end() for match in _ends(text) if _word_before(match) not in abbreviations]
    # A sentence has a letter or a digit: anything else that follows an end belongs to the sentence before it.
    ends = [end for end, next_end in pairwise([*ends, len(text)]) if re.search(r"\w", text[end:next_end])]
    return [text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def _ends(text: str) -> list[re.Match[str]]:
    """The marks that end a sentence if no abbreviations are known but the short ones."""
    found = []
    for match in SENTENCE_END.finditer(text):
        if text[match.end() + 1 : match.end() + 2].islower() and _PAUSE_AT_END.search(
            text, match.end() - 2, match.end()
        ):
            continue
        last = text[max(0, match.end() - 4) : match.end()]
        # To `\w` vowel signs and points end a word. In fact they are part of one, and of no abbreviation.
        last = "".join("x" if unicodedata.category(char).startswith("M") else char for char in last)
        short = SHORT_ABBREVIATION.search(last)
        # Two letters need a capital: `Dr.`, but not `do.`
        if short is None or not (len(short[1]) == 1 or short[1].isdigit() or short[1][0].isupper()):
            found.append(match)
    return found


def _word_before(end: re.Match[str]) -> str | None:
    """The word directly before a full stop, such as `Mrs`; None if there is no word or the mark is another one."""
    if end[0] != ".":
        return None
    before = end.string[max(0, end.start() - _MAX_LETTERS - 1) : end.start()]
    last = "".join(words(before)[-1:])
    return last if last and before.endswith(last) and is_letter(last[-1]) and len(last) <= _MAX_LETTERS else None


class AbbreviationCounter:
    """Learns abbreviations of a text with a sentence on each line, where few words stand before a full stop inside a
    line: one that mostly does is one, as `Mrs`, not `lamp` (Kiss and Strunk 2006)."""

    def __init__(self) -> None:
        self._n_lines, self._n_ends = 0, 0
        self._all, self._before_stop = Counter[str](), Counter[str]()

    def add(self, text: str) -> None:
        """Counts a line of normalized text."""
        self._n_lines += 1
        self._all.update(word for word in words(text) if len(word) <= _MAX_LETTERS)
        ends = _ends(text)
        self._n_ends += len(ends)
        self._before_stop.update(word for end in ends if (word := _word_before(end)) is not None)
        if len(self._all) > _MAX_WORDS:  # only the more frequent half is kept, as in Manku and Motwani 2002
            self._all = Counter(dict(self._all.most_common(_MAX_WORDS // 2)))
            self._before_stop = Counter({word: n for word, n in self._before_stop.items() if word in self._all})

    def abbreviations(self) -> tuple[str, ...]:
        """Sorted. None if many lines hold several sentences, because there any word can stand before an inner stop."""
        found = {word: n for word, n in self._before_stop.items() if n >= _MIN_COUNT and n > self._all[word] - n}
        if self._n_ends - sum(found.values()) > _MAX_SEVERAL * self._n_lines:
            return ()
        return tuple(sorted(sorted(found, key=lambda word: -found[word])[:MAX_ABBREVIATIONS]))


def halves(text: str) -> list[str]:
    """Two parts of at least two characters: cut at the middle comma of the middle half, at a space, or in the middle."""
    middle, quarter = len(text) // 2, len(text) // 4
    window = text[middle - quarter : middle + quarter]
    for pattern in (COMMA, " "):
        cuts = [middle - quarter + match.end() for match in re.finditer(pattern, window)]
        cuts = [cut for cut in cuts if 0 < cut < len(text)]
        if cuts:
            middle = min(cuts, key=lambda cut: abs(cut - middle))
            break
    return [text[:middle].strip(), text[middle:].strip()]


# The profile -----------------------------------------------------------------------------------------------------------


class Style(BaseModel):
    """How a side of the training text is written."""

    model_config = ConfigDict(strict=True, frozen=True)

    characters: str = ""  # sorted
    starts: tuple[str, ...] = ()  # what its lines begin with before the first word, the most frequent first
    ends: tuple[str, ...] = ()  # and what they end with after the last word
    has_ends: bool = False  # whether nearly all lines end with one of these
    has_capital_starts: bool = False  # whether nearly all lines that can begin with a capital
    capitals: dict[str, str] = Field({}, max_length=_MAX_CAPITALS)  # words that have capitals also within a line


_Deviation = Annotated[float, Field(ge=-1e6, le=1e6)]


class CorpusProfile(BaseModel):
    """What a run keeps of its training text, to compare text with what the model has seen. Lengths in tokens, end
    symbol counted."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    longest_src: int = Field(ge=0)
    several_sentences: float = Field(ge=0, le=1)  # share of the source lines that hold more than one sentence
    length_ratio: float = Field(ge=0, le=1e6)  # target tokens for each source token
    shortest_deviation: _Deviation  # of a target's length from that ratio, over the square root of the source's length
    longest_deviation: _Deviation
    style: Style  # of the source
    tgt_characters: str = ""  # sorted
    abbreviations: tuple[str, ...] = Field((), max_length=MAX_ABBREVIATIONS)  # of the source
    spelling: Spelling = {}  # characters of the source that are read as others

    def usual_lengths(self, n_src: int) -> tuple[int, int]:
        """The least and the most tokens of a translation; the variance grows with the length (Gale and Church 1993)."""
        usual, scale = self.length_ratio * n_src, n_src**0.5
        least, most = usual + self.shortest_deviation * scale, usual + self.longest_deviation * scale
        return max(0, math.floor(least)), math.ceil(most)

    @property
    def characters(self) -> str:
        return self.style.characters


class ProfileBuilder:
    """Collects what a profile says of the source text, line by line; memory does not grow with the text."""

    def __init__(self, abbreviations: tuple[str, ...] = (), known: Iterable[str] = ()):
        """`known`: characters that were read in an earlier training."""
        self._abbreviations, self._known, self._tgt_characters = abbreviations, set(known), set[str]()
        self._starts, self._ends, self._words, self._characters = (Counter[str]() for _ in range(4))
        self._n_lines = self._n_several = self._n_cased = self._n_capital = 0

    def add(self, src: str, tgt: str) -> None:
        """Counts a normalized pair in which symbols stand for spans."""
        self._n_lines += 1
        self._n_several += len(sentences(src, self._abbreviations)) > 1
        self._characters.update(src)
        self._tgt_characters.update(tgt)
        before, core, after = _split(src)
        self._starts[before[-_LONGEST_EDGE:]] += 1
        self._ends[after[:_LONGEST_EDGE]] += 1
        if core.lower() != core.upper() and not core.isupper():
            self._n_cased += core[:1].lower() != core[:1].upper()
            self._n_capital += core[:1].isupper()
            self._words.update(words(core)[1:])
            if len(self._words) > _MAX_WORDS:  # only the more frequent half is kept, as in Manku and Motwani 2002
                self._words = Counter(dict(self._words.most_common(_MAX_WORDS // 2)))

    def style(self) -> Style:
        forms = dict[str, tuple[int, str]]()
        for word, n in self._words.items():
            forms[word.lower()] = max(forms.get(word.lower(), (0, "")), (n, word))
        frequent = sorted(((n, word) for low, (n, word) in forms.items() if word != low and n >= 2), reverse=True)
        least = max(2, _USUAL * self._n_lines)
        starts, ends = (
            tuple(edge for edge, n in edges.most_common() if edge and n >= least and not _HELD.search(edge))
            for edges in (self._starts, self._ends)
        )
        rare = {char for char, n in self._characters.items() if n < least and is_invisible(char)}  # hardly learnt
        characters = self._known | (self._characters.keys() - rare)
        return Style(
            characters="".join(sorted(char for char in characters if not _HELD.match(char))),
            starts=starts,
            ends=ends,
            has_ends=sum(self._ends[end] for end in ends) > _MOSTLY * self._n_lines,
            has_capital_starts=self._n_capital > _MOSTLY * max(1, self._n_cased),
            capitals={word.lower(): word for _, word in frequent[:_MAX_CAPITALS]},
        )

    def profile(
        self, n_src: npt.NDArray[np.int64], n_tgt: npt.NDArray[np.int64], longest_src: int, spelling: Spelling
    ) -> CorpusProfile:
        """The profile of at least one pair, from lengths in tokens, without end symbols: of pairs, and of the longest
        source."""
        import numpy as np  # here, because the command line imports this file and starts without numpy

        src, tgt = n_src + 1, n_tgt + 1
        ratio = tgt.sum() / src.sum()
        shortest, longest = np.quantile((tgt - ratio * src) / np.sqrt(src), (_OUTLIERS, 1 - _OUTLIERS)).tolist()
        return CorpusProfile(
            longest_src=longest_src + 1,
            several_sentences=self._n_several / self._n_lines,
            length_ratio=float(ratio),
            shortest_deviation=shortest,
            longest_deviation=longest,
            style=self.style(),
            tgt_characters="".join(sorted(self._tgt_characters)),
            abbreviations=self._abbreviations,
            spelling=spelling,
        )


def caseless(characters: str) -> str:
    """Those that are letters of scripts without capitals."""
    is_latin = lambda char: char in "ªº" or unicodedata.name(char, "").startswith("LATIN")
    return "".join(char for char in characters if unicodedata.category(char) == "Lo" and not is_latin(char))


# Reading -------------------------------------------------------------------------------------------------------------


def _split(text: str) -> tuple[str, str, str]:
    """What stands before the first word, from there to the last one, and what stands behind it."""
    start = next((i for i, char in enumerate(text) if _is_of_word(char)), len(text))
    end = next((i for i in range(len(text), start, -1) if _is_of_word(text[i - 1])), start)
    return text[:start], text[start:end], text[end:]


def _is_of_word(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMN" or stays_inside(char)


class Sentence(NamedTuple):
    """A sentence as the model reads it, with symbols for its spans, and what stands around its translation."""

    before: str
    text: str  # '' where there is nothing to translate
    after: str
    is_in_capitals: bool = False
    has_added_end: bool = False
    tgt_lang: str = ""

    def written(self, translation: str) -> str:
        """The translation as the source is written: in capitals, without a full stop."""
        lacks_stop = self.has_added_end and plain_form(translation[-1:]) == "."
        return self.cased(translation[:-1] if lacks_stop else translation)

    def cased(self, text: str) -> str:
        return upper(text, self.tgt_lang) if self.is_in_capitals else text


class Reader:
    """Reads source text in the style of the training text."""

    def __init__(self, style: Style | None, tgt_characters: str = "", src_lang: str = "", tgt_lang: str = ""):
        """`style`: None where it is not known; then spans are found, and all else stays as it is."""
        self._src_lang, self._tgt_lang = src_lang, tgt_lang
        self._style, self._source = style or Style(), Variants(style.characters) if style is not None else None
        self._target = Variants(tgt_characters, is_edge=True, takes_narrow=writes_spaces(tgt_lang))
        self._capitals = {lower(word, src_lang): word for word in self._style.capitals.values()}
        self._caseless = frozenset(caseless(self._style.characters))
        self._starts, self._ends = (
            {plain_form(edge): edge for edge in reversed(edges)} for edges in (self._style.starts, self._style.ends)
        )

    def visible(self, text: str, spans: list[str], markup: Markup | None = None) -> str:
        """A text without invisible characters that training hardly has, and with symbols for its spans, which are added to
        those of the line; in markup its tags have some already. They are found before anything is dropped, so that an
        emoji of several characters stays whole."""
        text, found = (hold if markup is None else hold_between_tags)(text, n_before=len(spans))
        spans += found
        if self._source is not None and not text.isascii():
            for char in set(text):
                if self._source.is_unknown(char) and is_invisible(char):
                    text = text.replace(char, "")
        return text

    def sentence(self, text: str, spans: list[str]) -> Sentence:
        """A sentence of a visible, normalized line. Further spans of the line are added to `spans`."""
        before, core, after = _split(text)
        if not any(map(str.isalpha, core)):
            return Sentence(text, "", "")
        if self._source is None:
            return Sentence("", text, "")

        def is_tag(char: str) -> bool:
            return put_back(char, spans).startswith("<") and bool(_HELD.match(char))

        while before and is_tag(before[-1]):
            before, core = before[:-1], before[-1] + core
        while after and is_tag(after[0]):
            core, after = core + after[0], after[1:]
        # What lines of training begin or end with belongs to the sentence, as near to the words as it stands.
        starts = (before[i:] for i, char in enumerate(before) if not char.isspace())
        ends = (after[: i + 1] for i in reversed(range(len(after))) if not after[i].isspace())
        start = next((one for one in starts if plain_form(one) in self._starts), "")
        end = next((one for one in ends if plain_form(one) in self._ends), "")
        if _ELLIPSIS.match(after) and plain_form(after) not in self._ends:
            end = ""
        before, after = before[: len(before) - len(start)], after[len(end) :]
        around = before + after
        if around and (_IN_PAIRS.intersection(plain_form(core), plain_form(around)) or any(map(is_tag, around))):
            # A quotation may begin or end here.
            start, end, before, after = before + start, end + after, "", ""
        start, end = self._starts.get(plain_form(start), start), self._ends.get(plain_form(end), end)
        is_in_capitals = core.isupper() and sum(map(str.isupper, core)) >= _LEAST_IN_CAPITALS
        small = lower(core, self._src_lang)
        is_in_capitals &= self._capitals.get(small) != core
        is_title = core.istitle() and core.count(" ") + 1 >= _LEAST_IN_TITLE
        if not self._caseless.isdisjoint(core):
            is_in_capitals = is_title = False  # NASA says nothing of the Chinese words around it
        if is_in_capitals or is_title or core == small != core.upper():
            core = WORD.sub(lambda word: self._capitals.get(word[0], word[0]), small)
            core = upper(core[:1], self._src_lang) + core[1:] if self._style.has_capital_starts else core
        has_added_end = self._style.has_ends and not end
        core = self._known(f"{start}{core}{self._style.ends[0] if has_added_end else end}", spans)
        before, after = before.translate(self._target), after.translate(self._target)
        return Sentence(before, core, after, is_in_capitals, has_added_end, self._tgt_lang)

    def _known(self, text: str, spans: list[str]) -> str:
        """The text with characters that training has, and symbols for words with other letters, and for other signs."""
        assert self._source is not None
        text = text.translate(self._source)
        unknown = [char for char in set(text) if self._source.is_unknown(char)]
        if not unknown:
            return text
        letters = "".join(re.escape(char) for char in unknown if unicodedata.category(char)[0] in "LM")
        others = "".join(re.escape(char) for char in unknown if unicodedata.category(char)[0] not in "LM")
        known = rf"[^\W\d_{UNSPACED}{letters}]*+"
        patterns = [rf"(?:{known}[{letters}]+)+{known}"] * bool(letters) + [f"[{others}]+"] * bool(others)
        text, found = hold(text, re.compile("|".join(patterns)), len(spans))
        spans += found
        return text


@functools.lru_cache(10_000)
def plain_form(edge: str) -> str:
    """How it is compared: one character of each family, and no spaces."""
    return unicodedata.normalize("NFKC", edge.replace(" ", "")).translate(_PLAIN)


class Variants(dict[int, str]):
    """For `str.translate`: what each character is read as in a text that has the `known` ones. Filled in as characters
    come."""

    def __init__(self, known: str, is_edge: bool = False, takes_narrow: bool = False):
        """`is_edge`: of what stands around a sentence. `takes_narrow`: also an unknown form instead of a full-width one."""
        self._known, self._is_edge, self._takes_narrow = frozenset(known), is_edge, takes_narrow
        self._of_plain = {unicodedata.normalize("NFKC", char): char for char in reversed(known)}

    def is_unknown(self, char: str) -> bool:
        return char not in self._known and not char.isspace() and not _HELD.match(char)

    def __missing__(self, code: int) -> str:
        char = self[code] = chr(code)
        if not self.is_unknown(char):
            return char
        plain, digit = unicodedata.normalize("NFKC", char), unicodedata.decimal(char, None)
        family = _FAMILY.get(char, "")
        if self._is_edge and not _IN_PAIRS.intersection(family):
            family = ""
        alike = [other for other in family if (other in _OPENING) == (char in _OPENING)]
        if unicodedata.decomposition(char).startswith(("<super>", "<sub>")):
            plain = char  # 10² is not 102
        candidates = [self._of_plain.get(plain), plain, *alike, *family, char.lower(), char.upper()]
        candidates += [] if digit is None else [str(digit)]
        is_narrowed = self._takes_narrow and unicodedata.east_asian_width(char) == "F"
        known = (one for one in candidates if one and self._known.issuperset(one))
        self[code] = found = next(known, plain if is_narrowed else char)
        return found


def is_invisible(char: str) -> bool:
    """Whether readers do not see it: joiners, marks of direction, soft hyphens, variation selectors, tags, fillers."""
    if "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
        return True
    return (
        unicodedata.category(char) in ("Cf", "Cc", "Cn") or char in "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufffc"
    )
