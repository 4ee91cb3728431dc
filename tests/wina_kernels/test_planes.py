"""Weights in planes: every number of planes is near the weight, and planes are read where they gain equally."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.planes import MOST_PLANES, PlaneWeight, in_planes


def _weight(n: int, m: int, seed: int) -> torch.Tensor:
    return torch.randn(n, m, generator=torch.Generator().manual_seed(seed))


def _some_planes(n: int, seed: int) -> torch.Tensor:
    return torch.randint(1, MOST_PLANES + 1, (n,), generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=40)
@given(n=st.integers(1, 9), m=st.integers(1, 70), seed=st.integers(0, 99), most=st.integers(1, MOST_PLANES))
def test_the_first_planes_alone_err_by_at_most_half_of_their_step(n: int, m: int, seed: int, most: int) -> None:
    weight_t, planes = _weight(n, m, seed), _some_planes(n, seed)
    weight = in_planes(weight_t, planes)
    read = planes.clamp(max=most)[:, None]
    step = weight.scale.float()[:, None] * 4.0 ** (1 - read)
    rounding = 1e-3 * weight_t.abs().max()  # of the scale to 16 bits, which the largest weight exceeds
    assert weight.shape == (n, m)
    assert ((weight.dequantize(most) - weight_t).abs() <= 0.5 * step + rounding).all()


@settings(deadline=None, max_examples=25)
@given(n=st.integers(1, 9), m=st.integers(1, 40), seed=st.integers(0, 99))
def test_a_product_reads_each_input_in_its_own_number_of_planes(n: int, m: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    planes = _some_planes(n, seed)
    weight = in_planes(_weight(n, m, seed), planes)
    x = torch.randn(3, n, generator=generator)
    levels = torch.minimum(torch.randint(0, MOST_PLANES + 1, (3, n), generator=generator), planes).to(torch.uint8)
    expected = torch.zeros(3, m, dtype=torch.float64)
    for most in range(1, MOST_PLANES + 1):
        expected += (x * (levels == most)).double() @ weight.dequantize(most).double()
    torch.testing.assert_close(weight.product(x, levels).double(), expected, rtol=1e-5, atol=1e-5)


def test_another_plane_is_read_from_the_score_where_it_gains_as_much_as_the_first() -> None:
    weight_t = _weight(64, 256, 1)
    weight = in_planes(weight_t, MOST_PLANES)
    total = float(weight_t.square().sum())
    errors = [total, *(float((weight.dequantize(most) - weight_t).square().sum()) for most in range(1, 7))]
    assert weight.errors == pytest.approx([error / total for error in errors[1:]], rel=1e-4)
    # dropping an input of score 1 costs 1: the gain of the first plane at score 1, of the others at their own
    for plane, factor in enumerate(weight.ladder, start=1):
        gain = (errors[plane] - errors[plane + 1]) / total
        assert gain * factor**2 == pytest.approx((errors[0] - errors[1]) / total, rel=1e-3)


def test_planes_that_gain_more_than_the_one_before_are_read_with_it() -> None:
    weight = PlaneWeight(torch.zeros(6, 1, dtype=torch.uint8), torch.ones(1), None, 4, (0.9, 0.1, 0.01, 0.001, 0, 0))
    assert weight.gains == pytest.approx((0.45, 0.45, 0.09, 0.009, 0.001, 0))
    assert weight.ladder[0] == pytest.approx(1)
    levels = weight.levels(torch.tensor([[1.0], [2.0], [2.5]]), torch.ones(3, 1))
    assert levels.flatten().tolist() == [2, 2, 3]


def test_levels_end_at_the_planes_that_are_there() -> None:
    weight = in_planes(_weight(3, 16, 0), torch.tensor([1, 2, 6]))
    assert weight.levels(torch.full((1, 3), 1e9), torch.ones(1, 1)).tolist() == [[1, 2, 6]]


def test_zeros_and_no_inputs_are_weights_too() -> None:
    assert in_planes(torch.zeros(2, 8), 3).dequantize().abs().max() < 1e-3
    assert in_planes(torch.zeros(0, 8), 3).dequantize().shape == (0, 8)
    zeros = in_planes(torch.zeros(2, 8), 3)
    levels = zeros.levels(torch.tensor([[0.5, 2.0]]), torch.ones(1, 1))
    assert levels.tolist() == [[1, 1]], "a second plane of zeros gains nothing"
    assert zeros.product(torch.ones(1, 2), levels).abs().max() < 1e-3


@pytest.mark.parametrize("planes", [0, 7])
def test_other_numbers_of_planes_are_refused(planes: int) -> None:
    with pytest.raises(ValueError, match=f"{planes} to {planes} planes; an input has 1 to 6"):
        in_planes(_weight(2, 16, 0), planes)
