"""Reads a config file: YAML plus `--set section.key=value` become one frozen `Config`.

All problems of a file are reported together, each with its line. YAML is read by the rules of its version 1.2, so that `no`
is Norwegian, `1e-4` a number and `010` ten; a key that is given twice is refused. What a key means is in `config.py`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mt_cli.config import (
    OPEN_KEYS,
    Config,
    Corpus,
    DataConfig,
    DecodingConfig,
    LanguagePair,
    Monolingual,
    SeveralPairs,
    WordList,
    contradictions,
    given_keys,
    with_open_keys,
)
from mt_cli.errors import ConfigError

Keys = tuple[str, ...]  # the path of a value: ("training", "seed")


def load_config(path: Path, overrides: Iterable[str] = (), is_open: bool = False) -> Config:
    """The config in `path`, in which each `section.key=value` of `overrides` replaces a value.

    A file that has the section `data` alone leaves all else open, to be chosen from the corpus, and so does one that
    `is_open`; in any other the keys that it does not name have their defaults. Raises ConfigError with a line for every
    problem found.
    """
    draft = _Draft(str(path))
    draft.read_file(path)
    return _checked(draft, overrides, is_open=is_open or set(draft.values) == {"data"})


def config_of(data: dict[str, Any], overrides: Iterable[str] = ()) -> Config:
    """The config of the values of its section `data`, as a command line gives them, laid over by `overrides`.

    Raises ConfigError with a line for every problem found.
    """
    return _checked(_Draft("the command line", {"data": deepcopy(data)}), overrides, is_open=True)


def _checked(draft: _Draft, overrides: Iterable[str], is_open: bool) -> Config:
    """`is_open`: the keys that are not set may still be chosen from the corpus, so no rule speaks of them yet."""
    for override in overrides:
        draft.apply_override(override)
    config = None
    try:
        config = Config.model_validate(draft.values)
    except ValidationError as error:
        draft.problems += [draft.explain(details) for details in error.errors()]
    if config is not None:
        config = config if is_open else _with_all_keys(config)
        still_open = OPEN_KEYS - given_keys(config).keys()
        for keys, message in contradictions(config):
            if any(".".join(key[:2]) in still_open for key in keys):
                continue
            written = next((key for key in keys if key in draft.locations), keys[0])
            draft.problems.append(f"{draft.location_of(written)}: {message}")
    draft.raise_problems()
    assert config is not None
    return config


def _with_all_keys(config: Config) -> Config:
    """The config in which every key is set, but for those that a run takes over from the one that it begins with."""
    completed = Config.model_validate(config.model_dump())
    if config.training.init_from is None:
        return completed
    return completed.model_copy(update={name: getattr(config, name) for name in ("tokenizer", "model", "decoding")})


def alternatives(override: str) -> list[str]:
    """`training.seed=1` and `training.seed=2` of `training.seed=1,2`; an override with one value as it is.

    Commas within brackets and quotes separate no values, nor does that of the columns of a table.
    """
    key, _, text = override.partition("=")
    try:
        node = yaml.compose(f"[{text}]", Loader=_Loader)
    except (yaml.YAMLError, RecursionError):
        return [override]  # is told when it is read
    if (
        key.strip() in {"data.columns", "data.words.columns"}
        or not isinstance(node, yaml.SequenceNode)
        or len(node.value) < 2
    ):
        return [override]
    values = [text[value.start_mark.index - 1 : value.end_mark.index - 1] for value in node.value]
    return [f"{key}={value}" for value in dict.fromkeys(values)]


def complete(config: Config, values: Mapping[str, Any]) -> Config:
    """The config in which each key of `values` that was not set has this value.

    Raises ConfigError where a key that was set contradicts one of these.
    """
    completed = with_open_keys(config, values)
    if problems := [
        f"{message} (what the config leaves open is chosen from the corpus)" for _, message in contradictions(completed)
    ]:
        raise ConfigError(*problems)
    return completed


def read_search_options(options: Mapping[str, Any], overrides: Iterable[str] = ()) -> dict[str, Any]:
    """The search options of a command line, as keys of `decoding`: its `--set decoding.KEY=VALUE` in `overrides`, and
    `options`, of which `beam_size` is `--beam-size`.

    Raises ConfigError with a line for every problem found in one value alone.
    """
    draft = _Draft("the command line")
    for override in overrides:
        draft.apply_override(override)
    values = draft.values.pop("decoding", {})
    for key, value in draft.values.items():
        location = draft.location_of((key,))
        if key in _KEYS:
            draft.problems.append(f"{location}: only decoding.KEY can be set here; set the rest in `mt train`")
        else:
            draft.problems.append(f"{location}: {key}: unknown key, {suggest_key((key,), value)}")
    if isinstance(values, dict):
        for name, value in options.items():
            values[name] = value
            draft.locations["decoding", name] = f"--{name.replace('_', '-')} {value}"
    settings = None
    try:
        settings = DecodingConfig.model_validate(values)
    except ValidationError as error:
        draft.problems += [draft.explain(details, "decoding") for details in error.errors()]
    draft.raise_problems()
    return {key: getattr(settings, key) for key in values}


def explain_errors(error: ValidationError, section: str) -> list[str]:
    """A line for each wrong key of a section that was made in Python, not read from a file."""
    draft = _Draft("")
    return [draft.explain(details, section).removeprefix(": ") for details in error.errors()]


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

# The core schema, https://yaml.org/spec/1.2.2/#103-core-schema, replaces PyYAML's rules, which are those of YAML 1.1.
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
            # A few lines of aliases of aliases stand for gigabytes, and configs need no alias.
            raise yaml.MarkedYAMLError(
                problem="found an alias, write the value out", problem_mark=self.peek_event().start_mark
            )
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML's way)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Without quotes, line ends that only Unicode knows would be folded into spaces.
    style = '"' if re.search("[\x85\u2028\u2029]", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _yaml_float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


_Dumper.add_representer(str, _represent_text)
for _tag, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: _yaml_float(node.value))


# Reading -------------------------------------------------------------------------------------------------------------

_MAX_BYTES = 1 << 20  # cap the size, so that /dev/zero fails fast
_CLEARER_WORDS = {  # PyYAML's messages for the most frequent mistakes, and messages that say what to do
    "found character '\\t' that cannot start any token": "a tab; indent with spaces",
    "but found another document": "a second document begins here; keep one",
    "expected <block end>, but found '<block mapping start>'": "not indented as the lines above it",
    "mapping values are not allowed here": "a colon too much, or not indented as the lines above it",
}
_NO_KEYS = {"[key]", "[files]", "[corpora]", "[pair]", "[pairs]"}  # of a pydantic location
_CONFIG_EXPECTED = "give the path of a YAML config, such as configs/phrasebook.yaml"


@dataclass
class _Draft:
    """A config while it is read: plain values, where each of them is written, and the problems found so far."""

    file: str
    values: dict[str, Any] = field(default_factory=dict)
    locations: dict[Keys, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def read_file(self, path: Path) -> None:
        """Raises ConfigError for a file that cannot be parsed at all."""
        text = _read_text(path)
        try:
            node = yaml.compose(text, Loader=_Loader)
            if node is None:
                raise ConfigError(f"{path}:1: empty file, expected 'key: value' lines")
            if not isinstance(node, yaml.MappingNode):
                kind = "a list" if isinstance(node, yaml.SequenceNode) else f"'{_show(node.value)}'"
                raise ConfigError(f"{path}:1: expected 'key: value' lines, found {kind}")
            self.values = self._build(node, ())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = str(error.problem or error.context)
            line = mark.line + 1 if mark else 1
            raise ConfigError(f"{path}:{line}: {_CLEARER_WORDS.get(problem, problem)}") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise ConfigError(f"{path}:{line}: a control character (0x{error.character:02x}); delete it") from None
        except yaml.YAMLError as error:
            raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
        except RecursionError:
            raise ConfigError(f"{path}: nested too deeply, expected sections with keys") from None

    def apply_override(self, override: str) -> None:
        """Lays the value of `section.key=value` over what is there."""
        name, equals, text = override.partition("=")
        keys, location = tuple(name.strip().split(".")), f"--set {override}"
        if not equals or not all(keys):
            self.problems.append(f"{location}: expected KEY=VALUE, such as training.max_steps=1000")
            return
        option = _Draft(location)
        try:
            node = yaml.compose(text, Loader=_Loader)
            value = None if node is None else option._build(node, keys)
        except (yaml.YAMLError, RecursionError):
            self.problems.append(f"{location}: cannot read the value as YAML")
            return
        self.problems += option.problems
        section = self.values
        for key in keys[:-1]:
            if section.get(key) is None:  # missing, or with nothing below it
                section[key] = {}
            if not isinstance(section[key], dict):
                self.problems.append(f"{location}: {key} is no section")
                return
            section = section[key]
        section[keys[-1]] = value
        for replaced in [written for written in self.locations if written[: len(keys)] == keys]:
            del self.locations[replaced]
        for depth in range(1, len(keys)):
            self.locations.setdefault(keys[:depth], location)
        self.locations[keys] = location

    def _build(self, node: yaml.Node, keys: Keys) -> Any:
        """The plain value of a node of YAML, which stands at `keys`."""
        if isinstance(node, yaml.ScalarNode):
            try:
                return _Loader("").construct_object(node)
            # PyYAML raises all of these for tags such as !!bool.
            except (ValueError, LookupError, AttributeError, TypeError, yaml.YAMLError):
                self.problems.append(f"{self._line_of(node)}: cannot read the value '{node.value[:80]}'")
                return None
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, child in enumerate(node.value):
                item_keys = (*keys, str(index))
                self.locations[item_keys] = self._line_of(child)
                items.append(self._build(child, item_keys))
            return items
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            location = self._line_of(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(f"{location}: a key is one word, found a list or a section")
                continue
            key = str(key_node.value)
            if key in values:
                first_line = self.locations[(*keys, key)].rpartition(":")[2]
                self.problems.append(f"{location}: duplicate key '{key}' (first on line {first_line}); delete one")
                continue
            self.locations[(*keys, key)] = location
            values[key] = self._build(value_node, (*keys, key))
        return values

    def _line_of(self, node: yaml.Node) -> str:
        return f"{self.file}:{node.start_mark.line + 1}"

    def location_of(self, keys: Keys) -> str:
        """The file and line, or the option, where a key is written, or else the section that it would be in."""
        while keys and keys not in self.locations:
            keys = keys[:-1]
        return self.locations.get(keys, self.file)

    def explain(self, details: ErrorDetails, *section: str) -> str:
        """A problem that pydantic has found below `section`, with its location."""
        keys = (*section, *(str(part) for part in details["loc"] if part not in _NO_KEYS))
        return f"{self.location_of(keys)}: {'.'.join(keys)}: {_explain(keys, details)}"

    def raise_problems(self) -> None:
        """Raises ConfigError if there are any: first those of options, then those of the file from top to bottom."""

        def line_number(problem: str) -> int:
            line = re.match(r"[^ ]*?:(\d+): ", problem)
            return int(line[1]) if line else 0

        if self.problems:
            raise ConfigError(*sorted(self.problems, key=line_number))


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


def _explain(keys: Keys, details: ErrorDetails) -> str:
    found, kind = details["input"], details["type"]
    is_in_pair = keys[:2] == ("data", "pairs") and len(keys) > 2
    if is_in_pair and len(keys) > 3 and kind != "extra_forbidden":
        keys = ("data", *keys[3:])  # which has the same keys
    is_train = keys[:2] == ("data", "train")
    if kind == "extra_forbidden":
        return f"unknown key, {suggest_key(keys, found)}"
    if kind == "missing":
        return "missing, this key has no default"
    if len(keys) == 3 and is_in_pair:
        expected = "expected a language pair: {src_lang: ..., tgt_lang: ..., train: ...}"
    elif keys == ("data", "pairs"):
        expected = "expected a list of language pairs: {src_lang: ..., tgt_lang: ..., train: ...}"
    elif is_train and kind in {"model_type", "string_type"}:
        expected = "expected file names alone, or corpora alone: {files: ..., weight: ...}"
    elif keys[-1] == "test" and kind == "dict_type" and isinstance(found, list):
        expected = f"expected a name for each test set: {{NAME: {_show(found)}}}"
    elif keys == ("data", "words") and kind == "model_type":
        expected = "expected {files: FILE}"
    elif keys == ("data", "monolingual") and kind == "model_type":
        expected = "expected {tgt: FILE}"
    elif keys[:3] in {("data", "monolingual", "tgt"), ("data", "monolingual", "src")}:
        expected = "expected a text file or a list of text files"
    elif kind in {"model_type", "model_attributes_type", "dict_type"}:
        expected = "expected a section with keys"
    elif kind.startswith("bool"):
        return f"expected true or false, found {_show(found)}; write true or false"
    elif kind == "literal_error":
        expected = f"expected {details['ctx']['expected']}"
    elif keys == ("training", "freeze"):
        expected = "expected a list of embeddings, encoder, decoder and all_but_embeddings, such as [encoder]"
    elif kind in {"list_type", "too_long", "too_short"}:
        corpora = " or a list of corpora: {files: ..., weight: ...}" if is_train and len(keys) == 2 else ""
        expected = f"expected [source file, target file] or one .tsv, .csv or .xlsx file{corpora}"
    elif kind == "string_pattern_mismatch" and keys[-1] == "device":
        expected = "expected auto, cpu, cuda, cuda:N or mps"
    elif kind == "string_pattern_mismatch" and keys[-1] == "columns":
        expected = "expected two columns such as es,gn or 1,3"
    elif kind == "string_pattern_mismatch" and keys[-1].endswith("lang"):
        expected = "expected a language code such as en, de or zh"
    else:
        expected = f"{details['msg'][0].lower()}{details['msg'][1:]}"
    return f"{expected}, found {_show(found)}"


def _show(value: Any) -> str:
    text = "nothing" if value is None else "a section" if isinstance(value, dict) else " ".join(str(value).split())
    text = {"True": "true", "False": "false"}.get(text, text)
    return text if len(text) <= 60 else text[:57] + "..."


def _keys_of(section: str) -> list[str]:
    model: Any = SeveralPairs if section == "data" else Config.model_fields[section].annotation
    return list(model.model_fields)


_KEYS = {section: _keys_of(section) for section in Config.model_fields}
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


def suggest_key(keys: Keys, found: Any = None) -> str:
    """Which key was probably meant by one that is unknown: in its section or in another, by its name or a similar one."""
    *sections, name = keys
    if sections[:2] == ["data", "pairs"] and sections[-1].isdecimal() and len(sections) == 3:
        return f"known are {', '.join(LanguagePair.model_fields)}"
    if sections[:2] == ["data", "pairs"]:
        sections = ["data", *sections[3:]]
    if sections == ["data"] and name in SeveralPairs.model_fields.keys() - DataConfig.model_fields.keys():
        return "it goes with data.pairs alone"
    if sections[:2] == ["data", "train"]:
        return f"known are {', '.join(Corpus.model_fields)}"
    if sections[:2] == ["data", "monolingual"]:
        return f"known are {', '.join(Monolingual.model_fields)}"
    if sections[:2] == ["data", "words"]:
        return f"known are {', '.join(WordList.model_fields)}"
    siblings = _KEYS[sections[0]] if sections else list(_KEYS)
    everywhere = [f"{section}.{key}" for section, keys_of_section in _KEYS.items() for key in keys_of_section]
    meant = [key for key in everywhere if key.endswith(f".{name}")]
    meant += _OTHER_NAMES.get(name.lower().removeprefix("num_"), [])
    if sections and (inside := [key for key in meant if key.startswith(f"{sections[0]}.")]):
        meant = inside
    if not meant or isinstance(found, dict):
        meant = [f"{sections[0]}.{key}" if sections else key for key in difflib.get_close_matches(name, siblings, n=1)]
    if not meant:
        near = difflib.get_close_matches(name, [key.partition(".")[2] for key in everywhere], n=1, cutoff=0.8)
        meant = [key for key in everywhere if near and key.endswith(f".{near[0]}")]
    if meant:
        return f"did you mean {' or '.join(repr(key) for key in dict.fromkeys(meant))}?"
    return f"known are {', '.join(siblings)}"
