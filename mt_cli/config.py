"""Every key of a config with its type, range, default and explanation, and below the keys of a section the rules between them. The
string below a key explains it; `mt config` prints it, and editors show it, as `mt config --json-schema` writes it into
configs/schema.json. Without torch: mistakes are reported at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)
from pydantic.json_schema import SkipJsonSchema

MAX_HEADS = 128

_LANGUAGE_CODES = {
    "cn": "zh", "chinese": "zh", "mandarin": "zh", "jp": "ja", "japanese": "ja", "thai": "th", "khmer": "km",
    "burmese": "my", "tibetan": "bo",
}  # fmt: skip
"""What people write instead of the code of a language. Only languages without spaces between words: for the others a wrong
code changes no score."""


def _language(tag: str) -> str:
    if code := _LANGUAGE_CODES.get(re.split("[-_]", tag)[0].lower()):
        raise ValueError(f"expected the code of a language, such as '{code}'")
    return tag


_MEMORIES = (".tmx", ".xlf", ".xliff", ".po")
_TABLES = (".tsv", ".csv", ".xlsx", ".xls", ".ods", ".jsonl", ".json", *_MEMORIES)
_A_TABLE = f"one table ({', '.join(_TABLES)}, or .txt with tabs)"


def is_table(file: str) -> bool:
    """Whether, by its name, the file holds both languages in columns."""
    return file.lower().removesuffix(".gz").endswith(_TABLES)


def is_memory(file: str) -> bool:
    """Whether, by its name, the file holds units in languages that it names, and not in columns."""
    return file.lower().removesuffix(".gz").endswith(_MEMORIES)


def are_one_table(files: Sequence[str]) -> bool:
    """Whether it is one file with both languages, which may also be text with tabs."""
    return len(files) == 1 and (is_table(files[0]) or files[0].lower().removesuffix(".gz").endswith(".txt"))


def _files(files: list[str]) -> list[str]:
    if (len(files) == 1 and not are_one_table(files)) or files[:1] == files[1:]:
        raise ValueError(f"expected two different files, source and target, or {_A_TABLE}")
    return files


def _texts(files: list[str]) -> list[str]:
    if any(map(is_table, files)):
        raise ValueError("expected text with a sentence on each line: a file or a list of files, no table")
    return files


_FILES_SCHEMA = [
    {"title": "[source file, target file]", "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
    {"title": "one table", "type": "string"},
]
_MayBeOne = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
Files = Annotated[
    list[str],
    Field(min_length=1, max_length=2),
    AfterValidator(_files),
    _MayBeOne,
    WithJsonSchema({"anyOf": _FILES_SCHEMA}),
]
TextFiles = Annotated[
    list[str],
    Field(min_length=1),
    AfterValidator(_texts),
    _MayBeOne,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
Language = Annotated[
    str,
    Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$", max_length=35, examples=["en", "de", "zh"]),
    AfterValidator(_language),
]
Columns = Annotated[str, Field(pattern=r"^[^,]+,[^,]+$", examples=["es,gn"])]
SetName = Annotated[str, Field(pattern=r"^[\w.-]+$")]
Probability = Annotated[float, Field(ge=0, lt=1)]

Contradiction = tuple[str, str]
"""Keys that contradict each other though each is right by itself, such as "model.n_heads model.d_model", and why."""


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Corpus(Section):
    """Some of the training text."""

    files: Files
    """[source file, target file], where line n of one translates line n of the other, or one table."""
    weight: float = Field(1.0, ge=0.001, le=1000)
    """How often an epoch has each pair. 2: twice. 0.5: every epoch has half of the pairs, the next one the other half."""
    synthetic: bool = False
    """Whether a machine wrote its sources. A tag tells the network so, and no pair of it is held out."""
    hold_out: bool = True
    """Whether pairs of it may become dev and test sets. false: where it is not of the kind that will be translated."""
    last_weight: float | None = Field(None, ge=0, le=1000)
    """Its weight in the last phase of the training (training.last_phase). 0: none of it is read there. null: as weight."""
    tgt_lang: Language | None = None
    """The language of its target, where that is only related to the one of the run; or gn-far for text in gn that is unlike what
    will be translated. A tag before its sources names it. Such corpora come behind the run's own, those of other languages last."""
    rewrite: dict[str, str] = {}
    """What to write in place of characters of its target, such as {ü: +}: for text in another way of writing than is learnt."""
    rewrite_source: dict[str, str] = {}
    """The same for its source."""
    why: str = ""
    """Why it has these weights, for people."""

    @property
    def is_like_use(self) -> bool:
        """Whether its pairs may become dev and test sets."""
        return self.hold_out and not self.synthetic and self.tgt_lang is None


class Monolingual(Section):
    """Text in one language alone."""

    tgt: TextFiles
    """A text file in the target language with a sentence on each line, or a list of such files."""
    src: TextFiles | None = None
    """The same in the source language. The reverse model learns from it as this run learns from tgt."""
    search: Literal["greedy", "beam", "sampling"] = "greedy"
    """How sources are searched for: greedy, beam (as the reverse model's config says), or sampling (Edunov et al. 2018)."""
    back: str | None = None
    """A run that translates from target to source. null: one is trained on the same pairs, in the run's folder back."""


class WordList(Section):
    """Words and short phrases with their translations, such as a dictionary."""

    files: Files
    """[source file, target file], line n beside line n, or one table."""
    share: float = Field(0.1, gt=0, le=0.5)
    """The share of an epoch's pairs that are of the list; a short list is repeated, up to ten times."""
    columns: Columns | None = None
    """Which columns of a table are source and target, as data.columns."""


def _form_of(train: Any) -> str:
    """The tag of one of the types in `Train`."""
    items = train if isinstance(train, list) else [train]
    return "[corpora]" if any(isinstance(item, (dict, Corpus)) for item in items) else "[files]"


Train = Annotated[
    Annotated[Files, Tag("[files]")]
    | Annotated[list[Corpus], Field(title="[{files: ..., weight: ...}]"), Tag("[corpora]")],
    Discriminator(_form_of),
]


class LanguagePair(Section):
    src_lang: Language
    """Language code of the source text, such as en or zh."""
    tgt_lang: Language
    """Language code of the target text. It decides how scores split words."""
    train: Train
    """[source file, target file], line n beside line n, or one table (.tsv, .csv, .xlsx, .jsonl) or memory (.tmx, .xliff, .po),
    also compressed (.gz); paths are relative to where mt is started. Or a list of corpora: {files: [news.es, news.gn], weight: 2}, {files: web.tsv}."""
    dev: Files | None = None
    """The validation text, which decides which checkpoint is the best; 500 to 3,000 pairs are usual. null: pairs are held out of
    the training text, as test set, too, where data.test is empty."""
    test: dict[SetName, Files] = {}
    """Test sets by name, for `mt evaluate`. Training does not learn from them."""
    words: Annotated[WordList, Field(title="{files: ...}")] | None = None
    """A list of words and short phrases to learn as well: {files: words.tsv}. None is held out."""
    columns: Columns | None = None
    """Which columns of a table are source and target: two names of its header or two numbers, such as es,gn or 1,3. null: they
    are found."""

    @property
    def name(self) -> str:
        return f"{self.src_lang}-{self.tgt_lang}"

    @property
    def corpora(self) -> list[Corpus]:
        """The training text, whatever form `train` has."""
        corpora = [item for item in self.train if isinstance(item, Corpus)]
        return corpora or [Corpus(files=[str(file) for file in self.train])]

    def kinship(self, corpus: Corpus) -> int:
        """Of its target: 0 that of the run, 1 with a tag (gn-far) for its way of writing, 2 another language."""
        if corpus.tgt_lang is None:
            return 0
        return 1 if corpus.tgt_lang.casefold().startswith(f"{self.tgt_lang}-".casefold()) else 2

    def contradictions(self, at: str = "data") -> Iterator[Contradiction]:
        """`at`: the section that the keys are in."""
        src, tgt, train, dev = f"{at}.src_lang", f"{at}.tgt_lang", f"{at}.train", f"{at}.dev"
        if self.src_lang.lower() == self.tgt_lang.lower():
            yield f"{tgt} {src}", f"{src} and {tgt} are both '{self.src_lang}'; they must differ"
        files = [corpus.files for corpus in self.corpora]
        for n, first in enumerate(map(files.index, files)):
            if first < n:
                again = f"the files of {train}.{first} once more; give it a higher weight instead"
                yield f"{train}.{n}", f"{train}.{n}: {again}"
        own = [corpus for corpus in self.corpora if corpus.tgt_lang is None]
        if sorted(self.corpora, key=self.kinship) != self.corpora:
            own_text = f"one in {self.tgt_lang} or with the tag {self.tgt_lang}-far"
            yield train, f"{train}: a corpus of another language stands before {own_text}; put it behind"
        left = f"no corpus in {self.tgt_lang} is left for the last phase; give one a last_weight above 0"
        if not own:
            yield train, f"{train}: no corpus in {self.tgt_lang}; add one without tgt_lang"
        elif all(corpus.last_weight == 0 for corpus in own):
            yield train, f"{train}: {left}"
        elif all(corpus.synthetic for corpus in own):
            yield train, f"{train}: all corpora are synthetic; add one that people translated"
        elif self.dev is None and not any(corpus.is_like_use for corpus in own):
            remedy = f"give {dev}, or leave out hold_out: false"
            yield f"{train} {dev}", f"{train}: no corpus to hold a dev set out of; {remedy}"
        if "dev" in self.test:
            yield f"{at}.test.dev", f"{at}.test.dev is what the scores of {at}.dev are called; choose another name"


class DataConfig(LanguagePair):
    """The data of one language pair."""

    monolingual: Annotated[Monolingual, Field(title="{tgt: ...}")] | None = None
    """Text in the target language alone: {tgt: news.gn}. A reverse model, trained first (or back: a run of yours), translates
    it, and the run learns from these synthetic pairs, too. src: text in the source language helps the reverse model."""
    max_length: int = Field(256, ge=4, le=4096)
    """The largest number of tokens on either side: longer pairs are dropped, longer input is split. Below model.max_positions."""
    on_bad_line: Literal["error", "skip"] = "error"
    """What to do with a line that is not UTF-8: stop with an error, or skip the pair and count it."""
    dedup: bool = False
    """Whether to drop exact repetitions of a training pair in its corpus. Set it to true for text crawled from the web."""
    clean: bool = False
    """Whether to leave out the training pairs that `mt check` would drop. The same as `mt train --clean`."""
    spelling: Literal["dev", "own"] = "dev"
    """dev: where the dev set has another apostrophe or other marks on a Latin letter than the training text (â for ã), both the
    training text and what is translated are read with those of the dev set. own: they are read as they are."""
    variation: float = Field(0.05, ge=0, le=0.5)
    """The share of an epoch's pairs that are made from others: with spans that are copied, such as addresses and placeholders, or
    with typing errors. 0: none."""
    terms: float = Field(0.0, ge=0, le=0.4)
    """The share of an epoch's pairs that have translations behind some words of the source, as a glossary adds them. With 0.3 a
    run learns to use them (`mt translate --glossary`), inflected where the sentence needs it. 0: none."""
    bleu_tokenize: Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] = "auto"
    """How sacrebleu splits text into words for BLEU. auto: by tgt_lang."""

    @property
    def directions(self) -> list[DataConfig]:
        """The data of each language pair by itself."""
        return [self]

    @property
    def own(self) -> Self:
        """Without the corpora of related languages, which are the last ones."""
        own = [corpus for corpus in self.corpora if corpus.tgt_lang is None]
        return self.model_copy(update={"train": own}) if len(own) < len(self.corpora) else self

    @property
    def in_language(self) -> Self:
        """As `own`, with the corpora that have a tag (gn-far) for their way of writing, and not for another language."""
        alike = [one for one in self.corpora if self.kinship(one) < 2]
        plain = [
            one.model_copy(update={"tgt_lang": None, "hold_out": one.hold_out and not one.tgt_lang}) for one in alike
        ]
        return self.model_copy(update={"train": plain})

    @property
    def has_synthetic(self) -> bool:
        """Whether some of the sources are written by a machine, and have a tag."""
        corpora = [corpus for pair in self.directions for corpus in pair.corpora]
        return self.monolingual is not None or any(corpus.synthetic for corpus in corpora)

    def contradictions(self, at: str = "data") -> Iterator[Contradiction]:
        yield from super().contradictions(at)
        if (text := self.monolingual) is not None and text.src and text.back is not None:
            why = f"is for a reverse model that is trained here, not for {text.back}; leave out one of the two"
            yield "data.monolingual.src data.monolingual.back", f"data.monolingual.src {why}"


_Absent = Annotated[SkipJsonSchema[Any], Field(exclude=True)]  # neither shown nor written into a run's config


class SeveralPairs(DataConfig):
    """The data of several language pairs, which one model learns. What `LanguagePair` has, each pair has for itself."""

    src_lang: _Absent = ""
    tgt_lang: _Absent = ""
    train: _Absent = []
    dev: _Absent = None
    test: _Absent = {}
    words: _Absent = None
    columns: _Absent = None
    monolingual: _Absent = None
    pairs: list[LanguagePair] = Field(min_length=1)
    """Language pairs that one model learns, each with its own src_lang, tgt_lang, train, dev, test, words and columns.
    `mt translate RUN --to de` chooses one."""
    temperature: float = Field(1.0, ge=1, le=100)
    """How much small language pairs are favoured: one of n sentence pairs is drawn in proportion to n ** (1 / temperature)."""

    @property
    def directions(self) -> list[DataConfig]:
        shared_keys = DataConfig.model_fields.keys() - LanguagePair.model_fields
        shared = {name: value for name, value in self if name in shared_keys}
        return [DataConfig.model_construct(**shared, **dict(pair)) for pair in self.pairs]

    def contradictions(self, at: str = "data") -> Iterator[Contradiction]:
        for name in [*LanguagePair.model_fields, "monolingual"]:
            if name in self.model_fields_set and getattr(self, name) is not None:
                yield f"data.{name} data.pairs", f"data.{name} does not go with data.pairs; leave out one of the two"
        # Neither --to nor the folders of some systems tell en-de from en-DE.
        names = [pair.name.lower() for pair in self.pairs]
        for number, pair in enumerate(self.pairs):
            at, first = f"data.pairs.{number}", names.index(names[number])
            yield from pair.contradictions(at)
            if first < number:
                yield at, f"{at} is {pair.name}, as data.pairs.{first}; give the corpora of both to one of them"


def _form_of_data(data: Any) -> str:
    is_several = "pairs" in data if isinstance(data, dict) else isinstance(data, SeveralPairs)
    return "[pairs]" if is_several else "[pair]"


Data = Annotated[
    Annotated[DataConfig, Tag("[pair]"), Field(title="one language pair")]
    | Annotated[SeveralPairs, Tag("[pairs]"), Field(title="several language pairs")],
    Discriminator(_form_of_data),
]


class TokenizerConfig(Section):
    algorithm: Literal["unigram", "bpe"] = "unigram"
    """How SentencePiece learns subwords, from at most 500,000 sentences: its unigram model, or byte-pair encoding (bpe)."""
    joint: bool = True
    """Whether both languages share one vocabulary. false suits different scripts, with model.tie_embeddings: target."""
    vocab_size: int = Field(8000, ge=300, le=256_000)
    """Number of subwords, for each language if joint is false; lowered if the corpus is too small for that many. 2,000 suits a
    few thousand pairs, 8,000 tens of thousands, 32,000 millions."""


class ModelConfig(Section):
    d_model: int = Field(256, ge=2, le=8192)
    """Width of the network: the dimensions of each token's vector. Even, and a multiple of n_heads unless head_dim is given."""
    ffn_dim: int = Field(1024, ge=1, le=65536)
    """Inner width of the feed-forward networks. Four times d_model is usual."""
    n_heads: int = Field(4, ge=1, le=MAX_HEADS)
    """Number of attention heads. d_model / 64 is usual, d_model / 32 in small networks."""
    n_encoder_layers: int = Field(3, ge=1, le=64)
    """Number of encoder layers. 3 suits a thousand pairs, 4 tens of thousands, 6 millions."""
    n_decoder_layers: int = Field(3, ge=1, le=64)
    """Number of decoder layers. Each one makes translating slower, an encoder layer hardly does."""
    head_dim: int | None = Field(None, ge=1, le=1024)
    """Dimensions of the queries and keys of a head (d_k in the paper). null: d_model / n_heads."""
    value_dim: int | None = Field(None, ge=1, le=1024)
    """Dimensions of the values of a head (d_v in the paper). null: the same as head_dim."""

    dropout: Probability = 0.3
    """Probability of dropping a value of a sublayer's output in training. Raise it if the dev loss rises in training."""
    embedding_dropout: Probability | None = None
    """The same for the sum of embedding and position. null: as dropout."""
    attention_dropout: Probability | None = 0.0
    """The same for the attention weights. null: as dropout."""
    ffn_dropout: Probability | None = 0.0
    """The same between the two matrices of a feed-forward network. null: as dropout."""

    norm: Literal["pre", "post"] = "pre"
    """Where a sublayer is normalized: before it (pre, trains more easily) or after its residual connection (post, the paper)."""
    layer_norm: Literal["variance", "deviation"] = "variance"
    """What LayerNorm divides by: sqrt(variance + epsilon), as torch does, or standard deviation + epsilon."""
    layer_norm_epsilon: float = Field(1e-5, gt=0, le=0.1)
    """The epsilon of LayerNorm, which keeps it from dividing by zero."""
    feed_forward: Literal["linear", "conv1d"] = "linear"
    """How the feed-forward network stores its weights: as linear layers or as convolutions of width 1, which compute the same."""
    activation: Literal["relu", "swish", "gelu"] = "relu"
    """The function between the two matrices of a feed-forward network: relu in the paper; imported models have others."""
    attention_bias: bool = True
    """Whether the projections of the attention have biases."""
    attention_temperature: float | None = Field(None, gt=0)
    """What attention scores are divided by before the softmax. null: sqrt(head_dim), as in the paper."""
    tie_embeddings: Literal["none", "target", "all"] = "all"
    """Which matrices are one and the same: target embedding and output projection (target), or the source embedding, too (all)."""
    projection_bias: bool = False
    """Whether the output projection has a bias, as imported models have."""
    embedding_scale: Literal["embedding", "projection", "none"] = "embedding"
    """Where tied weights are scaled: the embedding times sqrt(d_model), the logits divided by sqrt(d_model), or nowhere."""
    embedding_init: Literal["normal", "xavier"] = "normal"
    """How embeddings are initialized: normal, with variance 1 after scaling, or Xavier uniform."""
    embedding_norm: bool = False
    """Whether a LayerNorm follows the embedding."""
    positions: Literal["sinusoid", "rotary", "rotary_cross"] = "sinusoid"
    """How the model knows the order of tokens: sinusoids added to the embeddings (as in the paper), rotary embeddings in
    self-attention (Su et al. 2021), which learn faster, or in cross-attention, too."""
    first_position: Literal[0, 1] = 0
    """The number of the first position in the sinusoids."""
    max_positions: int = Field(1024, ge=8, le=65536)
    """The largest number of tokens, end symbol included, that the model can read or write at once."""

    @property
    def d_k(self) -> int:
        """Dimensions of a head's queries and keys (Vaswani et al. 2017, section 3.2)."""
        return self.head_dim or self.d_model // self.n_heads

    @property
    def d_v(self) -> int:
        """Dimensions of a head's values."""
        return self.value_dim or self.d_k

    def contradictions(self) -> Iterator[Contradiction]:
        width, heads, n_positions = f"model.d_model {self.d_model}", self.n_heads, self.max_positions
        if self.head_dim is None and self.d_model % heads:
            near = max(n for n in range(1, heads) if self.d_model % n == 0)
            fix = f"set model.n_heads to {near}, or give model.head_dim"
            yield "model.n_heads model.d_model", f"{width} does not split into {heads} heads; {fix}"
        if self.d_model % 2:
            yield "model.d_model", f"{width} is odd; positions are pairs of sine and cosine"
        if self.positions.startswith("rotary") and self.d_k % 2:
            odd = f"model.positions '{self.positions}' turns pairs of a head's dimensions, which are {self.d_k}"
            yield "model.positions model.head_dim model.n_heads", f"{odd}; give an even model.head_dim"
        key, size, what = "d_model", self.d_model, f"model.d_model {self.d_model}"
        if self.positions != "sinusoid":
            key, size, what = "head_dim", self.d_k * heads, f"model.head_dim {self.d_k} times model.n_heads {heads}"
        if n_positions * size > 1 << 26:  # a short config must not allocate gigabytes
            product = f"model.max_positions {n_positions} times {what}"
            yield f"model.max_positions model.{key}", f"{product} is more than {1 << 26:,} numbers; lower one"


class TrainingConfig(Section):
    max_steps: int = Field(20_000, ge=1, le=100_000_000)
    """Number of updates after which training ends, unless patience ends it earlier. The schedule is stretched to it."""
    minutes: float | None = Field(None, gt=0, le=1e6)
    """Train for this long: steps and schedule are fitted to it, patience is ignored. The same as `mt train --minutes`."""
    init_from: str | None = None
    """A run directory to begin with: its weights, tokenizer and held-out sets, and its network and search where this config
    leaves them open. The same as `mt train --from`."""
    extend_vocabulary: bool | None = None
    """Whether to add subwords of the new text to the tokenizer of init_from. null: where that run has not learnt both languages."""
    rehearsal: float = Field(0.67, ge=0, lt=1)
    """With init_from: the share of an epoch that is training text of that run, so that it is not forgotten, and at least 200
    pairs. Only where the new text is in the same direction and has less than half as many pairs."""
    freeze: list[Literal["embeddings", "encoder", "decoder", "all_but_embeddings"]] = []
    """Parts of the network that never change, for a run with init_from that learns from little text. The output projection is
    one of the embeddings."""
    last_phase: Probability = 0.33
    """Share of the steps, counted from the end, in which corpora have their last_weight, where they have one."""
    batch_tokens: int = Field(2048, ge=16, le=500_000)
    """Target tokens in a batch, padding included. If memory runs out, halve it and double accumulate."""
    accumulate: int = Field(1, ge=1, le=1024)
    """Number of batches whose gradients are added up for one update."""
    learning_rate: float = Field(2.5e-3, gt=0, le=1e4)
    """The highest learning rate, reached after warmup_steps. With schedule: noam it is a factor, 1.0 in the paper."""
    schedule: Literal["inverse_sqrt", "noam", "cosine", "linear", "constant"] = "linear"
    """How the learning rate falls after the warm-up: with 1 / sqrt(step) (inverse_sqrt; noam is the paper's form), along half a
    cosine or in a straight line to zero at max_steps, or not at all."""
    warmup_steps: int = Field(400, ge=0, le=100_000_000)
    """Number of first updates in which the learning rate rises from zero. A tenth of max_steps is enough."""
    weight_decay: float | None = Field(None, ge=0, le=1)
    """Decoupled weight decay of matrices and embeddings. null: what is not learnt again falls to 1/e within two epochs."""
    optimizer: Literal["adamw", "muon"] = "muon"
    """How weights are updated: the matrices of the layers by Muon (Jordan et al. 2024) and all else by AdamW, or all by AdamW."""
    adam_beta1: Probability = 0.9
    """AdamW's decay of the mean of the gradients."""
    adam_beta2: Probability = 0.98
    """AdamW's decay of the mean of the squared gradients."""
    label_smoothing: Probability = 0.1
    """Share of the probability that the loss spreads over all tokens instead of the right one."""
    clip_norm: float = Field(1.0, gt=0)
    """The largest norm of the gradient; a longer gradient is scaled down to it."""
    both_directions: float = Field(0.0, ge=0, le=1)
    """Share of the steps, counted from the start, in which every other step learns to translate backwards. 0.5 helps small
    corpora; 1 gives a translator for both ways. Needs tokenizer.joint: true."""
    r_drop: float = Field(0.0, ge=0, le=10)
    """Weight of R-Drop (Liang et al. 2021; half of the paper's alpha), which pulls the outputs of two forward passes together. 1
    helps small corpora; a step takes nearly twice as long. It begins when both_directions has ended."""
    average_decay: Probability = 0.999
    """Decay of the moving average of the weights, which is often the better translator and is saved beside them. 0: none."""
    validate_every_steps: int = Field(500, ge=1)
    """Number of updates between validations. A checkpoint is saved at each."""
    select_by: Literal["bleu", "chrf", "loss"] = "bleu"
    """The dev score that decides which checkpoint is the best. chrf suits languages with many word forms and small dev sets."""
    patience: int = Field(10, ge=1)
    """Number of validations in a row without a new best after which training stops."""
    n_samples: int = Field(3, ge=0, le=20)
    """Number of dev translations shown at each validation."""
    report: bool = False
    """Whether to write report.html into the run at each validation: the page of `mt report --quick`. Reload it to follow."""
    tensorboard: bool = False
    """Whether to write the losses and scores of metrics.jsonl into the run's folder tensorboard, too. Needs the extra:
    pip install 'mt-cli[tensorboard]'."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of the initial weights, the order of batches and dropout. Another seed shows how much scores vary by chance."""
    device: str = Field(
        "auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", examples=["auto", "cpu", "cuda", "cuda:1", "mps"]
    )
    """Where to compute: cpu, cuda, cuda:N or mps. auto: the GPU if there is one."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of the matrix products; weights are float32 in any case. auto: bf16 where the device is fast at it."""

    def contradictions(self) -> Iterator[Contradiction]:
        warmup, extends = "training.warmup_steps", "training.extend_vocabulary"
        if self.schedule == "noam" and not self.warmup_steps:
            yield f"{warmup} training.schedule", f"training.schedule 'noam' needs {warmup} of at least 1"
        if self.extend_vocabulary and self.init_from is None:
            yield extends, f"{extends} adds to the tokenizer of another run; set training.init_from (--from RUN)"
        frozen = set(self.freeze)
        if "embeddings" in frozen and ("all_but_embeddings" in frozen or {"encoder", "decoder"} <= frozen):
            yield "training.freeze", "training.freeze: nothing is left to learn; leave out one of the parts"


class DecodingConfig(Section):
    """The options of a search, declared here alone: keys, options of commands, and arguments of `Translator.translate`."""

    beam_size: int = Field(1, ge=1, le=1000)
    """Partial hypotheses kept at each step of the search. 1: greedy search; 4 to 10 often translate better, that much slower."""
    n_best: int = Field(1, ge=1, le=1000)
    """Number of translations given for each line, as: number ||| text ||| score. No more than beam_size; with sample: how many
    are drawn."""
    length_normalization: Literal["gnmt", "average"] = "gnmt"
    """What the score of a hypothesis is divided by in a beam. gnmt: ((5 + length) / 6) ** length_penalty (Wu et al. 2016);
    average: length ** length_penalty."""
    length_penalty: float = Field(1.0, ge=0, le=10)
    """The exponent of the length normalization in a beam. More favours longer translations; 0 compares bare scores."""
    max_length_ratio: float | None = Field(None, gt=0, le=100)
    """Output tokens allowed for each source token, plus 10. null: 2, or as many as training pairs have if that is more."""
    min_length: int = Field(0, ge=0, le=4096)
    """Number of tokens before a translation may end."""
    no_repeat_ngram: int = Field(0, ge=0, le=100)
    """Never write the same sequence of this many tokens twice in a translation. 3 or 4 end loops; 0: no limit."""
    sample: bool = False
    """Draw each token by its probability instead of searching for the best translation."""
    mbr: int = Field(0, ge=0, le=1000)
    """Number of samples, of which the translation is the one most like all of them in chrF (minimum Bayes risk decoding). 16, with a
    temperature of 0.5, suit a model that has learnt little. 0: none."""
    mbr_recall: float = Field(2.0, ge=0.1, le=10)
    """How often that chrF counts recall for each time that it counts precision. More gives longer translations."""
    temperature: float = Field(1.0, ge=1e-6, le=100)
    """How adventurous sampling is: below 1 likely tokens become likelier, above 1 all become more alike."""
    top_k: int = Field(0, ge=0)
    """Sample from the k most probable tokens only; 0: from all."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Sample from the fewest tokens whose probabilities add up to p (nucleus sampling); 1: from all."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of sampling. The same seed gives the same samples, in batches of any size."""
    batch_size: int | None = Field(None, ge=1, le=100_000)
    """Sentences decoded together: null is 64 on a CPU, 1,024 on a GPU. It changes speed and memory, not translations."""

    def contradictions(self) -> Iterator[Contradiction]:
        beam, best, batch = "decoding.beam_size", "decoding.n_best", "decoding.batch_size"
        if self.sample and self.mbr:
            yield "decoding.sample decoding.mbr", "decoding.sample and decoding.mbr are two searches; leave out one"
        if not self.sample and self.n_best > self.beam_size:
            yield f"{best} {beam}", f"{best} {self.n_best} is more than {beam} {self.beam_size}; raise the latter"
        if not self.sample and self.beam_size * (self.batch_size or 0) > 100_000:  # more exhaust memory for no speed
            product = f"{batch} {self.batch_size} times {beam} {self.beam_size}"
            yield f"{batch} {beam}", f"{product} is more than 100,000 sentences; lower one"

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn by their probability."""
        return self.sample or self.mbr > 0

    def keys_without_effect(self) -> dict[str, str]:
        """The keys that the others switch off: key -> the only searches that use it."""
        length_keys = ("length_normalization", "length_penalty")
        if self.draws:
            keys = ("beam_size", *length_keys, *(["mbr", "mbr_recall"] if self.sample else []))
            return dict.fromkeys(keys, "a search without sampling")
        unused = dict.fromkeys(("temperature", "top_k", "top_p", "seed"), "sampling") | {"mbr_recall": "--mbr"}
        return unused | (dict.fromkeys(length_keys, "a beam") if self.beam_size == 1 else {})


class Config(Section):
    data: Data
    """The text to learn from and to be scored on."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How text is split into subwords."""
    model: ModelConfig = ModelConfig()
    """The size and the form of the network. The defaults are a small Transformer; "the paper" is Vaswani et al. 2017."""
    training: TrainingConfig = TrainingConfig()
    """How the model learns, for how long, and when it is saved."""
    decoding: DecodingConfig = DecodingConfig()
    """How translations are searched for."""

    def contradictions(self) -> Iterator[Contradiction]:
        for section in (self.data, self.model, self.training, self.decoding):
            yield from section.contradictions()
        length, tag = self.data.max_length, " and a tag" if self.data.has_synthetic else ""
        if length + bool(tag) >= self.model.max_positions:  # the end symbol takes one more
            long = f"data.max_length {length}{tag} is not below model.max_positions {self.model.max_positions}"
            yield "data.max_length model.max_positions", f"{long}; raise the latter"
        if not self.tokenizer.joint:
            fix = "needs one vocabulary; set tokenizer.joint: true, or"
            if self.model.tie_embeddings == "all":
                yield "model.tie_embeddings tokenizer.joint", f"model.tie_embeddings 'all' {fix} tie_embeddings: target"
            if self.training.both_directions:
                yield "training.both_directions tokenizer.joint", f"training.both_directions {fix} both_directions: 0"


def given_keys(config: Config) -> dict[str, Any]:
    """The keys that were set, in the file or on the command line, with their values: `model.d_model` and so on."""
    return {f"{name}.{key}": getattr(section, key) for name, section in config for key in section.model_fields_set}


SEARCHED = (
    "beam_size", "length_normalization", "length_penalty", "n_best", "max_length_ratio", "min_length", "sample", "mbr",
    "mbr_recall", "temperature",
)  # fmt: skip
"""The keys of `decoding` that a run chooses when its training ends, where nobody has set one."""

OPEN_KEYS = {
    "tokenizer.joint", "tokenizer.vocab_size",
    "model.d_model", "model.ffn_dim", "model.n_heads", "model.n_encoder_layers", "model.n_decoder_layers",
    "model.dropout", "model.tie_embeddings", "model.positions",
    "training.learning_rate", "training.both_directions", "training.r_drop", "training.select_by",
    "training.max_steps", "training.warmup_steps", "training.validate_every_steps",
    "decoding.beam_size", "decoding.length_normalization", "decoding.length_penalty", "decoding.no_repeat_ngram",
}  # fmt: skip
"""The keys that depend on the corpus: recipe.py chooses those that are not set."""


# What may change within a run -----------------------------------------------------------------------------------------

_FREE_TO_CHANGE = {
    "data.test",
    "training.max_steps", "training.minutes", "training.patience",  # how long it trains
    "training.device",
    "training.extend_vocabulary",  # which is done before the first step
    "training.n_samples", "training.report", "training.tensorboard",  # what is shown of it
}  # fmt: skip
"""What may change within a run, beside the whole section `decoding`. What follows from the length is planned anew."""
_NAMES_OF_FILES = {"files", "dev", "tgt", "src", "back"}  # what is in the files decides whether they are the run's


def differing_keys(mine: Config, theirs: Config, names: Collection[str]) -> list[str]:
    """`section.key is X here, Y there` for each difference that no run may have. `names`: sections or keys, in each pair."""
    here, there = flat_keys(mine.model_dump()), flat_keys(theirs.model_dump())
    found = []
    for key in here | there:
        name = _of_any_pair(key)
        may_differ = name in _FREE_TO_CHANGE or not any(f"{name}.".startswith(f"{one}.") for one in names)
        if not may_differ and here.get(key) != there.get(key):
            x, y = ("null" if values.get(key) is None else values[key] for values in (here, there))
            found.append(f"{key} is {x} here, {y} there")
    return found


def _of_any_pair(key: str) -> str:
    return re.sub(r"pairs\.\d+\.", "", key)


def flat_keys(values: dict[str, Any], section: str = "") -> dict[str, Any]:
    """Each key, such as data.train.0.weight, and its value, or `given` for names of files."""
    flat = dict[str, Any]()
    for name, value in values.items():
        key = f"{section}{name}"
        if name == "why":
            continue
        if name == "train" and isinstance(value[0], str):
            value = [Corpus(files=value).model_dump()]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = {str(number): one for number, one in enumerate(value)}
        if isinstance(value, dict) and _of_any_pair(key) not in _FREE_TO_CHANGE:
            flat |= flat_keys(value, f"{key}.")
        else:
            flat[key] = "given" if value is not None and name in _NAMES_OF_FILES else value
    return flat
