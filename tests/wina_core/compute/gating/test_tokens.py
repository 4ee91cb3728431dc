"""Selection of the gated tokens: padding and the dense prefix."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.compute.gating.rules import dense_prefix, real_tokens, without_trailing


def test_trailing_padding_is_distinguished_from_zeros_inside():
    ids = torch.tensor([[5, 0, 7, 0, 0], [0, 0, 0, 0, 0], [1, 2, 3, 4, 5]])
    assert without_trailing(ids, 0).sum(-1).tolist() == [3, 1, 5]


@given(tokens=st.integers(1, 300), percent=st.integers(0, 99))
@settings(max_examples=60)
def test_the_dense_prefix_is_rounded_as_released_code_does(tokens, percent):
    """Up to a half the gated rest is rounded down (WINA, TEAL), above it the prefix is (R-Sparse)."""
    real = torch.ones(1, tokens, dtype=torch.bool)
    fraction = percent / 100
    expected = tokens - int((1 - fraction) * tokens) if percent <= 50 else int(fraction * tokens)
    expected = 0 if tokens == 1 else expected
    prefix = dense_prefix(real, percent / 100)[0]
    assert prefix.tolist() == [True] * expected + [False] * (tokens - expected)


@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.9])
def test_a_single_token_is_gated(fraction):
    real = torch.tensor([[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 1, 0]], dtype=torch.bool)
    assert dense_prefix(real, fraction).sum(-1).tolist() == [0, 0, 0, 1]


def test_padding_on_either_side_does_not_change_the_prefix():
    right = torch.tensor([[1, 1, 1, 1, 0, 0, 0, 0]], dtype=torch.bool)
    assert dense_prefix(right, 0.5).int().tolist() == [[1, 1, 0, 0, 0, 0, 0, 0]]
    assert dense_prefix(right.flip(-1), 0.5).int().tolist() == [[0, 0, 0, 0, 1, 1, 0, 0]]


@pytest.mark.parametrize("cached", [0, 3])
def test_masks_of_four_dimensions_know_the_padding(cached):
    keys = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1], [1] * 8], dtype=torch.bool)
    seen = (keys[:, None, None] & torch.ones(8, 8, dtype=torch.bool).tril())[:, :, cached : cached + 5]
    added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    for mask in (seen, added, {"full_attention": seen, "sliding_attention": seen}):
        assert torch.equal(real_tokens(mask, 5, cached), keys[:, cached : cached + 5])
    assert real_tokens({"full_attention": None}, 5, cached) is None
