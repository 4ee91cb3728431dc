"""Bits and bytes that a quantized model holds and reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wina_core.model_info.cost.test_accounting import WINA, shape_of
from wina_core.model_info.cost.cost import costs
from wina_core.specs import QuantizationSpec
from wina_core.specs.plans import UniformSparsity

WIDE = shape_of(hidden=128, intermediate=256, head_dim=32)
GATED = sum(map(sum, WIDE.layout.parameters))


@given(st.sampled_from((3, 4, 6, 8)), st.sampled_from((32, 64, 128)), st.floats(0.0, 0.9))
def test_bits_of_a_weight_are_its_code_and_its_share_of_the_scales(bits, group, sparsity):
    spec = QuantizationSpec(quantizer="rtn", bits=bits, group=group)
    dense, gated = costs(WIDE, WINA, UniformSparsity(sparsity=sparsity), quantization=spec, rotations=("none",)).rows
    assert dense.bits_held == dense.bits_read == gated.bits_held
    scales = dense.bits_held - bits
    assert 16 / group <= scales <= 32 / group
    kept_share = 1 - gated.gated_sparsity
    assert gated.bits_read == pytest.approx(kept_share * bits + scales, rel=1e-9)
