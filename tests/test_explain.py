"""`mt explain`: greedy search step by step, what was attended to, and the page that shows it."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from mt_cli.cli.explain import attend
from mt_cli.config import Config
from mt_cli.data.batching import padding_mask, source_batch, subsequent_mask
from mt_cli.data.reading import Sentence
from mt_cli.data.spans import SYMBOLS
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, train_tokenizer
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.parts import Part, SourcePart
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError
from mt_cli.explain import page as module
from mt_cli.explain.attention import AttentionMaps, attention_maps, trace, trace_steps
from mt_cli.explain.doubts import align
from mt_cli.explain.estimate import explain_lines
from mt_cli.explain.page import AttentionPage, safe_json
from mt_cli.run.checkpoint import build_model

LINES = ["I have a cat", "two cats and a dog", "我有一只猫", "他有两只狗和一只猫。"]
LONG = "the cat sees the dog " * 9
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=\"document.title='taken'\"> & $x$ {{ data }}"
N_LAYERS, N_HEADS = 2, 3


@pytest.fixture(scope="module")
def translator():
    """One of random weights, which reads eight tokens at once."""
    torch.manual_seed(3)
    tokenizer = train_tokenizer([lambda: iter(LINES * 5)], "unigram", 320)
    data = {"src_lang": "zh_CN", "tgt_lang": "en", "train": "t.tsv", "dev": "d.tsv", "max_length": 8}
    sizes = {"d_model": 24, "ffn_dim": 32, "n_heads": N_HEADS, "n_encoder_layers": N_LAYERS, "n_decoder_layers": N_LAYERS}  # fmt: skip
    config = Config.model_validate({"data": data, "model": sizes})
    return Translator([build_model(config, tokenizer)], tokenizer, config)


@pytest.fixture
def trained(trained_run):
    return Translator.load(trained_run, device="cpu")


def forced(translator: Translator, src: str, tgt: str) -> AttentionMaps:
    """The attention while the model is made to write `tgt`."""
    src_ids, tgt_ids = translator.tokenizer.encode_src(src), translator.tokenizer.encode_tgt(tgt)
    source = SourcePart("", tuple(src_ids), "", (), (), Sentence("", "", ""))
    return attention_maps(translator, Part(source, [Hypothesis(tgt_ids, 0.0)]))


def test_probabilities_are_those_of_the_whole_prefix_and_the_most_probable_token_is_taken(trained):
    for line in ("red cat", "the dog sees the house", "qux"):
        src_ids = trained.tokenizer.encode_src(line)
        source, steps = source_batch([src_ids]), trace_steps(trained, src_ids)
        assert [step.given for step in steps] == ["<s>", *(step.chosen for step in steps[:-1])]
        fed = torch.tensor([[BOS_ID, *(step.chosen_id for step in steps[:-1])]])
        with torch.no_grad():
            hidden = trained.model(*source, fed, padding_mask(fed) & subsequent_mask(fed.size(1)))
            logits = trained.model.project(hidden)[0]
        logits[:, [PAD_ID, UNK_ID, BOS_ID]] = -torch.inf  # never part of a translation
        for step, row in zip(steps, logits.softmax(-1), strict=True):
            found = torch.tensor([probability for _, probability in step.likely])
            torch.testing.assert_close(found, row.topk(5).values, atol=1e-5, rtol=0)
            assert step.likely[0][0] == step.chosen == trained.tokenizer.tgt_pieces([step.chosen_id])[0]


def test_each_part_is_a_line_of_source_and_a_line_in_columns_for_each_step(trained, monkeypatch):
    parts = [list(part.ids) for part in trained.split(LONG).parts]
    lines = [line for line in trace(trained, LONG) if not line.startswith("stopped before the end symbol: ")]
    assert len(parts) > 1
    for ids in parts:
        steps, source = trace_steps(trained, ids), trained.tokenizer.src_pieces([*ids, EOS_ID])
        assert lines.pop(0) == f"source: {' '.join(source)}"
        own, lines = lines[: len(steps)], lines[len(steps) :]
        assert len({line.index("->") for line in own}) == 1
        for number, (line, step) in enumerate(zip(own, steps, strict=True), 1):
            assert line.split()[:2] == [str(number), step.given] and line.endswith(f"chosen: {step.chosen}")
            assert all(f"{probability:.2f}" in line for _, probability in step.likely)
    assert lines == list(trace(trained, " \u3000 ")) == []
    monkeypatch.setattr(trained, "max_length", lambda *_: 2)
    assert list(trace(trained, LONG))[-1].startswith("stopped before the end symbol: 2 tokens")


def test_the_command_shows_a_line_for_each_token(mt, trained_run):
    answer = mt("explain", trained_run, stdin=b"red cat\n")
    chosen = [line.rpartition("chosen: ")[2] for line in answer.lines[1:]]
    assert answer.code == 0 and answer.lines[0].startswith("source: ") and chosen == ["▁rot", "▁Katze", "</s>"]


@pytest.mark.parametrize("options", [{}, {"beam_size": 4}, {"max_length_ratio": 0.01, "min_length": 30}])
def test_the_weights_are_those_of_the_best_translation_and_each_row_sums_to_one(translator, options):
    [translation] = translator.translations([LINES[2]], **options)
    maps, ids = attention_maps(translator, translation.parts[0]), translation.parts[0].hypotheses[0].ids_with_end
    assert maps.tgt_pieces == translator.tokenizer.tgt_pieces(ids)
    assert maps.tgt_inputs == translator.tokenizer.tgt_pieces([BOS_ID, *ids[:-1]])
    assert (maps.source, maps.translation) == (LINES[2], translation.text)
    n_src, n_tgt = len(maps.src_pieces), len(maps.tgt_pieces)
    for name, size in {"encoder": (n_src, n_src), "decoder": (n_tgt, n_tgt), "cross": (n_tgt, n_src)}.items():
        weights = getattr(maps, name)
        assert weights.shape == (N_LAYERS, N_HEADS, *size)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0)
    assert maps.decoder.triu(1).abs().max() == 0
    assert ("min_length" not in options) or ("</s>" not in maps.tgt_pieces and len(maps.alignment) == n_tgt == 10)


def test_both_sides_end_with_the_end_symbol_which_is_never_aligned(translator):
    maps = forced(translator, LINES[3], LINES[1])
    assert maps.src_pieces[-1] == maps.tgt_pieces[-1] == "</s>" and maps.tgt_inputs == ["<s>", *maps.tgt_pieces[:-1]]
    best = maps.cross.sum((0, 1))[:-1, :-1].argmax(-1).tolist()
    assert maps.alignment == [(src, tgt) for tgt, src in enumerate(best)]
    assert forced(translator, LINES[0], "").alignment == []
    spans = forced(translator, f"a {SYMBOLS[0]}", f"b {SYMBOLS[1]}")
    assert spans.source == "a ①" and spans.translation == "b ②"


def test_attention_in_a_batch_is_that_of_each_part_alone(translator):
    translations = translator.translations([LINES[0], " ", " ".join(LINES[:2]), LINES[2]])
    assert {len(one.parts) for one in translations} >= {0, 1, 2}
    for translation, attention, *_ in explain_lines(translator, translations):
        for part, own in zip(translation.parts, attention, strict=True):
            maps = attention_maps(translator, part)
            torch.testing.assert_close(own, maps.cross.mean((0, 1)))
            assert align(own, part.hypotheses[0].ids_with_end) == maps.alignment


def write_page(file: Path, *all_maps: AttentionMaps) -> str:
    page = AttentionPage(file)
    for maps in all_maps:
        page.add(maps)
    page.write()
    return file.read_text("utf-8")


def embedded(page: Path) -> Any:
    """The data of a page."""
    return json.loads(re.findall(r'json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)[0])


def test_the_page_holds_texts_to_read_and_weights_in_thousandths(translator, tmp_path):
    all_maps = [forced(translator, LINES[3], line) for line in LINES[:2]]
    page = write_page(tmp_path / "a.html", *all_maps)
    assert not re.search(r"https?:|//[a-z]|src=|href=|url\(|@import|innerHTML", page), "it names no other place"
    for sentence, maps in zip(embedded(tmp_path / "a.html"), all_maps, strict=True):
        assert f'lang="zh-CN" dir="auto">{maps.source}</span>' in page
        assert f'<p class="alignment">{" ".join(f"{src}-{tgt}" for src, tgt in maps.alignment)}</p>' in page
        assert (sentence["src_pieces"], sentence["tgt_pieces"]) == (maps.src_pieces, maps.tgt_pieces)
        for name in ("encoder", "decoder", "cross"):
            torch.testing.assert_close(torch.tensor(sentence[name]) / 1000, getattr(maps, name), atol=0.0005001, rtol=0)


def test_hostile_text_stays_text_in_the_page(translator, tmp_path):
    page = write_page(tmp_path / "a.html", forced(translator, HOSTILE, HOSTILE))
    assert page.count("<script") == page.count("</script") == 2 and "<img" not in page
    assert html.unescape(page).count(HOSTILE) == 2
    assert "default-src 'none'" in page and re.search(r"script-src 'sha256-[\w+/]{43}='\"", page)
    text = safe_json([value := "</script>&<!--\u2028\u2029"])
    assert not set(text) & set("<>&\u2028\u2029") and json.loads(text) == [value]


def test_a_browser_draws_the_pieces_and_runs_nothing_of_the_text(translator, tmp_path, chromium):
    maps = [forced(translator, LINES[3], LINES[1]), forced(translator, HOSTILE, HOSTILE)]
    write_page(tmp_path / "a.html", *maps)
    drawn = chromium.show(tmp_path / "a.html")
    for piece in maps[0].src_pieces + maps[0].tgt_pieces:
        assert f"<th>{html.escape(piece, quote=False)}</th>" in drawn
    assert drawn.count("<table") == 3 * N_LAYERS, "only the first sentence is open"
    assert "<title>Attention</title>" in drawn and "<img" not in drawn and drawn.count("<script") == 2


def test_a_page_takes_no_more_than_a_browser_can_show(translator, tmp_path, monkeypatch, said):
    monkeypatch.setattr(module, "_MAX_CHARACTERS", 10)
    [output] = attend(translator, AttentionPage(tmp_path / "a.html"), iter([(0, [LINES[2], LINES[3]])]))
    assert len(output) == 2 and len(embedded(tmp_path / "a.html")) == 1
    assert "a.html shows the first 1 of 2 lines" in said()[-1]


def test_a_page_comes_with_the_translations_and_replaces_no_file(mt, tiny, trained_run):
    answer = mt("explain", trained_run, "test.en", "--attention", "page.html")
    assert (answer.code, answer.said) == (0, ["attention: page.html"])
    assert answer.lines == mt("translate", trained_run, "test.en").lines
    assert re.findall(r'<b class="translation" [^>]*>(.*?)</b>', Path("page.html").read_text()) == answer.lines
    with pytest.raises(UsageError, match="exists already"):
        AttentionPage(Path("page.html"))
