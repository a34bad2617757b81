"""`mt train`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from mt_cli.cli.options import ColumnsOption, CorpusArgument, DevOption, SrcLangOption, TestOption, TgtLangOption
from mt_cli.cli.sweep import combinations, compare, train_each
from mt_cli.config import Config
from mt_cli.corpus_config import read_config, usual_run_dir

MonolingualOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Text in one language, to learn from by back-translation; repeatable. At least one file must be in the target language.",
    ),
]
WordsOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Words and short phrases to learn: a table, or given twice for two files."),
]
SweepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the config; repeatable. KEY=A,B trains a run for each value, then compares them.",
    ),
]
RunDirOption = Annotated[
    Path | None,
    typer.Option(help="Where the run lives. Default: runs/ and the languages, or the name of the table or config."),
]


def train(
    corpus: CorpusArgument,
    src_lang: SrcLangOption = None,
    tgt_lang: TgtLangOption = None,
    columns: ColumnsOption = None,
    dev: DevOption = None,
    test: TestOption = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Fit steps and schedule to this time; training.max_steps and patience do not count."),
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Leave out the pairs that `mt check` would drop; left_out.tsv lists them.")
    ] = False,
    init_from: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="A run to begin with: its weights, tokenizer and held-out sets."),
    ] = None,
    extend_vocabulary: Annotated[
        bool, typer.Option("--extend-vocabulary", help="With --from: add subwords of this corpus to its tokenizer.")
    ] = False,
    monolingual: MonolingualOption = None,
    words: WordsOption = None,
    overrides: SweepOption = None,
    run_dir: RunDirOption = None,
) -> int:
    """Train a translator from a corpus: mt train train.es train.gn

    What is not set is chosen from the corpus; the run's config.yaml has each choice and its reason. The same command
    again continues a run that was stopped or killed, and changes nothing in one that is finished.

    --set training.seed=1,2,3 trains three runs one after the other, runs/es-gn-seed-1 and so on, and compares them.
    """
    from mt_cli.training.signals import StopSignals

    began = time.monotonic()
    more = [name for name, is_given in {"clean": clean, "monolingual": monolingual, "words": words}.items() if is_given]
    configs = dict[Path, Config]()
    with StopSignals() as signals:
        for suffix, own in combinations(overrides or []).items():
            texts = (monolingual, init_from, words)
            config = read_config(
                corpus, src_lang, tgt_lang, columns, dev, test, own, *texts, minutes, clean, extend_vocabulary
            )
            base = run_dir or usual_run_dir(corpus, config, more, init_from)
            configs[Path(f"{base}{suffix}")] = config
        trained = train_each(configs, signals, began)
    if len(configs) > 1 and trained:
        compare(trained, config.training.device, Path(f"{base}.html"))
    return 0 if len(trained) == len(configs) else 1
