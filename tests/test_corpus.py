"""Reading text: what a line is, what is dropped and counted, and how each damaged file is refused."""

import bz2
import gzip
import lzma
import os
import re
import tracemalloc
from pathlib import Path

import pytest

from mt_cli.data import lines
from mt_cli.data.corpus import (
    CorpusReport,
    SentencePair,
    read_copy,
    read_lines,
    read_pairs,
    read_raw_pairs,
    sha256_of,
    write_copy,
)
from mt_cli.data.lines import decode_line
from mt_cli.errors import DataError

LINE_SEPARATORS_OF_OTHERS = "\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(src: bytes, tgt: bytes | None = None, **settings) -> tuple[list[SentencePair], CorpusReport]:
    """The pairs of two files (or one TSV) with these contents, and the report."""
    files = ["train.tsv"] if tgt is None else ["train.src", "train.tgt"]
    for file, content in zip(files, [src, tgt], strict=False):
        Path(file).write_bytes(content)
    report = CorpusReport()
    return list(read_pairs(files, report=report, **settings)), report


def message(src: bytes, tgt: bytes | None = None, **settings) -> str:
    """The text of the DataError that reading raises."""
    try:  # pytest.raises would keep the files open
        read(src, tgt, **settings)
    except DataError as error:
        return str(error)
    pytest.fail("it was read")


def test_pairs_are_line_n_beside_line_n_whatever_others_take_for_a_line_end():
    pairs, report = read(b"one\ntwo\nthree\n", b"eins\nzwei\ndrei")  # a last line without a line end is a line, too
    assert [pair[:3] for pair in pairs] == [("one", "eins", 1), ("two", "zwei", 2), ("three", "drei", 3)]
    assert (report.n_pairs, report.n_kept, report.dropped, report.notes) == (3, 3, {}, [])
    for separator in LINE_SEPARATORS_OF_OTHERS:
        pairs, _ = read(f"one{separator}two\nthree\n".encode(), b"a\nb\n")
        assert [(pair.src, pair.line) for pair in pairs] == [("one two", 1), ("three", 2)], ascii(separator)
    pairs, _ = read(b"\xef\xbb\xbfone\r\ntw\x00o\r\nth\x1bree\n", b"\xef\xbb\xbfa\nb\nc\n")
    assert [(pair.src, pair.tgt) for pair in pairs] == [("one", "a"), ("tw o", "b"), ("th ree", "c")]


def test_blank_lines_are_kept_in_a_test_set_and_no_rows_of_a_tsv():
    Path("test.en").write_bytes(b"\xef\xbb\xbf\n a  b \r\n\nlast")
    assert read_lines(Path("test.en")) == ["", " a  b ", "", "last"]
    pairs, report = read(b"\xef\xbb\xbfone\teins\r\n\t\r\n\r\n\ttre\ntwo\tzwei")
    assert [pair[:3] for pair in pairs] == [("one", "eins", 1), ("two", "zwei", 5)]
    assert (report.n_pairs, report.dropped, len(report.notes)) == (3, {"with an empty side": 1}, 1)
    pairs = [SentencePair("a \u2603 b", "c", 1), SentencePair("x", "\U0001f600", 7, corpus=2)]
    write_copy(iter(pairs), Path("copy"))
    assert list(read_copy(Path("copy"))) == list(read_copy(Path("copy"))) == pairs


def test_pairs_with_a_blank_side_are_dropped_and_repeated_ones_on_demand():
    pairs, report = read("one\n\n \t\u3000\nfour\nfive\nsix\n".encode(), b"a\nb\nc\n\ne\nf\n")
    assert [pair.line for pair in pairs] == [1, 5, 6]
    assert report.describe("train") == ["train: 3 of 6 pairs kept (3 with an empty side)"]
    pairs, report = read(b"a\nb\na\na\n", b"x\ny\nx\nz\n", dedup=True)
    assert [pair.line for pair in pairs] == [1, 2, 4]
    assert report.describe("train") == ["train: 3 of 4 pairs kept (1 repeated)"]
    pairs, _ = read("é  a\ne\u0301 a\n".encode(), b"x\nx\n", dedup=True)
    assert [pair.src for pair in pairs] == ["é a"]
    src, tgt = "a\u00a0b\na b\nc\n".encode(), "Oui\u00a0!\nOui !\n\u00a0x \n".encode()  # spaces alone are no difference
    pairs, _ = read(src, tgt)
    assert [(pair.src, pair.tgt) for pair in pairs] == [("a b", "Oui\u00a0!"), ("a b", "Oui !"), ("c", "x")]
    assert [pair.line for pair in read(src, tgt, dedup=True)[0]] == [1, 3]


def test_text_that_is_not_parallel_or_not_utf_8_is_named_with_its_line():
    for src, tgt, expected in (
        (b"", b"", "train.src: no lines; "),
        (b"", None, "train.tsv: no rows; "),
        (b"\n\na\n", b"b\nc\nd\n", "train.src: 2 of 3 pairs have an empty side; "),
        (b"a\r" * 40, b"x\n", "train.src:1: lines end in carriage returns alone; "),
        (b"a\tb\r" * 40, None, "train.tsv:1: lines end in carriage returns alone; "),
        (b"a\tb\na\xff\tb\n", None, "train.tsv:2: invalid UTF-8 at byte 2 (0xff); "),
        (b"a\tb\none\nc\td\n", None, "train.tsv:2: 1 columns, expected 2; "),
    ):
        assert message(src, tgt).startswith(expected)


def test_bad_lines_can_be_skipped_and_are_counted():
    for bad in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xe4", b"\xe2\x82"):
        assert message(bad + b"\n", b"x\n").startswith("train.src:1: invalid UTF-8 at byte ")
    pairs, report = read(b"a\n\xff\nc\n", b"x\ny\n\xfe\n", on_bad_line="skip")
    assert [pair[:3] for pair in pairs] == [("a", "x", 1)]
    assert report.describe("train") == ["train: 1 of 3 pairs kept (2 not UTF-8)"]
    with pytest.raises(DataError, match=r"train.src:2: invalid UTF-8 at byte 1 \(0xff\); fix the line"):
        read_lines(Path("train.src"))
    found = message(b"\xff\n", b"x\n", on_bad_line="skip")
    assert found.startswith("train.src: no pair is left of 1, most are not UTF-8")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_recognised_by_its_first_line(encoding):
    for content in (text.encode(encoding) for text in ("I\n", "Hi\r\n", "you", "two\r\nthree\n")):
        for on_bad_line in ("error", "skip"):
            found = message(content, b"a\nb\n", on_bad_line=on_bad_line)
            assert found.startswith("train.src:1: UTF-16 text, expected UTF-8; ")
        with pytest.raises(DataError, match="stdin:1: UTF-16"):  # as lines come through a pipe, without their ends
            decode_line(content.split(b"\n")[0], 1, "stdin")
    for text in (b"I", b"a\x00b", b"\x00", b"\x00\r", b"\x00\x00", b"ab\x00", b""):
        assert decode_line(text + b"\n", 1, "any") == text.decode().removesuffix("\r")


def test_a_packed_file_is_recognised():
    for kind, content in {
        "gzip": gzip.compress(b"one\n"),
        "bzip2": bz2.compress(b"one\n", 1),
        "xz": lzma.compress(b"one\n"),
        "zstd": b"\x28\xb5\x2f\xfd\x24\x08\x41\x00\x00one\ntwo\n\x9d\x8d\x1d\x7b",
        "zip": b"PK\x03\x04\x0a\x00\x00\x00",
    }.items():
        for files in ((content, b"a\nb\n"), (content,)):
            found = message(*files, on_bad_line="skip")
            assert re.match(rf"train\.(src|tsv):1: {kind} file, expected text; unpack it", found)


def test_missing_files_and_folders_are_named():
    Path("folder").mkdir()
    Path("there").write_bytes(b"a\n")
    for name, reason in (("none", "No such file or directory"), ("folder", "Is a directory")):
        for attempt in (read_lines, lambda path: list(read_pairs(["there", path])), lambda path: sha256_of([path])):
            with pytest.raises(DataError, match=f"^{name}: {reason}; "):
                attempt(Path(name))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("pipe", ["a.src", "a.tgt", "a.tsv"])
def test_a_pipe_and_a_device_are_refused_at_once_and_not_waited_for(pipe):
    files = [pipe] if pipe == "a.tsv" else ["a.src", "a.tgt"]
    for file in files:
        Path(file).write_bytes(b"a\n")
    Path(pipe).unlink()
    os.mkfifo(pipe)
    with pytest.raises(DataError, match=r"^/dev/zero: is not a regular file; "):
        read_lines(Path("/dev/zero"))
    for attempt in (lambda: list(read_pairs(files)), lambda: list(read_raw_pairs(files)), lambda: sha256_of(files)):
        with pytest.raises(DataError, match=f"^{pipe}: is not a regular file; "):
            attempt()


def test_a_hash_is_of_every_byte_of_each_file():
    for name, content in (("a", b"12"), ("b", b"3"), ("c", b"1"), ("d", b"23")):
        Path(name).write_bytes(content)
    assert len({sha256_of(names) for names in (["a", "b"], ["b", "a"], ["c", "d"], ["a"], ["a", "d"])}) == 5


def test_a_gz_file_is_unpacked_and_refused_where_it_is_damaged():
    for side, text in (("src", "eins\r\nzw\u2028ei"), ("tgt", "one\ntwo\n")):
        Path(f"train.{side}.gz").write_bytes(gzip.compress(text.encode()))
    pairs = list(read_pairs(["train.src.gz", "train.tgt.gz"]))
    assert [pair[:3] for pair in pairs] == [("eins", "one", 1), ("zw ei", "two", 2)]
    whole = gzip.compress(os.urandom(200).hex().encode() + b"\n")
    middle, checksum = len(whole) // 2, len(whole) - 6
    flipped = [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in (middle, checksum)]
    for content in (whole[:-20], whole[:-3], *flipped, b"no gzip at all\n", whole + b"junk"):
        for files in (["train.src.gz", "train.tgt"], ["train.tsv.gz"]):
            Path(files[0]).write_bytes(content)
            Path("train.tgt").write_bytes(b"a\n")
            with pytest.raises(DataError, match=r"^train\....\.gz: damaged gzip file \(.*\); "):
                list(read_pairs(files))


def test_a_line_without_end_is_refused_before_it_takes_the_memory(monkeypatch):
    with gzip.open("train.tsv.gz", "wb") as file:
        file.write(b"a\tb\n" + bytes(1 << 20))
    monkeypatch.setattr(lines, "_MAX_LINE", 1 << 16)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"^train\.tsv\.gz:2: a line of .*, expected a sentence on each line$"):
        list(read_pairs(["train.tsv.gz"]))
    assert tracemalloc.get_traced_memory()[1] < 1 << 19
    tracemalloc.stop()
