"""Weights in planes in the native library: products and counts of `PlaneWeight`, in every instruction set."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from wina_kernels.native import abi
from wina_kernels.native.operations import PreparedPlanes, Product, multiply
from wina_kernels.planes import MOST_PLANES, PlaneWeight, in_planes
from wina_kernels.selection import scores, threshold_mask, top_k_mask

pytestmark = pytest.mark.skipif(abi.loaded() is None, reason="the native library is not built here")
many = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@dataclass(frozen=True)
class Case:
    """A weight in planes and inputs."""

    x: Tensor
    weight: PlaneWeight
    scale: Tensor | None
    keep: int


@st.composite
def cases(draw: st.DrawFn, most_outputs: int = 1400) -> Case:
    """Any number of planes, of rows, dtype, and sizes that fill no vector."""
    n, m = draw(st.integers(1, 200), label="inputs"), draw(st.integers(1, most_outputs), label="outputs")
    random = torch.Generator().manual_seed(draw(st.integers(0, 999), label="seed"))
    planes = draw(st.sampled_from([1, 3, MOST_PLANES, None]), label="planes")
    counts = torch.randint(1, MOST_PLANES + 1, (n,), generator=random) if planes is None else planes
    shape = draw(st.sampled_from([(1,), (2,), (3,), (2, 2), (8,)]), label="rows")
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16]), label="dtype")
    x = torch.randn(*shape, n, generator=random).to(dtype)
    if draw(st.booleans(), label="tied"):
        x = x.mul(2).round()
    scaled = draw(st.booleans(), label="scale") or dtype != torch.float32  # without, torch scores in x's dtype
    scale = torch.rand(n, generator=random).mul(4).ceil() if scaled else None
    keep = draw(st.integers(1, n), label="keep")
    return Case(x, in_planes(torch.randn(n, m, generator=random), counts), scale, keep)


def assert_product(product: Product, case: Case, levels: Tensor) -> None:
    """The product of these levels, with inputs rounded to 14 bits of the largest one beside them, and its counts."""
    x, weight = case.x.double(), case.weight
    assert (product.kept, product.read) == (int((levels > 0).sum()), int(levels.sum()))
    exact = weight.product(x, levels)
    assert product.y.dtype == case.x.dtype
    assert product.y.shape == exact.shape
    scaled = (x * weight.scale.double()).abs()
    rounding = scaled.amax(-1, keepdim=True) * 2.0**-13 * (levels > 0).sum(-1, keepdim=True).sqrt()
    terms = (scaled * (levels > 0)).sum(-1, keepdim=True)
    error = (product.y.double() - exact).abs()
    allowed = exact.abs() * torch.finfo(product.y.dtype).eps + 3 * rounding + 2e-6 * terms + 1e-7
    assert bool((error <= allowed).all()), f"{error.max()} of {exact.abs().max()}"


def check_case(case: Case) -> None:
    """Top k, a threshold that is itself a score, both, all, and a mask."""
    step, score = PreparedPlanes(case.weight, case.scale), scores(case.x, case.scale).float()
    mask_of_kept = top_k_mask(score, case.keep)
    boundary = score.sort(dim=-1, descending=True).values[..., case.keep - 1 : case.keep]
    assert_product(step.top_k(case.x, case.keep), case, case.weight.levels(score, boundary) * mask_of_kept)
    threshold = float(score.flatten().median())
    levels = case.weight.levels(score, score.new_full((*score.shape[:-1], 1), threshold))
    assert_product(step.above(case.x, threshold), case, levels * threshold_mask(score, threshold))
    lower = boundary.clamp(max=threshold)
    floored = case.weight.levels(score, lower) * threshold_mask(score, threshold, case.keep)
    assert_product(step.above(case.x, threshold, case.keep), case, floored)
    everything = case.weight.counts.expand(case.x.shape)
    assert_product(step.above(case.x, -1.0), case, everything)
    mask = torch.rand(case.x.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    assert_product(multiply(case.x, abi.StoredWeight(case.weight), None, mask=mask), case, everything * mask)


@many
@given(case=cases())
def test_planes_are_read_by_the_scores_of_their_inputs(case: Case) -> None:
    check_case(case)


@pytest.mark.usefixtures("instructions")
@settings(many, max_examples=8)
@given(case=cases(600))
def test_every_instruction_set_reads_the_same_planes(case: Case) -> None:
    check_case(case)


@pytest.mark.usefixtures("instructions")
def test_inputs_that_cannot_be_rounded_show_or_are_multiplied_exactly() -> None:
    weight = in_planes(torch.randn(40, 300, generator=torch.Generator().manual_seed(0)), MOST_PLANES)
    x = torch.zeros(4, 40)
    x[0, 7], x[1, 8], x[2, 9], x[3, 10] = float("nan"), float("inf"), 1e-36, 2.0
    product = PreparedPlanes(weight, None).top_k(x, 1)
    boundary = x.abs().amax(1, keepdim=True)
    levels = weight.levels(x.abs(), boundary) * top_k_mask(x.abs(), 1)
    assert (product.kept, product.read) == (4, int(levels.sum()))
    assert int(levels[0, 7]) == 1, "a NaN exceeds no boundary"
    assert product.y[0].isnan().all()
    assert not product.y[1].isfinite().any()
    torch.testing.assert_close(
        product.y[2:].double(), weight.product(x[2:].double(), levels[2:]), rtol=1e-3, atol=1e-40
    )


def test_the_threads_share_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(0)
    weight = in_planes(torch.randn(300, 500, generator=random), torch.randint(1, 7, (300,), generator=random))
    x = torch.randn(2, 300, generator=random)
    monkeypatch.setattr("wina_kernels.native.abi._WORTH_A_THREAD", 1)
    for threads in (1, 2, 3, 7):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        step = PreparedPlanes(weight, None)
        runs = [step.top_k(x, 150).y for _ in range(3)]
        assert torch.equal(runs[0], runs[1])
        assert torch.equal(runs[0], runs[2])
        boundary = x.abs().sort(dim=-1, descending=True).values[:, 149:150]
        levels = weight.levels(x.abs(), boundary) * top_k_mask(x.abs(), 150)
        torch.testing.assert_close(runs[0].double(), weight.product(x.double(), levels), rtol=1e-3, atol=1e-2)
