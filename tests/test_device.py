"""Device and precision are chosen, or refused, with a reason."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from mt_cli import device
from mt_cli.device import choose_device, choose_precision, multiply_float32_fast
from mt_cli.errors import UsageError


@pytest.mark.parametrize(("has_bf16", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
def test_a_cpu_computes_in_bf16_only_when_it_has_instructions_for_it(monkeypatch, has_bf16, expected):
    monkeypatch.setattr(device, "_cpu_multiplies_bf16", lambda: has_bf16)
    dtype, why = choose_precision("auto", torch.device("cpu"))
    assert dtype == expected and "cpu" in why.lower()


@pytest.mark.parametrize(("wish", "expected"), [("bf16", torch.bfloat16), ("fp32", torch.float32)])
def test_a_precision_asked_for_is_taken(wish, expected):
    assert choose_precision(wish, torch.device("cpu")) == (expected, "as set")


def test_a_device_that_is_not_there_is_refused_in_one_line():
    if torch.cuda.is_available():
        pytest.skip("has the device that should be missing")
    with pytest.raises(UsageError, match=r"device cuda cannot be used \(.+\); use device cpu, or auto"):
        choose_device("cuda")
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("rounds_to_bf16", "expected"), [(False, "bf16"), (True, "ieee")])
def test_float32_products_are_only_made_faster_where_they_stay_exact(monkeypatch, rounds_to_bf16, expected):
    """As on a CPU that then computes in bf16; the products of a GPU stay as they are."""
    products = torch.backends.mkldnn.matmul
    real = torch.Tensor.__matmul__

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        is_rounded = rounds_to_bf16 and a.dtype == torch.float32 and products.fp32_precision == "bf16"
        return real(a.bfloat16(), b.bfloat16()).float() if is_rounded else real(a, b)

    monkeypatch.setattr(torch.Tensor, "__matmul__", product)
    before, on_gpu = products.fp32_precision, torch.backends.cuda.matmul.fp32_precision
    try:
        products.fp32_precision = "ieee"
        multiply_float32_fast()
        assert products.fp32_precision == expected
        assert torch.backends.cuda.matmul.fp32_precision == on_gpu
    finally:
        products.fp32_precision = before


def test_code_for_sizes_long_gone_does_not_stay_in_memory():
    program = """
import torch
from mt_cli.device import keep_freed_memory
keep_freed_memory()
numbers = torch.ones(300, 64, dtype=torch.bfloat16)
for n in (100, *range(101, 101 + N_OTHERS), 100):
    numbers[:n] @ numbers[:64]
"""
    made = []
    for n_others in (60, 130):
        done = subprocess.run(
            [sys.executable, "-c", program.replace("N_OTHERS", str(n_others))],
            env={**os.environ, "ONEDNN_VERBOSE": "profile_create"},
            capture_output=True,
            text=True,
            check=True,
        )
        made.append([line.split(",")[3] for line in done.stdout.splitlines() if ",create:" in line])
    if not made[0]:
        pytest.skip("bf16 products of this CPU are not oneDNN's")
    assert made[0][-1] == "create:cache_hit"
    assert made[1][-1] == "create:cache_miss"
