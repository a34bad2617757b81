"""From the names of files to a config and to the name of its run: two text files, one table, or a config."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mt_cli.config import Config, is_table
from mt_cli.config_file import config_of, load_config
from mt_cli.data.languages import code_of_name, is_other_language, language, languages_of_files, may_be_a_word
from mt_cli.data.tables import find_layout, read_rows, suffix_of
from mt_cli.display import shortened
from mt_cli.errors import UsageError
from mt_cli.run.run_dir import RUNS, RunDir

log = logging.getLogger(__name__)

_DOCUMENTS = {".doc", ".docx", ".odt", ".pdf", ".rtf"}


def read_config(
    corpus: list[Path],
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    columns: str | None = None,
    dev: list[Path] | None = None,
    test: list[Path] | None = None,
    overrides: Sequence[str] = (),
    monolingual: list[Path] | None = None,
    init_from: Path | None = None,
) -> Config:
    """The config that `corpus` is or implies; only its section `data` is set for files. Raises UsageError or ConfigError."""
    texts = monolingual or []
    options = {"src_lang": src_lang, "tgt_lang": tgt_lang, "columns": columns, "dev": dev, "test": test}
    if is_config(corpus, {"--dev": dev, "--test": test, "--monolingual": monolingual}):
        if given := [name for name, value in options.items() if value]:
            option = given[0].replace("_", "-")
            raise UsageError(f"--{option} goes with files; in a config use --set data.{given[0]}=...")
        if texts:
            others = [one for one in overrides if not one.startswith("data.monolingual.")]  # which need the files
            pair = load_config(corpus[0], others).data.directions[0]
            overrides = [*overrides, *_sides_of(texts, pair.src_lang, pair.tgt_lang)]
        return load_config(corpus[0], overrides)
    _refuse_missing(corpus)
    if columns and len(corpus) == 2:
        raise UsageError(
            "--columns is for a corpus that is a table; leave it out, or set data.words.columns for a list of words"
        )
    languages = _languages(corpus, src_lang, tgt_lang, columns, init_from)
    _warn_of_others({"--dev": dev or [], "--test": test or []}, texts, corpus, languages)
    data: dict[str, Any] = {"src_lang": languages[0], "tgt_lang": languages[1], "train": [str(file) for file in corpus]}
    if columns:
        data["columns"] = columns
    if dev:
        data["dev"] = files_of_set("dev", dev)
    if test:
        data["test"] = {"test": files_of_set("test", test)}
    return config_of(data, [*overrides, *_sides_of(texts, *languages)])


def _sides_of(monolingual: list[Path], src_lang: str, tgt_lang: str) -> list[str]:
    """Settings for the files of `--monolingual`: those whose names tell the source language help the reverse model."""
    sides: dict[str, list[str]] = {"tgt": [], "src": []}
    for file in monolingual:
        code = code_of_name(suffix_of(file).removeprefix("."))
        is_source = code is not None and language(code) == language(src_lang) and code.lower() != tgt_lang.lower()
        sides["src" if is_source else "tgt"].append(str(file))
    if sides["src"] and not sides["tgt"]:
        raise UsageError(
            f"--monolingual {sides['src'][0]}: by its name in the source language {src_lang}, which helps beside text in the"
            " target language only; give such text, too, or rename it"
        )
    return as_settings({f"data.monolingual.{side}": files for side, files in sides.items()})


def is_config(corpus: list[Path], sets: dict[str, list[Path] | None]) -> bool:
    """Whether the arguments name a config. Raises UsageError for what is neither a config nor a corpus. `sets`: the files of
    other options."""
    if len(corpus) > 2:
        once = [f"{option} {files[0]} {option} ..." for option, files in sets.items() if files and len(files) == 1]
        more = f"; each file of a set takes the option: {' '.join(once)}" if once else ""
        raise UsageError(
            f"{len(corpus)} files; give two text files, source and target, or one table, or one config{more}"
        )
    for file in corpus:
        if suffix_of(file) in _DOCUMENTS:
            raise UsageError(
                f"{file}: a document; save each language as plain text in UTF-8 with a sentence on each line, and give the two"
            )
    if len(corpus) == 2:
        for file in corpus:
            if file.suffix in {".yaml", ".yml"}:
                raise UsageError(f"{file}: a config stands alone; give one config, or two text files")
            if is_table(str(file)):
                raise UsageError(f"{file}: a table holds both languages; give one table, or two text files")
        return False
    file = corpus[0]
    if (
        file.suffix not in {".yaml", ".yml"}
        and (not file.exists() or file.is_dir())
        and not RunDir(file).config_file.exists()
    ):
        found = _kind_of(file)
        raise UsageError(
            f"{file}: {found}; give two text files, source and target, or one table, or one config (.yaml)"
        )
    if (
        re.fullmatch(r"\.[a-z]{2,3}", suffix_of(file))
        and suffix_of(file) != ".yml"
        and not is_table(str(file))
        and file.is_file()
    ):
        raise UsageError(f"{file}: one text file; give two, source and target, line for line")
    return not is_table(str(file))


def usual_run_dir(
    corpus: list[Path],
    config: Config,
    more: Collection[str] = (),
    init_from: Path | None = None,
) -> Path:
    """`runs/NAME` of a config or a table, `runs/es-gn` of two files; of a run's own config that run. With `more`, names
    of options that change what it learns from, it is another run, and so is one that begins with another one of this name."""
    if len(corpus) == 2:
        usual = RUNS / f"{config.data.src_lang}-{config.data.tgt_lang}"
    else:
        run = RunDir(corpus[0].parent)
        is_of_a_run = corpus[0].name == run.config_file.name and run.checkpoints.is_dir()
        usual = run.path if is_of_a_run else RUNS / _stem(corpus[0])
    if usual.name in {"", ".."}:  # such as the current folder, which has no name that another could be added to
        usual = usual.resolve()
    usual = usual.with_name("-".join([usual.name, *more]))
    is_the_other = init_from is not None and usual.resolve() == init_from.resolve()
    return usual.with_name(f"{usual.name}-2") if is_the_other else usual


def as_settings(settings: Mapping[str, Any]) -> list[str]:
    """`section.key=value` for each of the values that were given."""
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in settings.items() if value]


def files_of_set(option: str, files: list[Path]) -> list[str]:
    """Raises UsageError unless they are one table or two files."""
    if len(files) != (1 if is_table(str(files[0])) else 2):
        raise UsageError(
            f"--{option} is given {'once' if len(files) == 1 else f'{len(files)} times'}; give one table, or two files: --{option} SOURCE --{option} TARGET"
        )
    return [str(file) for file in files]


def _refuse_missing(corpus: list[Path]) -> None:
    """Raises UsageError for what is to be seen before the names are."""
    for file in corpus:
        if not file.is_file():
            raise UsageError(f"{file}: {_kind_of(file)}, expected a text file or a table; give its path")
    if len(corpus) == 2 and corpus[0].samefile(corpus[1]):
        raise UsageError(f"{corpus[0]} and {corpus[1]} are the same file; give the source and its translation")


def _kind_of(file: Path) -> str:
    return "a folder" if file.is_dir() else "a pipe or a device" if file.exists() else "no such file"


def _languages(
    corpus: list[Path], src_lang: str | None, tgt_lang: str | None, columns: str | None, init_from: Path | None
) -> tuple[str, str]:
    """As given, or as the names tell, or those of the run that the new one begins with."""
    for option, given in (("src", src_lang), ("tgt", tgt_lang)):
        if given and (code := code_of_name(given)) and len(given) > 3 and code != given:
            raise UsageError(f"--{option}-lang {given}: expected a code; did you mean {code}?")
    if src_lang and tgt_lang:
        return src_lang, tgt_lang
    if len(corpus) == 2:
        found = languages_of_files(str(corpus[0]), str(corpus[1]))
    else:
        found = _languages_of_table(corpus[0], columns)
    if found is None and init_from is not None:
        parent = RunDir.existing(init_from).load_config().data.directions[0]
        found = parent.src_lang, parent.tgt_lang
        log.info(f"{' and '.join(map(str, corpus))}: taken as {found[0]} to {found[1]}, the languages of {init_from}")
    if found is None:
        raise UsageError(
            f"{' and '.join(map(str, corpus))}: the names do not tell the languages; add"
            f" --src-lang {src_lang or 'es'} --tgt-lang {tgt_lang or 'gn'}, with the codes of yours{_first_row(corpus, columns)}"
        )
    if any(map(may_be_a_word, found)):
        log.info(
            f"taken as {found[0]} to {found[1]}, by the names; if these are not the languages, add --src-lang and --tgt-lang"
        )
    return src_lang or found[0], tgt_lang or found[1]


def _first_row(corpus: list[Path], columns: str | None) -> str:
    """What to do where the first row of a table without a header is one after all."""
    layout = find_layout(corpus[0], columns) if len(corpus) == 1 else None
    if layout is None or layout.header is not None:
        return ""
    _, *cells = next(read_rows(layout), (0, "", ""))
    row = " | ".join(shortened(cell.encode("utf-8", "replace").decode(), 30) for cell in cells)
    return f"; if its first row, {row}, names the columns, give these names as --columns SOURCE,TARGET, too"


def _warn_of_others(
    sets: dict[str, list[Path]], monolingual: list[Path], corpus: list[Path], languages: tuple[str, str]
) -> None:
    """Warns of files whose names tell other languages than the corpus has."""
    expected = (*languages, *(languages_of_files(str(corpus[0]), str(corpus[-1])) or ()))
    for name, files in sets.items():
        found = languages_of_files(str(files[0]), str(files[1])) if len(files) == 2 else None
        if found is not None and any(is_other_language(code, expected) for code in found):
            log.warning(
                f"{' '.join(map(str, files))}: by their names {found[0]} and {found[1]}, expected {' and '.join(languages)};"
                f" if they are, the scores on {name.removeprefix('--')} mean nothing"
            )
    for file in monolingual:
        code = code_of_name(suffix_of(file).removeprefix("."))
        if code is not None and is_other_language(code, expected):
            log.warning(
                f"{file}: by its name {code}, expected {languages[1]}; if it is, the run learns to write {code}"
            )


def _languages_of_table(file: Path, columns: str | None) -> tuple[str, str] | None:
    """From the header, or from a name such as es-gn.tsv."""
    src, tgt = find_layout(file, columns).languages
    if src and tgt:
        return src, tgt
    named = re.search(r"(?:^|[._])([a-z]{2,3})-([a-z]{2,3})(?=[._]|$)", _stem(file))
    return (named[1], named[2]) if named else None


def _stem(file: Path) -> str:
    name = file.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name
