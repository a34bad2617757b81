"""An imported Marian folder is a run: the same logits as in `transformers`, and every command works on it."""

import io
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece as spm
import torch
from tiny_trainer import random_translator

from mt_cli.data.batching import batch_of
from mt_cli.data.tokenizer import BOS_ID, RESERVED, UNUSED, Tokenizer, algorithm_of, with_our_symbols
from mt_cli.decoding.translator import Translator
from mt_cli.export.marian import write_marian

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers

LOGITS = 1e-5
WORDS = ["red", "cat", "dog", "sees", "the", "house", "tree", "bird", "small", "old"]
GERMAN = ["rot", "Katze", "Hund", "sieht", "die", "Haus", "Baum", "Vogel", "klein", "alt"]
SOURCES = ["the red cat sees a house", "the tree", "ＴＨＥ ﬁ dog…", "我 sees", "", "old old bird"]
TARGETS = ["die rot Katze sieht Haus", "Baum", "Hund", "die die", "Vogel", ""]


def sentencepiece_model(words: list[str], **settings: Any) -> bytes:
    rng, model = random.Random(1), io.BytesIO()
    lines = [" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(300)]
    usual = {"vocab_size": 40, "model_type": "unigram", "minloglevel": 2, "hard_vocab_limit": False}
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **{**usual, **settings})
    return model.getvalue()


def write_folder(folder: Path, codes: tuple[str, ...] = ("de",), is_separate: bool = False, **keys: Any) -> Any:
    """A folder as OPUS-MT publishes them, and its model of random weights. With `is_separate` each side has a vocabulary."""
    folder.mkdir()
    sides = []
    for name, words in (("source", WORDS), ("target", GERMAN)):
        model = sentencepiece_model(words)
        (folder / f"{name}.spm").write_bytes(model)
        processor = spm.SentencePieceProcessor(model_proto=model)
        sides.append([processor.id_to_piece(i) for i in range(processor.get_piece_size())])
    sides[0] = [*(f">>{code}<<" for code in codes), *sides[0]]
    sides[0].remove("▁tree")  # an unknown word to Marian
    if is_separate:  # <pad> has the same number on both sides
        src, tgt = ([*dict.fromkeys(["</s>", "<unk>", "<pad>", *side])] for side in sides)
    else:
        src = tgt = [*dict.fromkeys(["</s>", "<unk>", *sides[0], *sides[1], "<pad>"])]
    for name, side in {"vocab": src, **({"target_vocab": tgt} if is_separate else {})}.items():
        (folder / f"{name}.json").write_text(json.dumps({piece: number for number, piece in enumerate(side)}))
    settings = {"source_lang": "en", "target_lang": "de", "separate_vocabs": is_separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    sizes, pad = {"layers": 2, "attention_heads": 2, "ffn_dim": 24}, src.index("<pad>")
    usual = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()} | {
        "d_model": 16, "activation_function": "swish", "scale_embedding": True, "max_position_embeddings": 64,
        "vocab_size": len(src), "decoder_vocab_size": len(tgt), "share_encoder_decoder_embeddings": not is_separate,
        "pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0,
    }  # fmt: skip
    torch.manual_seed(0)
    model = transformers.MarianMTModel(transformers.MarianConfig(**{**usual, **keys})).eval()
    with torch.no_grad():
        for name, weight in [*model.named_parameters(), ("bias", model.final_logits_bias)]:
            if "positions" not in name:
                weight.add_(torch.randn_like(weight) * 0.3)
    model.generation_config.update(num_beams=3, length_penalty=0.5)
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def marian(tmp_path_factory, mt):
    """A folder, its model in transformers, and the run made of it. To be read only."""
    folder = tmp_path_factory.mktemp("marian") / "opus-mt-en-de"
    model = write_folder(folder)
    run = folder.parent / "run"
    answer = mt("import", folder, run)
    assert (answer.code, answer.said) == (0, [f"{folder} is now the run {run}; try: mt translate {run}"])
    return folder, model, run


def their_ids(folder: Path, name: str = "vocab") -> dict[str, int]:
    return json.loads((folder / f"{name}.json").read_text())


def generated(folder: Path, model: Any, line: str, code: str = "de") -> str:
    """What `generate` makes of a line with the settings with which it does what our greedy search does."""
    theirs, ids = transformers.AutoTokenizer.from_pretrained(folder), their_ids(folder)
    batch = theirs(f">>{code}<< {line}", return_tensors="pt")
    search = {"num_beams": 1, "forced_eos_token_id": None, "bad_words_ids": [[ids["<unk>"]], [ids["<pad>"]]]}
    limit = 2 * (len(batch.input_ids[0]) - 1) + 10
    return theirs.decode(model.generate(**batch, **search, max_new_tokens=limit)[0], skip_special_tokens=True)


def difference(folder: Path, model: Any, run: Path) -> float:
    """The largest between our logits or probabilities and those of transformers, of all tokens that both have."""
    translator = Translator.load(run, device="cpu")
    tokenizer, theirs = translator.tokenizer, transformers.AutoTokenizer.from_pretrained(folder)
    ids = their_ids(folder, "target_vocab" if (folder / "target_vocab.json").exists() else "vocab")
    names = [piece.removesuffix("▁") if piece[:-1] in RESERVED else piece for piece in tokenizer.tgt_vocabulary()]
    shared = [i for i, name in enumerate(names) if name in ids and i != BOS_ID]
    columns, largest = [ids[names[i]] for i in shared], 0.0
    for src, tgt in zip(SOURCES, TARGETS, strict=True):
        src_ids, tgt_ids = translator.encode_pair(src, tgt)
        batch = batch_of([src_ids], [tgt_ids])
        coded = theirs(f">>de<< {src}" if src and ">>de<<" in their_ids(folder) else src).input_ids
        given = [model.config.decoder_start_token_id, *theirs(text_target=tgt).input_ids[:-1]]
        found = model(input_ids=torch.tensor([coded]), decoder_input_ids=torch.tensor([given])).logits[0]
        states = translator.model(batch.src_ids, batch.src_mask, batch.tgt_in, batch.tgt_mask)
        ours = translator.model.project(states)[0]
        assert len(shared) == found.size(1) == len(ids) and ours.shape == (len(found), len(ids) + 1)
        for one, other in ((ours, found), (ours.softmax(-1), found.softmax(-1))):
            largest = max(largest, float((one[:, shared] - other[:, columns]).abs().max()))
    return largest


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"activation_function": "gelu", "scale_embedding": False, "codes": ()},
        {"activation_function": "relu", "tie_word_embeddings": False, "decoder_start_token_id": 0},
        {"is_separate": True, "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    ],
    ids=str,
)
@torch.inference_mode()
def test_the_logits_are_those_of_transformers(keys, marian, tmp_path, mt):
    folder, model, run = marian
    if keys:
        folder, run = tmp_path / "folder", tmp_path / "run"
        model = write_folder(folder, **keys)
        assert mt("import", folder, run).code == 0
    assert difference(folder, model, run) < LOGITS


def test_the_pieces_are_those_of_transformers(marian):
    folder, _, run = marian
    tokenizer, theirs = Translator.load(run, device="cpu").tokenizer, transformers.AutoTokenizer.from_pretrained(folder)
    for text in [*SOURCES, "cat dog  2 ½ catdog"]:
        ids, expected = tokenizer.encode_src(text), theirs(text and f">>de<< {text}").input_ids[:-1]
        names = [">>de<<" if piece == "<2de>" else piece for piece in tokenizer.src_pieces(ids)]
        assert [their_ids(folder).get(piece, 1) for piece in names] == expected, text
    assert "▁tree" in tokenizer.src_pieces(tokenizer.encode_src("the tree"))
    assert tokenizer.decode_tgt(tokenizer.encode_tgt("die rot Katze")) == "die rot Katze"


def test_it_translates_as_transformers_generates(marian, mt):
    folder, model, run = marian
    lines = [line for line in SOURCES if line]
    answer = mt("translate", run, "--beam-size", "1", stdin="".join(f"{line}\n" for line in lines).encode())
    assert (answer.code, answer.lines) == (0, [generated(folder, model, line) for line in lines])


def test_the_config_says_what_the_folder_says(marian):
    folder, _, run = marian
    config = Translator.load(run, device="cpu").config
    data, decoding, model = config.data, config.decoding, config.model
    assert (data.src_lang, data.tgt_lang, data.max_length) == ("en", "de", 63)
    assert (decoding.beam_size, decoding.length_normalization, decoding.length_penalty) == (3, "average", 0.5)
    assert (model.norm, model.activation, model.projection_bias) == ("post", "swish", True)
    [start] = json.loads((run / "provenance.json").read_text())["starts"]
    assert start["imported_from"] == str(folder) and start["command"].startswith("mt import ")
    assert {"config.json", "model.safetensors", "vocab.json", "source.spm", "target.spm"} <= start["sha256"].keys()


def test_one_of_several_languages_is_imported(tmp_path, mt):
    folder, runs = tmp_path / "folder", {code: tmp_path / code for code in ("deu", "fr_BE")}
    model, translated = write_folder(folder, codes=("deu", "fr_BE", "cmn_Hans", "en")), []
    for code, run in runs.items():
        assert mt("import", folder, run, "--tgt-lang", code).code == 0
        translated += mt("translate", run, "--beam-size", "1", stdin=b"the red cat\n").lines
        assert translated[-1] == generated(folder, model, "the red cat", code)
    assert translated[0] != translated[1]
    for options in ([], ["--tgt-lang", "fr"]):
        answer = mt("import", folder, tmp_path / "other", *options)
        assert answer.code == 2 and "translates into deu, fr_BE, cmn_Hans, en; give one of" in answer.said[0]
    assert mt("export", runs["deu"], tmp_path / "out", "--to", "marian").code == 0
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert theirs(">>deu<< the cat").input_ids[0] == their_ids(tmp_path / "out")[">>deu<<"]


def test_a_line_of_which_the_tokenizer_keeps_nothing_stays_blank(marian, mt):
    """The rules of an imported tokenizer delete U+200B, which text may hold."""
    answer = mt("translate", marian[2], "--json", stdin="\u200b\n".encode())
    assert (answer.code, len(answer.lines)) == (0, 1), answer.said
    assert json.loads(answer.lines[0])["hypotheses"][0]["text"].strip("\u200b") == ""


def test_an_imported_run_is_exported_to_other_engines(marian, tmp_path, mt):
    ctranslate2 = pytest.importorskip("ctranslate2")
    _, _, run = marian
    translator = Translator.load(run, device="cpu")
    pairs = [translator.encode_pair(src, tgt) for src, tgt in zip(SOURCES, TARGETS, strict=True) if src]
    expected, tokenizer = translator.token_scores(pairs), translator.tokenizer
    assert mt("export", run, tmp_path / "ct2", "--to", "ctranslate2").code == 0
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", intra_threads=1)
    sides = [tokenizer.src_pieces(src) for src, _ in pairs], [tokenizer.tgt_pieces(tgt) for _, tgt in pairs]
    for result, row in zip(engine.score_batch(*sides), expected, strict=True):
        assert result.log_probs == pytest.approx(row, abs=1e-4)

    assert mt("export", run, tmp_path / "again", "--to", "marian").code == 0
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "again")
    for (src, tgt), row in zip(pairs, expected, strict=True):
        batch = batch_of([src], [tgt])
        with torch.inference_mode():
            logits = model(input_ids=batch.src_ids, decoder_input_ids=batch.tgt_in).logits[0]
        assert logits.log_softmax(-1).gather(1, batch.tgt_out.T)[:, 0].tolist() == pytest.approx(row, abs=1e-4)


def test_an_imported_run_is_fine_tuned(marian, tiny, mt):
    _, _, run = marian
    settings = ("max_steps=3", "device=cpu", "precision=fp32", "validate_every_steps=3")
    options = ["--extend-vocabulary", *(f"--set=training.{setting}" for setting in settings)]
    answer = mt("train", "train.en", "train.de", "--from", run, "--run-dir", "child", *options)
    assert answer.code == 0, answer.said
    said = answer.err.decode()
    assert f"begun with the weights of {run}" in said and "begun anew" not in said
    parent, child = (Translator.load(one, device="cpu") for one in (run, "child"))
    assert child.config.model == parent.config.model
    assert child.tokenizer.tgt_vocab_size >= parent.tokenizer.tgt_vocab_size
    ours, theirs = (one.model.encoder_layers[0].feed_forward.w_1.weight for one in (child, parent))
    assert float((ours - theirs).abs().max()) < 0.1
    assert mt("translate", "child", "test.en").code == 0


def test_other_files_of_weights_are_read_too(marian, tmp_path, mt):
    folder, model, run = marian
    expected = Translator.load(run, device="cpu").model.state_dict()
    for name, is_zip in (("new", True), ("old", False)):
        copied = Path(shutil.copytree(folder, tmp_path / name))
        (copied / WEIGHTS).unlink()
        # with positions and all four names
        torch.save(model.state_dict(), copied / PICKLE, _use_new_zipfile_serialization=is_zip)
        answer = mt("import", copied, tmp_path / f"{name}-run", "--src-lang", "eng", "--tgt-lang", "deu")
        assert answer.code == 0, answer.said
        translator = Translator.load(tmp_path / f"{name}-run", device="cpu")
        assert (translator.config.data.src_lang, translator.config.data.tgt_lang) == ("eng", "deu")
        found = translator.model.state_dict()
        assert all(torch.equal(found[key], weight) for key, weight in expected.items())


def change(file: Path, how: Any) -> None:
    """By keys of JSON, by content, or by what a function does with the file."""
    if isinstance(how, dict):
        content = json.loads(file.read_text()) | how
        how = json.dumps({key: value for key, value in content.items() if value != "missing"}).encode()
    file.write_bytes(how) if isinstance(how, bytes) else how(file)


def cut_off(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def as_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def weights(of_first: Callable[[torch.Tensor], torch.Tensor], is_pickle: bool = False) -> Callable[[Path], None]:
    """With another first weight."""

    def write(file: Path) -> None:
        content = safetensors.load_file(file)
        content[FIRST] = of_first(content[FIRST])
        if is_pickle:
            torch.save(content, file.with_name(PICKLE))
            file.unlink()
        else:
            safetensors.save_file(content, file)

    return write


FIRST = "model.encoder.layers.0.fc1.weight"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"
OF_WORDS = sentencepiece_model(WORDS, model_type="word", vocab_size=12)
CONFIG, GENERATION, VOCABULARY = "config.json", "generation_config.json", "vocab.json"
WEIGHTS, PICKLE, PIECES, SETTINGS = "model.safetensors", "pytorch_model.bin", "source.spm", "tokenizer_config.json"


@pytest.mark.parametrize(
    ("file", "how", "blamed", "reason"),
    [
        (CONFIG, {"share_encoder_decoder_embeddings": False}, WEIGHTS, "lm_head.weight is missing"),
        (SETTINGS, {"separate_vocabs": True}, "target_vocab.json", "No such file"),
        (CONFIG, {"decoder_attention_heads": 4}, CONFIG, "decoder_attention_heads is 4, expected 2"),
        (CONFIG, {"encoder_attention_heads": 3, "decoder_attention_heads": 3}, CONFIG, "3 heads"),
        (CONFIG, {"encoder_layers": 3}, WEIGHTS, "layers.2.fc1.bias is missing"),
        (CONFIG, {"decoder_layers": 1}, WEIGHTS, "expected no such weight"),
        (CONFIG, {"decoder_start_token_id": 10**6}, VOCABULARY, "the id 1000000"),
        (CONFIG, {"eos_token_id": 5}, VOCABULARY, "</s> with the id 5"),
        (CONFIG, b"[" * 10**6, CONFIG, "damaged"),
        (CONFIG, b'{"d_model": ' + b"9" * 10**5 + b"}", CONFIG, "damaged"),
        (GENERATION, {"num_beams": 0}, CONFIG, "beam_size"),
        (PIECES, LFS, PIECES, "a pointer of Git LFS"),
        (PIECES, cut_off, PIECES, "damaged, not a sentencepiece model"),
        (PIECES, OF_WORDS, PIECES, "of words"),
        (VOCABULARY, lambda file: os.truncate(file, 1 << 33), VOCABULARY, "damaged"),
        (VOCABULARY, {"<unk>": "missing", "x": 1}, VOCABULARY, "<unk>"),
        (VOCABULARY, {"</s>": "0"}, VOCABULARY, "damaged"),
        (WEIGHTS, LFS, WEIGHTS, "a pointer of Git LFS"),
        (WEIGHTS, Path.unlink, WEIGHTS, "No such file"),
        (WEIGHTS, cut_off, WEIGHTS, "damaged, or no file of weights"),
        (WEIGHTS, as_pipe, WEIGHTS, "is a pipe or a device"),
        (WEIGHTS, weights(lambda w: w * torch.nan), WEIGHTS, f"{FIRST} has values that are not finite"),
        (WEIGHTS, weights(torch.Tensor.int), WEIGHTS, f"{FIRST} is torch.int32"),
        (WEIGHTS, weights(lambda w: torch.zeros(1).expand_as(w), is_pickle=True), PICKLE, f"{FIRST} is not contiguous"),
    ],
)
def test_a_folder_that_is_not_whole_or_not_marians_is_refused(file, how, blamed, reason, marian, tmp_path, mt):
    folder = Path(shutil.copytree(marian[0], tmp_path / "folder"))
    change(folder / file, how)
    answer = mt("import", folder, tmp_path / "run")
    assert (answer.code, answer.lines) == (1, []) and len(answer.said) <= 2, answer.said
    assert answer.said[0].startswith(f"error: {folder / blamed}: ") and reason in answer.said[0]
    assert {path.name for path in tmp_path.iterdir()} <= {"folder"}


def test_a_pickle_that_would_run_code_is_refused(marian, tmp_path, mt):
    folder = Path(shutil.copytree(marian[0], tmp_path / "folder"))
    (folder / WEIGHTS).unlink()
    for content in (b"cos\nsystem\n(S'touch ran'\ntR.", b"no pickle"):
        (folder / PICKLE).write_bytes(content)
        answer = mt("import", folder, tmp_path / "run")
        assert answer.code == 1 and f"{PICKLE}: " in answer.said[0] and len(answer.said) == 1
    assert not Path("ran").exists() and not (tmp_path / "run").exists()


def test_the_languages_must_be_known(tmp_path, mt):
    folder = tmp_path / "folder"
    write_folder(folder, codes=())
    (folder / SETTINGS).unlink()
    for options, said in (
        ([], "tokenizer_config.json: no source_lang in it; give --src-lang"),
        (["--src-lang", "en", "--tgt-lang", "!"], "data.tgt_lang: expected text such as"),
        (["--src-lang", "en", "--tgt-lang", "en"], "are both 'en'; they must differ"),
    ):
        answer = mt("import", folder, tmp_path / "run", *options)
        assert (answer.code, len(answer.said)) == (2, 1) and said in answer.said[0], answer.said


@pytest.mark.parametrize("ties", ["all", "target"])
def test_an_export_to_marian_comes_back_with_the_same_scores(ties, trained_run, tmp_path, mt):
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    separate = Tokenizer([sentencepiece_model(words, **ids) for words in (WORDS, GERMAN)])
    tokenizer = Translator.load(trained_run, device="cpu").tokenizer if ties == "all" else separate
    translator = random_translator(tokenizer, norm="post", tie_embeddings=ties)
    write_marian(translator, tmp_path)
    assert mt("import", tmp_path, tmp_path / "back").code == 0
    back = Translator.load(tmp_path / "back", device="cpu")
    lines = [("the red cat", "die rot Katze"), ("我 tree", "Baum ü")]
    scores = [one.token_scores([one.encode_pair(*line) for line in lines]) for one in (translator, back)]
    for ours, theirs in zip(*scores, strict=True):
        assert theirs == pytest.approx(ours, abs=1e-4)


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_pieces_that_are_never_read_change_no_text(algorithm):
    rng = random.Random(3)
    model = sentencepiece_model(WORDS, model_type=algorithm)
    unused = ["".join(rng.choices("abcdehlnorst▁", k=rng.randint(2, 5))) for _ in range(500)]
    adapted = with_our_symbols(model, kept=None, added=dict.fromkeys([*unused, "a" * 300]), kind=UNUSED)
    before, after = (spm.SentencePieceProcessor(model_proto=one) for one in (model, adapted))
    for _ in range(100):
        text = "".join(rng.choices("abcdehlnorst  Ａé", k=20))
        assert after.encode(text, out_type=str) == before.encode(text, out_type=str)
    assert algorithm_of(adapted) == algorithm
    assert Tokenizer([adapted]).tgt_pieces(Tokenizer([adapted]).tgt_ids(unused)) == unused
