"""Exported models say what the run says: loaded by the engines themselves, same scores, same translations."""

import json
import os
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_trainer import random_translator

from mt_cli.data.batching import pad, source_batch
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, train_tokenizer, with_tags
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError
from mt_cli.export.engine import CTranslate2Translator, avoid_saturated_int8, write_argos, write_ctranslate2
from mt_cli.export.marian import write_marian

ctranslate2 = pytest.importorskip("ctranslate2")
transformers = pytest.importorskip("transformers")  # with safetensors
with_warnings = pytest.mark.filterwarnings("ignore")

SENTENCES = ["the red cat sees a house", "a tree", "die rote Katze 我 sieht", "cats, dogs & trees!"]
AVERAGE = {"length_normalization": "average"}
FLOAT32 = 1e-4  # of log-probabilities; the issue of kernels that sum in another order

VARIANTS: dict[str, dict[str, Any]] = {  # each value that changes what is written, with either norm
    "pre": {},
    "pre-target-conv": {
        "tie_embeddings": "target", "embedding_scale": "projection", "attention_temperature": 2.5,
        "feed_forward": "conv1d", "first_position": 1,
    },
    "pre-untied-gelu": {"activation": "gelu", "tie_embeddings": "none", "projection_bias": True},
    "post-target": {"norm": "post", "tie_embeddings": "target"},
    "post-no-bias": {"norm": "post", "attention_bias": False, "embedding_scale": "none"},
    "post-swish-and-bias": {"norm": "post", "activation": "swish", "projection_bias": True, "tie_embeddings": "none"},
}  # fmt: skip
CTRANSLATE2_ALONE: dict[str, dict[str, Any]] = {
    "rotary": {"positions": "rotary"},
    "rotary-post": {"positions": "rotary", "head_dim": 6, "norm": "post"},
    "own": {"first_position": 1, "embedding_norm": True, "head_dim": 12},
}


@pytest.fixture(scope="module")
def tokenizers():
    text = SENTENCES * 3
    sides = [lambda: iter(text)], [lambda: iter(text), lambda: iter(text[::-1])]
    return {len(side) == 1: train_tokenizer(list(side), "bpe", 330) for side in sides}


def is_joint(switches: dict[str, Any]) -> bool:
    return switches.get("tie_embeddings", "all") == "all"


def forced(translator: Translator) -> tuple[list[list[int]], list[list[int]], list[list[float]]]:
    """Sources, targets that the model was not asked about, and its log-probabilities of them."""
    sources = [list(translator.split(text).parts[0].ids) for text in SENTENCES]
    targets = [translator.tokenizer.encode_tgt(text) for text in reversed(SENTENCES)]
    return sources, targets, translator.token_scores(list(zip(sources, targets, strict=True)))


@pytest.mark.parametrize("variant", [*VARIANTS, *CTRANSLATE2_ALONE])
def test_ctranslate2_gives_the_same_scores_and_translations(variant, tokenizers, tmp_path):
    switches = {**VARIANTS, **CTRANSLATE2_ALONE}[variant]
    translator = random_translator(tokenizers[is_joint(switches)], **switches)
    write_ctranslate2(translator, tmp_path)
    engine, tokenizer = ctranslate2.Translator(str(tmp_path), device="cpu", intra_threads=1), translator.tokenizer
    sources, targets, expected = forced(translator)
    src_pieces = [tokenizer.src_pieces(ids) for ids in sources]
    found = engine.score_batch(src_pieces, [tokenizer.tgt_pieces(ids) for ids in targets])
    for result, row in zip(found, expected, strict=True):
        assert result.log_probs == pytest.approx(row, abs=FLOAT32)
    for source, pieces, line in zip(sources, src_pieces, SENTENCES, strict=True):
        limit = translator.max_length(len(source), translator.config.decoding)
        [output] = engine.translate_batch([pieces], beam_size=1, max_decoding_length=limit)
        ids = translator.translations([line])[0].parts[0].hypotheses[0].ids
        assert output.hypotheses[0] == tokenizer.tgt_pieces(ids)


@pytest.mark.parametrize("quantization, tolerance", [("float32", FLOAT32), ("bfloat16", 0.1), ("int8", 0.2)])
def test_an_exported_run_scores_and_translates_as_the_run(quantization, tolerance, trained_run, tmp_path, mt):
    answer = mt("export", trained_run, tmp_path / "ct2", "--to", "ctranslate2", "--quantization", quantization)
    assert (answer.code, answer.said) == (0, [f"ctranslate2 model in {tmp_path / 'ct2'}"])
    translator, lines = Translator.load(trained_run), ["the red cat", "dog", "house sees the tree"]
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", intra_threads=1)
    ours, tokenizer = translator.translations(lines, beam_size=3, **AVERAGE), translator.tokenizer
    sources = [list(translator.split(line).parts[0].ids) for line in lines]
    targets = [one.parts[0].hypotheses[0].ids for one in ours]
    src_pieces = [tokenizer.src_pieces(ids) for ids in sources]
    tgt_pieces = [tokenizer.tgt_pieces(ids) for ids in targets]
    expected = translator.token_scores(list(zip(sources, targets, strict=True)))
    for result, row in zip(engine.score_batch(src_pieces, tgt_pieces), expected, strict=True):
        assert result.log_probs == pytest.approx(row, abs=tolerance)


LINES = b"  the red cat\n\ndog\t\nhouse sees the tree\nthe dog\n" + b"cat dog tree " * 40 + b"\nred\n"
BY_AVERAGE = ("--length-normalization", "average")


@pytest.mark.parametrize(
    "options",
    [
        ("--json",),
        ("--n-best", 3, *BY_AVERAGE, "--length-penalty", 0.5),
        ("--beam-size", 4, *BY_AVERAGE, "--length-penalty", 2),
    ],
)
def test_the_engine_prints_what_our_own_search_prints(options, trained_run, mt):
    number, texts, scores = re.compile(r"-?\d+\.\d+"), [], []
    for engine in ("mt", "ctranslate2"):
        answer = mt("translate", trained_run, *options, "--engine", engine, stdin=LINES)
        assert answer.code == 0, answer.said
        texts.append([number.sub("#", line.replace("-0.0", "0.0")) for line in answer.lines])
        scores.append([float(score) for line in answer.lines for score in number.findall(line)])
    assert texts[1] == texts[0]
    assert scores[1] == pytest.approx(scores[0], abs=1e-3)


def test_the_engine_translates_in_8_bits(trained_run, mt):
    def rows(engine: str) -> list[tuple[str, ...]]:
        answer = mt("translate", trained_run, "--n-best", 1, "--engine", engine, stdin=b"the cat\nthe dog\n")
        return [line.rpartition(" ||| ") for line in answer.lines]

    for whole, in_8_bits, text in zip(rows("ctranslate2"), rows("ctranslate2-int8"), ("Katze", "Hund"), strict=True):
        assert in_8_bits[0] == whole[0] and whole[0].endswith(f" die {text}")
        assert in_8_bits[2] != whole[2] and float(in_8_bits[2]) == pytest.approx(float(whole[2]), abs=0.2)


@pytest.mark.parametrize(
    ("machine", "has_vnni", "limit", "wanted"),
    [
        ("x86_64", True, None, None),
        ("AMD64", False, None, "1"),
        ("x86_64", True, "AVX2", "1"),
        ("arm64", False, None, None),  # there are no builds with MKL
    ],
)
def test_mkl_multiplies_8_bit_numbers_where_vnni_is_missing(machine, has_vnni, limit, wanted, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("torch.cpu._is_vnni_supported", lambda: has_vnni)
    monkeypatch.setattr("os.environ", {"ONEDNN_MAX_CPU_ISA": limit} if limit else {})
    avoid_saturated_int8()
    assert os.environ.get("CT2_USE_MKL") == wanted


def test_the_engine_stops_each_sentence_at_its_own_limit_and_leaves_no_export_behind(tokenizers, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ours = random_translator(tokenizers[True])  # which never ends a sentence itself
    engine = CTranslate2Translator(ours.models, ours.tokenizer, ours.config)
    for beam_size in (1, 3):
        search = {"max_length_ratio": 1.0, "beam_size": beam_size, **AVERAGE}
        expected, found = (one.translations(SENTENCES, **search) for one in (ours, engine))
        assert len({len(one.parts[0].hypotheses[0].ids) for one in expected}) > 2
        assert [one.texts for one in found] == [one.texts for one in expected]
    assert not list(tmp_path.iterdir()) and engine.translate(["", " "]) == ["", ""]


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        (["--engine", "ctranslate2-int8", "--no-repeat-ngram", 2], ["--engine ctranslate2-int8 needs"]),
        (["--sample", "--temperature", 2, "--min-length", 3], ["decoding.sample=false", "decoding.min_length=0"]),
        (["--beam-size", 2], ["decoding.length_normalization=average;"]),
        (["--beam-size", 2, *BY_AVERAGE, "--length-penalty", 0], ["decoding.length_penalty=1.0;"]),
        (["--no-repeat-ngram", 2], ["decoding.no_repeat_ngram=0;"]),
        (["--checkpoint", "best", "--checkpoint", "last"], ["one model"]),
    ],
)
def test_what_the_engine_cannot_do_is_refused(options, reasons, trained_run, mt):
    answer = mt("translate", trained_run, "--engine", "ctranslate2", *options, stdin=b"the cat\n")
    assert answer.code == 2 and answer.lines == []
    [line] = answer.said
    assert all(reason in line for reason in reasons), line


@with_warnings
@pytest.mark.parametrize("ties", ["all", "none"])
def test_the_names_of_symbols_are_ordinary_text_to_hugging_face(ties, tokenizers, tmp_path):
    translator = random_translator(tokenizers[ties == "all"], tie_embeddings=ties)
    write_marian(translator, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    # Marian takes >>xx<< at the very beginning for a language; a space before it, which means nothing, helps.
    for text in ("a </s> tree", "</s>", "<pad> a <unk>", "<s>", "a tree >>de<<", " >>de<< a tree"):
        assert tokenizer(text).input_ids == [*translator.tokenizer.encode_src(text.strip()), EOS_ID], text


@with_warnings
def test_the_tag_is_a_language_code_to_hugging_face(tokenizers, tmp_path):
    translator = random_translator(with_tags(tokenizers[True], ["<2fr>", "<2de>"]).towards("de"))
    write_marian(translator, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in SENTENCES:
        assert tokenizer(f">>de<< {text}").input_ids == [*translator.tokenizer.encode_src(text), EOS_ID]
    assert tokenizer(">>fr<< a tree").input_ids[0] == translator.tokenizer.tags.get("<2fr>")
    with pytest.raises(UsageError, match="no place for the tag <2de>; train a run of en to de alone"):
        write_argos(translator, tmp_path)


@with_warnings
@pytest.mark.parametrize("variant", VARIANTS)
def test_hugging_face_gives_the_same_ids_and_scores(variant, tokenizers, tmp_path):
    translator = random_translator(tokenizers[is_joint(VARIANTS[variant])], **VARIANTS[variant])
    write_marian(translator, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(loading.values()), loading
    sources, targets, expected = forced(translator)
    assert [tokenizer(text).input_ids for text in SENTENCES] == [[*ids, EOS_ID] for ids in sources]
    src_ids, _ = source_batch(sources)
    tgt_in = pad([[BOS_ID, *ids] for ids in targets])
    with torch.inference_mode():
        answer = model(input_ids=src_ids, attention_mask=(src_ids != PAD_ID).long(), decoder_input_ids=tgt_in)
    log_probs = answer.logits.log_softmax(-1)
    for row, ids, scores in zip(log_probs, targets, expected, strict=True):
        assert [float(row[t, i]) for t, i in enumerate([*ids, EOS_ID])] == pytest.approx(scores, abs=FLOAT32)
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    generated = model.generate(**batch, max_new_tokens=6, num_beams=1).tolist()
    for ids, line in zip(generated, SENTENCES, strict=True):
        ours = translator.translations([line])[0].parts[0].hypotheses[0].ids
        assert ids[: 1 + min(6, len(ours))] == [BOS_ID, *ours[:6]]


@with_warnings
def test_hugging_face_searches_as_the_config_says(tokenizers, tmp_path):
    translator = random_translator(tokenizers[True])
    decoding = translator.settings(beam_size=3, length_penalty=0.3, **AVERAGE)
    translator.config = translator.config.model_copy(update={"decoding": decoding})
    write_marian(translator, tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    batch = transformers.AutoTokenizer.from_pretrained(tmp_path)(SENTENCES[:1], return_tensors="pt")
    limit = translator.max_length(len(batch.input_ids[0]) - 1, translator.config.decoding)
    generated = model.generate(**batch, max_new_tokens=limit, return_dict_in_generate=True, output_scores=True)
    assert model.generation_config.length_penalty == 0.3
    found = translator.translations(SENTENCES[:1])[0].parts[0].hypotheses[0]
    assert [i for i in generated.sequences[0].tolist() if i not in (BOS_ID, EOS_ID, PAD_ID)] == found.ids
    assert float(generated.sequences_scores[0]) == pytest.approx(found.score, abs=1e-3)


@pytest.mark.parametrize(
    ("switches", "write", "message"),
    [
        ({"norm": "post", "first_position": 1}, write_marian, "first_position is 1.*--set model.first_position=0"),
        ({"n_heads": 3, "head_dim": 5}, write_marian, "n_heads is 3.*--set model.n_heads=2 --set model.head_dim=8"),
        ({"positions": "rotary"}, write_marian, "positions is rotary.*--set model.positions=sinusoid"),
        ({"positions": "rotary_cross"}, write_ctranslate2, "'rotary_cross' .*CTranslate2.*; train with 'rotary'"),
        ({"tie_embeddings": "target"}, write_argos, "joint: true"),
    ],
)
def test_what_a_format_cannot_hold_is_named_with_the_way_out(switches, write, message, tokenizers, tmp_path):
    with pytest.raises(UsageError, match=message):
        write(random_translator(tokenizers[is_joint(switches)], **switches), tmp_path)


def test_two_exports_into_one_folder_do_not_blame_the_folder(trained_run, tmp_path, mt, monkeypatch):
    other = tmp_path / "model"

    def write(translator: Translator, folder: Path) -> None:
        other.mkdir()
        (other / "model.bin").write_text("of the other command")

    monkeypatch.setattr("mt_cli.export.marian.write_marian", write)
    answer = mt("export", trained_run, other, "--to", "marian")
    assert (answer.code, len(answer.said)) == (1, 1)
    assert answer.said[0].startswith(
        f"error: cannot write {other}: Directory not empty; mend that or choose another place"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_argos_package_holds_model_tokenizer_and_languages(tokenizers, tmp_path):
    write_argos(random_translator(tokenizers[True]), tmp_path)
    with zipfile.ZipFile(tmp_path / "translate-en_de.argosmodel") as package:
        names = set(package.namelist())
        metadata = json.loads(package.read("translate-en_de/metadata.json"))
    assert {"translate-en_de/sentencepiece.model", "translate-en_de/model/model.bin"} <= names
    languages = {"from_code": "en", "to_code": "de", "from_name": "English", "to_name": "German"}
    assert languages.items() <= metadata.items()
