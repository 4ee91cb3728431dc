"""How an engine process ends: always, whoever dies first, and never with a stray byte on the wire."""

import json
import signal
import subprocess
import sys

import pytest

from tests.wina_core.engine.engine_events import DEMO, PATIENCE
from wina_core.jobs import (
    EVENTS,
    Event,
    Failed,
    InspectJob,
    Log,
    Ready,
    Submit,
    encode,
)

pytestmark = pytest.mark.usefixtures("engine_home")


# ---- the bare process, without a client --------------------------------------------------------------------------


LIGHT = """
import sys
from types import SimpleNamespace
from wina_core.records import Environment
# In place of what needs torch, which takes seconds to import.
here = Environment(device="cpu", hardware="", versions={})
sys.modules["wina_core.compute.session.environment"] = SimpleNamespace(environment=lambda: here, kernels_notice=str)
sys.modules["wina_core.compute.latency.device"] = SimpleNamespace(timing_environments=tuple)
sys.modules["wina_core.compute.session.model_session"] = SimpleNamespace(Session=object)
sys.modules["wina_core.engine.server.run_job"] = SimpleNamespace(run_job=None)
"""


def talk(requests: bytes, code: str) -> tuple[list[Event], str, int]:
    """Events, stderr and exit code of an engine that is given these lines, followed by the end of its stdin."""
    done = subprocess.run([sys.executable, "-c", LIGHT + code], input=requests, capture_output=True, timeout=PATIENCE)
    events = [EVENTS.validate_json(line) for line in done.stdout.splitlines()]
    return events, done.stderr.decode(), done.returncode


def test_lines_that_are_no_requests_are_answered_and_passed_over() -> None:
    lines = ["nonsense", "", '"text"', json.dumps({"type": "submit", "job_id": "a", "job": {"kind": "fly"}}), "é\x00"]
    events, _, _ = talk("\n".join(lines).encode(), "from wina_core.engine.server.server import serve; serve()")
    logs = [event for event in events if isinstance(event, Log)]
    assert len(logs) == 3
    assert all(event.text.startswith("The engine does not understand this request") for event in logs)
    failed = next(event for event in events if isinstance(event, Failed))
    assert failed.job_id == "a"
    assert "kind" in failed.error or "fly" in failed.error


def test_a_stray_print_never_gets_on_the_wire() -> None:
    code = """
import os
from wina_core.engine.server import server

def work(self):
    print("stray")
    os.system("echo from a child")
    try:
        input()
    except EOFError:
        print("nothing to read")

server.Server.work = work
server.EXIT_GRACE_SECONDS = 600  # a slow machine may take longer than the end of stdin leaves
server.serve()
"""
    events, log, _ = talk(b"", code)
    assert [type(event) for event in events] == [Ready]
    assert {"stray", "from a child", "nothing to read"} <= set(log.splitlines())


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM to itself")
@pytest.mark.parametrize("busy", ["time.sleep(600)", "pass"])
def test_an_engine_that_is_terminated_ends_as_a_killed_one_even_if_it_is_stuck(busy: str) -> None:
    code = f"""
import os, signal, time
from wina_core.engine.server import server

def work(self):
    os.kill(os.getpid(), signal.SIGTERM)
    {busy}

server.Server.work = work
server.Server.read = lambda self, requests: None  # it is not the end of stdin that ends it
server.EXIT_GRACE_SECONDS = 0.1
server.serve()
time.sleep(600)
"""
    _, _, exit_code = talk(b"", code)
    assert exit_code == -signal.SIGKILL


def test_an_engine_that_is_stuck_when_its_client_goes_away_is_ended() -> None:
    code = """
import time
from wina_core.engine.server import server

server.Server.work = lambda self: time.sleep(600)
server.serve()
"""
    _, _, exit_code = talk(b"", code)
    assert exit_code == 1


def test_a_faulted_accelerator_ends_the_process_so_that_a_new_one_does_the_next_job() -> None:
    code = """
class AcceleratorError(RuntimeError): ...

sys.modules["torch"] = SimpleNamespace(AcceleratorError=AcceleratorError)
sys.modules["wina_core.compute.memory"] = SimpleNamespace(release_memory=None)
from wina_core.engine.server import server

def run_job(*_):
    raise AcceleratorError("device-side assert triggered")

sys.modules["wina_core.engine.server.run_job"].run_job = run_job
server.Server.close = lambda self: None  # it is not the end of stdin that ends it
sys.exit(server.serve())
"""
    request = encode(Submit(job_id="a", job=InspectJob(model=DEMO)))
    events, _, _ = talk(request.encode(), code)
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert "device-side assert triggered" in failed.error
    assert "Traceback" in failed.detail
