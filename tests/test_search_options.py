"""What a search takes or leaves: constraints, sampling, forced scores, ensembles; and the options of `mt translate`."""

import json
import math
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from mt_cli.config import DecodingConfig
from mt_cli.data.batching import source_batch
from mt_cli.decoding.beam import Constraints, beam_search
from mt_cli.decoding.ensemble import Ensemble, token_scores
from mt_cli.decoding.sampling import draw, likeness, sample
from mt_cli.decoding.search import Searcher, adapted_settings
from mt_cli.decoding.translator import Translator
from mt_cli.errors import CheckpointError, UsageError
from mt_cli.model.inference import InferenceModel
from mt_cli.model.transformer import Transformer

MakeModel = Callable[..., Transformer]
SOURCES = [[4, 5, 6], [9], [10, 4, 4, 7]]


def lively(make_model: MakeModel, seed: int = 0) -> Transformer:
    """A random model that says more than one word for ever."""
    model = make_model(seed=seed, tie_embeddings="none", embedding_scale="none")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def every_allowed_translation(
    model: Transformer, source: list[int], limit: int, words: list[int], constraints: Constraints
) -> list[tuple[list[int], float, int]]:
    """Each translation of at most `limit` words that the constraints allow, with the sum of its log-probabilities and
    how many there are: one token after the other, without state."""
    prefix = constraints.prefixes[0] if constraints.prefixes else []
    n, found = constraints.no_repeat_ngram, []

    def repeats(ids: list[int]) -> bool:
        grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)] if n else []
        return bool(grams) and grams[-1] in grams[:-1]

    def go_on(ids: list[int], total: float) -> None:
        if len(ids) == limit:
            found.append((ids, total, limit))
            return
        *followed, ended = token_scores([model], [(source, one) for one in (*([*ids, word] for word in words), ids)])
        if len(ids) < len(prefix):
            allowed, may_end = prefix[len(ids) : len(ids) + 1], False
        else:
            allowed = [word for word in words if not repeats([*ids, word])]
            may_end = len(ids) >= constraints.min_length or not allowed
        if may_end:
            found.append((ids, total + ended[-1], len(ids) + 1))
        for word in allowed:
            go_on([*ids, word], total + followed[words.index(word)][len(ids)])

    go_on([], 0.0)
    return found


@pytest.mark.parametrize(
    "constraints",
    [
        Constraints(),
        Constraints(min_length=3),
        Constraints(no_repeat_ngram=2),
        Constraints(no_repeat_ngram=1, min_length=4),
        Constraints(prefixes=[[5, 5]]),
        Constraints(prefixes=[[5, 5]], no_repeat_ngram=1, min_length=3),
    ],
    ids=repr,
)
def test_a_wide_beam_finds_the_best_of_all_that_the_constraints_allow(constraints, make_model):
    for seed, alpha in ((0, 0.0), (1, 0.6), (2, 1.0)):
        model = make_model(vocab_size=6, seed=seed, tie_embeddings="none", embedding_scale="none")  # two words
        found = every_allowed_translation(model, [4, 5], 4, [4, 5], constraints)
        for normalization in ("gnmt", "average"):
            options = {"alpha": alpha, "normalization": normalization, "constraints": constraints}
            [beam] = beam_search(InferenceModel(model), *source_batch([[4, 5]]), [4], beam_size=40, **options)
            divisors = [((5 + n) / 6) ** alpha if normalization == "gnmt" else n**alpha for _, _, n in found]
            expected = [(ids, total / by) for (ids, total, _), by in zip(found, divisors, strict=True)]
            expected.sort(key=lambda one: (len(one[0]) == 4, -one[1]))  # those that are cut off are last
            assert sorted(h.ids for h in beam) == sorted(ids for ids, _ in expected)
            assert [h.score for h in beam] == pytest.approx([score for _, score in expected], abs=1e-4)
            assert beam[0].ids == expected[0][0]


PROBABILITIES = torch.tensor([0.5, 0.3, 0.15, 0.05])


def test_draws_follow_the_probabilities():
    uniform = torch.from_numpy(np.random.default_rng(0).random(20_000)).float()
    drawn = draw(PROBABILITIES.log().expand(20_000, -1), uniform, 1.0, 0, 1.0)
    shares = torch.bincount(drawn, minlength=4) / 20_000
    torch.testing.assert_close(shares, PROBABILITIES, atol=0.015, rtol=0)  # four standard deviations


def test_top_k_top_p_and_a_low_temperature_narrow_the_draw():
    log_probs, uniform = PROBABILITIES.log().expand(500, -1), torch.linspace(0, 0.9999, 500)
    for temperature, top_k, top_p, n_drawn in (1.0, 2, 1.0, 2), (1.0, 0, 0.7, 2), (1.0, 0, 0.01, 1), (0.01, 0, 1.0, 1):
        drawn = draw(log_probs, uniform, temperature, top_k, top_p)
        assert set(drawn.tolist()) == set(range(n_drawn)), (temperature, top_k, top_p)


def test_a_sample_is_the_same_alone_and_in_a_batch_and_changes_with_the_seed(make_model):
    model, seeds = InferenceModel(lively(make_model)), [(1, 0), (1, 1), (1, 2)]
    together = sample(model, *source_batch(SOURCES), [9] * 3, seeds)
    alone = [sample(model, *source_batch([s]), [9], [seed])[0] for s, seed in zip(SOURCES, seeds, strict=True)]
    assert [h.ids for h in together] == [h.ids for h in alone]
    assert len({tuple(sample(model, *source_batch([SOURCES[0]]), [9], [(s,)])[0].ids) for s in range(20)}) > 3


@pytest.mark.parametrize("n_models", [1, 3])
def test_forced_scores_are_those_of_the_search(n_models, make_model):
    models = [lively(make_model, seed) for seed in range(n_models)]
    ensemble = Ensemble([InferenceModel(model) for model in models])
    found = [hypotheses[0] for hypotheses in beam_search(ensemble, *source_batch(SOURCES), [30] * 3, 4, 0.0)]
    assert any(hypothesis.is_complete for hypothesis in found)
    scores = token_scores(models, [(source, one.ids) for source, one in zip(SOURCES, found, strict=True)])
    for hypothesis, row in zip(found, scores, strict=True):
        assert len(row) == len(hypothesis.ids) + 1
        if hypothesis.is_complete:
            assert hypothesis.score == pytest.approx(math.fsum(row), abs=1e-4)


def test_an_ensemble_averages_probabilities(make_model):
    models = [InferenceModel(lively(make_model, seed)) for seed in (0, 1, 2)]
    batch, last = source_batch(SOURCES), torch.tensor([2, 2, 2])
    with torch.inference_mode():
        ensemble = Ensemble(models)
        together = ensemble.advance(ensemble.start(*batch, 4), last).softmax(-1)
        each = [model.advance(model.start(*batch, 4), last).softmax(-1) for model in models]
    torch.testing.assert_close(together, torch.stack(each).mean(0))


WORDS = ["the", "red", "cat", "dog", "sees", "house", "tree", "a"]
LINES = [" ".join(WORDS[(i * k) % 8] for k in range(1, 1 + i % 7)) for i in range(15)]


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def translator(trained_run):
    return Translator.load(trained_run)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_sentence_translates_the_same_in_any_batch_order_and_thread(beam_size, trained_run, two_threads):
    translator = Translator.load(trained_run)
    alone = [translator.translations([line], beam_size=beam_size)[0] for line in LINES]
    for batch_size in (2, 7, 64):
        together = translator.translations(LINES, beam_size=beam_size, batch_size=batch_size)
        backwards = translator.translations(LINES[::-1], beam_size=beam_size, batch_size=batch_size)[::-1]
        for one, two, three in zip(alone, together, backwards, strict=True):
            assert one.texts == two.texts == three.texts
            assert two.scores == pytest.approx(one.scores, abs=1e-4)
            assert three.scores == pytest.approx(one.scores, abs=1e-4)
    with ThreadPoolExecutor() as pool:
        assert pool.submit(torch.get_num_threads).result() == torch.get_num_threads() == 2


def test_who_is_told_of_each_batch_can_stop_the_rest(translator, two_threads, monkeypatch):
    told, decoded = [], []

    def stop(n_sentences: int) -> None:
        told.append(n_sentences)
        raise KeyboardInterrupt

    real = Searcher.search_batch
    monkeypatch.setattr(Searcher, "search_batch", lambda *args: [decoded.append(1), real(*args)][1])
    with pytest.raises(KeyboardInterrupt):
        translator.translations(list(map(" ".join, product(WORDS, repeat=3)))[:100], batch_size=2, on_batch=stop)
    assert told == [2] and len(decoded) < 25


def test_a_line_that_comes_again_is_searched_once_unless_it_is_sampled(translator, monkeypatch):
    asked, search = [], translator.search
    monkeypatch.setattr(translator, "search", lambda ids, *rest: [asked.append(len(ids)), search(ids, *rest)][1])
    lines, told = ["the cat", "dog", "", "the cat", "the cat"], []
    assert translator.translate(lines, on_batch=told.append) == ["die Katze", "Hund", "", "die Katze", "die Katze"]
    assert asked == [2] and sum(told) == 4
    translator.translations(lines, ["", "", "", "die", ""])
    translator.translations(lines, sample=True)
    assert asked == [2, 3, 4]


@given(st.lists(st.text("aab c", max_size=12), min_size=1, max_size=5))
def test_texts_are_as_alike_as_sacrebleu_says(texts):
    for beta in (1, 2, 3):
        metric = CHRF(beta=beta)
        expected = [[metric.sentence_score(text, [other]).score for other in texts] for text in texts]
        np.testing.assert_allclose(100 * likeness(texts, beta), expected, atol=1e-6)


def test_an_option_that_names_a_search_takes_the_place_of_the_one_of_the_config():
    of_mbr, drawn = DecodingConfig(mbr=9), DecodingConfig(sample=True)
    others = {"beam_size": 1}, {"sample": True}, {"n_best": 3}, {"sample": False}
    assert [adapted_settings(of_mbr, one).mbr for one in others] == [0, 0, 9, 9]
    others = {"beam_size": 1}, {"mbr": 9}, {"n_best": 3}, {"mbr": 0}
    assert [adapted_settings(drawn, one).sample for one in others] == [0, 0, 1, 1]


def test_the_sample_that_is_most_like_all_is_the_translation(translator, monkeypatch):
    drawn, options = list[str](), {"mbr": 12, "mbr_recall": 3, "temperature": 4.0}

    def recorded(*arguments):
        found = sample(*arguments)
        drawn.append(translator.tokenizer.decode_tgt(found[0].ids))
        return found

    monkeypatch.setattr("mt_cli.decoding.search.sample", recorded)
    first, again = translator.translations(["the red cat sees a dog"] * 2, n_best=12, **options)
    assert len(drawn) == 12 and first.texts == again.texts, "a line has one translation wherever it stands"
    score = CHRF(beta=3).sentence_score
    risk = {text: -sum(score(text, [other]).score for other in drawn) for text in drawn}
    assert first.texts == sorted(risk, key=lambda text: (round(risk[text], 6), drawn.index(text)))
    assert len(first.texts) > 5 and first.texts[0] != drawn[0]
    assert translator.translate(["cat"], **options) != translator.translate(["cat"], seed=2, **options)
    greedy, terms = translator.translate(["cat"]), {"cat": "Katzentier"}
    assert translator.translate(["cat"], mbr=3, temperature=0.01) == greedy
    assert "Katzentier" in translator.translate(["cat"], glossary=terms, strict_terms=True, **options)[0]


def test_n_best_is_what_moses_prints_and_json_has_the_same(mt, trained_run):
    command = ["translate", trained_run, "--n-best", 3]
    rows = [line.split(" ||| ") for line in mt(*command, stdin=b"red cat\n\nthe dog\n").lines]
    assert [number for number, _, _ in rows] == ["0"] * 3 + ["1"] + ["2"] * 3
    scores = [float(score) for number, _, score in rows if number == "0"]
    assert scores == sorted(scores, reverse=True) and rows[0][1] == "rot Katze"
    first, blank = map(json.loads, mt(*command, "--json", stdin=b"red cat\n\n").lines)
    assert [one["text"] for one in first["hypotheses"]] == [text for _, text, _ in rows[:3]]
    assert first["source"] == "red cat" and first["alignment"] == "0-0 1-1"
    assert blank["hypotheses"] == [{"text": "", "score": 0.0, "tokens": [], "token_scores": []}]


def test_score_gives_total_and_tokens_and_wants_parallel_files(mt, trained_run, tmp_path):
    references = tmp_path / "ref.de"
    references.write_text("rot Katze\nHund\n\n")
    lines = mt("score", trained_run, "--ref", references, stdin=b"red cat\nred cat\nthe dog\n").lines
    right, wrong = (float(line.split("\t")[0]) for line in lines[:2])
    assert right > wrong and lines[2] == ""
    tokens = [float(cell.rpartition(":")[2]) for cell in lines[0].split("\t")[1].split()]
    assert math.fsum(tokens) == pytest.approx(right, abs=1e-3)
    for stdin in (b"red cat\n", b"a\n" * 5):
        answer = mt("score", trained_run, "--ref", references, stdin=stdin)
        assert answer.code == 1 and len(answer.said) == 1 and "line for line" in answer.said[0]


def test_a_prefix_begins_each_translation(mt, trained_run, translator):
    lines = mt("translate", trained_run, "--prefix", "Baum", stdin=b"red\nthe\n").lines
    assert len(lines) == 2 and all(line.startswith("Baum") for line in lines)
    first, second = translator.translations(["red", "the cat"], ["Haus", ""])
    assert first.text.startswith("Haus") and second.text == "die Katze"
    # Also one that is longer than the translation might be, up to the 63 tokens that the model writes.
    [translation] = translator.translations(["cat"], ["rot " * 20], min_length=25)
    assert translation.text.startswith("rot " * 19 + "rot") and len(translation.parts[0].hypotheses[0].ids) >= 25
    assert translator.translations(["cat"], ["rot " * 62])[0].text.startswith("rot " * 61 + "rot")


def test_a_narrower_beam_than_the_configs_n_best_gives_as_many_as_it_has(mt, trained_run, tiny):
    config = (run := Path(shutil.copytree(trained_run, tiny / "run"))) / "config.yaml"
    config.write_text(re.sub("(beam_size|n_best): 1\n", r"\1: 4\n", config.read_text()))
    for command in ("translate", run, "--beam-size", 2), ("evaluate", run, "--beam-size", 1):
        assert mt(*command, stdin=b"the cat\n").code == 0
    assert len(Translator.load(run).translations(["the cat"], beam_size=2)[0].texts) == 2


def test_runs_are_averaged_and_must_share_a_tokenizer(mt, trained_run, tiny):
    for models in ([trained_run, "--checkpoint", "best", "--checkpoint", "last"], [trained_run, trained_run]):
        assert mt("translate", *models, stdin=b"the cat\n").lines == ["die Katze"]
    settings = ["--set", "training.max_steps=1", "--set", "tokenizer.algorithm=bpe"]
    assert mt("train", "tiny.yaml", "--run-dir", "other", *settings).code == 0
    with pytest.raises(CheckpointError, match="another tokenizer"):
        Translator.load(trained_run, "other")


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ([["\ud83d"]], {}, r"'\\ud83d' is no Unicode text: it has half a character"),
        ([["a cat"], ["caf\udce9"]], {}, r"'caf\\udce9' is no Unicode text"),
        ([["a cat"]], {"nonsense": 1}, ".*nonsense"),
        (["the cat"], {}, "expected a list of lines, found the text 'the cat'; put it into a list$"),
        ([["the cat", None]], {}, "expected lines of text, found NoneType; write an empty one as ''$"),
        ([["a", "cat"], ["", "rot " * 63]], {"first_line": 10}, "line 12: a prefix of 63 tokens, expected fewer than 63, "),
        ([["a", "cat"], ["rot"]], {}, "1 prefixes for 2 lines; give one for each$"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated_is_named(translator, arguments, options, said):
    with pytest.raises(UsageError, match=f"^{said}"):
        translator.translations(*arguments, **options)


def test_threads_may_share_a_translator(translator):
    asked = [(LINES[i:] + LINES[:i], {"beam_size": 1 + i % 3, "batch_size": 1 + i}) for i in range(6)]
    alone = [translator.translate(lines, **options) for lines, options in asked]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda one: translator.translate(one[0], **one[1]), asked * 2))
    assert together == alone * 2


@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True, "beam_size": 1}])
def test_what_is_cut_off_at_the_limit_is_known_to_be(translator, search):
    whole, cut = (
        translator.translations(["the cat"], **search, **more)[0].parts[0].hypotheses[0]
        for more in ({}, {"max_length_ratio": 0.01, "min_length": 60})
    )
    assert whole.is_complete and len(whole.ids) < 10
    assert not cut.is_complete and len(cut.ids) == 10


def test_a_translation_may_be_as_long_as_those_of_training_are(translator):
    assert translator.max_length(3, translator.config.decoding) == 16, "twice as long and ten more"
    assert translator.max_length(3, translator.settings(min_length=20)) == 30, "so that it can still end"
    profile = translator.profile.model_copy(update={"length_ratio": 6.0, "longest_deviation": 1.0})
    longer = Translator(translator.models, translator.tokenizer, translator.config, profile)
    assert longer.max_length(3, longer.settings()) == 26  # 6 * 4 + 1 * 2, the end symbol counted
    assert longer.max_length(3, longer.settings(max_length_ratio=1.0)) == 13


def test_a_text_is_translated_line_by_line_and_prints_as_what_it_is(translator, trained_run):
    assert translator.translate("the cat\n\ndog") == "die Katze\n\nHund"
    assert translator.translate(iter(["the cat", "", "dog"])) == ["die Katze", "", "Hund"]
    for line_break in ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"]:  # within a line
        [translation] = translator.translations([f"the cat{line_break}dog"])
        assert str(translation) == translation.text == f"die Katze{line_break}Hund"
    assert repr(translator).startswith(f"<Translator en to de: {trained_run} (best), ")


def test_spaces_at_the_ends_of_a_line_are_put_back(translator, trained_run, mt):
    lines = ["  the cat \t", "\u00a0dog\u202f", " \t", "the cat"]
    content = "\n".join(lines).encode()
    expected = ["  die Katze \t", "\u00a0Hund\u202f", "", "die Katze"]
    assert translator.translate(lines) == mt("translate", trained_run, stdin=content).lines == expected
    [translation] = translator.translations(lines[:1], beam_size=2, n_best=2)
    assert all(text[:2] == "  " and text[-2:] == " \t" for text in translation.texts)


@pytest.mark.parametrize(("tgt_lang", "space"), [("de", " "), ("th", " "), ("zh", "")])
def test_a_long_line_is_split_at_sentence_ends_and_joined_as_its_language_is_written(translator, tgt_lang, space):
    data = translator.config.data.model_copy(update={"tgt_lang": tgt_lang})
    config = translator.config.model_copy(update={"data": data})
    other = Translator(translator.models, translator.tokenizer, config, translator.profile)
    [found] = other.translations([" ".join(["the cat. the dog."] * 4)])
    pieces = [other.tokenizer.decode_src(part.src_ids) for part in found.parts]
    assert pieces == ["the cat", "the dog"] * 4, "no line of training has a full stop"
    texts = [other.tokenizer.decode_tgt(part.hypotheses[0].ids) for part in found.parts]
    assert all(texts) and found.text == space.join(f"{text}." for text in texts)
