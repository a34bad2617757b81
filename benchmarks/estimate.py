"""How well a run's estimated chrF tells good translations from bad ones:

    .venv/bin/python benchmarks/estimate.py RUN test.en test.de [OTHER_TEXT...]

For the test set: the correlation with the true sentence chrF, and the mean true chrF of the worst and the best tenth by the
estimate. For it and for each other text: the mean estimate, which is to be lower on text of another domain. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import correlation, mean

import numpy as np

from mt_cli import Translator
from mt_cli.data.corpus import read_lines
from mt_cli.evaluation.metrics import count_texts
from mt_cli.explain.estimate import explain_lines, load_estimate


def agreement(estimated: Sequence[float], chrf: Sequence[float]) -> dict[str, float]:
    """How well estimates tell good translations from bad ones. `chrf` is that of each line by its reference."""
    ranked = [true for _, true in sorted(zip(estimated, chrf, strict=True), key=lambda pair: pair[0])]
    n = max(1, len(ranked) // 10)
    return {
        "pearson": correlation(estimated, chrf),
        "spearman": correlation(_ranks(estimated), _ranks(chrf)),
        "worst_tenth": mean(ranked[:n]),
        "best_tenth": mean(ranked[-n:]),
    }


def _ranks(values: Sequence[float]) -> list[float]:
    """The mean rank of each value: equal values share one."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return list((np.cumsum(counts) - (counts - 1) / 2)[places])


def main(run: str, source: str, reference: str, *others: str) -> None:
    translator = Translator.load(run)
    estimate = load_estimate(translator)
    if estimate is None:
        sys.exit(1)
    found: dict[str, object] = {}
    for file in (source, *others):
        lines = explain_lines(translator, translator.translations(read_lines(Path(file))))
        estimated = [chrf for chrf in estimate.of(translator, lines) if chrf is not None]
        found[file] = {"n": len(estimated), "estimated": mean(estimated)}
        if file == source:
            counts = count_texts([line.translation.text for line in lines], [read_lines(Path(reference))], "none")
            chrf = counts["chrf"].sentence_scores()
            found[file] = {"chrf": mean(chrf), "estimated": mean(estimated)} | agreement(estimated, chrf)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
