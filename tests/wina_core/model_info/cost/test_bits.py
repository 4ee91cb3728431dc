"""Bytes of weights of few bits, counted from the spec alone, against what a loaded model holds."""

import numpy as np
import pytest

from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.compute.gating import attach
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.shape import model_shape, summarize
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.model_info.cost.cost import costs
from wina_core.model_info.cost.terms import Storage
from wina_core.specs import DENSE, BitsPlan, MethodSpec, QuantizationSpec, TextSpec
from wina_core.specs.plans import PlanLayout, UniformSparsity

OUTPUTS, INPUTS, KEPT = 10, 96, 48


def read(**fields) -> float:
    """Bytes read of one matrix, half of its inputs kept."""
    storage = Storage("bfloat16", QuantizationSpec.model_validate({"quantizer": "rtn", **fields}))
    sizes = (np.array([[float(size)]]) for size in (OUTPUTS, INPUTS, KEPT, OUTPUTS))
    return float(storage.matrix_bytes(*sizes)[0, 0])


def in_planes(kept_inputs: float, *, together: float = OUTPUTS, **fields) -> float:
    """Bits of one matrix in planes with so many kept inputs."""
    storage = Storage("bfloat16", QuantizationSpec.model_validate({"quantizer": "planes", **fields}))
    sizes = (np.array([[float(size)]]) for size in (OUTPUTS, INPUTS, kept_inputs, together))
    return 8 * float(storage.matrix_bytes(*sizes)[0, 0])


def test_planes_are_held_with_a_scale_for_each_input_and_by_energy_within_their_bits():
    assert in_planes(INPUTS, bits=8) == INPUTS * (OUTPUTS * 8 + 16)
    assert in_planes(INPUTS, bits=8, together=4 * OUTPUTS) == INPUTS * (OUTPUTS * 8 + 16 / 4), "fused ones share it"
    assert in_planes(INPUTS, bits=8, by_energy=True) == pytest.approx(INPUTS * OUTPUTS * 8)
    plan = BitsPlan(layout=PlanLayout(projections=("q",), parameters=((960,),)), bits=((7.5,),))
    assert in_planes(INPUTS, bits=plan, by_energy=True) == pytest.approx(INPUTS * OUTPUTS * 7.5)
    fewest, most = (in_planes(INPUTS, bits=bits, by_energy=True) for bits in (2, 12))
    assert fewest == pytest.approx(INPUTS * (OUTPUTS * 2 + 16 + 8)), "every input has a plane, a scale and a number"
    assert most == pytest.approx(INPUTS * OUTPUTS * 12)
    assert in_planes(INPUTS, bits=16) == INPUTS * OUTPUTS * 16


def test_gates_read_fewer_planes_than_are_held():
    two, eight, twelve = (in_planes(KEPT, bits=bits) for bits in (2, 8, 12))
    assert two == KEPT * (OUTPUTS * 2 + 16), "one plane of every kept input"
    assert two < eight <= twelve < 1.01 * eight, "the lowest planes are hardly read"
    assert eight < 0.6 * KEPT * (OUTPUTS * 8 + 16)
    reads = [in_planes(kept_inputs, bits=8) for kept_inputs in (1, 24, 48, 72, 90, 96)]
    assert reads == sorted(reads)


def test_codes_are_read_for_kept_inputs_and_the_scales_of_every_group():
    assert read(bits=4) == OUTPUTS * (KEPT * 4 + 2 * 32) / 8, "a group of 64 and one of 32"
    assert read(bits=3, group=16) == OUTPUTS * (KEPT * 3 + 6 * 32) / 8
    assert read(bits=8) == OUTPUTS * (KEPT * 8 + 2 * 16) / 8, "no zeros"
    assert read(bits=16) == OUTPUTS * KEPT * 2
    assert read(bits=4.5, by_energy=True) == OUTPUTS * (KEPT * 4.5 + INPUTS * 32 / 64) / 8
    plan = BitsPlan(layout=PlanLayout(projections=("q",), parameters=((960,),)), bits=((6,),))
    assert read(bits=plan) == OUTPUTS * (KEPT * 6 + 2 * 32) / 8


@pytest.mark.parametrize("fields", [{"bits": 4, "head_bits": 8}, {"quantizer": "planes", "bits": 6}])
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


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("llama", {"quantizer": "gptq", "group": 16, "bits": 4.5, "by_energy": True}),
        ("llama", {"quantizer": "planes", "bits": 6.5, "by_energy": True}),
        ("phi3", {"quantizer": "planes", "bits": 4}),
    ],
)
def test_counted_bits_are_about_those_that_gates_measure(tmp_path, family, fields):
    text = TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)
    spec = QuantizationSpec.model_validate({"text": text, **fields})
    loaded = tiny_loaded(family)
    shape = model_shape(loaded.view)
    quantize(loaded, spec, NullReporter())
    teal, half = MethodSpec(name="teal"), UniformSparsity(sparsity=0.5)
    row = costs(shape, teal, half, quantization=spec).rows[1]
    with attach(loaded, teal, half) as gates:
        loaded.model(read_tokens(text, loaded.tokenizer))
        assert gates.bits_held <= row.bits_held * (1 + 1e-9), "an order that several matrices share counts once"
        assert gates.bits_held == pytest.approx(row.bits_held, rel=0.1 if spec.by_energy else 1e-9)
        if spec.quantizer == "planes":
            assert gates.bits_read == pytest.approx(row.bits_read, rel=0.25)
