"""`mt check`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated

import typer

from mt_cli.cli.options import catch_ctrl_c, refuse_options
from mt_cli.config_file import load_config
from mt_cli.errors import UsageError

_WIDTH = 80


def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE TARGET | TABLE | CONFIG", help="Two files, one table, or a YAML config."),
    ],
    dev: Annotated[
        list[str] | None, typer.Option(help="The validation text: a table, or given twice for two files.")
    ] = None,
    test: Annotated[list[str] | None, typer.Option(help="A test set, likewise.")] = None,
    src_lang: Annotated[
        str | None, typer.Option(help="Language code of the source; from the file's name by default.")
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option(help="Language code of the target; from the file's name by default.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="SRC,TGT", help="Columns of a table, by name or number, such as es,gn or 1,3.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    dropped: Annotated[
        Path | None, typer.Option(metavar="FILE.tsv", help="Write the lines that a person would drop, and why.")
    ] = None,
) -> int:
    """Look a corpus through before training: what is in it, what is wrong with it, what to do about that.

    The exit code is 1 when something would make the result of a training worthless.
    """
    from mt_cli.check.corpus_check import Corpus, CorpusFiles
    from mt_cli.check.corpus_check import check as check_corpus

    if dropped is not None and dropped.exists():
        raise UsageError(f"{dropped}: File exists; choose another --dropped")
    data: CorpusFiles
    if len(files) == 1 and files[0].suffix in {".yaml", ".yml"}:
        options = {"dev": dev, "test": test, "src_lang": src_lang, "tgt_lang": tgt_lang, "columns": columns}
        refuse_options(f"{files[0]} names the sets and languages", options)
        data = load_config(files[0]).data
    else:
        train = _files("SOURCE TARGET", [str(file) for file in files])
        languages = src_lang or _language(files[0]), tgt_lang or _language(files[-1])
        tests = {"test": _files("--test", test)} if test else {}
        data = Corpus(train, _files("--dev", dev or []), tests, *languages, columns)
    catch_ctrl_c()
    report = check_corpus(data)
    if dropped is not None:
        report.write_dropped(dropped)
    width = min(_WIDTH, max(40, shutil.get_terminal_size((_WIDTH, 24)).columns))
    print(report.as_json() if as_json else report.as_table(width))
    return 1 if report.is_fatal else 0


def _files(option: str, files: list[str]) -> list[str]:
    """Raises UsageError for files that are no set: more than two, or one that is no table."""
    if len(files) > 2:
        raise UsageError(f"{option}: {len(files)} files, expected two (source and target) or one table")
    if len(files) == 1 and Path(files[0].removesuffix(".gz")).suffix.lower() not in {".tsv", ".csv", ".xlsx"}:
        raise UsageError(
            f"{files[0]}: one file must be a table (.tsv, .csv or .xlsx); give the other language's file, too"
        )
    return files


def _language(file: Path) -> str:
    """The language code at the end of a file's name, such as train.es or train.es.gz; empty if there is none."""
    suffix = Path(file.name.removesuffix(".gz")).suffix.removeprefix(".")
    return (
        suffix
        if re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]{2,8})?", suffix) and suffix not in {"txt", "tsv", "csv"}
        else ""
    )
