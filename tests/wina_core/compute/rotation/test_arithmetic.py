"""Arithmetic of a rotation: Gram matrices and their eigenvectors, the same however the rounding fell, and products of
16-bit numbers with matrices of more digits, against float64."""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from tests.wina_core.tiny import tiny_loaded, tiny_model, tiny_tokens
from wina_core.compute.models.architectures import view
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation.apply import (
    LayerBases,
    apply_bases,
    bfloat16_gram,
    multiply_from_left,
    multiply_from_right,
    split_into_bfloat16,
)
from wina_core.compute.rotation.comparison import off_diagonal_energy
from wina_core.compute.rotation.matrices import canonical_basis, orthogonality_error
from wina_core.compute.rotation.statistics import dense_moments, weight_gram

SIZES = st.integers(1, 80)


def _random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _gram(rows: int, columns: int, seed: int) -> Tensor:
    w = _random(rows, columns, seed=seed)
    return w.T @ w


def _rounded_otherwise(gram: Tensor, seed: int) -> Tensor:
    noise = _random(*gram.shape, seed=seed)
    return gram + 1e-15 * torch.linalg.matrix_norm(gram) * (noise + noise.T)


@settings(max_examples=30)
@given(rows=st.integers(1, 12), columns=st.integers(1, 12), seed=st.integers(0, 2**31))
def test_a_basis_is_orthogonal_and_makes_the_columns_so(rows: int, columns: int, seed: int) -> None:
    w = _random(rows, columns, seed=seed)
    basis = canonical_basis(w.T @ w)
    assert orthogonality_error(basis) < 1e-12
    assert off_diagonal_energy(w @ basis) < 1e-24
    norms = (w @ basis).norm(dim=0)
    assert (norms.diff() <= 1e-9).all(), "by falling column norm"
    assert (basis.gather(0, basis.abs().argmax(0, keepdim=True)) > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_null_space_is_completed_by_the_next_gram_matrix_whatever_the_rounding(seed: int) -> None:
    """The case of k_proj with grouped queries: 8 rows, 32 columns."""
    k, qkv = _gram(8, 32, seed), _gram(96, 32, seed + 100)
    basis = canonical_basis(k, lambda: qkv)
    null = basis[:, 8:]
    assert (k @ null).abs().max() < 1e-12
    inside = null.T @ qkv @ null
    assert (inside - inside.diag().diag()).abs().max() < 1e-11
    other = canonical_basis(_rounded_otherwise(k, seed + 200), lambda: _rounded_otherwise(qkv, seed + 300))
    torch.testing.assert_close(other, basis, rtol=0, atol=1e-9)


@pytest.mark.parametrize("multiplicities", [(3, 5, 4), (12,), (1, 11), (2,) * 6])
def test_repeated_eigenvalues_give_one_basis_whatever_the_rounding(multiplicities: tuple[int, ...]) -> None:
    values = torch.tensor([float(i + 1) for i, count in enumerate(multiplicities) for _ in range(count)]).double()
    q, _ = torch.linalg.qr(_random(12, 12, seed=3))
    gram = q @ values.diag() @ q.T
    basis = canonical_basis(gram)
    assert (gram @ basis - basis * values.flip(0)).abs().max() < 1e-12
    for seed in range(4):
        other = canonical_basis(_rounded_otherwise(gram, seed))
        torch.testing.assert_close(other, basis, rtol=0, atol=1e-9)


def test_the_basis_of_a_zero_matrix_is_the_identity() -> None:
    assert canonical_basis(torch.zeros(5, 5, dtype=torch.float64)).equal(torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize(("rows", "columns"), [(6, 20), (20, 6), (1, 4), (4, 1)])
def test_off_diagonal_energy_by_its_definition(monkeypatch: pytest.MonkeyPatch, rows: int, columns: int) -> None:
    monkeypatch.setattr("wina_core.compute.rotation.comparison._BLOCK", 4)
    w = _random(rows, columns, seed=5)
    gram = w.T @ w
    expected = ((gram - gram.diag().diag()).norm() / gram.norm()).item() ** 2
    assert off_diagonal_energy(w) == pytest.approx(expected, abs=1e-14)
    assert off_diagonal_energy(w, exact=False) == pytest.approx(expected, abs=1e-14)
    assert off_diagonal_energy(0 * w) == 0.0


@pytest.mark.parametrize("hidden", [32, 256, 600])
def test_a_gram_matrix_by_blocks_is_that_of_the_folded_weights(hidden: int) -> None:
    generator = torch.Generator().manual_seed(hidden)
    weights = {name: torch.randn(rows, hidden, generator=generator) for name, rows in (("gate", 520), ("up", 7))}
    norm = LlamaRMSNorm(hidden).requires_grad_(False)
    norm.weight.copy_(torch.randn(hidden, generator=generator).exp())
    layer: Any = SimpleNamespace(matrices=lambda names: (SimpleNamespace(weight=weights[name]) for name in names))
    folded = torch.cat([weight.double() * norm.weight.double() for weight in weights.values()])
    gram = weight_gram(layer, tuple(weights), norm)
    expected = folded.T @ folded
    torch.testing.assert_close(gram, expected, rtol=0, atol=1e-13 * float(expected.abs().max()))


def test_16_bit_weights_are_rotated_as_in_float64_and_rounded_once() -> None:
    model = tiny_model(dtype=torch.bfloat16)
    exact = deepcopy(model).double()
    generator = torch.Generator().manual_seed(3)
    bases = []
    for _ in range(3):
        attention, mlp = (
            torch.linalg.qr(torch.randn(32, 32, generator=generator, dtype=torch.float64)).Q for _ in range(2)
        )
        bases.append(LayerBases(attention, mlp))
    apply_bases(view(model), bases, NullReporter())
    apply_bases(view(exact), bases, NullReporter())
    equal = total = 0
    for (name, rotated), expected in zip(model.named_parameters(), exact.parameters(), strict=True):
        rounded = expected.bfloat16()
        torch.testing.assert_close(rotated, rounded, rtol=2**-7, atol=1e-6, msg=name)
        equal += int((rotated == rounded).sum())
        total += rotated.numel()
    assert equal > 0.999 * total, "all but those that 32 bits put on the other side of a rounding boundary"


@given(rows=SIZES, inner=SIZES, columns=SIZES, seed=st.integers(0, 1000))
def test_products_have_the_digits_of_float32(rows: int, inner: int, columns: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(rows, inner, generator=generator).bfloat16()
    matrix = torch.randn(inner, columns, generator=generator, dtype=torch.float64)
    exact, largest = weight.double() @ matrix, weight.double().abs() @ matrix.abs()
    assert ((multiply_from_right(weight, split_into_bfloat16(matrix)) - exact).abs() <= 2**-19 * largest).all()
    assert ((multiply_from_left(split_into_bfloat16(matrix.T), weight.T) - exact.T).abs() <= 2**-19 * largest.T).all()


@given(tokens=SIZES, inputs=SIZES, seed=st.integers(0, 1000))
def test_a_gram_matrix_is_that_of_the_unrounded_numbers(tokens: int, inputs: int, seed: int) -> None:
    x = torch.randn(tokens, inputs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    gram = bfloat16_gram(x)
    assert gram.equal(gram.T)
    assert ((gram - x.T @ x).abs() <= 2**-15 * (x.abs().T @ x.abs())).all()


@pytest.mark.parametrize("family", ["llama", "phi"])
def test_moments_of_16_bit_models_are_those_of_their_streams(family: str) -> None:
    moments = list(dense_moments(tiny_loaded(family, dtype=torch.bfloat16).view, tiny_tokens(), NullReporter()))
    wide = tiny_loaded(family, dtype=torch.bfloat16)
    wide.model.double()
    exact = list(dense_moments(wide.view, tiny_tokens(), NullReporter()))
    for (_, mine), (_, other) in zip(moments[:1], exact[:1], strict=True):  # later streams were rounded on their way
        assert torch.linalg.matrix_norm(mine.attention - other.attention) < 1e-2 * torch.linalg.matrix_norm(
            other.attention
        )


@pytest.mark.parametrize("exact", [True, False])
def test_energies_of_16_bit_weights_are_those_in_float64(exact: bool) -> None:
    weight = torch.randn(48, 2100, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert off_diagonal_energy(weight, exact) == pytest.approx(off_diagonal_energy(weight.double(), exact), rel=1e-5)


def test_gram_matrices_of_16_bit_weights_are_those_in_float64() -> None:
    loaded = tiny_loaded(dtype=torch.bfloat16)
    layer = loaded.view.layers[0]
    gram = weight_gram(layer, ("gate", "up"), layer.mlp_norm)
    loaded.model.double()
    exact = weight_gram(layer, ("gate", "up"), layer.mlp_norm)
    torch.testing.assert_close(gram, exact, rtol=0, atol=1e-6 * float(exact.abs().max()))
