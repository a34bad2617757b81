"""Results as a table: for a terminal, for a paper (LaTeX, Markdown) and for other programs (JSON)."""

import json
from collections.abc import Sequence
from typing import Literal

from mt_cli.display import column_width, escaped
from mt_cli.evaluation.comparison import N_RESAMPLES, N_TRIALS, SEED, SetScores
from mt_cli.evaluation.metrics import TITLES, perplexity

Format = Literal["text", "latex", "markdown", "json"]
_TEXT_COLUMNS = ("run", "translations", "checkpoint", "test set")  # which are aligned at their left
_COLUMNS = (*_TEXT_COLUMNS, *TITLES.values(), "terms", "loss", "perplexity", "lines/s")
_LATEX = str.maketrans(
    {char: rf"\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar\allowbreak{}"}
    | {"[": "{[}", "*": "{*}"}  # which a line's end before them would take for its own
)
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in r"\`*_[]<>|#&~"})


def as_table(results: Sequence[SetScores], form: Format = "text") -> str:
    """A row for each result, and for the mean of several seeds; then what the comparisons say, then the signatures."""
    if form == "json":
        return json.dumps([result.as_json() for result in results], indent=2, ensure_ascii=False, allow_nan=False)
    rows = _rows(results)
    titles, blocks = rows[0], below(results)
    if form == "text":
        widths = [max(map(column_width, cells)) for cells in zip(*rows, strict=True)]
        table = []
        for row in rows:
            cells = []
            for title, cell, width in zip(titles, row, widths, strict=True):
                blank = " " * (width - column_width(cell))
                cells.append(cell + blank if title in _TEXT_COLUMNS else blank + cell)
            table.append("  ".join(cells).rstrip())
        return "\n\n".join("\n".join(block) for block in (table, *blocks))
    notes = [line for block in blocks for line in block]
    if form == "markdown":
        title, *body = ["| " + " | ".join(cell.translate(_MARKDOWN) for cell in row) + " |" for row in rows]
        rule = "|" + "|".join("---" if title in _TEXT_COLUMNS else "---:" for title in titles) + "|"
        return "\n".join([title, rule, *body, "", *(f"- {line.translate(_MARKDOWN)}" for line in notes)])
    title, *body = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in rows]
    alignment = "".join("l" if title in _TEXT_COLUMNS else "r" for title in titles)
    lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\hline", title, r"\hline", *body, r"\hline", r"\end{tabular}"]
    return "\n".join([*lines, "", r"{\footnotesize\noindent", *(rf"{line.translate(_LATEX)}\\" for line in notes), "}"])


def _rows(results: Sequence[SetScores]) -> list[list[str]]:
    """The titles of the columns that have a value, and the cells of each row."""
    shows_checkpoints = any(result.label != result.system for result in results)
    rows, means = list[dict[str, str]](), dict[tuple[str, ...], dict[str, str]]()
    for result in results:
        row = {"translations" if result.kind == "file" else "run": result.system}
        if result.kind != "file":
            row["test set"] = result.test_set.name
        if shows_checkpoints:
            row["checkpoint"] = result.facts.get("checkpoint", "")
        row |= {TITLES[name]: result.cell(name) for name in result.counts}
        if result.loss is not None:
            row |= {"loss": f"{result.loss:.3f}", "perplexity": f"{perplexity(result.loss):.2f}"}
        if (of_terms := result.terms) is not None:
            row["terms"] = f"{of_terms['as_written']:.1f} / {of_terms['by_beginning']:.1f} of {of_terms['n']:.0f}"
        if result.sentences_per_second is not None:
            row["lines/s"] = f"{result.sentences_per_second:.0f}"
        rows.append(row)
        if (seeds := result.seeds) is not None:
            mean = {"run": f"mean of {len(seeds.seeds)} seeds", "test set": result.test_set.name}
            means[*seeds.runs, result.test_set.name] = mean | {TITLES[k]: str(one) for k, one in seeds.scores.items()}
    rows += means.values()
    titles = [title for title in _COLUMNS if any(row.get(title) for row in rows)]
    return [titles, *([escaped(row.get(title, "")) for title in titles] for row in rows)]


def below(results: Sequence[SetScores]) -> list[list[str]]:
    """Blocks of lines below a table: comparisons, means of seeds, signatures."""
    blocks, seeds_lines = list[list[str]](), list[str]()
    for result in results:
        if (found := result.comparison) is not None:
            on = f" on {result.test_set.name}" if result.kind == "run" else ""
            block = [f"{result.label} compared with {found.baseline}{on}:"]
            for name, tests in found.scores.items():
                p_values = f"p = {tests.p_randomization:.4f} ({tests.p_bootstrap:.4f})"
                block.append(f"{tests.difference:+.2f} {TITLES[name]}, {p_values}: {tests.meaning}")
            block.append(f"chrF by sentence: {found.wins:,} better, {found.losses:,} worse, {found.ties:,} the same")
            blocks.append(block)
        if (seeds := result.seeds) is not None:
            runs = ", ".join(f"{run} ({seed})" for run, seed in zip(seeds.runs, seeds.seeds, strict=True))
            scores = ", ".join(f"{TITLES[name]} {one}" for name, one in seeds.scores.items())
            name = result.test_set.name
            seeds_lines.append(f"{name}, mean and standard deviation of {len(seeds.seeds)} seeds, {runs}: {scores}")
    lines = [f"±: 95% interval, by bootstrap (bs:{N_RESAMPLES})"]
    if any(result.comparison for result in results):
        lines += [
            f"p: how often chance makes such a difference, by paired approximate randomization (ar:{N_TRIALS})",
            f"(p): the same by paired bootstrap (bs:{N_RESAMPLES}), both with seed:{SEED}",
        ]
    lines += dict.fromkeys(result.note for result in results if result.note)
    if any(result.terms for result in results):
        how = "as written / by common beginning, and their number"
        lines.append(f"terms: % of the glossary's terms that were used, {how}")
    for metric, title in TITLES.items():
        systems_of: dict[str, dict[str, None]] = {}
        for result in results:
            if metric in result.counts:
                systems_of.setdefault(result.signature(metric), {})[result.system] = None
        for signature, systems in systems_of.items():
            of = f" of {', '.join(systems)}" if len(systems_of) > 1 else ""
            lines.append(f"{title}{of}: {signature}")
    all_blocks = (*blocks, list(dict.fromkeys(seeds_lines)), lines)
    return [[escaped(line) for line in block] for block in all_blocks if block]
