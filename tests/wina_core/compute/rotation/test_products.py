"""Products of 16-bit numbers with matrices of more digits, against float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.wina_core.tiny import FAMILY_SETTINGS, tiny_loaded, tiny_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation.apply import (
    bfloat16_gram,
    multiply_from_left,
    multiply_from_right,
    split_into_bfloat16,
)
from wina_core.compute.rotation.comparison import off_diagonal_energy
from wina_core.compute.rotation.statistics import dense_moments, weight_gram

SIZES = st.integers(1, 80)


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
    assert family in FAMILY_SETTINGS
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
