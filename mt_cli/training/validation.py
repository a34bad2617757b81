"""How good the weights of a training are on the dev set: loss and scores of greedy translations, and at the end other
searches."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, NamedTuple

from sacrebleu.metrics import CHRF
from tqdm import tqdm

from mt_cli.config import Config
from mt_cli.decoding.translator import Translator
from mt_cli.display import shortened
from mt_cli.errors import CheckpointError, Interrupted, RunDirError, TrainingError
from mt_cli.evaluation.baselines import judge
from mt_cli.evaluation.metrics import bleu_tokenizer, count_texts, mean_loss, perplexity, scores_of
from mt_cli.files import sha256_of_file
from mt_cli.model.transformer import Transformer
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir
from mt_cli.training.state import PreparedData, PreparedPair, TrainingState

log = logging.getLogger(__name__)

_COLUMNS = 80  # of a terminal
_MAX_LINES = 200  # of each dev set
_LENGTHS = 0.9, 1.1  # of all translations together, in characters of the references
# Suits good models; after it others are tried, until translations are no longer too long or too short.
_USUAL_PENALTY = 1.2
_SHORTER, _LONGER = (1.0, 0.6, 0.0), (1.6, 2.0)
_MARGIN = 1.2  # of the usual length of translations, where a limit has to end them
_DEFAULTS: dict[str, Any] = {"n_best": 1, "max_length_ratio": None, "min_length": 0, "sample": False}
_SEARCHED = ("beam_size", "length_normalization", "length_penalty", *_DEFAULTS)


@dataclass(frozen=True)
class PairValidation:
    """How well a language pair is translated."""

    pair: PreparedPair
    figures: dict[str, float]  # dev_loss in nats for each target token, bleu, and those of its Judgement
    outputs: list[str]


@dataclass(frozen=True)
class Validation:
    weights: str  # the candidate with the lower loss, whose scores these are
    train_loss: float  # nats for each target token, of as many training pairs as the dev sets have
    by_pair: list[PairValidation]

    @property
    def figures(self) -> dict[str, float]:
        """The means of all language pairs; of several pairs also the figures of each."""
        figures = {name: fmean(one.figures[name] for one in self.by_pair) for name in self.by_pair[0].figures}
        figures |= {"train_loss": self.train_loss, "dev_perplexity": perplexity(figures["dev_loss"])}
        for one in self.by_pair if len(self.by_pair) > 1 else []:
            figures |= {f"{name} {one.pair.data.name}": value for name, value in one.figures.items()}
        return figures

    def score(self, select_by: str) -> float:
        """Higher is better, whatever `select_by` is."""
        return -self.figures["dev_loss"] if select_by == "loss" else self.figures[select_by]

    def show(self, step: int, epoch: int, best: str, n_samples: int) -> None:
        """Logs scores and first translations beside references. `epoch`: from 0; `best`: of `note_validation`."""
        averaged, how = (", averaged" if self.weights == "averaged" else ""), f" ({best})" if best else ""
        log.info(f"step {step}, epoch {epoch + 1}: {_format(self.figures)}{averaged}{how}")
        for one in self.by_pair:
            if len(self.by_pair) > 1:
                log.info(f"  {one.pair.data.name}: {_format(one.figures)}")
            for pair, output in zip(one.pair.dev_pairs[:n_samples], one.outputs, strict=False):
                for line in (f"    {pair.src}", f"    -> {output}", f"     = {pair.tgt}"):
                    log.info(shortened(line, _COLUMNS))


def _format(figures: dict[str, float]) -> str:
    return f"dev loss {figures['dev_loss']:.3f}, BLEU {figures['bleu']:.2f}, chrF {figures['chrf']:.2f}"


def validate(state: TrainingState, data: PreparedData, is_stopping: Callable[[], bool]) -> Validation | None:
    """Translates dev with the candidate of the lower loss. None once `is_stopping`. Raises FloatingPointError for a NaN
    loss."""
    candidates, n_tokens = state.candidates, state.config.training.batch_tokens
    n_dev = sum(len(pair.dev) for pair in data.pairs)
    sample = data.train.sample(n_dev)
    n_sentences = len(candidates) * n_dev + len(sample) + sum(len(pair.dev_pairs) for pair in data.pairs)
    with tqdm(total=n_sentences, desc="validating", unit="sent", leave=False, disable=None) as bar:

        def on_batch(n_sentences: int) -> None:
            bar.update(n_sentences)
            if is_stopping():
                raise Interrupted("the validation was stopped")

        def translated(pair: PreparedPair, loss: float, model: Transformer) -> PairValidation:
            tokenizer = data.tokenizer.towards(pair.data.tgt_lang)
            of_pair = state.config.model_copy(update={"data": pair.data})
            sources, references = [one.src for one in pair.dev_pairs], [one.tgt for one in pair.dev_pairs]
            translator = Translator([model], tokenizer, of_pair, pair.profile)
            found = translator.translations(sources, beam_size=1, n_best=1, on_batch=on_batch)
            outputs = [translation.text for translation in found]
            tokenize = bleu_tokenizer(pair.data.bleu_tokenize, pair.data.tgt_lang)
            scores = scores_of(count_texts(outputs, [references], tokenize))
            judged = asdict(judge(outputs, references, sources, scores.chrf))
            return PairValidation(pair, {"dev_loss": loss, "bleu": scores.bleu, **judged}, outputs)

        try:
            losses = {
                name: [mean_loss(model.eval(), pair.dev, n_tokens, on_batch) for pair in data.pairs]
                for name, model in candidates.items()
            }
            means = {name: fmean(of_pairs) for name, of_pairs in losses.items()}
            for loss in means.values():
                if not math.isfinite(loss):
                    raise FloatingPointError(f"dev loss is {loss}")
            weights = min(means, key=lambda name: means[name])
            model = candidates[weights]
            train_loss = mean_loss(model, sample, n_tokens, on_batch)
            by_pair = [translated(*one, model) for one in zip(data.pairs, losses[weights], strict=True)]
        except Interrupted:
            return None
    return Validation(weights, train_loss, by_pair)


# The search ------------------------------------------------------------------------------------------------------------


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
    """Writes the search that the trained run translates best with into its config, with the reason, once for each best
    checkpoint; not where a person has set one. A failure is only logged.

    A weak model's beam runs away, and chrF hides it; so the choice is by chrF1, which counts the superfluous as much as
    what is found, among the searches whose translations are as long in all as the references, give or take a tenth.
    """
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
