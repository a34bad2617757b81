"""The tokenizer: text comes back as it went in, whatever it is, and nothing in it is a control symbol."""

import io
import signal

import pytest
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_cli.data.normalize import normalize
from mt_cli.data.tokenizer import EOS_ID, SYNTHETIC, UNK_ID, Tokenizer, extend_tokenizer, train_tokenizer, with_tags
from mt_cli.errors import CheckpointError, DataError

SOURCES = [f"the {a} {b} sees a {c}" for a in ("old", "small", "red") for b in ("cat", "dog", "fox") for c in ("bird", "tree")]  # fmt: skip
TARGETS = [f"{a} {b} sieht {c}" for a in ("die alte", "die kleine") for b in ("Katze", "Füchsin") for c in ("einen Vogel", "Bäume")]  # fmt: skip
VOCAB_SIZE = 300
KINDS = [("unigram", "joint"), ("bpe", "separate")]
every_kind = pytest.mark.parametrize("kind", KINDS, ids="-".join)


@pytest.fixture(scope="module")
def tokenizers():
    """Every kind of tokenizer."""
    kinds = {"joint": [lambda: iter([*SOURCES, *TARGETS])], "separate": [lambda: iter(SOURCES), lambda: iter(TARGETS)]}
    return {
        (algorithm, kind): train_tokenizer(sides, algorithm, VOCAB_SIZE)
        for algorithm, kind in [*KINDS, ("bpe", "joint")]
        for sides in [kinds[kind]]
    }


NASTY = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("▁⁇ \t\n\r\x00\x85\u2028\u200b\u200d\ufe0f\u0301\u3000<>/s👩🏽🇪🇺নِক्\U000e0061\ue000\uffff"))  # fmt: skip


@every_kind
@settings(max_examples=150, deadline=None)
@given(text=NASTY)
def test_decoding_what_was_encoded_gives_the_normalized_text(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    normal = normalize(text)
    src_ids, tgt_ids = tokenizer.encode_src(normal), tokenizer.encode_tgt(normal)
    assert tokenizer.decode_tgt(tgt_ids) == normal
    assert all(EOS_ID < i < tokenizer.src_vocab_size for i in src_ids), "no text becomes a control symbol"
    assert all(EOS_ID < i < tokenizer.tgt_vocab_size for i in tgt_ids)


FRENCH = [f"Voulez-vous {a} {b}\u00a0?" for a in ("voir", "lire") for b in ("le chat", "le livre", "Noël")] * 200


@every_kind
def test_no_piece_crosses_a_place_where_the_text_is_cut(tokenizers, kind):
    tokenizer, text = tokenizers[kind], "the old cat sees a red bird"
    for places in ([], [0, 4, 27]):
        assert tokenizer.encode_src_cut(text, places) == tokenizer.encode_src(text)
    for place in range(1, len(text)):
        pieces = [piece.replace("▁", " ") for piece in tokenizer.src_pieces(tokenizer.encode_src_cut(text, [place]))]
        assert "".join(pieces).strip() == text
        ends = [len("".join(pieces[: n + 1]).lstrip()) for n in range(len(pieces))]
        assert place in ends or (text[place - 1] == " " and place - 1 in ends)  # a space is of the word behind it


@pytest.mark.parametrize(("algorithm", "separate"), [("unigram", True), ("bpe", False)])
def test_no_break_spaces_come_back_where_targets_have_them_however_rare(algorithm, separate):
    rare = [*FRENCH, "Oui\u202f!"]  # of a character in 17,000, which is below the character coverage
    sides = [lambda: iter(["yes"] * 9), lambda: iter(rare)] if separate else [lambda: iter(rare)]
    tokenizer = train_tokenizer(sides, algorithm, 300)
    for text in ("«\u00a0Oui\u00a0»", "Noël\u202f!", "a\u202fb\u00a0c d"):
        ids = tokenizer.encode_tgt(tokenizer.normalize_tgt(f" {text}\u00a0"))
        assert tokenizer.decode_tgt(ids) == text
        assert any("\u00a0" in piece or "\u202f" in piece for piece in tokenizer.tgt_pieces(ids))


@every_kind
def test_the_names_of_control_symbols_are_ordinary_text(tokenizers, kind):
    tokenizer = tokenizers[kind]
    for text in ("<s>", "</s>", "<pad>", "<unk>", "a </s> b", "⁇", "<0x0A>", "<s></s><s>"):
        ids = tokenizer.encode_tgt(text)
        assert min(ids) > EOS_ID, "the last of the control symbols"
        assert tokenizer.decode_tgt(ids) == text
    # No-break spaces are folded where targets had none.
    assert tokenizer.normalize_tgt("die\u00a0alte\u202fKatze ") == "die alte Katze"
    assert tokenizer.decode_tgt(tokenizer.encode_tgt("die\u00a0alte")) == "die alte"


@every_kind
def test_tags_change_no_text_and_no_text_is_a_tag(tokenizers, kind):
    plain, tags = tokenizers[kind], ["<2de>", SYNTHETIC]
    n = plain.src_vocab_size
    tagged = with_tags(plain, tags)
    assert [tagged.tags.get(tag) for tag in ("<2de>", "<bt>", "<2fr>")] == [n, n + 1, None]
    assert tagged.tgt_vocab_size == plain.tgt_vocab_size + (2 if plain.is_joint else 0)
    for text in ("the old cat", "<2de> the <bt> cat", "<2de>"):
        assert tagged.encode_src(text) == plain.encode_src(text)
        assert tagged.decode_src([n, *tagged.encode_src(text), n + 1]) == text
    assert plain.tags.get("<2de>") is None and with_tags(tagged, tags) is tagged
    assert with_tags(tagged, ["<2fr>", "<2de>", "<2fr>"]).tags == {"<2de>": n, "<bt>": n + 1, "<2fr>": n + 2}


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_a_tokenizer_with_tags_has_as_many_pieces_of_text(tokenizers, algorithm):
    sides = [lambda: iter([*SOURCES, *TARGETS])]
    plain, tagged = tokenizers[algorithm, "joint"], train_tokenizer(sides, algorithm, VOCAB_SIZE, ["<2de>"])
    assert tagged.src_vocabulary() == [*plain.src_vocabulary(), "<2de>"]
    assert train_tokenizer(sides, algorithm, VOCAB_SIZE, ()).models == plain.models
    other = [lambda: iter(["the zorimba sees the zorimba"] * 20)]
    extended = extend_tokenizer(tagged, other, algorithm, VOCAB_SIZE)
    assert extended.src_vocabulary()[: plain.src_vocab_size + 1] == tagged.src_vocabulary()
    assert extended.src_vocab_size > tagged.src_vocab_size and extended.tags == tagged.tags


@every_kind
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_ids_at_all_decode_to_one_line(tokenizers, kind, data):
    tokenizer = tokenizers[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.tgt_vocab_size - 1), max_size=40))
    text = tokenizer.decode_tgt(ids)
    assert len(text.splitlines()) <= 1 and text == normalize(text) and "\t" not in text
    text.encode("utf-8")


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_a_size_that_the_text_cannot_carry_is_lowered_and_said(algorithm, said):
    tokenizer = train_tokenizer([lambda: iter(SOURCES)], algorithm, 20_000)
    assert 260 < tokenizer.tgt_vocab_size < 1000
    [line] = said()
    assert "20,000" in line and f"{tokenizer.tgt_vocab_size:,} are used" in line
    assert tokenizer.decode_tgt(tokenizer.encode_tgt("the old cat")) == "the old cat"


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_a_size_too_small_for_the_characters_names_one_that_is_not(algorithm):
    text = ["".join(chr(0x4E00 + i) for i in range(start, start + 50)) for start in range(0, 400, 50)]
    with pytest.raises(DataError, match=r"^tokenizer\.vocab_size: 300 is too small .* at least \d+$") as caught:
        train_tokenizer([lambda: iter(text)], algorithm, 300)
    least = int(str(caught.value).split()[-1])
    assert train_tokenizer([lambda: iter(text)], algorithm, least).tgt_vocab_size == least
    # One that has a tokenizer of fewer pieces joins it.
    tokenizer = train_tokenizer([lambda: iter(["a dog sees a cat", "the cat sees"] * 20)], algorithm, 290)
    extended = extend_tokenizer(tokenizer, [lambda: iter(text * 8)], algorithm, 290)
    assert UNK_ID not in extended.encode_src(text[0]) and len(extended.encode_src(text[0])) <= 51


def test_a_model_with_other_control_symbols_is_refused():
    model, options = io.BytesIO(), {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2}
    spm.SentencePieceTrainer.train(sentence_iterator=iter(SOURCES), model_writer=model, **options)
    with pytest.raises(CheckpointError, match=r"not a tokenizer of mt's: pad, unk, bos, eos are \(-1, 0, 1, 2\)"):
        Tokenizer([model.getvalue()])


INTERRUPTED = """
import os, random, signal, time
from mt_cli.data.tokenizer import train_tokenizer

def stop(number, frame):
    raise KeyboardInterrupt

rng = random.Random(1)
text = [" ".join("".join(rng.choices("abcdefghijkl", k=7)) for _ in range(10)) for _ in range(20000)]
started = time.process_time()
signal.signal(signal.SIGPROF, stop)
signal.setitimer(signal.ITIMER_PROF, 1.5)  # in seconds of work, which a busy machine does not change
try:
    train_tokenizer([lambda: iter(text)], "unigram", 8000)
except KeyboardInterrupt:
    print(time.process_time() - started, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGPROF"), reason="needs POSIX signals")
def test_a_signal_is_heard_while_sentencepiece_is_busy(mt_process):
    with mt_process(before=INTERRUPTED) as process:
        assert 1.2 < float(process.communicate()[0]) < 1.9


def test_text_of_no_lines_or_without_line_ends_is_refused():
    for lines in ([], ["a cat " * 12_000] * 3):
        with pytest.raises(DataError, match=r"^no pair is left to train on, or every line is longer than 65,536 bytes"):
            train_tokenizer([lambda lines=lines: iter(lines)], "bpe", 300)


DRAWN = """
import logging, random
from mt_cli.data import tokenizer
logging.basicConfig(level=logging.INFO, force=True)
tokenizer.SAMPLE_SIZE, rng = 200, random.Random(1)
text = [" ".join("".join(rng.choices("abcdefgh", k=4)) for _ in range(4)) for _ in range(600)]
print([tokenizer.train_tokenizer([lambda: iter(text)], name, 320).sha256 for name in ("unigram", "bpe")])
"""


def test_of_a_large_text_every_process_draws_the_same_sentences_and_says_how_many(mt_process):
    """sentencepiece draws others in each."""
    (first, said), (second, _) = (mt_process("--help", before=DRAWN).communicate() for _ in range(2))
    assert first == second and b"['" in first and b"learnt from 200 of 600 sentences" in said
