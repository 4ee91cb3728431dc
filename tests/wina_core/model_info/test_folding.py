"""Inputs that can carry norms, and quantization under which they do."""

import pytest

from wina_core.model_info.folding import choice_under, foldable_names
from wina_core.specs import QuantizationSpec

ALL = ("q", "k", "v", "o", "gate", "up", "down")


@pytest.mark.parametrize(
    ("projections", "kv_heads", "gains", "choice", "folded"),
    [
        (ALL, 8, True, "none", ()),
        (ALL, 8, True, "exact", ALL),
        (ALL, 2, True, "exact", ("q", "k", "v", "gate", "up", "down")),
        (ALL, 2, True, "all", ALL),
        (ALL, 2, False, "exact", ("down",)),
        (("q", "k", "v", "o", "up", "down"), 2, True, "exact", ("q", "k", "v", "up")),
    ],
)
def test_inputs_carry_norms_where_something_before_them_can_be_scaled(projections, kv_heads, gains, choice, folded):
    assert foldable_names(projections, 8, kv_heads, stream_gains=gains, choice=choice) == folded


@pytest.mark.parametrize(
    ("quantization", "folds"),
    [
        ("none", True),
        ("int8", True),
        ("int4", False),
        (QuantizationSpec(quantizer="rtn", bits=8.0), True),
        (QuantizationSpec(quantizer="hqq", bits=4.0), False),
        (QuantizationSpec(quantizer="gptq", bits=4.0), True),
        (QuantizationSpec(quantizer="planes", bits=8.0), False),
        (QuantizationSpec(quantizer="rtn", bits=4.2, by_energy=True), True),
    ],
)
def test_exact_folds_nothing_where_quantization_would_lose_by_it(quantization, folds):
    assert choice_under("exact", quantization) == ("exact" if folds else "none")
    assert choice_under("all", quantization) == "all"
    assert choice_under("none", quantization) == "none"
