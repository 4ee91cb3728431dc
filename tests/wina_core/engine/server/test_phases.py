"""Every text of a job's progress belongs to a phase of its plan."""

import pytest

from tests.wina_core.compute.reporters import RecordingReporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.jobs import AllocateJob, CalibrateJob, GenerateJob, InspectJob, Job, RotateJob
from wina_core.jobs.phases import (
    ALLOCATION,
    COMPARISON,
    SAMPLING,
    SPECTRA,
    JobEta,
    Phase,
    allocating,
    phase_name,
    phases,
)
from wina_core.specs import (
    NO_ROTATION,
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import UniformSparsity

METHOD = MethodSpec(name="teal", selection="threshold")


def _check(job: Job) -> None:
    """Compute a job, and compare the phases that it reports with its plan."""
    reporter = RecordingReporter()
    run_job(job, Session(), lambda _: None, reporter)
    reported = {phase_name(unit, metric): metric for _, _, unit, metric in reporter.calls}
    assert set(reported) == {phase.name for phase in phases(job)}, reported


def test_a_rotations_texts_name_its_phases(model: ModelSource, text: TextSpec) -> None:
    rotation = {"mode": "global", "weighting": "sensitivity", "objective": "kl", "steps": 2, "text": text}
    _check(RotateJob(model=model, rotation=RotationSpec.model_validate(rotation)))


def test_the_energy_spectra_are_a_phase_of_a_rotation(model: ModelSource, text: TextSpec) -> None:
    rotation = RotationSpec(mode="none", per_head=True, text=text)
    _check(RotateJob(model=model, rotation=rotation, spectra=True))


def test_the_eigenvalues_of_the_spectra_take_longer_in_a_wider_model(model: ModelSource) -> None:
    job = RotateJob(model=model, rotation=RotationSpec(mode="auto"), spectra=True)
    narrow, wide = (
        next(phase.work for phase in phases(job, hidden=hidden) if phase.name == SPECTRA) for hidden in (256, 4096)
    )
    assert wide > 2 * narrow


@pytest.mark.parametrize(
    "quantization",
    [
        "int8",
        {"quantizer": "rtn"},
        {"quantizer": "gptq", "bits": 5, "by_energy": True},
        {"quantizer": "planes", "bits": 5, "by_energy": True},
    ],
)
def test_a_quantizations_texts_name_its_phases(
    model: ModelSource, text: TextSpec, quantization: str | dict[str, object]
) -> None:
    if isinstance(quantization, dict):
        quantization = {**quantization, "group": 16, "text": text}
    quantized = ModelSource.model_validate({**model.model_dump(), "quantization": quantization})
    _check(InspectJob(model=quantized))


def test_a_completions_texts_name_its_phases(model: ModelSource, text: TextSpec) -> None:
    completion = CompletionSpec(
        method=METHOD, plan=UniformSparsity(sparsity=0.5), calibration=CalibrationSpec(text=text)
    )
    _check(GenerateJob(model=model, prompt="The", new_tokens=2, configurations=(completion,)))


@pytest.mark.parametrize("method", [METHOD, MethodSpec(name="scap", selection="threshold")])
def test_a_calibrations_texts_name_its_phases(model: ModelSource, text: TextSpec, method: MethodSpec) -> None:
    spec = CalibrationSpec(text=text)
    _check(CalibrateJob(model=model, rotation=RotationSpec(text=text), method=method, calibration=spec))


@pytest.mark.parametrize("name", ["greedy", "curves", "refine", "evolution", "marginal"])
def test_an_allocations_texts_name_its_phases(model: ModelSource, text: TextSpec, name: str) -> None:
    allocator = {"name": name, "text": text, "step": 0.25, "rounds": 1}
    plan = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec.model_validate(allocator))
    _check(AllocateJob(model=model, rotation=NO_ROTATION, method=METHOD, plan=plan))


def test_the_marginal_allocator_is_planned_by_its_own_tokens() -> None:
    plan = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="marginal", text=TextSpec(tokens=32_768)))
    assert allocating(METHOD, plan, None, ()) == [Phase(ALLOCATION, 45 * 2048)]
    assert phase_name("rounds", "KL 0.1") == phase_name("rounds", "") == ALLOCATION


@pytest.mark.parametrize("mode", ["auto", "global"])
def test_the_time_of_sampling_text_is_planned_before_the_comparison(model: ModelSource, mode: str) -> None:
    job = RotateJob(model=model, rotation=RotationSpec.model_validate({"mode": mode}))
    names = [phase.name for phase in phases(job)]
    assert names.index(COMPARISON) == names.index(SAMPLING) + 1
    assert SAMPLING not in [phase.name for phase in phases(job, missing=())]
    known = JobEta((Phase(SAMPLING, 4000.0), Phase(COMPARISON, 6000.0)))
    known.update(0.0, 0, 1, "texts", "sampling text from the model")
    assert known.update(40.0, 0, 8, "rows", "comparing rotations") == pytest.approx(60.0)
