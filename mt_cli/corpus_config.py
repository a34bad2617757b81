"""From the names of files to a config and to the name of its run."""

import json
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mt_cli.config import Config, are_one_table, is_memory, is_table
from mt_cli.config_file import config_of, load_config
from mt_cli.corpus_files import code_of, files_of_folder, grouped, named_languages, stem_of
from mt_cli.data.corpus import refuse_exchanged_files
from mt_cli.data.languages import code_of_name, is_other_language, language, languages_of_files, may_be_a_word
from mt_cli.errors import DataError, UsageError
from mt_cli.mixture import Files, Languages, mixed, refuse_other_languages
from mt_cli.run.run_dir import RUNS, RunDir

log = logging.getLogger(__name__)


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
    kinds = ["table"] if are_one_table(list(map(str, corpus))) else [_kind(file) for file in corpus]
    if kinds == ["folder"]:
        src_lang, tgt_lang = (code_of_name(one or "") or one for one in (src_lang, tgt_lang))
        src_lang, corpora, found = files_of_folder(corpus[0], src_lang, tgt_lang)
        dev, test = dev or found.get("dev"), test or found.get("test")
        in_domain, words = in_domain or found.get("in-domain"), words or found.get("words")
    options = {
        "data.words.files": _files_of_set("words", words) if words else None,
        "training.minutes": minutes,
        "data.clean": clean or None,
        "training.init_from": str(init_from) if init_from else None,
        "training.extend_vocabulary": extend_vocabulary or None,
    }
    settings = [*settings, *_as_settings(options)]
    if kinds == ["config"]:
        of_files = {"src-lang": src_lang, "tgt-lang": tgt_lang, "columns": columns, "dev": dev, "test": test}
        if given := [name for name, value in {**of_files, "in-domain": in_domain}.items() if value]:
            raise UsageError(f"--{given[0]} goes with files; in a config write it into the section data")
        if monolingual:
            without = [one for one in settings if not one.startswith("data.monolingual.")]  # which need the files
            pair = load_config(corpus[0], without).data.directions[0]
            settings += _as_settings(_monolingual(monolingual, (pair.src_lang, pair.tgt_lang)))
        return load_config(corpus[0], settings)
    if kinds != ["folder"]:
        _refuse_missing(corpus)
        if "config" in kinds or kinds == ["text"]:
            names = " and ".join(map(str, corpus))
            expected = "expected two text files, source and target, or one table, or one config (.yaml)"
            raise UsageError(f"{names}: {expected}")
        corpora = grouped(corpus)
    if columns and kinds != ["table"]:
        raise UsageError("--columns is for a corpus that is a table; for a list of words set data.words.columns")
    first, *others = corpora
    languages = _languages(first, src_lang, tgt_lang, columns, init_from)
    named = (languages_of_files(*map(str, first)) if len(first) == 2 else None) or languages
    data: dict[str, Any] = {"src_lang": languages[0], "tgt_lang": languages[1], "train": [str(file) for file in first]}
    if columns:
        data["columns"] = columns
    if dev:
        data["dev"] = _files_of_set("dev", dev, languages, named)
    if words:
        _files_of_set("words", words, languages, named)
    if test:
        data["test"] = {"test": _files_of_set("test", test, languages, named)}
    if in_domain:
        _files_of_set("in-domain", in_domain, languages, named)
        _refuse_missing(in_domain)
    if others or in_domain:
        for files in filter(None, (dev, in_domain)):  # else it would seem that the corpora are
            own_columns = ",".join(languages) if is_memory(str(files[0])) else columns
            refuse_exchanged_files(list(map(str, files)), own_columns, languages)
        beside = [(files, own) for files in others if (own := _languages_beside(files, languages))]
        data["train"] = mixed([(first, languages), *beside], languages, dev, in_domain, columns)
    alone = _monolingual(monolingual or [], languages)
    if monolingual:
        refuse_other_languages(dict(zip(languages[::-1], alone.values(), strict=True)), first, languages, columns)
    return config_of(data, [*settings, *_as_settings(alone)])


def _refuse_missing(files: Sequence[Path]) -> None:
    if missing := [file for file in files if not file.is_file()]:
        reason = "not a regular file" if missing[0].exists() else "no such file"
        advice = "give a folder alone, or the files in it" if missing[0].is_dir() else "give its path"
        raise UsageError(f"{missing[0]}: {reason}; {advice}")


def corrections_of(parent: Path) -> tuple[Path, str, list[str]]:
    """What people corrected in a run's translations: its table, its columns, settings for the same sets and directions.
    Raises MTError."""
    run = RunDir.existing(parent)
    config = run.load_config()
    of_pairs = {run.of_pair(config.data, pair).corrections_file: pair for pair in config.data.directions}
    found = [file for file in of_pairs if file.is_file()]
    if not found:
        raise DataError(f"{next(iter(of_pairs))}: no corrections yet; make some on the page of: mt serve {parent}")
    if len(found) > 1:
        advice = f"of several language pairs; train on one at a time, as on any table, --from {parent}"
        raise UsageError(f"{' and '.join(map(str, found))}: {advice}")
    pair, both = of_pairs[found[0]], config.training.both_directions == 1
    sets = {"data.dev": pair.dev, "data.test": pair.test or None, "training.both_directions": 1 if both else None}
    return found[0], f"{pair.src_lang},{pair.tgt_lang}", _as_settings(sets)


def usual_run_dir(
    corpus: Sequence[Path], config: Config, more: Collection[str] = (), init_from: Path | None = None
) -> Path:
    """`runs/NAME` of a config or table, `runs/es-gn` of two files, the run of its own config; then what else changes
    the name."""
    run = RunDir(corpus[0].parent)
    if len(corpus) > 2 or _kind(corpus[0]) == "folder":
        usual = RUNS / f"{config.data.name}-more"
    elif len(corpus) == 2:
        usual = RUNS / config.data.name
    elif corpus[0].name == run.config_file.name and run.checkpoints.is_dir():
        usual = run.path
    else:
        usual = RUNS / stem_of(corpus[0])
    usual = beside(usual, *more)
    is_the_other = init_from is not None and usual.resolve() == init_from.resolve()
    return usual.with_name(f"{usual.name}-2") if is_the_other else usual


def beside(run: Path, *more: str) -> Path:
    """The run with more words in its name."""
    if run.name in {"", ".."}:  # such as the current folder, which has no name that another could be added to
        run = run.resolve()
    return run.with_name("-".join([run.name, *more]))


def _as_settings(values: dict[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items() if value is not None]


# By the names of files ------------------------------------------------------------------------------------------------


def _kind(file: Path) -> str:
    if file.suffix in {".yaml", ".yml"} or (file / "config.yaml").exists():
        return "config"
    return "folder" if file.is_dir() else "table" if is_table(str(file)) else "text"


def _files_of_set(option: str, files: Sequence[Path], *known: Languages) -> list[str]:
    """Raises UsageError for files that are no set, and for two whose names tell others than the known languages."""
    names = list(map(str, files))
    if len(files) != (1 if is_table(names[0]) or are_one_table(names) else 2):
        raise UsageError(f"--{option}: expected one table, or two files: --{option} SOURCE --{option} TARGET")
    found: Languages | None = None
    with suppress(DataError, UsageError):  # it is read later, with its columns
        found = named_languages(files) if known and not is_memory(names[0]) else None
    if found and {*map(language, found)} not in [{*map(language, one)} for one in known]:
        kind, change = ("its header", "change it") if len(names) == 1 else ("their names", "rename them")
        told = f"by {kind} from {found[0]} to {found[1]}, and not from {known[0][0]} to {known[0][1]}"
        raise UsageError(f"--{option} {' '.join(names)}: {told}; give others, or {change}")
    return names


def _monolingual(files: Sequence[Path], languages: Languages) -> dict[str, list[str] | None]:
    """Settings for text in the target language, and for files whose names tell the source language."""
    sides: tuple[list[str], list[str]] = [], []
    for file in files:
        code = code_of(file) or ""
        if code and is_other_language(code, languages):
            expected = f"expected {languages[1]} or {languages[0]}"
            raise UsageError(f"--monolingual {file}: by its name in {code}, {expected}; give other text, or rename it")
        is_source = language(code) == language(languages[0]) and code.lower() != languages[1].lower()
        sides[is_source].append(str(file))
    if sides[1] and not sides[0]:
        found = f"--monolingual {sides[1][0]}: by its name in the source language {languages[0]}"
        only = "which helps beside text in the target language only; give such text, too, or rename it"
        raise UsageError(f"{found}, {only}")
    return {"data.monolingual.tgt": sides[0] or None, "data.monolingual.src": sides[1] or None}


def _languages_beside(files: Sequence[Path], languages: Languages) -> Languages | None:
    """Of a corpus beside the first one, whose languages these are. A memory may have more than two; it is left aside where
    these are not among them."""
    try:
        return named_languages(files, ",".join(languages) if is_memory(str(files[0])) else None) or languages
    except (DataError, UsageError) as error:
        if not is_memory(str(files[0])):
            raise
        log.warning(f"left aside: {error}")
        return None


def _languages(
    corpus: Sequence[Path], src_lang: str | None, tgt_lang: str | None, columns: str | None, init_from: Path | None
) -> Languages:
    """As given, or by the names of files or columns, or those of the run that the new one begins with."""
    for option, given in (("src", src_lang), ("tgt", tgt_lang)):
        if given and len(given) > 3 and (code := code_of_name(given)) not in (None, given):
            raise UsageError(f"--{option}-lang {given}: expected a code; did you mean {code}?")
    if src_lang and tgt_lang:
        return src_lang, tgt_lang
    found, names = named_languages(corpus, columns, src_lang, tgt_lang), " and ".join(map(str, corpus))
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
    src, tgt = src_lang or found[0], tgt_lang or found[1]
    if src == tgt:
        told = f"taken as {found[0]} to {found[1]}, and {tgt} is asked for on both sides"
        raise UsageError(f"{names}: {told}; exchange the two, or give both --src-lang and --tgt-lang")
    return src, tgt
