"""The device and the precision to compute with, as requested or chosen automatically; and the memory that is free."""

import contextlib
import ctypes
import functools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from mt_cli.errors import UsageError
from mt_cli.processes import local_rank, n_processes


def choose_device(requested: str) -> torch.device:
    """`auto` is cuda, else mps (for one process), else cpu. Raises UsageError for a device that does not work."""
    name, is_alone = requested, n_processes() == 1
    if requested == "auto":
        has_mps = is_alone and torch.backends.mps.is_available()
        name = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
        raise UsageError(f"device '{requested}': expected auto, cpu, cuda, cuda:N or mps")
    if name == "mps" and not is_alone:
        raise UsageError("device mps is for one process; use device cpu, or leave out torchrun")
    if name == "cuda" and not is_alone:  # each has its own
        name = f"cuda:{local_rank()}"
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()  # a GPU that this torch has no code for fails here, not at the first step
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0].partition(". ")[0].rstrip(".")[:150]
        others = "cpu" if requested == "auto" else "cpu, or auto"
        raise UsageError(f"device {name} cannot be used ({reason}); use device {others}") from None
    # On new GPUs torch prefers cuDNN's attention, which makes a plan for each new shape, a second long; shapes are new at
    # nearly every step. And its gradients can be NaN (pytorch #196678).
    torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def choose_precision(requested: str, device: torch.device) -> tuple[torch.dtype, str]:
    """The dtype that the network computes in, and why."""
    if requested != "auto":
        return (torch.bfloat16 if requested == "bf16" else torch.float32), "as set"
    if device.type == "cuda":
        with torch.cuda.device(device):  # is_bf16_supported asks about the current device
            is_fast = torch.cuda.is_bf16_supported(including_emulation=False)
        return (torch.bfloat16, "this GPU has it") if is_fast else (torch.float32, "this GPU has no bf16")
    if device.type == "cpu" and _cpu_multiplies_bf16():
        return torch.bfloat16, "this CPU multiplies it in hardware"
    return torch.float32, f"bf16 is not known to be fast on this {device.type}"


@functools.cache
def _cpu_multiplies_bf16() -> bool:
    # torch has no public function for it; where it lacks these two, the answer is no.
    checks = (getattr(torch.cpu, name, bool) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    if not any(check() for check in checks):
        return False

    # The libraries need not use what the processor has: without it bf16 takes ten times as long as float32.
    seconds = dict.fromkeys((torch.bfloat16, torch.float32), float("inf"))
    for dtype in [*seconds] * 6:  # in turns: other work comes and goes
        x, weight = torch.ones(2048, 256, dtype=dtype), torch.ones(256, 1024, dtype=dtype)
        began = time.perf_counter()
        (x @ weight)[0, 0].item()
        seconds[dtype] = min(seconds[dtype], time.perf_counter() - began)
    return seconds[torch.bfloat16] < seconds[torch.float32]


@contextlib.contextmanager
def fast_float32_products(device: torch.device) -> Iterator[None]:
    """Within it torch may choose oneDNN's float32 products on a CPU, which on AMD's run up to twice as fast as MKL's."""
    # The only setting that does so also permits bf16: it is taken back where a small product shows that the CPU uses it.
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():  # the latter on an Apple chip, for one
        yield
        return
    products: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = products.fp32_precision
    numbers = torch.linspace(1, 2, 1 << 16).view(256, 256)
    exact = numbers.double() @ numbers.double()
    products.fp32_precision = "bf16"
    if not torch.allclose((numbers @ numbers).double(), exact, rtol=1e-5):
        products.fp32_precision = before
    try:
        yield
    finally:
        products.fp32_precision = before


def keep_freed_memory() -> None:
    """Lets glibc keep freed memory: mapping each large tensor anew costs a step on a CPU a quarter of its time."""
    # Of each size of a product oneDNN keeps code, which fragments the memory between the tensors: with a limit, set before
    # the first product, a training of an hour takes a quarter less memory and no more time.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
    # The numbers in <malloc.h>: no block is mapped on its own (-4), nothing is given back before 1 GiB is free (-1), a heap
    # grows by 64 MiB (-2). Each thread has a heap of its own: with one for all, they wait for each other at every tensor.
    with contextlib.suppress(AttributeError, OSError, TypeError):
        libc = ctypes.CDLL(None)
        for parameter, value in {-4: 0, -1: 1 << 30, -2: 1 << 26}.items():
            libc.mallopt(parameter, value)


def available_memory() -> int | None:
    """Bytes that the machine and the process's control groups (a container) still have for it; None where it is unknown."""
    try:
        rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        known = {row[0]: int(row[1]) * 1024 for row in rows}
        return min([known["MemAvailable:"] + known["SwapFree:"], *_left_to_groups()])
    except (OSError, KeyError, ValueError, IndexError):
        return None


_GROUP_FILES = {  # of version 2 and version 1: the limit, what is used, and what of it can be freed
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def _left_to_groups() -> Iterator[int]:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        group = Path(f"/sys/fs/cgroup/{controllers}{path}")
        for folder in (group, *group.parents) if controllers in _GROUP_FILES else ():
            limit, used, freeable = _GROUP_FILES[controllers]
            with contextlib.suppress(OSError, ValueError, KeyError):  # no limit here, or a container that hides it
                statistics = dict(row.split() for row in (folder / "memory.stat").read_text().splitlines())
                in_use = int((folder / used).read_text()) - int(statistics[freeable])
                yield max(0, int((folder / limit).read_text()) - in_use)


@contextlib.contextmanager
def memory_limited(device: torch.device) -> Iterator[None]:
    """Makes allocations fail on a CPU beyond `available_memory`, mapped files included (`ulimit -v`), on Linux; otherwise the
    kernel kills the process that uses too much."""
    available = available_memory() if device.type == "cpu" else None
    if available is None:
        yield
        return
    import resource

    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [limit - taken for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    limit = taken + max(32 << 20, min([available, *limits]))  # the least is for the stacks of a few threads
    resource.setrlimit(resource.RLIMIT_AS, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
