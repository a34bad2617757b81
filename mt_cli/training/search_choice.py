"""Which search a trained run translates with, where nobody has set one: a few are tried on its dev set. A weak model's beam
runs away, and chrF hides it; so the choice is by chrF1, which counts the superfluous as much as what is found, among those
whose translations are as long in all as the references, give or take a tenth."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from sacrebleu.metrics import CHRF

from mt_cli.config import Config
from mt_cli.decoding.translator import Translator
from mt_cli.errors import CheckpointError, Interrupted, RunDirError, TrainingError
from mt_cli.files import sha256_of_file
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir
from mt_cli.training.state import PreparedPair

log = logging.getLogger(__name__)

_MAX_LINES = 200  # of each dev set
_LENGTHS = 0.9, 1.1  # of all translations together, in characters of the references
# Suits good models; after it others are tried, until translations are no longer too long or too short.
_USUAL_PENALTY = 1.2
_SHORTER, _LONGER = (1.0, 0.6, 0.0), (1.6, 2.0)
_MARGIN = 1.2  # of the usual length of translations, where a limit has to end them
_DEFAULTS: dict[str, Any] = {"n_best": 1, "max_length_ratio": None, "min_length": 0, "sample": False}
_SEARCHED = ("beam_size", "length_normalization", "length_penalty", *_DEFAULTS)


class Tried(NamedTuple):
    options: dict[str, Any]
    score: float  # chrF1, mean of the language pairs
    length: float  # of the translations, in lengths of the references

    @property
    def is_fit(self) -> bool:
        return _LENGTHS[0] <= self.length <= _LENGTHS[1]

    def __str__(self) -> str:
        ratio = self.options.get("max_length_ratio")
        limit = f", at most {ratio:g} tokens for one" if ratio else ""
        beam = f"beam of {self.options['beam_size']}, penalty {self.options.get('length_penalty', 0):g}"
        search = "greedy" if self.options["beam_size"] == 1 else beam
        return f"{search}{limit}: {self.score:.1f}, {self.length:.2f} times as long"


def best_of(tried: Sequence[Tried]) -> Tried:
    """The best score among those of the right length; where there are none, the one whose length is nearest."""
    if fit := [one for one in tried if one.is_fit]:
        return max(fit, key=lambda one: one.score)
    return min(tried, key=lambda one: max(one.length, 1 / max(one.length, 1e-9)))


def keep_search(run: RunDir, pairs: Sequence[PreparedPair], is_stopping: Callable[[], bool]) -> None:
    """Writes the chosen search into the run's config, with the reason, once for each best checkpoint; not where the
    config's search was set by a person. A failure is only logged."""
    config = run.load_config()
    usual = {f"decoding.{key}": value for key, value in _DEFAULTS.items()}  # where no person has set it
    for product in ("recipe", "search"):
        usual |= run.manifest.facts(product).get("values", {})
    if any(getattr(config.decoding, key) != usual.get(f"decoding.{key}") for key in _SEARCHED):
        return
    try:
        inputs = {"best checkpoint": sha256_of_file(run.find_checkpoint("best"))}
        facts = run.manifest.product("search", inputs, {}, lambda: _choice(run, config, pairs, is_stopping)).facts
    except Interrupted:
        return
    except (OSError, RunDirError, CheckpointError, TrainingError) as error:
        log.warning(f"the search stays as it is: {error}")
        return
    values: Any = {key.rpartition(".")[2]: value for key, value in dict(facts["values"]).items()}  # type: ignore[arg-type]
    run.save_config(config.model_copy(update={"decoding": config.decoding.model_copy(update=values)}))


def _choice(run: RunDir, config: Config, pairs: Sequence[PreparedPair], is_stopping: Callable[[], bool]) -> Made:
    def on_batch(n_sentences: int) -> None:
        if is_stopping():
            raise Interrupted("the choice of a search was stopped")

    device, metric = config.training.device, CHRF(beta=1)
    translators = [Translator.load(run.path, device=device, to=pair.data.name) for pair in pairs]
    sets = [pair.dev_pairs[:: -(-len(pair.dev_pairs) // _MAX_LINES)] for pair in pairs]

    def attempt(options: dict[str, Any]) -> Tried:
        scores, n_written, n_wanted = list[float](), 0, 0
        for translator, dev in zip(translators, sets, strict=True):
            references = [pair.tgt for pair in dev]
            hypotheses = translator.translate([pair.src for pair in dev], on_batch=on_batch, **options)
            scores.append(metric.corpus_score(hypotheses, [references]).score)
            n_written, n_wanted = n_written + sum(map(len, hypotheses)), n_wanted + sum(map(len, references))
        return Tried(options, fmean(scores), n_written / max(1, n_wanted))

    beam = {"beam_size": 5, "length_normalization": "average"}
    tried = [attempt({"beam_size": 1}), attempt(beam | {"length_penalty": _USUAL_PENALTY})]
    is_long, is_short = tried[-1].length > _LENGTHS[1], tried[-1].length < _LENGTHS[0]
    for penalty in _SHORTER if is_long else _LONGER if is_short else ():
        tried.append(attempt(beam | {"length_penalty": penalty}))
        if tried[-1].is_fit or (tried[-1].length < _LENGTHS[0]) != is_short:
            break
    if not best_of(tried).is_fit:
        ratio = round(_MARGIN * max(one.profile.length_ratio if one.profile else 1 for one in translators), 2)
        tried += [attempt(one.options | {"max_length_ratio": ratio}) for one in (tried[0], tried[-1])]
    best = best_of(tried)
    others = "; ".join(str(one) for one in tried if one is not best)
    reason = "the best chrF1 on dev within a tenth of its length" if best.is_fit else "the nearest to the length of dev"
    reason = f"{reason}: {best}"
    log.info(f"search: {reason}")
    log.info(f"        instead of {others}")
    values = {f"decoding.{key}": value for key, value in best.options.items()}
    return Made(facts={"values": values, "reasons": dict.fromkeys(values, reason), "instead_of": others})
