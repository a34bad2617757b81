"""`mt fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mt_cli.cli.options import catch_ctrl_c


def fetch(
    corpus: Annotated[str, typer.Argument(help="multi30k, or multi30k-lc-tok: lower-cased and tokenized.")],
    source: Annotated[str | None, typer.Option("--from", metavar="DIR_OR_URL", help="Where to take it from.")] = None,
    target: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="data/CORPUS by default.")] = None,
) -> None:
    """Fetch a public parallel corpus. It is verified, and comes with its terms of use."""
    from mt_cli.fetch import fetch as fetch_corpus

    catch_ctrl_c()
    fetch_corpus(corpus, source, target or Path("data") / corpus)
