"""Chooses what a config leaves open, from what the corpus is like. `choose` is a pure function; the trials that its
numbers rest on are in docs/recipe.md, and benchmarks/recipe.py makes them."""

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from mt_cli.config import MAX_HEADS, Config


class CorpusFacts(NamedTuple):
    """What the recipe has to know of the training text."""

    n_pairs: int
    n_distinct: int  # pairs, repetitions counted once
    n_src_characters: int
    n_characters: int  # of the target
    n_different_characters: int  # of both sides
    shared_letters: float  # share of the target's letters that are letters of the source too, each as often as written

    @property
    def n_tokens(self) -> float:
        """Of the target, end symbols included, before there is a tokenizer."""
        return self.n_characters / 4 + self.n_pairs


class Choice(NamedTuple):
    value: Any
    reason: str


class _Size(NamedTuple):
    """What suits corpora whose distinct pairs have up to `most` target tokens. Their number alone says too little: 9,000
    short sentences are half as much text as 9,000 usual ones."""

    most: float
    vocab_size: int
    d_model: int
    ffn_dim: int
    n_heads: int
    n_layers: int
    dropout: float
    learning_rate: float


_SIZES = (
    #     tokens    vocabulary  d_model  ffn  heads  layers  dropout  learning rate
    _Size(40_000, 1_000, 128, 256, 4, 3, 0.3, 5e-3),
    _Size(80_000, 2_000, 192, 512, 6, 4, 0.3, 5e-3),
    _Size(140_000, 4_000, 192, 512, 6, 4, 0.3, 5e-3),
    _Size(1_200_000, 8_000, 192, 512, 6, 4, 0.2, 5e-3),
    _Size(6_000_000, 12_000, 256, 1024, 4, 4, 0.2, 4e-3),
    _Size(40_000_000, 16_000, 384, 1536, 6, 6, 0.1, 2.5e-3),
    _Size(float("inf"), 32_000, 512, 2048, 8, 6, 0.1, 2e-3),
)
STEP_TOKENS = 2048  # training.batch_tokens
_ONE_SCRIPT = 0.5  # share of letters
_LOOPS = 15_000  # distinct pairs up to which a beam finds loops more probable than sentences
_TEACHES_ENOUGH = 300_000  # distinct pairs above which one direction and one forward pass teach enough
_LEAST_FOR_R_DROP = 0.5  # share of the best recipe's minutes below which other steps are worth more than second passes
_LEAST_FOR_SIZE = 0.15  # share below which a smaller network with less dropout learns more
_HURRIED_DROPOUT = 0.1


def choose(
    facts: CorpusFacts,
    given: Mapping[str, Any],
    update_seconds: float = 0.0,
    has_parent: bool = False,
    knows_both: bool = False,
) -> dict[str, Choice]:
    """A value and its reason for each key that depends on the corpus and is not `given`; in the minutes that are given.
    `update_seconds`: of an update with one forward pass, 0 if unknown. `has_parent`: it begins with another run;
    `knows_both`: which has learnt both directions."""
    n_pairs = facts.n_distinct
    n_tokens = facts.n_tokens * n_pairs / max(1, facts.n_pairs)
    index = next(i for i, size in enumerate(_SIZES) if n_tokens <= size.most)
    room = 2 * facts.n_different_characters + 300  # each character is a piece, and there have to be longer ones
    is_one_script, is_small = facts.shared_letters >= _ONE_SCRIPT, n_pairs <= _TEACHES_ENOUGH
    other_keys_need_it = given.get("training.both_directions") or given.get("model.tie_embeddings") == "all"
    is_joint = given.get("tokenizer.joint", is_one_script or bool(other_keys_need_it) or "data.pairs" in given)
    both = given.get("training.both_directions", 0.5 if is_joint and is_small and not knows_both else 0.0)

    step_tokens = given.get("training.batch_tokens", STEP_TOKENS) * given.get("training.accumulate", 1)
    epochs = min(160.0, max(3.0, 30 * (29_000 / max(1, n_pairs)) ** 0.5))
    steps = max(200, round(epochs * facts.n_tokens / step_tokens / 100) * 100) // (2 if has_parent else 1)
    steps = given.get("training.max_steps", steps)
    n_passes = steps * (2 - both if is_small else 1)  # R-Drop begins after both directions
    minutes = given.get("training.minutes")
    share = 60 * minutes / (n_passes * update_seconds) if minutes is not None and update_seconds else 1.0
    is_hurried, has_time = share < _LEAST_FOR_SIZE, share >= _LEAST_FOR_R_DROP
    size, vocab_size = _SIZES[max(0, index - is_hurried)], max(_SIZES[index].vocab_size, room)
    if (d_model := given.get("model.d_model", size.d_model)) != size.d_model:
        most_heads = min(MAX_HEADS, max(1, d_model // 32))
        n_heads = max(n for n in range(1, most_heads + 1) if d_model % (2 * n) == 0 or n == 1)
        size = size._replace(d_model=d_model, ffn_dim=d_model * size.ffn_dim // size.d_model, n_heads=n_heads)
    rate = size.learning_rate if given.get("training.optimizer", "muon") == "muon" else 1e-3
    rate = 1.0 if given.get("training.schedule") == "noam" else rate / 2 if has_parent else rate

    for_pairs = f"for {n_pairs:,} distinct pairs, some {n_tokens:,.0f} tokens of the target"
    enough = "there are enough pairs"
    why_joint = "the languages share their letters" if is_one_script else "other keys need it"
    why_one = "the run that it begins with has learnt both" if is_small else enough
    why_one = why_one if is_joint else "needs one vocabulary"
    why_no_r_drop = "both directions are learnt to the end" if both == 1 else "the minutes are too few for it"
    r_drop = (0.0, why_no_r_drop if is_small else enough)
    if is_small and both < 1 and has_time:
        r_drop = (1.0, f"{'the last' if both else 'all'} steps read each pair twice")
    dropout = (size.dropout, f"{for_pairs}: the fewer they are, the sooner they are known by heart")
    if is_hurried:
        dropout = (min(size.dropout, _HURRIED_DROPOUT), "in so few minutes hardly anything is learnt by heart")
    rows = {
        "tokenizer.joint": (is_joint, why_joint if is_joint else "each language has letters of its own"),
        "tokenizer.vocab_size": (vocab_size, "room for all different characters" if vocab_size == room else for_pairs),
        "model.d_model": (size.d_model, for_pairs),
        "model.ffn_dim": (size.ffn_dim, for_pairs),
        "model.n_heads": (size.n_heads, f"{size.d_model // size.n_heads} dimensions each"),
        "model.n_encoder_layers": (size.n_layers, for_pairs),
        "model.n_decoder_layers": (size.n_layers, for_pairs),
        "model.dropout": dropout,
        "model.tie_embeddings": ("all", "one vocabulary") if is_joint else ("target", "two vocabularies"),
        "model.positions": ("rotary", "learns faster than sinusoid, which `mt export --to marian` needs"),
        "training.learning_rate": (rate, f"for a width of {size.d_model}"),
        "training.both_directions": (both, "each pair teaches twice" if both else why_one),
        "training.r_drop": r_drop,
        "training.select_by": ("chrf", "the steadiest score of few sentences, fair to languages of many word forms"),
        "training.max_steps": (steps, f"about {max(1, steps * step_tokens / max(1, facts.n_tokens)):,.0f} epochs"),
        "training.warmup_steps": (min(400, steps // 10), "a tenth of the steps, at most 400"),
        "training.validate_every_steps": (max(200, math.ceil(steps / 12)), "at most twelve validations"),
        "decoding.beam_size": (max(5, given.get("decoding.n_best", 1)), "better than greedy search, five times slower"),
        "decoding.length_normalization": ("average", "gnmt favours sentences that are too short"),
        "decoding.length_penalty": (1.2, "the best on the dev sets that were tried"),
        "decoding.no_repeat_ngram": (4 if n_pairs <= _LOOPS else 0, "a model of few pairs loops, one of many does not"),
    }
    return {key: Choice(*row) for key, row in rows.items() if key not in given}


def tags_real_sources(facts: CorpusFacts, n_real: float, n_synthetic: float) -> bool:
    """Whether a tag marks people's sources, not the synthetic: as text to translate, the untagged must be as many in an
    epoch."""
    return n_real <= n_synthetic and facts.n_distinct <= _TEACHES_ENOUGH


def in_brief(config: Config) -> list[str]:
    """The choices that matter most, for people: lines of at most 80 columns."""
    model, training = config.model, config.training
    layers = f"{model.n_encoder_layers}+{model.n_decoder_layers} layers"
    # With minutes the number of steps is known later.
    steps = f", {training.max_steps:,} steps" if training.minutes is None else ""
    pieces = f"{config.tokenizer.vocab_size:,} pieces"
    sizes = f"{pieces}, d_model {model.d_model}, {layers}, dropout {model.dropout:g}{steps}"
    ways = []
    if training.both_directions:
        ways.append(f"{'all' if training.both_directions == 1 else 'the first'} steps learn both directions")
    if training.r_drop:
        ways.append(f"the {'others' if ways else 'steps'} read each pair twice")
    return [f"chosen: {sizes}", *([f"        {', '.join(ways)}"] if ways else [])]


_REACHED = (  # distinct pairs, chrF on held-out text of the same kind, what it was
    (1_000, 42, "captions, Multi30k en-de"),
    (3_000, 52, "captions, Multi30k en-de"),
    (6_500, 24, "conversation after learning from news, Spanish-Aymara"),
    (9_000, 25, "conversation after learning from stories, Spanish-Wixarika"),
    (14_500, 24, "conversation after learning from news, Spanish-Guarani"),
    (20_000, 98, "a phrasebook of patterns"),
    (29_000, 67, "captions, Multi30k en-de"),
)


def reached_scores(n_distinct: int) -> str:
    """A line that says what the recipe reached on the corpora nearest in size."""
    nearest = sorted(_REACHED, key=lambda row: abs(math.log(row[0] / max(1, n_distinct))))[:3]
    scores = "; ".join(f"chrF {chrf} with {pairs:,} different pairs ({what})" for pairs, chrf, what in sorted(nearest))
    return (
        f"Reached elsewhere: {scores}. chrF is the share of letter sequences that are as in the reference, of 100: with 35 the"
        " topic comes across, with 65 most sentences are right. Text unlike the training text scores far lower."
    )


class FactsCounter:
    """Collects the facts of a corpus pair by pair; memory stays flat."""

    def __init__(self) -> None:
        self._n_pairs, self._n_repeated, self._seen = 0, 0, set[int]()
        self._src, self._tgt = Counter[str](), Counter[str]()

    def add(self, src: str, tgt: str) -> None:
        """Counts a pair of normalized text."""
        self._n_pairs += 1
        self._src.update(src)
        self._tgt.update(tgt)
        key = hash((src, tgt))
        self._n_repeated += key in self._seen
        if len(self._seen) < 1_000_000:  # about 60 MB
            self._seen.add(key)

    def facts(self) -> CorpusFacts:
        sides = (self._src, self._tgt)
        src, tgt = ({c: n for c, n in side.items() if unicodedata.category(c)[0] == "L"} for side in sides)
        rare = 1e-4 * sum(src.values())  # such as Latin letters in Chinese
        shared = sum(n for char, n in tgt.items() if src.get(char, 0) > rare)
        both = self._src + self._tgt
        n_different = sum(n >= 1e-6 * both.total() for n in both.values())
        share = shared / max(1, sum(tgt.values()))
        n_distinct, totals = self._n_pairs - self._n_repeated, (self._src.total(), self._tgt.total())
        return CorpusFacts(self._n_pairs, n_distinct, *totals, n_different, share)
