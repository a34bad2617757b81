"""Counts what a training is fed, in the same way for every contender, and measures it in windows.

A contender calls `count` with the ids of each batch and `update` after each optimizer step. After the first update, and
at the end of each window, `update` prints a line of JSON and waits for the next window's length in seconds on stdin; so
contenders take turns, and one that waits costs the others nothing. This file knows no toolkit and needs only torch.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections import Counter
from typing import TextIO

from torch import Tensor


class Meter:
    def __init__(self, requests: TextIO, windows: TextIO) -> None:
        self._requests, self._windows = requests, windows
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._started = self._ends = time.perf_counter()

    @classmethod
    def on_stdio(cls) -> Meter:
        windows = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what a toolkit prints goes to stderr
        return cls(sys.stdin, windows)

    def count(self, src_ids: Tensor, tgt_out: Tensor, pad_id: int) -> None:
        """src_ids (B,S) and tgt_out (B,T): what is read and what is to be predicted, end symbols included. Parts of a
        batch may be counted by several threads."""
        with self._lock:
            self._counts["src_tokens"] += int((src_ids != pad_id).sum())
            self._counts["tgt_tokens"] += int((tgt_out != pad_id).sum())
            self._counts["src_places"] += src_ids.numel()
            self._counts["tgt_places"] += tgt_out.numel()

    def update(self) -> None:
        self._counts["updates"] += 1
        now = time.perf_counter()
        if now < self._ends:
            return
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB on Linux
        window = {**self._counts, "seconds": now - self._started, "peak_mib": peak / 1024}
        print(json.dumps(window), file=self._windows, flush=True)
        request = self._requests.readline()
        if not request:
            sys.exit(0)  # nobody wants to know more
        self._counts.clear()
        self._started = time.perf_counter()
        self._ends = self._started + float(request)
