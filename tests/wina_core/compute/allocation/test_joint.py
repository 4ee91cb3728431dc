"""Joint allocation on a tiny model: budgets are kept, more budget never harms, and the result is a model's bits."""

import pytest
import torch

from tests.wina_core.tiny import tiny_loaded, tiny_tokens
from wina_core.compute.allocation.cells import AllocationSubject, Cells, cells_of
from wina_core.compute.allocation.divergence import Journal
from wina_core.compute.allocation.joint import Measurement, allocate_jointly
from wina_core.compute.gating import attach
from wina_core.compute.models.logits import mean_divergence
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.specs import JointSpec, MethodSpec, QuantizationSpec, TextSpec

WINA = MethodSpec(name="wina", masks="shared")
RTN = QuantizationSpec(quantizer="rtn", bits=8, group=16)
TEXT = TextSpec(tokens=128, sequence=32)


def quantized(quantization: QuantizationSpec):
    loaded = tiny_loaded("llama")
    quantize(loaded, quantization, NullReporter())
    return loaded


def layers_of(loaded) -> dict:
    return {
        (layer.index, name): projection.linear
        for layer in loaded.view.layers
        for name, projection in layer.projections.items()
    }


@pytest.fixture(scope="module")
def variants():
    spec = JointSpec(bits_read=16, quantization=RTN, widths=(4, 8))
    return {bits: layers_of(quantized(spec.quantized(bits))) for bits in spec.choices}


def allocate(variants, tmp_path, method=WINA, **budgets):
    spec = JointSpec(quantization=RTN, widths=(4, 8), text=TEXT, **budgets)
    return allocate_jointly(tiny_loaded("llama"), variants, method, spec, "key", tmp_path / "a.options", NullReporter())


def test_budgets_are_kept_and_more_of_them_costs_less(variants, tmp_path):
    costs = []
    for read in (5.0, 6.0, 8.0):
        record = allocate(variants, tmp_path, bits_read=read)
        assert record.bits_read <= read + 1e-6
        assert record.bound <= record.value
        costs.append(record.value)
    assert costs == sorted(costs, reverse=True)
    held = allocate(variants, tmp_path, bits_read=6.0, bits_held=8.0)
    assert held.bits_held <= 8.0
    assert held.value >= costs[1] * (1 - 2e-3)
    bits = held.pair.quantization
    assert isinstance(bits, QuantizationSpec)
    plan = bits.plan(held.pair.plan.layout)
    assert {value for row in plan.bits for value in row} <= {4, 8}
    assert plan.provenance == held.pair.plan.provenance == "joint, 6 bits read, 8 bits held"


@torch.no_grad()
def test_the_divergence_of_the_whole_is_that_of_the_quantized_and_gated_model(variants, tmp_path):
    record = allocate(variants, tmp_path, bits_read=5.5)
    loaded = quantized(record.pair.quantization)
    tokens = tiny_tokens()
    dense = tiny_loaded("llama").model(tokens, use_cache=False).logits
    with attach(loaded, WINA, record.pair.plan):
        gated = loaded.model(tokens, use_cache=False).logits
    subject = AllocationSubject(tiny_loaded("llama"), WINA)
    cells = cells_of(subject.loaded.view.layout, WINA)
    columns = [(block.layer, block.columns[0]) for block in cells.blocks]
    plan = record.pair.quantization.plan(record.pair.plan.layout)
    widths = [plan.bits[layer][column] for layer, column in columns]
    targets = [record.pair.plan.sparsity[layer][column] for layer, column in columns]
    measurement = Measurement(subject, cells, variants, (0.0,), NullReporter())
    assert measurement.whole(tokens, widths, targets) == pytest.approx(mean_divergence(dense, gated), rel=1e-4)


def test_bits_alone_are_allocated_for_the_dense_method(variants, tmp_path):
    record = allocate(variants, tmp_path, MethodSpec(name="dense"), bits_held=8.0)
    assert record.pair.plan.budget == 0
    assert record.bits_read == pytest.approx(record.bits_held)
    assert record.bits_held <= 8.0


def test_an_interrupted_measurement_resumes_with_the_same_numbers(variants, tmp_path):
    loaded = tiny_loaded("llama")
    cells = Cells.of(loaded.view.layout, loaded.view.layout.projections)
    tokens = tiny_tokens()[:1, :8].repeat(96, 1)

    class Stopping(NullReporter):
        calls = 0

        def check(self) -> None:
            self.calls += 1
            if self.calls == 40:  # in the second batch
                raise KeyboardInterrupt

    def measured(file, reporter):
        measurement = Measurement(
            AllocationSubject(loaded, MethodSpec(name="dense")), cells, variants, (0.0,), reporter
        )
        return measurement.measure(tokens, Journal(file, reporter), lambda _: None)

    whole = measured(None, NullReporter())
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "b.options", Stopping())
    resumed = measured(tmp_path / "b.options", NullReporter())
    assert resumed.divergence == pytest.approx(whole.divergence)
    assert resumed.read == pytest.approx(whole.read)


@pytest.mark.parametrize(
    ("method", "budgets", "reason"),
    [
        (WINA, {"bits_held": 3.0}, "The budget of 3 bits held is below what the choices allow"),
        (MethodSpec(name="wina", selection="threshold"), {"bits_read": 5.0}, "needs a calibration for each"),
        (MethodSpec(name="cats"), {"bits_read": 5.0}, "does not gate every matrix"),
    ],
)
def test_what_cannot_be_allocated_is_said_in_one_sentence(variants, tmp_path, method, budgets, reason):
    with pytest.raises(WinaError, match=reason):
        allocate(variants, tmp_path, method, **budgets)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "a joint allocation needs a budget"),
        ({"bits_held": 4.5}, "weights in planes need a budget of bits read"),
        (
            {"bits_read": 4.5, "widths": (5.0,), "quantization": RTN},
            "has 2, 3, 4, 6, 8 or 16 bits, not 5",
        ),
    ],
)
def test_a_spec_without_a_budget_or_with_bits_that_the_quantizer_lacks_is_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        JointSpec(**fields)
