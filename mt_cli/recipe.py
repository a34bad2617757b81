"""Chooses what a config leaves open, from what the corpus is like: sizes, regularization, length of the training, search.

`choose` is a pure function of `CorpusFacts` and `Machine`. The trials that its numbers rest on are in docs/recipe.md; the
script benchmarks/recipe.py makes them. A key that is set is never changed.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mt_cli.config import AUTO, MAX_HEADS, Config


@dataclass(frozen=True)
class CorpusFacts:
    """What the recipe has to know of the training text."""

    n_pairs: int
    n_distinct: int  # pairs, repetitions counted once
    n_characters: int  # of the target
    n_signs: int  # distinct characters of both sides
    shared_letters: float  # share of the target's letters that are letters of the source too, each as often as written

    @property
    def n_tokens(self) -> float:
        """Of the target, end symbols included, before there is a tokenizer."""
        return self.n_characters / _CHARACTERS_OF_A_TOKEN + self.n_pairs


@dataclass(frozen=True)
class Machine:
    update_seconds: float  # with one forward pass, of the network that suits the corpus best


@dataclass(frozen=True)
class Parent:
    """A run whose weights another one begins with."""

    knows_both: bool  # directions


class Choice(NamedTuple):
    value: Any
    reason: str


Choices = dict[str, Choice]  # by key, such as model.d_model


def choose(facts: CorpusFacts, machine: Machine, given: Mapping[str, Any], parent: Parent | None = None) -> Choices:
    """A value and its reason for each key that depends on the corpus.

    `given`: the keys that are set already, such as model.d_model; what depends on them follows them. Where
    training.minutes are given and too few for the best recipe, it is what is best in these minutes. `parent`: of the
    run that it begins with.
    """
    size = _size_for(facts, given)
    is_joint = given.get("tokenizer.joint", facts.shared_letters >= _ONE_SCRIPT or _needs_one_vocabulary(given))
    learns_twice = facts.n_distinct <= _TEACHES_ENOUGH
    step_tokens = _step_tokens(given)
    steps = given.get("training.max_steps", _n_steps(facts, step_tokens) // (2 if parent else 1))
    knows_both = parent is not None and parent.knows_both
    both = given.get("training.both_directions", 0.5 if is_joint and learns_twice and not knows_both else 0.0)
    n_passes = 2 - both if learns_twice else 1.0  # R-Drop begins after both directions
    share = _share_of_time(given.get("training.minutes"), steps * n_passes, machine)
    is_hurried = share < _LEAST_FOR_SIZE
    if is_hurried:
        size = _size_for(facts, given, n_smaller=1)._replace(vocab_size=size.vocab_size)
    chosen = _network(size, is_joint, facts)
    if is_hurried:
        dropout = min(size.dropout, _HURRIED_DROPOUT)
        chosen["model.dropout"] = Choice(dropout, "in so few minutes hardly anything is learnt by heart")
    chosen |= _learning(size, given, is_joint, learns_twice, both, share, parent)
    chosen |= _length(steps, steps * step_tokens / max(1.0, facts.n_tokens))
    chosen |= {
        "decoding.beam_size": Choice(
            max(5, given.get("decoding.n_best", 1)), "better than greedy search, at a fifth of its speed"
        ),
        "decoding.length_normalization": Choice("average", "gnmt favours sentences that are too short"),
        "decoding.length_penalty": Choice(1.2, "the best on the dev sets that were tried"),
        "decoding.no_repeat_ngram": Choice(4, "with so few pairs a model loops")
        if facts.n_distinct <= _LOOPS
        else Choice(0, "with so many pairs a model hardly loops"),
    }
    return {key: choice for key, choice in chosen.items() if key not in given}


def tags_real_sources(facts: CorpusFacts, n_real: float, n_synthetic: float) -> bool:
    """Whether a tag marks the sources that people wrote, and not the synthetic ones. Text that is translated has no tag, and
    so is read as the others are: these must be at least as many in an epoch, and people have translated little."""
    return n_real <= n_synthetic and facts.n_distinct <= _TEACHES_ENOUGH


def in_brief(config: Config) -> list[str]:
    """The choices that matter most, for people: lines of at most 80 columns."""
    model, training = config.model, config.training
    # With minutes the number of steps is told once it is known.
    steps = f", {training.max_steps:,} steps" if training.minutes is None else ""
    lines = [
        f"chosen: {config.tokenizer.vocab_size:,} pieces, d_model {model.d_model},"
        f" {model.n_encoder_layers}+{model.n_decoder_layers} layers, dropout {model.dropout:g}{steps}"
    ]
    both = f"{'all' if training.both_directions == 1 else 'the first'} steps learn both directions"
    both = both if training.both_directions else ""
    passes = f"the {'others' if both else 'steps'} read each pair twice" if training.r_drop else ""
    return lines + [f"        {ways}" for ways in [", ".join(filter(None, [both, passes]))] if ways]


# Sizes ---------------------------------------------------------------------------------------------------------------


class _Size(NamedTuple):
    """What suits corpora of up to `most` distinct pairs."""

    most: float
    vocab_size: int
    d_model: int
    ffn_dim: int
    n_heads: int
    n_layers: int
    dropout: float
    learning_rate: float


_SIZES = (
    #      pairs    vocabulary  d_model  ffn  heads  layers  dropout  learning rate
    _Size(2_000, 1_000, 128, 256, 4, 3, 0.3, 5e-3),
    _Size(6_000, 2_000, 192, 512, 6, 4, 0.3, 5e-3),
    _Size(15_000, 4_000, 192, 512, 6, 4, 0.3, 5e-3),
    _Size(60_000, 8_000, 192, 512, 6, 4, 0.2, 5e-3),
    _Size(300_000, 12_000, 256, 1024, 4, 4, 0.2, 4e-3),
    _Size(2_000_000, 16_000, 384, 1536, 6, 6, 0.1, 2.5e-3),
    _Size(float("inf"), 32_000, 512, 2048, 8, 6, 0.1, 2e-3),
)
_ONE_SCRIPT = 0.5
_LOOPS = 15_000  # distinct pairs up to which a beam finds loops more probable than sentences
_TEACHES_ENOUGH = 300_000  # distinct pairs above which one direction and one forward pass teach enough
_CHARACTERS_OF_A_TOKEN = 4.0
STEP_TOKENS = 2048  # training.batch_tokens
_LEAST_FOR_R_DROP = 0.4  # share of the best recipe's minutes below which other steps are worth more than second passes
_LEAST_FOR_SIZE = 0.15  # share below which a smaller network with less dropout learns more
_HURRIED_DROPOUT = 0.1


def _size_for(facts: CorpusFacts, given: Mapping[str, Any], n_smaller: int = 0) -> _Size:
    """The size for a corpus, or one that is `n_smaller` places before it, in which the given keys replace values."""
    index = next(i for i, size in enumerate(_SIZES) if facts.n_distinct <= size.most)
    size = _SIZES[max(0, index - n_smaller)]
    d_model = given.get("model.d_model", size.d_model)
    if d_model != size.d_model:
        n_heads = max(
            n for n in range(1, min(MAX_HEADS, max(1, d_model // 32)) + 1) if d_model % (2 * n) == 0 or n == 1
        )
        size = size._replace(d_model=d_model, ffn_dim=d_model * size.ffn_dim // size.d_model, n_heads=n_heads)
    return size._replace(vocab_size=given.get("tokenizer.vocab_size", max(size.vocab_size, _room(facts))))


def _room(facts: CorpusFacts) -> int:
    """Each character that is not rare is a piece, and there have to be pieces of several characters."""
    return 2 * facts.n_signs + 300


def _needs_one_vocabulary(given: Mapping[str, Any]) -> bool:
    is_asked = given.get("model.tie_embeddings") == "all" or given.get("training.both_directions", 0) > 0
    return is_asked or "data.pairs" in given


def _network(size: _Size, is_joint: bool, facts: CorpusFacts) -> Choices:
    for_pairs = f"for {facts.n_distinct:,} distinct pairs"
    why_joint = "the languages share their letters" if facts.shared_letters >= _ONE_SCRIPT else "other keys need it"
    for_signs = f"room for {facts.n_signs:,} different characters"
    return {
        "tokenizer.joint": Choice(is_joint, why_joint if is_joint else "each language has letters of its own"),
        "tokenizer.vocab_size": Choice(size.vocab_size, for_signs if size.vocab_size == _room(facts) else for_pairs),
        "model.d_model": Choice(size.d_model, for_pairs),
        "model.ffn_dim": Choice(size.ffn_dim, for_pairs),
        "model.n_heads": Choice(size.n_heads, f"{size.d_model // size.n_heads} dimensions each"),
        "model.n_encoder_layers": Choice(size.n_layers, for_pairs),
        "model.n_decoder_layers": Choice(size.n_layers, for_pairs),
        "model.dropout": Choice(size.dropout, f"{for_pairs}: the fewer they are, the sooner they are known by heart"),
        "model.tie_embeddings": Choice(
            "all" if is_joint else "target",
            f"the languages have {'one vocabulary' if is_joint else 'two vocabularies'}",
        ),
        "model.positions": Choice("rotary", "learns faster than sinusoid, which `mt export --to marian` needs"),
    }


# Learning ------------------------------------------------------------------------------------------------------------


def _learning(
    size: _Size,
    given: Mapping[str, Any],
    is_joint: bool,
    learns_twice: bool,
    both: float,
    share: float,
    parent: Parent | None,
) -> Choices:
    """`share`: of the time that the best recipe takes."""
    uses_r_drop = learns_twice and both < 1 and share >= _LEAST_FOR_R_DROP
    why_one = "there are enough pairs" if not learns_twice else "the run that it begins with has learnt both"
    why_both = "each pair teaches twice" if both else why_one if is_joint else "needs one vocabulary"
    why_no_r_drop = "there are enough pairs"
    if learns_twice:
        why_no_r_drop = "both directions are learnt to the end" if both == 1 else "the minutes are too few for it"
    return {
        "training.learning_rate": Choice(
            _learning_rate(size, given, parent is not None), f"for a width of {size.d_model}"
        ),
        "training.both_directions": Choice(both, why_both),
        "training.r_drop": Choice(
            float(uses_r_drop),
            f"{'the last' if both else 'all'} steps read each pair twice" if uses_r_drop else why_no_r_drop,
        ),
        "training.select_by": Choice(
            "chrf", "the steadiest score of few sentences, fair to languages of many word forms"
        ),
    }


def _learning_rate(size: _Size, given: Mapping[str, Any], has_parent: bool) -> float:
    if given.get("training.schedule") == "noam":
        return 1.0
    rate = size.learning_rate if given.get("training.optimizer", "muon") == "muon" else 1e-3
    return rate / 2 if has_parent else rate  # weights that are learnt shall stay near


def _length(steps: int, epochs: float) -> Choices:
    return {
        "training.max_steps": Choice(steps, f"about {max(1, epochs):,.0f} epochs"),
        "training.warmup_steps": Choice(min(400, steps // 10), "a tenth of the steps, at most 400"),
        "training.validate_every_steps": Choice(max(200, math.ceil(steps / 12)), "at most twelve validations"),
    }


def _step_tokens(given: Mapping[str, Any]) -> int:
    batch_tokens = given.get("training.batch_tokens", AUTO)
    return (STEP_TOKENS if batch_tokens == AUTO else batch_tokens) * given.get("training.accumulate", 1)


def _n_steps(facts: CorpusFacts, step_tokens: int) -> int:
    """Epochs fall with the root of the number of distinct pairs: 30 for 29,000."""
    epochs = min(160.0, max(3.0, 30 * (29_000 / max(1, facts.n_distinct)) ** 0.5))
    return max(200, round(epochs * facts.n_tokens / step_tokens / 100) * 100)


def _share_of_time(minutes: float | None, n_passes: float, machine: Machine) -> float:
    """Of the minutes that the best recipe takes, with so many forward passes in all, validations left out."""
    if minutes is None or not machine.update_seconds:
        return 1.0
    return 60 * minutes / (n_passes * machine.update_seconds)


# What to expect ------------------------------------------------------------------------------------------------------

_REACHED = (  # distinct pairs, chrF on held-out text of the same kind, what it was
    (1_000, 42, "captions, Multi30k en-de"),
    (6_500, 24, "conversation after learning from news, Spanish-Aymara"),
    (9_000, 25, "conversation after learning from stories, Spanish-Wixarika"),
    (14_500, 24, "conversation after learning from news, Spanish-Guarani"),
    (20_000, 98, "a phrasebook of patterns"),
    (29_000, 67, "captions, Multi30k en-de"),
)


def reached_scores(n_distinct: int) -> str:
    """A line that says what the recipe reached on the corpora nearest in size."""
    nearest = sorted(_REACHED, key=lambda row: abs(math.log(row[0] / max(1, n_distinct))))[:3]
    told = "; ".join(f"chrF {chrf} with {pairs:,} different pairs ({what})" for pairs, chrf, what in sorted(nearest))
    return (
        f"Reached elsewhere: {told}. chrF is the share of letter sequences that are as in the reference, of 100: with 35 the"
        " topic comes across, with 65 most sentences are right. Text unlike the training text scores far lower."
    )


# Facts ---------------------------------------------------------------------------------------------------------------


class FactsCounter:
    """Collects the facts of a corpus pair by pair; memory stays flat."""

    def __init__(self) -> None:
        self._n_pairs, self._n_characters, self._n_repeated = 0, 0, 0
        self._seen = set[int]()
        self._src, self._tgt = Counter[str](), Counter[str]()

    def add(self, src: str, tgt: str) -> None:
        """Counts a pair of normalized text."""
        self._n_pairs += 1
        self._n_characters += len(tgt)
        self._src.update(src)
        self._tgt.update(tgt)
        key = hash((src, tgt))
        self._n_repeated += key in self._seen
        if len(self._seen) < _N_REMEMBERED:
            self._seen.add(key)

    def facts(self) -> CorpusFacts:
        letters = {char: n for char, n in self._tgt.items() if unicodedata.category(char).startswith("L")}
        rare = _RARE * sum(n for char, n in self._src.items() if unicodedata.category(char).startswith("L"))
        shared = sum(n for char, n in letters.items() if self._src[char] > rare)
        both = self._src + self._tgt
        n_signs = sum(n >= _COVERED * both.total() for n in both.values())
        n_distinct = self._n_pairs - self._n_repeated
        share = shared / max(1, sum(letters.values()))
        return CorpusFacts(self._n_pairs, n_distinct, self._n_characters, n_signs, share)


_N_REMEMBERED = 1_000_000  # bounds the memory of counting repetitions at about 60 MB
_RARE = 1e-4  # share of a side's letters below which one is a guest there, such as Latin ones in Chinese
_COVERED = 1e-6
