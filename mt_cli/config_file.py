"""Reads a config file: YAML 1.2 (`no` is Norwegian, `1e-4` a number) plus `--set section.key=value` become one frozen
`Config`. All problems are reported together, each with its line."""

import difflib
import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from mt_cli.config import OPEN_KEYS, Config, DecodingConfig, given_keys
from mt_cli.display import shortened
from mt_cli.errors import ConfigError

Keys = tuple[str, ...]  # the path of a value: ("training", "seed")
_Model = TypeVar("_Model", bound=BaseModel)
_MAX_BYTES = 1 << 20  # /dev/zero is refused, too


def load_config(path: Path, overrides: Iterable[str] = (), is_open: bool = False) -> Config:
    """The config in `path` with `overrides` over it. Of a file with `data` alone, or if `is_open`, all else is chosen
    from the corpus; in any other, unset keys have defaults. Raises ConfigError, a line for each problem."""
    draft = _Draft(str(path))
    draft.read(path)
    return draft.config(overrides, is_open or set(draft.values) == {"data"})


def config_of(data: Mapping[str, Any], overrides: Iterable[str] = ()) -> Config:
    """The config of the section `data` of a command line, laid over by `overrides`. Raises ConfigError."""
    draft = _Draft("the command line", {"data": dict(data)})
    return draft.config(overrides, is_open=True)


def complete(config: Config, values: Mapping[str, Any]) -> Config:
    """The config with `values` for the keys that were not set. Raises ConfigError where one that was contradicts these."""
    sections = {}
    for name, section in config:
        open_keys = [key for key in type(section).model_fields if key not in section.model_fields_set]
        chosen = {key: values[f"{name}.{key}"] for key in open_keys if f"{name}.{key}" in values}
        sections[name] = section.model_copy(update=chosen)
    completed = config.model_copy(update=sections)
    if problems := [message for _, message in completed.contradictions()]:
        raise ConfigError(*(f"{one} (what the config leaves open is chosen from the corpus)" for one in problems))
    return completed


def alternatives(override: str) -> list[str]:
    """`training.seed=1` and `training.seed=2` of `training.seed=1,2`; columns=1,3 is one value, and so is a list."""
    key, _, text = override.partition("=")
    try:
        node = yaml.compose(f"[{text}]", _Loader)
    except (yaml.YAMLError, RecursionError):
        return [override]  # refused when it is read
    if key.strip().endswith("columns") or not isinstance(node, yaml.SequenceNode) or len(node.value) < 2:
        return [override]
    values = [text[value.start_mark.index - 1 : value.end_mark.index - 1] for value in node.value]
    return [f"{key}={value}" for value in dict.fromkeys(values)]


def read_search_options(options: Mapping[str, Any], overrides: Iterable[str] = ()) -> dict[str, Any]:
    """The keys of `decoding` that `--set` and `options` set (`beam_size` is `--beam-size`). Raises ConfigError."""
    draft = _Draft("the command line")
    for override in overrides:
        draft.lay_over(override)
        if not override.startswith("decoding."):
            key = override.partition("=")[0]
            what = "only decoding.KEY can be set here" if key in described_keys() else suggest_key(key)
            draft.problems.append(f"--set {override}: {key}: {what}")
    of_section = draft.values.get("decoding")
    values = of_section if isinstance(of_section, dict) else {}  # decoding=5 is a problem by now
    for name, value in options.items():
        values[name] = value
        draft.locations["decoding", name] = f"--{name.replace('_', '-')} {value}"
    settings = draft.validated(DecodingConfig, values, "decoding")
    return {key: getattr(settings, key) for key in values}


class _Draft:
    """A config while it is read: plain values, where each of them is written, and the problems found so far."""

    def __init__(self, file: str, values: dict[str, Any] | None = None):
        self.file, self.values = file, values or {}
        self.locations, self.problems = dict[Keys, str](), list[str]()

    def read(self, path: Path) -> None:
        """Raises ConfigError for a file that cannot be parsed at all."""
        expected = "give the path of a YAML config, such as configs/phrasebook.yaml"
        if (path / "config.yaml").is_file() and (path / "checkpoints").is_dir():
            expected = f"to continue the run in it, give {path / 'config.yaml'}"
        if path.exists() and not path.is_file():  # reading a pipe could wait for ever
            raise ConfigError(f"{path}: not a regular file; {expected}")
        try:
            with path.open("rb") as file:
                raw = file.read(_MAX_BYTES + 1)
            if len(raw) > _MAX_BYTES:
                raise ConfigError(f"{path}: more than {_MAX_BYTES >> 20} MiB, expected a YAML config")
            text = raw.decode("utf-8-sig")
            values = self._build(yaml.compose(text, _Loader), (), lambda node: f"{path}:{node.start_mark.line + 1}")
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}; {expected}") from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
        except (yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
            line = mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", 0)) + 1
            problem = getattr(error, "problem", None) or "nested too deeply, or a control character"
            remedy = "" if ";" in problem else "; check colons, brackets and indentation (no tabs)"
            raise ConfigError(f"{path}:{line}: {problem}{remedy}") from None
        if not isinstance(values, dict):
            raise ConfigError(f"{path}:1: expected 'key: value' lines, found {_shown(values)}")
        self.values = values

    def lay_over(self, override: str) -> None:
        """Lays the value of `section.key=value` over what is there."""
        name, equals, text = override.partition("=")
        keys, location = tuple(name.strip().split(".")), f"--set {override}"
        if not equals or not all(keys):
            self.problems.append(f"{location}: expected KEY=VALUE, such as training.max_steps=1000")
            return
        section = self.values
        for depth, key in enumerate(keys[:-1], 1):
            if section.get(key) is None:  # missing, or with nothing below it
                section[key] = {}
            if not isinstance(section[key], dict):
                self.problems.append(f"{location}: {key} is no section")
                return
            section = section[key]
            self.locations.setdefault(keys[:depth], location)
        self.locations = {written: one for written, one in self.locations.items() if written[: len(keys)] != keys}
        self.locations[keys] = location
        try:
            section[keys[-1]] = self._build(yaml.compose(text, _Loader), keys, lambda node: location)
        except (yaml.YAMLError, RecursionError):
            self.problems.append(f"{location}: cannot read the value as YAML")

    def _build(self, node: yaml.Node | None, keys: Keys, where: Callable[[yaml.Node], str]) -> Any:
        """The plain value of the YAML at `keys`. Raises MarkedYAMLError for a key that is given twice or is no word."""
        if node is None:
            return None
        self.locations.setdefault(keys, where(node))
        if isinstance(node, yaml.SequenceNode):
            return [self._build(item, (*keys, str(index)), where) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node.value) if node.style is None else node.value
        values: dict[str, Any] = {}
        for key, item in node.value:
            if not (is_word := isinstance(key, yaml.ScalarNode)) or key.value in values:
                problem = f"'{key.value}' is given twice; delete one" if is_word else "a key is one word"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            self.locations[*keys, key.value] = where(key)
            values[key.value] = self._build(item, (*keys, key.value), where)
        return values

    def config(self, overrides: Iterable[str], is_open: bool) -> Config:
        """`is_open`: the keys that are not set may still be chosen from the corpus, so no rule applies to them yet."""
        for override in overrides:
            self.lay_over(override)
        config = self.validated(Config, self.values)
        if not is_open:  # every key is set, but for those that a run takes over from the one that it begins with
            of_parent = ("tokenizer", "model", "decoding") if config.training.init_from is not None else ()
            completed = Config.model_validate(config.model_dump())
            config = completed.model_copy(update={name: getattr(config, name) for name in of_parent})
        still_open = OPEN_KEYS - given_keys(config).keys()
        for names, message in config.contradictions():
            if still_open.isdisjoint(names.split()):
                keys = [tuple(name.split(".")) for name in names.split()]
                written = next((one for one in keys if one in self.locations), keys[0])
                self.problems.append(f"{self._location_of(written)}: {message}")
        self._raise_problems()
        return config

    def validated(self, model: type[_Model], values: Any, *section: str) -> _Model:
        """Raises ConfigError if there are problems: first those of options, then those of the file from top to bottom."""
        try:
            settings = model.model_validate(values)
        except ValidationError as error:
            for details in error.errors():
                keys = (*section, *(str(part) for part in details["loc"] if not str(part).startswith("[")))
                self.problems.append(f"{self._location_of(keys)}: {_explain('.'.join(keys), details)}")
        self._raise_problems()
        return settings

    def _location_of(self, keys: Keys) -> str:
        """The file and line, or the option, where a key is written, or else the section that it would be in."""
        while keys and keys not in self.locations:
            keys = keys[:-1]
        return self.locations[keys] if keys else self.file

    def _raise_problems(self) -> None:
        if self.problems:
            line_of = lambda problem: int((re.match(r"[^ ]*?:(\d+): ", problem) or [0, 0])[1])
            raise ConfigError(*sorted(self.problems, key=line_of))


# YAML 1.2: the core schema, https://yaml.org/spec/1.2.2/#103-core-schema. PyYAML's own rules are those of YAML 1.1. --------

_CORE: dict[str, Callable[[str], Any]] = {
    r"~|null|Null|NULL|": lambda text: None,
    r"true|True|TRUE|false|False|FALSE": lambda text: text.lower() == "true",
    r"[-+]?[0-9]{1,4000}": int,
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?": float,
    r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN)": lambda text: float(text.replace(".", "", 1)),
}


def _scalar(text: str) -> Any:
    return next((make for pattern, make in _CORE.items() if re.fullmatch(pattern, text)), str)(text)


class _Loader(yaml.BaseLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # a few lines of aliases of aliases stand for gigabytes
            problem = "YAML aliases (*name) are not supported; write the value out"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.peek_event().start_mark)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    def represent_text(self, text: str) -> yaml.ScalarNode:
        # Without quotes, line ends that only Unicode knows would be folded into spaces, and 1e-4 would be a number.
        is_plain = not re.search("[\x85\u2028\u2029]", text) and isinstance(_scalar(text), str)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _Dumper.represent_text)


def to_yaml(config: Config, comments: Mapping[str, str] | None = None, only_given: bool = False) -> str:
    """Every key with its value, or only those set, for `load_config`. `comments`: by key, such as model.d_model."""
    values = config.model_dump(exclude_unset=only_given)
    section, lines = "", []
    for line in yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True).splitlines():
        section = line.partition(":")[0] if not line.startswith(" ") else section
        found = re.fullmatch(r"  (\w+): [\w.+-]+", line)  # a key of a section with a value that needs no quotes
        comment = (comments or {}).get(f"{section}.{found[1]}") if found else None
        lines.append(f"{line}  # {comment}" if comment else line)
    return "\n".join(lines) + "\n"


# What is expected of a key ---------------------------------------------------------------------------------------------

_KINDS = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text",
          "null": "null", "object": "a section", "array": "a list"}  # fmt: skip
_BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}


@functools.cache
def described_keys() -> dict[str, dict[str, Any]]:
    """Each section and key, such as data.words.share, as the JSON schema describes it; pairs have the keys of data."""
    schema, found = Config.model_json_schema(), dict[str, dict[str, Any]]()

    def add(prefix: str, properties: dict[str, Any]) -> None:
        for name, values in properties.items():
            found.setdefault(f"{prefix}{name}", values)
            for model in re.findall(r"#/\$defs/(\w+)", json.dumps(values)):
                add("data." if name == "pairs" else f"{prefix}{name}.", schema["$defs"][model]["properties"])

    add("", schema["properties"])
    return found


def expected_values(described: Mapping[str, Any]) -> str:
    """The values that a key may have, in words."""
    if alternatives := described.get("anyOf") or described.get("oneOf"):
        return " or ".join(one.get("title") or expected_values(one) for one in alternatives)
    if "enum" in described:
        return ", ".join(map(str, described["enum"]))
    kind = described.get("type", "object")
    if examples := described.get("examples"):
        return f"text such as {', '.join(examples)}"
    if "enum" in described.get("items", {}):
        return f"a list of {expected_values(described['items'])}"
    bounds = [(word, described[bound]) for bound, word in _BOUNDS.items() if bound in described]
    return " ".join([_KINDS[kind], *(f"{word} {bound:,}".removesuffix(".0") for word, bound in bounds)])


def explain_errors(error: ValidationError, *section: str) -> list[str]:
    """A line for each wrong key of a config, or of a section, that was made in Python, not read from a file."""
    located = [([*section, *map(str, details["loc"])], details) for details in error.errors()]
    return [_explain(".".join(part for part in keys if part[0] != "["), details) for keys, details in located]


def _explain(name: str, details: Mapping[str, Any]) -> str:
    """What is wrong with the value of a key."""
    if details["type"] == "extra_forbidden":
        return f"{name}: {suggest_key(name)}"
    if details["type"] == "missing":
        return f"{name}: missing, this key has no default"
    if details["type"] == "value_error":
        expected = str(details["ctx"]["error"])
    elif described := described_keys().get(_in_general(name)):
        expected = f"expected {expected_values(described)}"
    else:
        expected = details["msg"].replace("Input should be", "expected")
    return f"{name}: {expected}, found {_shown(details['input'])}"


def _in_general(name: str) -> str:
    """data.train.weight for data.pairs.0.train.1.weight."""
    return re.sub(r"\.pairs\.\d+|\.\d+", "", name)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a section"
    return "nothing" if value is None else shortened(str(value).lower() if isinstance(value, bool) else str(value))


def suggest_key(key: str) -> str:
    """Which key was probably meant by an unknown one: in its section or in another, by a similar name."""
    known = {one: one.rpartition(".")[2] for one in described_keys()}
    section, _, name = _in_general(key).rpartition(".")
    if f"{section}.{name}" in known:
        return "unknown key, it goes with data.pairs alone"
    siblings = {one: last for one, last in known.items() if one.rpartition(".")[0] == section}
    for near in difflib.get_close_matches(name, [*siblings.values(), *known.values()], n=1, cutoff=0.7):
        meant = [one for one in siblings if known[one] == near] or [one for one in known if known[one] == near]
        return f"unknown key, did you mean {' or '.join(map(repr, meant))}?"
    return f"unknown key, known are {', '.join(siblings.values() or Config.model_fields)}"
