"""An option of the search is declared once, in `DecodingConfig`, and reaches every command that searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mt_cli.config import DecodingConfig
from mt_cli.config_file import read_search_options
from mt_cli.errors import ConfigError

Mt = Callable[..., Any]


@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_every_key_of_decoding_is_an_option(mt, command):
    text = mt(command, "--help").out.decode()
    for key in DecodingConfig.model_fields:
        assert (f"  --{key.replace('_', '-')} " in text) == (command == "translate" or key != "n_best"), key


TRIAL = """if True:
    import sys
    for name in [name for name in sys.modules if name.startswith("mt_cli")]:
        del sys.modules[name]
    from pydantic import Field
    import mt_cli.config

    class Trial(mt_cli.config.DecodingConfig):
        n_wishes: int = Field(3, ge=1, le=5, description="Wishes that are granted. None is granted twice.")

    mt_cli.config.DecodingConfig = Trial
    class Config(mt_cli.config.Config):
        decoding: Trial = Trial()
    mt_cli.config.Config = Config

    from mt_cli.decoding.translator import Translator
    search = Translator.search
    def spy(self, requests, settings, *rest):
        print("granted", settings.n_wishes, file=sys.stderr)
        return search(self, requests, settings, *rest)
    Translator.search = spy
"""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["translate", "--help"], "--n-wishes <int>                Wishes that are granted."),
        (["translate", "RUN", "test.en"], "granted 3"),
        (["translate", "RUN", "test.en", "--n-wishes", "2"], "granted 2"),
        (["translate", "RUN", "test.en", "--set", "decoding.n_wishes=2"], "granted 2"),
        (["translate", "RUN", "--n-wishes", "6"], "error: --n-wishes 6: decoding.n_wishes: expected a whole number from 1 to 5, found 6"),
        (["translate", "RUN", "--set", "n_wishs=1"], "n_wishs: unknown key, did you mean 'decoding.n_wishes'?"),
        (["evaluate", "RUN", "--n-wishes", "2"], "granted 2"),
        (["translate", "RUN", "--engine", "ctranslate2", "--n-wishes", "2"], "needs --set decoding.n_wishes=3"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_new_key_is_at_once_an_option_of_every_command(mt_process, tiny, trained_run, arguments, told):
    Path("RUN").symlink_to(trained_run)
    out, err = mt_process(*arguments, before=TRIAL).communicate()
    assert told in (out + err).decode()


def test_options_and_sets_become_keys_and_every_mistake_is_reported():
    both = read_search_options({"beam_size": 3}, ["decoding.beam_size=4", "decoding.max_length_ratio=null"])
    assert both == {"beam_size": 3, "max_length_ratio": None}
    with pytest.raises(ConfigError) as caught:
        read_search_options({"top_p": 2.0}, ["decoding.seed=x", "decoding.seed", "model.dropout=0", "nothing=1"])
    sets = [f"--set {one}" for one in ("decoding.seed", "model.dropout=0", "nothing=1")]
    assert [problem.split(": ")[0] for problem in caught.value.args] == [*sets, "--top-p 2.0", "--set decoding.seed=x"]


@pytest.mark.parametrize(
    ("settings", "unused"),
    [
        ({}, {"temperature", "top_k", "top_p", "seed", "length_penalty", "length_normalization"}),
        ({"beam_size": 2}, {"temperature", "top_k", "top_p", "seed"}),
        ({"sample": True}, {"beam_size", "length_penalty", "length_normalization"}),
    ],
)
def test_keys_that_a_search_does_not_use_are_known(settings, unused):
    assert set(DecodingConfig(**settings).keys_without_effect()) == unused


def test_what_set_asks_for_is_what_the_option_asks_for(mt, tiny, trained_run):
    for key, value in (("min_length", 9), ("n_best", 2), ("max_length_ratio", 0.1)):
        option = mt("translate", trained_run, "test.en", f"--{key.replace('_', '-')}", value)
        assert option.code == 0
        assert mt("translate", trained_run, "test.en", "--set", f"decoding.{key}={value}").out == option.out
    scores = mt("evaluate", trained_run, "--min-length", 9).lines
    assert mt("evaluate", trained_run, "--set", "decoding.min_length=9").lines[1].split()[:7] == scores[1].split()[:7]
    refused = mt("evaluate", trained_run, "--set", "decoding.n_best=3")
    assert refused.said == ["error: --set decoding.n_best has no effect here; leave it out"]
