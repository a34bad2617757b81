"""What a training is given: token ids, the tokenizer, the dev set of each language pair."""

from __future__ import annotations

from dataclasses import dataclass

from mt_cli.config import Config, DataConfig
from mt_cli.data.corpus import SentencePair
from mt_cli.data.mixture import Mixture
from mt_cli.data.profile import CorpusProfile
from mt_cli.data.tokenizer import Tokenizer


@dataclass
class PreparedPair:
    """A language pair that is trained on."""

    data: DataConfig
    profile: CorpusProfile
    dev: Mixture  # the dev set; BLEU and chrF are those of `dev_pairs`
    dev_pairs: list[SentencePair]


@dataclass
class PreparedData:
    config: Config  # with a value for each key that was left open
    tokenizer: Tokenizer
    train: Mixture
    pairs: list[PreparedPair]  # at least one
    sha256: str  # of all that the training depends on
