"""Replaces files atomically: a new file is written beside the old one, synced, and renamed over it."""

import contextlib
import errno
import hashlib
import io
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from mt_cli.errors import RunDirError


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """`path` is afterwards what it was before or what `write` wrote, whole and on the disk. Raises RunDirError."""
    temporary = _beside(path)
    try:
        make_folder(path.parent)  # but no parents: a run directory that was removed is not made again
        try:
            with temporary.open("wb") as handle:
                write(handle)
                handle.flush()
                os.fsync(handle.fileno())
            _replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None


def write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda handle: handle.write(content))


def write_rows(path: Path, rows: Iterable[str]) -> None:
    lines = (row.encode("utf-8", "backslashreplace") for row in rows)  # a path need not be UTF-8
    write_atomically(path, lambda handle: handle.writelines(lines))


def write_text(path: Path, text: str) -> None:
    write_rows(path, [text])


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `folder` when the block ends; after an error there is none. Raises RunDirError."""
    unfinished = _beside(folder)
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        _replace(unfinished, folder)
    except OSError as error:
        raise cannot_write(folder, error) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Makes it, on the disk when this returns, if it is not there."""
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def make_folders(folder: Path) -> None:
    """Makes it, and those that it lies in. Raises RunDirError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None


def sync_files(paths: Iterable[Path]) -> None:
    """Makes them durable, and their names. Raises RunDirError."""
    for path in paths:
        try:
            with path.open("r+b") as handle:  # Windows syncs only what may be written
                os.fsync(handle.fileno())
            sync_folder(path.parent)
        except OSError as error:
            raise cannot_write(path, error) from None


def sync_folder(folder: Path) -> None:
    """Makes a rename durable, where the system can sync a folder: not on Windows, nor on some network file systems."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EINVAL, errno.EBADF, errno.ENOTSUP}:
            raise


def _beside(path: Path) -> Path:
    """A new name. Several machines may write into one folder, and number their processes alike."""
    return path.with_name(f".tmp-{secrets.token_hex(4)}-{path.name}")


def _replace(temporary: Path, path: Path) -> None:
    for pause in (0.01, 0.1, 1.0, None):
        try:
            temporary.replace(path)
            break
        except PermissionError:  # Windows, while another program has one of them open, such as a virus scanner
            if pause is None:
                raise
            time.sleep(pause)
    sync_folder(path.parent)


def cannot_write(path: Path, error: OSError) -> RunDirError:
    """The error of a full disk, of a folder that may not be written, or of one that is gone."""
    is_full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    remedy = "free space" if is_full else "mend that or choose another place,"
    return RunDirError(f"cannot write {path}: {error.strerror or error}; {remedy} and run the same command again")


# Reading: a run from a stranger reads nothing but itself -----------------------------------------------------------------


def refuse_special_file(path: Path) -> None:
    """Raises RunDirError for a folder, for a pipe, which would block for ever, and for a device, which may have no end."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise RunDirError(f"{path}: is {kind}, expected a regular file; delete it")


def refuse_outside(folder: Path, file: Path) -> None:
    """Raises RunDirError for a link that leads out of `folder`."""
    try:
        is_inside = file.resolve().is_relative_to(folder.resolve())
    except RuntimeError:  # of Python 3.11 and 3.12, for a link to itself
        is_inside = False
    if not is_inside:
        raise RunDirError(f"{file}: a link that leads out of the run directory; put the file itself there")


def open_inside(folder: Path, file: Path) -> io.BufferedReader:
    """A file of a run, to be read. Raises RunDirError if it leads outside or is no regular file, OSError if missing."""
    refuse_outside(folder, file)
    refuse_special_file(file)
    return file.open("rb")


def read_inside(folder: Path, file: Path, max_bytes: int = 1 << 24) -> bytes:
    """The content of a file of a run directory. Raises RunDirError if it is larger, and as `open_inside` does."""
    with open_inside(folder, file) as handle:
        if os.fstat(handle.fileno()).st_size > max_bytes:
            raise RunDirError(f"{file}: more than {max_bytes:,} bytes; restore it from a copy")
        return handle.read()  # reading "at most so many" would take memory for that many


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
