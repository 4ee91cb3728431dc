"""Jobs in several engines: stored as with one, ended by signals, stopped by a store that is full."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.wina_core.engine.engine_events import SHORT, run
from tests.wina_core.samples import ENVIRONMENT, study
from wina_core.api import running
from wina_core.api.running import JOB_ID, run_recorded_in_pool
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import (
    Cancel,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Log,
    Partial,
    Progress,
    Ready,
    Request,
    RunFailed,
    RunFinished,
    RunStarted,
    Started,
    Submit,
)
from wina_core.jobs.job_state import JobState
from wina_core.records import MetricRecord, UnitRecord
from wina_core.specs import FIDELITY, EvaluationSpec, RunSpec
from wina_core.store import Store

RUNS = tuple(run(sparsity, EvaluationSpec(fidelity=SHORT)) for sparsity in (0.25, 0.5))
SECOND = RUNS[1].content_hash()
BEGUN = (Ready(pid=1, environment=ENVIRONMENT), Started(job_id=JOB_ID))


class FakePool:
    """Says what the test has it say of a submitted job, and that it is cancelled when it is."""

    def __init__(self, events: tuple[Event, ...], interrupted: int) -> None:
        self._events, self._interrupted = events, interrupted
        self.stopped = False
        self.emit: Callable[[Event], None]

    def send(self, request: Request) -> None:
        if isinstance(request, Submit):
            for event in self._events:
                self.emit(event)
            if self._interrupted:
                signal.raise_signal(self._interrupted)
        elif isinstance(request, Cancel):
            self.emit(Done(job_id=JOB_ID, cancelled=True))

    def stop(self, *, leave: bool = False) -> None:  # noqa: ARG002 - as EnginePool's
        self.stopped = True


@pytest.fixture
def store(store: Store) -> Store:
    store.save_study(study(), RUNS)
    return store


@pytest.fixture
def run_in_pool(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., JobState]:
    """Run the job in two engines that say these events; they are stopped whatever comes of it."""

    def run(*events: Event, interrupted: int = 0) -> JobState:
        pool = FakePool((*BEGUN, *events), interrupted)

        def open_engines(on_event: Callable[[Event], None], engines: int, machines: object) -> FakePool:  # noqa: ARG001
            assert engines == 2
            pool.emit = on_event
            return pool

        monkeypatch.setattr(running, "open_engines", open_engines)
        try:
            return run_recorded_in_pool(EvaluateJob(runs=tuple(store.pending(RUNS))), store, 2)
        finally:
            assert pool.stopped

    return run


def computed(spec: RunSpec) -> tuple[Event, ...]:
    name = spec.content_hash()
    metric = MetricRecord(task=FIDELITY, metric="kl", value=0.1)
    unit = UnitRecord(run=name, unit=FIDELITY, metrics=(metric,), seconds=1.0)
    return (
        RunStarted(job_id=JOB_ID, run=name),
        Progress(job_id=JOB_ID, done=1, total=2, unit="measurements", metric="kl"),
        Partial(job_id=JOB_ID, unit=unit),
        RunFinished(job_id=JOB_ID, run=name),
    )


def test_what_several_engines_compute_is_stored_as_of_one(store: Store, run_in_pool: Callable[..., JobState]) -> None:
    failed = RunFailed(job_id=JOB_ID, run=SECOND, error="The text is too short.")
    outcome = run_in_pool(
        Log(level="warning", text="slow"),
        *computed(RUNS[0]),
        RunStarted(job_id=JOB_ID, run=SECOND),
        failed,
        Done(job_id=JOB_ID),
    )
    assert dict(outcome.failures) == {SECOND: failed}
    assert [(row.status, row.error, row.hardware) for row in store.runs()] == [
        ("done", "", ENVIRONMENT.hardware),
        ("failed", failed.error, ENVIRONMENT.hardware),
    ]
    assert [row.value for row in store.metric_rows()] == [0.1]


def test_a_job_that_fails_is_an_error_its_cause_is_printed_once_and_its_runs_are_interrupted(
    store: Store, run_in_pool: Callable[..., JobState], capsys: pytest.CaptureFixture[str]
) -> None:
    for detail in ("The machine is off.\n", "a traceback"):
        with pytest.raises(WinaError, match="could not start: The machine is off"):
            run_in_pool(Failed(job_id=JOB_ID, error="The engine could not start: The machine is off.", detail=detail))
    assert capsys.readouterr().err == "a traceback\n"
    assert [row.status for row in store.runs()] == ["interrupted", "interrupted"]


SIGNALS = [("SIGINT", "cancelled"), ("SIGTERM", "interrupted"), ("SIGHUP", "interrupted")]
"""Signals that end the command line, and what becomes of the runs that were not finished."""


@pytest.mark.parametrize(("name", "left"), SIGNALS)
def test_a_signal_ends_the_job_and_what_was_finished_is_kept(
    store: Store, run_in_pool: Callable[..., JobState], name: str, left: str
) -> None:
    number = getattr(signal, name, 0)
    if not number:
        pytest.skip("this system has no such signal")
    before = signal.getsignal(number)
    if before == signal.SIG_IGN:  # under nohup, which the program respects
        signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(Cancelled) as raised:
            run_in_pool(*computed(RUNS[0]), interrupted=number)
    finally:
        signal.signal(number, before)
    assert [row.status for row in store.runs()] == ["done", left]
    assert getattr(raised.value, "signal", signal.SIGINT) == number


@pytest.mark.parametrize(("name", "left"), SIGNALS[:2])
def test_a_signal_ends_a_job_in_this_process(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, left: str
) -> None:
    def measure(_pending: object, _session: object, _passes: object, _finished: object, stage: Any, *_: object) -> None:
        signal.raise_signal(getattr(signal, name))
        stage.check()

    monkeypatch.setattr("wina_core.engine.server.evaluate._measure", measure)
    with pytest.raises(Cancelled):
        running.run_recorded(EvaluateJob(runs=tuple(store.pending(RUNS))), store)
    assert [row.status for row in store.runs()] == [left, left]


def test_a_store_that_refuses_a_result_stops_the_job(
    store: Store, run_in_pool: Callable[..., JobState], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise WinaError("The disk is full.")

    monkeypatch.setattr(store, "record_unit", refuse)
    with pytest.raises(WinaError, match="The disk is full"):
        run_in_pool(*computed(RUNS[0]), *computed(RUNS[1]))
    assert [row.status for row in store.runs()] == ["failed", "interrupted"]
