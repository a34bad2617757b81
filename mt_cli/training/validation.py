"""How good the weights of a training are on the dev set: loss and scores of greedy translations, and at the end other
searches."""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, NamedTuple

from sacrebleu.metrics import CHRF
from tqdm import tqdm

from mt_cli.config import OPEN_KEYS, SEARCHED, Config, DecodingConfig
from mt_cli.decoding.sampling import most_alike_first
from mt_cli.decoding.translator import Translator
from mt_cli.device import choose_device
from mt_cli.display import shortened
from mt_cli.errors import CheckpointError, Interrupted, RunDirError, TrainingError
from mt_cli.evaluation.baselines import judge
from mt_cli.evaluation.metrics import bleu_tokenizer, count_texts, mean_loss, perplexity, ter_of
from mt_cli.files import sha256_of_file
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir
from mt_cli.training.memory import advise_when_out_of_memory
from mt_cli.training.state import PreparedData, PreparedPair, TrainingState

log = logging.getLogger(__name__)

_COLUMNS = 80  # of a terminal
_MAX_LINES = 500  # of each dev set
_LENGTHS = 0.9, 1.1  # of all translations together, in characters of the references
_MOST_TER = 110  # more words would have to be changed than the references have: too much is written
_BEAM: dict[str, Any] = {"beam_size": 5, "length_normalization": "average"}
# What makes translations longer: after the usual value others are tried, until they are no longer too long or too short.
_PENALTIES, _RECALL = (0.4, 1.2, 2.0), (0.5, 2.0, 5.0)
_N_VALUES = 4
_MARGIN = 1.2  # of the usual length of translations, where a limit has to end them
_WEAK = 40  # chrF1: better models gain nothing by samples, which take 2.6 times as long as a beam (docs/log.md)
_SAMPLES: dict[str, Any] = {"mbr": 16, "temperature": 0.5}
_DEFAULTS = DecodingConfig().model_dump(include={key for key in SEARCHED if f"decoding.{key}" not in OPEN_KEYS})


@dataclass(frozen=True)
class Validation:
    weights: str  # the candidate with the lower loss, whose scores these are
    by_pair: list[tuple[PreparedPair, dict[str, float], list[str]]]  # with figures as below, and the translations
    # Losses in nats for each target token, BLEU, those of its Judgement: means of all language pairs, of several also each.
    figures: dict[str, float]

    def score(self, select_by: str) -> float:
        """Higher is better, whatever `select_by` is."""
        return -self.figures["dev_loss"] if select_by == "loss" else self.figures[select_by]

    def show(self, step: int, epoch: int, best: str, n_samples: int) -> None:
        """Logs scores and first translations beside references. `epoch`: from 0; `best`: of `note_validation`."""
        averaged, how = (", averaged" if self.weights == "averaged" else ""), f" ({best})" if best else ""
        log.info(f"step {step}, epoch {epoch + 1}: {_format(self.figures)}{averaged}{how}")
        for pair, figures, outputs in self.by_pair:
            if len(self.by_pair) > 1:
                log.info(f"  {pair.data.name}: {_format(figures)}")
            for one, output in zip(pair.dev_pairs[:n_samples], outputs, strict=False):
                for line in (f"    {one.src}", f"    -> {output}", f"     = {one.tgt}"):
                    log.info(shortened(line, _COLUMNS))


def _format(figures: dict[str, float]) -> str:
    return f"dev loss {figures['dev_loss']:.3f}, BLEU {figures['bleu']:.2f}, chrF {figures['chrf']:.2f}"


def validate(state: TrainingState, data: PreparedData, check: Callable[[int], None]) -> Validation | None:
    """Translates dev with the candidate of the lower loss. None where `check` raises Interrupted. Raises
    FloatingPointError for a loss that is not finite."""
    candidates, n_tokens = state.candidates, state.config.training.batch_tokens
    n_dev, by_pair = sum(len(pair.dev) for pair in data.pairs), list[tuple[PreparedPair, dict[str, float], list[str]]]()
    sample = data.train.sample(n_dev)  # as many training pairs as the dev sets have
    n_sentences = len(candidates) * n_dev + len(sample) + sum(len(pair.dev_pairs) for pair in data.pairs)
    with tqdm(total=n_sentences, desc="validating", unit="sent", leave=False, disable=None) as bar:

        def on_batch(n_sentences: int) -> None:
            bar.update(n_sentences)
            check(n_sentences)

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
            train_loss = mean_loss(candidates[weights], sample, n_tokens, on_batch)
            for pair, loss in zip(data.pairs, losses[weights], strict=True):
                tokenizer = data.tokenizer.towards(pair.data.tgt_lang)
                config = state.config.model_copy(update={"data": pair.data})
                sources, references = [one.src for one in pair.dev_pairs], [one.tgt for one in pair.dev_pairs]
                translator = Translator([candidates[weights]], tokenizer, config, pair.profile)
                found = translator.translations(sources, beam_size=1, n_best=1, on_batch=on_batch)
                outputs = [translation.text for translation in found]
                tokenize = bleu_tokenizer(pair.data.bleu_tokenize, pair.data.tgt_lang)
                scores = {name: one.score() for name, one in count_texts(outputs, [references], tokenize).items()}
                judged = asdict(judge(outputs, references, sources, scores["chrf"]))
                by_pair.append((pair, {"dev_loss": loss, "bleu": scores["bleu"], **judged}, outputs))
        except Interrupted:
            return None
    figures = {name: fmean(of_pair[name] for _, of_pair, _ in by_pair) for name in by_pair[0][1]}
    figures |= {"train_loss": train_loss, "dev_perplexity": perplexity(figures["dev_loss"])}
    for pair, of_pair, _ in by_pair if len(by_pair) > 1 else []:
        figures |= {f"{name} {pair.data.name}": value for name, value in of_pair.items()}
    return Validation(weights, by_pair, figures)


class Tried(NamedTuple):
    options: dict[str, Any]
    score: float  # chrF1, mean of the language pairs
    length: float  # of the translations, in lengths of the references
    ter: float = 0.0  # the highest of the language pairs; 0 without words between spaces

    @property
    def is_fit(self) -> bool:
        return _LENGTHS[0] <= self.length <= _LENGTHS[1] and self.ter < _MOST_TER

    @property
    def is_long(self) -> bool:
        return self.length > 1 or self.ter >= _MOST_TER

    def __str__(self) -> str:
        ratio = self.options.get("max_length_ratio")
        limit = f", at most {ratio:g} tokens for one" if ratio else ""
        beam = f"beam of {self.options['beam_size']}, penalty {self.options.get('length_penalty', 0):g}"
        search = "greedy" if self.options["beam_size"] == 1 else beam
        if n := self.options.get("mbr"):
            search = f"of {n} samples the one most like all, recall {self.options['mbr_recall']:g}"
        return f"{search}{limit} (chrF1 {self.score:.1f}, {self.length:.2f} times as long as dev, TER {self.ter:.0f})"


def best_of(tried: Sequence[Tried]) -> Tried:
    """The best score among those of the right length; where there are none, the one whose length is nearest."""
    if fit := [one for one in tried if one.is_fit]:
        return max(fit, key=lambda one: one.score)
    return min(tried, key=lambda one: max(one.length, 1 / max(one.length, 1e-9)))


def keep_search(run: RunDir, pairs: Sequence[PreparedPair], check: Callable[[int], None]) -> None:
    """Writes the search that the trained run translates best with into its config, with the reason, once for each best
    checkpoint; not where a person has set one. A failure is only logged. `check` may raise Interrupted.

    A weak model's beam runs away, and chrF hides it; so the choice is by chrF1, which counts the superfluous as much as
    what is found, among the searches whose translations are as long in all as the references, give or take a tenth.
    """
    config = run.load_config()
    of_recipe, known = (_of_search(run.manifest.facts(product)) for product in ("recipe", "search"))
    usual = _DEFAULTS | of_recipe
    if config.decoding.model_dump(include={*SEARCHED}) not in (usual, usual | known):
        return  # as a person has set it
    try:
        inputs = {"best checkpoint": sha256_of_file(run.find_checkpoint("best"))}
        device = choose_device(config.training.device)
        with advise_when_out_of_memory(device, lambda: "while other searches were tried"):
            made = run.manifest.product("search", inputs, {}, lambda: _choice(run, config, usual, pairs, check))
        run.save_config(_with(config, usual | _of_search(made.facts)))
    except Interrupted:
        log.info("stopped before a search was chosen; the same command chooses it")
    except (OSError, RunDirError, CheckpointError, TrainingError) as error:
        log.warning(f"the search stays as it is: {error}")


def _with(config: Config, search: dict[str, Any]) -> Config:
    return config.model_copy(update={"decoding": config.decoding.model_copy(update=search)})


def _of_search(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a product chose of the search."""
    values = facts.get("values", {})
    return {key: values[f"decoding.{key}"] for key in SEARCHED if f"decoding.{key}" in values}


def _choice(
    run: RunDir, config: Config, usual: dict[str, Any], pairs: Sequence[PreparedPair], check: Callable[[int], None]
) -> Made:
    """`usual`: the search before one is chosen, which the config has while it may be stopped."""
    run.save_config(_with(config, usual))
    log.info("tries on dev how it translates best")
    device, chrf = config.training.device, CHRF(beta=1)
    translators = [Translator.load(run.path, device=device, to=pair.data.name) for pair in pairs]
    sets = [pair.dev_pairs[:: -(-len(pair.dev_pairs) // _MAX_LINES)] for pair in pairs]
    drawn = dict[Translator, list[list[str]]]()  # samples of each line, among which only `mbr_recall` chooses

    def translated(translator: Translator, lines: list[str], options: dict[str, Any]) -> list[str]:
        if not options["mbr"]:
            return translator.translate(lines, on_batch=check, **options)
        if translator not in drawn:
            how = options | {"sample": True, "n_best": options["mbr"], "mbr": 0}
            drawn[translator] = [one.texts for one in translator.translations(lines, on_batch=check, **how)]
        return [texts[most_alike_first(texts, options["mbr_recall"])[0]] for texts in drawn[translator]]

    def attempt(options: dict[str, Any]) -> Tried:
        scores, ters, n_written, n_wanted = list[float](), list[float](), 0, 0
        for translator, dev in zip(translators, sets, strict=True):
            references = [pair.tgt for pair in dev]
            hypotheses = translated(translator, [pair.src for pair in dev], usual | options)
            scores.append(chrf.corpus_score(hypotheses, [references]).score)
            if (ter := ter_of(translator.config.data.tgt_lang)) is not None:
                ters.append(ter.corpus_score(hypotheses, [references]).score)
            n_written, n_wanted = n_written + sum(map(len, hypotheses)), n_wanted + sum(map(len, references))
        return Tried(options, fmean(scores), n_written / max(1, n_wanted), max(ters, default=0.0))

    def attempts(options: dict[str, Any], key: str, low: float, value: float, high: float) -> Iterator[Tried]:
        """With values of `key` from low to high, which make translations longer: halves what is left."""
        for _ in range(_N_VALUES):
            yield (one := attempt(options | {key: value}))
            if one.is_fit:
                break
            low, high = (low, value) if one.is_long else (value, high)
            value = round((low + high) / 2, 2)

    tried = [attempt({"beam_size": 1}), *attempts(_BEAM, "length_penalty", *_PENALTIES)]
    if not best_of(tried).is_fit:
        ratio = round(_MARGIN * max(one.profile.length_ratio if one.profile else 1 for one in translators), 2)
        tried += [attempt(one.options | {"max_length_ratio": ratio}) for one in (tried[0], tried[-1])]
    if (best := best_of(tried)).score < _WEAK:
        # The options of the best remain, for exports, which draw no samples.
        tried += attempts(best.options | _SAMPLES, "mbr_recall", *_RECALL)
    best = best_of(tried)
    others = "; ".join(str(one) for one in tried if one is not best)
    fit = f"the best chrF1 on dev within a tenth of its length and with a TER below {_MOST_TER}"
    reason = fit if best.is_fit else "the nearest to the length of dev"
    reason = f"{best}: {reason}"
    log.info(f"search: {best}, of {len(tried)} that were tried; config.yaml has the reason")
    values = {f"decoding.{key}": value for key, value in best.options.items()}
    return Made(facts={"values": values, "reasons": dict.fromkeys(values, reason), "instead_of": others})
