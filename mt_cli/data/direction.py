"""Refuses text whose names or headers say that source and target are exchanged, however it is given: the one place that
does."""

from __future__ import annotations

from pathlib import Path

from mt_cli.config import DataConfig
from mt_cli.data.languages import language, languages_of_files
from mt_cli.data.tables import COLUMNS_OPTION, find_layout
from mt_cli.errors import UsageError

_WORDS_OPTION = "--set data.words.columns={}"


def refuse_exchanged(data: DataConfig) -> None:
    """Raises UsageError for a corpus, a dev or test set or a list of words that says exactly the opposite of src_lang and
    tgt_lang; and as `find_layout` does for a table."""
    for pair in data.directions:
        sets = [corpus.files for corpus in pair.corpora] + [pair.dev or [], *pair.test.values()]
        for files in filter(None, sets):
            _refuse(files, pair.columns, COLUMNS_OPTION, pair)
        if pair.words is not None:
            _refuse(pair.words.files, pair.words.columns, _WORDS_OPTION, pair)


def _refuse(files: list[str], columns: str | None, option: str, pair: DataConfig) -> None:
    found: tuple[str | None, str | None] | None
    if len(files) == 2:
        found, said = languages_of_files(*files), "by their names"
        advice = "exchange the two, or rename them"
    elif Path(files[0]).is_file():
        layout = find_layout(Path(files[0]), columns, option)
        found, said = layout.languages, "by its header"
        src, tgt = (column + 1 for column in layout.columns)
        advice = f"choose the columns with {option.replace('{}', f'{tgt},{src}')}"
    else:
        return  # it is named as missing where it is read
    expected = pair.src_lang, pair.tgt_lang
    codes = [language(code or "") for code in found or ()]
    if codes == [language(code) for code in reversed(expected)] and len(set(codes)) == 2:
        raise UsageError(
            f"{' '.join(files)}: {said} source {codes[0]} and target {codes[1]}, expected source {expected[0]} and target"
            f" {expected[1]}; {advice}"
        )
