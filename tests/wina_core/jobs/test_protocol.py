"""The wire's messages survive it, and nothing else passes."""

import math

import pytest
from pydantic import ValidationError

from wina_core.jobs import (
    EVENTS,
    REQUESTS,
    EngineRequest,
    EvaluateJob,
    Partial,
    PendingRun,
    Shutdown,
    Submit,
    encode,
)
from wina_core.records import LayerRecord, MetricRecord, UnitRecord
from wina_core.specs import FIDELITY, MethodSpec, ModelSource, RunSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan

LAYOUT = PlanLayout(projections=("q", "down"), parameters=((4, 8), (4, 8)))
RUN = RunSpec(
    model=ModelSource(location='a "folder" with\nnewline and 🦙'),
    method=MethodSpec(name="wina"),
    plan=SparsityPlan.uniform(LAYOUT, 0.5),
)


def partial(value: float) -> Partial:
    metric = MetricRecord(task="task", metric="perplexity", value=value, stderr=-math.inf)
    layer = LayerRecord(layer=0, projection="q", metric="sparsity", value=0.1 + 0.2)
    return Partial(job_id="1", unit=UnitRecord(run="abc", unit="task", metrics=(metric,), layers=(layer,), seconds=1.0))


@pytest.mark.parametrize(
    "request_",
    [Submit(job_id="1", job=EvaluateJob(runs=(PendingRun(spec=RUN, units=(FIDELITY, "task")),))), Shutdown()],
)
def test_a_request_survives_the_wire_as_one_line(request_: EngineRequest) -> None:
    line = encode(request_)
    assert line.count("\n") == 1
    assert line.endswith("\n")
    arrived = REQUESTS.validate_json(line)
    assert arrived == request_
    if isinstance(arrived, Submit) and isinstance(arrived.job, EvaluateJob):
        assert arrived.job.runs[0].spec.content_hash() == RUN.content_hash()


@pytest.mark.parametrize("value", [math.inf, math.nan, 0.1 + 0.2])
def test_an_event_survives_the_wire_to_the_last_bit(value: float) -> None:
    arrived = EVENTS.validate_json(encode(partial(value)))
    assert isinstance(arrived, Partial)
    assert repr(arrived) == repr(partial(value))


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"type": "fire"}', '{"type": "cancel", "job_id": "1", "x": 1}'])
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValidationError):
        REQUESTS.validate_json(line)
