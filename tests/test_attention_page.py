"""What was attended to: the values of a tiny model of random weights, and the page that shows them."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from mt_cli.cli.explain import ExplainLines
from mt_cli.config import Config
from mt_cli.data.tokenizer import BOS_ID, Tokenizer, train_tokenizer
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.parts import Part
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError
from mt_cli.explain import page as module
from mt_cli.explain.attention import AttentionMaps, attention_maps, cross_attention
from mt_cli.explain.page import AttentionPage, safe_json
from mt_cli.run.checkpoint import build_model

LINES = ["I have a cat", "two cats and a dog", "我有一只猫", "他有两只狗和一只猫。"]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=\"document.title='taken'\"> & $x$"
N_LAYERS, N_HEADS = 2, 3


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([lambda: iter(LINES * 5)], "unigram", 320)


def make_translator(tokenizer: Tokenizer, max_length: int = 128) -> Translator:
    torch.manual_seed(3)
    data = {"src_lang": "zh_CN", "tgt_lang": "en", "train": "t.tsv", "dev": "d.tsv", "max_length": max_length}
    model = {
        "d_model": 24,
        "ffn_dim": 32,
        "n_heads": N_HEADS,
        "n_encoder_layers": N_LAYERS,
        "n_decoder_layers": N_LAYERS,
    }
    config = Config.model_validate({"data": data, "model": model})
    return Translator([build_model(config, tokenizer)], tokenizer, config)


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Translator:
    return make_translator(tokenizer)


def attend(translator: Translator, line: str, **options: Any) -> AttentionMaps:
    [translation] = translator.translations([line], **options)
    return attention_maps(translator, translation.parts[0])


def forced(translator: Translator, src: str, tgt: str) -> AttentionMaps:
    """The attention while the model is made to write `tgt`."""
    src_ids, tgt_ids = translator.encode_pair(src, tgt)
    return attention_maps(translator, Part(src_ids, [Hypothesis(tgt_ids, 0.0)]))


def write_page(file: Path, *all_maps: AttentionMaps) -> str:
    page = AttentionPage(file)
    for maps in all_maps:
        page.add(maps)
    page.write()
    return file.read_text("utf-8")


def embedded(page: Path) -> Any:
    """The data of a page."""
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    return json.loads(found[0])


@pytest.mark.parametrize("line", LINES[1:3])
def test_every_row_of_weights_sums_to_one_and_sizes_match_the_pieces(translator: Translator, line: str) -> None:
    maps = attend(translator, line)
    n_src, n_tgt = len(maps.src_pieces), len(maps.tgt_pieces)
    sizes = {"encoder": (n_src, n_src), "decoder": (n_tgt, n_tgt), "cross": (n_tgt, n_src)}
    for name, size in sizes.items():
        weights = getattr(maps, name)
        assert weights.shape == (N_LAYERS, N_HEADS, *size)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0)
    assert maps.decoder.triu(1).abs().max() == 0


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}])
def test_the_weights_are_those_of_the_best_translation(translator: Translator, options: dict[str, int]) -> None:
    [translation] = translator.translations([LINES[2]], **options)
    maps, ids = attend(translator, LINES[2], **options), translation.parts[0].hypotheses[0].ids_with_end
    assert maps.tgt_pieces == translator.tokenizer.tgt_pieces(ids)
    assert maps.tgt_inputs == translator.tokenizer.tgt_pieces([BOS_ID, *ids[:-1]])
    assert (maps.source, maps.translation) == (LINES[2], translation.text)


def test_both_sides_end_with_the_end_symbol_which_is_never_aligned(translator: Translator) -> None:
    maps = forced(translator, LINES[3], LINES[1])
    assert maps.src_pieces[-1] == maps.tgt_pieces[-1] == "</s>" and maps.tgt_inputs == ["<s>", *maps.tgt_pieces[:-1]]
    best = maps.cross.sum((0, 1))[:-1, :-1].argmax(-1).tolist()
    assert maps.alignment == [(src, tgt) for tgt, src in enumerate(best)]
    empty = forced(translator, LINES[0], "")
    assert empty.tgt_pieces == ["</s>"] and empty.alignment == []


def test_a_translation_that_was_cut_off_has_no_end_symbol(translator: Translator) -> None:
    maps = attend(translator, "我有一只猫", max_length_ratio=0.01, min_length=30)
    assert len(maps.tgt_pieces) == 10 and "</s>" not in maps.tgt_pieces and len(maps.alignment) == 10


def test_attention_in_a_batch_is_that_of_each_part_alone(tokenizer: Tokenizer) -> None:
    translator = make_translator(tokenizer, max_length=8)
    translations = translator.translations([LINES[0], " ", " ".join(LINES[:2]), LINES[2]])
    assert {len(one.parts) for one in translations} >= {0, 1, 2}
    for translation, attention in zip(translations, cross_attention(translator, translations), strict=True):
        for part, own in zip(translation.parts, attention, strict=True):
            maps = attention_maps(translator, part)
            torch.testing.assert_close(own.received, maps.cross.mean((0, 1)).sum(0))
            assert own.alignment == maps.alignment


# The page ------------------------------------------------------------------------------------------------------------


def test_the_page_holds_texts_to_read_and_weights_in_thousandths(translator: Translator, tmp_path: Path) -> None:
    all_maps = [attend(translator, line) for line in LINES[1:3]]
    page = write_page(tmp_path / "a.html", *all_maps)
    for sentence, maps in zip(embedded(tmp_path / "a.html"), all_maps, strict=True):
        assert f'lang="zh-CN" dir="auto">{maps.source}</span>' in page
        assert f'<p class="alignment">{" ".join(f"{src}-{tgt}" for src, tgt in maps.alignment)}</p>' in page
        assert (sentence["src_pieces"], sentence["tgt_pieces"]) == (maps.src_pieces, maps.tgt_pieces)
        for name in ("encoder", "decoder", "cross"):
            torch.testing.assert_close(torch.tensor(sentence[name]) / 1000, getattr(maps, name), atol=0.0005001, rtol=0)


@pytest.mark.parametrize("text", [HOSTILE, "{{ data }} {% block body %}"])
def test_hostile_text_stays_text_in_the_page(translator: Translator, tmp_path: Path, text: str) -> None:
    page = write_page(tmp_path / "a.html", forced(translator, text, text))
    assert page.count("<script") == page.count("</script") == 2 and "<img" not in page
    assert html.unescape(page).count(text) == 2


def test_json_in_the_page_has_no_character_that_ends_a_script_or_a_line() -> None:
    value = "</script>&<!--\u2028\u2029"
    text = safe_json([value])
    assert not set(text) & set("<>&\u2028\u2029") and json.loads(text) == [value]


def test_the_page_names_no_other_place_and_lets_only_its_own_script_run(tmp_path: Path) -> None:
    page = write_page(tmp_path / "a.html")
    assert not re.search(r"https?:|//[a-z]|src=|href=|url\(|@import|innerHTML", page)
    assert "default-src 'none'" in page and re.search(r"script-src 'sha256-[\w+/]{43}='\"", page)


def test_a_page_takes_no_more_than_a_browser_can_show(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = AttentionPage(tmp_path / "a.html")
    process = ExplainLines(translator, page)
    monkeypatch.setattr(module, "_MAX_CHARACTERS", 10)
    assert len(process([LINES[0], LINES[1], ""], 0)) == 3
    assert page.is_full and process.n_shown == 2, "a blank line has nothing to show"
    process.finish(3)
    assert len(embedded(page.file)) == 1


def test_another_suffix_a_missing_folder_and_an_existing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("mine")
    refused = {"a.png": "name the file NAME.html", "none/a.html": "no such directory", "a.html": "exists already"}
    for name, message in refused.items():
        with pytest.raises(UsageError, match=message):
            AttentionPage(tmp_path / name)


CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")


def browse(page: Path) -> tuple[str, list[str]]:
    """The page as headless Chromium has it after its script ran, without its data, and what its console says. Chromium is as
    narrow as a phone there."""
    options = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --enable-logging=stderr"
    )
    command = [str(CHROMIUM), *options.split(), f"--user-data-dir={page.absolute().parent / 'profile'}"]
    command += ["--window-size=390,800", "--virtual-time-budget=5000", "--dump-dom", page.absolute().as_uri()]
    answer = subprocess.run(command, capture_output=True, check=True, timeout=120)
    console = [line for line in answer.stderr.decode("utf-8", "replace").splitlines() if "CONSOLE" in line]
    return re.sub(r'id="data">.*?</script>', "", answer.stdout.decode("utf-8"), flags=re.DOTALL), console


@needs_chromium
def test_a_browser_draws_the_pieces_and_runs_nothing_of_the_text(translator: Translator, tmp_path: Path) -> None:
    maps = [forced(translator, LINES[3], LINES[1]), forced(translator, HOSTILE, HOSTILE)]
    write_page(tmp_path / "a.html", *maps)
    drawn, console = browse(tmp_path / "a.html")
    for piece in maps[0].src_pieces + maps[0].tgt_pieces:
        assert f"<th>{html.escape(piece, quote=False)}</th>" in drawn
    assert console == [] and drawn.count("<table") == 3 * N_LAYERS, "only the first sentence is open"
    assert "<title>Attention</title>" in drawn and "<img" not in drawn and drawn.count("<script") == 2
