"""Another program's sentencepiece model as one of ours: with our symbols, and with the pieces that its network knows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Literal

from mt_cli.data.tokenizer import CONTROL, UNKNOWN, field_message, piece_message, processor_of
from mt_cli.errors import CheckpointError

SYMBOLS = ("<pad>", "<unk>", "<s>", "</s>")  # in the order of their ids
# Fields of sentencepiece's ModelProto: its pieces; how it was trained, normalizes and denormalizes. And of TrainerSpec and NormalizerSpec.
_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER, _MODEL_TYPE, _CHARACTER_MAP = 1, 2, 3, 5, 3, 2
_SIZES = {1: 8, 5: 4}  # bytes of a value, by its wire type


def with_our_symbols(model: bytes, kept: Container[str] | None, added: Iterable[str], kind: int) -> bytes:
    """The model with our four symbols first, then those of its pieces that are `kept` (None: all), then those of `added`
    that are missing, of type `kind`. It normalizes text and splits it as before, but for pieces that are not kept. Raises
    CheckpointError for other bytes."""
    old = processor_of(model)
    algorithm_of(model)  # refuses what no tokenizer of ours does
    fields = [(number, content) for number, content in _fields(model) if isinstance(content, bytes)]
    pieces = [content for number, content in fields if number == _PIECES]
    try:
        names = [old.id_to_piece(i) for i in range(len(pieces))]
    except UnicodeDecodeError:
        raise CheckpointError("damaged, a piece is not UTF-8; fetch it again") from None
    messages = [piece_message(name, 0.0, UNKNOWN if name == "<unk>" else CONTROL) for name in SYMBOLS]
    known = {*SYMBOLS}
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
