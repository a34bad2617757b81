"""Turns normalized text into subword ids and back; trains the sentencepiece models that do it, one for both languages
or one for each. Characters that are in no piece are spelled as bytes. A tag is a control symbol before the source, as
which no text is encoded."""

from __future__ import annotations

import copy
import hashlib
import io
import logging
import random
import re
import struct
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import cached_property
from itertools import pairwise
from typing import Literal

import sentencepiece as spm

from mt_cli.data.normalize import NO_BREAK_SPACES, normalize
from mt_cli.data.spans import SYMBOLS, TERM_SYMBOLS, held, hold_pair
from mt_cli.errors import CheckpointError, DataError, is_out_of_memory, is_out_of_threads

log = logging.getLogger(__name__)

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
SYNTHETIC = "<bt>"  # the tag of a source that a model wrote (Caswell et al. 2019)
REAL = "<real>"  # the tag of a source that people wrote, where those of a model have none
SAMPLE_SIZE = 500_000  # sentences that pieces are learnt from: sentencepiece needs 1 to 2 KB for each
MAX_PIECE = 16  # characters that a piece spells, by sentencepiece's default
_MAX_LINE_BYTES = 1 << 16  # longer lines are left out where pieces are learnt
# sentencepiece's types of pieces; an unused one is never read
NORMAL, UNKNOWN, CONTROL, WHOLE, UNUSED, BYTE = range(1, 7)

_IN_NO_PIECE = "\ufdd0"  # a character that no text has

Sentences = Callable[[], Iterator[str]]  # starts reading normalized sentences anew


def tag_of(language: str) -> str:
    """The tag that says which language to translate into (Johnson et al. 2017)."""
    return f"<2{language}>"


class Tokenizer:
    """`models`: one sentencepiece model, or source and target. Targets have no-break spaces where pieces have them.
    Raises CheckpointError."""

    def __init__(self, models: list[bytes]):
        self.models, self.is_joint = models, len(models) == 1
        processors = list(map(processor_of, models))
        for one in processors:
            ids = (one.pad_id(), one.unk_id(), one.bos_id(), one.eos_id())
            if ids != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
                raise CheckpointError(f"not a tokenizer of mt's: pad, unk, bos, eos are {ids}, expected (0, 1, 2, 3)")
        self._src, self._tgt = processors[0], processors[-1]
        self.vocab_sizes = self.src_vocab_size, self.tgt_vocab_size = len(self._src), len(self._tgt)
        self._src_tags: tuple[int, ...] = ()
        self.keeps_no_break_spaces = any(self._tgt.piece_to_id(space) != UNK_ID for space in NO_BREAK_SPACES)

    @cached_property
    def symbol_ids(self) -> dict[str, int]:
        """The target ids of the symbols of spans (spans.py): none in a tokenizer of another program."""
        ids = self._tgt.piece_to_id(list(SYMBOLS))
        return {} if UNK_ID in ids else dict(zip(SYMBOLS, ids, strict=True))

    def symbols_in(self, text: str) -> tuple[int, ...]:
        """The target ids of those in a source."""
        return tuple(self.symbol_ids[symbol] for symbol in held(text) if symbol in self.symbol_ids)

    @cached_property
    def has_term_symbols(self) -> bool:
        """Whether sources may have translations between `TERM_SYMBOLS`."""
        return UNK_ID not in map(self._src.piece_to_id, TERM_SYMBOLS)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(b"".join(self.models)).hexdigest()

    @cached_property
    def tags(self) -> dict[str, int]:
        """All tags, with their ids."""
        return {piece: i for i, piece in enumerate(self.src_vocabulary()) if i > EOS_ID and self._src.is_control(i)}

    def tags_for(self, language: str) -> tuple[int, ...]:
        """The ids before a source that is to be translated into a language: none in a tokenizer without its tag."""
        tag = self.tags.get(tag_of(language))
        return () if tag is None else (tag,)

    def towards(self, language: str) -> Tokenizer:
        """The tokenizer that writes the tag of a language before each source, if it has it."""
        other = copy.copy(self)
        other._src_tags = self.tags_for(language)
        return other

    @property
    def src_tags(self) -> list[str]:
        """What it writes before each source."""
        return self.src_pieces(self._src_tags)

    def normalize_tgt(self, text: str) -> str:
        """The text as a target of this tokenizer: `normalize`, with no-break spaces where these pieces have them."""
        return normalize(text, self.keeps_no_break_spaces)

    def encode_src(self, text: str) -> list[int]:
        """Source ids of normalized text, without the end symbol; [] for ''."""
        ids = list(self._src.encode(text))
        return [*self._src_tags, *ids] if ids else []

    def encode_tgt(self, text: str) -> list[int]:
        """Target ids of text that `normalize_tgt` gave, without begin and end symbol."""
        return list(self._tgt.encode(text))

    def encode_src_cut(self, text: str, places: Iterable[int]) -> list[int]:
        """`encode_src` in pieces of which none crosses one of these places in the text."""
        ids, within = list(self._src_tags), self._src.encode(_IN_NO_PIECE)
        for start, end in pairwise(sorted({0, *places, len(text)})):
            piece, is_within = text[start:end], start > 0 and not text[start - 1 : start + 1].count(" ")
            ids += self._src.encode(_IN_NO_PIECE + piece)[len(within) :] if is_within else self._src.encode(piece)
        return ids

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """The ids of both sides of normalized pairs, without tags, with symbols for common spans, on all cores."""
        pairs = [hold_pair(*pair) for pair in pairs] if self.symbol_ids else pairs
        sources = self._src.encode([src for src, _ in pairs], num_threads=-1)
        targets = self._tgt.encode([self.normalize_tgt(tgt) for _, tgt in pairs], num_threads=-1)
        return list(zip(sources, targets, strict=True))

    def decode_src(self, ids: list[int]) -> str:
        return normalize(self._src.decode(ids))

    def decode_tgt(self, ids: list[int]) -> str:
        """One line of text, even where byte pieces spell a line end or half a character."""
        return self.normalize_tgt(self._tgt.decode(ids))

    def src_pieces(self, ids: Sequence[int]) -> list[str]:
        return list(self._src.id_to_piece(list(ids)))

    def tgt_pieces(self, ids: Sequence[int]) -> list[str]:
        return list(self._tgt.id_to_piece(list(ids)))

    def src_vocabulary(self) -> list[str]:
        """All pieces, in the order of their ids."""
        return self.src_pieces(range(self.src_vocab_size))

    def tgt_vocabulary(self) -> list[str]:
        return self.tgt_pieces(range(self.tgt_vocab_size))

    def tgt_ids(self, pieces: list[str]) -> list[int]:
        """The inverse of `tgt_pieces`."""
        return list(self._tgt.piece_to_id(pieces))


# Models: serialized messages of protobuf, to which pieces can be appended ----------------------------------------------


def processor_of(model: bytes) -> spm.SentencePieceProcessor:
    """Raises CheckpointError for bytes that are no model."""
    processor = spm.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError):
        raise CheckpointError("damaged, not a sentencepiece model; restore the tokenizer from a copy") from None
    return processor


def piece_message(piece: str, score: float, kind: int = NORMAL) -> bytes:
    """A piece as an element of a model's first field. In protobuf's encoding it may stand anywhere in a model."""
    content = field_message(1, piece.encode()) + b"\x15" + struct.pack("<f", score)
    return field_message(1, content if kind == NORMAL else content + b"\x18" + bytes([kind]))


def field_message(number: int, content: bytes) -> bytes:
    size, encoded = len(content), bytearray([number << 3 | 2])
    while size >= 128:
        encoded.append(size & 127 | 128)
        size >>= 7
    return bytes([*encoded, size]) + content


def with_tags(tokenizer: Tokenizer, tags: Sequence[str], symbols: str = "") -> Tokenizer:
    """The tokenizer with those of these tags and symbols that its sources lack, after its own pieces, whose ids stay."""
    added = b"".join(piece_message(tag, 0.0, CONTROL) for tag in dict.fromkeys(tags) if tag not in tokenizer.tags)
    lacking = set(symbols).difference(tokenizer.src_vocabulary())
    added += b"".join(piece_message(symbol, 0.0, WHOLE) for symbol in sorted(lacking))
    source, *target = tokenizer.models
    return Tokenizer([source + added, *target]) if added else tokenizer


def extend_tokenizer(tokenizer: Tokenizer, sides: list[Sentences], algorithm: str, vocab_size: int) -> Tokenizer:
    """The tokenizer with more pieces after its own: those of one trained on `sides` that occur twice and that it lacks."""
    models, is_bpe = [], algorithm == "bpe"
    for model, sentences in zip(tokenizer.models, sides, strict=True):
        old, new = processor_of(model), processor_of(_train(sentences, algorithm, vocab_size, may_be_more=True))
        counts = Counter(i for text in sentences() for i in new.encode(text))
        added = [
            i for i in range(EOS_ID + 1, new.get_piece_size())
            if not new.is_byte(i) and old.piece_to_id(new.id_to_piece(i)) == UNK_ID
            and (is_bpe or counts[i] >= 2)  # merges lead over pieces that no text has left
        ]  # fmt: skip
        # bpe: a score is a place in the order of the merges. unigram: a logarithm of a probability, which text of
        # another kind changes little.
        last = min(old.get_score(i) for i in range(old.get_piece_size()))
        scores = [last - 1 - n if is_bpe else new.get_score(i) for n, i in enumerate(added)]
        models.append(model + b"".join(map(piece_message, map(new.id_to_piece, added), scores)))
    return Tokenizer(models)


# Training ------------------------------------------------------------------------------------------------------------


def train_tokenizer(
    sides: list[Sentences], algorithm: str, vocab_size: int, tags: Sequence[str] = (), symbols: str = ""
) -> Tokenizer:
    """One with a model for each of `sides`; tags and symbols come on top of `vocab_size`. Raises DataError for too many
    characters."""
    added = b"".join(piece_message(symbol, 0.0, WHOLE) for symbol in symbols)
    return with_tags(Tokenizer([_train(side, algorithm, vocab_size) + added for side in sides]), tags)


def _train(sentences: Sentences, algorithm: str, vocab_size: int, may_be_more: bool = False) -> bytes:
    """`may_be_more`: where the characters need more pieces, they come on top of `vocab_size`."""
    try:
        return _run_trainer(sentences, algorithm, vocab_size)
    except RuntimeError as error:
        if is_out_of_memory(error) or is_out_of_threads(error):
            raise  # the corpus is not to blame
        message = str(error)
    # sentencepiece counts how many pieces a corpus can have, and its error names the number.
    if too_high := re.search(r"too high.*?<= (\d+)", message):
        most = int(too_high[1])
        log.info(f"tokenizer: {vocab_size:,} pieces are more than this corpus can carry; {most:,} are used")
        return _run_trainer(sentences, algorithm, most)
    if too_small := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        least = int(too_small[1])
        if may_be_more:
            return _train(sentences, algorithm, least + vocab_size)
        few = f"{vocab_size} is too small for the characters of this corpus"
        raise DataError(f"tokenizer.vocab_size: {few}; set it to at least {least}")
    if "sentences_.empty()" in message:
        why = f"no pair is left to train on, or every line is longer than {_MAX_LINE_BYTES:,} bytes"
        raise DataError(f"{why}; see what is left out above, split the lines, or give --dev and --test of your own")
    raise DataError(f"the tokenizer cannot be trained on this corpus: {message.splitlines()[-1]}")


def _run_trainer(sentences: Sentences, algorithm: str, vocab_size: int) -> bytes:
    """Runs in another thread: the main thread could not handle signals while sentencepiece is busy in it."""
    model, n_lines, spaces = io.BytesIO(), 0, set[str]()
    for text in sentences():
        n_lines += 1
        spaces.update(space for space in NO_BREAK_SPACES if space in text)

    def drawn() -> Iterator[str]:
        """At most SAMPLE_SIZE sentences, the same in each process, unlike sentencepiece's (algorithm S, Knuth 1969)."""
        rng, n_left, n_wanted = random.Random(n_lines), n_lines, min(n_lines, SAMPLE_SIZE)
        for text in sentences():
            if rng.random() * n_left < n_wanted:
                n_wanted -= 1
                yield text
            n_left -= 1

    done: Future[None] = Future()

    def run() -> None:
        try:
            spm.SentencePieceTrainer.train(
                sentence_iterator=drawn(),
                model_writer=model,
                model_type=algorithm,
                vocab_size=vocab_size,
                byte_fallback=True,
                normalization_rule_name="identity",
                # Also where they are rare: by its pieces `Tokenizer` knows whether targets have them.
                required_chars="".join(sorted(spaces)),
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                num_threads=1,  # the number of threads changes the unigram model
                input_sentence_size=SAMPLE_SIZE,
                max_sentence_length=_MAX_LINE_BYTES,
                minloglevel=2,
            )
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    # With a timeout: the system may deliver a signal to the other thread, and then waiting without one does not wake up.
    while not wait([done], 0.1).done:
        pass
    done.result()
    if n_lines > SAMPLE_SIZE:
        log.info(f"tokenizer: learnt from {SAMPLE_SIZE:,} of {n_lines:,} sentences, drawn from all of the text")
    return model.getvalue()


# Models of other programs -----------------------------------------------------------------------------------------------

RESERVED = ("<pad>", "<unk>", "<s>", "</s>")  # in the order of their ids
# Fields of sentencepiece's ModelProto: its pieces; how it was trained, normalizes and denormalizes. And of TrainerSpec and NormalizerSpec.
_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER, _MODEL_TYPE, _CHARACTER_MAP = 1, 2, 3, 5, 3, 2
_SIZES = {1: 8, 5: 4}  # bytes of a value, by its wire type


def with_our_symbols(model: bytes, kept: Container[str] | None, added: Iterable[str], kind: int) -> bytes:
    """The model with our four symbols first, then those of its pieces that are `kept` (None: all), then the missing
    ones of `added`, of type `kind`. It splits text as before, but for pieces that are not kept. Raises CheckpointError
    for other bytes."""
    old = processor_of(model)
    algorithm_of(model)  # refuses what no tokenizer of ours does
    fields = [(number, content) for number, content in _fields(model) if isinstance(content, bytes)]
    pieces = [content for number, content in fields if number == _PIECES]
    try:
        names = [old.id_to_piece(i) for i in range(len(pieces))]
    except UnicodeDecodeError:
        raise CheckpointError("damaged, a piece is not UTF-8; fetch it again") from None
    messages = [piece_message(name, 0.0, UNKNOWN if name == "<unk>" else CONTROL) for name in RESERVED]
    known = {*RESERVED}
    for i, (name, content) in enumerate(zip(names, pieces, strict=True)):
        if not old.is_control(i) and not old.is_unknown(i) and name not in known and (kept is None or name in kept):
            known.add(name)
            messages.append(field_message(_PIECES, content))
    lowest = min((old.get_score(i) for i in range(len(pieces))), default=0.0)
    messages += [piece_message(name, lowest - 1, kind) for name in added if name not in known]
    settings = {_TRAINER, _NORMALIZER, _DENORMALIZER}
    return b"".join([*messages, *(field_message(number, content) for number, content in fields if number in settings)])


def algorithm_of(model: bytes) -> Literal["unigram", "bpe"]:
    """How a sentencepiece model splits text. Raises CheckpointError for one that splits it in another way."""
    kind: int | bytes = 1
    for number, content in _fields(model):
        if number == _TRAINER and isinstance(content, bytes):
            kind = dict(_fields(content)).get(_MODEL_TYPE, kind)
    if kind not in (1, 2):
        raise CheckpointError("a sentencepiece model of words or characters, expected one of unigram or bpe")
    return "unigram" if kind == 1 else "bpe"


def changes_text(model: bytes) -> bool:
    """Whether it replaces characters before it splits text. Ours do not."""
    found = (content for number, content in _fields(model) if number == _NORMALIZER and isinstance(content, bytes))
    return any(dict(_fields(content)).get(_CHARACTER_MAP) for content in found)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message in protobuf's encoding that is whole."""
    at = 0

    def varint() -> int:
        """The number that begins there, seven bits in each byte."""
        nonlocal at
        number, shift = 0, 0
        while message[at] >= 128:
            number |= (message[at] & 127) << shift
            shift, at = shift + 7, at + 1
        at += 1
        return number | message[at - 1] << shift

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
        elif kind == 2 or kind in _SIZES:
            size = varint() if kind == 2 else _SIZES[kind]
            yield tag >> 3, message[at : at + size]
            at += size
        else:
            raise CheckpointError("not a sentencepiece model as its trainer writes it")
