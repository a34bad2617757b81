"""Holds out a dev and a test set from a corpus that has none, and keeps what repeats them out of training: a pure
function of pairs, order and seed, whichever side is the source. A sentence gives another one away if it has most of its
n-grams of letters (containment: Broder 1997), which serve languages with and without spaces; case, accents, punctuation
and digits do not count."""

import hashlib
import heapq
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Literal

import numpy as np
import numpy.typing as npt

from mt_cli.data.corpus import FormatPlace, Place, SentencePair
from mt_cli.errors import DataError

ReadPairs = Callable[[], Iterable[SentencePair]]
Way = Literal["singly", "in stretches", "in groups"]
"""Whether what is held out together is a pair, a run of lines, or pairs that nearly repeat each other."""
_Sides = tuple[str, str]  # source and target as `letters` gives them

_FEWEST_PAIRS = 40  # distinct ones; a tenth of fewer tells nothing
_LARGEST_SET, _USUAL_SHARE, _SMALL_SET, _LARGEST_SHARE = 1000, 0.05, 50, 0.1
_MAX_LEFT_OUT = 0.03  # of the pairs, for repeating a held-out pair in part or nearly
_MOST_LOST = 0.2  # share of all pairs that are left out so that stretches or groups are held out
_MAX_REPETITIONS = 200  # of a held-out pair; bounds memory
_LARGEST_GROUP = 1000  # the same where whole groups of near repetitions are held out
_SHORTEST = 0.2  # of the mean length of a side: a shorter sentence says too little to be scored
_N_SAMPLED = 1 << 15  # distinct pairs from which the held-out ones are drawn, and up to which they are counted
_N_COUPLES = 2048  # of neighbours that are compared, at least, where there are as many
# The share of neighbours that are more alike than distant lines are is 0.5 in random order. Measured: news in the order
# of the text 0.78; the captions of Multi30k 0.54; shuffled corpora 0.46 to 0.53.
_ALIKE, _STANDARD_ERRORS = 0.6, 3
_WHOLLY = "repeats"


@dataclass
class Split:
    """The places that are not trained on."""

    held_out: dict[Place, str] = field(default_factory=dict)  # -> "dev" or "test"
    left_out: dict[Place, str] = field(default_factory=dict)  # -> reason, such as "repeats line 12 (dev)"
    way: Way = "singly"


@dataclass
class _Candidate:
    place: Place
    sides: _Sides
    repetitions: dict[Place, str] = field(default_factory=dict)  # what repeats this pair, and how


@dataclass
class _Unit:
    """Positions, which count pairs from 0, that go into one set together: one, or a stretch with a border at either end."""

    positions: range
    candidates: list[_Candidate] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


def split(
    read_pairs: ReadPairs,
    seed: int,
    with_test: bool,
    unfit: Container[Place] = (),
    format_place: FormatPlace = lambda place: f"line {place[1]}",
    read_others: ReadPairs = lambda: (),
) -> Split:
    """A dev set, a test set if asked for, and what training leaves out because of them. `unfit`: held out for no set.
    `read_others`: pairs that training has as well, unlike what will be translated. Raises DataError where too few are
    left.

    A set is a random sample of the distinct pairs whose sides have letters, differ, are no longer than 1,000 characters
    and not much shorter than the mean. What (nearly) equals one, on either side, is in no other set and left out of
    training, but of near repetitions no more than 3% of all pairs. Where neighbouring lines are more alike than distant
    ones, as in verses and news, runs of 10 to 25 lines are held out, and the line on either side is left out; single
    lines where that would cost more than a fifth of the pairs or find too few; whole groups, at most a fifth of the
    pairs, where most are nearly repeated.
    """
    names = ["dev", "test"][: 1 + with_test]
    n_pairs, mean_lengths, sample, are_alike = _survey(read_pairs(), seed)
    size = set_size(len(sample), names)
    n_wanted = 3 * size * len(names) + 200  # some are too short, some have too many near repetitions

    def select(way: Way) -> Split:
        if way == "in stretches":  # in random order
            step = min(25, max(10, size // 10), size) + 2
            n, order = n_wanted // (step - 2) + 1, lambda i: _hash(seed, "stretch", i)
            numbers = heapq.nsmallest(n, range(n_pairs // step), key=order)
            units = [_Unit(range(i * step, (i + 1) * step)) for i in numbers]
        else:
            units = [_Unit(range(i, i + 1)) for _, i in heapq.nsmallest(n_wanted, sample.items())]
        _read_candidates(read_pairs(), units, mean_lengths, unfit)
        candidates = [candidate for unit in units for candidate in unit.candidates]
        most = _LARGEST_GROUP if way == "in groups" else _MAX_REPETITIONS
        repeating = _repetitions(chain(read_pairs(), read_others()), [candidate.sides for candidate in candidates])
        for place, number, how in repeating:
            candidate = candidates[number]
            if place != candidate.place and len(candidate.repetitions) <= most:
                candidate.repetitions[place] = how
        if way == "in groups":  # each candidate that is in no earlier one, with those that nearly repeat it
            left, units = {candidate.place: candidate for candidate in candidates}, []
            while left:
                first = left.pop(next(iter(left)))
                near = [left.pop(place) for place in first.repetitions if place in left]
                units.append(_Unit(range(0), [first, *near]))
        return _select(units, names, size, n_pairs, format_place, way)

    def too_small(found: Split) -> dict[str, int]:
        """The sets that are much smaller than they should be, and too small to tell anything."""
        sizes = Counter(found.held_out.values())
        return {name: sizes[name] for name in names if 2 * sizes[name] < min(size, _SMALL_SET)}

    found = select("in stretches" if are_alike else "singly")
    if are_alike and (too_small(found) or len(found.left_out) > _MOST_LOST * n_pairs):
        found = select("singly")
    if too_small(found):
        found = select("in groups")
    for name, n in too_small(found).items():
        few = f"{n} pairs can be held out for a {name} set, at least {(min(size, _SMALL_SET) + 1) // 2} are needed"
        why = "too short, too long, the same on both sides or nearly repeated in too many pairs"
        advice = f"split long lines into sentences, or give --{' and --'.join(names)}"
        raise DataError(f"{few}: the others are {why}; {advice}")
    return found


def repetitions(read_pairs: ReadPairs, sets: Mapping[str, Sequence[SentencePair]]) -> dict[Place, str]:
    """The places that repeat a pair of these sets, which are of other files, or nearly repeat it, with the reason."""
    sides = [_sides(pair) for pairs in sets.values() for pair in pairs]
    names = [f"line {number} of {name}" for name, pairs in sets.items() for number in (pair.line for pair in pairs)]
    found = dict[Place, str]()
    for place, number, how in _repetitions(read_pairs(), sides):
        found.setdefault(place, f"{how} {names[number]}")
    return found


def set_size(n_distinct: int, names: list[str]) -> int:
    """How many pairs each set has: a BLEU or chrF of 1,000 sentences is known to about 1 to 2 points (95% confidence
    interval), of 250 to twice, of 50 to five times as many. Raises DataError for fewer than 40 distinct pairs."""
    if n_distinct < _FEWEST_PAIRS:
        few = f"only {n_distinct} distinct pairs with different words on the two sides, at least {_FEWEST_PAIRS} are needed"
        advice = f"look at the corpus with mt check, add pairs, or give --{' and --'.join(names)}"
        raise DataError(f"{few} to hold out a {' set and a '.join(names)} set; {advice}")
    usual = max(_SMALL_SET, int(_USUAL_SHARE * n_distinct))
    return min(_LARGEST_SET, usual, int(_LARGEST_SHARE * n_distinct))


def _sides(pair: SentencePair) -> _Sides:
    return letters(pair.src), letters(pair.tgt)


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest(), "big")


def _survey(pairs: Iterable[SentencePair], seed: int) -> tuple[int, tuple[float, float], dict[int, int], bool]:
    """The number of pairs; the mean lengths of sources and targets, in letters; the hashes of a random sample of distinct
    pairs, those with the smallest, with the position of each, counted from 0; whether neighbours are more alike than
    distant lines."""
    sample, limit = dict[int, int](), 1 << 64
    couples, step, previous = list[tuple[_Sides, _Sides]](), 1, ("", "")
    n_pairs = n_src = n_tgt = 0
    for position, pair in enumerate(pairs):
        src, tgt = sides = _sides(pair)
        n_pairs, n_src, n_tgt = n_pairs + 1, n_src + len(src), n_tgt + len(tgt)
        if src and tgt and src != tgt and (number := _hash(seed, *sorted(sides))) < limit:
            sample.setdefault(number, position)
            if len(sample) == 2 * _N_SAMPLED:
                sample = dict(heapq.nsmallest(_N_SAMPLED, sample.items()))
                limit = max(sample)
        if position and (position - 1) % step == 0:
            couples.append((previous, sides))
            if len(couples) == 2 * _N_COUPLES:
                couples, step = couples[::2], 2 * step
        previous = sides
    # A sign test, which a few equal lines do not mislead: have neighbours more in common (Jaccard 1901) than the first has
    # with the second of a distant couple? Without equal sentences, and those that have as much.
    distance, more = min(_DISTANCE, len(couples) // 2), list[bool]()
    for side in (0, 1):
        own = [(first[side], second[side]) for first, second in couples]
        n = gram_length(chain.from_iterable(own))
        firsts, seconds = ([grams(couple[i], n) for couple in own] for i in (0, 1))
        for first, second, other in zip(firsts, seconds, seconds[distance:] + seconds[:distance], strict=True):
            near, far = (len(first & one) / max(1, len(first | one)) for one in (second, other))
            if first != second and first != other and near != far:
                more.append(near > far)
    n, n_more = len(more), sum(more)
    are_alike = n_more >= _ALIKE * n and 2 * n_more - n >= _STANDARD_ERRORS * n**0.5 > 0
    return n_pairs, (n_src / max(1, n_pairs), n_tgt / max(1, n_pairs)), sample, are_alike


def _read_candidates(
    pairs: Iterable[SentencePair], units: list[_Unit], mean_lengths: tuple[float, float], unfit: Container[Place]
) -> None:
    """Fills the units with the pairs that may be held out."""
    unit_of = {position: unit for unit in units for position in unit.positions}
    shortest = [max(1, _SHORTEST * mean) for mean in mean_lengths]
    for position, pair in islice(enumerate(pairs), max(unit_of, default=-1) + 1):
        if (unit := unit_of.get(position)) is None:
            continue
        unit.places.append(pair.place)
        src, tgt = sides = _sides(pair)
        is_inside = len(unit.positions) == 1 or position not in (unit.positions[0], unit.positions[-1])
        is_long = max(len(pair.src), len(pair.tgt)) > MAX_COMPARED
        is_short = len(src) < shortest[0] or len(tgt) < shortest[1]
        if is_inside and not is_long and not is_short and src != tgt and pair.place not in unfit:
            unit.candidates.append(_Candidate(pair.place, sides))


def _repetitions(pairs: Iterable[SentencePair], known: list[_Sides]) -> Iterator[tuple[Place, int, str]]:
    """For each pair that repeats one of the known ones or nearly does: its place, the known one's number, and how."""
    indexes = [NearIndex([sides[side] for sides in known]) for side in (0, 1)]
    for pair in pairs:
        sides, place = _sides(pair), pair.place  # one object for all that it repeats
        for number in sorted({n for index, side in zip(indexes, sides, strict=True) for n in index.near(side)}):
            equal = [a == b for a, b in zip(sides, known[number], strict=True)]
            yield place, number, _WHOLLY if all(equal) else "repeats a side of" if any(equal) else "nearly repeats"


def _select(
    units: list[_Unit], names: list[str], size: int, n_pairs: int, format_place: FormatPlace, way: Way
) -> Split:
    """A unit goes to the set that lacks most; of it, what repeats none of another set and costs training not too much."""
    held_out, beside, near = dict[Place, str](), dict[Place, str](), dict[Place, dict[str, str]]()  # near: by set
    n_free, n_spent, in_groups = dict.fromkeys(names, size), 0, way == "in groups"
    most, most_lost = (_LARGEST_GROUP, _MOST_LOST) if in_groups else (_MAX_REPETITIONS, _MAX_LEFT_OUT)
    for unit in units:
        name, chosen = max(names, key=lambda name: n_free[name]), list[Place]()
        for place, found in ((candidate.place, candidate.repetitions) for candidate in unit.candidates):
            near_sets = {held_out.get(other, name) for other in found} | near.get(place, {}).keys()
            is_known = any(how == _WHOLLY and other in held_out for other, how in found.items())
            n_lost = sum(how != _WHOLLY and other not in near for other, how in found.items())
            n_due = size * len(names) if in_groups else len(held_out) + 1  # the first of a group costs the others, too
            budget = most_lost * n_pairs * n_due / (size * len(names))
            is_too_near = is_known or bool(near_sets - {name}) or len(found) > most
            if not n_free[name] or is_too_near or n_spent + n_lost > budget:
                continue
            n_spent += n_lost
            n_free[name] -= 1
            held_out[place] = name
            chosen.append(place)
            for other, how in found.items():
                near.setdefault(other, {})[name] = f"{how} {format_place(place)} ({name})"
        for place in unit.places if chosen else []:
            nearest = min(chosen, key=lambda held: (abs(held[0] - place[0]), abs(held[1] - place[1])))
            beside[place] = f"beside {format_place(nearest)} ({name})"
    reasons = beside | {place: next(iter(found.values())) for place, found in near.items()}
    return Split(held_out, {place: reasons[place] for place in sorted(reasons) if place not in held_out}, way)


# Near repetition --------------------------------------------------------------------------------------------------------

MAX_COMPARED = 1000  # characters of a line that are looked at

# Tried on the captions of Multi30k, a corpus made from patterns, and news: with these two, fewer than 1 in 100 held-out
# sentences has 80% of its words, or an edit ratio (difflib) of 0.9, in common with a training sentence.
NEAR = 0.65
_BITS = 16  # of an n-gram: 4 letters of an alphabet or 2 of Chinese; many sentences share shorter ones by chance
_MANY = 6  # times the length of an n-gram: n-grams of a sentence that can be recognized within a longer one
_MANY_POSSIBLE = 100
_DISTANCE = 50  # couples: far enough for another story, near enough for the same part of a mixed corpus

# Accents and points, too; the apostrophes that Unicode calls letters; the line that lengthens Arabic words. But not the
# vowel signs of scripts from India to Cambodia and the sound marks of kana, which Python does not count as letters.
_SCRIPTS = chain(range(0x900, 0x10A0), range(0x1700, 0x1D00), range(0x3099, 0x3100), range(0xA800, 0xAC00))
_VOWEL_SIGNS = "".join(char for char in map(chr, _SCRIPTS) if unicodedata.category(char) in {"Mn", "Mc"})
_NO_LETTERS = re.compile(rf"(?:[^\w{_VOWEL_SIGNS}]|[\d_\u02b9-\u02df\u0640\ua78b\ua78c])+")


def letters(text: str) -> str:
    """The letters of a sentence as they are compared; of a long one, those of its beginning."""
    text = text[:MAX_COMPARED]
    return _NO_LETTERS.sub("", (text if text.isascii() else unicodedata.normalize("NFKD", text)).casefold())


def gram_length(sentences: Iterable[str]) -> int:
    """How many letters an n-gram has, from sentences that `letters` gave: so many that it carries some 16 bits."""
    counts = Counter(chain.from_iterable(sentences))
    total = counts.total()
    bits = sum(count / total * math.log2(total / count) for count in counts.values())
    return min(6, max(2, round(_BITS / max(bits, 1))))


def grams(sentence: str, n: int) -> set[str]:
    """The n-grams of what `letters` gave: the whole where it is shorter, none where it is empty."""
    return {sentence[i : i + n] for i in range(max(1, len(sentence) - n + 1))} - {""}


class NearIndex:
    """Finds those of its sentences that another sentence gives away. Memory grows with its own sentences alone."""

    def __init__(self, sentences: list[str]):
        """`sentences` are what `letters` gave; those without letters are never found."""
        self._n = gram_length(sentences)
        self._own = [grams(sentence, self._n) for sentence in sentences]
        frequency = Counter(gram for own in self._own for gram in own)
        rare, others, n_needed = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list), []
        for number, own in enumerate(self._own):
            # Looking for the rarer half of the n-grams is quicker by far. Who shows the share `NEAR` of all n-grams lacks
            # so few that the rest must be in this half (prefix filtering, Chaudhuri, Ganti and Kaushik 2006).
            ordered, n_rarer = sorted(own, key=frequency.__getitem__), (len(own) + 1) // 2
            n_needed.append(n_rarer - (len(own) - math.ceil(NEAR * len(own) - 1e-9)))
            for holders, grams_of_half in ((rare, ordered[:n_rarer]), (others, ordered[n_rarer:])):
                for gram in grams_of_half:
                    holders[gram].append(number)
        arrays = lambda half: {gram: np.array(numbers, dtype=np.int32) for gram, numbers in half.items()}
        self._rare, self._others = arrays(rare), arrays(others)
        self._n_needed = np.maximum(n_needed, 1)
        self._n_grams = np.array([len(own) for own in self._own])

    def near(self, sentence: str) -> list[int]:
        """Which sentences this one, as `letters` gave it, shows by the share `NEAR`; a short one within a longer one is
        not shown whole."""
        found = grams(sentence, self._n)
        n_shown, n_recognized = self._n_shown(found, self._rare), min(len(found), _MANY * self._n)
        possible = np.flatnonzero(n_shown >= self._n_needed)
        if len(possible) > _MANY_POSSIBLE:  # in text made from patterns; to count all at once is slower for a few
            n_shown += self._n_shown(found, self._others)
            is_near = n_shown >= NEAR * np.maximum(self._n_grams, n_recognized)
            return [int(i) for i in possible[is_near[possible]]]
        n_own = lambda i: max(len(self._own[i]), n_recognized)
        return [i for i in possible.tolist() if len(self._own[i] & found) >= NEAR * n_own(i)]

    def _n_shown(self, found: set[str], holders: dict[str, npt.NDArray]) -> npt.NDArray:
        """How many of these n-grams each sentence has, among those that it holds there."""
        arrays = [holders[gram] for gram in found & holders.keys()] or [np.empty(0, np.int32)]
        return np.bincount(np.concatenate(arrays), minlength=len(self._own))
