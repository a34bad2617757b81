"""The config: every key with its type, range, default and explanation, and the rules between keys.

This file knows nothing of YAML (`config_file.py` does) and nothing of torch, so a mistake in a config answers at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WrapValidator

Files = Annotated[
    list[str],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    Field(min_length=1, max_length=2),
]
"""`[source file, target file]`, line n beside line n; or one two-column `.tsv`. Any of them may end in `.gz`."""

Language = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$")]
AUTO = 0
"""What `training.batch_tokens: auto` is read as. Before the first step the most that fits takes its place, in the run's
config too."""

BatchTokens = Annotated[
    int,
    Field(ge=16, le=4_000_000),
    WrapValidator(lambda value, validate: AUTO if value == "auto" else validate(value)),
    PlainSerializer(lambda value: "auto" if value == AUTO else value),
]
Probability = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


_NO_CODES = {
    "cn": "zh", "chinese": "zh", "mandarin": "zh", "jp": "ja", "japanese": "ja", "thai": "th", "khmer": "km",
    "burmese": "my", "tibetan": "bo",
}  # fmt: skip
"""What people write in place of a code, and the code: of languages without spaces between words, since elsewhere a wrong
one changes no score."""


class DataConfig(Section):
    src_lang: Language
    tgt_lang: Language
    train: Files
    dev: Files
    test: dict[Annotated[str, Field(pattern=r"^[\w.-]+$")], Files] = {}
    max_length: int = Field(256, ge=4, le=4096)  # tokens a side; longer training pairs are dropped, longer input split
    on_bad_line: Literal["error", "skip"] = "error"  # a line that is not UTF-8
    dedup: bool = False  # drop exact repetitions of a training pair
    bleu_tokenize: Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] = "auto"


class TokenizerConfig(Section):
    algorithm: Literal["unigram", "bpe"] = "unigram"
    joint: bool = True  # one vocabulary for both languages
    vocab_size: int = Field(8000, ge=300, le=256_000)  # lowered to what the corpus can carry


class ModelConfig(Section):
    d_model: int = Field(256, ge=2, le=8192)
    ffn_dim: int = Field(1024, ge=1, le=65536)
    n_heads: int = Field(4, ge=1, le=128)
    n_encoder_layers: int = Field(3, ge=1, le=64)
    n_decoder_layers: int = Field(3, ge=1, le=64)
    head_dim: int | None = Field(None, ge=1, le=1024)  # d_k of a head; null: d_model / n_heads
    value_dim: int | None = Field(None, ge=1, le=1024)  # d_v of a head; null: head_dim

    dropout: Probability = 0.3  # on the output of every sublayer, and wherever the next three are null
    embedding_dropout: Probability | None = None
    attention_dropout: Probability | None = 0.0  # on the attention weights
    ffn_dropout: Probability | None = 0.0  # between the two matrices of the feed-forward network

    norm: Literal["pre", "post"] = "pre"
    layer_norm: Literal["variance", "deviation"] = "variance"  # x / sqrt(variance + eps), or x / (deviation + eps)
    layer_norm_epsilon: float = Field(1e-5, gt=0, le=0.1)
    feed_forward: Literal["linear", "conv1d"] = "linear"
    attention_bias: bool = True
    attention_temperature: float | None = Field(None, gt=0)  # what scores are divided by; null: sqrt(head_dim)
    tie_embeddings: Literal["none", "target", "all"] = "all"  # target: with the projection; all: with the source too
    embedding_scale: Literal["embedding", "projection", "none"] = "embedding"
    embedding_init: Literal["normal", "xavier"] = "normal"  # normal: variance 1 where it meets the positions
    embedding_norm: bool = False  # LayerNorm after the embedding
    positions: Literal["sinusoid", "rotary", "rotary_cross"] = "sinusoid"  # rotary: in self-attention; _cross: in all
    first_position: Literal[0, 1] = 0  # of sinusoids
    max_positions: int = Field(1024, ge=8, le=65536)

    @property
    def d_k(self) -> int:
        """Dimensions of a head's queries and keys (Vaswani et al. 2017, section 3.2)."""
        return self.head_dim or self.d_model // self.n_heads

    @property
    def d_v(self) -> int:
        """Dimensions of a head's values."""
        return self.value_dim or self.d_k


class TrainingConfig(Section):
    max_steps: int = Field(20_000, ge=1, le=100_000_000)
    minutes: float | None = Field(None, gt=0, le=1e6)  # fit max_steps and the schedule to this time, without patience
    batch_tokens: BatchTokens = 2048  # target tokens of a batch, padding included; auto: the most that memory holds
    accumulate: int = Field(1, ge=1, le=1024)  # batches of an update
    learning_rate: float = Field(2.5e-3, gt=0, le=1e4)  # the peak; for `noam` a factor, 1.0 in the paper
    schedule: Literal["inverse_sqrt", "noam", "cosine", "linear", "constant"] = "linear"
    warmup_steps: int = Field(400, ge=0, le=100_000_000)
    # Of matrices and embeddings, not of norms and biases; null: such that two epochs leave 1/e of a weight, at most 1.
    weight_decay: float | None = Field(None, ge=0, le=1)
    optimizer: Literal["adamw", "muon"] = "muon"  # muon: for the matrices of layers; the rest stays with adamw
    adam_beta1: Probability = 0.9
    adam_beta2: Probability = 0.98
    label_smoothing: Probability = 0.1
    clip_norm: float = Field(1.0, gt=0)
    both_directions: float = Field(0.0, ge=0, le=1)  # share of the steps, the first; half of them learn tgt to src
    # R-Drop (0: none): pairs are read twice, with other dropout, and the two are to agree; half of the paper's alpha. Not
    # while both directions are learnt: it pays in the end, and a step takes nearly twice as long.
    r_drop: float = Field(0.0, ge=0, le=10)
    average_decay: Probability = 0.999  # of the moving average of the weights; 0: none is kept
    validate_every_steps: int = Field(500, ge=1)
    select_by: Literal["bleu", "chrf", "loss"] = "bleu"  # what makes a checkpoint the best
    patience: int = Field(10, ge=1)  # validations without a new best before training stops
    n_samples: int = Field(3, ge=0, le=20)  # dev translations shown at each validation
    seed: int = Field(1, ge=0, lt=2**31)
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    precision: Literal["auto", "bf16", "fp32"] = "auto"


class DecodingConfig(Section):
    beam_size: int = Field(1, ge=1, le=1000)  # 1 is greedy
    n_best: int = Field(1, ge=1, le=1000)  # that --json and Python are given; at most beam_size, unless sampled
    length_normalization: Literal["gnmt", "average"] = "gnmt"  # ((5 + length) / 6) ** length_penalty, or length ** it
    length_penalty: float = Field(1.0, ge=0, le=10)  # more favours longer output; 0 is none
    # Output tokens for each source token, 10 more allowed; null: 2, or as many as training pairs have if that is more.
    max_length_ratio: float | None = Field(None, gt=0, le=100)
    min_length: int = Field(0, ge=0, le=4096)
    no_repeat_ngram: int = Field(0, ge=0, le=100)  # never the same sequence of n tokens twice; 0: no limit
    sample: bool = False  # draw tokens by their probability instead of searching
    temperature: float = Field(1.0, ge=1e-6, le=100)
    top_k: int = Field(0, ge=0)  # draw from the k most probable; 0: from all
    top_p: float = Field(1.0, gt=0, le=1)  # draw from the fewest tokens that make up p
    seed: int = Field(1, ge=0, lt=2**31)  # of the samples
    batch_size: int = Field(64, ge=1, le=100_000)  # sentences decoded together


class Config(Section):
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()


FREE_TO_CHANGE = {
    "data.train", "data.dev",  # where they lie: what is in the files decides whether they are the run's
    "data.test",
    "training.max_steps", "training.minutes", "training.patience",  # how long it trains
    "training.device",
    "training.n_samples",
}  # fmt: skip
"""What may change within a run, beside the whole section `decoding`. What follows from the length is planned anew: the
learning rate, which rises again in a finished run that gets more steps, until when both directions are learnt, patience."""


def differing_keys(mine: Config, theirs: Config, names: Iterable[str]) -> list[str]:
    """`section.key is X here, Y there` for each key that differs and may not change within a run. `names`: sections, or
    single keys such as data.max_length."""
    found = []
    here, there = mine.model_dump(), theirs.model_dump()
    for section, _, only in (name.partition(".") for name in names):
        for key, value in here[section].items():
            if only and key != only:
                continue
            if value != there[section][key] and f"{section}.{key}" not in FREE_TO_CHANGE:
                mine_told, theirs_told = ("null" if x is None else x for x in (value, there[section][key]))
                found.append(f"{section}.{key} is {mine_told} here, {theirs_told} there")
    return found


# Rules between keys ---------------------------------------------------------------------------------------------------

Key = tuple[str, ...]
_MAX_POSITION_TABLE = 1 << 25  # made from nothing but the config: a few words shall not take gigabytes
_MAX_ROWS = 100_000  # of a batch while decoding: beyond it, memory ends before time is saved


def contradictions(config: Config) -> Iterable[tuple[list[Key], str]]:
    """What is wrong between keys that are each right: (the keys, message)."""
    data, model, training = config.data, config.model, config.training
    if data.src_lang.lower() == data.tgt_lang.lower():
        keys: list[Key] = [("data", "tgt_lang"), ("data", "src_lang")]
        yield keys, f"data.src_lang and data.tgt_lang are both '{data.src_lang}'; they must differ"
    for name, tag in (("src_lang", data.src_lang), ("tgt_lang", data.tgt_lang)):
        if code := _NO_CODES.get(re.split("[-_]", tag)[0].lower()):
            yield [("data", name)], f"data.{name} '{tag}' is no code of a language; did you mean '{code}'?"
    named: dict[Key, list[str]] = {("train",): data.train, ("dev",): data.dev}
    for key, files in (named | {("test", name): files for name, files in data.test.items()}).items():
        name = ".".join(("data", *key))
        if len(files) == 2 and files[0] == files[1]:
            yield [("data", *key)], f"{name}: source and target are the same file, {files[0]}"
        if len(files) == 1 and not files[0].removesuffix(".gz").endswith(".tsv"):
            yield [("data", *key)], f"{name}: one file must be a two-column .tsv, found {files[0]}"
    if model.head_dim is None and model.d_model % model.n_heads:
        near = next(n for n in range(model.n_heads, 0, -1) if model.d_model % n == 0)
        yield (
            [("model", "n_heads"), ("model", "d_model")],
            f"model.d_model {model.d_model} does not split into {model.n_heads} heads;"
            f" set model.n_heads to {near}, or give model.head_dim",
        )
    if model.d_model % 2:
        yield [("model", "d_model")], f"model.d_model {model.d_model} is odd; positions are pairs of sine and cosine"
    if model.positions != "sinusoid" and model.d_k % 2:
        yield (
            [("model", "positions"), ("model", "head_dim"), ("model", "n_heads")],
            f"model.positions '{model.positions}' turns pairs of a head's dimensions, which are {model.d_k}; give an even model.head_dim",
        )
    if model.tie_embeddings == "all" and not config.tokenizer.joint:
        yield (
            [("model", "tie_embeddings"), ("tokenizer", "joint")],
            "model.tie_embeddings 'all' needs one vocabulary; set tokenizer.joint: true, or tie_embeddings: target",
        )
    if model.embedding_scale == "none" and model.embedding_init == "normal" and model.tie_embeddings != "none":
        yield (
            [("model", "embedding_scale"), ("model", "embedding_init"), ("model", "tie_embeddings")],
            "model.embedding_scale 'none' makes embeddings that are also the projection too large to begin with;"
            " set model.embedding_init: xavier",
        )
    if config.training.both_directions and not config.tokenizer.joint:
        yield (
            [("training", "both_directions"), ("tokenizer", "joint")],
            "training.both_directions needs one vocabulary; set tokenizer.joint: true, or both_directions: 0",
        )
    if training.both_directions == 1 and training.r_drop:
        yield (
            [("training", "r_drop"), ("training", "both_directions")],
            "training.r_drop begins where both directions have been learnt, which training.both_directions 1 does to the"
            " end; lower it, or set r_drop: 0",
        )
    if "dev" in data.test:
        yield [("data", "test", "dev")], "data.test.dev is what the scores of data.dev are called; choose another name"
    if data.max_length >= model.max_positions:  # the end symbol takes one more
        yield (
            [("data", "max_length"), ("model", "max_positions")],
            f"data.max_length {data.max_length} is not below model.max_positions {model.max_positions}; raise the latter",
        )
    yield from decoding_contradictions(config.decoding)
    width_key, width = ("d_model", model.d_model) if model.positions == "sinusoid" else ("head_dim", model.d_k)
    if model.max_positions * width > _MAX_POSITION_TABLE:
        yield (
            [("model", "max_positions"), ("model", width_key)],
            f"model.max_positions {model.max_positions} times model.{width_key} {width} is more than"
            f" {_MAX_POSITION_TABLE:,} numbers; lower one",
        )
    if training.schedule == "noam" and not training.warmup_steps:
        yield (
            [("training", "warmup_steps"), ("training", "schedule")],
            "training.schedule 'noam' needs training.warmup_steps of at least 1",
        )


def decoding_contradictions(decoding: DecodingConfig) -> Iterable[tuple[list[Key], str]]:
    """The same within `decoding`, which options of a command can change."""
    if not decoding.sample and decoding.n_best > decoding.beam_size:
        yield (
            [("decoding", "n_best"), ("decoding", "beam_size")],
            f"decoding.n_best {decoding.n_best} is more than decoding.beam_size {decoding.beam_size}; raise the latter",
        )
    if not decoding.sample and decoding.beam_size * decoding.batch_size > _MAX_ROWS:
        yield (
            [("decoding", "batch_size"), ("decoding", "beam_size")],
            f"decoding.batch_size {decoding.batch_size} times decoding.beam_size {decoding.beam_size} is more than"
            f" {_MAX_ROWS:,} sentences at once; lower one",
        )
