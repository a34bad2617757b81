"""`mt config`."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated, Any

import typer

from mt_cli.config import Config
from mt_cli.config_file import described_keys, suggest_key
from mt_cli.errors import UsageError

_WIDTH = 100
_KINDS = {
    "integer": "a whole number", "number": "a number", "boolean": "true or false", "object": "a section",
    "array": "a list",
}  # fmt: skip
_BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}


def config(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="A section such as training, or a key such as model.dropout.")
    ] = None,
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="Print a JSON schema of config files, for editors.")
    ] = False,
) -> None:
    """Print the keys of a config and what they mean. Each has its default, its range and an explanation."""
    if json_schema:
        if key is not None:
            raise UsageError(f"{key}: --json-schema describes all keys; leave one out")
        print(json.dumps(Config.model_json_schema(), indent=2, ensure_ascii=False))
        return
    known = described_keys()
    if key is not None and key not in known:
        raise UsageError(f"{key}: unknown key, {suggest_key(tuple(key.split('.')))}")
    shown = [
        name for name in known if key is None or name == key or (name.startswith(f"{key}.") and key.count(".") == 0)
    ]
    for number, name in enumerate(shown):
        values = known[name]
        separator = "\n" if number else ""
        if "." not in name:
            print(separator + _wrap(f"{name}: {values['description']}"))
            continue
        default = f"default {json.dumps(values['default'])}" if "default" in values else "required"
        print(f"{separator}  {name}  ({default}; {_range(values)})")
        print(_wrap(values["description"], indent=" " * 6))


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _range(values: dict[str, Any]) -> str:
    """The values that a key may have, in words."""
    if alternatives := values.get("anyOf") or values.get("oneOf"):
        return " or ".join(one.get("title") or _range(one) for one in alternatives)
    if "enum" in values:
        return ", ".join(map(str, values["enum"]))
    bounds = [f"{word} {values[bound]:,}" for bound, word in _BOUNDS.items() if bound in values]
    return " ".join([_KINDS.get(values["type"], values["type"]), *bounds])
