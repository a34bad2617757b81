"""Text in the target language alone becomes training text (back-translation: Sennrich et al. 2016): a reverse model, which is
trained first, translates the lines that are worth it, block by block; the pairs are a further corpus of the run."""

from __future__ import annotations

import json
import logging
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from tqdm import tqdm

from mt_cli.augment.fine_tuning import inputs_of_runs, parent_of, same_pair, sha256_of_best
from mt_cli.checking.faults import FaultFinder, Sample
from mt_cli.config import Config, Corpus, Monolingual, given_keys, is_memory
from mt_cli.data.corpus import CorpusReport, SentencePair, TrainingText, read_monolingual, sha256_of
from mt_cli.data.normalize import normalize
from mt_cli.data.split import NearIndex, letters
from mt_cli.data.tokenizer import MAX_PIECE
from mt_cli.decoding.translator import Translator
from mt_cli.device import choose_device, fast_float32_products
from mt_cli.errors import ConfigError, DataError, RunDirError
from mt_cli.files import make_folder, read_inside, write_bytes
from mt_cli.processes import StopSignals
from mt_cli.recipe import FactsCounter, choose
from mt_cli.run.manifest import Made, Product, sha256_of_json
from mt_cli.run.run_dir import RunDir, describe_directions, directions_of
from mt_cli.training.metrics_log import best_of, learning_curve

log = logging.getLogger(__name__)

_MOST_SYNTHETIC = 2.0  # pairs of an epoch for each other one; where there are more, the next epoch has others of them
_LEAST_CHRF = 35  # of the reverse model on dev: then the topic of a sentence comes across
_BLOCK_SIZE = 1024  # lines: enough to fill batches with lines of one length
_N_REMEMBERED = 1_000_000  # lines of either text; bounds the memory of looking for repetitions at about 120 MB
_BLOCK = TypeAdapter(tuple[str, list[str], float])  # hash, translations, the seconds that they took


def back_share(text: Monolingual) -> float:
    """When the reverse model is trained, as a share of the minutes: half, where it is trained on back-translations itself."""
    return 1 / 2 if text.src else 1 / 3


def translated_share(text: Monolingual) -> float:
    """When translating ends at the latest, as a share of the minutes."""
    return (1 + 3 * back_share(text)) / 4


def reverse_run(config: Config, run: RunDir) -> RunDir | None:
    """The user's, or the one within the run; None where nothing is to be translated. Raises RunDirError and ConfigError."""
    data, text = config.data, config.data.monolingual
    if text is None:
        return None
    if text.back is None:
        return RunDir(run.back)
    back = RunDir(Path(text.back))
    if back.path.exists() or not run.steps():  # else what it has translated is in the run
        known = directions_of(RunDir.existing(back.path).load_config())
        if f"{data.tgt_lang}-{data.src_lang}" not in {one.name for one in known}:
            found = f"{back.path} translates {describe_directions(known)}, expected {data.tgt_lang} to {data.src_lang}"
            raise ConfigError(f"data.monolingual.back: {found}; give another run, or leave it out")
    return back


def reverse_config(config: Config, back: RunDir) -> Config:
    """What `back`, the one within the run, is trained with: the same text with its sides exchanged, and the keys that
    were given. Both ways where the recipe begins so anyhow: the run itself begins with its weights."""
    parent, text, given = parent_of(config), config.data.monolingual, given_keys(config)
    assert text is not None
    if parent is not None and not parent.load_config().tokenizer.joint:
        why = "has a vocabulary for each language, so no reverse model can begin with it"
        raise ConfigError(f"{parent.path} {why}; leave out training.init_from, or give data.monolingual.back")
    update: dict[str, Any] = {"minutes": config.training.minutes and config.training.minutes * back_share(text)}
    if parent is None and not back.steps() and not given.keys() & {"training.both_directions", "training.r_drop"}:
        facts = FactsCounter()
        for pair in TrainingText(config.data.own).read():
            facts.add(pair.src, pair.tgt)
        if choose(facts.facts(), given)["training.both_directions"].value:
            update["both_directions"] = 1.0
    data, words = config.data, config.data.words
    corpora = [corpus for corpus in data.own.corpora if not corpus.synthetic]
    sets = [*(corpus.files for corpus in corpora), data.dev or [], *data.test.values()]
    if words is not None:
        columns = _exchanged_columns(words.columns, [words.files])
        words = words.model_copy(update={"files": words.files[::-1], "columns": columns})
    exchanged = {
        "src_lang": data.tgt_lang,
        "tgt_lang": data.src_lang,
        "train": list(map(_exchanged, corpora)),
        "dev": data.dev and data.dev[::-1],
        "test": {name: files[::-1] for name, files in data.test.items()},
        "words": words,
        "columns": _exchanged_columns(data.columns, sets),
        "monolingual": Monolingual(tgt=text.src, search=text.search) if text.src else None,  # by a run of its own
        "bleu_tokenize": "auto",
    }
    training = config.training.model_copy(update=update)
    return config.model_copy(update={"data": data.model_copy(update=exchanged), "training": training})


def _exchanged(corpus: Corpus) -> Corpus:
    rewrite = {"rewrite": corpus.rewrite_source, "rewrite_source": corpus.rewrite}
    return corpus.model_copy(update={"files": corpus.files[::-1], **rewrite})


def _exchanged_columns(columns: str | None, sets: list[list[str]]) -> str | None:
    """Raises ConfigError where they are not named, and the tables have them in different places."""
    if columns is not None:
        return ",".join(columns.split(",")[::-1])
    from mt_cli.data.tables import find_layout  # here, because most text has no columns

    found = {find_layout(Path(files[0])).columns for files in sets if len(files) == 1 and not is_memory(files[0])}
    if len(found) > 1:
        what = "source and target stand in different columns of the tables"
        raise ConfigError(f"data.monolingual: {what}; set data.columns to names that all of them have")
    return "".join(f"{tgt + 1},{src + 1}" for src, tgt in found) or None


class Selection:
    """Chooses lines of monolingual text, and then pairs of a line and its translation. Counts what it leaves out."""

    def __init__(self, config: Config, reverse: RunDir | None = None):
        """`reverse`: once it is trained. Until then lines are not counted in tokens."""
        data, same, sample = config.data, same_pair(reverse, config), Sample()
        self.data, self.left_out = data, Counter[str]()  # by the reason
        self.n_trained = 0.0  # pairs of an epoch of the training text
        self._trained, self._src_characters = set[int](), set[str]()
        for pair in TrainingText(data.own).read():
            self.n_trained += data.corpora[pair.corpus].weight
            sample.add(pair)
            self._src_characters.update(pair.src)
            if len(self._trained) < _N_REMEMBERED:
                self._trained.add(hash(normalize(pair.tgt)))
        held_out = [one.read() for one in TrainingText(data).named]
        self._tokenizer = None
        if reverse is not None and same is not None:
            self._tokenizer = reverse.load_tokenizer(reverse.load_config().tokenizer.joint)
            self._src_characters.update(*same.spellings()[0].values())
            held_out += map(iter, same.held_out_pairs().values())
        self._near_held_out = NearIndex([letters(pair.tgt) for pair in chain(*held_out)])
        self._finder = FaultFinder(sample.pairs, data.src_lang, data.tgt_lang)

    def lines(self, report: CorpusReport) -> Iterator[str]:
        """Those of the text, normalized, that are to be translated."""
        text, seen = self.data.monolingual, set[int]()
        assert text is not None
        for raw in read_monolingual(text.tgt, on_bad_line=self.data.on_bad_line, report=report):
            line = normalize(raw, keep_no_break_spaces=True)
            if reason := self._fault_of_line(raw, normalize(line), seen):
                self.left_out[reason] += 1
            else:
                yield line

    def _fault_of_line(self, raw: str, text: str, seen: set[int]) -> str | None:
        max_length = self.data.max_length
        if not text:
            return "blank"
        is_long = len(text) > MAX_PIECE * max_length
        if is_long or (self._tokenizer is not None and len(self._tokenizer.encode_src(text)) > max_length):
            return f"longer than {max_length} tokens"
        if hash(text) in seen:
            return "repeated"
        if hash(text) in self._trained:
            return "training targets"
        if self._near_held_out.near(letters(text)):
            return "nearly in a dev or test set"
        for kind in self._finder.faults_of_characters(SentencePair("", raw, 0)):
            if kind.is_dropped:
                return kind.replace("_", " ")
        if len(seen) < _N_REMEMBERED:
            seen.add(hash(text))
        return None

    def pairs(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Those of `pairs`, a translation and its line each, that look like translations of each other."""
        for src, tgt in pairs:
            faults: list[str] = [kind for kind in self._finder.faults(SentencePair(src, tgt, 0)) if kind.is_dropped]
            if not faults and not self._src_characters.issuperset(set(src).difference(tgt)):
                faults = ["characters that no source has"]  # they would become pieces of the tokenizer
            if faults:
                self.left_out[f"translated badly ({faults[0].replace('_', ' ')})"] += 1
            else:
                yield src, tgt


class BackTranslation:
    def __init__(self, config: Config, run: RunDir, signals: StopSignals):
        text, reverse = config.data.monolingual, reverse_run(config, run)
        assert text is not None and reverse is not None
        self.config, self.run, self.reverse, self.text, self.signals = config, run, reverse, text, signals
        self.files = [Path(file) for file in run.of_pair(config.data, config.data).made_files("synthetic")]

    def make(self, train_reverse: Callable[[Config, Path], None]) -> float:
        """Makes the synthetic pairs; returns the seconds they took, in all starts. Raises DataError and RunDirError."""
        run, text, data = self.run, self.text, self.config.data
        made, is_made = run.manifest.products.get("synthetic"), bool(run.steps())
        if not is_made and made is not None and self.reverse.steps():
            is_made = made.inputs["reverse model"] == sha256_of_best(self.reverse)  # of the reverse model as it is
        if text.back is None and not is_made:
            selection, report = Selection(self.config), CorpusReport()
            if next(selection.lines(report), None) is None:  # before time is spent on it
                raise self._no_line_of_use(report.dropped | selection.left_out)
            log.info(f"first trains the reverse model, {data.tgt_lang} to {data.src_lang}: {self.reverse.path}")
            train_reverse(reverse_config(self.config, self.reverse), self.reverse.path)
            if self.signals.is_stopping:
                self.signals.stop(f"stopped after training {self.reverse.path}")
            self.signals.is_saving_needed = False
        of_reverse = inputs_of_runs(run, **{"reverse model": self.reverse})
        inputs = {
            "monolingual text": sha256_of(text.tgt) if all(Path(file).exists() for file in text.tgt) else None,
            "train": TrainingText(data).sha256(),
            **of_reverse,
        }
        settings: dict[str, Any] = {"max_length": data.max_length, "on_bad_line": data.on_bad_line}
        # Lines like those of named sets are left out. A run that is trained needs the sets no more.
        settings["named"] = {} if run.steps() else {one.name: one.sha256 for one in TrainingText(data).named}
        lines = run.manifest.product("monolingual", inputs, settings, self._select)
        settings = {"search": text.search, "seed": self.config.training.seed}
        inputs = {"monolingual lines": lines.sha256, **of_reverse}
        run.manifest.product("synthetic", inputs, settings, lambda: self._pairs(lines))
        shutil.rmtree(run.synthetic / "blocks", ignore_errors=True)
        return float(run.manifest.facts("synthetic")["seconds"])

    def _no_line_of_use(self, left_out: dict[str, int]) -> DataError:
        new = f"give text in {self.config.data.tgt_lang} that is not yet translated, a sentence on each line"
        return DataError(f"{self.text.tgt[0]}: no line of use, {_format_counts(left_out)}; {new}")

    def _select(self) -> Made:
        """Writes the lines that are worth being translated."""
        report, selection, n_chosen, files = CorpusReport(), Selection(self.config, self.reverse), 0, self.text.tgt
        file, sha256 = self.run.synthetic / "lines.txt", sha256_of(files)
        make_folder(self.run.synthetic)
        with file.open("w", encoding="utf-8", newline="\n") as handle:
            for line in selection.lines(report):
                handle.write(f"{line}\n")
                n_chosen += 1
        if sha256_of(files) != sha256:
            raise DataError(f"{' or '.join(files)}: changed while it was read; start again when it is complete")
        left_out = report.dropped | selection.left_out
        if not n_chosen:
            raise self._no_line_of_use(left_out)
        for note in (f"{n_chosen:,} of {report.n_pairs:,} lines are of use: {_format_counts(left_out)}", *report.notes):
            log.info(f"monolingual: {note}")
        return Made([file], {"n_lines": report.n_pairs, "n_chosen": n_chosen, "left_out": left_out})

    def _pairs(self, lines: Product) -> Made:
        """None of a model that is too weak: with its text runs were 1.8 and 3.7 chrF worse (docs/log.md)."""
        reverse, seconds = self.reverse, 0.0
        if self.text.back is None:
            if not (curve := learning_curve(reverse.logs.records(reverse.metrics_file))):
                raise RunDirError(f"{reverse.metrics_file}: lost; restore it, or delete {reverse.path}")
            timed = reverse.logs.records(reverse.timing_file)
            seconds = float(timed[-1]["elapsed_seconds"]) if timed else 0.0
            judgement = best_of(curve)
            if not judgement.has_learnt or judgement.chrf < _LEAST_CHRF:
                log.warning(f"back-translation skipped: the reverse model {reverse.path} is too weak ({judgement})")
                return Made(facts={"n_pairs": 0, "seconds": seconds})
        log.info(f"next come translations of the monolingual text, and then {self.run.path} itself")
        blocks = _Blocks(self.run, lines, sha256_of_json([lines.sha256, sha256_of_best(reverse), self.text.search]))
        return self._join(blocks, self._translate(blocks, seconds))

    def _translate(self, blocks: _Blocks, seconds: float) -> float:
        """Translates blocks in random order, until all are done or it is time to train; returns all `seconds`."""
        data, training, signals = self.config.data, self.config.training, self.signals
        device, end = choose_device(training.device), 60 * translated_share(self.text) * (training.minutes or math.inf)
        search: dict[str, Any] = {"n_best": 1, "sample": self.text.search == "sampling"}
        search |= {"beam_size": 1} if self.text.search == "greedy" else {}  # else that of the model's config
        translator = Translator.load(self.reverse.path, device=str(device), to=f"{data.tgt_lang}-{data.src_lang}")
        log.info(f"translating {blocks.n_lines:,} lines to {data.src_lang}, {self.text.search} search")
        signals.is_saving_needed = True
        with (  # computes as training does, so that a translation is the same whichever start makes it
            fast_float32_products(device),
            tqdm(total=blocks.n_lines, desc="back-translating", unit=" lines", leave=False, disable=None) as bar,
        ):

            def on_batch(n_lines: int) -> None:
                bar.update(n_lines)
                if signals.is_stopping:
                    signals.stop(f"stopped back-translating, what is done is kept in {blocks.folder}")

            for place, number in enumerate(np.random.default_rng(training.seed).permutation(len(blocks)).tolist()):
                translations, took = blocks.translations(number)
                bar.update(len(translations))
                if not translations and place and seconds >= end:
                    break
                if not translations:
                    began, lines, first = time.monotonic(), blocks.lines(number), number * _BLOCK_SIZE
                    translations = translator.translate(lines, on_batch=on_batch, first_line=first, **search)
                    blocks.save(number, translations, took := time.monotonic() - began)
                seconds += took
        signals.is_saving_needed = False
        return seconds

    def _join(self, blocks: _Blocks, seconds: float) -> Made:
        """Writes the pairs of all blocks that are translated."""
        selection, n_translated, n_pairs = Selection(self.config, self.reverse), 0, 0
        src_file, tgt_file = (file.open("w", encoding="utf-8", newline="\n") for file in self.files)
        with src_file, tgt_file:
            for number in range(len(blocks)):
                translations, _ = blocks.translations(number)
                n_translated += len(translations)
                for src, tgt in selection.pairs(zip(translations, blocks.lines(number), strict=False)):
                    src_file.write(f"{src}\n")
                    tgt_file.write(f"{tgt}\n")
                    n_pairs += 1
        left_out = dict(selection.left_out)
        if n_translated < blocks.n_lines:
            left_out["not translated, for want of time"] = blocks.n_lines - n_translated
        if not n_pairs:
            why = f"{_format_counts(left_out)}; the reverse model {self.reverse.path} is too weak"
            more = "give it more minutes or steps, or another data.monolingual.back"
            raise DataError(f"{self.run.synthetic}: no pair of use, {why}: {more}")
        weight = max(0.001, min(1.0, _MOST_SYNTHETIC * selection.n_trained / n_pairs))
        log.info(f"{n_pairs:,} synthetic pairs: {self.run.synthetic}; lines left out: {_format_counts(left_out)}")
        return Made(self.files, {"n_pairs": n_pairs, "weight": weight, "seconds": seconds, "left_out": left_out})


def _format_counts(left_out: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {reason}" for reason, n in left_out.items()) or "none"


class _Blocks:
    """The lines in blocks, and the translations of those that are done."""

    def __init__(self, run: RunDir, lines: Product, key: str):
        """`key`: of all that the translations depend on."""
        self._run, self._file, self.folder = run, run.synthetic / "lines.txt", run.synthetic / "blocks" / key[:16]
        self.n_lines = TypeAdapter(int).validate_python(lines.facts["n_chosen"])
        with self._file.open("rb") as content:
            ends = np.cumsum(np.fromiter(map(len, content), np.int64, self.n_lines))
        self._starts = [0, *ends[_BLOCK_SIZE - 1 : -1 : _BLOCK_SIZE].tolist()]
        make_folder(self.folder.parent)

    def __len__(self) -> int:
        return len(self._starts)

    def lines(self, number: int) -> list[str]:
        with self._file.open("rb") as content:
            content.seek(self._starts[number])
            return [line.decode().removesuffix("\n") for line in islice(content, _BLOCK_SIZE)]

    def translations(self, number: int) -> tuple[list[str], float]:
        """And the seconds that they took. None where they are not there or damaged."""
        try:
            content = read_inside(self._run.path, self.folder / f"{number:06d}.json", 1 << 28)
            sha256, translations, seconds = _BLOCK.validate_json(content)
        except (FileNotFoundError, ValidationError):
            return [], 0.0
        return (translations, seconds) if sha256_of_json([translations, seconds]) == sha256 else ([], 0.0)

    def save(self, number: int, *made: object) -> None:
        """`made`: translations and seconds."""
        write_bytes(self.folder / f"{number:06d}.json", json.dumps([sha256_of_json(made), *made]).encode())
