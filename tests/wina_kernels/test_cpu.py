"""The backend that runs on the processor."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numba
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from wina_kernels import compiled, cpu, reference
from wina_kernels.cpu.decoding import DTYPES, Prepared
from wina_kernels.cpu.product import BLOCK, CHUNK
from wina_kernels.selection import scores, threshold_mask
from wina_kernels.weights import QuantizedWeight

from tests.wina_kernels.backend_checks import (
    Case,
    assert_product,
    cases,
    check_masked_linear,
    check_not_a_number,
    check_same_bits,
    check_sparse_linear,
    check_top_k_linear,
    check_unread_quantized_weights,
    check_unread_weights,
)

many = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("check", [check_sparse_linear, check_top_k_linear, check_masked_linear])
@many
@given(case=cases("cpu", others=("int6", "int3", "int2", "signed4", "mixed")))
def test_what_is_kept_is_multiplied(check, case: Case) -> None:
    check(cpu, case)


@settings(many, max_examples=6)
@given(case=cases("cpu", most_inputs=5 * CHUNK, most_outputs=2 * BLOCK))
def test_wide_products_go_by_chunks_and_blocks(case: Case) -> None:
    check_sparse_linear(cpu, case)


@pytest.mark.parametrize("check", [check_unread_weights, check_unread_quantized_weights, check_not_a_number])
def test_what_is_not_finite_shows_where_it_is_kept(check) -> None:
    check(cpu, "cpu")


@pytest.mark.parametrize(("bits", "dtype", "columns"), [(8, torch.int8, 40), (4, torch.uint8, 20)])
def test_codes_are_read_where_they_lie_among_others(bits, dtype, columns) -> None:
    generator = torch.Generator().manual_seed(0)
    x, scale = torch.randn(3, 24, generator=generator), torch.rand(3, 40, generator=generator)
    codes = torch.randint(0, 128, (24, 64), generator=generator).to(dtype)[:, 5 : 5 + columns]
    alone, among = (QuantizedWeight(own, scale, None, 8, bits) for own in (codes.contiguous(), codes))
    found = cpu.sparse_linear(x, among, None, 0.5)
    assert torch.equal(found, cpu.sparse_linear(x, alone, None, 0.5))
    assert_product(found, Case(x, among, None, None, (), True), reference.threshold_masks(x, None, 0.5))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_input_gives_the_same_bits(threads, monkeypatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr("wina_kernels.cpu.launch._WORTH_A_THREAD", 1)
    check_same_bits(cpu, "cpu")


@pytest.mark.parametrize("rows", [1, 3])
def test_more_threads_than_inputs_change_rounding_alone(rows, monkeypatch) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight_t = torch.randn(rows, 2, generator=generator), torch.randn(2, 40, generator=generator)
    monkeypatch.setattr("wina_kernels.cpu.launch._WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    monkeypatch.setattr("wina_kernels.threads._MOST", 7)
    monkeypatch.setattr("numba.set_num_threads", lambda _: None)
    torch.testing.assert_close(cpu.sparse_linear(x, weight_t, None, 0.0), x @ weight_t)


def test_torchs_number_of_threads_stays() -> None:
    """Also at the first call, in a process of its own, when numba starts its pool."""
    code = """
import torch
from wina_kernels import compiled, cpu, reference
from wina_kernels.cpu.decoding import DTYPES, Prepared
torch.set_num_threads(1)
cpu.sparse_linear(torch.randn(4), torch.randn(4, 4), None, 0.5)
assert torch.get_num_threads() == 1, torch.get_num_threads()
"""
    folder = Path(__file__).parents[2] / "kernels"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=120)


@settings(many, max_examples=60)
@given(case=cases("cpu"))
def test_gate_and_product_in_one_call_are_those_of_the_reference(case: Case) -> None:
    if not isinstance(case.weight_t, torch.Tensor) or case.x.dtype not in DTYPES or not case.x.numel() > 0:
        return
    scale = case.scale if case.scale is None or case.scale.dim() == 1 else case.scale[0]
    one = replace(case, scale=scale, splits=None)
    prepared = Prepared(case.weight_t, scale)
    threshold = float(scores(case.x, scale).float().flatten().median())
    mask = reference.threshold_masks(case.x, scale, threshold)
    y, kept = prepared.above(case.x, threshold)
    assert kept == int(mask.sum())
    assert_product(y, one, mask)
    keep = 1 + (case.x.shape[-1] - 1) // 2
    mask = threshold_mask(scores(case.x, scale), threshold, keep)
    y, kept = prepared.above(case.x, threshold, keep)
    assert kept == int(mask.sum())
    assert_product(y, one, mask)
    y, kept = prepared.top_k(case.x, keep)
    assert kept == keep * case.x.numel() // case.x.shape[-1]
    assert_product(y, one, reference.top_k_masks(case.x, scale, keep))


@pytest.mark.parametrize("x", [torch.zeros(1, 5), torch.zeros(1, 4).bfloat16()])
def test_an_input_that_does_not_fit_the_prepared_weight_is_refused(x: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"does not fit 4 inputs in torch\.float32"):
        Prepared(torch.zeros(4, 3), None).top_k(x, 2)


def test_a_change_in_any_source_compiles_all_anew() -> None:
    own = Path(numba.config.CACHE_DIR).name
    assert own.startswith("compiled-")
    assert own.removeprefix("compiled-") == compiled._sources()
