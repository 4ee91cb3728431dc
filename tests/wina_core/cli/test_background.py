"""Jobs in a process of their own: taken over, computed where they are missing, stored, cancelled and interrupted."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import PATIENCE, evaluate
from tests.wina_core.engine.fake_pool import FakeClient
from tests.wina_core.engine.stored_job import JOB, RUNS, STUDY
from tests.wina_core.samples import unit
from wina_core.cli import jobs
from wina_core.cli.jobs import BackgroundJobs
from wina_core.engine.client.background import BackgroundProcess, Handover, start_in_background
from wina_core.engine.client.pool import EnginePool
from wina_core.errors import WinaError
from wina_core.jobs import Cancel, Done, Event, Partial, Submit
from wina_core.specs import ModelSource
from wina_core.store import Recorders, Store

NAMES = [spec.content_hash() for spec in RUNS]


class Computing:
    """A background process's jobs on a thread, over one engine that says what a test has it say."""

    def __init__(self, url: str, jobs: tuple[Submit, ...], engines: list[FakeClient]) -> None:
        self._store, self._engines = Store(url), engines
        self._store.keep_jobs(jobs)
        self.jobs = BackgroundJobs(self._store, 1)
        self._thread = ThreadPoolExecutor(1)
        self._end: Future[None] = self._thread.submit(self.jobs.run, jobs)

    @property
    def engine(self) -> FakeClient:
        self._engines[0].given()
        return self._engines[0]

    def wait(self) -> None:
        self._end.result(PATIENCE)
        self._store.close()


@pytest.fixture
def compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Computing]:
    engines: list[FakeClient] = []

    def open_engines(on_event: Callable[[Event], None], _engines: int, **_options: object) -> EnginePool:
        def client(to: Callable[[Event], None], environment: object) -> FakeClient:
            engines.append(FakeClient(to, environment, eager=False))  # type: ignore[arg-type]
            return engines[-1]

        return EnginePool(on_event, [{}], client)  # type: ignore[arg-type]

    monkeypatch.setattr(jobs, "open_engines", open_engines)
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.02)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # which a thread may not call
    return lambda *jobs: Computing(url_of(tmp_path), jobs or (Submit(job_id="job", job=JOB),), engines)


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'results.sqlite'}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The database as another program sees it, with the runs of the job."""
    with Store(url_of(tmp_path)) as opened:
        opened.save_study(STUDY, RUNS)
        yield opened


def statuses(store: Store) -> list[str]:
    return [row.status for row in store.runs()]


def test_a_job_is_computed_whole_whatever_is_stored_and_other_programs_see_how_far_it_is(
    store: Store, compute: Callable[..., Computing]
) -> None:
    store.record_unit(unit(RUNS[1], RUNS[1].evaluation.units[0]))
    computing = compute()
    assert [run.spec for run in computing.engine.runs] == list(RUNS)
    computing.engine.finish(computing.engine.runs[0])
    until = time.monotonic() + PATIENCE
    while (job := store.list_jobs()[0]).done < 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert (job.submit.job_id, job.state, job.total) == ("job", "running", 4)
    computing.engine.complete()
    computing.wait()
    assert statuses(store) == ["done", "done"]
    assert store.list_jobs() == []


def test_a_job_whose_row_is_deleted_is_cancelled(store: Store, compute: Callable[..., Computing]) -> None:
    computing = compute()
    engine = computing.engine
    engine.finish(engine.runs[0])
    store.forget_jobs(["job"])
    engine.given(1, Cancel)
    engine.say(Done(job_id=engine.job_id, cancelled=True))
    computing.wait()
    assert statuses(store) == ["done", "cancelled"]


def test_an_interrupted_job_is_offered_again(store: Store, compute: Callable[..., Computing]) -> None:
    computing = compute()
    assert computing.engine
    computing.jobs._events.put(None)  # as SIGTERM does
    computing.wait()
    assert statuses(store) == ["interrupted", "interrupted"]
    assert [job.submit.job_id for job in store.list_jobs() if job.state == "unfinished"] == ["job"]


def test_a_process_of_its_own_computes_and_stores(tmp_path: Path, store: Store) -> None:
    missing = ModelSource(location=str(tmp_path / "nowhere"), dtype="float32")
    spec = RUNS[0].model_copy(update={"model": missing})
    store.save_study(STUDY, (spec,))
    job = evaluate(spec)
    start_in_background(Handover(database=url_of(tmp_path), engines=1, jobs=(Submit(job_id="job", job=job),)))
    assert not store.unfinished_jobs(), "its program lives"
    until = time.monotonic() + PATIENCE
    while store.list_jobs() and time.monotonic() < until:
        time.sleep(0.1)
    assert store.run_status(spec.content_hash()) == "failed"
    assert "nowhere" in next(run.error for run in store.runs() if run.run == spec.content_hash())


def test_a_process_that_cannot_store_refuses(tmp_path: Path) -> None:
    (tmp_path / "results.sqlite").write_text("no database")
    with pytest.raises(WinaError, match=r"results\.sqlite"):
        BackgroundProcess(Handover(database=url_of(tmp_path), engines=1, jobs=(Submit(job_id="job", job=JOB),)))


def test_a_process_ends_with_its_jobs_whatever_the_store_says_of_their_end(
    store: Store, compute: Callable[..., Computing], monkeypatch: pytest.MonkeyPatch
) -> None:
    computing = compute()
    engine = computing.engine
    record = Recorders.record

    def refuse(recorders: Recorders, message: Submit | Event) -> None:
        if isinstance(message, Done):
            raise WinaError("This can never be stored.")
        record(recorders, message)

    monkeypatch.setattr(Recorders, "record", refuse)
    engine.complete()
    computing.wait()
    assert statuses(store) == ["done", "done"]


def test_a_job_whose_result_is_refused_once_can_be_resumed(
    store: Store, compute: Callable[..., Computing], monkeypatch: pytest.MonkeyPatch
) -> None:
    computing = compute()
    record = Recorders.record
    refusals = iter([WinaError("The disk is full.")])

    def refuse(recorders: Recorders, message: Submit | Event) -> None:
        if isinstance(message, Partial) and (refusal := next(refusals, None)):
            raise refusal
        record(recorders, message)

    monkeypatch.setattr(Recorders, "record", refuse)
    computing.engine.complete()
    computing.wait()
    assert [job.submit.job_id for job in store.list_jobs()] == ["job"], "its rest is offered by the next start"
    assert "cancelled" not in statuses(store)
