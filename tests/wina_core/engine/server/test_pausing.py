"""The engine's loop in this process: one job, which is held, resumed, cancelled and dropped."""

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.wina_core.engine.engine_events import DEMO, Events
from wina_core.compute import pausable_clock
from wina_core.compute.reporter import Reporter
from wina_core.engine.server import server as engine_server
from wina_core.engine.server.server import Server
from wina_core.jobs import (
    EVENTS,
    Cancel,
    Done,
    Failed,
    Held,
    InspectJob,
    Log,
    Pause,
    Progress,
    Request,
    Resume,
    Started,
    Submit,
    encode,
)


class Engine:
    """A server whose jobs go from batch to batch as the test lets them."""

    def __init__(self) -> None:
        self.events = Events()
        self.batch = threading.Semaphore(0)
        self.server = Server(self)  # type: ignore[arg-type]  # a wire needs no more than the two methods below
        self._thread = threading.Thread(target=self.server.work)
        self._thread.start()

    def write(self, line: bytes) -> None:
        self.events(EVENTS.validate_json(line))

    def flush(self) -> None:
        """It is there already."""

    def ask(self, *requests: Request) -> None:
        for request in requests:
            self.server._take(encode(request).encode())

    def submit(self, *job_ids: str) -> None:
        self.ask(*(Submit(job_id=job_id, job=InspectJob(model=DEMO)) for job_id in job_ids))

    def started(self, job_id: str) -> None:
        self.events.wait(Started, lambda event: event.job_id == job_id)

    def held(self, job_id: str, held: bool = True) -> None:
        self.events.wait(Held, lambda event: event.job_id == job_id and event.held == held)

    def close(self) -> None:
        self.server.close()
        self._thread.join()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    def two_batches(_job: object, _session: object, _emit: object, reporter: Reporter, _job_id: str) -> None:
        for batch in range(2):
            made.batch.acquire()
            reporter.check()
            reporter.progress(batch + 1, 2, "batches")

    monkeypatch.setattr("wina_core.engine.server.run_job.run_job", two_batches)
    monkeypatch.setattr(engine_server.threading, "Timer", lambda *_, **__: threading.Thread())  # no watchdog
    made = Engine()
    yield made
    made.batch.release(100)
    made.close()


def test_a_running_job_is_held_at_its_next_batch_and_then_goes_on_from_there(engine: Engine) -> None:
    engine.submit("a")
    engine.started("a")
    engine.batch.release()
    engine.events.wait(Progress)
    engine.ask(Pause(job_id="a"), Pause(job_id="a"))
    engine.batch.release()
    engine.held("a")
    engine.ask(Resume(job_id="a"), Resume(job_id="a"))
    assert engine.events.end("a") == Done(job_id="a")
    assert [event.held for event in engine.events.all if isinstance(event, Held)] == [True, False]
    assert [event.done for event in engine.events.all if isinstance(event, Progress)] == [1, 2]


def test_a_second_job_is_refused_and_the_next_one_is_done(engine: Engine) -> None:
    engine.submit("a", "b", "a")
    refused = engine.events.end("b")
    assert isinstance(refused, Failed)
    assert refused.error == "The engine has a job already; submit the next one after Done or Failed."
    assert engine.events.wait(Log).job_id == "a"
    engine.batch.release(100)
    assert engine.events.end("a") == Done(job_id="a")
    engine.submit("c")
    assert engine.events.end("c") == Done(job_id="c")


def test_a_job_that_is_paused_before_it_begins_is_held(engine: Engine) -> None:
    engine.batch.release(100)
    with engine.server._changed:  # so that the job does not begin in between
        engine.submit("a")
        engine.ask(Pause(job_id="a"), Pause(job_id="other"))
    engine.held("a")
    engine.ask(Resume(job_id="a"))
    assert engine.events.end("a") == Done(job_id="a")


def test_a_job_that_is_cancelled_before_it_begins_is_dropped(engine: Engine) -> None:
    with engine.server._changed:
        engine.submit("a")
        engine.ask(Cancel(job_id="other"), Cancel(job_id="a"))
    assert engine.events.end("a") == Done(job_id="a", cancelled=True)
    assert not any(isinstance(event, Started) for event in engine.events.all)


@pytest.mark.parametrize("ask", [lambda engine: engine.ask(Cancel(job_id="a")), Engine.close])
def test_cancelling_and_closing_work_while_a_job_is_held(engine: Engine, ask: Callable[[Engine], None]) -> None:
    engine.submit("a")
    engine.started("a")
    engine.ask(Pause(job_id="a"))
    engine.batch.release()
    engine.held("a")
    ask(engine)
    assert engine.events.end("a") == Done(job_id="a", cancelled=True)
    assert [event.held for event in engine.events.all if isinstance(event, Held)] == [True]


def test_the_working_clock_stands_while_a_job_is_held(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(pausable_clock.time, "perf_counter", lambda: now)
    monkeypatch.setattr(pausable_clock, "_paused_seconds", 0.0)
    engine.submit("a")
    engine.started("a")
    engine.batch.release()
    engine.events.wait(Progress)
    engine.ask(Pause(job_id="a"))
    engine.batch.release()
    engine.held("a")
    now = 3700.0
    engine.ask(Resume(job_id="a"))
    assert engine.events.end("a") == Done(job_id="a")
    assert pausable_clock.now() == 100.0
