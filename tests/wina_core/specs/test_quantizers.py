"""Weights of a quantizer that is not installed are refused before anything is loaded."""

import pytest

from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.engine.server.run_job import run_job
from wina_core.errors import WinaError
from wina_core.jobs import (
    AllocateJointlyJob,
    CostJob,
    DecodeJob,
    EvaluateJob,
    InspectJob,
    PendingRun,
    RunFailed,
)
from wina_core.specs import NO_ROTATION, JointSpec, MethodSpec, ModelSource, QuantizationSpec, RunSpec
from wina_core.specs.latency import DecodeSpec
from wina_core.specs.plans import UniformSparsity

REFUSAL = 'There is no quantizer "absent"; choose one of rtn, hqq, gptq, planes'
ABSENT = QuantizationSpec(quantizer="absent", bits=8)
SOURCE = ModelSource(location="demo", quantization=ABSENT)
WINA, HALF = MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)
PENDING = PendingRun(spec=RunSpec(model=SOURCE, method=WINA, plan=HALF), units=("fidelity",))
JOBS = (
    InspectJob(model=SOURCE),
    CostJob(model=SOURCE, method=WINA, plan=HALF),
    AllocateJointlyJob(
        model=SOURCE.unquantized, rotation=NO_ROTATION, method=WINA, spec=JointSpec(bits_read=4, quantization=ABSENT)
    ),
    DecodeJob(spec=DecodeSpec(model=SOURCE)),
)


class Unused:
    """A session that must not load anything."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} was used")


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.kind)
def test_a_job_is_refused_before_anything_is_loaded(job):
    with pytest.raises(WinaError, match=REFUSAL):
        run_job(job, Unused(), lambda _: None, NullReporter())


def test_only_the_run_fails_that_has_such_weights():
    events = []
    run_job(EvaluateJob(runs=(PENDING,)), Unused(), events.append, NullReporter())
    (failed,) = [event for event in events if isinstance(event, RunFailed)]
    assert failed.error.startswith(REFUSAL)


def test_no_weights_are_made():
    with pytest.raises(WinaError, match=REFUSAL):
        quantize(tiny_loaded(layers=1), ABSENT, NullReporter())
