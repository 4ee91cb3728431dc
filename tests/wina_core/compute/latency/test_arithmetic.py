"""Bytes, copies and the roofline against numbers worked out by hand, and inputs and products against float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from wina_kernels.backends import load

from wina_core.compute.latency import products
from wina_core.compute.latency.products import (
    dense_product,
    gated_product,
    kept_by_any_row,
    make_inputs,
    make_weights,
    measured_sparsity,
)
from wina_core.compute.reporter import NullReporter
from wina_core.specs.latency import LatencyDType, LatencyMethod, LatencyPoint, LatencySelection

CPU = torch.device("cpu")


def point(
    method: LatencyMethod = "wina",
    *,
    outputs: int = 5120,
    inputs: int = 17920,
    batch: int = 1,
    dtype: LatencyDType = "bfloat16",
    selection: LatencySelection = "threshold",
    sparsity: float = 0.5,
) -> LatencyPoint:
    return LatencyPoint(
        outputs=outputs,
        inputs=inputs,
        batch=batch,
        dtype=dtype,
        method=method,
        selection=selection,
        sparsity=sparsity,
        backend="reference",
        repetitions=3,
    )


def test_bytes_that_must_be_read() -> None:
    # 8960 kept columns of 5120 bfloat16 weights, 17920 of x, and for WINA 17920 norms in float32
    assert products.read_bytes(point("teal"), 8960) == 8960 * 5120 * 2 + 17920 * 2 == 91_786_240
    assert products.read_bytes(point("wina"), 8960) == 91_786_240 + 71_680
    # a batch reads the columns that any of its rows keeps, and all rows of x
    assert products.read_bytes(point("teal", batch=4), 16_800) == 16_800 * 5120 * 2 + 4 * 17920 * 2
    assert products.read_bytes(point("dense", dtype="float32", sparsity=0.0), 17920) == 367_073_280


def test_the_low_rank_part_takes_its_share_of_the_budget() -> None:
    # rho 0.95: r = floor(5120 * 17920 * 0.5 * 0.05 / 23040) = 99, and the mask keeps 47.5 % of the inputs
    rsparse = point("rsparse")
    assert products.rank(rsparse) == 99
    assert products.mask_sparsity(rsparse) == pytest.approx(0.525)
    assert products.read_bytes(rsparse, 8512) == (8512 * 5120 + 99 * 23040 + 17920) * 2
    assert products.rank(point("rsparse", sparsity=0.0)) == products.rank(point("teal")) == 0
    assert products.mask_sparsity(point("rsparse", sparsity=0.0)) == 0.0


def test_copies_keep_twice_the_cache_between_two_readings() -> None:
    assert products.copies(point(), 32 * 2**20) == 2  # 183.5 MB each
    assert products.copies(point(outputs=1024, inputs=4096), 32 * 2**20) == 1 + 8  # 8 MiB each
    assert products.copies(point(outputs=1024, inputs=4096, dtype="float32"), 32 * 2**20) == 1 + 4


GATED: tuple[LatencyMethod, ...] = ("teal", "wina", "rsparse")
DTYPES: tuple[LatencyDType, ...] = ("float32", "bfloat16", "float16")


@settings(max_examples=40)
@given(
    method=st.sampled_from(GATED),
    dtype=st.sampled_from(DTYPES),
    inputs=st.integers(1, 700),
    batch=st.integers(1, 5),
    sparsity=st.floats(0.0, 0.99),
)
def test_exactly_the_wanted_fraction_is_dropped(method, dtype, inputs, batch, sparsity):
    measured_point = point(method, outputs=3, inputs=inputs, batch=batch, dtype=dtype, sparsity=sparsity)
    made = make_inputs(measured_point, make_weights(measured_point, 1, CPU, NullReporter()).norms)
    dropped = math.floor(products.mask_sparsity(measured_point) * batch * inputs + 0.5)
    assert all(int((~drawn.mask).sum()) == dropped for drawn in made)
    assert measured_sparsity(made) == pytest.approx(dropped / (batch * inputs))


def test_a_batch_must_read_what_any_of_its_rows_keeps() -> None:
    measured_point = point("teal", outputs=3, inputs=4000, batch=2)
    made = make_inputs(measured_point, make_weights(measured_point, 1, CPU, NullReporter()).norms)
    assert kept_by_any_row(made) == pytest.approx(0.75 * 4000, rel=0.05)
    one = make_inputs(point("teal", outputs=3, inputs=4000), torch.ones(4000))
    assert kept_by_any_row(one) == 2000


@pytest.mark.parametrize("selection", ["threshold", "topk"])
@pytest.mark.parametrize("method", ["teal", "wina"])
@pytest.mark.parametrize("batch", [1, 3])
def test_what_is_timed_is_the_methods_product(method: LatencyMethod, batch: int, selection: LatencySelection) -> None:
    measured_point = point(method, outputs=60, inputs=80, batch=batch, dtype="float32", selection=selection)
    weights = make_weights(measured_point, 2, CPU, NullReporter())
    made = make_inputs(measured_point, weights.norms)
    w = weights.dense[0].double()
    assert weights.dense[1].equal(weights.dense[0])
    assert weights.transposed[1].equal(weights.dense[0].T)
    torch.testing.assert_close(weights.norms.double(), w.norm(dim=0), rtol=1e-6, atol=0.0)
    product = gated_product(measured_point, weights, made, load("reference"))
    first, again = _value(product(0, batch)), _value(product(len(made), batch))
    expected = (made[0].x.double() * made[0].mask) @ w.T
    torch.testing.assert_close(first.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(first, again)


def test_rsparse_adds_products_of_its_rank_to_the_mask() -> None:
    measured_point = point("rsparse", outputs=160, inputs=160, batch=6, dtype="float32")
    weights = make_weights(measured_point, 2, CPU, NullReporter())
    made = make_inputs(measured_point, weights.norms)
    y = _value(gated_product(measured_point, weights, made, load("reference"))(0, 6))
    added = y.double() - (made[0].x.double() * made[0].mask) @ weights.dense[0].double().T
    assert torch.linalg.matrix_rank(added, rtol=1e-4) == products.rank(measured_point) == 2


def test_the_peer_is_the_dense_product_on_the_usual_layout() -> None:
    for batch in (1, 3):
        measured_point = point("dense", outputs=60, inputs=80, batch=batch, dtype="float32", sparsity=0.0)
        weights = make_weights(measured_point, 2, CPU, NullReporter())
        made = make_inputs(measured_point, weights.norms)
        y = _value(dense_product(weights, made)(1, batch)).reshape(batch, 60)
        torch.testing.assert_close(y.double(), made[1].x.double() @ weights.dense[0].double().T, rtol=1e-5, atol=1e-5)


def _value(work: object) -> Tensor:
    assert callable(work)
    value = work()
    assert isinstance(value, Tensor)
    return value
