"""Device and precision are chosen, or refused, with a reason."""

import sys
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest
import torch
import torch.nn.functional as F
from tiny_trainer import trainer_of
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mt_cli import device
from mt_cli.build import train
from mt_cli.config import TrainingConfig
from mt_cli.config_file import load_config
from mt_cli.data.batching import batch_of
from mt_cli.device import choose_device, choose_precision, fast_float32_products
from mt_cli.errors import UsageError
from mt_cli.training.objective import summed_loss
from mt_cli.training.optimizer import Optimizer


@pytest.mark.parametrize(("has_bf16", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
def test_a_cpu_computes_in_bf16_only_when_it_has_instructions_for_it(monkeypatch, has_bf16, expected):
    monkeypatch.setattr(device, "_cpu_multiplies_bf16", lambda: has_bf16)
    dtype, why = choose_precision("auto", torch.device("cpu"))
    assert dtype == expected and "cpu" in why.lower()


def test_a_device_that_does_not_work_is_refused_and_not_left_for_another(monkeypatch):
    error = torch.AcceleratorError("CUDA error: no kernel image is available for execution on the device\nSearch for")
    torch.backends.cuda.enable_cudnn_sdp(True)
    assert choose_device("cpu") == torch.device("cpu")
    assert not torch.backends.cuda.cudnn_sdp_enabled(), "which plans anew for each shape"
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match=r"device cuda cannot be used \(.+\); use device cpu, or auto"):
            choose_device("cuda")
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("mt_cli.device.n_processes", lambda: 2)
    assert choose_device("auto").type == "cpu", "several processes take no mps"
    with pytest.raises(UsageError, match="device mps is for one process"):
        choose_device("mps")
    monkeypatch.setattr("mt_cli.device.n_processes", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", Mock(side_effect=error))
    with pytest.raises(UsageError, match=r"^device cuda cannot be used \(CUDA error: no kernel .*\); use device cpu$"):
        choose_device("auto")


def test_bf16_is_asked_of_the_gpu_that_computes(monkeypatch):
    current = MagicMock()
    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation: current.return_value.__enter__.called
    )
    assert choose_precision("auto", torch.device("cuda:1"))[0] == torch.bfloat16
    current.assert_called_once_with(torch.device("cuda:1"))


class OneDevice(TorchDispatchMode):
    """Fails where an operation mixes devices, which only numbers may, or needs float64, which Apple's have not."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        devices = {tensor.device.type for tensor in tensors if tensor.dim()}
        if "copy" not in str(function):
            assert len(devices) <= 1, (function, devices)
        if "meta" in devices:
            assert "nonzero" not in str(function), "a GPU is waited for: only it knows how many there are"
            assert all(tensor.dtype != torch.float64 for tensor in tensors), function
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("dtype", "positions", "is_fused"),
    [(torch.bfloat16, "sinusoid", True), (torch.float32, "rotary_cross", True), (torch.float32, "sinusoid", False)],
)
def test_a_step_elsewhere_than_on_the_cpu_is_all_there(monkeypatch, make_model, dtype, positions, is_fused):
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *args, **kwargs: pytest.fail("cuda's alone is right"))
    monkeypatch.setattr(sys.modules["torch.optim.adam"], "_device_dtype_check_for_fused", lambda *args, **kwargs: None)
    model = make_model(positions=positions, dropout=0.1, attention_dropout=0.1).to("meta")
    optimizer = Optimizer(model, TrainingConfig(), dtype)
    optimizer.network.train()
    batch = batch_of([[5, 6, 7], [8, 9]], [[5, 6], [7, 8, 9, 10]])
    with OneDevice():
        for step in (1, 2):
            moved = batch.to(model.device)
            loss = summed_loss(optimizer.network, moved, 0.1, is_fused=is_fused)
            gradients = torch.autograd.grad(loss, optimizer.network_weights)
            optimizer.add(gradients)
            assert optimizer.average_and_clip(moved.n_tokens).device.type == "meta"
            optimizer.step(1e-3, 0.5, step)
    moments = [tensor for state in optimizer.state().values() for tensor in state.values()]
    assert moments and {(tensor.device.type, tensor.dtype) for tensor in moments} == {("meta", torch.float32)}


@pytest.mark.parametrize(("rounds_to_bf16", "expected"), [(False, "bf16"), (True, "ieee")])
def test_float32_products_are_only_made_faster_where_they_stay_exact(monkeypatch, rounds_to_bf16, expected):
    """As on a CPU that then computes in bf16; the products of a GPU stay as they are."""
    products = torch.backends.mkldnn.matmul
    real = torch.Tensor.__matmul__

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dtype != torch.float32:
            return real(a, b)
        is_rounded = rounds_to_bf16 and products.fp32_precision == "bf16"
        rounded = (a.bfloat16(), b.bfloat16()) if is_rounded else (a, b)
        return real(*(one.double() for one in rounded)).float()  # which no CPU rounds

    monkeypatch.setattr(torch.Tensor, "__matmul__", product)
    before, on_gpu = products.fp32_precision, torch.backends.cuda.matmul.fp32_precision
    try:
        products.fp32_precision = "ieee"
        with fast_float32_products(torch.device("cpu")):
            assert products.fp32_precision == expected
        assert (products.fp32_precision, torch.backends.cuda.matmul.fp32_precision) == ("ieee", on_gpu)
    finally:
        products.fp32_precision = before


def test_code_for_sizes_long_gone_does_not_stay_in_memory(mt_process):
    program = """
import torch
from mt_cli.device import keep_freed_memory
keep_freed_memory()
numbers = torch.ones(300, 64, dtype=torch.bfloat16)
for n in (100, *range(101, 161), 100, *range(161, 291), 100):
    numbers[:n] @ numbers[:64]
"""
    process = mt_process("version", before=program, env={"ONEDNN_VERBOSE": "profile_create"})
    lines = process.communicate()[0].decode().splitlines()
    of_100 = [line.split(",")[3] for line in lines if ",create:" in line and ",100x64:" in line]
    if not of_100:
        pytest.skip("bf16 products of this CPU are not oneDNN's")
    assert of_100 == ["create:cache_miss", "create:cache_hit", "create:cache_miss"]


def test_threads_do_not_share_a_heap(mt_process):
    program = """
import ctypes, threading, torch
from mt_cli.device import keep_freed_memory
keep_freed_memory()
thread = threading.Thread(target=lambda: torch.ones(1 << 16))
thread.start()
thread.join()
ctypes.CDLL(None).malloc_stats()
"""
    process = mt_process("version", before=program)
    _, told = process.communicate()
    if b"Arena 0:" not in told:
        pytest.skip("not the memory of glibc")
    assert b"Arena 1:" in told


def test_no_function_of_training_leaves_torchs_settings_changed(tiny):
    def settings() -> tuple[object, ...]:
        products = torch.backends.mkldnn.matmul.fp32_precision
        return products, torch.get_num_threads(), torch.get_default_dtype(), torch.random.get_rng_state().tolist()

    before = settings()
    trainer_of(tiny / "prepared", "training.max_steps=2").train()
    assert settings() == before
    train(load_config(Path("tiny.yaml"), ["training.minutes=0.01"]), Path("run"))
    assert settings() == before
