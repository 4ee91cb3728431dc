"""The order in which jobs that wait begin: in an engine, in its client, and in a pool."""

import io
import sys
import threading
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import DEMO, Events
from tests.wina_core.engine.fake_pool import Pool
from wina_core.engine.client.client import EngineClient
from wina_core.engine.protocol import (
    EVENTS,
    Accepted,
    Assigned,
    Done,
    InspectJob,
    Log,
    Move,
    RunStarted,
    Submit,
    encode,
)
from wina_core.engine.protocol.queue_order import put_ahead
from wina_core.engine.server import server as engine_server
from wina_core.engine.server.server import Server

JOB = InspectJob(model=DEMO)
FAKE = Path(__file__).with_name("fake_engine.py")


@pytest.mark.parametrize(
    ("ahead_of", "order"),
    [((), "abcx"), (("b",), "axbc"), (("c", "b"), "axbc"), (("gone",), "abcx"), (("gone", "a"), "xabc")],
)
def test_a_job_goes_before_the_first_of_those_named_that_is_there(ahead_of: tuple[str, ...], order: str) -> None:
    queue = dict.fromkeys("abc", 0)
    put_ahead(queue, "x", 1, ahead_of)
    assert "".join(queue) == order
    assert queue["x"] == 1


def test_a_job_that_is_there_is_moved_and_not_doubled() -> None:
    queue = dict.fromkeys("abc", 0)
    put_ahead(queue, "c", 0, ("a",))
    assert list(queue) == ["c", "a", "b"]


def test_the_engine_keeps_its_waiting_jobs_in_the_order_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_server.threading, "Timer", lambda *_, **__: threading.Thread())
    requests = [
        Submit(job_id="a", job=JOB),
        Submit(job_id="b", job=JOB),
        Submit(job_id="urgent", job=JOB, ahead_of=("running", "a", "b")),
        Submit(job_id="urgent too", job=JOB, ahead_of=("running", "a", "b")),
        Move(job_id="b", ahead_of=("a",)),
        Move(job_id="gone", ahead_of=("a",)),
    ]
    wire = io.BytesIO()
    Server(wire).read(io.BytesIO("".join(map(encode, requests)).encode()))  # closes at the end, dropping what waits
    events = [EVENTS.validate_json(line) for line in wire.getvalue().splitlines()]
    assert [event.job_id for event in events if isinstance(event, Done)] == ["urgent", "urgent too", "b", "a"]


def test_a_new_engine_gets_the_jobs_in_the_order_that_they_were_moved_to(tmp_path: Path) -> None:
    events = Events()
    client = EngineClient(events, [sys.executable, "-S", str(FAKE), "normal"], tmp_path / "engine.log")
    client.send(Submit(job_id="die", job=JOB))
    events.wait(RunStarted)
    client.send(Submit(job_id="a", job=JOB, ahead_of=("b",)))  # which lets it die
    client.send(Submit(job_id="b", job=JOB))
    client.send(Move(job_id="b", ahead_of=("a",)))
    events.end("a")
    events.end("b")
    client.stop()
    begun = [event.job_id for event in events.all if isinstance(event, Accepted) and event.started]
    assert begun == ["die", "b", "a"]


def test_what_an_engines_libraries_print_is_the_running_jobs(tmp_path: Path) -> None:
    events = Events()
    client = EngineClient(events, [sys.executable, "-S", str(FAKE), "normal"], tmp_path / "engine.log")
    client.send(Submit(job_id="die", job=JOB))
    events.wait(RunStarted)
    client.send(Submit(job_id="behind", job=JOB))  # which lets it die
    events.end("behind")
    client.stop()
    last_words = events.wait(Log, lambda log: log.text == "about to die")
    assert (last_words.job_id, last_words.level) == ("die", "debug")


def test_a_pool_hands_out_the_jobs_in_the_order_that_was_asked_for() -> None:
    pool = Pool(1, eager=False)
    for job_id in ("first", "a", "b"):
        pool.submit(job_id, JOB)
    pool.pool.send(Submit(job_id="urgent", job=JOB, ahead_of=("a", "b")))
    pool.pool.send(Move(job_id="b", ahead_of=("a",)))
    for count in range(1, 5):
        pool.clients[0].given(count)
        pool.clients[0].complete()
    pool.settle()
    begun = [event.job_id for event in pool.events.all if isinstance(event, Accepted) and event.started]
    assert begun == ["first", "urgent", "b", "a"]
    told = [event for event in pool.events.all if isinstance(event, Assigned)]
    assert [event.job for event in told] == ["first", "urgent", "b", "a", None]
    pool.pool.stop()
