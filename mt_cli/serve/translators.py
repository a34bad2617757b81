"""The translators of a server: one for each direction of each run, loaded again when the best checkpoint of its run
moves; which of them a client means, and what it may want of it."""

import importlib.util
import logging
import threading
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from mt_cli.data.languages import english_name
from mt_cli.data.normalize import is_letter
from mt_cli.data.spans import Markup
from mt_cli.decoding.alignment import Weights, word_weights, words_of
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.translator import Translator
from mt_cli.device import choose_device
from mt_cli.errors import UsageError
from mt_cli.explain.doubts import ExplainedLine
from mt_cli.explain.estimate import Estimate, explain_lines, load_estimate
from mt_cli.run.checkpoint import load_model
from mt_cli.run.run_dir import Direction, RunDir, directions_of

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 1.0
_TOLERANCE = 0.05  # of the letters of a text
_MOST_WEIGHTS = 500_000  # of a line: beyond, as of a page of Chinese in one line, no word shades another
_OF_SOURCE = {"unattended", "unseen"}  # doubts that name words or characters of the source

Pair = tuple[str, str]  # codes of source and target, as clients write them: zh-Hans


class Served(NamedTuple):
    """One direction of a run."""

    translator: Translator
    estimate: Estimate | None
    run: RunDir
    direction: Direction

    def corrections_file(self) -> Path:
        """Where corrections of this language pair are kept, in the order of its training text."""
        return self.run.of_pair(self.run.load_config().data, self.direction.pair).corrections_file


class Task(NamedTuple):
    """What a request wants; requests with equal tasks are translated together."""

    pair: Pair
    markup: Markup | None = None
    n_best: int = 1
    kind: Literal["translated", "explained", "scored"] = "translated"
    glossary: tuple[tuple[str, str], ...] = ()


class Translators:
    """All directions of all runs; of a direction that several runs have, the first run's."""

    def __init__(self, runs: Sequence[Path], device: str, engine: str):
        """Raises RunDirError or CheckpointError for a run that is not whole."""
        self._paths, self._engine, self.device = runs, engine, choose_device(device)
        self.n_threads = torch.get_num_threads() if self.device.type == "cpu" else 1  # that translate at the same time
        self._marks = {run: _mark(run) for run in runs}
        self._of_runs = {run: self._load(run) for run in runs}
        self.served = self._joined()
        self._is_closed = threading.Event()

    def _joined(self) -> dict[Pair, Served]:
        return {pair: one for run in reversed(self._paths) for pair, one in self._of_runs[run].items()}

    def find(self, source: str, target: str) -> Pair | None:
        """The direction that these codes mean, in any case, of a region or script that the run does not name."""
        pairs = self.served
        own_source = _closest(source, [source for source, _ in pairs])
        own_target = _closest(target, [target for source, target in pairs if source == own_source])
        return (own_source, own_target) if own_source and own_target else None

    def likely(self, text: str, target: str | None) -> dict[Pair, float]:
        """A direction from each language that the text may be in, into `target` if it is given, and the share of its
        letters that this language has. A language with clearly fewer of them than another is not meant."""
        letters, shares = [char for char in text.casefold() if is_letter(char)], dict[Pair, float]()
        pairs = {
            source: self.find(source, target) if target else (source, own) for source, own in reversed([*self.served])
        }
        for pair in filter(None, pairs.values()):
            profile = self.served[pair].translator.profile
            known = set(profile.characters.casefold()) if profile is not None else set(letters)
            shares[pair] = sum(char in known for char in letters) / len(letters) if letters else 1.0
        best = max(shares.values(), default=0.0)
        return {pair: share for pair, share in shares.items() if share > 0 and share >= best - _TOLERANCE}

    def watch(self) -> None:
        """Loads runs whose best checkpoint has moved, until `close`; what is translated meanwhile is not held up."""
        while not self._is_closed.wait(_SECONDS_BETWEEN_LOOKS):
            for run in self._paths:
                try:
                    if (mark := _mark(run)) == self._marks[run]:
                        continue
                    self._marks[run] = mark  # what cannot be loaded is not tried again before it changes again
                    self._of_runs[run] = self._load(run)
                    self.served = self._joined()
                    log.info(f"{run}: its new best checkpoint translates from now on")
                except Exception as error:  # whatever it is, the server goes on
                    log.warning(f"{run}: the earlier checkpoint goes on translating: {error}")

    def close(self) -> None:
        self._is_closed.set()

    def do(self, task: Task, lines: list[str]) -> list[Any]:
        """For each line its texts, best first; what the page shows of it; or the mean log-probability of its tokens."""
        served = self.served[task.pair]
        translator = served.translator
        options: dict[str, Any] = {"glossary": dict(task.glossary)} if task.glossary else {}
        if task.n_best > 1:
            options["n_best"] = task.n_best
            if type(translator) is not Translator:
                options["length_normalization"] = "average"  # the one that CTranslate2 has
        translations = translator.translations(lines, markup=task.markup, **options)
        if task.kind == "scored":
            return [_score(served, one) for one in translations]
        if task.kind == "translated":
            return [one.texts for one in translations]
        return [_shown(served, line) for line in explain_lines(translator, translations, served.estimate)]

    def _load(self, path: Path) -> dict[Pair, Served]:
        run = RunDir.existing(path)
        loaded, found = load_model(run), dict[Pair, Served]()
        for direction in directions_of(loaded.config):
            source, target = (tag.replace("_", "-") for tag in (direction.data.src_lang, direction.data.tgt_lang))
            one = loaded.for_direction(direction, run)
            models, origin = [one.model.to(self.device)], [(run, "best")]
            translator = self._translator(models, one.tokenizer, one.config, one.profile, origin)
            found.setdefault((source, target), Served(translator, load_estimate(translator), run, direction))
        return found

    def _translator(self, *parts: Any) -> Translator:
        """That of the engine that was asked for. CTranslate2 takes half our time or less for greedy search; but it goes
        on with a beam search when nothing can win any more, and then takes twice our time. So `auto` is CTranslate2 for
        the former."""
        search, is_auto = parts[2].decoding, self._engine == "auto"
        is_greedy = search.beam_size == 1 and not search.draws
        is_possible = self.device.type == "cpu" and importlib.util.find_spec("ctranslate2") is not None
        if self._engine != "mt" and (not is_auto or (is_greedy and is_possible)):
            from mt_cli.export.engine import CTranslate2Translator, Int8Translator

            try:
                engine = (Int8Translator if self._engine == "ctranslate2-int8" else CTranslate2Translator)(*parts)
                engine.settings()
                return engine
            except UsageError as error:
                if not is_auto:
                    raise
                log.info(f"note: translated by torch, which is slower for this run: {error}")
        translator = Translator(*parts)
        translator.n_threads = 1  # of each translation
        return translator


def _mark(run: Path) -> list[object]:
    """What changes when a run has a new best checkpoint, or the estimate for it."""
    files = (run / name for name in ("best", "estimate.json"))
    return [(state.st_mtime_ns, state.st_ino) if one.exists() and (state := one.stat()) else None for one in files]


def _closest(asked: str, known: Sequence[str]) -> str | None:
    """The same code; or the one without region or script; or one of the same language that is in no other script."""
    parts = asked.replace("_", "-").casefold().split("-")
    by_name = {code.casefold(): code for code in reversed(known)}
    for n in range(len(parts), 0, -1):
        if found := by_name.get("-".join(parts[:n])):
            return found
    scripts, name = _scripts(parts), english_name(asked)
    same = (code for code in known if english_name(code) == name)
    return next((code for code in same if not scripts or _scripts(code.casefold().split("-")) <= scripts), None)


def _scripts(parts: Sequence[str]) -> set[str]:
    return {part for part in parts[1:] if len(part) == 4}


def _score(served: Served, translation: Translation) -> float:
    """That of a copy is very low: it is no translation."""
    if translation.text == translation.source:
        return -100.0
    pairs = [(part.src_ids, part.hypotheses[0].ids) for part in translation.parts]
    scores = [one for of_part in served.translator.token_scores(pairs) for one in of_part]
    return max(-100.0, sum(scores) / max(1, len(scores)))


def _shown(served: Served, line: ExplainedLine) -> dict[str, Any]:
    """What `/mt/translate` answers."""
    shown = (
        words_of(list(text.replace(" ", "\u2581")))[0] for text in (line.translation.source, line.translation.text)
    )
    source, target = ([word.text for word in own if word.text] for own in shown)  # words and other characters
    weights, doubts = _attention(served, line, source, target), list[dict[str, Any]]()
    for doubt in line.doubts:  # with its target words, or those that attended most to its source words
        named = doubt.detail.split()
        if doubt.kind in _OF_SOURCE:
            unseen = {*named} if doubt.kind == "unseen" else set[str]()
            chosen = [i for i, word in enumerate(source) if word in named or unseen & {*word}]
            words = sorted({int(weights[:, i].argmax()) for i in chosen}) if weights.size else []
        else:
            words = [i for i, word in enumerate(target) if word in named and doubt.kind != "length"]
        doubts.append({"kind": doubt.kind, "detail": doubt.detail, "words": words})
    return {
        "source": line.translation.source,
        "texts": line.translation.texts,
        "estimate": None if line.chrf is None else round(line.chrf, 1),
        "is_low": bool(served.estimate and line.chrf is not None and line.chrf < served.estimate.low),
        "doubts": doubts,
        "source_words": source,
        "target_words": target,
        "attention": weights.round(3).tolist(),
    }


def _attention(served: Served, line: ExplainedLine, source: Sequence[str], target: Sequence[str]) -> Weights:
    """(T,S), from 0 to 1: how much each word that is shown attended to each source word that is shown. Empty where these
    would be too many."""
    if len(source) * len(target) > _MOST_WEIGHTS:
        return np.zeros((0, 0))
    src_words, tgt_words, blocks = list[str](), list[str](), [torch.zeros(0, 0)]
    for part, attention in zip(line.translation.parts, line.attention, strict=True):
        words = word_weights(part.source, part.hypotheses[0].ids, attention, served.translator.tokenizer)
        src_words += [word.text for word in words[0]]
        tgt_words += [word.text for word in words[1]]
        blocks.append(torch.from_numpy(words[2]))
    return _same(target, tgt_words) @ torch.block_diag(*blocks).numpy() @ _same(source, src_words).T


def _same(shown: Sequence[str], own: Sequence[str]) -> Weights:
    """(shown, own): 1 where a word that is shown is one of the model's, which may have another case or be a symbol."""
    found = np.zeros((len(shown), len(own)))
    matcher = SequenceMatcher(None, [*map(str.casefold, shown)], [*map(str.casefold, own)], autojunk=False)
    for kind, start, end, own_start, own_end in matcher.get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == own_end - own_start):
            found[range(start, end), range(own_start, own_end)] = 1
    return found
