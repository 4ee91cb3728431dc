"""Which tokens are gated: padding, and the dense prefix."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.gating.tokens import dense_prefix, without_trailing


def test_trailing_padding_is_told_from_zeros_inside():
    ids = torch.tensor([[5, 0, 7, 0, 0], [0, 0, 0, 0, 0], [1, 2, 3, 4, 5]])
    assert without_trailing(ids, 0).sum(-1).tolist() == [3, 1, 5]


@given(tokens=st.integers(1, 300), percent=st.integers(0, 99))
@settings(max_examples=60)
def test_the_dense_prefix_is_what_the_gated_rest_leaves(tokens, percent):
    real = torch.ones(1, tokens, dtype=torch.bool)
    expected = tokens - int((1 - percent / 100) * tokens)
    prefix = dense_prefix(real, percent / 100)[0]
    assert prefix.tolist() == [True] * expected + [False] * (tokens - expected)


def test_released_prefill_policies():
    real = torch.ones(1, 250, dtype=torch.bool)
    assert dense_prefix(real, 0.01).sum() == 250 - int(0.99 * 250)
    assert dense_prefix(real, 0.5).sum() == 125


def test_padding_on_either_side_does_not_change_the_prefix():
    right = torch.tensor([[1, 1, 1, 1, 0, 0, 0, 0]], dtype=torch.bool)
    assert dense_prefix(right, 0.5).int().tolist() == [[1, 1, 0, 0, 0, 0, 0, 0]]
    assert dense_prefix(right.flip(-1), 0.5).int().tolist() == [[0, 0, 0, 0, 1, 1, 0, 0]]
