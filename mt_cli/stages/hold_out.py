"""Which pairs of a text are not trained on: the sets that are cut from it, what resembles them, and what a cleaned corpus
lacks."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mt_cli.augment.fine_tuning import held_out_of, known_pairs, named_sets_of
from mt_cli.checking.report import Report
from mt_cli.config import Config
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spelling import respelled
from mt_cli.data.split import Split, repetitions, split
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir
from mt_cli.stages.text import PairText

log = logging.getLogger(__name__)

_SPLIT_SEED = 1  # not the training's: runs of several seeds are scored on one text
_SAME_CORPUS = 0.5  # of the pairs are known to the run that this one begins with: so they have one corpus


@dataclass(frozen=True)
class Inherited:
    """What another run has settled for this one."""

    sets: dict[str, list[SentencePair]] = field(default_factory=dict)  # that it held out, or names
    path: Path | None = None  # of that run
    known: Container[int] = ()  # hashes of the pairs that it was trained on, which are held out for no set


def hold_out(text: PairText, report: Report, inherited: Inherited) -> Made:
    """Cuts a dev set, and where there is none a test set, from the text where the config names none; and lists what is not
    trained on in `left_out.tsv`. `report`: of the check of the text."""
    faulty, is_cleaned = report.dropped, text.data.clean
    read_kept = lambda: (pair for pair in text.pairs() if not (is_cleaned and pair.place in faulty))  # noqa: E731
    sets, found, n_similar = dict[str, list[SentencePair]](), Split(), 0
    if inherited.sets:
        found.left_out = repetitions(read_kept, inherited.sets)
    elif text.data.dev is None:
        is_fit = lambda pair: _is_like_use(text, pair) and hash(pair[:2]) not in inherited.known  # noqa: E731
        read_fit = lambda: (pair for pair in read_kept() if is_fit(pair))  # noqa: E731
        read_others = lambda: (pair for pair in read_kept() if not is_fit(pair))  # noqa: E731
        found = split(read_fit, _SPLIT_SEED, not text.data.test, faulty, text.text.format_place, read_others)
        sets = {name: [] for name in ("dev", "test") if name in found.held_out.values()}
    own = {pair[:2] for pairs in inherited.sets.values() for pair in pairs}  # they resemble themselves

    def left_out() -> Iterator[tuple[str, SentencePair]]:
        for pair in text.pairs():
            if reason := found.held_out.get(pair.place) or found.left_out.get(pair.place):
                yield reason, pair
            elif is_cleaned and (kind := faulty.kind_of(pair.place)):
                yield kind.replace("_", " "), pair

    files = [text.files.save_left_out(text.text, left_out())]
    for pair in text.pairs():
        if name := found.held_out.get(pair.place):
            sets[name].append(pair)
        n_similar += pair.place in found.left_out and pair[:2] not in own
    spellings = text.files.spellings()
    sets = inherited.sets or {name: list(respelled(pairs, spellings)) for name, pairs in sets.items()}
    if sets:
        files += text.files.save_held_out(sets)
        sizes = " and ".join(f"{len(pairs):,} as {name} set" for name, pairs in sets.items())
        similar = f"; {n_similar:,} more are not trained on, since they resemble these" if n_similar else ""
        log.info(f"held out {sizes} from {inherited.path or 'the corpus'}{similar}")
    return Made(files)


def _is_like_use(text: PairText, pair: SentencePair) -> bool:
    corpus = text.data.corpora[pair.corpus]
    return corpus.hold_out and not corpus.synthetic  # whose sources nobody wrote


def inherited(text: PairText, config: Config, parent: RunDir | None, reverse: RunDir | None) -> Inherited:
    """`parent`: the run that this one begins with; `reverse`: the one that translates for it. Nothing where the config names
    a dev set."""
    if text.data.dev is not None:
        return Inherited()
    for other in (parent, reverse):
        if other is not None and (sets := held_out_of(other, config)):
            return Inherited(sets, other.path)
    if parent is None:
        return Inherited()
    known, n_own, n_known = known_pairs(parent, config), 0, 0
    for pair in text.pairs() if known else ():
        if text.data.corpora[pair.corpus].hold_out:
            n_own, n_known = n_own + 1, n_known + (hash(pair[:2]) in known)
    if n_known > _SAME_CORPUS * n_own:
        return Inherited(named_sets_of(parent, config), parent.path)
    return Inherited(known=known)
