"""Properties of the oracle alone: its forward pass, its selections, its rules, its transform and its searches."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.released import recomputed
from tests.released.recomputed import (
    BLOCKS,
    MLP,
    PROJECTIONS,
    forward,
)
from tests.released.samples import Sample, difference, sample
from tests.wina_core.tiny import tiny_tokens

LEVELS = dict(zip(PROJECTIONS, (0.3, 0.4, 0.5, 0.6, 0.7, 0.25, 0.8), strict=True))


def targets(model: Sample, **levels: float) -> dict[recomputed.Cell, float]:
    return {(layer, name): levels[name] for layer, name in model.weights.cells if name in levels}


def rows(count: int, size: int, seed: int = 0) -> Tensor:
    return torch.randn(1, count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---- the decoder -------------------------------------------------------------------------------------------------


def test_the_forward_pass_is_that_of_transformers(model: Sample) -> None:
    ids = tiny_tokens(rows=2, length=40)
    assert difference(forward(model.weights, model.shape, ids), model.logits(ids)) <= 1e-9


# ---- selections --------------------------------------------------------------------------------------------------

SCORES = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(SCORES, st.integers(0, 12))
def test_top_k_keeps_the_highest_and_the_lower_index_among_equals(values: list[int], k: int) -> None:
    k = min(k, len(values))
    expected = sorted(range(len(values)), key=lambda index: (-values[index], index))[:k]
    assert recomputed.top_k(torch.tensor(values), k).nonzero().flatten().tolist() == sorted(expected)


@given(SCORES, st.integers(1, 12))
def test_top_k_with_ties_keeps_whatever_scores_like_the_kth(values: list[int], k: int) -> None:
    k = min(k, len(values))
    kth = sorted(values, reverse=True)[k - 1]
    assert recomputed.top_k_with_ties(torch.tensor(values), k).tolist() == [value >= kth for value in values]


@given(st.integers(1, 20_000), st.floats(0, 0.999))
def test_the_two_counts_differ_by_rounding_alone(n: int, sparsity: float) -> None:
    assert 1 <= recomputed.kept_paper(n, sparsity) <= n
    assert abs(recomputed.kept_paper(n, sparsity) - n * (1 - sparsity)) <= max(0.5, 1 - n * (1 - sparsity)) + 1e-9
    assert 0 <= n * (1 - sparsity) - recomputed.kept_released(n, sparsity) < 1


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40), st.floats(0, 1.2))
def test_the_inverse_cdf_has_its_fraction_of_the_values_below(values: list[int], fraction: float) -> None:
    tensor = torch.tensor(values, dtype=torch.float64)
    at = recomputed.inverse_cdf(tensor, fraction)
    assert min(values) <= at <= max(values)
    position = min(fraction * len(values), len(values))
    assert int((tensor <= at + 1e-9).sum()) >= int(position + 1e-9)
    assert int((tensor < at - 1e-9).sum()) <= max(position, 1) + 1e-9


def test_teals_histogram_gives_the_exact_threshold_but_in_its_outer_bins() -> None:
    x = rows(1, 20_000) + 0.2
    for sparsity in (0.1, 0.25, 0.5, 0.65, 0.9, 0.97):
        assert recomputed.teal_histogram_threshold(x, sparsity) == pytest.approx(
            recomputed.teal_threshold(x, sparsity), rel=0.01
        )
    last = recomputed.teal_histogram_threshold(x, 1.2)
    assert last == recomputed.teal_histogram_threshold(x, 2.0)
    assert last == pytest.approx((float(x.max()) + recomputed.inverse_cdf(x, 0.99)) / 2, rel=1e-3)
    assert last < float(x.max()) == recomputed.teal_threshold(x, 1.2)


@pytest.mark.parametrize(
    ("rule", "dense"),
    [
        (recomputed.wina_prefix, {1: 0, 2: 1, 24: 1, 100: 1, 101: 2, 150: 2, 200: 2, 2048: 21}),
        (recomputed.teal_prefix, {1: 0, 2: 1, 24: 12, 25: 13, 2048: 1024}),
        (recomputed.rsparse_prefix, {1: 0, 10: 9, 24: 21, 25: 22, 2048: 1843}),
    ],
)
def test_dense_prefixes(rule: object, dense: dict[int, int]) -> None:
    assert {tokens: rule(tokens) for tokens in dense} == dense  # type: ignore[operator]


# ---- rules -------------------------------------------------------------------------------------------------------


def test_ranks_of_llama_3_8b_keys_at_half_sparsity() -> None:
    assert recomputed.rsparse_rank(1024, 4096, 0.5, 0.95) == 20
    assert recomputed.rsparse_released_rank(4096, 4096, 0.5, 0.95) == 51
    assert recomputed.rsparse_released_rank(32, 32, 0.25, 0.85) == 2, (
        "what 20 whole inputs leave buys a rank more than the paper gives"
    )
    assert recomputed.rsparse_rank(32, 32, 0.25, 0.85) == 1
    assert recomputed.rsparse_released_rank(4096, 4096, 0.5, 1.0) == 0
    assert recomputed.rsparse_released_rank(4096, 4096, 0.5, 1.0, searched=True) == 1


def test_the_density_peaks_where_most_values_are() -> None:
    values = torch.cat([rows(1, 3000) * 0.1 + 2.0, rows(1, 1000, seed=1)], dim=-1)
    mode, density = recomputed.density_peak(values)
    assert mode == pytest.approx(2.0, abs=0.05)
    assert density == pytest.approx(float(recomputed.density_estimate(values, torch.tensor([mode]))))
    grid = torch.linspace(-6, 6, 600, dtype=torch.float64)
    assert float(recomputed.density_estimate(values, grid).sum() * (grid[1] - grid[0])) == pytest.approx(1.0, abs=1e-3)


# ---- the published transform -------------------------------------------------------------------------------------


def test_the_transform_keeps_the_logits_and_subtracting_the_mean_does_not(model: Sample) -> None:
    ids = tiny_tokens(rows=2, length=12)
    dense = forward(model.weights, model.shape, ids)
    assert difference(forward(recomputed.transform(model.weights), model.shape, ids), dense) <= 1e-12
    centred = recomputed.transform(model.weights, subtract_mean=True)
    assert difference(forward(centred, model.shape, ids), dense) > 1e-2


def test_the_transform_makes_k_and_gate_or_the_fused_matrices_column_orthogonal(model: Sample) -> None:
    weights = recomputed.transform(model.weights)
    for layer in weights.layers:
        for name, block in (("k", "qkv"), ("gate", "gate_up")):
            names = BLOCKS[block] if weights.fused else (name,)
            stacked = torch.cat([layer.matrices[each].weight for each in names])
            gram = stacked.T @ stacked
            assert (gram - gram.diag().diag()).abs().max() <= 1e-12 * gram.diag().max()
            assert (gram.diag().diff() <= 1e-9).all()


# ---- greedy allocation -------------------------------------------------------------------------------------------


def test_equal_errors_go_to_the_first_block_and_a_step_may_overshoot_one() -> None:
    visited = recomputed.visited_rows(lambda _: 1.0, {"a": 1.0, "b": 1.0}, 0.4, 0.9)
    assert visited[2]["a"] == pytest.approx(1.2)
    assert [row["b"] for row in visited[:3]] == [0.0, 0.0, 0.0]
    assert visited[3]["b"] == pytest.approx(0.4)


def test_sizes_are_those_of_the_published_tables() -> None:
    mha, gqa, fused = (sample(name).weights for name in ("llama-mha", "llama-gqa", "phi3-fused"))
    inner = dict.fromkeys(MLP, 2.5)
    assert recomputed.true_sizes(mha.layers[0], fused=False) == {"q": 1, "k": 1, "v": 1, "o": 1, **inner}
    assert recomputed.true_sizes(gqa.layers[0], fused=False) == {"q": 1, "k": 0.5, "v": 0.5, "o": 1, **inner}
    assert recomputed.true_sizes(fused.layers[0], fused=True) == {"qkv": 2, "o": 1, "gate_up": 5, "down": 2.5}
    assert recomputed.teal_sizes(gqa.layers[0]) == {"q": 1, "k": 0.125, "v": 0.125, "o": 1, **inner}


def test_the_error_counts_the_last_quarter_per_channel() -> None:
    dense = torch.zeros(2, 8, 3)
    gated = dense.clone()
    gated[:, :6] = 100.0
    gated[0, 6:, 1] = torch.tensor([3.0, 4.0])
    assert recomputed.output_error(dense, gated) == pytest.approx(5 / 6)
