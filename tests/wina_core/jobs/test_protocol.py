"""The wire's messages survive it, and nothing else passes."""

import math

import pytest
from pydantic import ValidationError

from wina_core.jobs import (
    EVENTS,
    REQUESTS,
    Cancel,
    EvaluateJob,
    Event,
    Partial,
    PendingRun,
    Progress,
    Refined,
    Request,
    RunFailed,
    RunFinished,
    RunStarted,
    Shutdown,
    Submit,
    encode,
)
from wina_core.records import LayerRecord, MetricRecord, RefinementStep, UnitRecord
from wina_core.specs import FIDELITY, MethodSpec, ModelSource, RunSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan

LAYOUT = PlanLayout(projections=("q", "down"), parameters=((4, 8), (4, 8)))
RUN = RunSpec(
    model=ModelSource(location='a "folder" with\nnewline and 🦙'),
    method=MethodSpec(name="wina"),
    plan=SparsityPlan.uniform(LAYOUT, 0.5),
)


@pytest.mark.parametrize(
    "request_",
    [
        Submit(job_id="1", job=EvaluateJob(runs=(PendingRun(spec=RUN, units=(FIDELITY, "task")),))),
        Cancel(job_id="1"),
        Shutdown(),
    ],
)
def test_a_request_survives_the_wire_as_one_line(request_: Request) -> None:
    line = encode(request_)
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert REQUESTS.validate_json(line) == request_


@pytest.mark.parametrize(
    "event",
    [
        Progress(job_id="1", done=1.5, total=None, unit="layers"),
        Refined(job_id="1", step=RefinementStep(site="all", objective="kl", sparsity=0.5, step=3, steps=9, loss=0.1)),
        RunStarted(job_id="1", run="abc"),
        RunFinished(job_id="1", run="abc"),
        RunFailed(job_id="1", run="abc", error="Why.", detail="Where\nand how"),
        Partial(
            job_id="1",
            unit=UnitRecord(
                run="abc",
                unit="task",
                metrics=(MetricRecord(task="task", metric="perplexity", value=math.inf, stderr=-math.inf),),
                layers=(LayerRecord(layer=0, projection="q", metric="sparsity", value=0.1 + 0.2),),
                seconds=1.0,
            ),
        ),
    ],
)
def test_an_event_survives_the_wire_to_the_last_bit(event: Event) -> None:
    assert EVENTS.validate_json(encode(event)) == event


def test_nan_survives_the_wire() -> None:
    unit = UnitRecord(
        run="abc", unit="task", metrics=(MetricRecord(task="t", metric="m", value=math.nan),), seconds=0.0
    )
    found = EVENTS.validate_json(encode(Partial(job_id="1", unit=unit)))
    assert isinstance(found, Partial)
    assert math.isnan(found.unit.metrics[0].value)


@pytest.mark.parametrize(
    "line", ["", "nonsense", "[]", '{"type": "fire"}', '{"type": "cancel", "job_id": "1", "x": 1}']
)
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValidationError):
        REQUESTS.validate_json(line)


def test_the_run_keeps_its_hash_over_the_wire() -> None:
    found = REQUESTS.validate_json(encode(Submit(job_id="1", job=EvaluateJob(runs=(PendingRun(spec=RUN, units=()),)))))
    assert isinstance(found, Submit)
    assert isinstance(found.job, EvaluateJob)
    assert found.job.runs[0].spec.content_hash() == RUN.content_hash()


def test_progress_of_an_older_version_is_read() -> None:
    line = b'{"type": "progress", "job_id": "1", "done": 1, "total": 2, "unit": "tokens", "eta_seconds": 3.0}'
    assert EVENTS.validate_json(line) == Progress(job_id="1", done=1, total=2, unit="tokens", eta_seconds=3.0)
