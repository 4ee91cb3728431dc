"""The Triton backend."""

import importlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from wina_kernels import reference
from wina_kernels.selection import scores, threshold_mask
from wina_kernels.weights import QuantizedWeight

from tests.interpreter import DEVICE, INTERPRETED, runs
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
    weight,
)

pytest.importorskip("triton", reason="Triton ships for Linux alone")
gpu = importlib.import_module("wina_kernels.gpu")
from wina_kernels.gpu import operands, tiles  # noqa: E402

few = settings(
    max_examples=8 if INTERPRETED else 200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# The interpreter takes milliseconds for every tile: it is given few, but more than one of inputs and of outputs.
sizes = {"most_inputs": 40, "most_outputs": 160} if INTERPRETED else {}


@runs
@pytest.mark.parametrize("check", [check_sparse_linear, check_top_k_linear, check_masked_linear])
@few
@given(case=cases(DEVICE, **sizes))
def test_what_is_kept_is_multiplied(check, case: Case) -> None:
    check(gpu, case)


@runs
@pytest.mark.parametrize(
    "check", [check_unread_weights, check_unread_quantized_weights, check_not_a_number, check_same_bits]
)
def test_special_values(check) -> None:
    check(gpu, DEVICE)


SHIPPED = [
    (bits, rows, tile) for bits, by_rows in tiles.TILES.items() for rows, tiles in by_rows.items() for tile in tiles
]


@runs
@pytest.mark.parametrize(("bits", "rows", "tile"), SHIPPED, ids=str)
def test_every_tile_and_number_of_shares_gives_the_product(bits: int, rows: int, tile: tiles.Tile) -> None:
    random = torch.Generator().manual_seed(bits)
    form = {32: "float", 16: "float", 8: "int8", 4: "int4"}[bits]
    dtype = torch.float32 if bits == 32 else torch.bfloat16
    n, m = 4 * tile.inputs + 11, 2 * tile.outputs + 9
    weight_t = weight(form, n, m, dtype, 16, True, 0, random, DEVICE)
    x = torch.randn(rows, n, generator=random).to(dtype).to(DEVICE)
    y = gpu.sparse_linear(x, weight_t, None, 0.5, config=tiles.Config(tile, 4))
    assert_product(y, Case(x, weight_t, None, 0.5), reference.threshold_masks(x, None, 0.5))


@runs
def test_a_matrix_of_more_elements_than_32_bits_count() -> None:
    codes = torch.empty_strided((3, 40), (1 << 30, 1), dtype=torch.int8, device=DEVICE)
    codes.copy_(torch.arange(120).view(3, 40))
    weight_t = QuantizedWeight(codes, torch.ones(1, 40, device=DEVICE), None, 3, 8)
    y = gpu.sparse_linear(torch.tensor([1.0, 0.0, 2.0], device=DEVICE), weight_t, None, 0.5)
    assert y.tolist() == [i + 2.0 * (80 + i) for i in range(40)]


@runs
def test_the_ranks_of_more_scores_than_a_block_holds() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, 5000, generator=random).to(torch.bfloat16).to(DEVICE)  # with many ties
    top_k = importlib.import_module("wina_kernels.gpu.products")
    for keep in (1, 2500, 4999, 5000):
        assert torch.equal(top_k.top_k_masks(x, None, keep), reference.top_k_masks(x, None, keep))


@runs
@pytest.mark.parametrize("keep", [1, 60, 75, 90, 150])
def test_a_floor_below_a_threshold(keep: int) -> None:
    top_k = importlib.import_module("wina_kernels.gpu.products")
    x = torch.randn(3, 150, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16).to(DEVICE)
    x[1] /= 4  # fewer of them are above
    scale = torch.rand(150, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    counts = torch.zeros(1, 2, dtype=torch.int64, device=DEVICE)
    mask = top_k.top_k_masks(x, scale, keep, threshold=0.3, counts=counts)
    assert torch.equal(mask, threshold_mask(scores(x, scale), 0.3, keep))
    assert counts.tolist() == [[int(mask.sum()), x.numel()]]


@runs
def test_the_published_design_that_is_compared_with(benchmark: Callable[[str], Any]) -> None:
    split_k = benchmark("gpu_products")
    random = torch.Generator().manual_seed(0)
    x, weight_t = torch.randn(50, generator=random).to(DEVICE), torch.randn(50, 90, generator=random).to(DEVICE)
    y = torch.zeros(90, device=DEVICE)
    split_k.split_k_kernel[(2, 4)](x, weight_t, 90, y, 50, 90, 0.7, BLOCK_N=16, BLOCK_M=64)
    expected = reference.sparse_linear(x, weight_t, None, 0.7)
    assert torch.allclose(y, expected, atol=1e-5)
    for config in split_k.SPLIT_K_CONFIGS:
        assert torch.allclose(split_k.split_k_linear(x, weight_t, 0.7, config), expected, atol=1e-5)


@runs
@pytest.mark.parametrize(("rows", "number"), [(1, 1), (1, 4), (3, 2)])
def test_what_is_kept_is_counted_on_the_device(rows: int, number: int) -> None:
    random = torch.Generator().manual_seed(0)
    x, weight_t = (torch.randn(shape, generator=random).to(DEVICE) for shape in ((rows, 150), (150, 300)))
    scale = (torch.rand(150, generator=random) + 0.1).to(DEVICE)
    counts = torch.zeros(tiles.MOST_SHARES, 2, dtype=torch.int64, device=DEVICE)
    config = tiles.Config(tiles.Tile(16, 4, 1), number)
    for _ in range(2):
        y = gpu.sparse_linear(x, weight_t, scale, 0.4, config=config, counts=counts)
    assert torch.equal(y, gpu.sparse_linear(x, weight_t, scale, 0.4, config=config))
    assert counts.sum(0).tolist() == [2 * int(reference.threshold_masks(x, scale, 0.4).sum()), 2 * x.numel()]
    with pytest.raises(ValueError, match=r"counts \[64, 2\] cannot be kept for 9 rows"):
        gpu.sparse_linear(torch.ones(9, 150, device=DEVICE), weight_t, scale, 0.4, counts=counts)


def test_what_is_taken_untuned_depends_on_the_shape_alone_and_keeps_a_gpu_busy() -> None:
    for bits in tiles.TILES:
        for rows in range(1, 9):
            config = tiles.default(5120, 17920, rows, bits)
            assert config == tiles.default(5120, 17920, rows, bits)
            assert config in tiles.candidates(5120, 17920, rows, bits)
            assert 1000 <= config.shares * config.tile.warps * -(-17920 // config.tile.outputs) <= 2048
            assert tiles.default(1, 1, rows, bits).shares == 1


def test_shares_that_cannot_be_added_up_are_refused() -> None:
    for shares in (3, 128):
        with pytest.raises(ValueError, match=f"shares is {shares}; it must be a power of 2, and at most 64"):
            tiles.Config(tiles.Tile(16, 8, 1), shares)


def test_a_device_that_triton_cannot_work_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "INTERPRETED", False)
    refuse = operands.require_gpu.__wrapped__
    with pytest.raises(ValueError, match='the Triton backend needs a GPU; the backend "reference" works'):
        refuse(torch.device("cpu"), torch.float32)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "T4")
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setenv("CC", "cc")
    with pytest.raises(ValueError, match=r"bfloat16 needs compute capability 8.0, and T4 has 7.5; use float16"):
        refuse(torch.device("cuda"), torch.bfloat16)
    refuse(torch.device("cuda"), torch.float16)
    monkeypatch.delenv("CC")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ValueError, match=r"needs a C compiler .* neither gcc nor clang is on the PATH"):
        refuse(torch.device("cuda"), torch.float16)


@runs
def test_weights_whose_rows_are_not_contiguous_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[4, 5\] has strides \[1, 4\] and its rows are not contiguous"):
        gpu.sparse_linear(torch.ones(4, device=DEVICE), torch.ones(5, 4, device=DEVICE).t(), None, 0.5)
