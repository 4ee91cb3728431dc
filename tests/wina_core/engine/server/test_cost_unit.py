"""What a token costs as a unit of a run: from the config alone, or for a table that is found on the model."""

import shutil

import pytest

from tests.wina_core.engine.in_process import run_errors, units_of
from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.compute.models.loading import load_model
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate, save_rotated
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.cost import count_costs
from wina_core.jobs import CostJob, EvaluateJob, PendingRun
from wina_core.model_info.resolve import resolve
from wina_core.records import METRIC_UNITS, UnitRecord
from wina_core.specs import (
    COST,
    DENSE,
    NO_ROTATION,
    AllocatedSparsity,
    AllocatorSpec,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity

WINA = MethodSpec(name="wina")
SAVINGS = {f"{kind}_{what}_saving" for kind in ("gated", "net") for what in ("flops", "bytes")}
HALF = UniformSparsity(sparsity=0.5)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> ModelSource:
    return ModelSource(location=str(tiny_folder(tmp_path_factory.mktemp("model") / "whole")))


@pytest.fixture(scope="module")
def config(whole, tmp_path_factory) -> ModelSource:
    """A folder with nothing but the config.json."""
    folder = tmp_path_factory.mktemp("config")
    shutil.copy(f"{whole.location}/config.json", folder)
    return resolve(ModelSource(location=str(folder)))


def run_of(model: ModelSource, **fields) -> RunSpec:
    evaluation = fields.pop("evaluation", EvaluationSpec(cost_context=128, fidelity=None))
    return RunSpec(model=model, evaluation=evaluation, **fields)


def job_of(*runs: RunSpec, units: tuple[str, ...] | None = None) -> EvaluateJob:
    return EvaluateJob(runs=tuple(PendingRun(spec=run, units=units or run.evaluation.units) for run in runs))


def values(unit: UnitRecord) -> dict[str, float]:
    assert {metric.task for metric in unit.metrics} == {COST}
    return {metric.metric: metric.value for metric in unit.metrics}


@pytest.mark.parametrize("rotation", [NO_ROTATION, RotationSpec(mode="per_layer")], ids=lambda spec: spec.label)
def test_a_config_alone_will_do_and_gives_the_row_of_the_runs_rotation(config, rotation, monkeypatch):
    monkeypatch.setattr(Session, "prepare", lambda *_: pytest.fail("weights were read"))
    (unit,) = units_of(job_of(run_of(config, rotation=rotation, method=WINA, plan=HALF)))
    job = CostJob(model=config, method=WINA, plan=HALF, context=128, rotations=(rotation.mode,))
    row = count_costs(job, NullReporter()).rows[-1]
    assert row.rotation == rotation.mode
    counted = (*SAVINGS, "net_flops", "net_bytes", "bytes_held", "bits_held", "bits_read")
    assert {metric: values(unit)[metric] for metric in counted} == {metric: getattr(row, metric) for metric in counted}
    assert {metric.metric for metric in unit.metrics if metric.higher_is_better} == SAVINGS <= METRIC_UNITS.keys()
    assert (unit.unit, unit.gated_sparsity, unit.net_sparsity) == (COST, row.gated_sparsity, row.net_sparsity)
    assert values(unit)["gated_flops_saving"] > 0.2


def test_a_dense_run_saves_nothing_and_tells_what_dense_costs(config):
    dense, sparse = units_of(job_of(run_of(config, method=DENSE), run_of(config, method=WINA, plan=HALF)))
    assert {values(dense)[metric] for metric in SAVINGS} == {0.0}
    saved = 1 - values(sparse)["net_flops"] / values(dense)["net_flops"]
    assert values(sparse)["net_flops_saving"] == pytest.approx(saved, abs=1e-12)
    assert dense.gated_sparsity == 0


def test_of_an_allocated_plan_the_table_is_found_first(whole, tmp_path):
    text = TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)
    plan = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="greedy", step=0.25, text=text))
    (unit,) = units_of(job_of(run_of(whole, method=WINA, plan=plan)))
    table = [layer.value for layer in unit.layers if layer.metric == "target"]
    assert len(table) == 21
    assert len(set(table)) > 1
    assert unit.gated_sparsity == pytest.approx(0.5, abs=0.02)


def test_an_exported_models_shortcuts_are_counted(whole, tmp_path):
    loaded = load_model(whole, NullReporter())
    rotation = RotationSpec(mode="per_site", per_head=False, attention_basis=("k",), mlp_basis=("gate",))
    rotate(loaded, rotation, NullReporter())
    save_rotated(loaded, tmp_path / "exported", None)
    exported = resolve(ModelSource(location=str(tmp_path / "exported")))
    plain, rotated = units_of(
        job_of(run_of(exported, method=WINA, plan=HALF), run_of(whole, method=WINA, plan=HALF, rotation=rotation))
    )
    assert values(plain) == values(rotated)
    asked = CostJob(model=exported, method=WINA, plan=HALF, context=128)
    dense, row = count_costs(asked, NullReporter()).rows
    assert (dense.rotation, row.rotation) == ("dense", "per_site"), "it cannot be rotated in another way"
    assert row.net_flops == values(rotated)["net_flops"]


def test_files_that_changed_since_are_not_counted(config):
    (error,) = run_errors(job_of(run_of(config.model_copy(update={"fingerprint": "0" * 16}))))
    assert "have changed since" in error
