"""The engine's reader, in this process: whatever is sent, it goes on listening, and closes at the end."""

import io
import threading

import pytest

from wina_core.engine.server import server as engine_server
from wina_core.engine.server.server import Server
from wina_core.jobs import EVENTS, Event, Failed, Log


@pytest.fixture
def no_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_server.threading, "Timer", lambda *_, **__: threading.Thread())


def _answers(*lines: bytes) -> tuple[Server, list[Event]]:
    wire = io.BytesIO()
    server = Server(wire)
    reader = threading.Thread(target=server.read, args=(io.BytesIO(b"\n".join(lines) + b"\n"),))
    reader.start()
    reader.join()
    return server, [EVENTS.validate_json(line) for line in wire.getvalue().splitlines()]


NONSENSE = b'{"type": "nonsense", "job_id": "later"}'


@pytest.mark.usefixtures("no_watchdog")
@pytest.mark.parametrize("nested", [b"[" * 100_000, b'{"type": "submit", "job": ' + b'{"a":' * 100_000])
def test_a_request_nested_too_deeply_is_refused_and_the_next_one_taken(nested: bytes) -> None:
    server, (refusal, after) = _answers(nested, NONSENSE)
    assert isinstance(refusal, Log)
    assert refusal.text.startswith("The engine does not understand this request")
    assert isinstance(after, Failed)
    assert after.job_id == "later"
    assert server._next() is None


@pytest.mark.usefixtures("no_watchdog")
def test_a_job_id_that_is_no_text_is_answered_and_the_next_request_taken() -> None:
    server, events = _answers(rb'{"type": "cancel", "job_id": "\ud800"}', NONSENSE)
    assert [event.job_id for event in events if isinstance(event, Failed)] == ["?", "later"]
    assert server._next() is None
