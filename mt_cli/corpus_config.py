"""From the names of files to a config and to the name of its run: text files two by two, tables, a folder, or a config."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from mt_cli.config import Config, are_one_table, is_table
from mt_cli.config_file import config_of, load_config
from mt_cli.data.languages import code_of_name, is_other_language, language, languages_of_files, may_be_a_word
from mt_cli.errors import DataError, UsageError
from mt_cli.mixture import grouped, in_folder, mixed, named_languages, refuse_other_language, stem_of
from mt_cli.run.run_dir import RUNS, RunDir

log = logging.getLogger(__name__)

Files = Sequence[Path] | None


def read_config(
    corpus: Sequence[Path],
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    columns: str | None = None,
    dev: Files = None,
    test: Files = None,
    settings: Sequence[str] = (),
    monolingual: Files = None,
    init_from: Path | None = None,
    words: Files = None,
    minutes: float | None = None,
    clean: bool = False,
    extend_vocabulary: bool = False,
    in_domain: Files = None,
) -> Config:
    """The config that `corpus` is or implies; only its section `data` is set for files. Raises UsageError or ConfigError."""
    options = {
        "data.words.files": _files_of_set("words", words) if words else None,
        "training.minutes": minutes,
        "data.clean": clean or None,
        "training.init_from": str(init_from) if init_from else None,
        "training.extend_vocabulary": extend_vocabulary or None,
    }
    settings = [*settings, *_as_settings(options)]
    kinds = ["table"] if are_one_table(list(map(str, corpus))) else [_kind(file) for file in corpus]
    if kinds == ["config"]:
        of_files = {"src_lang": src_lang, "tgt_lang": tgt_lang, "columns": columns, "dev": dev, "test": test}
        if in_domain:
            raise UsageError("--in-domain goes with files; in a config add a corpus to data.train, with weights")
        if given := [name for name, value in of_files.items() if value]:
            option = given[0].replace("_", "-")
            raise UsageError(f"--{option} goes with files; in a config use --set data.{given[0]}=...")
        if monolingual:
            others = [one for one in settings if not one.startswith("data.monolingual.")]  # which need the files
            pair = load_config(corpus[0], others).data.directions[0]
            settings += _monolingual_settings(monolingual, pair.src_lang, pair.tgt_lang)
        return load_config(corpus[0], settings)
    folder = in_folder(corpus[0], src_lang, tgt_lang) if kinds == ["folder"] else None
    if folder is not None:
        corpora, dev, test = folder.corpora, dev or folder.sets.get("dev"), test or folder.sets.get("test")
    elif missing := [file for file in (*corpus, *(in_domain or ())) if not file.is_file()]:
        reason = "not a regular file" if missing[0].exists() else "no such file"
        raise UsageError(f"{missing[0]}: {reason}; give its path")
    elif "config" in kinds or (len(kinds) < 3 and kinds not in (["text", "text"], ["table"], ["table", "table"])):
        names = " and ".join(map(str, corpus))
        raise UsageError(f"{names}: expected two text files, source and target, or one table, or one config (.yaml)")
    else:
        corpora = grouped(corpus)
    corpus, names = corpora[0], " and ".join(map(str, corpora[0]))
    if columns and kinds != ["table"]:
        raise UsageError("--columns is for a corpus that is a table; for a list of words set data.words.columns")
    languages = _languages(corpus, names, src_lang, tgt_lang, columns, init_from)
    expected = (*languages, *(languages_of_files(str(corpus[0]), str(corpus[-1])) or ()))
    for files in (dev or [], test or [], *([file] for file in monolingual or [])):
        codes = languages_of_files(*map(str, files)) if len(files) == 2 else [_code_of(file) for file in files]
        if any(code and is_other_language(code, expected) for code in codes or []):
            found = " and ".join(map(str, codes or []))
            log.warning(f"{' '.join(map(str, files))}: by name {found}, expected {' and '.join(languages)}")
    data: dict[str, Any] = {"src_lang": languages[0], "tgt_lang": languages[1], "train": [str(file) for file in corpus]}
    if columns:
        data["columns"] = columns
    if dev:
        data["dev"] = _files_of_set("dev", dev)
    if test:
        data["test"] = {"test": _files_of_set("test", test)}
    if len(corpora) > 1 or in_domain:
        domain = [Path(file) for file in _files_of_set("in-domain", in_domain)] if in_domain else []
        data["train"] = mixed(corpora, languages, dev or [], domain)
    for file in monolingual or []:
        refuse_other_language(file, languages, corpus)
    return config_of(data, [*settings, *_monolingual_settings(monolingual or [], *languages)])


def corrections_of(parent: Path) -> tuple[Path, str, list[str]]:
    """The table of what people corrected in translations of a run, its columns, and the settings by which a run that learns it has
    the same sets and directions. Raises DataError where there is none, and UsageError for several language pairs."""
    run = RunDir.existing(parent)
    config = run.load_config()
    of_pairs = [(run.of_pair(config.data, pair).corrections_file, pair) for pair in config.data.directions]
    found = [(file, pair) for file, pair in of_pairs if file.is_file()]
    if not found:
        raise DataError(f"{of_pairs[0][0]}: no corrections yet; make some on the page of: mt serve {parent}")
    if len(found) > 1:
        files = " and ".join(str(file) for file, _ in found)
        raise UsageError(
            f"{files}: of several language pairs; train on one at a time, as on any table, --from {parent}"
        )
    [(file, pair)] = found
    both = config.training.both_directions == 1
    sets = {"data.dev": pair.dev, "data.test": pair.test or None, "training.both_directions": 1 if both else None}
    return file, f"{pair.src_lang},{pair.tgt_lang}", _as_settings(sets)


def usual_run_dir(
    corpus: Sequence[Path], config: Config, more: Collection[str] = (), init_from: Path | None = None
) -> Path:
    """`runs/NAME` of a config or table, `runs/es-gn` of two files; the run of its own config. `more` and another run to
    begin with change the name."""
    run = RunDir(corpus[0].parent)
    if len(corpus) > 2 or _kind(corpus[0]) == "folder":
        usual = RUNS / f"{config.data.name}-more"
    elif len(corpus) == 2:
        usual = RUNS / config.data.name
    elif corpus[0].name == run.config_file.name and run.checkpoints.is_dir():
        usual = run.path
    else:
        usual = RUNS / stem_of(corpus[0])
    if usual.name in {"", ".."}:  # such as the current folder, which has no name that another could be added to
        usual = usual.resolve()
    usual = usual.with_name("-".join([usual.name, *more]))
    is_the_other = init_from is not None and usual.resolve() == init_from.resolve()
    return usual.with_name(f"{usual.name}-2") if is_the_other else usual


def _kind(file: Path) -> str:
    if file.suffix in {".yaml", ".yml"} or (file / "config.yaml").exists():
        return "config"
    if file.is_dir():
        return "folder"
    return "table" if is_table(str(file)) else "text"


def _as_settings(values: dict[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items() if value is not None]


def _files_of_set(option: str, files: Sequence[Path]) -> list[str]:
    if len(files) != (1 if is_table(str(files[0])) or are_one_table(list(map(str, files))) else 2):
        raise UsageError(f"--{option}: expected one table, or two files: --{option} SOURCE --{option} TARGET")
    return [str(file) for file in files]


def _monolingual_settings(monolingual: Sequence[Path], src_lang: str, tgt_lang: str) -> list[str]:
    """Files whose names tell the source language help the reverse model."""
    sides: dict[str, list[str]] = {"tgt": [], "src": []}
    for file in monolingual:
        code = _code_of(file)
        is_source = code is not None and language(code) == language(src_lang) and code.lower() != tgt_lang.lower()
        sides["src" if is_source else "tgt"].append(str(file))
    if sides["src"] and not sides["tgt"]:
        found = f"--monolingual {sides['src'][0]}: by its name in the source language {src_lang}"
        only = "which helps beside text in the target language only; give such text, too, or rename it"
        raise UsageError(f"{found}, {only}")
    return _as_settings({f"data.monolingual.{side}": files or None for side, files in sides.items()})


def _languages(
    corpus: Sequence[Path],
    names: str,
    src_lang: str | None,
    tgt_lang: str | None,
    columns: str | None,
    init_from: Path | None,
) -> tuple[str, str]:
    """As given, or by the names of files or columns, or those of the run that the new one begins with."""
    for option, given in (("src", src_lang), ("tgt", tgt_lang)):
        if given and len(given) > 3 and (code := code_of_name(given)) not in (None, given):
            raise UsageError(f"--{option}-lang {given}: expected a code; did you mean {code}?")
    if src_lang and tgt_lang:
        return src_lang, tgt_lang
    found = named_languages(corpus, columns, src_lang, tgt_lang)
    if found is None and init_from is not None:
        parent = RunDir.existing(init_from).load_config().data.directions[0]
        found = parent.src_lang, parent.tgt_lang
        log.info(f"{names}: taken as {found[0]} to {found[1]}, the languages of {init_from}")
    if found is None:
        options = f"--src-lang {src_lang or 'es'} --tgt-lang {tgt_lang or 'gn'}, with the codes of yours"
        if len(corpus) == 1:
            options += "; if the first row names the columns, give these names as --columns SOURCE,TARGET, too"
        raise UsageError(f"{names}: the names do not tell the languages; add {options}")
    if any(map(may_be_a_word, found)):
        log.info(f"taken as {found[0]} to {found[1]}, by the names; if these are wrong, add --src-lang and --tgt-lang")
    return src_lang or found[0], tgt_lang or found[1]


def _code_of(file: Path) -> str | None:
    """The code of the language that the ending of a name tells."""
    return code_of_name(Path(file.name.removesuffix(".gz")).suffix[1:])
