"""Weights of a quantizer that is no longer made are refused before anything is loaded."""

import pytest

from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.shape import model_shape
from wina_core.compute.reporter import NullReporter
from wina_core.engine.server.run_job import run_job
from wina_core.errors import WinaError
from wina_core.jobs import (
    AllocateJointlyJob,
    CostJob,
    DecodeJob,
    EstimateJob,
    EvaluateJob,
    InspectJob,
    PendingRun,
    RunFailed,
)
from wina_core.model_info.cost.cost import costs
from wina_core.specs import (
    DENSE,
    NO_ROTATION,
    EvaluationSpec,
    JointSpec,
    MethodSpec,
    ModelSource,
    QuantizationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.latency import DecodeSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.quantization import check_made

REFUSAL = "Weights of the quantizer nested are no longer made; choose planes."
NESTED = QuantizationSpec(quantizer="nested", bits=8)
OLD = ModelSource(location="demo", quantization=NESTED)
WINA, HALF = MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)
RUN = RunSpec(
    model=OLD, rotation=NO_ROTATION, method=WINA, plan=HALF, evaluation=EvaluationSpec(fidelity=TextSpec(tokens=2048))
)
PENDING = PendingRun(spec=RUN, units=("fidelity",))
JOBS = {
    "inspect": InspectJob(model=OLD),
    "cost": CostJob(model=OLD, method=WINA, plan=HALF),
    "joint": AllocateJointlyJob(
        model=OLD.unquantized, rotation=NO_ROTATION, method=WINA, spec=JointSpec(bits_read=4, quantization=NESTED)
    ),
    "decode": DecodeJob(spec=DecodeSpec(model=OLD)),
    "estimate": EstimateJob(runs=(PENDING,)),
}


class Unused:
    """A session that must not load anything."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} was used")


def refused(doing):
    with pytest.raises(WinaError) as caught:
        doing()
    assert str(caught.value) == REFUSAL


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_refused_before_anything_is_loaded(name):
    refused(lambda: run_job(JOBS[name], Unused(), lambda _: None, NullReporter()))


def test_only_the_run_fails_that_has_such_weights():
    events = []
    run_job(EvaluateJob(runs=(PENDING,)), Unused(), events.append, NullReporter())
    (failed,) = [event for event in events if isinstance(event, RunFailed)]
    assert failed.error == REFUSAL


def test_neither_weights_nor_costs_are_made():
    loaded = tiny_loaded()
    shape = model_shape(loaded.view)
    refused(lambda: costs(shape, DENSE, HALF, quantization=NESTED))
    refused(lambda: quantize(loaded, NESTED, NullReporter()))
    check_made("int4")
    check_made(QuantizationSpec(quantizer="planes"))
