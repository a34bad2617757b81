"""Results as a table: for a terminal, for a paper (LaTeX, Markdown) and for other programs (CSV)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from mt_cli.evaluation.comparison import TITLES, Result, label
from mt_cli.evaluation.significance import N_RESAMPLES, N_TRIALS, SEED

Format = Literal["text", "latex", "markdown", "csv"]
COLUMNS = {  # title and format
    "run": ("run", "{}"),
    "hyp": ("translations", "{}"),
    "checkpoint": ("checkpoint", "{}"),
    "test_set": ("test set", "{}"),
    "bleu": ("BLEU", "{:.1f}"),
    "chrf": ("chrF", "{:.1f}"),
    "ter": ("TER", "{:.1f}"),
    "loss": ("loss", "{:.3f}"),
    "perplexity": ("perplexity", "{:.2f}"),
    "sentences_per_second": ("lines/s", "{:.0f}"),
}
_IN_CSV = [*COLUMNS, "seed", "n_sentences", "intervals", "comparison", "seeds", "differing_keys", "signatures"]


def as_table(results: Sequence[Result], form: Format = "text") -> str:
    """A row for each result, then what the comparisons say, then the signatures of the scores.

    A column in which no result has a value is left out, and that of checkpoints where all are the best.
    """
    return {"text": _as_text, "latex": _as_latex, "markdown": _as_markdown, "csv": _as_csv}[form](results)


def _rows(results: Sequence[Result]) -> tuple[list[list[str]], list[bool]]:
    """The table's cells, of which the first row has the titles; and which columns hold numbers."""
    columns = {key: column for key, column in COLUMNS.items() if any(result.get(key) is not None for result in results)}
    if all(result.get("checkpoint") in {None, "best"} for result in results):
        columns.pop("checkpoint", None)
    if "hyp" in columns:
        del columns["test_set"]  # which is the same file
    rows = [[title for title, _ in columns.values()]]
    rows += [[_cell(result, key, form) for key, (_, form) in columns.items()] for result in results]
    return rows, [form != "{}" for _, form in columns.values()]


def _cell(result: Result, key: str, form: str) -> str:
    if result.get(key) is None:
        return ""
    interval = result.get("intervals", {}).get(key)
    return form.format(result[key]) + (f" ± {interval['half_width']:.1f}" if interval else "")


def below(results: Sequence[Result]) -> list[list[str]]:
    """Blocks of lines that stand below a table: what the comparisons say, and at the end the signatures of the scores."""
    signatures = [f"{title}: {signature}" for title, signature in _signatures(results)]
    return [*_notes(results), [*_legend(results), *signatures]]


# What stands below ----------------------------------------------------------------------------------------------------


def _notes(results: Sequence[Result]) -> list[list[str]]:
    """Blocks of lines: a block for each comparison, each group of seeds, and the keys that differ."""
    comparisons = [_comparison(result) for result in results if result.get("comparison")]
    return [block for block in (*comparisons, *_seeds(results), _differing_keys(results)) if block]


def _legend(results: Sequence[Result]) -> Iterator[str]:
    if any(result.get("intervals") for result in results):
        yield f"±: 95% interval, by bootstrap (bs:{N_RESAMPLES})"
    if any(result.get("comparison") for result in results):
        yield f"p: how often chance makes such a difference, by paired approximate randomization (ar:{N_TRIALS})"
        yield f"(p): the same by paired bootstrap (bs:{N_RESAMPLES}), both with seed:{SEED}"


def _comparison(result: Result) -> list[str]:
    found = result["comparison"]
    on = f" on {result['test_set']}" if "run" in result else ""
    return [
        f"{label(result)} compared with {found['with']}{on}:",
        *(
            f"{tests['difference']:+.2f} {TITLES[name]}, p = {tests['p_randomization']:.4f}"
            f" ({tests['p_bootstrap']:.4f}): {tests['meaning']}"
            for name, tests in found["scores"].items()
        ),
        f"chrF by sentence: {found['wins']:,} better, {found['losses']:,} worse, {found['ties']:,} the same",
    ]


def _seeds(results: Sequence[Result]) -> list[list[str]]:
    blocks: dict[str, dict[str, None]] = {}
    for result in results:
        if seeds := result.get("seeds"):
            runs = ", ".join(f"{run} ({seed})" for run, seed in zip(seeds["runs"], seeds["seeds"], strict=True))
            scores = (
                f"{TITLES[name]} {of['mean']:.2f} ({of['deviation']:.2f})" for name, of in seeds["scores"].items()
            )
            heading = f"one config with {len(seeds['seeds'])} seeds, {runs}; mean and standard deviation:"
            blocks.setdefault(heading, {})[f"{result['test_set']}: {', '.join(scores)}"] = None
    return [[heading, *lines] for heading, lines in blocks.items()]


def _differing_keys(results: Sequence[Result]) -> list[str]:
    """A heading, and a line for each key: its values, each with the runs that have it."""
    runs_of: dict[str, dict[str, dict[str, None]]] = {}
    for result in results:
        for key, value in (result.get("differing_keys") or {}).items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            runs_of.setdefault(key, {}).setdefault(shown, {})[result["run"]] = None
    lines = [
        f"{key}: " + "; ".join(f"{value} in {', '.join(runs)}" for value, runs in values.items())
        for key, values in runs_of.items()
    ]
    return ["keys that differ:", *lines] if lines else []


def _signatures(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """A title and a signature for each score, or, where the runs differ in it, for each signature, titled with its runs."""
    for metric, title in TITLES.items():
        runs_of: dict[str, list[str]] = {}
        for result in results:
            if signature := _signature(result, metric):
                runs_of.setdefault(signature, []).append(str(result.get("run", result.get("hyp"))))
        for signature, runs in runs_of.items():
            yield f"{title} of {', '.join(dict.fromkeys(runs))}" if len(runs_of) > 1 else title, signature


def _signature(result: Result, metric: str) -> str | None:
    interval = result.get("intervals", {}).get(metric)
    signature: str | None = interval["signature"] if interval else result["signatures"].get(metric)
    return signature


# Formats --------------------------------------------------------------------------------------------------------------


def _as_text(results: Sequence[Result]) -> str:
    rows, are_numbers = _rows(results)
    aligned = []
    for is_number, cells in zip(are_numbers, zip(*rows, strict=True), strict=True):
        width = max(map(len, cells))
        aligned.append([cell.rjust(width) if is_number else cell.ljust(width) for cell in cells])
    table = ["  ".join(row).rstrip() for row in zip(*aligned, strict=True)]
    return "\n\n".join("\n".join(block) for block in (table, *below(results)))


def _as_latex(results: Sequence[Result]) -> str:
    rows, are_numbers = _rows(results)
    title, *body = [" & ".join(map(_latex, row)) + r" \\" for row in rows]
    alignment = "".join("r" if is_number else "l" for is_number in are_numbers)
    lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\hline", title, r"\hline", *body, r"\hline", r"\end{tabular}"]
    notes = [_latex(line) for block in (*_notes(results), _legend(results)) for line in block]
    notes += [rf"{_latex(title)}: \texttt{{{_latex(signature)}}}" for title, signature in _signatures(results)]
    return "\n".join([*lines, "", r"{\footnotesize\noindent", *(rf"{line}\\" for line in notes), "}"])


def _as_markdown(results: Sequence[Result]) -> str:
    rows, are_numbers = _rows(results)
    title, *body = ["| " + " | ".join(map(_markdown, row)) + " |" for row in rows]
    rule = "|" + "|".join("---:" if is_number else "---" for is_number in are_numbers) + "|"
    notes = [_markdown(line) for block in (*_notes(results), _legend(results)) for line in block]
    notes += [f"{_markdown(title)}: `{signature}`" for title, signature in _signatures(results)]
    return "\n".join([title, rule, *body, "", *(f"- {line}" for line in notes)])


def _as_csv(results: Sequence[Result]) -> str:
    """A column for each value, called as in the JSON: `intervals.bleu.low`."""
    rows = [dict(_flat({key: result[key] for key in _IN_CSV if result.get(key) is not None})) for result in results]
    columns = dict.fromkeys(key for row in rows for key in row)
    order = sorted(columns, key=lambda column: _IN_CSV.index(column.partition(".")[0]))
    text = io.StringIO()
    writer = csv.DictWriter(text, order, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield prefix + key, json.dumps(inner, ensure_ascii=False) if isinstance(inner, list) else inner


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
