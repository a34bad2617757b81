"""`mt config`."""

from __future__ import annotations

import json
import re
import textwrap
from typing import Annotated, Any

import typer

from mt_cli.config import Config
from mt_cli.config_file import suggest_key
from mt_cli.errors import UsageError

_WIDTH = 100


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
    schema = Config.model_json_schema()
    section, _, name = (key or "").partition(".")
    if section and section not in schema["properties"]:
        raise UsageError(f"{key}: unknown key, {suggest_key((name or section,))}")
    if name and name not in _keys(schema, section):
        raise UsageError(f"{key}: unknown key, {suggest_key((section, name))}")
    for index, one in enumerate([section] if section else schema["properties"]):
        if not name:
            print(("\n" if index else "") + _wrap(f"{one}: {schema['properties'][one]['description']}"))
        for key_name, values in _keys(schema, one).items():
            if name in ("", key_name):
                default = f"default {json.dumps(values['default'])}" if "default" in values else "required"
                print(("" if name else "\n") + f"  {one}.{key_name}  ({default}; {_range(values)})")
                print(_wrap(values["description"], indent=" " * 6))


def _keys(schema: dict[str, Any], section: str) -> dict[str, Any]:
    """The keys of a section as the JSON schema describes them, and those within a key, such as train.weight; of `data` those
    of one language pair and of several."""
    found = _properties(schema, schema["properties"][section])
    within = {key: _properties(schema, values) for key, values in found.items()}
    return {
        name: values
        for key, own in found.items()
        for name, values in (
            (key, own),
            # A language pair of data.pairs has keys of `data`.
            *((f"{key}.{inner}", values) for inner, values in within[key].items() if inner not in found),
        )
    }


def _properties(schema: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Those of all sections that the values of a key may be, or hold."""
    sections = (schema["$defs"][name] for name in re.findall(r"#/\$defs/(\w+)", json.dumps(values)))
    return {key: values for section in sections for key, values in section.get("properties", {}).items()}


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _range(values: dict[str, Any]) -> str:
    """The values that a key may have, in words."""
    if alternatives := values.get("anyOf") or values.get("oneOf"):
        return " or ".join(one.get("title") or _range(one) for one in alternatives)
    if "enum" in values:
        return ", ".join(map(str, values["enum"]))
    names = {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "object": "a section",
        "array": "a list",
    }
    kind = names.get(values["type"], values["type"])
    if "minimum" in values:
        kind += f" from {values['minimum']:,}"
    if "exclusiveMinimum" in values:
        kind += f" above {values['exclusiveMinimum']:,}"
    if "maximum" in values:
        kind += f"{' to' if 'minimum' in values else ', at most'} {values['maximum']:,}"
    if "exclusiveMaximum" in values:
        kind += f", below {values['exclusiveMaximum']:,}"
    return kind
