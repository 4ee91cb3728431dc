"""Nested weights: both readings are near the weight, and the factor between their scores balances gain and bits."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.nested import NESTED_BITS, fine_factor, nest


def _weight(n: int, m: int, seed: int) -> torch.Tensor:
    return torch.randn(n, m, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 9), m=st.integers(1, 70), group=st.sampled_from((16, 32)), bits=st.sampled_from((6, 8)),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_all_bits_err_by_half_a_step_and_the_upper_ones_by_half_of_theirs(
    n: int, m: int, group: int, bits: int, seed: int
) -> None:
    weight_t = _weight(n, m, seed)
    weight = nest(weight_t, bits, group)  # type: ignore[arg-type]
    step = weight.scale.float().repeat_interleave(group, dim=1)[:, :m]
    rounding = 1e-3 * weight_t.abs().max()  # of scales and zeros to 16 bits
    assert weight.shape == (n, m)
    assert ((weight.dequantize() - weight_t).abs() <= 0.5 * step + rounding).all()
    assert ((weight.dequantize(coarse=True) - weight_t).abs() <= 0.5 * step * 2 ** (bits - 4) + rounding).all()


@pytest.mark.parametrize("bits", NESTED_BITS)
def test_it_holds_its_bits_and_a_scale_and_zero_for_each_group(bits: int) -> None:
    weight = nest(_weight(32, 128, 0), bits, 64)  # type: ignore[arg-type]
    assert weight.bytes == 32 * (128 * bits // 8 + 2 * 2 * 2)


def test_more_bits_are_read_from_the_score_where_they_gain_as_much_per_bit_as_the_first() -> None:
    weight_t = _weight(64, 256, 1)
    weight = nest(weight_t, 8, 64)
    errors = [float((weight.dequantize(coarse=each) - weight_t).square().sum()) for each in (True, False)]
    total = float(weight_t.square().sum())
    # dropping an input of score 1 costs 1: the gain per bit of the first four at score 1, of the others at the factor
    first, others = (1 - errors[0] / total) / 4, (errors[0] - errors[1]) / total / 4
    assert others * fine_factor(weight, weight_t) ** 2 == pytest.approx(first)
    assert fine_factor(nest(weight_t, 4, 64), weight_t) == math.inf


def test_other_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="Nested codes have 8, 6, 4 bits, not 5"):
        nest(_weight(2, 16, 0), 5, 16)  # type: ignore[arg-type]
