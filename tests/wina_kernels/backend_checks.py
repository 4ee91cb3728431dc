"""What every backend owes, checked against the reference in float64; a backend's tests run these on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from wina_kernels import reference
from wina_kernels.selection import scores
from wina_kernels.weights import MixedWeight, QuantizedWeight, WeightT

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Case:
    """Inputs of a product."""

    x: Tensor
    weight_t: WeightT
    scale: Tensor | None
    sparsity: float


@st.composite
def cases(
    draw: st.DrawFn, device: str, most_inputs: int = 70, most_outputs: int = 300, others: tuple[str, ...] = ()
) -> Case:
    """Any shape, dtype, format (`others` besides floats, "int8" and "int4"), stride, number of rows, on
    `device`."""
    dtype = draw(st.sampled_from(FLOATS), label="dtype")
    n, m = draw(st.integers(1, most_inputs), label="inputs"), draw(st.integers(1, most_outputs), label="outputs")
    shape = draw(st.sampled_from([(), (1,), (2,), (3,), (5,), (8,), (2, 2), (9,), (0,)]), label="rows")
    random = torch.Generator().manual_seed(draw(st.integers(0, 999), label="seed"))
    gap = draw(st.sampled_from([0, 1, 16]), label="gap between rows")
    x = _strided(torch.randn(*shape, n, generator=random).to(dtype), gap, device)
    form = draw(st.sampled_from(["float", "float", "int8", "int4", *others]), label="form")
    group = draw(st.sampled_from([n, 7, 16, 32]), label="group")
    zero = draw(st.booleans(), label="zero")
    weight_t = weight(form, n, m, dtype, group, zero, gap, random, device)
    scale = (torch.rand(n, generator=random) + 0.1).to(device) if draw(st.booleans(), label="scale") else None
    return Case(x, weight_t, scale, draw(st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]), label="sparsity"))


def weight(
    form: str,
    n: int,
    m: int,
    dtype: torch.dtype,
    group: int,
    zero: bool,
    gap: int,
    random: torch.Generator,
    device: str,
) -> WeightT:
    """A random W^T [n, m]: "float" in `dtype`, "int<bits>", "signed<bits>" or "mixed"."""
    if form == "float":
        return _strided(torch.randn(n, m, generator=random).to(dtype), gap, device)
    if form == "mixed":
        cut = n // 3
        forms = ("int8", "int3", "float") if cut else ("int4",)
        inputs = (cut, cut, n - 2 * cut) if cut else (n,)
        sizes = zip(forms, inputs, strict=True)
        runs = [weight(run_form, k, m, dtype, min(group, k), zero, gap, random, device) for run_form, k in sizes]
        order = torch.randperm(n, generator=random).to(torch.int32) if group % 2 else None
        return MixedWeight(runs, order)  # type: ignore[arg-type]  # none is mixed itself
    bits = int(form[-1])
    groups = -(-n // group)
    scale = _strided((torch.rand(groups, m, generator=random) / 8).to(torch.bfloat16), gap, device)
    zeros = _strided((torch.randn(groups, m, generator=random) * 4).to(torch.bfloat16), gap, device) if zero else None
    signed = bits == 8 or form.startswith("signed")
    low = -(1 << (bits - 1)) if signed else 0
    codes = torch.randint(low, low + (1 << bits), (n, m), generator=random)
    packed = QuantizedWeight.of(codes.to(torch.int8 if signed else torch.uint8), scale, zeros, group, bits)
    return replace(packed, codes=_strided(packed.codes, gap, device))


def check_sparse_linear(backend: Any, case: Case) -> None:
    """A threshold that is itself a score, 0, or above all."""
    ascending = scores(case.x, case.scale).float().flatten().sort().values
    threshold = 0.0
    if len(ascending) and case.sparsity:
        threshold = float(ascending[math.ceil(case.sparsity * len(ascending)) - 1])
    y = backend.sparse_linear(case.x, case.weight_t, case.scale, threshold)
    assert_product(y, case, reference.threshold_masks(case.x, case.scale, threshold), _rounds(backend))


def check_top_k_linear(backend: Any, case: Case) -> None:
    """Few different values, so that there are ties, the more the fewer bits."""
    keep = max(1, round(case.x.shape[-1] * (1 - case.sparsity)))
    scale = case.scale if case.scale is None else case.scale.mul(2).ceil()
    tied = Case(case.x.mul(2).round(), case.weight_t, scale, case.sparsity)
    if not tied.x.numel():
        return
    y = backend.top_k_linear(tied.x, tied.weight_t, tied.scale, keep)
    assert_product(y, tied, reference.top_k_masks(tied.x, tied.scale, keep), _rounds(backend))


def check_masked_linear(backend: Any, case: Case) -> None:
    """A random mask of the sparsity, all and nothing included."""
    mask = (torch.rand(case.x.shape, generator=torch.Generator().manual_seed(0)) >= case.sparsity).to(case.x.device)
    y = backend.masked_linear(case.x, case.weight_t, mask)
    assert_product(y, case, mask, _rounds(backend))


def assert_product(y: Tensor, case: Case, mask: Tensor, rounds: bool = False) -> None:
    """y in x's dtype, rounded once from a sum in float32 of any order (Triton interpreted: towards 0).

    `rounds`: inputs of quantized weights may be rounded to 14 bits of the largest one beside them.
    """
    exact = reference.masked_linear(case.x.double(), case.weight_t, mask)
    sizes = (case.weight_t if isinstance(case.weight_t, Tensor) else case.weight_t.dequantize()).abs()
    terms = reference.masked_linear(case.x.double().abs(), sizes, mask)
    assert y.dtype == case.x.dtype
    assert y.shape == exact.shape
    rounding = torch.finfo(y.dtype).eps
    if case.x.numel() > 8 * case.x.shape[-1]:  # a dense product, of weights in x's dtype
        allowed = terms * (rounding + 1e-5)
    else:
        allowed = exact.abs() * rounding + terms * 2e-6
    if rounds and not isinstance(case.weight_t, Tensor) and case.x.numel():
        ones = torch.ones_like(case.x, dtype=torch.float64)
        largest = case.x.double().abs().amax(-1, keepdim=True) / 2**13
        allowed = allowed + largest * reference.masked_linear(ones, sizes, mask)
    error = (y.double() - exact).abs()
    assert bool((error <= allowed + 1e-7).all()), f"{error.max()} of {exact.abs().max()}"


def _rounds(backend: Any) -> bool:
    return ".native." in str(backend.__name__)


def check_unread_weights(backend: Any, device: str) -> None:
    """A dropped input's weights may be infinite, also where another row keeps it; a kept one shows."""
    x = torch.tensor([[3.0, 0.1, 2.0], [3.0, 5.0, 0.2], [0.0, 0.3, 0.4]], device=device)
    weight_t = torch.ones(3, 20, device=device)
    weight_t[1] = math.inf
    y = backend.sparse_linear(x, weight_t, None, 1.0)
    assert y[0].tolist() == [5.0] * 20
    assert y[1].tolist() == [math.inf] * 20
    assert y[2].tolist() == [0.0] * 20


def check_unread_quantized_weights(backend: Any, device: str) -> None:
    """As for floats; infinite are the scales of a group here."""
    codes = torch.ones(4, 6, dtype=torch.int8, device=device)
    scale = torch.tensor([[1.0], [math.inf]], device=device).repeat(1, 6)
    weight_t = QuantizedWeight(codes, scale, None, 2, 8)
    x = torch.tensor([[1.0, 2.0, 0.1, 0.1], [0.1, 0.1, 0.1, 7.0]], device=device)
    y = backend.sparse_linear(x, weight_t, None, 0.5)
    assert y[0].tolist() == [3.0] * 6
    assert y[1].tolist() == [math.inf] * 6


def check_not_a_number(backend: Any, device: str) -> None:
    """NaN and infinite inputs are kept, and go through as in the dense product."""
    x = torch.tensor([[math.nan, 0.1, 0.2], [0.1, -math.inf, 0.2], [0.1, 2.0, 0.2]], device=device)
    weight_t = torch.ones(3, 5, device=device)
    for y in (
        backend.sparse_linear(x, weight_t, torch.ones(3, device=device), 1.0),
        backend.top_k_linear(x, weight_t, None, 1),
    ):
        assert y[0].isnan().all()
        assert y[1].tolist() == [-math.inf] * 5
        assert y[2].tolist() == [2.0] * 5


def check_same_bits(backend: Any, device: str) -> None:
    """Run after run."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(3, 200, generator=random).to(device)
    weight_t = torch.randn(200, 130, generator=random).to(device)
    runs = [backend.sparse_linear(x, weight_t, None, 0.5) for _ in range(3)]
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])


def _strided(matrix: Tensor, gap: int, device: str) -> Tensor:
    """The same values with `gap` numbers between rows."""
    padded = torch.empty(*matrix.shape[:-1], matrix.shape[-1] + gap, dtype=matrix.dtype, device=device)
    padded[..., : matrix.shape[-1]] = matrix.to(device)
    return padded[..., : matrix.shape[-1]]
