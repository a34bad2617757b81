"""Writes a run as one page that translates in the browser itself, without a server: the network with 8-bit weights, its
tokenizer, the rules by which text is read, and the scripts of `offline_page`, which have the names of this package.

Patterns and tables of characters stay where they are in Python: the page gets them as data.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mt_cli.config import ModelConfig
from mt_cli.data import normalize, reading, spans, splitting
from mt_cli.data.languages import english_name, writes_spaces
from mt_cli.data.piece_model import algorithm_of, changes_text
from mt_cli.data.spelling import Respelling
from mt_cli.data.tokenizer import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, WHOLE, Tokenizer, processor_of
from mt_cli.decoding import alignment, parts
from mt_cli.errors import UsageError
from mt_cli.explain.page import render_page, safe_json
from mt_cli.files import write_text
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import LoadedModel

FOLDER = Path(__file__).parent / "offline_page"
SCRIPTS = ("model", "tokenizer", "search", "reading", "translator")
_N_COLUMNS = 8  # that the product takes at a time


def write_offline(loaded: Sequence[LoadedModel], file: Path) -> None:
    """The page of one model that was loaded for each of its directions.

    Raises UsageError for a tokenizer that changes text in its own way, as an imported one may, and RunDirError when the page
    cannot be written.
    """
    write_text(file, page_of(loaded))


def page_of(loaded: Sequence[LoadedModel]) -> str:
    """The text of the page."""
    data, weights = data_of(loaded)
    return render_page(
        "export/offline_page/page.html",
        nonce=hashlib.sha256(weights).hexdigest()[:32],
        data=safe_json(data),
        weights=base64.b64encode(weights).decode(),
        wasm=base64.b64encode((FOLDER / "product.wasm").read_bytes()).decode(),
        engine="\n".join((FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS),
    )


def data_of(loaded: Sequence[LoadedModel]) -> tuple[dict[str, Any], bytes]:
    """What the scripts know of a run, and its weights."""
    first = loaded[0]
    packer = _Packer()
    network = _network(packer, first.model, first.config.model)
    attention: Any = first.model.decoder_layers[0].self_attention
    model = first.config.model.model_dump() | {
        "head_dim": attention.head_dim,
        "value_dim": attention.value_dim,
        "attention_temperature": attention.temperature,
    }
    decoding = first.config.decoding.model_dump() | {
        "n_positions": first.model.positions.n_positions,
        "keeps_no_break_spaces": first.tokenizer.keeps_no_break_spaces,
    }
    data = {
        "config": model,
        "decoding": decoding,
        "network": network,
        "tokenizers": [_pieces(one, first.tokenizer) for one in first.tokenizer.models],
        "directions": [_direction(one) for one in loaded],
        "patterns": {name: javascript(pattern) for name, pattern in _PATTERNS.items()},
    }
    return data, bytes(packer.content)


# The network -----------------------------------------------------------------------------------------------------------


class _Packer:
    """Appends weights to `content` and says where they are. Matrices that the model shares come once."""

    def __init__(self) -> None:
        self.content, self._known = bytearray(), dict[int, dict[str, Any]]()
        self.widest, self.longest = 0, 0  # columns and rows of a matrix

    def _floats(self, tensor: Tensor) -> int:
        self.content += tensor.detach().float().cpu().numpy().astype("<f4").tobytes()
        return len(self.content) - 4 * tensor.numel()

    def norm(self, norm: Any) -> dict[str, int]:
        return {"gamma": self._floats(norm.gamma), "beta": self._floats(norm.beta)}

    def matrix(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None] = ()) -> dict[str, Any]:
        """Several matrices with one input as one, in 8 bits with a scale for each row. A convolution of kernel 1 is a matrix
        with one more dimension."""
        key = weights[0].data_ptr()
        if key not in self._known:
            values = np.concatenate([weight.detach().float().cpu().flatten(1).numpy() for weight in weights])
            scales = np.abs(values).max(1, keepdims=True) / np.float32(127)
            integers = np.rint(values / np.where(scales > 0, scales, 1)).astype(np.int8)
            rows, columns = integers.shape
            padded = np.pad(integers, ((0, 0), (0, -columns % _N_COLUMNS)))
            at = len(self.content)
            self.content += scales.astype("<f4").tobytes() + padded.tobytes()
            self._known[key] = {"rows": rows, "columns": columns, "scales": at, "weight": at + 4 * rows}
            self.widest, self.longest = max(self.widest, padded.shape[1]), max(self.longest, rows)
        given = [bias for bias in biases if bias is not None]
        ats = [self._floats(bias) for bias in given]  # one after the other
        return self._known[key] | {"bias": ats[0] if ats else None}

    def linear(self, *linears: Any) -> dict[str, Any]:
        return self.matrix([one.weight for one in linears], [one.bias for one in linears])


def _network(packer: _Packer, model: Transformer, config: ModelConfig) -> dict[str, Any]:
    def branch(add_norm: Any, **linears: Sequence[Any]) -> dict[str, Any]:
        return {name: packer.linear(*own) for name, own in linears.items()} | {"norm": packer.norm(add_norm.norm)}

    def layer(one: Any) -> dict[str, Any]:
        own, cross, network = one.self_attention, getattr(one, "cross_attention", None), one.feed_forward
        found = {
            "self_attention": branch(one.self_attention_norm, w_qkv=[own.w_q, own.w_k, own.w_v], w_o=[own.w_o]),
            "feed_forward": branch(one.feed_forward_norm, w_1=[network.w_1], w_2=[network.w_2]),
        }
        if cross is not None:
            linears = {"w_q": [cross.w_q], "w_kv": [cross.w_k, cross.w_v], "w_o": [cross.w_o]}
            found["cross_attention"] = branch(one.cross_attention_norm, **linears)
        return found

    def norm(one: Any) -> dict[str, int] | None:
        return packer.norm(one) if hasattr(one, "gamma") else None

    def embeddings(side: Any) -> dict[str, Any]:
        return {"token": packer.matrix([side.token.weight]), "norm": norm(side.norm)}

    size = config.d_model if config.positions == "sinusoid" else config.d_k
    angles = [math.exp(2 * i * -math.log(10000.0) / size) for i in range(size // 2)]
    network = {
        "angles": [[math.sin(angle), math.cos(angle)] for angle in angles],
        "src_embeddings": embeddings(model.src_embeddings),
        "tgt_embeddings": embeddings(model.tgt_embeddings),
        "encoder": [layer(one) for one in model.encoder_layers],
        "decoder": [layer(one) for one in model.decoder_layers],
        "encoder_norm": norm(model.encoder_norm),
        "decoder_norm": norm(model.decoder_norm),
        "projection": packer.linear(model.projection),
    }
    return network | {"widest": packer.widest, "longest": packer.longest}


# Text ------------------------------------------------------------------------------------------------------------------


def _pieces(model: bytes, tokenizer: Tokenizer) -> dict[str, Any]:
    """The pieces of a sentencepiece model, with a score and a digit for the type of each."""
    if changes_text(model):
        raise UsageError(
            "the tokenizer of this run changes text in its own way, as imported ones do, which a page cannot; train a run with"
            " a tokenizer of mt"
        )
    processor = processor_of(model)
    types = ""
    for i in range(processor.get_piece_size()):
        kinds = {UNKNOWN: processor.is_unknown, CONTROL: processor.is_control, UNUSED: processor.is_unused, BYTE: processor.is_byte}  # fmt: skip
        other = WHOLE if processor.id_to_piece(i) in tokenizer.symbol_ids else NORMAL
        types += str(next((kind for kind, is_it in kinds.items() if is_it(i)), other))
    return {
        "algorithm": algorithm_of(model),
        "pieces": [processor.id_to_piece(i) for i in range(len(types))],
        "scores": [float(str(np.float32(processor.get_score(i)))) for i in range(len(types))],
        "types": types,
    }


def _direction(loaded: LoadedModel) -> dict[str, Any]:
    """The languages, the tags before each source, and how the source is read."""
    data, profile = loaded.config.data, loaded.profile
    most = min(data.max_length, loaded.model.positions.n_positions - 1)
    splitter = parts.LineSplitter(loaded.tokenizer, most, profile, data.tgt_lang)
    rules: dict[str, Any] = {
        "max_tokens": splitter.max_tokens,
        "saw_several_sentences": splitter.saw_several_sentences,
        "abbreviations": splitter.abbreviations,
        "space": splitter.space,
        "length_ratio": profile.length_ratio if profile else 0,
        "longest_deviation": profile.longest_deviation if profile else 0,
        "spelling": list((profile.spelling if profile else {}).items()),
        "spelling_pattern": "(?!)",  # never
        "style": None,
    }
    if profile is not None:
        if pattern := Respelling(profile.spelling).pattern:
            rules["spelling_pattern"] = javascript(pattern.pattern)
        style = profile.style.model_dump()
        style["capitals"] = list(profile.style.capitals.values())
        style["families"] = reading.FAMILIES
        style["variants"] = _variants(profile.style.characters)
        style["tgt_variants"] = _variants(
            profile.tgt_characters, is_edge=True, takes_narrow=writes_spaces(data.tgt_lang)
        )
        rules["style"] = style
    return {
        "source": data.src_lang,
        "target": data.tgt_lang,
        "names": [english_name(data.src_lang), english_name(data.tgt_lang)],
        "tags": loaded.tokenizer.tags_for(data.tgt_lang),
        "rules": rules,
    }


@cache
def _related() -> frozenset[str]:
    """The characters that may be read as another one by what Unicode says of them."""
    chars = (chr(code) for code in range(sys.maxunicode + 1))
    return frozenset(
        char for char in chars
        if unicodedata.category(char) not in ("Cn", "Co", "Cs")
        and (char.lower() != char or char.upper() != char or char.isdecimal() or unicodedata.normalize("NFKC", char) != char)
    )  # fmt: skip


def _variants(known: str, **options: bool) -> list[tuple[str, str]]:
    """Each character that is read as another one by a text that has the `known` ones, with that."""
    table = reading.Variants(known, **options)
    candidates = _related().union("".join(reading.FAMILIES), unicodedata.normalize("NFKC", "".join(known)))
    return [(char, table[ord(char)]) for char in sorted(candidates) if table[ord(char)] != char]


_PATTERNS = {
    "SPACES": normalize.SPACES.pattern,
    "UNSPACED": f"[{normalize.UNSPACED}]",
    "EDGES": f"^[{re.escape(normalize.EDGES)}]+|[{re.escape(normalize.EDGES)}]+$",
    "SPANS": spans.SPANS.pattern,
    "HELD": spans.HELD,
    "SYMBOL": f"({spans.HELD})",
    "SENTENCE_END": splitting.SENTENCE_END.pattern,
    "SHORT_ABBREVIATION": splitting.SHORT_ABBREVIATION.pattern,
    "COMMA": splitting.COMMA,
    "WORD": reading.WORD.pattern,
    "LINE_BREAK": parts.LINE_BREAK.pattern,
    "LETTER": alignment.OF_WORD.pattern,
    "WORD_CHARACTER": r"\w",
    "WHITESPACE": r"\s",
    "VISIBLE": r"\S",
}
_SPACE = "".join(f"\\u{{{code:x}}}" for code in range(sys.maxunicode) if chr(code).isspace())
_ESCAPES = {
    "w": r"[\p{L}\p{N}_]", "W": r"[^\p{L}\p{N}_]", "d": r"\p{Nd}", "D": r"\P{Nd}", "s": f"[{_SPACE}]", "S": f"[^{_SPACE}]",
    **{char: f"\\{char}" for char in "nrtvf"},
}  # fmt: skip


def javascript(pattern: str) -> str:
    """A pattern of ours for a regular expression of JavaScript with the flag `v`. Possessive quantifiers become greedy ones,
    which find the same where nothing that follows may take characters back."""
    written, in_class, before = "", False, ""
    for match in re.finditer(r"\\.|\[\^?|.", pattern, re.DOTALL):
        token = match[0]
        if token[0] == "\\":
            written += _ESCAPES.get(token[1]) or f"\\u{{{ord(token[1]):x}}}"
        elif in_class:
            opens_range = token == "-" and before[0] not in "[\\" and pattern[match.end()] != "]"
            for char in token:
                is_plain = char == "]" or (char.isascii() and char.isalnum())
                written += char if is_plain or opens_range else f"\\u{{{ord(char):x}}}"
            in_class = token != "]"
        elif token[0] == "[":
            written, in_class = written + token, True
        elif not (token == "+" and before in ("*", "+", "?", "}")):
            written += token if token.isascii() and token.isprintable() else f"\\u{{{ord(token):x}}}"
        before = token
    return written
