"""What a search takes or leaves: constraints, sampling, forced scores, ensembles; and the options of `mt translate`."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mt_cli.data.batching import source_batch
from mt_cli.decoding.beam import Constraints, beam_search
from mt_cli.decoding.ensemble import Ensemble, token_scores
from mt_cli.decoding.sampling import draw, sample
from mt_cli.decoding.search import Searcher
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


# Constraints ---------------------------------------------------------------------------------------------------------


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
        texts = [[*ids, word] for word in words]
        *followed, ended = token_scores([model], [(source, one) for one in (*texts, ids)])
        following, to_end = {word: one[len(ids)] for word, one in zip(words, followed, strict=True)}, ended[-1]
        if len(ids) < len(prefix):
            allowed, may_end = prefix[len(ids) : len(ids) + 1], False
        else:
            allowed = [word for word in words if not repeats([*ids, word])]
            may_end = len(ids) >= constraints.min_length or not allowed
        if may_end:
            found.append((ids, total + to_end, len(ids) + 1))
        for word in allowed:
            go_on([*ids, word], total + following[word])

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
            expected = [
                (ids, total / (((5 + n) / 6) ** alpha if normalization == "gnmt" else n**alpha))
                for ids, total, n in found
            ]
            expected.sort(key=lambda one: (len(one[0]) == 4, -one[1]))  # those that are cut off are last
            assert sorted(h.ids for h in beam) == sorted(ids for ids, _ in expected)
            assert [h.score for h in beam] == pytest.approx([score for _, score in expected], abs=1e-4)
            assert beam[0].ids == expected[0][0]


# Sampling ------------------------------------------------------------------------------------------------------------


def test_draws_follow_the_probabilities():
    probs = torch.tensor([0.5, 0.3, 0.15, 0.05])
    uniform = torch.from_numpy(np.random.default_rng(0).random(20_000)).float()
    drawn = draw(probs.log().expand(20_000, -1), uniform, 1.0, 0, 1.0)
    shares = torch.bincount(drawn, minlength=4) / 20_000
    torch.testing.assert_close(shares, probs, atol=0.015, rtol=0)  # four standard deviations


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((1.0, 2, 1.0), {0, 1}),
        ((1.0, 0, 0.7), {0, 1}),
        ((1.0, 0, 0.01), {0}),
        ((0.01, 0, 1.0), {0}),
        ((1.0, 1, 1.0), {0}),
    ],
)
def test_top_k_top_p_and_a_low_temperature_narrow_the_draw(options, expected):
    log_probs = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(500, -1)
    assert set(draw(log_probs, torch.linspace(0, 0.9999, 500), *options).tolist()) == expected


def test_a_sample_is_the_same_alone_and_in_a_batch_and_changes_with_the_seed(make_model):
    model = lively(make_model)
    seeds = [(1, 0), (1, 1), (1, 2)]
    together = sample(InferenceModel(model), *source_batch(SOURCES), [9] * 3, seeds)
    model = InferenceModel(model)
    alone = [sample(model, *source_batch([s]), [9], [seed])[0] for s, seed in zip(SOURCES, seeds, strict=True)]
    assert [h.ids for h in together] == [h.ids for h in alone]
    assert len({tuple(sample(model, *source_batch([SOURCES[0]]), [9], [(s,)])[0].ids) for s in range(20)}) > 3


# Forced scores and ensembles -----------------------------------------------------------------------------------------


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


# Batches and threads -------------------------------------------------------------------------------------------------

WORDS = ["the", "red", "cat", "dog", "sees", "house", "tree", "a"]
LINES = [" ".join(WORDS[(i * k) % 8] for k in range(1, 1 + i % 7)) for i in range(15)]


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


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


def test_who_is_told_of_each_batch_can_stop_the_rest(trained_run, two_threads, monkeypatch):
    translator, told = Translator.load(trained_run), []

    def stop(n_sentences: int) -> None:
        told.append(n_sentences)
        raise KeyboardInterrupt

    decoded: list[int] = []
    real = Searcher.search_batch
    monkeypatch.setattr(Searcher, "search_batch", lambda *args: [decoded.append(1), real(*args)][1])
    with pytest.raises(KeyboardInterrupt):
        translator.translations(list(map(" ".join, product(WORDS, repeat=3)))[:100], batch_size=2, on_batch=stop)
    assert told == [2] and len(decoded) < 25


def test_a_line_that_comes_again_is_searched_once_unless_it_is_sampled(trained_run):
    translator, asked = Translator.load(trained_run), []
    search = translator.search
    translator.search = lambda sentences, *rest: [asked.append(len(sentences)), search(sentences, *rest)][1]  # type: ignore[method-assign]
    lines, told = ["the cat", "dog", "", "the cat", "the cat"], []
    assert translator.translate(lines, on_batch=told.append) == ["die Katze", "Hund", "", "die Katze", "die Katze"]
    assert asked == [2] and sum(told) == 4
    translator.translations(lines, ["", "", "", "die", ""])
    translator.translations(lines, sample=True)
    assert asked == [2, 3, 4]


# On the command line -------------------------------------------------------------------------------------------------

Mt = Callable[..., Any]


def test_n_best_is_what_moses_prints(mt, trained_run):
    lines = mt("translate", trained_run, "--n-best", 3, stdin=b"red cat\n\nthe dog\n").lines
    numbers = [line.split(" ||| ")[0] for line in lines]
    assert numbers == ["0"] * 3 + ["1"] + ["2"] * 3
    scores = [float(line.split(" ||| ")[2]) for line in lines if line.startswith("0")]
    assert scores == sorted(scores, reverse=True)
    [line] = mt("translate", trained_run, "--n-best", 1, stdin=b"red cat\n").lines
    assert line.startswith("0 ||| rot Katze ||| -")


def test_json_has_tokens_scores_and_an_alignment(mt, trained_run):
    answer = mt("translate", trained_run, "--json", "--beam-size", 3, "--n-best", 2, stdin=b"red cat\n\n")
    first, blank = map(json.loads, answer.lines)
    assert first["source"] == "red cat" and len(first["hypotheses"]) == 2
    for hypothesis in first["hypotheses"]:
        assert len(hypothesis["tokens"]) == len(hypothesis["token_scores"])
    plain = mt("translate", trained_run, "--beam-size", 3, stdin=b"red cat\n").lines
    assert first["hypotheses"][0]["text"] == plain[0]
    links = [tuple(map(int, link.split("-"))) for link in first["alignment"].split()]
    n_tgt = len(first["hypotheses"][0]["tokens"]) - 1
    assert [tgt for _, tgt in links] == list(range(n_tgt))
    assert all(src < len(first["source_tokens"]) for src, _ in links)
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


def test_a_prefix_begins_each_translation(mt, trained_run):
    lines = mt("translate", trained_run, "--prefix", "Baum", stdin=b"red\nthe\n").lines
    assert len(lines) == 2 and all(line.startswith("Baum") for line in lines)
    first, second = Translator.load(trained_run).translations(["red", "the cat"], ["Haus", ""])
    assert first.text.startswith("Haus") and second.text == "die Katze"


def test_a_narrower_beam_than_the_configs_n_best_gives_as_many_as_it_has(mt, trained_run, tiny):
    run = Path(shutil.copytree(trained_run, tiny / "run"))
    config = (run / "config.yaml").read_text()
    config = config.replace("beam_size: 1\n", "beam_size: 4\n").replace("n_best: 1\n", "n_best: 4\n")
    (run / "config.yaml").write_text(config)
    for command in ("translate", run, "--beam-size", 2), ("evaluate", run, "--beam-size", 1):
        assert mt(*command, stdin=b"the cat\n").code == 0
    translation = Translator.load(run).translations(["the cat"], beam_size=2)[0]
    assert len(translation.texts) == 2


def test_runs_are_averaged_and_must_share_a_tokenizer(mt, trained_run, tiny):
    ensemble = mt("translate", trained_run, "--checkpoint", "best", "--checkpoint", "last", stdin=b"the cat\n")
    assert ensemble.lines == ["die Katze"]
    assert mt("translate", trained_run, trained_run, stdin=b"the cat\n").lines == ["die Katze"]
    with pytest.raises(CheckpointError, match="another tokenizer"):
        other = tiny / "other"
        settings = ["--set", "training.max_steps=1", "--set", "tokenizer.algorithm=bpe"]
        assert mt("train", "tiny.yaml", "--run-dir", other, *settings).code == 0
        Translator.load(trained_run, other)


@pytest.mark.parametrize("arguments", [{"lines": ["\ud83d"]}, {"lines": ["a cat"], "prefixes": ["caf\udce9"]}])
def test_half_a_character_is_told(trained_run, arguments):
    with pytest.raises(UsageError, match=r"^'(caf)?\\ud\w+' is no Unicode text: it has half a character"):
        Translator.load(trained_run).translations(**arguments)


def test_threads_may_share_a_translator(trained_run):
    translator = Translator.load(trained_run)
    asked = [(LINES[i:] + LINES[:i], {"beam_size": 1 + i % 3, "batch_size": 1 + i}) for i in range(8)]
    alone = [translator.translate(lines, **options) for lines, options in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda one: translator.translate(one[0], **one[1]), asked * 3))
    assert together == alone * 3


def test_a_prefix_longer_than_its_translation_might_be_leaves_room_for_it(trained_run):
    translator, given = Translator.load(trained_run), " ".join(["rot"] * 20)
    [translation] = translator.translations(["cat"], [given], min_length=25)
    assert translation.text.startswith(given) and len(translation.parts[0].hypotheses[0].ids) >= 25


@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True, "beam_size": 1}])
def test_what_is_cut_off_at_the_limit_is_known_to_be(trained_run, search):
    translator = Translator.load(trained_run)
    [whole], [cut] = (
        [part.hypotheses[0] for part in translator.translations(["the cat"], **search, **more)[0].parts]
        for more in ({}, {"max_length_ratio": 0.01, "min_length": 60})
    )
    assert whole.is_complete and len(whole.ids) < 10
    assert not cut.is_complete and len(cut.ids) == 10


def test_a_translation_may_be_as_long_as_those_of_training_are(trained_run):
    loaded = Translator.load(trained_run)
    assert loaded.max_length(3, loaded.config.decoding) == 16, "twice as long and ten more"
    assert loaded.max_length(3, loaded.settings(min_length=20)) == 30, "so that it can still end"
    assert loaded.profile is not None
    profile = loaded.profile.model_copy(update={"length_ratio": 6.0, "longest_deviation": 1.0})
    translator = Translator(loaded.models, loaded.tokenizer, loaded.config, profile)
    assert translator.max_length(3, translator.settings()) == 26  # 6 * 4 + 1 * 2, the end symbol counted
    assert translator.max_length(3, translator.settings(max_length_ratio=1.0)) == 13


def test_python_users_get_the_same_and_usage_errors(trained_run, mt):
    translator = Translator.load(trained_run)
    lines = ["the cat", "", "dog"]
    printed = mt("translate", trained_run, "--beam-size", 2, stdin="\n".join(lines).encode()).lines
    assert translator.translate(lines, beam_size=2) == printed and printed[1] == ""
    with pytest.raises(UsageError, match="nonsense"):
        translator.translate(["the cat"], nonsense=1)
    assert translator.translate(line for line in lines) == translator.translate(lines)
    with pytest.raises(UsageError, match=r"^expected a list of lines, found the text 'the cat'; put it into a list$"):
        translator.translations("the cat")
    with pytest.raises(UsageError, match=r"^expected lines of text, found NoneType; write an empty one as ''$"):
        translator.translate(["the cat", None])


def test_a_text_is_translated_line_by_line_and_prints_as_what_it_is(trained_run):
    translator = Translator.load(trained_run)
    assert translator.translate("the cat\n\ndog") == "die Katze\n\nHund"
    assert str(translator.translations(["the cat"])[0]) == "die Katze"
    assert repr(translator).startswith(f"<Translator en to de: {trained_run} (best), ")


@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n", "\v", "\f", "\x85", "\u2028", "\u2029"])
def test_what_stands_behind_a_line_break_within_a_line_is_a_sentence(trained_run, line_break):
    translator = Translator.load(trained_run)
    [translation] = translator.translations([f"the cat{line_break}the red dog"])
    assert translation.text == line_break.join(translator.translate(["the cat", "the red dog"]))


def test_spaces_at_the_ends_of_a_line_are_put_back(trained_run, mt):
    lines = ["  the cat \t", "\u00a0dog\u202f", " \t", "the cat"]
    content = "\n".join(lines).encode()
    expected = ["  die Katze \t", "\u00a0Hund\u202f", "", "die Katze"]
    translator = Translator.load(trained_run)
    assert translator.translate(lines) == mt("translate", trained_run, stdin=content).lines == expected
    [line, *_] = mt("translate", trained_run, "--json", "--n-best", 2, "--beam-size", 2, stdin=content).lines
    assert all(found["text"][:2] == "  " and found["text"][-2:] == " \t" for found in json.loads(line)["hypotheses"])


def test_a_long_line_is_split_at_sentence_ends_and_joined(trained_run):
    translator = Translator.load(trained_run)  # reads 16 tokens at once
    line = "the cat. " * 20
    translation = translator.translations([line])[0]
    assert len(translation.parts) > 1
    pieces = [translator.tokenizer.decode_src(part.src_ids) for part in translation.parts]
    assert pieces == ["the cat"] * 20 and translation.text.count(".") == 20, "no line of training has a full stop"
    assert all(len(part.src_ids) <= 16 for part in translation.parts)


@pytest.mark.parametrize(("tgt_lang", "space"), [("de", " "), ("th", " "), ("zh", "")])
def test_sentences_are_joined_as_their_language_writes_them(trained_run, tgt_lang, space):
    loaded = Translator.load(trained_run)
    data = loaded.config.data.model_copy(update={"tgt_lang": tgt_lang})
    config = loaded.config.model_copy(update={"data": data})
    translator = Translator(loaded.models, loaded.tokenizer, config, loaded.profile)
    found = translator.translations([" ".join(["the cat. the dog."] * 4)])[0]
    texts = [translator.tokenizer.decode_tgt(part.hypotheses[0].ids) for part in found.parts]
    assert len(texts) == 8 and all(texts) and found.text == space.join(f"{text}." for text in texts)


def test_a_prefix_for_each_line_and_none_longer_than_what_the_model_writes(trained_run):
    translator = Translator.load(trained_run)  # writes 63 tokens at most
    assert translator.translations(["cat"], ["rot " * 62])[0].text.startswith("rot " * 61 + "rot")
    with pytest.raises(UsageError, match=r"^line 12: a prefix of 63 tokens, expected fewer than 63, the most that the"):
        translator.translations(["a", "cat"], ["", "rot " * 63], first_line=10)
    with pytest.raises(UsageError, match=r"^1 prefixes for 2 lines; give one for each$"):
        translator.translations(["a", "cat"], ["rot"])
