"""The command line with several engines: stored as with one, cancelled by Ctrl-C, stopped by a store that is full."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import SHORT, run
from tests.wina_core.samples import ENVIRONMENT, study
from wina_core.cli import running
from wina_core.cli.running import run_recorded_in_pool
from wina_core.engine.protocol import (
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
from wina_core.errors import Cancelled, WinaError
from wina_core.records import MetricRecord, UnitRecord
from wina_core.specs import FIDELITY, EvaluationSpec, RunSpec
from wina_core.store import Store

RUNS = tuple(run(sparsity, EvaluationSpec(fidelity=SHORT)) for sparsity in (0.25, 0.5))
Script = Callable[[str], list[Event]]


class FakePool:
    """Says what the test has it say of a submitted job, and that it is cancelled when it is."""

    pid = 1

    def __init__(self, on_event: Callable[[Event], None], script: Script, cancels: bool) -> None:
        self.emit, self._script, self._cancels = on_event, script, cancels
        self.stopped = False

    def start(self) -> None: ...

    def send(self, request: Request) -> None:
        if isinstance(request, Submit):
            for event in self._script(request.job_id):
                self.emit(event)
            if self._cancels:
                signal.raise_signal(signal.SIGINT)
        elif isinstance(request, Cancel):
            self.emit(Done(job_id=request.job_id, cancelled=True))

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results.sqlite") as opened:
        opened.save_study(study(), RUNS)
        yield opened


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[FakePool]]:
    def use(script: Script, cancels: bool = False) -> list[FakePool]:
        made: list[FakePool] = []

        def open_engines(on_event: Callable[[Event], None], engines: int) -> FakePool:
            assert engines == 2
            made.append(FakePool(on_event, script, cancels))
            return made[-1]

        monkeypatch.setattr(running, "open_engines", open_engines)
        return made

    return use


def job(store: Store) -> EvaluateJob:
    return EvaluateJob(runs=tuple(store.pending(RUNS)))


def computed(job_id: str, spec: RunSpec) -> list[Event]:
    name = spec.content_hash()
    metric = MetricRecord(task=FIDELITY, metric="kl", value=0.1)
    unit = UnitRecord(run=name, unit=FIDELITY, metrics=(metric,), seconds=1.0)
    return [
        RunStarted(job_id=job_id, run=name),
        Progress(job_id=job_id, done=1, total=2, unit="measurements", metric="kl"),
        Partial(job_id=job_id, unit=unit),
        RunFinished(job_id=job_id, run=name),
    ]


def begun(job_id: str) -> list[Event]:
    ready = Ready(pid=1, environment=ENVIRONMENT)
    return [ready, Started(job_id=job_id)]


def test_what_several_engines_compute_is_stored_as_of_one(store: Store, pools: Callable[..., list[FakePool]]) -> None:
    failed = "The text is too short."

    def script(job_id: str) -> list[Event]:
        second = RUNS[1].content_hash()
        return [
            *begun(job_id),
            Log(level="warning", text="slow"),
            *computed(job_id, RUNS[0]),
            RunStarted(job_id=job_id, run=second),
            RunFailed(job_id=job_id, run=second, error=failed),
            Done(job_id=job_id),
        ]

    made = pools(script)
    outcome = run_recorded_in_pool(job(store), store, 2)
    assert [failure.error for failure in outcome.failures] == [failed]
    assert [(row.status, row.error, row.hardware) for row in store.runs()] == [
        ("done", "", ENVIRONMENT.hardware),
        ("failed", failed, ENVIRONMENT.hardware),
    ]
    assert [row.value for row in store.metric_rows()] == [0.1]
    assert made[0].stopped


def test_ctrl_c_cancels_the_job_and_what_was_finished_is_kept(
    store: Store, pools: Callable[..., list[FakePool]]
) -> None:
    made = pools(lambda job_id: [*begun(job_id), *computed(job_id, RUNS[0])], cancels=True)
    with pytest.raises(Cancelled):
        run_recorded_in_pool(job(store), store, 2)
    assert [row.status for row in store.runs()] == ["done", "cancelled"]
    assert made[0].stopped


def test_a_job_that_fails_is_an_error_and_its_runs_are_told(
    store: Store, pools: Callable[..., list[FakePool]], capsys: pytest.CaptureFixture[str]
) -> None:
    pools(
        lambda job_id: [*begun(job_id), Failed(job_id=job_id, error="The engine could not start.", detail="no torch")]
    )
    with pytest.raises(WinaError, match="The engine could not start"):
        run_recorded_in_pool(job(store), store, 2)
    assert "no torch" in capsys.readouterr().err
    assert [row.status for row in store.runs()] == ["interrupted", "interrupted"]


def test_a_store_that_refuses_a_result_stops_the_job(
    store: Store, pools: Callable[..., list[FakePool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise WinaError("The disk is full.")

    made = pools(lambda job_id: [*begun(job_id), *computed(job_id, RUNS[0]), *computed(job_id, RUNS[1])])
    monkeypatch.setattr(store, "record_unit", refuse)
    with pytest.raises(WinaError, match="The disk is full"):
        run_recorded_in_pool(job(store), store, 2)
    assert made[0].stopped
    assert [row.status for row in store.runs()] == ["failed", "interrupted"]
