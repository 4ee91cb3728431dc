"""A job names each of its stages, in order."""

import pytest

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.engine.in_process import compute
from wina_core.jobs import InspectJob, Job, RotateJob
from wina_core.jobs.progress import Stage
from wina_core.specs import (
    MethodSpec,
    ModelSource,
    RotationSpec,
    TextSpec,
)

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
