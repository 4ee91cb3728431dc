"""The products that a job would compute first are known without loading a model."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.wina_core.engine.in_process import compute
from wina_core.jobs import (
    AllocateJob,
    CalibrateJob,
    EvaluateJob,
    GenerateJob,
    InspectJob,
    Job,
    PendingRun,
    RotateJob,
)
from wina_core.jobs.planning import MissingProduct, missing_products
from wina_core.specs import (
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import UniformSparsity

METHOD = MethodSpec(name="teal", selection="threshold")


def _kinds(found: tuple[MissingProduct, ...]) -> list[str]:
    return [each.kind for each in found]


def _compute(job: Job) -> None:
    compute(job)


def test_what_a_job_needs_is_missing_until_it_was_computed(model: ModelSource, text: TextSpec) -> None:
    rotation = RotationSpec(objective="error", steps=2, text=text)
    plan = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="greedy", text=text, step=0.25))
    spec = CalibrationSpec(text=text)
    common = {"model": model, "rotation": rotation, "method": METHOD, "calibration": spec}
    evaluation = EvaluationSpec(tasks=(), fidelity=text)
    runs = [RunSpec(**common, plan=each, evaluation=evaluation) for each in (UniformSparsity(sparsity=0.5), plan)]
    job = EvaluateJob(runs=tuple(PendingRun(spec=run, units=run.evaluation.units) for run in runs))
    found = missing_products(job)
    assert _kinds(found) == ["rotation", "calibration", "allocation"]
    assert [each.seconds for each in found] == [None, None, None]
    assert all(each.is_long for each in found), "their durations are unknown"
    completion = CompletionSpec(rotation=rotation, method=METHOD, plan=UniformSparsity(sparsity=0.5), calibration=spec)
    generate = GenerateJob(model=model, prompt="The", configurations=(completion,))
    assert _kinds(missing_products(generate)) == ["rotation", "calibration"]
    assert [type(each.job) for each in found] == [RotateJob, CalibrateJob, AllocateJob]
    assert _kinds(missing_products(found[1].job)) == ["rotation"], "not the job's own result"
    for each in found:
        _compute(each.job)
    assert missing_products(job) == missing_products(generate) == ()
    assert missing_products(InspectJob(model=model)) == ()


def test_an_earlier_duration_is_remembered_without_the_file(model: ModelSource, text: TextSpec, tmp_path: Path) -> None:
    spec = CalibrationSpec(text=text)
    job = CalibrateJob(model=model, rotation=RotationSpec(text=text), method=METHOD, calibration=spec)
    (missing,) = missing_products(job)
    _compute(missing.job)
    (bases,) = (tmp_path / "home").rglob("rotations/*.safetensors")
    bases.rename(bases.with_suffix(".search"))
    (missing,) = missing_products(job)
    assert missing.seconds is not None
    assert missing.begun


@pytest.mark.parametrize(("objective", "long"), [("error", True), ("eigen", False)])
def test_a_refined_rotation_of_unknown_duration_is_long(text: TextSpec, objective: str, long: bool) -> None:
    rotation = RotationSpec.model_validate({"objective": objective, "text": text})
    demo = ModelSource(location="demo")
    job = CalibrateJob(model=demo, rotation=rotation, method=METHOD, calibration=CalibrationSpec(text=text))
    (missing,) = missing_products(job)
    assert missing.is_long is long


def test_asking_loads_no_torch() -> None:
    code = "import sys, wina_core.jobs.planning; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
