"""The frontier: its points, and the Pareto front of comparable ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wina_core.analysis.comparison.test_worth import HERE, timed
from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality
from wina_core.analysis.comparison.frontier import frontier_points, originals, pareto_front
from wina_core.records import METRIC_UNITS, MetricRecord, UnitRecord
from wina_core.records.imports import ImportedFile, ImportedPoint, ImportedValue
from wina_core.specs import (
    COST,
    DENSE,
    NO_ROTATION,
    ORIGINAL,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    QuantizationSpec,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.latency import DecodePoint
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.store.imported.metrics import METRICS
from wina_core.store.timings import DecodeRow

MODEL = ModelSource(location="/models/small llama", fingerprint="0123456789abcdef")
BITS = MODEL.model_copy(update={"quantization": QuantizationSpec(quantizer="rtn", bits=4.0)})
OTHER = ModelSource(location="/models/another", fingerprint="fedcba9876543210")
WINA = MethodSpec(name="wina")
EVALUATION = EvaluationSpec(original=TextSpec(source="demo:heldout"), fidelity=None, cost_context=2048)

values = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=30)


@given(values, st.booleans(), st.booleans())
def test_the_front_has_the_points_that_no_other_beats(points, x_up, y_up):
    x, y = np.array(points, float).T

    def beats(one: int, other: int) -> bool:
        cheaper = x[one] >= x[other] if x_up else x[one] <= x[other]
        better = y[one] >= y[other] if y_up else y[one] <= y[other]
        return cheaper and better and (x[one], y[one]) != (x[other], y[other])

    expected = [not any(beats(other, one) for other in range(len(x))) for one in range(len(x))]
    assert pareto_front(x, y, x_up=x_up, y_up=y_up).tolist() == expected


def test_points_that_are_not_finite_are_on_no_front():
    front = pareto_front(np.array([1.0, 2.0, np.nan, 0.0]), np.array([1.0, np.nan, 0.0, np.inf]))
    assert front.tolist() == [True, False, False, False]


def run(model: ModelSource, sparsity: float, rotation: RotationSpec = NO_ROTATION, **evaluation) -> RunSpec:
    return RunSpec(
        model=model,
        rotation=rotation,
        method=WINA if sparsity else DENSE,
        plan=UniformSparsity(sparsity=sparsity),
        evaluation=EVALUATION.model_copy(update=evaluation),
    )


def record(
    store: Store, spec: RunSpec, kl: float, megabytes: float, tokens: int = 4096, bits: tuple[float, ...] = ()
) -> None:
    """Record a run; `bits` are the measured and the counted ones read for each of 1,000,000 weights."""
    study = StudySpec(name="a study", models=(spec.model,), configurations=(Configuration(),))
    store.save_study(study, [spec])
    numbers = {
        ORIGINAL: {"kl": kl, **({"bits_read": bits[0]} if bits else {})},
        COST: {"net_bytes": 1e6 * megabytes}
        | ({"bits_read": bits[1], "gated_weights": 1e6, "mask_bytes": 1000.0} if bits else {}),
    }
    sparsity = spec.plan.budget
    for unit, values_by_metric in numbers.items():
        metrics = tuple(
            MetricRecord(task=unit, metric=metric, value=value, n=tokens, higher_is_better=False)
            for metric, value in values_by_metric.items()
        )
        name = spec.content_hash()
        store.record_unit(
            UnitRecord(
                run=name, unit=unit, metrics=metrics, gated_sparsity=sparsity, net_sparsity=sparsity, seconds=1.0
            )
        )


def points(store: Store, axis: CostAxis = "bytes_read", model: ModelSource = MODEL, **more):
    frame = frontier_points(store.metrics(), store.model_sources(), model.content_hash(), Quality(), axis, **more)
    return frame.set_index("name")


def test_all_bits_and_rotations_of_a_model_are_compared_and_no_other_model(store):
    record(store, run(MODEL, 0.0), 0.0, 100.0)
    record(store, run(MODEL, 0.5), 0.05, 60.0)
    record(store, run(BITS, 0.0), 0.01, 40.0)
    record(store, run(BITS, 0.5, RotationSpec()), 0.02, 25.0)
    record(store, run(OTHER, 0.5), 0.0001, 1.0)
    assert set(originals(store.model_sources()).values()) == {"small llama", "another"}
    frame = points(store)
    assert frame["front"].to_dict() == {
        "dense": True,
        "wina 50 %": False,
        "4 bits rtn, dense": True,
        f"4 bits rtn, wina 50 %, {RotationSpec().label}": True,
    }
    assert frame.loc["wina 50 %", ["x", "y"]].tolist() == [60.0, 0.05]
    assert points(store, "gated")["front"].to_dict()["wina 50 %"] is False
    assert points(store, "gated").loc["wina 50 %", "x"] == 50.0
    assert points(store, "flops").empty, "it was not counted"


def test_bytes_read_take_measured_bits_in_place_of_counted_ones(store):
    record(store, run(BITS, 0.5), 0.01, 20.0, bits=(3.0, 2.5))
    record(store, run(BITS, 0.6), 0.02, 18.0)
    x = points(store)["x"].to_dict()
    assert x == {"4 bits rtn, wina 50 %": pytest.approx(20.0 + 0.5 / 8 - 0.001), "4 bits rtn, wina 60 %": 18.0}


def test_only_points_on_the_same_text_are_compared(store):
    record(store, run(MODEL, 0.5), 0.05, 60.0)
    other = TextSpec(source="demo:training")
    record(store, run(MODEL, 0.6, original=other), 0.01, 50.0)
    record(store, run(MODEL, 0.7), 0.01, 50.0, tokens=512)
    frame = points(store)
    assert frame["front"].all()
    assert frame["group"].nunique() == 3


@pytest.mark.parametrize("scored", ["all", "second_half"])
def test_imported_points_are_shown_and_never_compared(store, scored):
    record(store, run(MODEL, 0.5, original=TextSpec(source="demo:heldout", scored=scored)), 0.05, 60.0)
    kl = ImportedValue(value=0.001, stderr=1e-4)
    point = ImportedPoint(name="Q4_0", metrics={"kl": kl, "bytes_read": ImportedValue(value=3e7)})
    without = ImportedPoint(name="Q8_0", metrics={"kl": kl})
    store.record_import(
        ImportedFile(file="kl.log", digest="0" * 64, tool="llama-perplexity", points=(point, without)), MODEL
    )
    frame = points(store, imports=store.imports())
    assert frame["imported"].to_dict() == {"wina 50 %": False, "Q4_0": True}
    assert frame["front"].to_dict() == {"wina 50 %": True, "Q4_0": False}
    assert frame.loc["Q4_0", ["x", "y", "run"]].tolist() == [30.0, 0.001, ""]
    assert frame.loc["Q4_0", "source"].startswith("llama-perplexity, kl.log, ")
    assert ("--second-half" in frame.loc["Q4_0", "source"]) == (scored == "all"), "positions of the others are a remark"
    assert points(store, model=OTHER, imports=store.imports()).empty


def test_speeds_are_those_of_the_machine_that_was_timed_last(store):
    for sparsity, kl in ((0.0, 0.0), (0.5, 0.05), (0.6, 0.06)):
        record(store, run(MODEL, sparsity), kl, 50.0)

    def decoded(sparsity: float, speed: float, recorded: float, hardware: str = "here", batch: int = 1) -> DecodeRow:
        point = DecodePoint(model=MODEL, sparsity=sparsity, batch=batch)
        machine = HERE.model_copy(update={"hardware": hardware})
        timing = timed(point, speed, machine, dense_tokens_per_second=10.0)
        labels = {"model": "small llama", "rotation": "none", "method": "wina"}
        return DecodeRow(record=timing, point=point.content_hash(), recorded=recorded, **labels)

    timings = [
        decoded(0.5, 15.0, recorded=3.0),
        decoded(0.5, 99.0, recorded=2.0, hardware="elsewhere"),
        decoded(0.6, 99.0, recorded=2.0, hardware="elsewhere"),
        decoded(0.5, 99.0, recorded=4.0, batch=4),
    ]
    frame = points(store, "tokens_per_s", decodings=timings)
    assert frame["x"].to_dict() == {"dense": 10.0, "wina 50 %": 15.0}
    assert frame["front"].all()


def test_the_axes_name_metrics_that_exist():
    assert {axis.imported for axis in AXES.values()} - {""} <= METRICS.keys()
    assert Quality().metric in METRIC_UNITS
    assert Quality().metric in METRICS
