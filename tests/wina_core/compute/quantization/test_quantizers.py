"""Quantizers of one matrix: packing, ranges, error compensation against a float64 reference."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.compute.quantization.rounding import (
    best_ranges,
    encode,
    error_compensated,
    grouped,
    grouped_weights,
    half_quadratic,
    levels,
    reverse_cholesky,
    round_to_nearest,
)

BITS = (8, 6, 4, 3, 2)


def matrix(inputs: int, outputs: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(inputs, outputs, generator=random) * torch.rand(inputs, 1, generator=random)


def moments(inputs: int, seed: int = 1) -> torch.Tensor:
    x = matrix(3 * inputs, inputs, seed) @ matrix(inputs, inputs, seed + 1)
    return x.T @ x / len(x)


@settings(max_examples=30, deadline=None)
@given(
    inputs=st.integers(1, 70),
    outputs=st.integers(1, 9),
    bits=st.sampled_from(BITS),
    group=st.sampled_from((16, 32)),
    quantizer=st.sampled_from((round_to_nearest, half_quadratic)),
    scale=st.sampled_from((1.0, 1e-6, 1e4)),
)
def test_codes_fit_their_bits_and_survive_packing(inputs, outputs, bits, group, quantizer, scale):
    weight_t = scale * matrix(inputs, outputs)
    codes = quantizer(weight_t, bits, group)
    low, high = levels(bits)
    assert low <= int(codes.unpacked().min()) <= int(codes.unpacked().max()) <= high
    assert codes.scale.shape == (-(-inputs // group), outputs)
    torch.testing.assert_close(codes.dequantize(), weight_t, rtol=0, atol=float(weight_t.abs().max()))


@pytest.mark.parametrize("quantizer", [round_to_nearest, half_quadratic])
def test_equal_weights_and_zeros_are_kept(quantizer):
    for value in (0.0, 0.5):
        weight_t = torch.full((32, 3), value)
        torch.testing.assert_close(quantizer(weight_t, 3, 16).dequantize(), weight_t, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("bits", BITS)
def test_optimized_ranges_are_never_worse_than_the_full_range(bits):
    weight_t = grouped(matrix(128, 16), 64)
    importance = grouped_weights(torch.rand(128, generator=torch.Generator().manual_seed(2)), 64)
    scale, zero = best_ranges(weight_t, importance, bits)

    def error(scale: torch.Tensor, zero: torch.Tensor | None) -> torch.Tensor:
        codes = encode(weight_t, scale, zero, bits)
        values = (codes if zero is None else codes - zero[:, None]) * scale[:, None]
        return (importance * (values - weight_t).square()).sum(1)

    least, most = weight_t.amin(1), weight_t.amax(1)
    full = weight_t.abs().amax(1) / 127 if bits == 8 else (most - least) / (2**bits - 1)
    naive = error(full, None if bits == 8 else -least / full)
    assert (error(scale, zero) <= naive * 1.02).all()
    if bits < 6:
        assert error(scale, zero).mean() < 0.95 * naive.mean()


def test_the_factor_is_that_of_the_damped_moments():
    given_moments = moments(12).double()
    factor = reverse_cholesky(given_moments, damping=0.5)
    damped = given_moments + 0.5 * given_moments.diagonal().mean() * torch.eye(12)
    torch.testing.assert_close(factor @ factor.T, damped)
    assert torch.equal(factor, factor.triu())
    torch.testing.assert_close(reverse_cholesky(torch.zeros(3, 3)), torch.eye(3, dtype=torch.float64))


def papers_rows(
    weight_t: torch.Tensor, given_moments: torch.Tensor, bits: int, scale: torch.Tensor, zero: torch.Tensor
) -> torch.Tensor:
    """W^T quantized by the paper's algorithm in float64 for known ranges, the inverse downdated after each row."""
    n = len(weight_t)
    moment = given_moments.double()
    inverse = torch.linalg.inv(moment + 0.01 * moment.diagonal().mean() * torch.eye(n))
    rows, values = weight_t.double().clone(), torch.zeros(n, weight_t.shape[1], dtype=torch.float64)
    for row in range(n):
        codes = (rows[row] / scale[row] + zero[row]).round().clamp(*levels(bits))
        values[row] = (codes - zero[row]) * scale[row]
        rows[row + 1 :] -= inverse[row + 1 :, row, None] * (rows[row] - values[row]) / inverse[row, row]
        inverse = inverse - inverse[:, row : row + 1] @ inverse[row : row + 1] / inverse[row, row]
        inverse[row, row] = 1.0
    return values


@pytest.mark.parametrize("bits", [4, 3])
def test_error_compensation_is_the_papers(bits):
    weight_t, given_moments = matrix(40, 5), moments(40)
    (codes,) = error_compensated(weight_t, reverse_cholesky(given_moments), [(40, bits)], 16)
    scale, zero = (ranges.double().repeat_interleave(16, 0)[:40] for ranges in (codes.scale, codes.zero))
    expected = papers_rows(weight_t, given_moments, bits, scale, zero)
    same = (codes.dequantize().double() - expected).abs() < scale / 2
    assert same.double().mean() > 0.97, "but for ties, which rounding in 32 bits breaks otherwise"


def test_error_compensation_leaves_less_error_than_rounding_and_runs_of_16_bits_take_up_the_rest():
    weight_t, given_moments = matrix(64, 6), moments(64)

    def left(values: torch.Tensor) -> float:
        change = (weight_t - values).double()
        return float(torch.trace(change.T @ given_moments.double() @ change))

    factor = reverse_cholesky(given_moments)
    runs = [(16, 4), (16, 3), (32, 2)]
    compensated = torch.cat([run.dequantize() for run in error_compensated(weight_t, factor, runs, 16)])
    ends = zip((0, 16, 32), (16, 32, 64), (4, 3, 2), strict=True)
    rounded = torch.cat([round_to_nearest(weight_t[a:b], bits, 16).dequantize() for a, b, bits in ends])
    assert left(compensated) < 0.6 * left(rounded)
    some, rest = error_compensated(weight_t, factor, [(32, 3), (32, 16)], 16)
    assert not torch.equal(rest, weight_t[32:])
    assert left(torch.cat((some.dequantize(), rest))) < left(torch.cat((some.dequantize(), weight_t[32:])))
