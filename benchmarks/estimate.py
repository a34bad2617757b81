"""How well a run's estimated chrF tells good translations from bad ones:

    .venv/bin/python benchmarks/estimate.py RUN test.en test.de [OTHER_TEXT...]

For the test set: the correlation with the true sentence chrF, and the mean true chrF of the worst and the best tenth by the
estimate. For it and for each other text: the mean estimate, which is to be lower on text of another domain. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean

from mt_cli import Translator
from mt_cli.data.corpus import read_lines
from mt_cli.evaluation.metrics import sentence_chrf
from mt_cli.explain.estimate import agreement, estimator_of
from mt_cli.explain.json_lines import explain_lines


def main(run: str, source: str, reference: str, *others: str) -> None:
    translator = Translator.load(run)
    estimator = estimator_of(translator)
    if estimator is None:
        sys.exit(1)
    found: dict[str, object] = {}
    for file in (source, *others):
        lines = explain_lines(translator, translator.translations(read_lines(Path(file))))
        estimated = [chrf for chrf in estimator(lines) if chrf is not None]
        found[file] = {"n": len(estimated), "estimated": mean(estimated)}
        if file == source:
            chrf = sentence_chrf([line.translation.text for line in lines], read_lines(Path(reference)))
            found[file] = {"chrf": mean(chrf), "estimated": mean(estimated)} | agreement(estimated, chrf)._asdict()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
