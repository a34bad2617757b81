"""What a server has done so far, in the text format of Prometheus."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # bounds of the histogram's buckets


class Metrics:
    """Counters; all methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals, self._requests, self._buckets = (
            defaultdict[str, float](float),
            Counter[tuple[str, int]](),
            Counter[int](),
        )

    def add(self, name: str, amount: float = 1) -> None:
        with self._lock:
            self._totals[name] += amount

    def add_request(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[path, status] += 1
            self._totals["request_seconds"] += seconds
            self._buckets[bisect_left(_SECONDS, seconds)] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """`gauges`: what is measured now."""
        with self._lock:
            totals, requests, buckets = dict(self._totals), sorted(self._requests.items()), Counter(self._buckets)
        lines = ["# TYPE mt_requests_total counter"]
        lines += [f'mt_requests_total{{path="{path}",status="{status}"}} {count}' for (path, status), count in requests]
        lines.append("# TYPE mt_request_seconds histogram")
        total = 0
        for place, bound in enumerate([*map(str, _SECONDS), "+Inf"]):
            total += buckets[place]
            lines.append(f'mt_request_seconds_bucket{{le="{bound}"}} {total}')
        lines += [f"mt_request_seconds_sum {totals.pop('request_seconds', 0):.6f}", f"mt_request_seconds_count {total}"]
        for name, value in totals.items():
            lines += [f"# TYPE mt_{name}_total counter", f"mt_{name}_total {value:.10g}"]
        for name, value in {**gauges, **_memory()}.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:.10g}"]
        return "\n".join(lines) + "\n"


def _memory() -> dict[str, float]:
    """Empty where the system does not say it."""
    try:
        n_pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return {}
    return {"process_resident_memory_bytes": n_pages * os.sysconf("SC_PAGE_SIZE")}
