"""A job names each of its stages, in order."""

import pytest

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.engine.in_process import compute
from wina_core.jobs import AllocateJob, CalibrateJob, GenerateJob, InspectJob, Job, RotateJob
from wina_core.jobs.progress import Stage
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


def _stages(job: Job) -> list[Stage]:
    reporter = RecordingReporter()
    compute(job, reporter)
    return reporter.stages


def test_a_rotation_names_its_stages(model: ModelSource, text: TextSpec) -> None:
    fields = {"mode": "global", "weighting": "sensitivity", "objective": "kl", "steps": 2, "text": text}
    rotation = RotationSpec.model_validate(fields)
    stages = _stages(RotateJob(model=model, rotation=rotation))
    assert stages[0] == "loading"
    assert stages[-1] == "rotation"
    searching = {"moments of inputs", "sensitivities", "refinement", "refinement on KL", "text from the model"}
    assert {*searching, "comparison of rotations", "orthogonality of columns"} == {*stages} - {"loading", "rotation"}


def test_the_spectra_are_a_stage_before_the_rotation(model: ModelSource, text: TextSpec) -> None:
    rotation = RotationSpec(mode="none", per_head=True, text=text)
    stages = _stages(RotateJob(model=model, rotation=rotation, spectra=True))
    assert stages[:2] == ["loading", "spectra of inputs"]


@pytest.mark.parametrize(
    ("quantization", "stages"),
    [
        ("int8", ["quantization"]),
        (
            {"quantizer": "gptq", "bits": 5, "by_energy": True},
            ["sensitivities of outputs", "energies of inputs", "quantization"],
        ),
    ],
)
def test_a_quantization_names_its_stages(
    model: ModelSource, text: TextSpec, quantization: str | dict[str, object], stages: list[Stage]
) -> None:
    if isinstance(quantization, dict):
        quantization = {**quantization, "group": 16, "text": text}
    quantized = ModelSource.model_validate({**model.model_dump(), "quantization": quantization})
    assert sorted(_stages(InspectJob(model=quantized))) == sorted(["loading", *stages])


@pytest.mark.nightly  # by day test_generate.py, without a calibration
def test_a_completion_begins_after_its_preparations(model: ModelSource, text: TextSpec) -> None:
    completion = CompletionSpec(
        method=METHOD, plan=UniformSparsity(sparsity=0.5), calibration=CalibrationSpec(text=text)
    )
    stages = _stages(GenerateJob(model=model, prompt="The", new_tokens=2, configurations=(completion,)))
    assert stages[-3:] == ["calibration", "correction of thresholds", ""]


def test_a_calibration_is_a_stage(model: ModelSource, text: TextSpec) -> None:
    calibration = CalibrationSpec(text=text)
    job = CalibrateJob(model=model, rotation=RotationSpec(text=text), method=METHOD, calibration=calibration)
    assert _stages(job)[-2:] == ["rotation", "calibration"]


def test_an_allocation_is_a_stage(model: ModelSource, text: TextSpec) -> None:
    allocator = {"name": "curves", "text": text, "step": 0.25}
    plan = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec.model_validate(allocator))
    stages = _stages(AllocateJob(model=model, rotation=NO_ROTATION, method=METHOD, plan=plan))
    assert stages == ["loading", "allocation"]
