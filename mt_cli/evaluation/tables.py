"""Results as a table: for a terminal, for a paper (LaTeX, Markdown) and for other programs (CSV, JSON)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from mt_cli.display import column_width, escaped
from mt_cli.evaluation.comparison import SetScores
from mt_cli.evaluation.metrics import TITLES
from mt_cli.evaluation.significance import N_RESAMPLES, N_TRIALS, SEED

Format = Literal["text", "latex", "markdown", "csv", "json"]
_COLUMNS = ("run", "translations", "checkpoint", "test set", *TITLES.values(), "loss", "perplexity", "lines/s")
_TEXT_COLUMNS = _COLUMNS[:4]
_IN_CSV = (
    "run", "hyp", "checkpoint", "test_set", *TITLES, "loss", "perplexity", "sentences_per_second", "seed", "n_sentences",
    "intervals", "comparison", "seeds", "differing_keys", "signatures",
)  # fmt: skip


def as_table(results: Sequence[SetScores], form: Format = "text") -> str:
    """A row for each result, and for the mean of several seeds; then what the comparisons say, then the signatures."""
    forms = {"text": _as_text, "latex": _as_latex, "markdown": _as_markdown, "csv": _as_csv, "json": _as_json}
    return forms[form](results)


def _rows(results: Sequence[SetScores]) -> tuple[list[str], list[list[str]]]:
    """The titles of the columns that have a value, and the cells of each row."""
    shows_checkpoints = any(result.checkpoint not in {None, "best"} for result in results)
    rows = [_row(result, shows_checkpoints) for result in results]
    means = {}
    for result in results:
        if (seeds := result.seeds) is not None:
            row = {"run": f"mean of {len(seeds.seeds)} seeds", "test set": result.test_set}
            row |= {TITLES[name]: str(one) for name, one in seeds.scores.items()}
            means[*seeds.runs, result.test_set] = row
    rows += means.values()
    titles = [title for title in _COLUMNS if any(row.get(title) for row in rows)]
    return titles, [[escaped(row.get(title, "")) for title in titles] for row in rows]


def _row(result: SetScores, shows_checkpoint: bool) -> dict[str, str]:
    row = {"translations": result.system} if result.kind == "file" else {"run": result.system}
    if result.kind != "file":
        row |= {"test set": result.test_set, "checkpoint": (result.checkpoint or "") if shows_checkpoint else ""}
    row |= {TITLES[name]: result.cell(name) for name in result.counts}
    if result.loss is not None:
        row |= {"loss": f"{result.loss:.3f}", "perplexity": f"{result.perplexity:.2f}"}
    if result.sentences_per_second is not None:
        row["lines/s"] = f"{result.sentences_per_second:.0f}"
    return row


# What stands below ----------------------------------------------------------------------------------------------------


def below(results: Sequence[SetScores]) -> list[list[str]]:
    """Blocks of lines that stand below a table: what the comparisons say, and at the end the signatures of the scores."""
    signatures = [f"{title}: {signature}" for title, signature in _signatures(results)]
    return [*_notes(results), [*_legend(results), *signatures]]


def _notes(results: Sequence[SetScores]) -> list[list[str]]:
    """Blocks of lines: a block for each comparison, the means of seeds, and the keys that differ."""
    comparisons = [_comparison(result) for result in results if result.comparison]
    return [[*map(escaped, block)] for block in (*comparisons, _seeds(results), _differing_keys(results)) if block]


def _legend(results: Sequence[SetScores]) -> Iterator[str]:
    yield f"±: 95% interval, by bootstrap (bs:{N_RESAMPLES})"
    if any(result.comparison for result in results):
        yield f"p: how often chance makes such a difference, by paired approximate randomization (ar:{N_TRIALS})"
        yield f"(p): the same by paired bootstrap (bs:{N_RESAMPLES}), both with seed:{SEED}"
    yield from dict.fromkeys(note for result in results for note in map(escaped, result.notes))


def _comparison(result: SetScores) -> list[str]:
    found = result.comparison
    assert found is not None
    on = f" on {result.test_set}" if result.kind == "run" else ""
    return [
        f"{result.label} compared with {found.baseline}{on}:",
        *(
            f"{tests.difference:+.2f} {TITLES[name]}, p = {tests.p_randomization:.4f} ({tests.p_bootstrap:.4f}):"
            f" {found.meanings[name]}"
            for name, tests in found.tests.items()
        ),
        f"chrF by sentence: {found.wins:,} better, {found.losses:,} worse, {found.ties:,} the same",
    ]


def _seeds(results: Sequence[SetScores]) -> list[str]:
    """A line for each test set of each group of seeds."""
    lines = list[str]()
    for result in results:
        if (seeds := result.seeds) is not None:
            runs = ", ".join(f"{run} ({seed})" for run, seed in zip(seeds.runs, seeds.seeds, strict=True))
            scores = ", ".join(f"{TITLES[name]} {one}" for name, one in seeds.scores.items())
            lines.append(
                f"{result.test_set}, mean and standard deviation of {len(seeds.seeds)} seeds, {runs}: {scores}"
            )
    return list(dict.fromkeys(lines))


def _differing_keys(results: Sequence[SetScores]) -> list[str]:
    """A heading, and a line for each key: its values, each with the runs that have it."""
    runs_of: dict[str, dict[str, dict[str, None]]] = {}
    for result in results:
        for key, value in result.differing_keys.items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            runs_of.setdefault(key, {}).setdefault(shown, {})[result.system] = None
    lines = [
        f"{key}: " + "; ".join(f"{value} in {', '.join(runs)}" for value, runs in values.items())
        for key, values in runs_of.items()
    ]
    return ["keys that differ:", *lines] if lines else []


def _signatures(results: Sequence[SetScores]) -> Iterator[tuple[str, str]]:
    """A title and a signature for each score, or, where the systems differ in it, for each signature, titled with them."""
    for metric, title in TITLES.items():
        systems_of: dict[str, dict[str, None]] = {}
        for result in results:
            if metric in result.counts:
                systems_of.setdefault(result.signature(metric), {})[escaped(result.system)] = None
        for signature, systems in systems_of.items():
            yield f"{title} of {', '.join(systems)}" if len(systems_of) > 1 else title, signature


# Formats --------------------------------------------------------------------------------------------------------------


def _as_text(results: Sequence[SetScores]) -> str:
    titles, rows = _rows(results)
    columns = []
    for cells in zip(titles, *rows, strict=True):
        blanks = [" " * (max(map(column_width, cells)) - column_width(cell)) for cell in cells]
        pairs = zip(cells, blanks, strict=True)
        columns.append([cell + blank if cells[0] in _TEXT_COLUMNS else blank + cell for cell, blank in pairs])
    table = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    return "\n\n".join("\n".join(block) for block in (table, *below(results)))


def _as_latex(results: Sequence[SetScores]) -> str:
    titles, rows = _rows(results)
    title, *body = [" & ".join(map(_latex, row)) + r" \\" for row in (titles, *rows)]
    alignment = "".join("l" if title in _TEXT_COLUMNS else "r" for title in titles)
    lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\hline", title, r"\hline", *body, r"\hline", r"\end{tabular}"]
    notes = [_latex(line) for block in (*_notes(results), _legend(results)) for line in block]
    notes += [rf"{_latex(title)}: \texttt{{{_latex(signature)}}}" for title, signature in _signatures(results)]
    return "\n".join([*lines, "", r"{\footnotesize\noindent", *(rf"{line}\\" for line in notes), "}"])


def _as_markdown(results: Sequence[SetScores]) -> str:
    titles, rows = _rows(results)
    title, *body = ["| " + " | ".join(map(_markdown, row)) + " |" for row in (titles, *rows)]
    rule = "|" + "|".join("---" if title in _TEXT_COLUMNS else "---:" for title in titles) + "|"
    notes = [_markdown(line) for block in (*_notes(results), _legend(results)) for line in block]
    notes += [f"{_markdown(title)}: `{signature}`" for title, signature in _signatures(results)]
    return "\n".join([title, rule, *body, "", *(f"- {line}" for line in notes)])


def _as_csv(results: Sequence[SetScores]) -> str:
    """A column for each value, called as in the JSON: `intervals.bleu.low`."""
    rows = [dict(_flat(result.as_json())) for result in results]
    columns = dict.fromkeys(key for row in rows for key in row if key.partition(".")[0] in _IN_CSV)
    order = sorted(columns, key=lambda column: _IN_CSV.index(column.partition(".")[0]))
    text = io.StringIO()
    writer = csv.DictWriter(text, order, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{prefix}{key}.")
        elif inner is not None:
            inner = json.dumps(inner, ensure_ascii=False) if isinstance(inner, list) else inner
            yield prefix + key, escaped(inner) if isinstance(inner, str) else inner


def _as_json(results: Sequence[SetScores]) -> str:
    return json.dumps([result.as_json() for result in results], indent=2, ensure_ascii=False, allow_nan=False)


def _escaper(escapes: Mapping[str, str]) -> Callable[[str], str]:
    pattern = re.compile("|".join(map(re.escape, escapes)))
    return lambda text: pattern.sub(lambda match: escapes[match[0]], text)


_latex = _escaper(
    {char: rf"\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar\allowbreak{}"}
    | {"[": "{[}", "*": "{*}"}  # which a line's end before them would take for its own
)
_markdown = _escaper({char: f"\\{char}" for char in r"\`*_[]<>|#&~"})
