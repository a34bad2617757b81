"""What a server has done so far, in the text format of Prometheus."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

_SECONDS = (
    "0.01",
    "0.025",
    "0.05",
    "0.1",
    "0.25",
    "0.5",
    "1",
    "2.5",
    "5",
    "10",
    "+Inf",
)  # bounds of the histogram's buckets


class Metrics:
    """Counters by their names and labels, as Prometheus writes both; all methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock, self._values = threading.Lock(), Counter[str]()

    def add(self, *amounts: tuple[str, float]) -> None:
        with self._lock:
            for name, amount in amounts:
                self._values[name] += amount  # type: ignore[assignment]  # a float

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def add_request(self, path: str, status: int, seconds: float) -> None:
        self.add(
            (f'mt_requests_total{{path="{path}",status="{status}"}}', 1),
            *((f'mt_request_seconds_bucket{{le="{bound}"}}', seconds <= float(bound)) for bound in _SECONDS),
            ("mt_request_seconds_sum", seconds),
            ("mt_request_seconds_count", 1),
        )

    def text(self, gauges: Mapping[str, float]) -> str:
        """`gauges`: what is measured now."""
        with self._lock:
            samples = {**self._values, **gauges, **_memory()}
        lines, families = list[str](), dict[str, list[str]]()
        for name, value in samples.items():
            family = re.sub(r"(_bucket|_sum|_count)?({.*)?$", "", name)
            families.setdefault(family, []).append(f"{name} {value:.12g}")
        for family, own in families.items():
            kind = "histogram" if "seconds_count" in own[-1] else "counter" if family.endswith("_total") else "gauge"
            lines += [f"# TYPE {family} {kind}", *own]
        return "\n".join(lines) + "\n"


def _memory() -> dict[str, float]:
    """Empty where the system does not say it."""
    try:
        n_pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return {}
    return {"process_resident_memory_bytes": n_pages * os.sysconf("SC_PAGE_SIZE")}
