"""Which files are a corpus, and in which languages, by their names; and what a folder holds."""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from mt_cli.config import is_memory, is_table
from mt_cli.data.languages import code_of_name, language, languages_of_files, may_be_a_word
from mt_cli.errors import DataError, UsageError, as_typed
from mt_cli.mixture import Languages

log = logging.getLogger(__name__)

# What a file of a folder is given as, by the first of these words that its name has.
_OPTIONS = {
    "test": "test", "devtest": "test", "dev": "dev", "val": "dev", "valid": "dev", "validation": "dev",
    "words": "words", "own": "in-domain",
}  # fmt: skip


def stem_of(file: Path) -> str:
    name = file.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def code_of(file: Path) -> str | None:
    """The code of the language that the ending of a name tells."""
    return code_of_name(Path(file.name.removesuffix(".gz")).suffix[1:])


def named_languages(
    files: Sequence[Path], columns: str | None = None, src_lang: str | None = None, tgt_lang: str | None = None
) -> Languages | None:
    """By the names of two files; of a table as given, or by its header, or its name (es-gn.tsv)."""
    if len(files) == 2:
        return languages_of_files(str(files[0]), str(files[1]))
    from mt_cli.data.tables import find_layout  # here, as a config needs none

    src, tgt = find_layout(files[0], columns).languages
    src, tgt = src_lang or src, tgt_lang or tgt
    named = re.search(r"(?:^|[._])([a-z]{2,3})-([a-z]{2,3})(?=[._]|$)", stem_of(files[0]))
    return (src, tgt) if src and tgt else (named[1], named[2]) if named else None


def grouped(files: Sequence[Path]) -> list[list[Path]]:
    """Tables by themselves, text files two by two, as they stand on the command line. Raises UsageError for one that is
    alone."""
    groups, waiting = list[list[Path]](), list[Path]()
    expected = (
        "CORPUS is tables, and text files two by two, source and target; an option has a file each time: "
        "--dev dev.es --dev dev.gn"
    )
    for file in files:
        if is_table(str(file)) or len(files) == 1:
            groups.append([file])
        elif waiting and len(files) > 2 and (code := code_of(file)) and code == code_of(waiting[0]):
            raise UsageError(f"{waiting[0]} {file}: both by their names in {code}; {expected}")
        elif waiting:
            groups.append([waiting.pop(), file])
        else:
            waiting.append(file)
    if waiting:
        raise UsageError(f"{waiting[0]}: a text file without its other side; {expected}")
    return groups


# A folder ------------------------------------------------------------------------------------------------------------


def files_of_folder(
    folder: Path, src_lang: str | None, tgt_lang: str | None
) -> tuple[str, list[list[Path]], dict[str, list[Path]]]:
    """The source language; the corpora, those between the languages asked for first, the largest before the others; and by
    option the files whose names say that they are given as such. What is found is told, and what is left aside. Raises
    UsageError where there is no corpus between the languages."""

    def languages(files: Sequence[Path]) -> Languages | None:
        """A memory has its languages in either order."""
        is_unordered = is_memory(str(files[-1]))
        asked = f"{src_lang},{tgt_lang}" if is_unordered and src_lang and tgt_lang else None
        found = named_languages(files, asked)
        is_turned = is_unordered and found is not None and language(found[0]) == language(tgt_lang or "")
        return (found[1], found[0]) if found is not None and is_turned else found

    by_stem, known = defaultdict[str, dict[str, Path]](dict), list[tuple[list[Path], Languages | None]]()
    for file in sorted(one for one in folder.iterdir() if not one.name.startswith(".")):
        stem, code = _stem_and_code(file)
        if not file.is_file():
            log.warning(f"{file}: left aside, not a file; put its text into {folder} itself")
        elif is_table(str(file)):
            try:
                known.append(([file], languages([file])))
            except (DataError, UsageError) as error:
                log.warning(f"left aside: {error}")
        elif (same := by_stem[stem].setdefault(code, file)) != file:
            log.warning(f"{file}: left aside, {same} has its name; rename one of them")

    codes = Counter(code for group in by_stem.values() if len(group) > 1 for code in group)
    codes.update(code for _, found in known if found for code in found)
    if tgt_lang is None:
        targets = " or ".join(f"--to {code}" for code in sorted(codes))
        none = "no two files such as news.es and news.gn, no table"
        raise UsageError(f"{folder}: a folder; say into which language to translate: {targets or none}")
    others = (code for code in codes if code != tgt_lang)  # a three-letter word (train.bak) may be none
    source = src_lang or max(others, key=lambda code: (codes[code], not may_be_a_word(code)), default="")
    for group in by_stem.values():
        spoken = next((code for code in group if language(code) == language(source)), None)
        sides = [[group[spoken], file] for code, file in group.items() if code != spoken] if spoken else []
        known += [(files, languages(files)) for files in sides]
        for code, file in group.items():
            if not any(file in files for files in sides):
                text = f"for text in {tgt_lang} alone give --monolingual {as_typed(file)}"
                advice = text if code == tgt_lang else "rename it, or leave it there"
                why = "its name tells no language" if code == file.name else "no file beside it is its translation"
                log.warning(f"{file}: left aside, {why}; {advice}")

    asked_for = [language(source), language(tgt_lang)]
    own = [files for files, found in known if found is None or [*map(language, found)] == asked_for]
    in_order = sorted((files for files, _ in known), key=lambda files: (files not in own, -files[-1].stat().st_size))
    corpora, options = _by_option(in_order, own)
    if not corpora or corpora[0] not in own:
        raise UsageError(f"{folder}: no corpus from {source or 'a source'} to {tgt_lang}; give it, or another --to")
    return source, corpora, options


def _stem_and_code(file: Path) -> tuple[str, str]:
    """A name without its last word that tells a language, and the code of that: news.txt, es of news-es.txt. The whole
    name twice where none does."""
    words = re.split(r"([-._])", file.name.removesuffix(".gz"))
    for i in reversed(range(0, len(words), 2)):
        if words[i].lower() not in _OPTIONS and (code := code_of_name(words[i])):
            return "".join(words[: max(0, i - 1)] + words[i + 1 :]), code
    return file.name, file.name


def _by_option(
    found: Sequence[list[Path]], own: Sequence[list[Path]]
) -> tuple[list[list[Path]], dict[str, list[Path]]]:
    """Corpora, and what is given as another option, which only `own` is, between the languages asked for."""
    corpora, options = list[list[Path]](), dict[str, list[Path]]()
    for files in found:
        words = re.split(r"[-._]", files[0].name.lower()) if files in own else []
        option, name = next((_OPTIONS[word] for word in _OPTIONS if word in words), None), " ".join(map(str, files))
        if option in options:
            other = " ".join(map(str, options[option]))
            log.warning(f"{name}: left aside, --{option} is {other}; rename one of them")
            continue
        if option is None:
            corpora.append(files)
        else:
            options[option] = files
        log.info(f"found {name}{f', as --{option}' if option else ''}")
    return corpora, options
