"""Stored numbers of a model's cells: which measurement of each metric counts, and the divergences an allocator left."""

import pytest

from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.compute.allocation import allocate
from wina_core.compute.allocation.allocators import LEVELS
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation.comparison import norm_spreads
from wina_core.errors import WinaError
from wina_core.jobs import AllocateJob, Result
from wina_core.records import AllocationRecord, CalibrationRecord, LayerRecord, RotationReport, SiteSpectrum
from wina_core.specs import (
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    Configuration,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.specs.quantization import PlanPair
from wina_core.specs.studies import StudySpec
from wina_core.store import Recorder, Store

MODEL, ROTATION, WINA = ModelSource(location="m", fingerprint="f"), RotationSpec(), MethodSpec(name="wina")
ARM = MODEL, ROTATION, WINA
LAYOUT = PlanLayout(projections=("q", "down"), parameters=((4, 12), (4, 12)))


def stat(metric: str, value: float, x: float | None = None, projection: str = "q") -> LayerRecord:
    return LayerRecord(layer=0, projection=projection, metric=metric, value=value, x=x)


def calibrated(*layers: LayerRecord) -> CalibrationRecord:
    return CalibrationRecord(key="k", tokens=64, layers=layers, seconds=1.0)


def allocated(curves: tuple[LayerRecord, ...]) -> AllocationRecord:
    plan = SparsityPlan.uniform(LAYOUT, 0.5)
    return AllocationRecord(key="a", plan=plan, objective="KL", value=0.1, seconds=1.0, curves=curves)


def values_by_metric(store: Store) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for row in store.cell_stats(*ARM):
        values.setdefault(row.metric, []).append(row.value)
    return values


def test_a_calibration_serves_every_selection_until_a_newer_one_and_no_other_rotation(store):
    layers = [stat("threshold", 0.3, 0.5), stat("threshold", 0.1, 0.25, "down")]
    store.record_calibration(*ARM, CalibrationSpec(), calibrated(stat("threshold", 0.4, 0.5)))
    store.record_calibration(*ARM, CalibrationSpec(), calibrated(*layers))
    for method in (WINA, WINA.model_copy(update={"selection": "threshold"})):
        stats = store.cell_stats(MODEL, ROTATION, method)
        assert stats == [("threshold", 0, "q", 0.5, 0.3), ("threshold", 0, "down", 0.25, 0.1)]
        assert len(store.cells_stamp(MODEL, ROTATION, method)) == 1
    assert store.cell_stats(MODEL, RotationSpec(mode="none"), WINA) == []


def test_each_metric_is_that_of_the_latest_calibration_that_has_it(store):
    assert store.cells_stamp(*ARM) == ()
    store.record_calibration(*ARM, CalibrationSpec(), calibrated(stat("relative_error", 0.1, 0.5)))
    first = store.cells_stamp(*ARM)
    other = CalibrationSpec(text=TextSpec(tokens=128))
    store.record_calibration(*ARM, other, calibrated(stat("relative_error", 0.2, 0.5), stat("norm_spread", 0.3)))
    assert store.cells_stamp(*ARM) != first
    assert values_by_metric(store) == {"relative_error": [0.2], "norm_spread": [0.3]}


def test_an_allocators_curves_stand_beside_calibrations_and_take_nothing_away(store):
    store.record_calibration(*ARM, CalibrationSpec(), calibrated(stat("relative_error", 0.1, 0.5)))
    plan = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="curves", text=CalibrationSpec().text))
    job = AllocateJob(model=MODEL, rotation=ROTATION, method=WINA, plan=plan)
    record = allocated((stat("kl", 0.0, 0.0), stat("kl", 0.4, 0.5)))
    Recorder(store, job).record(Result(job_id="j", value=record))
    assert values_by_metric(store) == {"kl": [0.0, 0.4], "relative_error": [0.1]}


def test_a_rotations_residuals_serve_until_a_calibration_brings_its_own(store):
    report = RotationReport(
        rotation="r", logits_deviation=0.0, residuals=(stat("off_diagonal_energy", 0.7),), shortcut_parameters=0,
        seconds=1.0, spectra=(SiteSpectrum(layer=0, site="mlp", directions=(1, 9), cumulative=(0.5, 1.0)),),
    )  # fmt: skip
    store.record_rotation(MODEL, ROTATION, report)
    assert values_by_metric(store) == {"off_diagonal_energy": [0.7]}
    store.record_calibration(*ARM, CalibrationSpec(), calibrated(stat("off_diagonal_energy", 0.6)))
    assert values_by_metric(store) == {"off_diagonal_energy": [0.6]}


def test_a_runs_plan_is_its_own_table_or_the_one_that_was_allocated_for_it(store):
    table = SparsityPlan(layout=LAYOUT, sparsity=((0.2, 0.5), (0.3, 0.6)))
    later = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="curves"))
    runs = [RunSpec(model=MODEL, rotation=ROTATION, method=WINA, plan=plan) for plan in (table, later)]
    store.save_study(StudySpec(name="s", models=(MODEL,), configurations=(Configuration(),)), runs)
    listed = store.planned_runs(MODEL)
    assert {row.run for row in listed} == {run.content_hash() for run in runs}
    assert store.run_plan(runs[0].content_hash(), LAYOUT) == PlanPair(plan=table, quantization="none")
    with pytest.raises(WinaError, match=r"not stored yet; evaluate it first"):
        store.run_plan(runs[1].content_hash(), LAYOUT)
    other = PlanLayout(projections=("q",), parameters=((4,),))
    with pytest.raises(WinaError, match="was made for a model with 2 layers"):
        store.run_plan(runs[0].content_hash(), other)


def test_a_block_that_moves_together_splits_its_divergence_by_weights(tmp_path):
    loaded = tiny_loaded(layers=1)
    text = TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)
    shared = MethodSpec(name="wina", masks="shared")
    curves = tmp_path / "kept.curves"
    plan = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="curves", text=text))
    record = allocate(loaded, shared, plan, "key", NullReporter(), None, tmp_path / "kept.search", curves)
    layout = loaded.view.layout
    at_half = {row.projection: row.value for row in record.curves if row.x == 0.5}
    assert set(at_half) == set(layout.projections)
    counts = dict(zip(layout.projections, layout.parameters[0], strict=True))
    assert at_half["q"] / at_half["k"] == pytest.approx(counts["q"] / counts["k"])
    assert tuple(row.x for row in record.curves if row.projection == "q") == LEVELS
    assert all(row.value == 0 for row in record.curves if row.x == 0)


def test_norm_spreads_are_the_coefficient_of_variation_of_the_column_norms():
    view = tiny_loaded(layers=1).view
    records = {row.projection: row.value for row in norm_spreads(view)}
    norms = view.layers[0].projections["down"].weight.detach().norm(dim=0)
    assert records["down"] == pytest.approx(float(norms.std(correction=0) / norms.mean()), rel=1e-5)
    assert set(records) == set(view.layout.projections)
