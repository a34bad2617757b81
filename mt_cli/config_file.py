"""Reads a config file: YAML plus `--set section.key=value` become one frozen `Config`.

All problems of a file are reported together, each with its line. YAML is read by its 1.2 rules, so that `no` is Norwegian,
`1e-4` a number and `010` ten; a key given twice is refused. What a key means is in `config.py`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mt_cli.config import Config, contradictions
from mt_cli.errors import ConfigError


def load_config(path: Path, overrides: Iterable[str] = ()) -> Config:
    """The config in `path` with each `section.key=value` of `overrides` laid over it.

    Raises ConfigError with a line for every problem found.
    """
    lines: dict[tuple[str, ...], str] = {}
    problems: list[str] = []
    values = _read_yaml(path, lines, problems)
    for override in overrides:
        _apply_override(values, override, lines, problems)
    config = None
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        problems += [_explain(details, lines, str(path)) for details in error.errors()]
    if config is not None:
        for keys, message in contradictions(config):
            written = next((key for key in keys if key in lines), keys[0])
            problems.append(f"{_place(written, lines, str(path))}: {message}")
    if problems or config is None:
        raise ConfigError("\n".join(sorted((" ".join(problem.split()) for problem in problems), key=_by_line)))
    return config


def to_yaml(config: Config) -> str:
    """Every key with its value, defaults included; `load_config` reads it back to an equal `Config`."""
    return yaml.dump(config.model_dump(), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def _by_line(problem: str) -> int:
    """The line that a message begins with: a file's problems are told from its top to its bottom."""
    line = re.match(r"[^ ]*?:(\d+): ", problem)
    return int(line[1]) if line else 0


# Reading YAML --------------------------------------------------------------------------------------------------------

# The core schema of YAML 1.2, https://yaml.org/spec/1.2.2/#103-core-schema, in place of PyYAML's 1.1.
_RESOLVERS = [
    ("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN))$"
        ),
        list("-+0123456789."),
    ),
]


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML's way)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            # A few lines of aliases of aliases stand for gigabytes; configs need none.
            raise yaml.MarkedYAMLError(
                problem="found an alias, write the value out", problem_mark=self.peek_event().start_mark
            )
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML's way)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Unquoted, a line end that only Unicode knows would be folded away.
    style = '"' if re.search("[\x85\u2028\u2029]", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
for _tag, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(_yaml_number(node.value)))


def _yaml_number(text: str) -> str:
    return text.lower().replace(".inf", "inf").replace(".nan", "nan")


_MAX_BYTES = 1 << 20  # of a config: a file without end, such as /dev/zero, is none
_CLEARER = {  # what PyYAML says of the commonest mistakes, in words that say what to do
    "found character '\\t' that cannot start any token": "a tab; indent with spaces",
    "but found another document": "a second document begins here; keep one",
    "expected <block end>, but found '<block mapping start>'": "not indented as the lines above it",
    "mapping values are not allowed here": "a colon too much, or not indented as the lines above it",
}


def _read_yaml(path: Path, lines: dict[tuple[str, ...], str], problems: list[str]) -> dict[str, Any]:
    """The file as plain values; `lines` gets the place of every key. What cannot be parsed at all is raised."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise ConfigError(f"{path}: more than {_MAX_BYTES >> 20} MiB, expected a YAML config")
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; give the path of a YAML config, such as configs/phrasebook.yaml"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            raise ConfigError(f"{path}:1: empty file, expected 'key: value' lines")
        if not isinstance(node, yaml.MappingNode):
            kind = "a list" if isinstance(node, yaml.SequenceNode) else f"'{_show(node.value)}'"
            raise ConfigError(f"{path}:1: expected 'key: value' lines, found {kind}")
        values = _build(node, (), str(path), lines, problems)
        assert isinstance(values, dict)
        return values
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = str(error.problem or error.context)
        raise ConfigError(f"{path}:{line}: {_CLEARER.get(problem, problem)}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{path}:{line}: a control character (0x{error.character:02x}); delete it") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply, expected sections with keys") from None


def _build(
    node: yaml.Node, keys: tuple[str, ...], file: str, lines: dict[tuple[str, ...], str], problems: list[str]
) -> Any:
    if isinstance(node, yaml.ScalarNode):
        try:
            return _Loader("").construct_object(node)
        except (
            ValueError,
            LookupError,
            AttributeError,
            TypeError,
            yaml.YAMLError,
        ):  # PyYAML's, of a tag such as !!bool
            problems.append(f"{file}:{node.start_mark.line + 1}: cannot read the value '{node.value[:80]}'")
            return None
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, child in enumerate(node.value):
            lines[(*keys, str(index))] = f"{file}:{child.start_mark.line + 1}"
            items.append(_build(child, (*keys, str(index)), file, lines, problems))
        return items
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(f"{file}:{line}: a key is one word, found a list or a section")
            continue
        key = str(key_node.value)
        path = (*keys, key)
        if key in values:
            first = lines[path].rpartition(":")[2]
            problems.append(f"{file}:{line}: duplicate key '{key}' (first on line {first}); delete one")
            continue
        lines[path] = f"{file}:{line}"
        values[key] = _build(value_node, path, file, lines, problems)
    return values


def _apply_override(
    values: dict[str, Any], override: str, lines: dict[tuple[str, ...], str], problems: list[str]
) -> None:
    name, equals, text = override.partition("=")
    keys = tuple(name.strip().split("."))
    if not equals or not all(keys):
        problems.append(f"--set {override}: expected KEY=VALUE, such as training.max_steps=1000")
        return
    try:
        node = yaml.compose(text, Loader=_Loader)
        place = f"--set {override}"
        value = None if node is None else _build(node, keys, place, {}, problems)
    except (yaml.YAMLError, RecursionError):
        problems.append(f"--set {override}: cannot read the value as YAML")
        return
    section = values
    for key in keys[:-1]:
        if section.get(key) is None:  # not written down, or with nothing below it
            section[key] = {}
        child = section[key]
        if not isinstance(child, dict):
            problems.append(f"{place}: {key} is no section")
            return
        section = child
    section[keys[-1]] = value
    for replaced in [key for key in lines if key[: len(keys)] == keys]:
        del lines[replaced]
    for depth in range(1, len(keys) + 1):
        lines.setdefault(keys[:depth], place)
    lines[keys] = place


# Telling what is wrong -----------------------------------------------------------------------------------------------


def _place(keys: tuple[str, ...], lines: dict[tuple[str, ...], str], file: str) -> str:
    """The file and line (or option) of a key, or of the nearest section that is written down."""
    while keys and keys not in lines:
        keys = keys[:-1]
    return lines.get(keys, file)


def _explain(details: ErrorDetails, lines: dict[tuple[str, ...], str], file: str) -> str:
    keys = tuple(str(part) for part in details["loc"] if part != "[key]")
    name, found = ".".join(keys), details["input"]
    kind, context = details["type"], details.get("ctx", {})
    place = _place(keys, lines, file)
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(keys[-1], _known_keys(keys[:-1]), n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(_known_keys(keys[:-1]))}"
        return f"{place}: {name}: unknown key, {hint}"
    if kind == "missing":
        return f"{place}: {name}: missing, this key has no default"
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        return f"{place}: {name}: expected a section with keys, found {_show(found)}"
    if kind.startswith("bool"):
        return f"{place}: {name}: expected true or false, found {_show(found)}; write true or false"
    if kind == "literal_error":
        return f"{place}: {name}: expected {context['expected']}, found {_show(found)}"
    if kind in {"list_type", "too_long", "too_short"}:
        return f"{place}: {name}: expected [source file, target file] or one .tsv file, found {_show(found)}"
    if kind == "string_pattern_mismatch" and keys[-1] == "device":
        return f"{place}: {name}: expected auto, cpu, cuda, cuda:N or mps, found {_show(found)}"
    if kind == "string_pattern_mismatch" and keys[-1].endswith("lang"):
        return f"{place}: {name}: expected a language code such as en, de or zh, found {_show(found)}"
    return f"{place}: {name}: {details['msg'][0].lower()}{details['msg'][1:]}, found {_show(found)}"


def _show(value: Any) -> str:
    text = "nothing" if value is None else "a section" if isinstance(value, dict) else " ".join(str(value).split())
    text = {"True": "true", "False": "false"}.get(text, text)
    return text if len(text) <= 60 else text[:57] + "..."


def _known_keys(section: tuple[str, ...]) -> list[str]:
    model: Any = Config.model_fields[section[0]].annotation if section else Config
    return list(model.model_fields)
