"""Writes a run as one page that translates in the browser itself, without a server: the network with 8-bit weights, its
tokenizer, the rules by which text is read, as patterns and tables of characters, and the scripts of `offline_page`."""

import base64
import hashlib
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mt_cli.config import ModelConfig
from mt_cli.data import normalize, reading, spans
from mt_cli.data.languages import english_name, has_dotted_capitals, lower, writes_spaces
from mt_cli.data.spelling import Respelling
from mt_cli.data.tokenizer import Tokenizer, algorithm_of, changes_text, processor_of
from mt_cli.decoding import alignment, parts
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError
from mt_cli.explain.page import render_page, safe_json
from mt_cli.export.engine import sublayers
from mt_cli.model.positions import sinusoid_table
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import LoadedModel

FOLDER = Path(__file__).parent / "offline_page"
SCRIPTS = ("model", "tokenizer", "search", "reading", "translator")
_N_COLUMNS, _N_ROWS = 8, 8  # of weights and of activations that the product takes at a time


def page_of(loaded: Sequence[LoadedModel]) -> str:
    """The page of one model, loaded for each direction. Raises UsageError for what a page cannot do."""
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
    first, directions = loaded[0], [_direction(one) for one in loaded]
    model, packer = first.config.model, _Packer()
    network = _network(packer, first.model, model, max(one["n_positions"] for one in directions))
    attention: Any = first.model.decoder_layers[0].self_attention
    sizes = [model.n_heads * size for size in (model.d_k, model.d_k, model.d_v)]  # of queries, keys and values
    derived = {"attention_temperature": attention.temperature, "sizes": sizes, "room": packer.room()}
    spaces = {"keeps_no_break_spaces": first.tokenizer.keeps_no_break_spaces}
    codes = dict.fromkeys(code for one in directions for code in (one["source"], one["target"]))
    targets = {code: [one["target"] for one in directions if one["source"] == code] for code in codes}
    return {
        "config": model.model_dump() | derived,
        "network": network,
        "decoding": first.config.decoding.model_dump() | spaces,
        "tokenizers": [_pieces(one, first.tokenizer) for one in first.tokenizer.models],
        "directions": directions,
        "languages": [{"code": code, "name": english_name(code), "targets": targets[code]} for code in codes],
    }, bytes(packer.content)


class _Packer:
    """Appends weights to `content` and says where they are. Matrices that the model shares come once."""

    def __init__(self) -> None:
        self.content, self._known = bytearray(), dict[int, dict[str, Any]]()
        self._widest, self._longest = 0, 0  # columns and rows of a matrix

    def floats(self, tensor: Tensor) -> int:
        self.content += tensor.detach().float().cpu().numpy().astype("<f4").tobytes()
        return len(self.content) - 4 * tensor.numel()

    def norm(self, norm: Any) -> dict[str, int] | None:
        return {"gamma": self.floats(norm.gamma), "beta": self.floats(norm.beta)} if hasattr(norm, "gamma") else None

    def matrix(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None] = (None,)) -> dict[str, Any]:
        """Matrices (or convolutions of kernel 1) with one input as one, in 8 bits with a scale for each row."""
        key = weights[0].data_ptr()
        if key not in self._known:
            values = np.concatenate([weight.detach().float().cpu().flatten(1).numpy() for weight in weights])
            scales = np.abs(values).max(1, keepdims=True) / np.float32(127)
            integers = np.rint(values / np.where(scales > 0, scales, 1)).astype(np.int8)
            (rows, columns), at = integers.shape, len(self.content)
            padded = np.pad(integers, ((0, 0), (0, -columns % _N_COLUMNS)))
            width = padded.shape[1]
            self.content += scales.astype("<f4").tobytes() + padded.tobytes()
            limit = min(32767, (2**31 - 1) // (127 * width))  # of activations: sums fit into 32 bits
            sizes = {"rows": rows, "columns": columns, "padded": width, "limit": limit}
            self._known[key] = sizes | {"scales": at, "weight": at + 4 * rows}
            self._widest, self._longest = max(self._widest, width), max(self._longest, rows)
        ats = [self.floats(bias) for bias in biases if bias is not None]  # one after the other
        return self._known[key] | {"bias": ats[0] if ats else None}

    def linear(self, *linears: Any) -> dict[str, Any]:
        return self.matrix([one.weight for one in linears], [one.bias for one in linears])

    def room(self) -> dict[str, int]:
        """Where a product finds its integers, their scales and the bias of matrices without one, and writes its floats."""
        room, end = {"n_rows": _N_ROWS}, len(self.content) + -len(self.content) % 16
        sizes = {"x": 2 * self._widest, "x_scales": 8, "out": 8 * self._longest, "zeros": 4 * self._longest}
        for name, size in sizes.items():
            room[name], end = end, end + size * _N_ROWS
        return room | {"n_pages": -(-end // 65536)}


def _network(packer: _Packer, model: Transformer, config: ModelConfig, n_positions: int) -> dict[str, Any]:
    def layer(one: Any) -> dict[str, Any]:
        return {
            name: {key: packer.linear(*own) for key, own in linears.items()} | {"norm": packer.norm(norm)}
            for name, norm, linears in sublayers(one)
        }

    def embeddings(side: Any) -> dict[str, Any]:
        return {"token": packer.matrix([side.token.weight]), "norm": packer.norm(side.norm)}

    size, start = (config.d_model, config.first_position) if config.positions == "sinusoid" else (config.d_k, 0)
    angles = sinusoid_table(n_positions, size, start)[1:]
    projection, is_scaled = model.projection, config.embedding_scale == "projection"
    return {
        "positions": {"at": packer.floats(angles), "columns": size},
        "src_embeddings": embeddings(model.src_embeddings),
        "tgt_embeddings": embeddings(model.tgt_embeddings),
        "encoder": [layer(one) for one in model.encoder_layers],
        "decoder": [layer(one) for one in model.decoder_layers],
        "encoder_norm": packer.norm(model.encoder_norm),
        "decoder_norm": packer.norm(model.decoder_norm),
        "projection": packer.matrix([model.scaled_projection() if is_scaled else projection.weight], [projection.bias]),
    }


def _pieces(model: bytes, tokenizer: Tokenizer) -> dict[str, Any]:
    """The pieces of a sentencepiece model with their scores."""
    if changes_text(model):
        raise UsageError(
            "the tokenizer of this run changes text in its own way, as imported ones do, which a page cannot; train a run with"
            " a tokenizer of mt"
        )
    processor = processor_of(model)
    ids = range(processor.get_piece_size())
    pieces = ["" if processor.is_control(i) else processor.id_to_piece(i) for i in ids]
    scores = np.array([processor.get_score(i) for i in ids], np.float32)
    kinds = (processor.is_unknown, processor.is_control, processor.is_unused, processor.is_byte)
    spelling = [i for i in ids if not any(is_it(i) for is_it in kinds)]
    whole = [i for i in spelling if pieces[i] in tokenizer.symbol_ids]
    normal = scores[[i for i in spelling if i not in whole]]
    scores[whole] = 3 * np.float64(normal.max()) - 0.1
    return {
        "algorithm": algorithm_of(model),
        "pieces": pieces,
        "scores": [float(str(score)) for score in scores],
        "ids": spelling,
        "whole_ids": whole,
        "byte_ids": [processor.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)],
        "unknown_score": float(normal.min() - np.float32(10)),
    }


def _direction(loaded: LoadedModel) -> dict[str, Any]:
    """The languages, the tags before each source, and how text is read."""
    data, tokenizer, profile = loaded.config.data, loaded.tokenizer, loaded.profile
    translator = Translator([loaded.model], tokenizer, loaded.config, profile)
    most = min(data.max_length, translator.n_positions - 1)
    splitter = parts.LineSplitter(tokenizer, most, profile, data.src_lang, data.tgt_lang)
    lengths = [translator.max_length(n, loaded.config.decoding) for n in range(splitter.max_tokens + 1)]
    style = profile.style if profile else reading.Style()
    respell = Respelling(profile.spelling if profile else {}).pattern
    plain = [(char, reading.plain_form(char)) for char in sorted(_related()) if not char.isalnum()]
    tables: dict[str, Iterable[tuple[str, str]]] = {
        "spelling": profile.spelling.items() if profile else [],
        "starts": {reading.plain_form(edge): edge for edge in reversed(style.starts)}.items(),
        "ends": {reading.plain_form(edge): edge for edge in reversed(style.ends)}.items(),
        "plain": [(char, form) for char, form in plain if char != form],
        "capitals": {lower(word, data.src_lang): word for word in style.capitals.values()}.items(),
        "variants": _variants(style.characters),
        "tgt_variants": [],
    }
    patterns = {name: javascript(pattern) for name, pattern in _PATTERNS.items()} | {
        "SENTENCE_END": _sentence_end(splitter.abbreviations),
        "SPELLING": javascript(respell.pattern) if respell else _NEVER,
    }
    if profile is not None:
        takes_narrow = writes_spaces(data.tgt_lang)
        tables["tgt_variants"] = _variants(profile.tgt_characters, is_edge=True, takes_narrow=takes_narrow)
        patterns |= _of_unknown(style.characters)
    return {
        "source": data.src_lang,
        "target": data.tgt_lang,
        "tgt_locale": _locale(data.tgt_lang),
        "tags": tokenizer.tags_for(data.tgt_lang),
        "max_lengths": lengths,
        "n_positions": max(splitter.max_tokens + 1, *lengths),
        "rules": {
            "max_tokens": splitter.max_tokens,
            "saw_several_sentences": splitter.saw_several_sentences,
            "space": splitter.space,
            "added_end": style.ends[0] if style.has_ends else "",
            "locale": _locale(data.src_lang),
            "has_capital_starts": style.has_capital_starts,
            "tables": {name: list(table) for name, table in tables.items()},
            "patterns": patterns,
        },
    }


def _locale(tag: str) -> str:
    """By which a browser writes small letters and capitals as `languages.lower` and `upper` do; "und" is none."""
    return "tr" if has_dotted_capitals(tag) else "und"


@cache
def _related() -> frozenset[str]:
    """The characters that may be read as another one by what Unicode says of them."""
    chars = (chr(code) for code in range(sys.maxunicode + 1))
    return frozenset(
        char for char in chars
        if unicodedata.category(char) not in ("Cn", "Co", "Cs")
        and (char.lower() != char or char.upper() != char or char.isdecimal() or unicodedata.normalize("NFKC", char) != char)
    ).union(" ", *reading.FAMILIES)  # fmt: skip


def _variants(known: str, **options: bool) -> list[tuple[str, str]]:
    """Each character that is read as another one by a text that has the `known` ones, with that."""
    table = reading.Variants(known, **options)
    candidates = _related().union(unicodedata.normalize("NFKC", known))
    return [(char, table[ord(char)]) for char in sorted(candidates) if table[ord(char)] != char]


def _sentence_end(abbreviations: Iterable[str]) -> str:
    """The marks that end a sentence, where no abbreviation ends there."""
    word, edges = r"[\p{L}\p{M}\p{N}_]", _escaped(normalize.EDGES)
    short = rf"(?<!{word})(?:\p{{Nd}}{{1,2}}|[\p{{L}}\p{{M}}\p{{Nl}}\p{{No}}]|\p{{Uppercase}}{word})\."
    learnt = "|".join(map(_escaped, abbreviations)) or _NEVER
    before = rf"(?:^|[{_SPACE}{normalize.UNSPACED}])[{edges}]*(?:{learnt})\."
    goes_on = rf"(?<={reading.PAUSE}) \p{{Lowercase}}"
    return f"(?:{javascript(reading.SENTENCE_END.pattern)})(?<!{short})(?<!{before})(?!{goes_on})"


def _of_unknown(characters: str) -> dict[str, str]:
    """Patterns of what a text with these characters has not: signs that nobody sees, words with other letters, signs."""
    known = _escaped(characters)
    letter = rf"[[\p{{L}}\p{{M}}]--[{known}]]"
    letters = rf"[[\p{{L}}\p{{N}}]--[\p{{Nd}}{normalize.UNSPACED}]--{letter}]*"
    others = rf"[^\p{{L}}\p{{M}}{known}{_SPACE}{spans.HELD[1:-1]}]+"
    unseen = r"[\p{Cf}\p{Cc}\p{Cn}\ufe00-\ufe0f\u{e0100}-\u{e01ef}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufffc]"
    return {
        "CASELESS": f"[{_escaped(letters_without)}]" if (letters_without := reading.caseless(characters)) else _NEVER,
        "INVISIBLE": f"[{unseen}--[{known}{_SPACE}]]",
        "UNKNOWN": f"(?:{letters}{letter})+{letters}|{others}",
    }


_PATTERNS = {
    "SPACES": normalize.SPACES.pattern,
    "SPANS": spans.SPANS.pattern,
    "COMMA": reading.COMMA,
    "WORD": reading.WORD.pattern,
    "LINE_BREAK": parts.LINE_BREAK.pattern,
    "CASELESS": "(?!)",
    "INVISIBLE": "(?!)",  # where nothing is known of the training text
    "UNKNOWN": "(?!)",
    "INNER": rf"{alignment.OF_WORD.pattern}\n{alignment.OF_WORD.pattern}",
}
_NEVER = "(?!)"


def _escaped(chars: str) -> str:
    return "".join(f"\\u{{{ord(char):x}}}" for char in chars)


_SPACE = _escaped("".join(chr(code) for code in range(sys.maxunicode) if chr(code).isspace()))
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
