"""The server's process: what it prints becomes a state, and its end a sentence."""

import logging
import sys
from typing import Any

import pytest
from wina_app.services.model_server import ModelServer, ServerState

from wina_core.jobs import encode
from wina_core.jobs.hosted import Listening, RequestFinished, ServeJob

JOB = ServeJob(folder="folder", port=8000)
LINES = (
    encode(Listening(address="http://127.0.0.1:8000/v1", model="tiny", chat=False)),
    "a library's line\n",
    encode(RequestFinished(path="/v1/completions", status=200, tokens=10, seconds=2.0)),
    encode(RequestFinished(path="/v1/completions", status=404, reason="It is not here.")),
)


def server(then: str) -> ModelServer:
    """A server whose command is this program."""
    return ModelServer(command=(sys.executable, "-c", f"import sys, time; {then}"))


def test_the_state_follows_the_process_until_it_is_stopped(qtbot: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    running = server(f"print({''.join(LINES)!r}, end='', flush=True); time.sleep(60)")
    running.start(JOB, "a")
    qtbot.waitUntil(lambda: running.state.requests == 2)
    state = running.state
    assert (state.folder, state.refused, state.rate) == ("folder", 1, 5.0)
    assert state.listening is not None
    assert {vars(record)["job"] for record in caplog.records} == {"a"}, "the log of its job"
    failures: list[str] = []
    running.failed.connect(failures.append)
    running.stop()
    assert running.state.stopping
    qtbot.waitUntil(lambda: running.state == ServerState())
    assert not failures


def test_an_early_end_has_a_sentence(qtbot: Any) -> None:
    running = server("sys.exit('wina: The port 8000 is in use.')")
    with qtbot.waitSignal(running.failed) as failed:
        running.start(JOB, "a")
    assert failed.args == ["The port 8000 is in use."]
    assert running.state == ServerState()


@pytest.mark.usefixtures("qapp")
def test_it_ends_with_the_window() -> None:
    running = server("time.sleep(60)")
    running.start(JOB, "a")
    assert running._process.waitForStarted()
    running.leave()
    assert running._process.processId() == 0
