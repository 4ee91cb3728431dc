"""Masks: exactly K per token, ties by index, and thresholds."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.selection import (
    deviation_scores,
    kept_inputs,
    mass_scores,
    threshold_mask,
    top_k_mask,
)

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize(
    ("inputs", "sparsity", "kept"),
    [(100, 0.0, 100), (100, 0.65, 35), (5, 0.5, 2), (7, 0.5, 3), (10, 0.999, 1), (3, 0.99, 1), (256, 0.25, 192)],
)
def test_dropped_inputs_are_rounded_to_nearest_halves_up_and_one_is_always_kept(inputs, sparsity, kept):
    assert kept_inputs(inputs, sparsity) == kept


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=40)
@given(data=st.data())
def test_exactly_the_k_highest_are_kept_and_equals_by_index(dtype, data):
    inputs = data.draw(st.integers(1, 12))
    # Few distinct values, so that most examples have ties at the cut.
    rows = data.draw(
        st.lists(st.lists(st.integers(0, 4), min_size=inputs, max_size=inputs), min_size=1, max_size=4), label="rows"
    )
    keep = data.draw(st.integers(1, inputs), label="keep")
    values = torch.tensor(rows, dtype=dtype)
    expected = torch.zeros_like(values, dtype=torch.bool)
    for row, numbers in enumerate(rows):
        ranked = sorted(range(inputs), key=lambda index: (-numbers[index], index))
        expected[row, ranked[:keep]] = True
    assert torch.equal(top_k_mask(values, keep), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_score_that_is_not_a_number_is_the_highest_whatever_its_sign(dtype):
    values = torch.tensor([[0.0, 1.0, 3.0, 2.0]], dtype=dtype)
    values[0, 0] = torch.nan
    negative = values.clone()
    negative.view(torch.uint8)[0, dtype.itemsize - 1] |= 0x80  # the sign of the first, whatever negation does to a NaN
    for each in (values, negative):
        assert top_k_mask(each, 2).tolist() == [[True, False, True, False]]


@settings(max_examples=60)
@given(
    rows=st.lists(st.lists(st.integers(0, 6), min_size=5, max_size=5), min_size=1, max_size=4),
    threshold=st.integers(-1, 6),
    fewest=st.integers(0, 5),
)
def test_a_row_keeps_its_highest_scores_where_fewer_are_above_the_threshold(rows, threshold, fewest):
    mask = threshold_mask(torch.tensor(rows, dtype=torch.float32), threshold, fewest).tolist()
    for row, kept in zip(rows, mask, strict=True):
        above = {i for i, value in enumerate(row) if value > threshold}
        highest = set(sorted(range(5), key=lambda i: (-row[i], i))[:fewest])
        assert {i for i, each in enumerate(kept) if each} == (above if len(above) >= fewest else highest)


def test_a_threshold_between_two_16_bit_values_separates_them():
    lower, upper = torch.tensor([1.0, 1.0078125], dtype=torch.bfloat16)  # neighbours
    assert threshold_mask(torch.stack([lower, upper]), 1.0077).tolist() == [False, True]


@settings(max_examples=60)
@given(
    values=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    share=st.floats(0.01, 0.99),
)
def test_top_p_keeps_the_smallest_set_of_highest_scores_that_has_the_mass(values, share):
    score = torch.tensor([values], dtype=torch.float64)
    mask = threshold_mask(mass_scores(score), 1 - share)[0].tolist()
    total = sum(values)
    # By hand: from the highest down, equal ones together, until the mass is reached.
    kept, mass = set(), 0
    for value in sorted(set(values), reverse=True):
        if total == 0 or mass >= share * total - 1e-12:
            break
        kept.add(value)
        mass += value * values.count(value)
    assert mask == [value in kept for value in values]


def test_statistical_keys_are_the_scores_distance_from_their_token_s_mean():
    score = torch.rand(3, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = (score - score.mean(-1, keepdim=True)) / score.std(-1, correction=0, keepdim=True)
    torch.testing.assert_close(deviation_scores(score).log(), expected)


def test_statistical_keys_of_equal_scores_are_equal_and_finite():
    assert deviation_scores(torch.full((1, 8), 2.0)).tolist() == [[1.0] * 8]
    assert deviation_scores(torch.zeros(1, 8)).isfinite().all()
    spike = torch.zeros(1, 20_000)
    spike[0, 3] = 1.0
    assert deviation_scores(spike).isfinite().all()
