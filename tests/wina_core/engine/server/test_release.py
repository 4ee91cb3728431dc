"""An evaluation that makes room for another job continues with the same numbers."""

from tests.wina_core.engine.engine_events import DEMO, SHORT, evaluate, run
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.jobs import EvaluateJob, Event, InspectGateJob, Partial, PendingRun, RunFinished
from wina_core.records import UnitRecord
from wina_core.records.gates import GateTarget
from wina_core.specs import NO_ROTATION, EvaluationSpec, MethodSpec

EVALUATION = EvaluationSpec(tasks=("demo_choice",), fidelity=SHORT, cost_context=64, limit=4)
JOB = evaluate(run(0.5, EVALUATION), run(0.6, EVALUATION))
LOOK = InspectGateJob(
    model=DEMO,
    rotation=NO_ROTATION,
    layer=1,
    projection="q",
    prompt="Once upon a time",
    gates=(GateTarget(method=MethodSpec(name="teal"), target=0.4),),
)


class _Releasing(NullReporter):
    """Releases the job once some measurements have arrived."""

    def __init__(self, after: int) -> None:
        self._after = after
        self.events: list[Event] = []

    @property
    def units(self) -> list[UnitRecord]:
        return [event.unit for event in self.events if isinstance(event, Partial)]

    @property
    def released(self) -> bool:
        return len(self.units) >= self._after


def _rest(job: EvaluateJob, units: list[UnitRecord]) -> EvaluateJob:
    done = {(unit.run, unit.unit) for unit in units}
    rest = (
        PendingRun(
            spec=each.spec, units=tuple(unit for unit in each.units if (each.spec.content_hash(), unit) not in done)
        )
        for each in job.runs
    )
    return JOB.model_copy(update={"runs": tuple(each for each in rest if each.units)})


def test_an_evaluation_that_is_released_before_its_first_result_advances() -> None:
    released = _Releasing(after=0)
    run_job(JOB, Session(), released.events.append, released)
    assert len(released.units) == 1


def test_an_overtaken_evaluation_measures_the_same() -> None:
    whole = _Releasing(after=100)
    run_job(JOB, Session(), whole.events.append, whole)
    session, parts, job = Session(), list[_Releasing](), JOB
    while job.runs:
        parts.append(_Releasing(after=2))
        run_job(job, session, parts[-1].events.append, parts[-1])
        assert len(parts[-1].units) <= 2, "it ends at its next measurement"
        run_job(LOOK, session, lambda _: None, NullReporter())
        job = _rest(job, parts[-1].units)
    found = {(unit.run, unit.unit): unit for part in parts for unit in part.units}
    expected = {(unit.run, unit.unit): unit for unit in whole.units}
    assert len(parts) > 2
    assert len(expected) == 6
    assert {key: unit.model_copy(update={"seconds": 0.0}) for key, unit in found.items()} == {
        key: unit.model_copy(update={"seconds": 0.0}) for key, unit in expected.items()
    }
    finished = [event.run for part in parts for event in part.events if isinstance(event, RunFinished)]
    assert sorted(finished) == sorted(each.spec.content_hash() for each in JOB.runs), "each run ends once"
