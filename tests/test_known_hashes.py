"""Large files are hashed once; any change of them is noticed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from mt_cli.data import known_hashes
from mt_cli.data.corpus import sha256_of
from mt_cli.data.known_hashes import known_sha256


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two old files, which are large."""
    monkeypatch.setattr(known_hashes, "LARGE", 10)
    names = [str(tmp_path / name) for name in ("a", "b")]
    for name in names:
        Path(name).write_bytes(b"12345")
        os.utime(name, (1e9, 1e9))
    return names


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was read to be hashed."""
    found = list[list[str]]()
    monkeypatch.setattr(known_hashes, "sha256_of", lambda files: (found.append(list(files)), sha256_of(files))[1])
    return found


def test_files_that_did_not_change_are_read_once(tmp_path, files, hashed):
    assert {known_sha256(files, tmp_path / "known") for _ in range(3)} == {sha256_of(files)}
    assert known_sha256(files[::-1], tmp_path / "known") == sha256_of(files[::-1])
    assert hashed == [files, files[::-1]]


def test_small_files_are_read_each_time(tmp_path, files, hashed, monkeypatch):
    monkeypatch.setattr(known_hashes, "LARGE", 11)
    for _ in range(2):
        known_sha256(files, tmp_path / "known")
    assert hashed == [files, files] and not (tmp_path / "known").exists()


def test_a_file_that_was_just_written_is_not_remembered(tmp_path, files, hashed):
    """Another change could have the same time."""
    os.utime(files[0], (time.time(), time.time()))
    for _ in range(2):
        known_sha256(files, tmp_path / "known")
    assert hashed == [files, files]


def test_another_content_is_noticed_even_with_the_same_size_and_time(tmp_path, files):
    before = known_sha256(files, tmp_path / "known")
    Path(files[1]).write_bytes(b"12346")
    os.utime(files[1], (1e9, 1e9))
    assert known_sha256(files, tmp_path / "known") == sha256_of(files) != before
    Path(tmp_path / "new").write_bytes(b"12347")
    shutil.copystat(files[1], tmp_path / "new")
    Path(tmp_path / "new").replace(files[1])
    assert known_sha256(files, tmp_path / "known") == sha256_of(files)


@pytest.mark.parametrize("damaged", ["", "[]", '{"a": 1}'])
def test_a_damaged_memory_is_none(tmp_path, files, damaged):
    known_sha256(files, tmp_path / "known")
    (tmp_path / "known").write_text(damaged)
    assert known_sha256(files, tmp_path / "known") == sha256_of(files)
