"""Adds pieces to a serialized sentencepiece model, and our symbols to one of another program. sentencepiece itself only
reads models, which are messages in protobuf's encoding."""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator
from typing import Literal

import sentencepiece as spm

from mt_cli.errors import CheckpointError

NORMAL, _UNKNOWN, CONTROL, _WHOLE, UNUSED = range(1, 6)  # sentencepiece's types of pieces
"""UNUSED: it may be written, but is never read."""
SYMBOLS = ("<pad>", "<unk>", "<s>", "</s>")  # in the order of their ids


def processor_of(model: bytes) -> spm.SentencePieceProcessor:
    """Raises CheckpointError for other bytes."""
    processor = spm.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError):
        raise CheckpointError("damaged, not a sentencepiece model; restore the tokenizer from a copy") from None
    return processor


def with_our_symbols(model: bytes, kept: Container[str] | None, added: Iterable[str], kind: int) -> bytes:
    """Another program's sentencepiece model with our four symbols first, then those of its pieces that are `kept` (None:
    all), then those of `added` that are missing, of type `kind`. It normalizes text and splits it as before, but for
    pieces that are not kept.

    Raises CheckpointError for other bytes.
    """
    old = processor_of(model)
    algorithm_of(model)  # refuses what no tokenizer of ours does
    fields = list(_fields(model))
    pieces = [content for number, content in fields if number == _PIECES and isinstance(content, bytes)]
    lowest = min((old.get_score(i) for i in range(len(pieces))), default=0.0)
    messages = [piece_message(name, 0.0, _UNKNOWN if name == "<unk>" else CONTROL) for name in SYMBOLS]
    known = {*SYMBOLS}
    try:
        names = [old.id_to_piece(i) for i in range(len(pieces))]
    except UnicodeDecodeError:
        raise CheckpointError("damaged, a piece is not UTF-8; fetch it again") from None
    for i, (name, content) in enumerate(zip(names, pieces, strict=True)):
        if not old.is_control(i) and not old.is_unknown(i) and name not in known and (kept is None or name in kept):
            known.add(name)
            messages.append(_field(_PIECES, content))
    messages += [piece_message(name, lowest - 1, kind) for name in added if name not in known]
    settings = (
        _field(number, content) for number, content in fields if number in _SETTINGS and isinstance(content, bytes)
    )
    return b"".join([*messages, *settings])


def algorithm_of(model: bytes) -> Literal["unigram", "bpe"]:
    """How a sentencepiece model splits text. Raises CheckpointError for one that splits it in another way."""
    kind: int | bytes = 1
    for number, content in _fields(model):
        if number == _TRAINER and isinstance(content, bytes):
            kind = dict(_fields(content)).get(_MODEL_TYPE, kind)
    if kind not in (1, 2):
        raise CheckpointError("a sentencepiece model of words or characters, expected one of unigram or bpe")
    return "unigram" if kind == 1 else "bpe"


# Fields of sentencepiece's ModelProto: its pieces; how it was trained, normalizes and denormalizes. And of TrainerSpec.
_PIECES, _TRAINER, _MODEL_TYPE = 1, 2, 3
_SETTINGS = (_TRAINER, 3, 5)


def piece_message(piece: str, score: float, kind: int = NORMAL) -> bytes:
    """An element of `pieces`. In protobuf's encoding it may stand anywhere in a model."""
    content = _field(1, piece.encode()) + b"\x15" + struct.pack("<f", score)
    return _field(_PIECES, content if kind == NORMAL else content + b"\x18" + bytes([kind]))


def _field(number: int, content: bytes) -> bytes:
    size, encoded = len(content), bytearray([number << 3 | 2])
    while size >= 128:
        encoded.append(size & 127 | 128)
        size >>= 7
    return bytes([*encoded, size]) + content


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message that is whole."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            number, at = _varint(message, at)
            yield tag >> 3, number
        elif kind in _SIZES:
            size, at = (_SIZES[kind], at) if kind != 2 else _varint(message, at)
            yield tag >> 3, message[at : at + size]
            at += size
        else:
            raise CheckpointError("not a sentencepiece model as its trainer writes it")


_SIZES = {1: 8, 2: 0, 5: 4}  # of the values of a kind in bytes; those of kind 2 say it themselves


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, seven bits in each byte, and where it ends."""
    number, shift = 0, 0
    while message[at] >= 128:
        number |= (message[at] & 127) << shift
        shift, at = shift + 7, at + 1
    return number | message[at] << shift, at + 1
