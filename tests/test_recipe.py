"""What a config leaves open is chosen from the corpus."""

import itertools
from typing import Any
from unittest.mock import Mock

import pytest

from mt_cli.config import OPEN_KEYS, given_keys
from mt_cli.config_file import complete, config_of
from mt_cli.data.dataset import TokenDataset
from mt_cli.recipe import CorpusFacts, FactsCounter, choose
from mt_cli.training import memory
from mt_cli.training.memory import update_seconds

DATA: dict[str, Any] = {"src_lang": "es", "tgt_lang": "gn", "train": ["a.es", "a.gn"]}


def facts(n_pairs: int, shared_letters: float = 1.0, n_different_characters: int = 80) -> CorpusFacts:
    return CorpusFacts(n_pairs, n_pairs, 70 * n_pairs, 70 * n_pairs, n_different_characters, shared_letters)


def chosen(corpus: CorpusFacts, *overrides: str) -> Any:
    config = config_of(DATA, overrides)
    choices = choose(corpus, given_keys(config), update_seconds=0.5)
    return complete(config, {key: choice.value for key, choice in choices.items()})


@pytest.mark.parametrize("shared_letters", [0.0, 1.0])
def test_nothing_that_is_chosen_contradicts(shared_letters):
    for n_pairs, minutes in itertools.product((1, 700, 29_000, 10**8), ("null", "0.1", "60")):
        config = chosen(facts(n_pairs, shared_letters), f"training.minutes={minutes}")
        assert not list(config.contradictions())
        assert choose(facts(n_pairs, shared_letters), {}).keys() == OPEN_KEYS
    for override in (
        "training.both_directions=1", "tokenizer.joint=false", "model.tie_embeddings=all", "model.d_model=50",
        "decoding.n_best=9", "training.schedule=noam", "training.optimizer=adamw", "tokenizer.vocab_size=300",
    ):  # fmt: skip
        assert not list(chosen(facts(29_000, shared_letters), override).contradictions())
    for d_model in (2, 50, 4352, 8192):  # what is chosen is within the range of its key
        choices = choose(facts(29_000, shared_letters), {"model.d_model": d_model})
        config_of(DATA, [f"model.d_model={d_model}", *(f"{key}={choice.value}" for key, choice in choices.items())])


def test_a_key_that_is_set_stays_and_others_follow_it():
    config = chosen(facts(29_000), "model.d_model=96", "training.max_steps=1000", "model.dropout=0.05")
    assert (config.model.d_model, config.training.max_steps, config.model.dropout) == (96, 1000, 0.05)
    assert 96 % config.model.n_heads == 0 and config.model.ffn_dim < 512
    assert config.training.warmup_steps == 100
    assert "model.dropout" not in choose(facts(29_000), {"model.dropout": 0.05})
    usual, larger = chosen(facts(29_000)), chosen(facts(29_000), "training.batch_tokens=8192", "training.accumulate=2")
    assert larger.training.max_steps == pytest.approx(usual.training.max_steps / 8, rel=0.05)
    for n_pairs in (8_000, 10_222, 14_666, 29_109):
        training = chosen(facts(n_pairs)).training
        assert training.max_steps / training.validate_every_steps <= 12


def test_larger_corpora_get_larger_networks_and_less_regularization():
    configs = [chosen(facts(10**n)) for n in range(3, 8)]
    sizes = [config.model.d_model for config in configs]
    dropouts = [config.model.dropout for config in configs]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    assert dropouts == sorted(dropouts, reverse=True) and dropouts[0] > dropouts[-1]
    assert configs[0].training.r_drop and not configs[-1].training.r_drop
    long, short = facts(9_000), facts(9_000)._replace(n_characters=9_000 * 40)  # Aymara and Wixarika
    rows = [chosen(one) for one in (facts(4_000), short, long)]
    assert [(one.tokenizer.vocab_size, one.model.dropout) for one in rows] == [(2_000, 0.3), (4_000, 0.3), (8_000, 0.2)]
    assert [chosen(facts(n)).decoding.no_repeat_ngram for n in (1_000, 15_000, 15_001)] == [4, 4, 0]
    config = chosen(facts(20_000, shared_letters=0.01))
    assert not config.tokenizer.joint and config.model.tie_embeddings == "target"
    assert config.training.both_directions == 0
    assert chosen(facts(1_000, n_different_characters=3_000)).tokenizer.vocab_size > 6_000


def test_the_reasons_are_those_of_the_choice():
    def reason(key: str, shared_letters: float, **given: Any) -> str:
        return choose(facts(29_000, shared_letters), given)[key].reason

    twice = reason("training.r_drop", 1.0, **{"training.both_directions": 1.0})
    assert twice == "both directions are learnt to the end"
    assert reason("tokenizer.joint", 1.0) == "the languages share their letters"
    assert reason("tokenizer.joint", 0.0, **{"training.both_directions": 0.5}) == "other keys need it"


def test_few_minutes_are_spent_on_a_smaller_network_and_not_on_second_passes():
    """29,000 pairs with two vocabularies read each pair twice in all steps, with one in the second half."""
    for shared_letters, passes, which in ((1.0, 1.5, "the last steps"), (0.01, 2.0, "all steps")):
        corpus = facts(29_000, shared_letters)
        minutes = passes * chosen(corpus).training.max_steps * 0.5 / 60
        for share, r_drop in ((0.49, 0.0), (0.51, 1.0)):
            choice = choose(corpus, {"training.minutes": share * minutes}, 0.5)["training.r_drop"]
            assert choice.value == r_drop
        assert choice.reason == f"{which} read each pair twice"
    usual, hurried = (chosen(facts(3_000), f"training.minutes={minutes}") for minutes in (1000, 2))
    assert (usual.model.dropout, hurried.model.dropout) == (0.3, 0.1)
    assert hurried.model.d_model < usual.model.d_model
    assert hurried.tokenizer.vocab_size == usual.tokenizer.vocab_size


def test_facts_are_counted_from_the_text():
    counter = FactsCounter()
    for src, tgt in [("猫", "A cat."), ("狗", "A dog."), ("猫", "A cat.")]:
        counter.add(src, tgt)
    found = counter.facts()
    assert (found.n_pairs, found.n_distinct, found.n_src_characters, found.n_characters) == (3, 2, 3, 18)
    assert found.shared_letters == 0 and found.n_different_characters == len(set("猫狗A cat.dog"))
    counter.add("a cat and a dog", "a cat and a dog")
    assert counter.facts().shared_letters > 0.5


def test_any_config_is_timed(monkeypatch):
    corpus, small = (
        facts(3_000),
        ("model.d_model=64", "model.ffn_dim=64", "model.n_heads=2", "tokenizer.vocab_size=500"),
    )
    seconds = lambda *overrides: update_seconds(chosen(corpus, *small, *overrides), corpus)
    overrides = ["training.batch_tokens=48", "tokenizer.joint=false"]
    least = min(seconds(*overrides) for _ in range(2))  # other work may interrupt
    assert 0 < least < seconds(*overrides, "model.n_encoder_layers=12") < float("inf")
    timed = Mock(side_effect=TokenDataset.in_memory)
    monkeypatch.setattr(TokenDataset, "in_memory", timed)
    update_seconds(chosen(corpus, *small), corpus._replace(n_src_characters=2 * corpus.n_characters))
    pairs = timed.call_args.args[0]  # of the lengths that the sentences of the corpus have
    assert {len(pair.src) + 1 for pair in pairs} == {37} and {len(pair.tgt) + 1 for pair in pairs} == {18}
    monkeypatch.setattr(memory, "Transformer", Mock(side_effect=RuntimeError("out of memory")))
    assert seconds() == float("inf")
