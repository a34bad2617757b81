"""Reads a config file: YAML plus `--set section.key=value` become one frozen `Config`.

All problems of a file are reported together, each with its line. YAML is read by the rules of its version 1.2, so that `no`
is Norwegian, `1e-4` a number and `010` ten; a key that is given twice is refused. What a key means is in `config.py`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mt_cli.config import (
    COLUMNS_PATTERN,
    DEVICE_PATTERN,
    LANGUAGE_PATTERN,
    NAME_PATTERN,
    OPEN_KEYS,
    Config,
    DecodingConfig,
    given_keys,
    with_open_keys,
)
from mt_cli.display import shortened
from mt_cli.errors import ConfigError

Keys = tuple[str, ...]  # the path of a value: ("training", "seed")
_Model = TypeVar("_Model", bound=BaseModel)


def load_config(path: Path, overrides: Iterable[str] = (), is_open: bool = False) -> Config:
    """The config in `path`, in which each `section.key=value` of `overrides` replaces a value.

    A file that has the section `data` alone leaves all else open, to be chosen from the corpus, and so does one that
    `is_open`; in any other the keys that it does not name have their defaults. Raises ConfigError with a line for every
    problem found.
    """
    draft = _Draft.of_file(path)
    return draft.checked(overrides, is_open=is_open or set(draft.values) == {"data"})


def config_of(data: dict[str, Any], overrides: Iterable[str] = ()) -> Config:
    """The config of the values of its section `data`, as a command line gives them, laid over by `overrides`.

    Raises ConfigError with a line for every problem found.
    """
    return _Draft("the command line", {"data": deepcopy(data)}).checked(overrides, is_open=True)


def alternatives(override: str) -> list[str]:
    """`training.seed=1` and `training.seed=2` of `training.seed=1,2`; an override with one value as it is.

    Commas within brackets and quotes separate no values, nor does that of the columns of a table.
    """
    key, _, text = override.partition("=")
    try:
        node = _compose(f"[{text}]")
    except (yaml.YAMLError, RecursionError):
        return [override]  # refused when it is read
    if key.strip().endswith("columns") or not isinstance(node, yaml.SequenceNode) or len(node.value) < 2:
        return [override]
    values = [text[value.start_mark.index - 1 : value.end_mark.index - 1] for value in node.value]
    return [f"{key}={value}" for value in dict.fromkeys(values)]


def complete(config: Config, values: Mapping[str, Any]) -> Config:
    """The config in which each key of `values` that was not set has this value.

    Raises ConfigError where a key that was set contradicts one of these.
    """
    completed = with_open_keys(config, values)
    if problems := [message for _, message in completed.contradictions()]:
        raise ConfigError(
            *(f"{message} (what the config leaves open is chosen from the corpus)" for message in problems)
        )
    return completed


def read_search_options(options: Mapping[str, Any], overrides: Iterable[str] = ()) -> dict[str, Any]:
    """The search options of a command line, as keys of `decoding`: its `--set decoding.KEY=VALUE` in `overrides`, and
    `options`, of which `beam_size` is `--beam-size`.

    Raises ConfigError with a line for every problem found in one value alone.
    """
    draft = _Draft("the command line", {})
    for override in overrides:
        draft.apply_override(override)
    for key in [key for key in draft.values if key != "decoding"]:
        told = "only decoding.KEY can be set here; set the rest in `mt train`"
        if key not in Config.model_fields:
            told = f"{key}: unknown key, {suggest_key((key,))}"
        draft.problems.append(f"{draft.location_of((key,))}: {told}")
    values = draft.values.get("decoding", {})
    for name, value in options.items():
        values[name] = value
        draft.locations["decoding", name] = f"--{name.replace('_', '-')} {value}"
    settings = draft.validated(DecodingConfig, values, "decoding")
    return {key: getattr(settings, key) for key in values}


def explain_errors(error: ValidationError, section: str) -> list[str]:
    """A line for each wrong key of a section that was made in Python, not read from a file."""
    return [_explain((section, *map(str, details["loc"])), details) for details in error.errors()]


def to_yaml(config: Config, comments: Mapping[str, str] | None = None, only_given: bool = False) -> str:
    """Every key with its value, defaults included (or only those that were set); `load_config` reads it back to an equal
    `Config`. `comments` are written behind the values of their keys, such as model.d_model."""
    values = config.model_dump(exclude_unset=only_given)
    section, lines = "", []
    for line in yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True).splitlines():
        section = line.partition(":")[0] if not line.startswith(" ") else section
        found = _SIMPLE.fullmatch(line)
        comment = (comments or {}).get(f"{section}.{found[1]}") if found else None
        lines.append(f"{line}  # {comment}" if comment else line)
    return "\n".join(lines) + "\n"


_SIMPLE = re.compile(r"  (\w+): [\w.+-]+(?:  # (.*))?")  # a key of a section with a value that needs no quotes


def comments_of(text: str) -> dict[str, str]:
    """The comments that `to_yaml` wrote behind values."""
    section, comments = "", {}
    for line in text.splitlines():
        section = line.partition(":")[0] if not line.startswith(" ") else section
        if (found := _SIMPLE.fullmatch(line)) and found[2]:
            comments[f"{section}.{found[1]}"] = found[2]
    return comments


# YAML 1.2 ------------------------------------------------------------------------------------------------------------

# The core schema, https://yaml.org/spec/1.2.2/#103-core-schema. PyYAML's own rules are those of YAML 1.1.
_CORE: list[tuple[str, Callable[[str], Any]]] = [
    (r"~|null|Null|NULL|", lambda text: None),
    (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    (r"[-+]?[0-9]+", int),
    (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN)", lambda text: float(text.replace(".", "", 1))),
]


class _Loader(yaml.BaseLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if self.check_event(yaml.AliasEvent):  # a few lines of aliases of aliases stand for gigabytes
            raise _error(event, "YAML aliases (*name) are not supported; write the value out")
        if getattr(event, "tag", None):
            raise _error(event, "YAML tags (!name) are not supported; write the value alone")
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    pass


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Without quotes, line ends that only Unicode knows would be folded into spaces, and 1e-4 would be a number.
    is_plain = not re.search("[\x85\u2028\u2029]", text) and not any(re.fullmatch(one, text) for one, _ in _CORE)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _represent_text)


def _error(place: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)


def _compose(text: str) -> yaml.Node | None:
    node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    return node


# Reading -------------------------------------------------------------------------------------------------------------

_MAX_BYTES = 1 << 20  # cap the size, so that /dev/zero fails fast
_CLEARER_WORDS = {  # PyYAML's messages for the most frequent mistakes, and messages that say what to do
    "found character '\\t' that cannot start any token": "a tab; indent with spaces",
    "but found another document": "a second document begins here; keep one",
    "expected <block end>, but found '<block mapping start>'": "not indented as the lines above it",
    "mapping values are not allowed here": "a colon too much, or not indented as the lines above it",
}
_CONFIG_EXPECTED = "give the path of a YAML config, such as configs/phrasebook.yaml"


class _Draft:
    """A config while it is read: plain values, where each of them is written, and the problems found so far."""

    def __init__(self, file: str, values: dict[str, Any]):
        self.file, self.values = file, values
        self.locations: dict[Keys, str] = {}
        self.problems: list[str] = []

    @classmethod
    def of_file(cls, path: Path) -> _Draft:
        """Raises ConfigError for a file that cannot be parsed at all."""
        text, draft = _read_text(path), cls(str(path), {})
        try:
            node = _compose(text)
            draft.values = draft._build(node, (), lambda node: f"{path}:{node.start_mark.line + 1}")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = str(error.problem or error.context)
            line = mark.line + 1 if mark else 1
            raise ConfigError(f"{path}:{line}: {_CLEARER_WORDS.get(problem, problem)}") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise ConfigError(f"{path}:{line}: a control character (0x{error.character:02x}); delete it") from None
        except RecursionError:
            raise ConfigError(f"{path}: nested too deeply, expected sections with keys") from None
        if not isinstance(draft.values, dict):
            raise ConfigError(f"{path}:1: expected 'key: value' lines, found {_show(draft.values)}")
        return draft

    def apply_override(self, override: str) -> None:
        """Lays the value of `section.key=value` over what is there."""
        name, equals, text = override.partition("=")
        keys, location = tuple(name.strip().split(".")), f"--set {override}"
        if not equals or not all(keys):
            self.problems.append(f"{location}: expected KEY=VALUE, such as training.max_steps=1000")
            return
        section = self.values
        for key in keys[:-1]:
            if section.get(key) is None:  # missing, or with nothing below it
                section[key] = {}
            if not isinstance(section[key], dict):
                self.problems.append(f"{location}: {key} is no section")
                return
            section = section[key]
        for replaced in [written for written in self.locations if written[: len(keys)] == keys]:
            del self.locations[replaced]
        try:
            section[keys[-1]] = self._build(_compose(text), keys, lambda node: location)
        except (yaml.YAMLError, RecursionError):
            self.problems.append(f"{location}: cannot read the value as YAML")
        for depth in range(1, len(keys)):
            self.locations.setdefault(keys[:depth], location)
        self.locations[keys] = location

    def _build(self, node: yaml.Node | None, keys: Keys, where: Callable[[yaml.Node], str]) -> Any:
        """The plain value of a node of YAML, which stands at `keys`. Raises MarkedYAMLError for a key that is no word."""
        if node is None:
            return None
        self.locations.setdefault(keys, where(node))
        if isinstance(node, yaml.SequenceNode):
            return [self._build(item, (*keys, str(index)), where) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            forms = _CORE if node.style is None else []
            make = next((make for pattern, make in forms if re.fullmatch(pattern, node.value)), str)
            try:
                return make(node.value)
            except ValueError:  # of thousands of digits
                raise _error(node, f"cannot read the number {shortened(node.value)}") from None
        values: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _error(key, "a key is one word, found a list or a section")
            name = (*keys, str(key.value))
            if key.value in values:
                first = self.locations[name].rpartition(":")[2]
                self.problems.append(f"{where(key)}: duplicate key '{key.value}' (first on line {first}); delete one")
                continue
            self.locations[name] = where(key)
            values[key.value] = self._build(item, name, where)
        return values

    def checked(self, overrides: Iterable[str], is_open: bool) -> Config:
        """`is_open`: the keys that are not set may still be chosen from the corpus, so no rule applies to them yet."""
        for override in overrides:
            self.apply_override(override)
        config = self.validated(Config, self.values)
        if not is_open:
            config = _with_all_keys(config)
        still_open = OPEN_KEYS - given_keys(config).keys()
        for names, message in config.contradictions():
            if still_open.isdisjoint(names.split()):
                keys = [tuple(name.split(".")) for name in names.split()]
                written = next((one for one in keys if one in self.locations), keys[0])
                self.problems.append(f"{self.location_of(written)}: {message}")
        self._raise_problems()
        return config

    def validated(self, model: type[_Model], values: Any, *section: str) -> _Model:
        settings = None
        try:
            settings = model.model_validate(values)
        except ValidationError as error:
            for details in error.errors():
                keys = (*section, *(str(part) for part in details["loc"] if not str(part).startswith("[")))
                self.problems.append(f"{self.location_of(keys)}: {_explain(keys, details)}")
        self._raise_problems()
        assert settings is not None
        return settings

    def location_of(self, keys: Keys) -> str:
        """The file and line, or the option, where a key is written, or else the section that it would be in."""
        while keys and keys not in self.locations:
            keys = keys[:-1]
        return self.locations[keys] if keys else self.file

    def _raise_problems(self) -> None:
        """Raises ConfigError if there are any: first those of options, then those of the file from top to bottom."""

        def line_number(problem: str) -> int:
            line = re.match(r"[^ ]*?:(\d+): ", problem)
            return int(line[1]) if line else 0

        if self.problems:
            raise ConfigError(*sorted(self.problems, key=line_number))


def _with_all_keys(config: Config) -> Config:
    """The config in which every key is set, but for those that a run takes over from the one that it begins with."""
    completed = Config.model_validate(config.model_dump())
    if config.training.init_from is None:
        return completed
    return completed.model_copy(update={name: getattr(config, name) for name in ("tokenizer", "model", "decoding")})


def _read_text(path: Path) -> str:
    if path.is_dir():
        own = path / "config.yaml"
        remedy = f"to continue the run in it, give {own}" if own.is_file() else _CONFIG_EXPECTED
        raise ConfigError(f"{path}: a directory, expected a file; {remedy}")
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise ConfigError(f"{path}: more than {_MAX_BYTES >> 20} MiB, expected a YAML config")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; {_CONFIG_EXPECTED}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None


# Explaining ----------------------------------------------------------------------------------------------------------

_EXPECTED = {  # of a section or a list, or of text with this pattern
    "Corpus": "a corpus: {files: ..., weight: ...}",
    "LanguagePair": "a language pair: {src_lang: ..., tgt_lang: ..., train: ...}",
    "Monolingual": "{tgt: FILE}",
    "WordList": "{files: FILE}",
    "train": "[source file, target file], one table, or a list of corpora: {files: ..., weight: ...}",
    "pairs": "a list of language pairs: {src_lang: ..., tgt_lang: ..., train: ...}",
    LANGUAGE_PATTERN: "a language code such as en, de or zh",
    COLUMNS_PATTERN: "two columns such as es,gn or 1,3",
    NAME_PATTERN: "a name of letters, digits, '.', '_' and '-'",
    DEVICE_PATTERN: "auto, cpu, cuda, cuda:N or mps",
}


def _explain(keys: Keys, details: ErrorDetails) -> str:
    """What is wrong with the value at `keys`."""
    found, kind, context = details["input"], details["type"], details.get("ctx", {})
    name = ".".join(keys)
    if kind == "extra_forbidden":
        return f"{name}: unknown key, {suggest_key(keys)}"
    if kind == "missing":
        return f"{name}: missing, this key has no default"
    expected = details["msg"][0].lower() + details["msg"][1:]
    if kind == "value_error":
        expected = str(context["error"])
    elif kind in {"model_type", "model_attributes_type"}:
        expected = f"expected {_EXPECTED.get(context.get('class_name', ''), 'a section with keys')}"
    elif kind == "string_pattern_mismatch":
        expected = f"expected {_EXPECTED[context['pattern']]}"
    elif kind == "dict_type":
        expected = "expected a section with a name for each: {NAME: ...}"
    elif kind == "list_type":
        expected = f"expected {_EXPECTED.get(keys[-1], f'a list such as [{_show(found)}]')}"
    elif kind == "literal_error":
        expected = f"expected {context['expected']}"
    elif kind.startswith("bool"):
        expected = "expected true or false"
    return f"{name}: {expected}, found {_show(found)}"


def _show(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "a section" if isinstance(value, dict) else shortened(str(value))
    return "nothing" if value is None else shortened(str(value).lower() if isinstance(value, bool) else str(value))


_OTHER_NAMES = {  # what other toolkits call a key
    "batch_size": ["training.batch_tokens", "decoding.batch_size"],
    "beam": ["decoding.beam_size"],
    "embed_dim": ["model.d_model"],
    "epochs": ["training.max_steps"],
    "heads": ["model.n_heads"],
    "hidden_size": ["model.d_model"],
    "layers": ["model.n_encoder_layers", "model.n_decoder_layers"],
    "lr": ["training.learning_rate"],
    "steps": ["training.max_steps"],
    "warmup": ["training.warmup_steps"],
}


def described_keys() -> dict[str, dict[str, Any]]:
    """Each section and key, such as data, data.words and data.words.share, as the JSON schema of a config describes it. A
    pair of data.pairs has the keys of data."""
    schema = Config.model_json_schema()

    def within(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
        models = re.findall(r"#/\$defs/(\w+)", json.dumps(values))
        return {name: one for model in models for name, one in schema["$defs"][model].get("properties", {}).items()}

    found: dict[str, dict[str, Any]] = {}
    for section, values in schema["properties"].items():
        found[section] = values
        for key, described in within(values).items():
            found[f"{section}.{key}"] = described
            if key != "pairs":
                found |= {f"{section}.{key}.{name}": one for name, one in within(described).items()}
    return found


def suggest_key(keys: Keys) -> str:
    """Which key was probably meant by one that is unknown: in its section or in another, by its name or a similar one."""
    section, _, name = re.sub(r"\.pairs\.\d+|\.\d+", "", ".".join(keys)).rpartition(".")
    known = [*described_keys()]
    if f"{section}.{name}" in known:
        return "it goes with data.pairs alone"
    siblings = {key.rpartition(".")[2]: key for key in known if key.rpartition(".")[0] == section}
    everywhere = {key.rpartition(".")[2]: key for key in known}
    meant = [key for key in known if key.endswith(f".{name}")]
    meant += _OTHER_NAMES.get(name.lower().removeprefix("num_"), [])
    meant = [key for key in meant if key.startswith(f"{section}.")] or meant
    meant = meant or [siblings[near] for near in difflib.get_close_matches(name, siblings, n=1)]
    meant = meant or [everywhere[near] for near in difflib.get_close_matches(name, everywhere, n=1, cutoff=0.8)]
    if meant:
        return f"did you mean {' or '.join(repr(key) for key in dict.fromkeys(meant))}?"
    return f"known are {', '.join(siblings or Config.model_fields)}"
