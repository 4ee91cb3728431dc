"""Bytes of weights of few bits, counted from the spec alone, against what a loaded model holds."""

import numpy as np
import pytest

from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.accounting.cost import costs
from wina_core.accounting.terms import Storage
from wina_core.compute.gating import attach
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.shape import model_shape
from wina_core.compute.models.summary import summarize
from wina_core.compute.reporter import NullReporter
from wina_core.specs import DENSE, BitsPlan, MethodSpec, QuantizationSpec, TextSpec
from wina_core.specs.plans import PlanLayout, UniformSparsity

OUTPUTS, INPUTS, KEPT = 10, 96, 48


def read(**fields) -> float:
    """Bytes read of one matrix, half of its inputs kept."""
    storage = Storage("bfloat16", QuantizationSpec.model_validate({"quantizer": "rtn", **fields}))
    sizes = (np.array([[float(size)]]) for size in (OUTPUTS, INPUTS, KEPT, OUTPUTS))
    return float(storage.matrix_bytes(*sizes)[0, 0])


def test_codes_are_read_for_kept_inputs_and_the_scales_of_every_group():
    assert read(bits=4) == OUTPUTS * (KEPT * 4 + 2 * 32) / 8, "a group of 64 and one of 32"
    assert read(bits=3, group=16) == OUTPUTS * (KEPT * 3 + 6 * 32) / 8
    assert read(bits=8) == OUTPUTS * (KEPT * 8 + 2 * 16) / 8, "no zeros"
    assert read(bits=16) == OUTPUTS * KEPT * 2
    assert read(bits=4.5, by_energy=True) == OUTPUTS * (KEPT * 4.5 + INPUTS * 32 / 64) / 8
    plan = BitsPlan(layout=PlanLayout(projections=("q",), parameters=((960,),)), bits=((6,),))
    assert read(bits=plan) == OUTPUTS * (KEPT * 6 + 2 * 32) / 8
    assert read(bits=8, quantizer="nested") == KEPT * (OUTPUTS * 8 + 32) / 8, "groups of outputs, read with their input"


def test_the_head_has_bits_of_its_own():
    storage = Storage("float32", QuantizationSpec(quantizer="rtn", head_bits=8))
    assert storage.head_bytes(960, 96) == 960 * (8 + 16 * 2 / 96) / 8
    assert Storage("float32", QuantizationSpec(quantizer="rtn")).head_bytes(960, 96) == 4 * 960


@pytest.mark.parametrize("fields", [{"bits": 4}, {"bits": 8}, {"bits": 4, "head_bits": 8}])
@pytest.mark.parametrize("tied", [False, True])
def test_a_model_holds_what_its_costs_say(fields, tied):
    spec = QuantizationSpec.model_validate({"quantizer": "rtn", "group": 16, **fields})
    loaded = tiny_loaded(tied=tied)
    shape = model_shape(loaded.view)
    assert shape.tied_head == tied
    quantize(loaded, spec, NullReporter())
    row = costs(shape, DENSE, UniformSparsity(sparsity=0.0), context=1, quantization=spec).rows[0]
    tables = sum(buffer.nbytes for name, buffer in loaded.model.named_buffers() if name.endswith("inv_freq"))
    cache = 4 * 2 * shape.kv_heads * shape.head_dim * shape.layout.layers
    assert row.bytes_held == summarize(loaded).memory_bytes - tables + cache
    assert row.gated_weights == sum(map(sum, shape.layout.parameters))


def test_counted_bits_are_those_that_gates_measure(tmp_path):
    text = TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)
    teal, half = MethodSpec(name="teal"), UniformSparsity(sparsity=0.5)
    for fields in ({"bits": 4}, {"bits": 4.5, "by_energy": True}):
        spec = QuantizationSpec.model_validate({"quantizer": "gptq", "group": 16, "text": text, **fields})
        loaded = tiny_loaded()
        shape = model_shape(loaded.view)
        quantize(loaded, spec, NullReporter())
        row = costs(shape, teal, half, quantization=spec).rows[1]
        with attach(loaded, teal, half) as gates:
            assert gates.bits_held == pytest.approx(row.bits_held, rel=0.1 if spec.by_energy else 1e-9)
            assert gates.bits_held <= row.bits_held * (1 + 1e-9), "an order that several matrices share counts once"
