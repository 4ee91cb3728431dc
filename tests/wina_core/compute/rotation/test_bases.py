"""Bases from Gram matrices: eigenvectors, and the same ones however the rounding fell."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from wina_core.compute.rotation.comparison import off_diagonal_energy
from wina_core.compute.rotation.matrices import canonical_basis, orthogonality_error


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


def test_a_degenerate_next_gram_matrix_leaves_the_choice_to_the_fixed_one() -> None:
    k, _ = torch.linalg.qr(_random(16, 4, seed=1))
    gram = k @ k.T
    basis = canonical_basis(gram, lambda: gram)
    for seed in range(4):
        other = canonical_basis(_rounded_otherwise(gram, seed), lambda seed=seed: _rounded_otherwise(gram, seed + 10))
        torch.testing.assert_close(other, basis, rtol=0, atol=1e-9)


def test_a_further_gram_matrix_is_made_only_where_the_first_leaves_something_open() -> None:
    made: list[str] = []

    def further() -> Tensor:
        made.append("further")
        return _gram(12, 12, seed=8)

    canonical_basis(_gram(12, 12, seed=7), further)
    assert not made
    canonical_basis(_gram(4, 12, seed=7), further)
    assert made == ["further"]


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
