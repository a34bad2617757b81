"""`mt check`."""

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer

from mt_cli.cli import options
from mt_cli.corpus_config import read_config
from mt_cli.errors import UsageError


def check(
    corpus: options.CorpusArgument,
    src_lang: options.SrcLangOption = None,
    tgt_lang: options.TgtLangOption = None,
    columns: options.ColumnsOption = None,
    dev: options.DevOption = None,
    test: options.TestOption = None,
    in_domain: options.InDomainOption = None,
    overrides: options.SettingsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: 100 examples of a fault instead of 3.")] = False,
    dropped: Annotated[
        Path | None,
        typer.Option(metavar="FILE.tsv", help="Write the pairs that `mt train --clean` would leave out, and why."),
    ] = None,
) -> int:
    """Look a corpus through before training. It shows what the corpus has, what is wrong with it, and what to do about that.

    The exit code is 1 when something would make the result of a training worthless.
    """
    if dropped is not None and dropped.exists():
        raise UsageError(f"{dropped}: File exists; choose another --dropped")
    if dropped is not None and not dropped.parent.is_dir():
        raise UsageError(f"{dropped.parent}: no such directory; make it or choose another --dropped")
    settings = overrides or []
    pairs = read_config(corpus, src_lang, tgt_lang, columns, dev, test, settings, in_domain=in_domain).data.directions
    if len(pairs) > 1 and dropped is not None:
        raise UsageError("--dropped is for one language pair; give its two files in place of the config")
    options.catch_ctrl_c()

    from mt_cli.checking.check import check as check_corpus  # here, because it imports numpy

    reports = {pair.name: check_corpus(pair) for pair in pairs}
    if as_json:
        objects = {name: json.loads(report.as_json()) for name, report in reports.items()}
        print(json.dumps(objects if len(pairs) > 1 else objects[pairs[0].name], indent=1, ensure_ascii=False))
    else:
        width = min(80, max(40, shutil.get_terminal_size((80, 24)).columns))
        titles = {name: f"{name}\n\n" if len(pairs) > 1 else "" for name in reports}
        print("\n\n".join(titles[name] + report.as_table(width) for name, report in reports.items()))
    if dropped is not None:
        reports[pairs[0].name].write_dropped(dropped)
    return 1 if any(report.is_fatal for report in reports.values()) else 0
