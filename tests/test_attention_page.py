"""What was attended to: the values of a tiny model of random weights, and the page that shows them."""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from mt_cli.cli.explain import AttendLines
from mt_cli.config import Config
from mt_cli.data.batching import source_batch
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, Tokenizer, train_tokenizer
from mt_cli.decoding.greedy import greedy_search
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError
from mt_cli.explain import attention_page
from mt_cli.explain.attention import AttentionMaps, attention_maps, attention_maps_of_pair, format_alignment
from mt_cli.explain.attention_page import AttentionPage
from mt_cli.explain.page import safe_json
from mt_cli.run.checkpoint import build_model

LINES = ["I have a cat", "two cats and a dog", "我有一只猫", "他有两只狗和一只猫。"]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=\"document.title='taken'\"> & $x$"
N_LAYERS, N_HEADS = 2, 3


def attend_line(translator: Translator, line: str, **options: Any) -> list[AttentionMaps]:
    return list(attention_maps(translator, translator.translations([line], **options)[0]))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([lambda: iter(LINES * 5)], "unigram", 320)


def make_translator(tokenizer: Tokenizer, max_length: int = 128, max_positions: int = 1024) -> Translator:
    torch.manual_seed(3)
    model = {"d_model": 24, "ffn_dim": 32, "n_heads": N_HEADS, "max_positions": max_positions}
    config = Config.model_validate(
        {
            "data": {"src_lang": "zh_CN", "tgt_lang": "en", "train": "t.tsv", "dev": "d.tsv", "max_length": max_length},
            "model": {**model, "n_encoder_layers": N_LAYERS, "n_decoder_layers": N_LAYERS},
        }
    )
    return Translator([build_model(config, tokenizer)], tokenizer, config)


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Translator:
    return make_translator(tokenizer)


def attend_once(translator: Translator, line: str) -> AttentionMaps:
    [maps] = attend_line(translator, line)
    return maps


def spoken(translator: Translator, src: str, tgt: str) -> AttentionMaps:
    """The attention while the model is made to say `tgt`."""
    tokenizer = translator.tokenizer
    return attention_maps_of_pair(translator, tokenizer.encode_src(src), [*tokenizer.encode_tgt(tgt), EOS_ID])


def write_page(file: Path, *all_maps: AttentionMaps) -> None:
    page = AttentionPage(file)
    for maps in all_maps:
        page.add(maps)
    page.write()


def embedded(page: Path) -> Any:
    """The data of a page."""
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    return json.loads(found[0])


@pytest.mark.parametrize("line", LINES)
def test_every_row_of_weights_sums_to_one_and_sizes_match_the_pieces(translator: Translator, line: str) -> None:
    maps = attend_once(translator, line)
    n_src, n_tgt = len(maps.src_pieces), len(maps.tgt_pieces)
    assert len(maps.tgt_inputs) == n_tgt
    sizes = {"encoder": (n_src, n_src), "decoder": (n_tgt, n_tgt), "cross": (n_tgt, n_src)}
    for name, size in sizes.items():
        weights = torch.tensor(getattr(maps, name))
        assert weights.shape == (N_LAYERS, N_HEADS, *size)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0)
    assert torch.tensor(maps.decoder).triu(1).abs().max() == 0


def test_the_weights_are_those_of_the_greedy_translation(translator: Translator) -> None:
    src_ids = translator.tokenizer.encode_src(LINES[2])
    limit = translator.max_length(len(src_ids), translator.config.decoding)
    [found] = greedy_search(translator.search_model, *source_batch([src_ids]), [limit])
    maps = attend_once(translator, LINES[2])
    assert maps.tgt_pieces == translator.tokenizer.tgt_pieces(found.ids_with_end)
    assert maps.tgt_inputs == translator.tokenizer.tgt_pieces([BOS_ID, *found.ids_with_end[:-1]])
    assert (maps.source, maps.translation) == (LINES[2], translator.translate([LINES[2]], beam_size=1)[0])


def test_both_sides_end_with_the_end_symbol(translator: Translator) -> None:
    maps = spoken(translator, LINES[2], "a cat")
    assert maps.src_pieces[-1] == maps.tgt_pieces[-1] == "</s>"
    assert maps.tgt_inputs == ["<s>", *maps.tgt_pieces[:-1]]
    assert (maps.source, maps.translation) == (LINES[2], "a cat")


def test_the_alignment_links_each_target_piece_to_the_source_piece_it_looks_at_most(translator: Translator) -> None:
    maps = spoken(translator, LINES[3], LINES[1])
    n_src, n_tgt = len(maps.src_pieces) - 1, len(maps.tgt_pieces) - 1
    assert [tgt for _, tgt in maps.alignment] == list(range(n_tgt))
    for src, tgt in maps.alignment:
        totals = [0.0] * n_src
        for layer, head, s in itertools.product(range(N_LAYERS), range(N_HEADS), range(n_src)):
            totals[s] += maps.cross[layer][head][tgt][s]
        assert totals[src] == max(totals)


def test_an_empty_translation_has_an_empty_alignment(translator: Translator, tmp_path: Path) -> None:
    maps = spoken(translator, LINES[0], "")
    assert maps.tgt_pieces == ["</s>"] and maps.alignment == []
    write_page(tmp_path / "a.html", maps)


def test_the_alignment_of_a_split_line_counts_through_its_parts(tokenizer: Tokenizer) -> None:
    parts = attend_line(make_translator(tokenizer, max_length=8), " ".join(LINES[:2]))
    assert len(parts) > 1
    sizes = ((maps.alignment, len(maps.src_pieces) - 1, len(maps.alignment)) for maps in parts)
    links = [tuple(map(int, link.split("-"))) for link in format_alignment(sizes).split()]
    assert [tgt for _, tgt in links] == list(range(sum(len(maps.alignment) for maps in parts)))
    n_first = len(parts[0].alignment)
    assert links[n_first][0] == len(parts[0].src_pieces) - 1 + parts[1].alignment[0][0]


def test_a_translation_cut_off_at_the_last_position_still_has_its_attention(tokenizer: Tokenizer) -> None:
    maps = attend_once(make_translator(tokenizer, max_length=12, max_positions=12), LINES[0])
    assert len(maps.tgt_pieces) <= 12


def test_a_translation_that_was_cut_off_says_no_end_symbol(translator: Translator) -> None:
    [maps] = attend_line(translator, "我有一只猫", max_length_ratio=0.01, min_length=30)
    assert len(maps.tgt_pieces) == 10 and "</s>" not in maps.tgt_pieces and len(maps.alignment) == 10


def test_a_blank_line_has_no_attention(translator: Translator) -> None:
    assert attend_line(translator, " ") == [] and format_alignment([]) == ""


def test_beam_search_decides_what_is_looked_at_when_asked_for(translator: Translator) -> None:
    [maps] = attend_line(translator, LINES[0], beam_size=4)
    assert maps.translation == translator.translate([LINES[0]], beam_size=4)[0]


# The page ------------------------------------------------------------------------------------------------------------


def test_the_page_holds_texts_to_read_and_weights_in_thousandths(translator: Translator, tmp_path: Path) -> None:
    all_maps = [attend_once(translator, line) for line in LINES]
    write_page(tmp_path / "a.html", *all_maps)
    page = (tmp_path / "a.html").read_text("utf-8")
    for sentence, maps in zip(embedded(tmp_path / "a.html"), all_maps, strict=True):
        assert all(part in page for part in (maps.source, f'lang="zh-CN" dir="auto">{maps.source}</span>'))
        assert f'<div class="alignment">{format_alignment([(maps.alignment, 0, 0)]) or "none"}</div>' in page
        assert (sentence["src_pieces"], sentence["tgt_pieces"]) == (maps.src_pieces, maps.tgt_pieces)
        assert (sentence["src_lang"], sentence["tgt_lang"]) == ("zh-CN", "en")
        for name in ("encoder", "decoder", "cross"):
            found, expected = torch.tensor(sentence[name]) / 1000, torch.tensor(getattr(maps, name))
            torch.testing.assert_close(found, expected, atol=0.0005001, rtol=0)


@pytest.mark.parametrize("text", [HOSTILE, "{{ data }} {% block body %}"])
def test_hostile_text_stays_text_in_the_page(translator: Translator, tmp_path: Path, text: str) -> None:
    write_page(tmp_path / "a.html", spoken(translator, text, text))
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script") == 2 and "<img" not in page
    assert html.unescape(page).count(text) == 2


def test_json_in_the_page_has_no_character_that_ends_a_script_or_a_line() -> None:
    value = "</script>&<!--\u2028\u2029"
    text = safe_json([value])
    assert not set(text) & set("<>&\u2028\u2029") and json.loads(text) == [value]


def test_the_page_names_no_other_place_and_lets_only_its_own_script_run(tmp_path: Path) -> None:
    write_page(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[a-z]|src=|href=|url\(|@import|innerHTML", page)
    assert "default-src 'none'" in page and re.search(r"script-src 'sha256-[\w+/]{43}='\"", page)


def test_a_page_takes_no_more_than_a_browser_can_show(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_page, "MAX_SENTENCES", 3)
    page = AttentionPage(tmp_path / "a.html")
    process = AttendLines(translator, {}, page)
    assert len(process([" ".join(["the red cat sees the dog"] * 90)], 0)) == 1  # one line of many sentences
    assert page.is_full and process.n_shown == 0
    page.write()
    assert len(embedded(page.file)) == 3
    monkeypatch.setattr(attention_page, "_MAX_CHARACTERS", 10)
    long = AttentionPage(tmp_path / "b.html")
    long.add(attend_once(translator, LINES[0]))
    assert long.is_full, "one sentence may be as large as many"


def test_another_suffix_a_missing_folder_and_an_existing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("mine")
    refused = {"a.png": "name the file NAME.html", "none/a.html": "no such directory", "a.html": "exists already"}
    for name, message in refused.items():
        with pytest.raises(UsageError, match=message):
            AttentionPage(tmp_path / name)


CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")


def browse(page: Path, *options: str) -> tuple[str, list[str]]:
    """The page as headless Chromium has it after its script ran, without its data, and what its console says."""
    quiet = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --enable-logging=stderr"
    )
    command = [str(CHROMIUM), *quiet.split(), f"--user-data-dir={page.absolute().parent / 'profile'}", *options]
    command += ["--virtual-time-budget=5000", "--dump-dom", page.absolute().as_uri()]
    answer = subprocess.run(command, capture_output=True, check=True, timeout=120)
    console = [line for line in answer.stderr.decode("utf-8", "replace").splitlines() if "CONSOLE" in line]
    return re.sub(r'id="data">.*?</script>', "", answer.stdout.decode("utf-8"), flags=re.DOTALL), console


@needs_chromium
def test_a_browser_draws_the_pieces_and_runs_nothing_of_the_text(translator: Translator, tmp_path: Path) -> None:
    maps = [spoken(translator, LINES[3], LINES[1]), spoken(translator, HOSTILE, HOSTILE)]
    write_page(tmp_path / "a.html", *maps)
    drawn, console = browse(tmp_path / "a.html")
    for piece in maps[0].src_pieces + maps[0].tgt_pieces:
        assert f"<span>{html.escape(piece.removeprefix('▁'), quote=False)}</span></div>" in drawn
    assert console == [] and drawn.count("<canvas") == 3 * N_LAYERS * (N_HEADS + 1)  # only the first sentence is open
    assert "<title>Attention</title>" in drawn and "<img" not in drawn and drawn.count("<script") == 2
