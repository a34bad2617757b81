"""`mt config`."""

import json
import textwrap
from typing import Annotated

import typer

from mt_cli.config import Config
from mt_cli.config_file import described_keys, expected_values, suggest_key
from mt_cli.errors import UsageError


def config(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="A section such as training, or a key such as model.dropout.")
    ] = None,
    json_schema: Annotated[bool, typer.Option("--json-schema", help="Print a JSON schema, for editors.")] = False,
) -> None:
    """Print the keys of a config and what they mean. Each has its default, its range and an explanation."""
    if json_schema:
        if key is not None:
            raise UsageError(f"{key}: --json-schema describes all keys; leave one out")
        print(json.dumps(Config.model_json_schema(), indent=2, ensure_ascii=False))
        return
    known = described_keys()
    if key is not None and key not in known:
        raise UsageError(f"{key}: {suggest_key(key)}")
    chosen = [name for name in known if key in (None, name, name.partition(".")[0])]
    for name in chosen:
        values, indent = known[name], "      " if "." in name else ""
        explained = values["description"]
        if indent:
            default = f"default {json.dumps(values['default'])}" if "default" in values else "required"
            print(f"  {name}  ({default}; {expected_values(values)})")
        else:
            explained = f"{name}: {explained}"
        print(textwrap.fill(explained, 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False))
        if name != chosen[-1]:
            print()
