"""Bits and bytes that a quantized model holds and reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wina_core.model_info.cost.test_accounting import WINA, shape_of
from wina_core.model_info.cost.cost import costs
from wina_core.model_info.cost.terms import Storage, held_bytes
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


@pytest.mark.parametrize(("tied", "head"), [(True, 1 + 0.25), (False, 1 + 0.25 - 4)], ids=["tied", "own head"])
def test_a_quantized_head_is_held_beside_an_embedding_that_it_is_tied_to(tied, head):
    parameters = GATED + 10_000
    plain = held_bytes(WIDE, parameters, Storage("float32"), tied=tied)
    assert plain == 4 * parameters
    four = QuantizationSpec(quantizer="rtn", bits=16, head_bits=8, group=128)
    held = held_bytes(WIDE, parameters, Storage("float32", four), tied=tied)
    assert held - plain == pytest.approx(WIDE.head_weights * head, rel=0.2)
