"""Device and precision are chosen, or refused, with a reason."""

from __future__ import annotations

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


@pytest.mark.parametrize(("rounds_to_bf16", "expected"), [(False, "medium"), (True, "highest")])
def test_float32_products_are_only_made_faster_where_they_stay_exact(monkeypatch, rounds_to_bf16, expected):
    """As on a CPU that computes "medium" products in bf16."""
    real = torch.Tensor.__matmul__

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        is_rounded = rounds_to_bf16 and a.dtype == torch.float32 and torch.get_float32_matmul_precision() == "medium"
        return real(a.bfloat16(), b.bfloat16()).float() if is_rounded else real(a, b)

    monkeypatch.setattr(torch.Tensor, "__matmul__", product)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        multiply_float32_fast()
        assert torch.get_float32_matmul_precision() == expected
    finally:
        torch.set_float32_matmul_precision(before)
