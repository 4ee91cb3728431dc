"""The native product of prompts and batches with transposed bfloat16 weights."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from wina_kernels.dense import dense_product, multiply_in_float32, multiply_rows
from wina_kernels.native.abi import loaded

CPU = Path("/proc/cpuinfo")
FLAGS = CPU.read_text().split() if CPU.exists() else []
SERVED = "avx512_bf16" in FLAGS and "amx_bf16" not in FLAGS and loaded() is not None
needs_kernel = pytest.mark.skipif(not SERVED, reason="no AVX-512 BF16, or AMX, or no native library")
ROUNDED = 2**-8
"""Relative rounding error of bfloat16."""


def check(x: torch.Tensor, weight_t: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Check a product against float64."""
    y = multiply_rows(x, weight_t, bias)
    assert y is not None
    added = torch.zeros(weight_t.shape[1]).double() if bias is None else bias.double()
    exact = x.double() @ weight_t.double() + added
    largest = x.double().abs() @ weight_t.double().abs() + added.abs()
    assert ((y.double() - exact).abs() <= ROUNDED * exact.abs() + 1e-5 * largest).all()


@needs_kernel
@given(
    rows=st.integers(1, 40),
    inputs=st.integers(1, 200).map(lambda pairs: 2 * pairs),
    outputs=st.integers(1, 700),
    before=st.integers(0, 40),
    biased=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_products_are_summed_in_float32(
    rows: int, inputs: int, outputs: int, before: int, biased: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, inputs, generator=generator).bfloat16()
    weight_t = torch.randn(inputs, before + outputs + 3, generator=generator).bfloat16()[:, before : before + outputs]
    check(x, weight_t, torch.randn(outputs, generator=generator).bfloat16() if biased else None)


@needs_kernel
@pytest.mark.parametrize("outputs", [200, 1100])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_divide_the_outputs(threads: int, outputs: int) -> None:
    generator, before = torch.Generator().manual_seed(0), torch.get_num_threads()
    x, weight_t = (torch.randn(shape, generator=generator).bfloat16() for shape in ((40, 300), (300, outputs)))
    torch.set_num_threads(threads)
    try:
        check(x, weight_t, None)
    finally:
        torch.set_num_threads(before)


@needs_kernel
@pytest.mark.parametrize("inputs", [62, 66])
def test_inputs_of_another_width_are_refused_as_pytorch_does(inputs: int) -> None:
    x, weight = torch.ones(9, inputs).bfloat16(), torch.ones(64, 48).bfloat16().t()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        dense_product(x, weight)


@needs_kernel
def test_more_rows_than_are_copied_at_once_are_multiplied() -> None:
    x, weight_t = torch.arange(2100.0)[:, None].expand(-1, 4).remainder(251).bfloat16(), torch.eye(4).bfloat16()
    y = multiply_rows(x, weight_t)
    assert y is not None
    assert y.equal(x)


@needs_kernel
def test_what_is_not_finite_reaches_its_outputs_alone() -> None:
    x, weight_t = torch.ones(20, 64).bfloat16(), torch.ones(64, 100).bfloat16()
    x[3, 5], weight_t[7, 70] = torch.nan, torch.inf
    y = multiply_rows(x, weight_t)
    assert y is not None
    assert y[3].isnan().all()
    finite_rows = torch.arange(20) != 3
    assert (y[finite_rows, 70] == torch.inf).all()
    assert (y[finite_rows][:, torch.arange(100) != 70] == 64).all()


@given(rows=st.integers(1, 40), inputs=st.integers(1, 300), outputs=st.integers(1, 300), seed=st.integers(0, 1000))
def test_sums_in_float32_are_not_rounded_to_bfloat16(rows: int, inputs: int, outputs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, weight_t = (torch.randn(shape, generator=generator).bfloat16() for shape in ((rows, inputs), (inputs, outputs)))
    y = multiply_in_float32(x, weight_t)
    assert y.dtype == torch.float32
    largest = x.double().abs() @ weight_t.double().abs()
    assert ((y.double() - x.double() @ weight_t.double()).abs() <= 3e-6 * largest).all()


@pytest.mark.parametrize("rows", [1, 9, 70])
@pytest.mark.parametrize("inputs", [31, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_dense_product_is_a_linear_layers(dtype: torch.dtype, inputs: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, rows, inputs, generator=generator).to(dtype)
    weight = torch.randn(inputs, 48, generator=generator).to(dtype).t()
    bias = torch.randn(48, generator=generator).to(dtype)
    exact = functional.linear(x.double(), weight.double(), bias.double())
    torch.testing.assert_close(dense_product(x, weight, bias).double(), exact, rtol=2e-2, atol=5e-2)


def test_a_recorded_product_has_a_gradient() -> None:
    x, weight = torch.randn(9, 32).bfloat16().requires_grad_(), torch.randn(32, 16).bfloat16().t()
    (gradient,) = torch.autograd.grad(dense_product(x, weight).sum(), x)
    torch.testing.assert_close(gradient, weight.sum(0).expand_as(x), rtol=2e-2, atol=2e-2)
