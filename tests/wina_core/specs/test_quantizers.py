"""Weights of a quantizer that is not installed are refused before anything is loaded."""

import pytest

from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.engine.server.run_job import run_job
from wina_core.errors import WinaError
from wina_core.jobs import CostJob, EvaluateJob, InspectJob, PendingRun, RunFailed
from wina_core.specs import MethodSpec, ModelSource, QuantizationSpec, RunSpec
from wina_core.specs.plans import UniformSparsity

REFUSAL = 'There is no quantizer "absent"; choose one of rtn, hqq, gptq, planes'
ABSENT = QuantizationSpec(quantizer="absent", bits=8)
SOURCE = ModelSource(location="demo", quantization=ABSENT)
WINA, HALF = MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)


class Unused:
    """A session that must not load anything."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} was used")


def test_a_job_and_a_run_are_refused_before_anything_is_loaded():
    for job in (InspectJob(model=SOURCE), CostJob(model=SOURCE, method=WINA, plan=HALF)):
        with pytest.raises(WinaError, match=REFUSAL):
            run_job(job, Unused(), lambda _: None, NullReporter())
    events = []
    pending = PendingRun(spec=RunSpec(model=SOURCE, method=WINA, plan=HALF), units=("fidelity",))
    run_job(EvaluateJob(runs=(pending,)), Unused(), events.append, NullReporter())
    (failed,) = [event for event in events if isinstance(event, RunFailed)]
    assert failed.error.startswith(REFUSAL)
    with pytest.raises(WinaError, match=REFUSAL):
        quantize(tiny_loaded(layers=1), ABSENT, NullReporter())
