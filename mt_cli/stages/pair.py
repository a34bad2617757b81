"""The stages that one language pair goes through before there is a tokenizer: check, spelling, split.

Each stage makes a product of the run (`run/manifest.py`) from inputs that it names, so it is skipped where the product is
there and whole. What a stage has to read, it reads from a copy of the normalized text that is made when it is first needed.
`build.py` says in which order they run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any

from mt_cli.augment.fine_tuning import (
    inputs_of_runs,
    spellings_of,
)
from mt_cli.checking.check import ReadCorpus, quick_check
from mt_cli.checking.check import check as full_check
from mt_cli.checking.faults import Kind
from mt_cli.checking.report import Report
from mt_cli.config import Config, DataConfig
from mt_cli.data.corpora import TextSet
from mt_cli.data.corpus import Place, SentencePair
from mt_cli.data.spelling import AS_IT_IS, format_spelling
from mt_cli.data.split import repetitions
from mt_cli.files import write_text
from mt_cli.recipe import FactsCounter
from mt_cli.run.manifest import Made, Product
from mt_cli.run.run_dir import RunDir
from mt_cli.stages.hold_out import hold_out, inherited
from mt_cli.stages.text import PairText

log = logging.getLogger(__name__)

_MOST_CHECKED = 500_000  # pairs: the first start of a large corpus shall not wait long; `mt check` looks at all


class PairStages:
    def __init__(
        self,
        config: Config,
        data: DataConfig,
        run: RunDir,
        facts: FactsCounter,
        parent: RunDir | None,
        reverse: RunDir | None,
    ):
        """`data`: that of the language pair. `facts`: gets what the recipe is to know of the text, when the text is read.
        `parent`: the run that this one begins with; `reverse`: the one that translates for it."""
        self.run, self.files = run, run.of_pair(config.data, data)
        self.config, self.text = config.model_copy(update={"data": data}), PairText(self.files, facts)
        self.data, self.suffix = self.text.data, self.files.suffix
        self.parent, self._reverse, self.is_both_ways = parent, reverse, config.training.both_directions == 1

    def product(
        self, stage: str, inputs: Mapping[str, str | None], settings: Mapping[str, Any], make: Callable[[], Made]
    ) -> Product:
        return self.run.manifest.product(f"{stage}{self.suffix}", inputs, settings, make)

    @property
    def of_runs(self) -> dict[str, str | None]:
        """The runs whose sets and spelling are taken over."""
        return inputs_of_runs(self.run, parent=self.parent, reverse=self._reverse)

    # check, spelling, split ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What is wrong with the corpus: `check.json`."""

        def make() -> Made:
            write_text(self.files.check_file, self._report.as_json() + "\n")
            return Made([self.files.check_file])

        self.product("check", self.text.inputs, {"clean": self.data.clean, **self._reading}, make)

    @property
    def _reading(self) -> dict[str, Any]:
        return {key: getattr(self.data, key) for key in ("columns", "on_bad_line", "dedup", "src_lang", "tgt_lang")}

    @cached_property
    def _report(self) -> Report:
        """All of it where the corpus is to be cleaned by it, else the quick part."""
        self.text.read()
        corpus = ReadCorpus(self.text.pairs, self.text.held_out, self.text.characters, self.parent is not None)
        if self.data.clean:
            return full_check(self.data, corpus)
        return quick_check(self.data, corpus._replace(read_train=lambda: islice(self.text.pairs(), _MOST_CHECKED)))

    def spell(self) -> None:
        """How either side is spelled: as the dev set is, or as the parent has learnt, whose tokenizer knows no other
        characters."""

        def make() -> Made:
            spellings = AS_IT_IS
            if self.data.spelling == "dev":
                learnt = spellings_of(self.parent, self.config) if self.parent is not None else None
                spellings = self._report.spellings if learnt is None else learnt
            for side, spelling in zip(("source", "target"), spellings, strict=True):
                if spelling:
                    small = {s: o for s, o in spelling.items() if s.lower() == s or s.lower() not in spelling}
                    log.info(f"trains with {format_spelling(small)} in the {side} (data.spelling)")
            return Made(facts=dict(zip(("src", "tgt"), spellings, strict=True)))

        self.product("spelling", {**self.text.inputs, **self.of_runs}, {"spelling": self.data.spelling}, make)

    def split(self) -> None:
        """Which pairs are not trained on: the sets that are cut from the text, what resembles them, and what a cleaned corpus
        lacks."""
        settings = {"clean": self.data.clean, "test": not self.data.test, **self._reading}
        inputs = {
            **self.text.inputs,
            **self.of_runs,
            "spelling": self.run.manifest.products[f"spelling{self.suffix}"].sha256,
        }
        make = lambda: hold_out(  # noqa: E731
            self.text, self._report, inherited(self.text, self.config, self.parent, self._reverse)
        )
        self.product("split", inputs, settings, make)

    @cached_property
    def left_out(self) -> Container[Place]:
        """The places of the training text that are not trained on, once it is split."""
        return self.files.left_out_places()

    def not_trained_on(self, one: TextSet) -> Container[Place]:
        """The list of words shall not repeat the sets that were cut from the text."""
        if one is not self.text.words:
            return () if one.name == "dev" else self.left_out
        return repetitions(one.read, self.files.held_out_pairs()) if self.data.dev is None else ()

    def trained_pairs(self) -> Iterator[SentencePair]:
        """Of the text and the list of words, what is trained on."""
        for one in self.trained_sets:
            left_out = self.not_trained_on(one)
            yield from (pair for pair in self.text.spelled(one) if pair.place not in left_out)

    @property
    def trained_sets(self) -> list[TextSet]:
        return [*self.text.sets, *([self.text.words] if self.text.words is not None else [])]

    def log_findings(self) -> None:
        """Logs what changes a training, where it was checked just now and nothing was refused; `mt check` shows all of it, with
        lines and advice."""
        if "_report" not in vars(self):
            return
        lines, name = list(self._report.in_brief(without=Kind.IN_TRAINING)), self.suffix.strip()
        if name and lines:
            log.info(f"{name}:")
        for severity, line in lines:
            if severity == "fatal":
                log.warning(f"{line}; what is trained on it may be worthless, see: mt check")
            else:
                log.info(f"found in {line}")
        if lines:
            log.info("  (mt check tells more of what was found, and what to do)")
