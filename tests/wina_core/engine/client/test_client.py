"""One engine that misbehaves: every job ends exactly once, and no process stays behind."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import Events
from wina_core.engine.client import client as client_module
from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import (
    Cancel,
    Done,
    Event,
    Failed,
    Held,
    InspectJob,
    Log,
    Pause,
    Ready,
    RunStarted,
    Submit,
)
from wina_core.specs import ModelSource

FAKE = Path(__file__).parents[1] / "fake_engine.py"
JOB = InspectJob(model=ModelSource(location="demo"))
Start = Callable[..., tuple[EnginePool, Events]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Makes clients of fake engines with short graces, and stops them afterwards."""
    pools: list[EnginePool] = []
    monkeypatch.setattr(client_module, "SHUTDOWN_GRACE_SECONDS", 0.3)
    monkeypatch.setattr(client_module, "TERMINATE_GRACE_SECONDS", 0.3)

    def make(
        behaviour: str = "normal", command: list[str] | None = None, events: Events | None = None
    ) -> tuple[EnginePool, Events]:
        events = events or Events()
        fake = command or [sys.executable, "-S", str(FAKE), behaviour]
        log = tmp_path / "engine.log"
        pools.append(EnginePool(events, client=lambda to, _: EngineClient(to, fake, log, cancel_grace=0.2)))
        return pools[-1], events

    yield make
    for pool in pools:
        pool.stop()


def submit(client: EnginePool, *job_ids: str) -> None:
    for job_id in job_ids:
        client.send(Submit(job_id=job_id, job=JOB))


def ends(events: Events) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in events.all:
        if isinstance(event, Done | Failed):
            found.setdefault(event.job_id, []).append(event)
    return found


def test_a_dead_engine_fails_its_job_with_the_cause_and_the_log_and_a_new_one_computes_the_next(start: Start) -> None:
    client, events = start()
    submit(client, "die", "behind")
    failed = events.end("die")
    assert isinstance(failed, Failed)
    assert failed.error == (
        "The engine stopped with exit code 3; finished results are kept, "
        "and starting the job again computes what is missing."
    )
    assert failed.detail == "the log begins\nabout to die"
    assert failed.run == "0123"
    last_words = events.wait(Log, lambda log: log.text == "about to die")
    assert (last_words.job_id, last_words.level) == ("die", "debug")
    assert events.end("behind") == Done(job_id="behind")
    assert len([event for event in events.all if isinstance(event, Ready)]) == 2
    assert {name: len(found) for name, found in ends(events).items()} == {"die": 1, "behind": 1}


@pytest.mark.parametrize("job_id", ["hang", "hold"])
def test_an_engine_killed_from_outside_fails_its_job(start: Start, job_id: str) -> None:
    client, events = start()
    submit(client, job_id)
    events.wait(RunStarted)
    client.send(Pause(job_id="hold"))
    if job_id == "hold":
        events.wait(Held)
    else:
        submit(client, "behind")
    assert client.pid is not None
    os.kill(client.pid, 9)
    failed = events.end(job_id)
    assert isinstance(failed, Failed)
    assert "killed from outside, perhaps because memory ran out" in failed.error
    if job_id == "hold":
        submit(client, "behind")
    assert events.end("behind") == Done(job_id="behind")


@pytest.mark.parametrize(
    ("behaviour", "command", "error", "detail"),
    [
        ("stillborn", None, "The engine could not start: no module named torch", "no module named torch"),
        ("fainting", None, "The engine stopped with exit code 4", ""),  # rather than starting for ever
        ("", ["/nowhere/engine"], "The engine could not be started (", ""),
    ],
)
def test_an_engine_that_begins_no_job_fails_it(
    start: Start, behaviour: str, command: list[str] | None, error: str, detail: str
) -> None:
    client, events = start(behaviour, command)
    submit(client, "a", "b")
    for job_id in ("a", "b"):
        failed = events.end(job_id)
        assert isinstance(failed, Failed)
        assert failed.error.startswith(error)
        assert detail in failed.detail


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_engines_that_are_killed_before_they_begin_a_job_are_replaced(start: Start, tmp_path: Path) -> None:
    client, events = start("shot")
    submit(client, "a")
    failed = events.end("a")
    assert isinstance(failed, Failed)
    assert failed.engine_end.startswith("was killed")
    assert (tmp_path / "engine.log").read_text() == "the log begins\n" * 3


def test_what_is_not_an_event_is_logged_and_passed_over(start: Start) -> None:
    client, events = start("babbling")
    submit(client, "a")
    assert events.end("a") == Done(job_id="a")
    assert events.wait(Log, lambda log: "this is no event" in log.text).level == "error"


def test_a_line_without_end_is_read_in_pieces(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "LONGEST_LINE", 4096)
    client, events = start("babbling at length")
    submit(client, "a")
    assert events.end("a") == Done(job_id="a")
    assert sum(isinstance(event, Log) and "xxxx" in event.text for event in events.all) > 4


@pytest.mark.parametrize("behaviour", ["normal", "stubborn"])
def test_a_job_that_does_not_notice_its_cancellation_is_ended_with_its_engine(start: Start, behaviour: str) -> None:
    client, events = start(behaviour)
    submit(client, "hang", "behind")
    events.wait(RunStarted)
    client.send(Cancel(job_id="hang"))
    client.send(Cancel(job_id="hang"))
    assert events.end("hang") == Done(job_id="hang", cancelled=True)
    assert events.end("behind") == Done(job_id="behind")
    assert len(ends(events)["hang"]) == 1


@pytest.mark.parametrize("behaviour", ["normal", "stubborn"])
def test_stopping_ends_the_process_and_its_jobs(start: Start, behaviour: str) -> None:
    client, events = start(behaviour)
    submit(client, "hang", "behind")
    events.wait(RunStarted)
    pid = client.pid
    assert pid is not None
    client.stop()
    assert client.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert ends(events) == {name: [Done(job_id=name, cancelled=True)] for name in ("hang", "behind")}
    client.stop()


def test_a_callback_that_raises_costs_no_later_event(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Events):
        def __call__(self, event: Event) -> None:
            super().__call__(event)
            raise RuntimeError("the view is gone")

    client, events = start(events=Broken())
    submit(client, "a")
    assert events.end("a") == Done(job_id="a")
    client.stop()
    assert "the view is gone" in caplog.text


def test_the_log_is_kept_in_a_file_that_does_not_grow_for_ever(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "LOG_BYTES", 20)
    client, events = start()
    submit(client, "a")
    events.end("a")
    client.stop()
    assert (tmp_path / "engine.log").read_text() == "the log begins\n"
    (tmp_path / "engine.log").write_text("x" * 30)
    client, events = start()
    submit(client, "b")
    events.end("b")
    client.stop()
    assert (tmp_path / "engine.log").read_text() == "the log begins\n"
    assert (tmp_path / "engine.old.log").read_text() == "x" * 30
