"""A file of lines that several processes share: each takes every n-th block, and the first one joins what they made of them.

A block that is done lies in a folder beside the output, whole or absent. So the processes need not talk to each other, and
a command that broke off goes on where it was, with any number of processes.
"""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from tqdm import tqdm

from mt_cli.cli.pipe import MAX_LINES, LineProcess, decode_block
from mt_cli.errors import DataError
from mt_cli.files import make_folder, read_inside, write_atomically, write_bytes, write_text

_WAIT_SECONDS = 0.2


class BlockFolder:
    """The finished blocks of one output. `identity`: all that they depend on; blocks of another one are refused."""

    def __init__(self, output: Path, identity: str):
        self._output, self._folder = output, _folder_of(output)
        about = self._folder / "made-by"
        make_folder(self._folder)
        if not about.exists():
            write_text(about, identity)
        elif read_inside(self._folder, about).decode("utf-8", "replace") != identity:
            raise DataError(
                f"{self._folder}: has blocks of another input, run, search or version of mt; delete it or choose another --output"
            )

    @staticmethod
    def is_begun(output: Path) -> bool:
        return _folder_of(output).exists()

    @property
    def is_joined(self) -> bool:
        return self._output.exists()

    def file(self, number: int) -> Path:
        return self._folder / f"{number:08d}"

    def join(self, n_blocks: int) -> None:
        """Waits until all blocks are there, and makes the output of them."""
        with tqdm(total=n_blocks, unit=" blocks", disable=None) as bar:
            for number in range(n_blocks):
                while not self.file(number).exists():
                    time.sleep(_WAIT_SECONDS)
                bar.update()

        def write(out: IO[bytes]) -> None:
            for number in range(n_blocks):
                with self.file(number).open("rb") as block:
                    shutil.copyfileobj(block, out)

        write_atomically(self._output, write)
        self.delete()

    def delete(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)  # a process that comes late may be writing there


def _folder_of(output: Path) -> Path:
    return output.with_name(f".{output.name}.blocks")


def share_blocks(
    source: io.RawIOBase,
    name: str,
    process: LineProcess,
    folder: BlockFolder,
    rank: int,
    n_processes: int,
    replaces_bad_input: bool,
) -> None:
    """Processes every `n_processes`-th block of lines from `rank` on, but for those that are done; the first process then
    waits for the others and joins the blocks. Raises what `process_lines` raises."""
    n_blocks, n_own = 0, 0
    for number, (n_before, lines) in enumerate(_blocks(source)):
        if rank and folder.is_joined:
            break
        n_blocks = number + 1
        if number % n_processes == rank and not folder.file(number).exists():
            texts = decode_block(lines, n_before, name, replaces_bad_input)
            output = "".join(line + "\n" for line in process(texts, n_before))
            write_bytes(folder.file(number), output.encode())
            n_own += len(lines)
    process.finish(n_own)
    if rank == 0:
        folder.join(n_blocks)
    elif folder.is_joined:
        folder.delete()  # made anew by this process, which came late


def _blocks(source: io.RawIOBase) -> Iterator[tuple[int, list[bytes]]]:
    """Blocks of lines without their ends, each with the number of lines before it."""
    n_before = 0
    with io.BufferedReader(source, 1 << 20) as reader:
        while lines := list(islice(reader, MAX_LINES)):
            yield n_before, [line.removesuffix(b"\n") for line in lines]
            n_before += len(lines)
