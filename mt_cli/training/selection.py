"""Which pairs of the corpus are trained on, and in which spelling: what its check finds, what is held out, what is cleaned
away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator
from itertools import islice
from pathlib import Path

from mt_cli.checking.check import ReadCorpus, quick_check
from mt_cli.checking.check import check as check_corpus
from mt_cli.checking.faults import Kind
from mt_cli.checking.report import Report
from mt_cli.config import Config, DataConfig
from mt_cli.data.corpora import corpus_of
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spelling import Spellings, format_spelling, respelled
from mt_cli.data.split import Split, repetitions, split
from mt_cli.run.held_out import RunSets

log = logging.getLogger(__name__)

ReadPairs = Callable[[], Iterator[SentencePair]]  # starts reading anew
_MOST_CHECKED = 500_000  # pairs: the first start of a large corpus shall not wait long; `mt check` looks at all


def look_through(data: DataConfig, corpus: ReadCorpus) -> Report:
    """What the check of the corpus finds: all of it where the corpus is to be cleaned by it, else the quick part."""
    if data.clean:
        return check_corpus(data, corpus)
    return quick_check(data, corpus._replace(read_train=lambda: islice(corpus.read_train(), _MOST_CHECKED)))


def tell_findings(report: Report, name: str) -> None:
    """Logs what changes a training; `mt check` shows all of it, with lines and advice. `name`: of the language pair, where there
    are several."""
    lines = list(report.in_brief(without=Kind.IN_TRAINING))
    if name and lines:
        log.info(f"{name}:")
    for severity, line in lines:
        if severity == "fatal":
            log.warning(f"{line}; what is trained on it may be worthless, see: mt check")
        else:
            log.info(f"found in {line}")
    if lines:
        log.info("  (mt check tells more of what was found, and what to do)")


def leave_out_faulty(run_sets: RunSets, read_all: ReadPairs, report: Report) -> None:
    """Writes into the run which pairs a cleaned corpus leaves out."""
    reasons = _reasons(report)
    found = ((reasons[pair.line], pair) for pair in read_all() if pair.line in reasons)
    run_sets.save_left_out(report.text, found)


def respell(run_sets: RunSets, spellings: Spellings) -> None:
    """Writes into the run which signs of either side are replaced."""
    run_sets.save_spellings(spellings)
    for side, spelling in zip(("source", "target"), spellings, strict=True):
        if spelling:
            small = {s: o for s, o in spelling.items() if s.lower() == s or s.lower() not in spelling}
            log.info(f"trains with {format_spelling(small)} in the {side} (data.spelling)")


_SPLIT_SEED = 1  # not the training's: runs of several seeds are scored on one text


def hold_out(
    config: Config,
    run_sets: RunSets,
    read_all: ReadPairs,
    report: Report,
    inherited: dict[str, list[SentencePair]],
    spellings: Spellings,
    heir_of: Path | None = None,
    known: Container[int] = (),
) -> None:
    """Cuts a dev set, and where there is none a test set, from the training text, and writes them into the run, spelled as
    training is, with all that is left out of training. The `inherited` sets, of the run `heir_of`, stay what they are. `known`:
    hashes of pairs that are not held out, since the run that this one begins with was trained on them."""
    faulty = _reasons(report)
    cleaned = faulty if config.data.clean else {}
    read_kept = lambda: (pair for pair in read_all() if pair.line not in cleaned)  # noqa: E731
    sets, found = inherited, Split()
    if inherited:
        found.left_out = repetitions(read_kept, inherited)
    else:
        with_test = not config.data.test
        corpora, told = report.text.corpora, report.text.told
        of_corpus = [corpus.hold_out and not corpus.synthetic for corpus in corpora]  # nobody wrote synthetic sources
        is_fit = lambda pair: of_corpus[corpus_of(pair.line)] and hash(pair[:2]) not in known  # noqa: E731
        read_fit = lambda: (pair for pair in read_kept() if is_fit(pair))  # noqa: E731
        read_others = lambda: (pair for pair in read_kept() if not is_fit(pair))  # noqa: E731
        found = split(read_fit, _SPLIT_SEED, True, with_test, faulty, told, read_others)
        sets = {name: [] for name in ("dev", "test") if name in found.held_out.values()}
    own = {(pair.src, pair.tgt) for pairs in inherited.values() for pair in pairs}  # they resemble themselves
    n_similar = 0

    def left_out() -> Iterator[tuple[str, SentencePair]]:
        nonlocal n_similar
        for pair in read_all():
            if name := found.held_out.get(pair.line):
                sets[name].append(pair)
            n_similar += pair.line in found.left_out and (pair.src, pair.tgt) not in own
            if reason := name or found.left_out.get(pair.line) or cleaned.get(pair.line):
                yield reason, pair

    run_sets.save_left_out(report.text, left_out())
    if not inherited:
        sets = {name: list(respelled(pairs, spellings)) for name, pairs in sets.items()}
    run_sets.save_held_out(config.data, sets)
    sizes = " and ".join(f"{len(pairs):,} as {name} set" for name, pairs in sets.items())
    similar = f"; {n_similar:,} more are not trained on, since they resemble these" if n_similar else ""
    log.info(f"held out {sizes} from {heir_of if inherited else 'the corpus'}{similar}")


def _reasons(report: Report) -> dict[int, str]:
    return {line: reason.replace("_", " ") for line, reason in report.dropped}
