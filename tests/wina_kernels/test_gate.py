"""Gated rows, by the native library and by masks: those of `selection`, bit for bit."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wina_kernels import dispatch as gating
from wina_kernels.dispatch import gate_above, gate_top_k
from wina_kernels.native import abi
from wina_kernels.selection import kept_inputs, scores, threshold_mask, top_k_mask

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float16]
KINDS = ["normal", "lognormal", "few values", "constant", "zeros", "far apart"]


@pytest.fixture(autouse=True, params=["native", "masks"])
def way(request, monkeypatch):
    if request.param == "masks":
        monkeypatch.setattr(gating, "_is_native", lambda *_: False)
    elif abi.loaded() is None:
        pytest.skip("the native library is not built here")


def draw(kind: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(shape, generator=generator)
    return {
        "normal": normal,
        "lognormal": (5 * normal).exp() * normal.sign(),
        "few values": normal.round(),
        "constant": torch.full(shape, -0.3),
        "zeros": torch.zeros(shape),
        "far apart": torch.where(normal > 0.5, normal * 1e30, normal * 1e-30),
    }[kind]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(DTYPES),
    inputs=st.integers(1, 90),
    share=st.floats(0, 1),
    scaled=st.booleans(),
    dense=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_gated_rows_are_those_of_the_masks(kind, dtype, inputs, share, scaled, dense, seed):
    x = draw(kind, (2, 3, inputs), seed)
    x = x.clamp(-6e4, 6e4).half() if dtype == torch.float16 else x.to(dtype)
    exact = torch.promote_types(dtype, torch.float32)
    scale = torch.rand(inputs, generator=torch.Generator().manual_seed(seed), dtype=exact) + 0.1 if scaled else None
    rows = torch.rand(2, 3, generator=torch.Generator().manual_seed(seed)) < 0.3 if dense else None
    score = scores(x, scale)
    keep = kept_inputs(inputs, share)
    threshold = float(score.flatten().sort().values[int(share * (score.numel() - 1))])
    for mask, (gated, kept_counts) in (
        (top_k_mask(score, keep), gate_top_k(x, scale, keep, rows)),
        (threshold_mask(score, threshold), gate_above(x, scale, threshold, rows)),
        (threshold_mask(score, threshold, keep), gate_above(x, scale, threshold, rows, keep)),
    ):
        expected = mask if rows is None else mask | rows.unsqueeze(-1)
        assert torch.equal(gated, x * expected)
        assert torch.equal(kept_counts.long(), expected.sum(-1))
        assert gated.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_rows_are_shared_among_threads(dtype, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    x = torch.randn(1001, 512, generator=torch.Generator().manual_seed(0)).to(dtype)
    gated, kept_counts = gate_top_k(x, None, 200)
    assert kept_counts.eq(200).all()
    assert torch.equal(gated, x * top_k_mask(scores(x, None), 200))


@pytest.mark.parametrize("gate", [lambda x: gate_top_k(x, None, 2), lambda x: gate_above(x, None, 0.5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_stays_one(gate, dtype):
    x = torch.tensor([[0.1, torch.nan, 3.0, -torch.inf], [0.1, 0.2, 3.0, 1.0]], dtype=dtype)
    gated, _ = gate(x)
    assert gated[0].isnan().any()
    assert gated[1].tolist() == [0.0, 0.0, 3.0, 1.0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_infinity_in_a_column_of_zeros_is_kept(dtype, sign):
    """Its score, infinity times zero, is a NaN, whose sign bit the processor sets."""
    x = torch.tensor([[sign * torch.inf, 1.0, 2.0, 3.0]], dtype=dtype)
    scale = torch.tensor([0.0, 1.0, 1.0, 1.0], dtype=torch.promote_types(dtype, torch.float32))
    for gated, kept_counts in (gate_top_k(x, scale, 2), gate_above(x, scale, 2.5)):
        assert gated.tolist() == [[sign * torch.inf, 0.0, 0.0, 3.0]]
        assert kept_counts.tolist() == [2]


@pytest.mark.parametrize("threshold", [-1.0, -1e-30, -torch.inf])
def test_a_negative_threshold_keeps_everything(threshold):
    x = torch.tensor([[0.0, -1.0]])
    assert gate_above(x, None, threshold)[1].tolist() == [2]


def test_inputs_are_not_changed_and_may_be_strided():
    x = torch.randn(8, 20, generator=torch.Generator().manual_seed(0)).T
    before = x.clone()
    gated, _ = gate_top_k(x, None, 3)
    assert torch.equal(x, before)
    assert torch.equal(gated, x * top_k_mask(scores(x, None), 3))
