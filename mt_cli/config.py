"""The config: every key with its type, range, default and explanation, and below the keys of a section the rules between them.

The string below a key explains it; `mt config` prints these strings, and an editor shows them. This file knows nothing of
YAML (`config_file.py` does) and nothing of torch, so that a mistake in a config is reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.json_schema import SkipJsonSchema

LANGUAGE_PATTERN = r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$"
COLUMNS_PATTERN = r"^[^,]+,[^,]+$"
NAME_PATTERN = r"^[\w.-]+$"
DEVICE_PATTERN = r"^(auto|cpu|mps|cuda(:\d+)?)$"
MAX_HEADS = 128
AUTO = 0
"""What `training.batch_tokens: auto` is read as. Before the first step it is replaced, also in the run's own config, by the
smallest number that is about as fast as any that fits into memory."""

_LANGUAGE_CODES = {
    "cn": "zh", "chinese": "zh", "mandarin": "zh", "jp": "ja", "japanese": "ja", "thai": "th", "khmer": "km",
    "burmese": "my", "tibetan": "bo",
}  # fmt: skip
"""What people write instead of a language code, and the code. Only languages without spaces between words are listed: for
the others a wrong code changes no score."""


def meant_language(tag: str) -> str | None:
    """The code of the language that is meant by that of a country, such as zh by cn."""
    return _LANGUAGE_CODES.get(re.split("[-_]", tag)[0].lower())


def is_table(file: str) -> bool:
    """Whether, by its name, the file holds both languages in columns."""
    return re.search(r"\.([tc]sv|xlsx?|ods)(\.gz)?$", file, re.IGNORECASE) is not None


def _language(tag: str) -> str:
    if code := meant_language(tag):
        raise ValueError(f"expected the code of a language, such as '{code}'")
    return tag


def _files(value: Any) -> Any:
    files = [value] if isinstance(value, str) else value
    if not isinstance(files, list) or len(files) not in {1, 2} or not all(isinstance(file, str) for file in files):
        raise ValueError("expected [source file, target file] or one table (.tsv, .csv or .xlsx)")
    if len(files) == 1 and not is_table(files[0]):
        raise ValueError("expected two files, source and target, or one table (.tsv, .csv or .xlsx)")
    if len(files) == 2 and files[0] == files[1]:
        raise ValueError("expected two different files, source and target")
    return files


def _texts(value: Any) -> Any:
    files = [value] if isinstance(value, str) else value
    if not isinstance(files, list) or not files or not all(isinstance(file, str) for file in files):
        raise ValueError("expected a text file or a list of text files")
    if any(map(is_table, files)):
        raise ValueError("expected text with a sentence on each line (save a column of a table as such)")
    return files


_FILES_SCHEMA = [
    {"title": "[source file, target file]", "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
    {"title": "one .tsv, .csv or .xlsx file", "type": "string"},
]
Files = Annotated[list[str], BeforeValidator(_files), WithJsonSchema({"anyOf": _FILES_SCHEMA})]
"""`[source file, target file]`, line n beside line n; or one table: `.tsv`, `.csv` or `.xlsx`. All but the last may end in
`.gz`."""

TextFiles = Annotated[
    list[str],
    BeforeValidator(_texts),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
"""Text files that follow one another. Each may end in `.gz`."""

Language = Annotated[str, Field(pattern=LANGUAGE_PATTERN, max_length=35), AfterValidator(_language)]
Columns = Annotated[str, Field(pattern=COLUMNS_PATTERN)]
BatchTokens = Annotated[
    int,
    Field(ge=16, le=4_000_000),
    WrapValidator(lambda value, validate: AUTO if value == "auto" else validate(value)),
    PlainSerializer(lambda value: "auto" if value == AUTO else value),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 16, "maximum": 4_000_000}, {"enum": ["auto"]}]}),
]
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
    """Whether its source was translated from its target by a machine. It teaches to write the target language only, and none
    of its pairs is held out."""
    hold_out: bool = True
    """Whether pairs of it may be held out as dev and test sets. false: where it is not of the kind that will be translated."""


class Monolingual(Section):
    """Text in one language alone."""

    tgt: TextFiles
    """A text file in the target language with a sentence on each line, or a list of such files."""
    src: TextFiles | None = None
    """The same in the source language. The reverse model learns from it as this run learns from tgt."""
    search: Literal["greedy", "beam", "sampling"] = "greedy"
    """How its sources are searched for: the most probable token at each step (greedy), the search of the reverse model's
    config (beam), or each token drawn by its probability (sampling; Edunov et al. 2018)."""
    back: str | None = None
    """A run that translates from target to source. null: one is trained on the same pairs, in the run's folder back."""

    def contradictions(self) -> Iterator[Contradiction]:
        if self.src and self.back is not None:
            yield (
                "data.monolingual.src data.monolingual.back",
                f"data.monolingual.src is for a reverse model that is trained here, not for {self.back}; leave out one of"
                " the two",
            )


class WordList(Section):
    """Words and short phrases with their translations, such as a dictionary."""

    files: Files
    """[source file, target file], line n beside line n, or one table."""
    share: float = Field(0.1, gt=0, le=0.5)
    """The share of an epoch's pairs that are of the list. Of a longer list epochs take the entries in turn, a shorter one is
    repeated, up to ten times."""
    columns: Columns | None = None
    """Which columns of a table are source and target, as data.columns."""


def _form_of(train: Any) -> str:
    """Which form `data.train` has: the tag of one of the types in `Train`."""
    items = train if isinstance(train, list) else [train]
    return "[corpora]" if any(isinstance(item, (dict, Corpus)) for item in items) else "[files]"


Train = Annotated[
    Annotated[Files, Tag("[files]")] | Annotated[list[Corpus], Field(title="corpora"), Tag("[corpora]")],
    Discriminator(_form_of),
]


class LanguagePair(Section):
    src_lang: Language
    """Language code of the source text, such as en or zh."""
    tgt_lang: Language
    """Language code of the target text. It decides how scores split words, and whether sentences are joined by a space."""
    train: Train
    """The training text: [source file, target file], where line n of one translates line n of the other, or one table:
    a .tsv, .csv or .xlsx file with a pair in each row. Text files may be compressed (.gz). Paths are relative to the directory
    where mt is started. Or a list of corpora: {files: [news.es, news.gn], weight: 2}, {files: web.tsv, weight: 0.5}; an
    epoch has each pair as often as the weight says (1 by default), and with 0.5 the next epoch has the other half."""
    dev: Files | None = None
    """The validation text, in the same form. It decides which checkpoint is the best and when training stops early, so it
    must not contain training pairs. 500 to 3,000 pairs are usual. null: some pairs of the training text are held out as
    dev set, and, where data.test is empty, some more as test set."""
    test: dict[Annotated[str, Field(pattern=NAME_PATTERN)], Files] = {}
    """Test sets by name, each in the same form, for `mt evaluate`. Training does not learn from them; it only warns about
    training pairs that occur in them."""
    words: Annotated[WordList, Field(title="a section")] | None = None
    """A list of words and short phrases to learn as well: {files: words.tsv}. share: the part of an epoch that they are, small
    so that training on them shortens no translation. None is held out."""
    columns: Columns | None = None
    """Which columns of a table are source and target: two names of its header row or two numbers, such as es,gn or 1,3. null:
    they are found by themselves, and told. It has no effect on pairs of files."""

    @property
    def name(self) -> str:
        return f"{self.src_lang}-{self.tgt_lang}"

    @property
    def corpora(self) -> list[Corpus]:
        """The training text, whatever form `train` has."""
        corpora = [item for item in self.train if isinstance(item, Corpus)]
        return corpora or [Corpus(files=[str(file) for file in self.train])]

    def contradictions(self, at: str = "data") -> Iterator[Contradiction]:
        """`at`: the section that the keys are in."""
        if self.src_lang.lower() == self.tgt_lang.lower():
            told = f"{at}.src_lang and {at}.tgt_lang are both '{self.src_lang}'; they must differ"
            yield f"{at}.tgt_lang {at}.src_lang", told
        corpora = self.corpora
        for number, corpus in enumerate(corpora):
            first = next(i for i, other in enumerate(corpora) if other.files == corpus.files)
            if first < number:
                weight = corpus.weight + corpora[first].weight
                told = f"the files of {at}.train.{first} once more; name them once, with a weight of {weight:g}"
                yield f"{at}.train.{number}", f"{at}.train.{number}: {told}"
        if all(corpus.synthetic for corpus in corpora):
            yield f"{at}.train", f"{at}.train: all corpora are synthetic; add one that people translated"
        elif self.dev is None and not any(corpus.hold_out and not corpus.synthetic for corpus in corpora):
            told = f"no corpus from which a dev set may be held out; give {at}.dev, or leave out hold_out: false"
            yield f"{at}.train {at}.dev", f"{at}.train: {told}"
        if "dev" in self.test:
            told = f"{at}.test.dev is what the scores of {at}.dev are called; choose another name"
            yield f"{at}.test.dev", told


class DataConfig(LanguagePair):
    """The data of one language pair."""

    monolingual: Annotated[Monolingual, Field(title="a section")] | None = None
    """Text in the target language alone: {tgt: news.gn}, or a list of files. First a reverse model is trained, then it
    translates this text, and then the run learns from these synthetic pairs, too, which a tag tells apart. src: text in the
    source language, from which the reverse model learns in the same way; search: greedy, beam or sampling;
    back: a run to translate with, instead of training one."""
    max_length: int = Field(256, ge=4, le=4096)
    """The largest number of tokens on either side. Longer training pairs are dropped and counted; longer input of
    `mt translate` is split. Must be below model.max_positions."""
    on_bad_line: Literal["error", "skip"] = "error"
    """What to do with a line that is not UTF-8: stop with an error, or skip the pair and count it."""
    dedup: bool = False
    """Whether to drop exact repetitions of a training pair in its corpus. Set it to true for text crawled from the web."""
    clean: bool = False
    """Whether to leave out the training pairs that `mt check` would drop: without text on a side, copied, repeated,
    untranslated, of a shifted stretch and so on. The same as `mt train --clean`; the run's left_out.tsv lists them."""
    spelling: Literal["dev", "own"] = "dev"
    """Whose spelling training is read in, where its text has an apostrophe or a Latin letter with marks that data.dev hardly
    ever has: ã for its â, ’ for its '. dev: that of the dev set, in `mt translate`, too; own: that of the files. `mt check`
    and `mt train` list these characters. With training.init_from, the other run's spelling is kept."""
    bleu_tokenize: Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] = "auto"
    """How sacrebleu splits text into words for BLEU. auto chooses by tgt_lang; change it only to compare with scores that
    were computed with another tokenizer."""

    @property
    def directions(self) -> list[DataConfig]:
        """The data of each language pair by itself."""
        return [self]

    @property
    def has_synthetic(self) -> bool:
        """Whether some of the sources are written by a machine, and have a tag."""
        corpora = [corpus for pair in self.directions for corpus in pair.corpora]
        return self.monolingual is not None or any(corpus.synthetic for corpus in corpora)

    def contradictions(self, at: str = "data") -> Iterator[Contradiction]:
        yield from super().contradictions(at)
        if self.monolingual is not None:
            yield from self.monolingual.contradictions()


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
    """Language pairs that one model learns, each with its own src_lang, tgt_lang, train, dev, test, words and columns, in place
    of those of data. A tag before each source says which language to translate into: `mt translate RUN --to de`."""
    temperature: float = Field(1.0, ge=1, le=100)
    """How much smaller language pairs are favoured: pairs of n sentence pairs are drawn in proportion to n ** (1 /
    temperature). 1: as they are; 5 repeats small ones so often that a pair with a hundredth of the text is drawn two
    fifths as often."""

    @property
    def directions(self) -> list[DataConfig]:
        shared = {
            name: getattr(self, name) for name in DataConfig.model_fields.keys() - LanguagePair.model_fields.keys()
        }
        return [
            DataConfig.model_construct(
                pair.model_fields_set | self.model_fields_set & shared.keys(),
                **shared,
                **{name: getattr(pair, name) for name in LanguagePair.model_fields},
            )
            for pair in self.pairs
        ]

    def contradictions(self, at: str = "data") -> Iterator[Contradiction]:
        for name in [name for name in LanguagePair.model_fields if name in self.model_fields_set]:
            told = "where each pair has its own; move it into the pairs, or leave out data.pairs"
            yield f"data.{name} data.pairs", f"data.{name} beside data.pairs, {told}"
        if self.monolingual is not None:
            told = "data.monolingual is for one language pair so far; leave it out, or data.pairs"
            yield "data.monolingual data.pairs", told
        # Neither --to nor the folders of some systems tell en-de from en-DE.
        names = [pair.name.lower() for pair in self.pairs]
        for number, pair in enumerate(self.pairs):
            yield from pair.contradictions(f"data.pairs.{number}")
            if (first := names.index(names[number])) < number:
                told = f"{pair.name}, as data.pairs.{first}; give the corpora of both as one data.pairs.{first}.train"
                yield f"data.pairs.{number}", f"data.pairs.{number} is {told}"


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
    """How SentencePiece learns subwords: its unigram model, or byte-pair encoding (bpe). It learns from 500,000 sentences,
    drawn from all of the text where there are more."""
    joint: bool = True
    """Whether both languages share one vocabulary. Set it to false for languages with different scripts, together with
    model.tie_embeddings: target."""
    vocab_size: int = Field(8000, ge=300, le=256_000)
    """Number of subwords, for each language if joint is false. It is lowered if the corpus is too small for that many.
    2,000 suits a few thousand pairs, 8,000 tens of thousands, 12,000 a hundred thousand, 32,000 millions."""


class ModelConfig(Section):
    d_model: int = Field(256, ge=2, le=8192)
    """Width of the network: the dimensions of each token's vector. Even, and a multiple of n_heads unless head_dim is
    given. Larger models learn more from large corpora, and overfit small ones."""
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
    """Probability of dropping a value of a sublayer's output in training. Raise it if the dev loss rises while the training
    loss falls; 0.1 is usual for millions of pairs."""
    embedding_dropout: Probability | None = None
    """The same for the sum of embedding and position. null: as dropout."""
    attention_dropout: Probability | None = 0.0
    """The same for the attention weights. null: as dropout."""
    ffn_dropout: Probability | None = 0.0
    """The same between the two matrices of a feed-forward network. null: as dropout."""

    norm: Literal["pre", "post"] = "pre"
    """Where a sublayer is normalized: before it (pre, trains more easily) or after its residual connection (post, as in the
    paper)."""
    layer_norm: Literal["variance", "deviation"] = "variance"
    """What LayerNorm divides by: sqrt(variance + epsilon), as torch does, or standard deviation + epsilon."""
    layer_norm_epsilon: float = Field(1e-5, gt=0, le=0.1)
    """The epsilon of LayerNorm, which keeps it from dividing by zero."""
    feed_forward: Literal["linear", "conv1d"] = "linear"
    """How the feed-forward network stores its weights: as linear layers or as convolutions of width 1. Both compute the
    same."""
    activation: Literal["relu", "swish", "gelu"] = "relu"
    """The function between the two matrices of a feed-forward network: relu, as in the paper, or those of models that are
    imported."""
    attention_bias: bool = True
    """Whether the projections of the attention have biases."""
    attention_temperature: float | None = Field(None, gt=0)
    """What attention scores are divided by before the softmax. null: sqrt(head_dim), as in the paper."""
    tie_embeddings: Literal["none", "target", "all"] = "all"
    """Which matrices are one and the same: none; target embedding and output projection (target); or the source embedding
    too (all, which needs tokenizer.joint: true)."""
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
    self-attention (Su et al. 2021), or rotary embeddings in cross-attention too. Rotary models learn faster; Hugging Face
    formats cannot hold them."""
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
        if self.head_dim is None and self.d_model % self.n_heads:
            near = next(n for n in range(self.n_heads, 0, -1) if self.d_model % n == 0)
            yield (
                "model.n_heads model.d_model",
                f"model.d_model {self.d_model} does not split into {self.n_heads} heads; set model.n_heads to {near}, or"
                " give model.head_dim",
            )
        if self.d_model % 2:
            told = f"model.d_model {self.d_model} is odd; positions are pairs of sine and cosine"
            yield "model.d_model", told
        if self.positions != "sinusoid" and self.d_k % 2:
            yield (
                "model.positions model.head_dim model.n_heads",
                f"model.positions '{self.positions}' turns pairs of a head's dimensions, which are {self.d_k}; give an even"
                " model.head_dim",
            )
        if self.embedding_scale == "none" and self.embedding_init == "normal" and self.tie_embeddings != "none":
            yield (
                "model.embedding_scale model.embedding_init model.tie_embeddings",
                "model.embedding_scale 'none' makes embeddings that are also the projection too large to begin with; set"
                " model.embedding_init: xavier",
            )
        key, width = ("d_model", self.d_model) if self.positions == "sinusoid" else ("head_dim", self.d_k)
        if self.max_positions * width > _MAX_POSITION_TABLE:
            yield (
                f"model.max_positions model.{key}",
                f"model.max_positions {self.max_positions} times model.{key} {width} is more than"
                f" {_MAX_POSITION_TABLE:,} numbers; lower one",
            )


_MAX_POSITION_TABLE = 1 << 25  # numbers: a short config must not allocate gigabytes


class TrainingConfig(Section):
    max_steps: int = Field(20_000, ge=1, le=100_000_000)
    """Number of updates after which training ends, unless patience ends it earlier. The schedule is stretched to it."""
    minutes: float | None = Field(None, gt=0, le=1e6)
    """Train for this long: the number of steps and the schedule are fitted to it, patience is ignored. null: train for
    max_steps. The same as `mt train --minutes`."""
    init_from: str | None = None
    """A run directory to begin with: its weights, its tokenizer, the sets that it held out, and where this config leaves
    them open its network and its search. The same as `mt train --from`. null: random weights."""
    extend_vocabulary: bool | None = None
    """Whether to add subwords of the new text to the tokenizer of the run to begin with. The same as `mt train
    --extend-vocabulary`. Each begins as the mean of the subwords that spelt it. null: where that run has not learnt both
    languages; false: its tokenizer is kept."""
    rehearsal: float = Field(0.67, ge=0, lt=1)
    """With init_from: which share of an epoch is training text of the run to begin with, so that it is not forgotten. Only
    where the new text is between the same languages and has less than half as many pairs. 0: none."""
    freeze: list[Literal["embeddings", "encoder", "decoder", "all_but_embeddings"]] = []
    """Parts of the network that the training never changes, for a run with init_from that learns from little text: embeddings
    (those of both languages, and the output projection), encoder, decoder, all_but_embeddings."""
    batch_tokens: BatchTokens = 2048
    """Target tokens in a batch, padding included. auto: the smallest batch that trains about as many tokens a second as the
    fastest that fits into memory. If memory runs out, halve it and double accumulate: an update then has as many tokens as
    before."""
    accumulate: int = Field(1, ge=1, le=1024)
    """Number of batches whose gradients are added up for one update."""
    learning_rate: float = Field(2.5e-3, gt=0, le=1e4)
    """The highest learning rate, reached after warmup_steps. Lower it if the loss jumps. With schedule: noam it is a factor,
    1.0 in the paper."""
    schedule: Literal["inverse_sqrt", "noam", "cosine", "linear", "constant"] = "linear"
    """How the learning rate falls after the warm-up: with 1 / sqrt(step) (inverse_sqrt; noam is the paper's form of it), along
    half a cosine or in a straight line down to zero at max_steps, or not at all."""
    warmup_steps: int = Field(400, ge=0, le=100_000_000)
    """Number of first updates in which the learning rate rises from zero. A tenth of max_steps is enough."""
    weight_decay: float | None = Field(None, ge=0, le=1)
    """Decoupled weight decay of matrices and embeddings, not of norms and biases. null: chosen from the size of the corpus:
    a weight that is not learnt again falls to 1/e (37%) of what it was within two epochs; at most 1."""
    optimizer: Literal["adamw", "muon"] = "muon"
    """muon updates the matrices of the layers with Muon (Jordan et al. 2024) and all else with AdamW; adamw updates all with
    AdamW. A learning rate that suits one need not suit the other."""
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
    corpora: each pair teaches twice. 1 gives a translator for both ways: `mt translate RUN --to SOURCE_LANGUAGE`. Needs
    tokenizer.joint: true."""
    r_drop: float = Field(0.0, ge=0, le=10)
    """Weight of R-Drop (Liang et al. 2021; half of the paper's alpha): each pair goes through the network twice with different
    dropout, and the two outputs are pulled together. 1 helps small corpora; a step takes nearly twice as long. It begins
    when both_directions has ended. 0: off."""
    average_decay: Probability = 0.999
    """Decay of the moving average of the weights, which is often the better translator and is saved beside them. 0: no average
    is kept."""
    validate_every_steps: int = Field(500, ge=1)
    """Number of updates between validations. A checkpoint is saved at each."""
    select_by: Literal["bleu", "chrf", "loss"] = "bleu"
    """The dev score that decides which checkpoint is the best. chrf compares characters instead of words, which suits
    languages with many word forms and dev sets that are small. A dev loss half a nat below that of the best is better, too,
    whatever the score: before anything is learnt, scores are chance."""
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
    device: str = Field("auto", pattern=DEVICE_PATTERN)
    """Where to compute: cpu, cuda, cuda:N or mps. auto: the GPU if there is one."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of the matrix products; weights are float32 in any case. auto: bf16 where the device is fast at it."""

    def contradictions(self) -> Iterator[Contradiction]:
        if self.both_directions == 1 and self.r_drop:
            yield (
                "training.r_drop training.both_directions",
                "training.r_drop begins where both directions have been learnt, which training.both_directions 1 does to the"
                " end; lower it, or set r_drop: 0",
            )
        if self.schedule == "noam" and not self.warmup_steps:
            told = "training.schedule 'noam' needs training.warmup_steps of at least 1"
            yield "training.warmup_steps training.schedule", told
        if self.extend_vocabulary and self.init_from is None:
            told = (
                "training.extend_vocabulary adds to the tokenizer of another run; set training.init_from (--from RUN)"
            )
            yield "training.extend_vocabulary", told
        frozen = set(self.freeze)
        if "embeddings" in frozen and ("all_but_embeddings" in frozen or {"encoder", "decoder"} <= frozen):
            yield "training.freeze", "training.freeze: nothing is left to learn; leave out one of the parts"


class DecodingConfig(Section):
    """The options of a search, each declared here and nowhere else: they become options of `mt translate`, `mt evaluate` and
    `mt explain`, `--set decoding.KEY=VALUE`, and keyword arguments of `Translator.translate`."""

    beam_size: int = Field(1, ge=1, le=1000)
    """Partial hypotheses kept at each step of the search. 1 is greedy search; 4 to 10 often translate better, and take about
    that many times as long."""
    n_best: int = Field(1, ge=1, le=1000)
    """Number of translations given for each line. `mt translate` prints them as: number ||| text ||| score. No more than
    beam_size, which the option --n-best raises by itself; with sample: how many are drawn."""
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
    temperature: float = Field(1.0, ge=1e-6, le=100)
    """How adventurous sampling is: below 1 likely tokens become likelier, above 1 all become more alike."""
    top_k: int = Field(0, ge=0)
    """Sample from the k most probable tokens only; 0: from all."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Sample from the fewest tokens whose probabilities add up to p (nucleus sampling); 1: from all."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of sampling. The same seed gives the same samples, in batches of any size."""
    batch_size: int = Field(64, ge=1, le=100_000)
    """Sentences decoded together. It changes speed and memory, not translations."""

    def contradictions(self) -> Iterator[Contradiction]:
        if not self.sample and self.n_best > self.beam_size:
            yield (
                "decoding.n_best decoding.beam_size",
                f"decoding.n_best {self.n_best} is more than decoding.beam_size {self.beam_size}; raise the latter",
            )
        if not self.sample and self.beam_size * self.batch_size > _MAX_ROWS:
            yield (
                "decoding.batch_size decoding.beam_size",
                f"decoding.batch_size {self.batch_size} times decoding.beam_size {self.beam_size} is more than"
                f" {_MAX_ROWS:,} sentences at once; lower one",
            )

    def keys_without_effect(self) -> dict[str, str]:
        """The keys that the others switch off: key -> the only searches that use it."""
        length_keys = ("length_normalization", "length_penalty")
        if self.sample:
            return dict.fromkeys(("beam_size", *length_keys), "a search without sampling")
        unused = dict.fromkeys(("temperature", "top_k", "top_p", "seed"), "sampling")
        return unused | (dict.fromkeys(length_keys, "a beam") if self.beam_size == 1 else {})


_MAX_ROWS = 100_000  # partial hypotheses in a batch: larger batches exhaust memory without a speedup


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
        tag = " and a tag" if self.data.has_synthetic else ""
        if self.data.max_length + bool(tag) >= self.model.max_positions:  # the end symbol takes one more
            yield (
                "data.max_length model.max_positions",
                f"data.max_length {self.data.max_length}{tag} is not below model.max_positions"
                f" {self.model.max_positions}; raise the latter",
            )
        if self.model.tie_embeddings == "all" and not self.tokenizer.joint:
            yield (
                "model.tie_embeddings tokenizer.joint",
                "model.tie_embeddings 'all' needs one vocabulary; set tokenizer.joint: true, or tie_embeddings: target",
            )
        if self.training.both_directions and not self.tokenizer.joint:
            yield (
                "training.both_directions tokenizer.joint",
                "training.both_directions needs one vocabulary; set tokenizer.joint: true, or both_directions: 0",
            )


# What may change within a run -----------------------------------------------------------------------------------------

_FREE_TO_CHANGE = {
    "data.test",
    "training.max_steps", "training.minutes", "training.patience",  # how long it trains
    "training.device",
    "training.extend_vocabulary",  # which is done before the first step
    "training.n_samples", "training.report", "training.tensorboard",  # what is shown of it
}  # fmt: skip
"""What may change within a run, beside the whole section `decoding`. What follows from the length is planned anew: the
learning rate, which rises again in a finished run that gets more steps, until when both directions are learnt, patience."""
_NAMES_OF_FILES = {"files", "dev", "tgt", "src", "back"}  # what is in the files decides whether they are the run's


def differing_keys(mine: Config, theirs: Config, names: Collection[str]) -> list[str]:
    """`section.key is X here, Y there` for each key that differs and may not change within a run. `names`: sections, or
    single keys such as data.max_length."""
    here, there = dict(_settled(mine)), dict(_settled(theirs))
    shown = lambda value: "null" if value is None else value  # noqa: E731
    return [
        f"{key} is {shown(here.get(key))} here, {shown(there.get(key))} there"
        for key in dict.fromkeys([*here, *there])
        if here.get(key) != there.get(key)
        and any(f"{re.sub('pairs[.][0-9]+[.]', '', key)}.".startswith(f"{name}.") for name in names)
    ]


def _settled(config: Config) -> Iterator[tuple[str, Any]]:
    """What may not change within a run: each key and its value, or `given` for names of files."""
    values = config.model_dump()
    for pair, dumped in zip(config.data.directions, values["data"].get("pairs") or [values["data"]], strict=True):
        dumped["train"] = [corpus.model_dump() for corpus in pair.corpora]
    keys = [(name, values[name]) for name in values]
    while keys:
        key, value = keys.pop(0)
        if re.sub("pairs[.][0-9]+[.]", "", key) in _FREE_TO_CHANGE:
            continue
        if isinstance(value, dict):
            keys = [*((f"{key}.{name}", one) for name, one in value.items()), *keys]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            keys = [*((f"{key}.{number}", one) for number, one in enumerate(value)), *keys]
        else:
            yield key, "given" if value is not None and key.rpartition(".")[2] in _NAMES_OF_FILES else value


# Keys that are left open ----------------------------------------------------------------------------------------------


OPEN_KEYS = {
    "tokenizer.joint", "tokenizer.vocab_size",
    "model.d_model", "model.ffn_dim", "model.n_heads", "model.n_encoder_layers", "model.n_decoder_layers",
    "model.dropout", "model.tie_embeddings", "model.positions",
    "training.max_steps", "training.warmup_steps", "training.validate_every_steps", "training.learning_rate",
    "training.both_directions", "training.r_drop", "training.select_by",
    "decoding.beam_size", "decoding.length_normalization", "decoding.length_penalty", "decoding.no_repeat_ngram",
}  # fmt: skip
"""The keys whose best value depends on the corpus. `recipe.py` chooses them where a config has nothing but data."""


def given_keys(config: Config) -> dict[str, Any]:
    """The keys that were set, in the file or on the command line, with their values: `model.d_model` and so on."""
    sections = {name: getattr(config, name) for name in Config.model_fields}
    return {
        f"{name}.{key}": getattr(section, key) for name, section in sections.items() for key in section.model_fields_set
    }


def with_open_keys(config: Config, values: Mapping[str, Any]) -> Config:
    """The config in which each key of `values` that was not set has this value, as if it had been set."""
    update: dict[str, Section] = {}
    for name in Config.model_fields:
        section: Section = getattr(config, name)
        found = {key: values[f"{name}.{key}"] for key in type(section).model_fields if f"{name}.{key}" in values}
        update[name] = section.model_copy(update={k: v for k, v in found.items() if k not in section.model_fields_set})
    return config.model_copy(update=update)
