"""Scores runs on test sets, and files against references: `evaluate`, which `mt evaluate` and Python users call."""

import logging
import math
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mt_cli.config import Config, DataConfig
from mt_cli.data.corpus import CorpusReport, columns_of, read_lines, read_raw_pairs
from mt_cli.data.dataset import TokenDataset, TokenPair
from mt_cli.data.languages import code_of_name, may_be_a_word
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.terms import Glossary, as_glossary
from mt_cli.decoding.translator import Translator
from mt_cli.device import choose_device
from mt_cli.display import escaped
from mt_cli.errors import ConfigError, DataError, RunDirError, UsageError
from mt_cli.evaluation.baselines import memory_of
from mt_cli.evaluation.comparison import SetScores, TestSet, as_table, config_sha256, with_comparisons
from mt_cli.evaluation.metrics import bleu_tokenizer, count_texts, language_of_script, mean_loss, ter_of
from mt_cli.evaluation.robustness import changed_sets, held
from mt_cli.run.checkpoint import load_model
from mt_cli.run.logs import commit
from mt_cli.run.run_dir import Direction, RunDir, choose_direction, directions_of

log = logging.getLogger(__name__)

Paths = str | Path | Sequence[str | Path]


class Evaluation(list[SetScores]):
    """The scores of each system on each test set, compared with the first, then baselines; a table as text."""

    def __init__(self, results: Sequence[SetScores]):
        super().__init__(with_comparisons([one for one in results if one.kind != "baseline"]))
        self += [one for i, one in enumerate(results) if one.kind == "baseline" and one not in results[:i]]

    def __str__(self) -> str:
        return as_table(self)

    __repr__ = __str__


def evaluate(
    runs: Paths = (),
    *,
    src: str | Path | None = None,
    ref: Paths = (),
    hyp: Paths = (),
    checkpoint: str | Sequence[str] = "best",
    tokenize: str | None = None,
    tgt_lang: str | None = None,
    baselines: bool = False,
    robustness: bool = False,
    device: str = "auto",
    to: str | None = None,
    glossary: Glossary | Mapping[str, str] | str | Path | None = None,
    strict_terms: bool = False,
    **search: Any,
) -> Evaluation:
    """The scores of runs on the sets of their configs, in each direction or in `to`, or on `src` and `ref`; or of files of
    translations `hyp`, in `tgt_lang`, against `ref`. `glossary`, `strict_terms`: of `Translator.translations`; then the
    use of its terms is scored, too. `search`: keys of `decoding`. Raises MTError, before anything is translated."""
    if not runs and not (hyp and ref):
        raise UsageError("nothing to evaluate; give a run, or hyp and ref")
    terms = {"glossary": as_glossary(glossary), "strict_terms": strict_terms} if glossary is not None else {}
    results = list(_file_scores(_paths(hyp), _paths(ref), tokenize, tgt_lang)) if hyp else []
    for run in map(RunDir.existing, _paths(runs)):
        planned = _planned(run, [Path(src), *_paths(ref)] if src is not None else [], to)
        if terms and len(planned) > 1:
            found = f"{run.path}: the terms of a glossary are of one direction"
            raise UsageError(f"{found}; say by --to which one to score")
        for direction, sets in planned:
            for one in sets:
                for warning in one.warnings:
                    log.warning(f"{one.name}: {warning}")
            if baselines:
                results += _baselines(run, direction, sets, tokenize)
        for name in [checkpoint] if isinstance(checkpoint, str) else checkpoint:
            for direction, sets in planned:
                evaluator = RunEvaluator(run, name, direction, device, tokenize, terms, **search)
                for test_set in sets:
                    results.append(plain := evaluator.evaluate(test_set)[1])
                    results += evaluator.under_changes(plain) if robustness else ()
    return Evaluation(results)


def _paths(given: Paths) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(one) for one in given]


def _file_scores(
    hypotheses: list[Path], references: list[Path], tokenize: str | None, tgt_lang: str | None
) -> Iterator[SetScores]:
    names, expected = [str(file) for file in references], [read_lines(file) for file in references]
    language, reason = tgt_lang or "", "by --tgt-lang"
    for file in (*references, *hypotheses):
        code = code_of_name(Path(file.name.removesuffix(".gz")).suffix[1:])
        is_ending_of_output = code == "mt" and file in hypotheses  # and not Maltese
        if code and not (language or is_ending_of_output or may_be_a_word(code)):
            language, reason = code, f"by the name of {file}"
    if not language:
        language, reason = language_of_script(expected[0]), "by the script of the references"
    tokenize, ter = bleu_tokenizer(tokenize or "auto", language), ter_of(language)
    note = f"target language: {language or 'one with spaces between words'} ({reason})"
    note += "" if ter else "; no TER, as it has no words between spaces"
    for name in map(str, hypotheses):
        outputs = read_lines(Path(name))
        for ref, lines in zip(names, expected, strict=True):
            if len(outputs) != len(lines):
                raise DataError(f"{name} has {len(outputs)} lines, {ref} has {len(lines)}; they must be line for line")
        counts = count_texts(outputs, expected, tokenize, ter)
        facts = {"ref": names[0] if len(names) == 1 else names}
        yield SetScores("file", name, TestSet(names[0], [], expected), outputs, counts, facts, note=note)


class RunEvaluator:
    """Translates and scores test sets with a checkpoint of a run."""

    def __init__(
        self,
        run: RunDir,
        checkpoint: str,
        direction: Direction,
        device: str,
        tokenize: str | None = None,
        terms: Mapping[str, Any] | None = None,
        **search: Any,
    ):
        """`terms`: arguments of `Translator.translations`; `search`: keys of `decoding`. Raises MTError."""
        self._tokenize = bleu_tokenizer(tokenize or direction.data.bleu_tokenize, direction.data.tgt_lang)
        loaded = load_model(run, checkpoint)
        model, tokenizer, config, content, profile = loaded.for_direction(direction, run)
        self.translator = Translator([model.to(choose_device(device))], tokenizer, config, profile, [(run, checkpoint)])
        self._run, self._search, self._terms = str(run.path), search, terms or {}
        decoding, products, inputs = self.translator.settings(**search), run.manifest.products, dict[str, str]()
        for product in [*(name for name in products if name.startswith("check")), "rehearsal", "monolingual"]:
            inputs |= products[product].inputs if product in products else {}  # the last ones without what the run made
        chosen = run.manifest.facts("search").get("values", {})
        is_chosen = bool(chosen) and all(getattr(decoding, key.rpartition(".")[2]) == chosen[key] for key in chosen)
        of_text = ("train", "dev", "words", "monolingual")
        data_sha256 = {name: inputs[name] for name in inputs if name.startswith(of_text)}
        self._facts = {
            "checkpoint": checkpoint,
            "step": content["progress"].get("step"),
            "seed": config.training.seed,
            "config_sha256": config_sha256(loaded.config, decoding, data_sha256, is_chosen),
            "data_sha256": data_sha256,
            "tokenizer_sha256": tokenizer.sha256,
            "decoding": decoding.model_dump(),
            "device": str(self.translator.device),
            "commit": commit(),
        }

    def evaluate(self, test_set: TestSet) -> tuple[list[Translation], SetScores]:
        """The translations and the scores. The loss is that of the pairs that the model can read at once."""
        sources, references, translator = test_set.sources, test_set.references, self.translator
        config, name, started = translator.config, f"{self._run}: {test_set.name}", time.monotonic()
        with tqdm(total=len(sources), desc=name, unit="sent", leave=False, disable=None) as bar:
            on_batch: Callable[[int], Any] = bar.update
            translations = translator.translations(sources, on_batch=on_batch, **self._terms, **self._search)
        speed = len(sources) / max(time.monotonic() - started, 1e-9)
        outputs = [translation.text for translation in translations]

        pairs = map(translator.encode_pair, sources, references[0])
        most = config.data.max_length
        fitting = [TokenPair(*pair, 0) for pair in pairs if all(0 < len(side) <= most for side in pair)]
        loss = mean_loss(translator.model, TokenDataset.in_memory(fitting), config.training.batch_tokens)
        counts = count_texts(outputs, references, self._tokenize, ter_of(config.data.tgt_lang))
        scores = SetScores("run", self._run, test_set, outputs, counts, self._facts)
        scores.loss, scores.sentences_per_second = loss if math.isfinite(loss) else None, speed
        if self._terms:
            n, unused = sum(len(one.hits) for one in translations), dict[str, int]()
            for key, by_beginning in (("as_written", False), ("by_beginning", True)):
                unused[key] = sum(len(one.unused_hits(by_beginning)) for one in translations)
            scores.terms = {"n": n, **{key: 100 * (n - n_unused) / max(1, n) for key, n_unused in unused.items()}}
        return translations, scores

    def under_changes(self, plain: SetScores) -> Iterator[SetScores]:
        """The scores of the test set under each change that people make in text; `note` says what that does."""
        data = self.translator.config.data
        for change, test_set in changed_sets(plain.test_set, data.src_lang, data.tgt_lang):
            scores = self.evaluate(test_set)[1]
            differing, kept = held(change, plain.outputs, scores.outputs)
            scores.note = f"{test_set.name}: {differing:.1%} of the translations differ by more than the change"
            scores.note += f"; {escaped(change.span)} is kept in {kept:.1%}" if kept is not None else ""
            yield scores


def _baselines(
    run: RunDir, direction: Direction, test_sets: list[TestSet], tokenize: str | None
) -> Iterator[SetScores]:
    """The scores of the copied sources, and of a translation memory. Raises DataError without the training text."""
    memory = memory_of(run, direction, [source for test_set in test_sets for source in test_set.sources])
    tgt_lang = direction.data.tgt_lang
    tokenizer, ter = bleu_tokenizer(tokenize or direction.data.bleu_tokenize, tgt_lang), ter_of(tgt_lang)
    for one in test_sets:
        translated = list(map(memory.translate, one.sources))
        for name, outputs in (("copy of the source", one.sources), ("translation memory", translated)):
            counts = count_texts(outputs, one.references, tokenizer, ter)
            yield SetScores("baseline", name, one, outputs, counts, {})


def _planned(run: RunDir, files: Sequence[Path], to: str | None) -> list[tuple[Direction, list[TestSet]]]:
    """The directions in which a run is scored, and the sets of each, or `files`; all are read before one is translated."""
    config = run.load_config()
    known = directions_of(config)
    if files:
        direction = choose_direction(config, to, run.path)
        return [(direction, [read_set(direction.pair, files[0].name, [str(file) for file in files])])]
    planned = []
    for direction in known if to is None else [choose_direction(config, to, run.path)]:
        sets = _sets_of(run, config, direction, f" {direction.name}" if len(known) > 1 else "")
        own = {one.sha256 for one in sets}
        planned.append((direction, sets + [one for one in _sets_of_parent(config, direction) if one.sha256 not in own]))
    return planned


def _sets_of(run: RunDir, config: Config, direction: Direction, suffix: str) -> list[TestSet]:
    data, own = direction.pair, run.of_pair(config.data, direction.pair)
    if data.dev is None and not own.held_out.exists():
        raise DataError(f"{run.path}: has no dev and no test set; give --src and --ref")
    named = own.all_files()
    if missing := [file for files in named.values() for file in files if not Path(file).exists()]:
        where = "restore it, or go where mt was started for the training"
        raise DataError(f"{missing[0]}: no such file; {where}, or give --src and --ref")
    return [read_set(data, f"{name}{suffix}", files, direction.is_reverse) for name, files in named.items()]


def _sets_of_parent(config: Config, direction: Direction) -> list[TestSet]:
    """The test sets of the run that this one began with, if it is still there: they show what was forgotten."""
    parent = RunDir(Path(config.training.init_from or ""))
    if config.training.init_from is None or not parent.config_file.is_file():
        return []
    try:
        theirs = parent.load_config()
        same = [one for one in directions_of(theirs) if one.name == direction.name]
        sets = [one for found in same for one in _sets_of(parent, theirs, found, f" of {parent.path.name}")]
    except (ConfigError, DataError, RunDirError) as error:  # the run itself does not need it any more
        log.warning(f"{error}; so nothing tells what was forgotten of {parent.path}")
        return []
    return [one for one in sets if not one.name.startswith("dev of ")]


def read_set(data: DataConfig, name: str, files: list[str], is_back: bool = False) -> TestSet:
    """A set of a run, its sides exchanged if `is_back`; from the third file on references. Raises DataError."""
    report = CorpusReport()
    columns = columns_of(files, data, data.columns)
    pairs = list(read_raw_pairs(files[:2], columns=columns, on_bad_line=data.on_bad_line, report=report))
    if not pairs:
        raise DataError(f"{files[0]}: no lines to score; give a file with a sentence on each line")
    sources, targets, lines = ([getattr(pair, side) for pair in pairs] for side in ("src", "tgt", "line"))
    references = [targets]
    for file in files[2:]:
        more = read_lines(Path(file))
        if len(more) != report.n_pairs:
            raise DataError(f"{files[0]} has {report.n_pairs} lines, {file} has {len(more)}; make them parallel")
        references.append([more[line - 1] for line in lines])
    if is_back:
        sources, references = targets, [sources]
    warnings = [f"{n:,} of {report.n_pairs:,} pairs left out ({why})" for why, n in report.dropped.items()]
    if n := sum(not unicodedata.is_normalized("NFC", line) for of_file in references for line in of_file):
        warnings.append(f"{n:,} references are not composed (NFC), as translations are, so they score too low")
    return TestSet(name, sources, references, lines, warnings)
