"""Pausing and resuming in the engine's loop, in this process: what is held, what goes on, and what the clock says."""

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.wina_core.engine.engine_events import DEMO, Events
from wina_core.compute import pausable_clock
from wina_core.compute.reporter import Reporter
from wina_core.engine.protocol import (
    EVENTS,
    Accepted,
    Cancel,
    Done,
    Held,
    InspectJob,
    Pause,
    Progress,
    Request,
    Resume,
    Submit,
    encode,
)
from wina_core.engine.server import server as engine_server
from wina_core.engine.server.server import Server


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
        self.events.wait(Accepted, lambda event: event.job_id == job_id and event.started)

    def held(self, job_id: str, held: bool = True) -> None:
        self.events.wait(Held, lambda event: event.job_id == job_id and event.held == held)

    def close(self) -> None:
        self.server.close()
        self._thread.join()


class _NoTimer:
    """Stands for the watchdog, which would end the tests' own process."""

    daemon = False

    def __init__(self, *_args: object, **_kwargs: object) -> None: ...

    def start(self) -> None: ...


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    def two_batches(_job: object, _session: object, _emit: object, reporter: Reporter, _job_id: str) -> None:
        for batch in range(2):
            made.batch.acquire()
            reporter.check()
            reporter.progress(batch + 1, 2, "batches")

    monkeypatch.setattr("wina_core.engine.server.run_job.run_job", two_batches)
    monkeypatch.setattr(engine_server.threading, "Timer", _NoTimer)
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


def test_no_other_job_begins_while_one_is_held(engine: Engine) -> None:
    engine.submit("a", "b")
    engine.started("a")
    engine.ask(Pause(job_id="a"))
    engine.batch.release(100)
    engine.held("a")
    assert not any(isinstance(event, Accepted) and event.started for event in engine.events.of("b"))
    engine.ask(Resume(job_id="a"))
    assert engine.events.end("b") == Done(job_id="b")


def test_a_waiting_job_is_kept_waiting_and_those_behind_it_go_first(engine: Engine) -> None:
    engine.submit("a", "b", "c")
    engine.started("a")
    engine.ask(Pause(job_id="b"))
    engine.held("b")
    engine.batch.release(100)
    assert engine.events.end("c") == Done(job_id="c")
    assert not any(isinstance(event, Accepted) and event.started for event in engine.events.of("b"))
    engine.ask(Resume(job_id="b"))
    assert engine.events.end("b") == Done(job_id="b")


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


def test_a_waiting_job_that_is_paused_can_be_cancelled(engine: Engine) -> None:
    engine.submit("a", "b")
    engine.started("a")
    engine.ask(Pause(job_id="b"), Cancel(job_id="b"))
    assert engine.events.end("b") == Done(job_id="b", cancelled=True)
    engine.submit("b")
    engine.batch.release(100)
    engine.started("b")
    assert engine.events.end("a") == Done(job_id="a")


def test_a_job_that_is_paused_again_before_it_went_on_is_told_as_held(engine: Engine) -> None:
    engine.submit("a")
    engine.started("a")
    engine.ask(Pause(job_id="a"))
    engine.batch.release()
    engine.held("a")
    with engine.server._changed:  # so that the job does not get to go on in between
        engine.ask(Resume(job_id="a"), Pause(job_id="a"))
    assert [event.held for event in engine.events.all if isinstance(event, Held)] == [True, False, True]
    engine.ask(Resume(job_id="a"))
    engine.batch.release()
    assert engine.events.end("a") == Done(job_id="a")


def test_the_working_clock_stands_while_a_job_is_held(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(pausable_clock.time, "perf_counter", lambda: now)
    monkeypatch.setattr(pausable_clock, "_stood", 0.0)
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
