"""Properties of the oracle alone: its forward pass, its selections, its rules, its transform and its searches."""

import pytest
import torch
from torch import Tensor

from tests.released import recomputed
from tests.released.recomputed import (
    BLOCKS,
    MLP,
    forward,
)
from tests.released.samples import Sample, difference, sample
from tests.wina_core.tiny import tiny_tokens


def rows(count: int, size: int, seed: int = 0) -> Tensor:
    return torch.randn(1, count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_forward_pass_is_that_of_transformers(model: Sample) -> None:
    ids = tiny_tokens(rows=2, length=40)
    assert difference(forward(model.weights, model.shape, ids), model.logits(ids)) <= 1e-9


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


def test_ranks_of_llama_3_8b_keys_at_half_sparsity() -> None:
    assert recomputed.rsparse_rank(1024, 4096, 0.5, 0.95) == 20
    assert recomputed.rsparse_released_rank(4096, 4096, 0.5, 0.95) == 51
    assert recomputed.rsparse_released_rank(32, 32, 0.25, 0.85) == 2, (
        "what 20 whole inputs leave buys a rank more than the paper gives"
    )
    assert recomputed.rsparse_rank(32, 32, 0.25, 0.85) == 1
    assert recomputed.rsparse_released_rank(4096, 4096, 0.5, 1.0) == 0
    assert recomputed.rsparse_released_rank(4096, 4096, 0.5, 1.0, searched=True) == 1


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
