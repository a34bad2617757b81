"""`mt config`: every key with its default, its range and its explanation; and the JSON schema of the configs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mt_cli.config import Config, DataConfig, SeveralPairs

Mt = Callable[..., Any]
SCHEMA_FILE = Path(__file__).parents[1] / "configs" / "schema.json"
SECTIONS = {section: field.annotation for section, field in Config.model_fields.items() if section != "data"}
MODELS = [("data", DataConfig), ("data", SeveralPairs), *SECTIONS.items()]


def test_every_key_is_printed_with_an_explanation(mt: Mt) -> None:
    text = mt("config").out.decode()
    for section, model in MODELS:
        assert f"\n\n{section}: " in f"\n\n{text}"
        for key, field in model.model_fields.items():
            assert f"  {section}.{key}  (" in text
            described = field.exclude or (field.description or "").rstrip().endswith(".")
            assert described, f"{section}.{key} is not explained"
    assert max(map(len, text.splitlines())) <= 100
    section = mt("config", "tokenizer").lines
    assert section[0].startswith("tokenizer: ")
    keys = [line.split()[0] for line in section if line.startswith("  tokenizer.")]
    assert keys == ["tokenizer.algorithm", "tokenizer.joint", "tokenizer.vocab_size"]


@pytest.mark.parametrize(
    ("key", "described"),
    [
        ("training.batch_tokens", "default 2048; a whole number from 16 to 4,000,000 or auto"),
        ("training.select_by", 'default "bleu"; bleu, chrf, loss'),
        ("training.freeze", "default []; a list of embeddings, encoder, decoder, all_but_embeddings"),
        ("data.train", "required; [source file, target file] or one table or [{files: ..., weight: ...}]"),
        ("data.columns", "default null; text such as es,gn or null"),
        ("data.train.hold_out", "default true; true or false"),
        ("decoding.max_length_ratio", "default null; a number above 0 to 100 or null"),
    ],
)
def test_what_a_key_may_be_is_said_in_words(mt: Mt, key: str, described: str) -> None:
    assert mt("config", key).lines[0] == f"  {key}  ({described})"


def test_the_schema_in_the_repository_is_that_of_the_config(mt: Mt) -> None:
    """If not: mt config --json-schema > configs/schema.json"""
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert json.loads(mt("config", "--json-schema").out) == schema
    assert mt("config", "training", "--json-schema").code == 2
    forms = [one["title"] for one in schema["properties"]["data"]["oneOf"]]
    assert forms == ["one language pair", "several language pairs"]
    for _, model in MODELS:
        described = schema["$defs"][model.__name__]
        assert list(described["properties"]) == [key for key, field in model.model_fields.items() if not field.exclude]
        assert described["additionalProperties"] is False
