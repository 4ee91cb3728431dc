"""How an engine process ends: always, whoever dies first, and never with a stray byte on the wire."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import DEMO, LONG_JOB, PATIENCE, SHORT, WINA, Events, run, submit
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import (
    EVENTS,
    Done,
    EvaluateJob,
    Event,
    Failed,
    InspectJob,
    Log,
    Partial,
    Ready,
    RunStarted,
    Submit,
    encode,
)
from wina_core.specs import Configuration, EvaluationSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Recorder, Store

pytestmark = pytest.mark.usefixtures("engine_home")


def is_alive(pid: int) -> bool:
    """Whether a process is running; one that only waits to be reaped is not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.nightly  # by day tests/trust/test_kills.py kills engines of a study
@pytest.mark.skipif(sys.platform == "win32", reason="sends signals to another process")
def test_a_job_whose_engine_is_killed_goes_on_in_a_new_one_that_is_stopped_while_it_computes(tmp_path: Path) -> None:
    quick = EvaluationSpec(fidelity=SHORT)
    long = EvaluationSpec(fidelity=SHORT.model_copy(update={"tokens": 512}))
    runs = (run(0.3, quick), run(0.4, long), run(0.5, quick))
    names = [spec.content_hash() for spec in runs]
    study = StudySpec(
        name="killed", models=(DEMO,), configurations=(Configuration(method=WINA),), sparsities=(0.3, 0.4, 0.5)
    )
    events, signals = Events(), [signal.SIGTERM]  # by SIGKILL: tests/trust/test_kills.py
    with Store(tmp_path / "results.sqlite") as store:
        store.save_study(study, runs)
        job = EvaluateJob(runs=tuple(store.pending(runs)))
        recorder = Recorder(store, job)

        def on_event(event: Event) -> None:
            if getattr(event, "job_id", None) != "long":
                recorder.record(event)
            if isinstance(event, RunStarted) and event.run == names[1] and signals:
                assert client.pid is not None
                os.kill(client.pid, signals.pop())
            events(event)

        client = EnginePool(on_event)
        submit(client, "killed", job)
        assert events.end("killed") == Done(job_id="killed")
        partials = [(event.unit.run, event.unit.unit) for event in events.all if isinstance(event, Partial)]
        assert sorted(partials) == sorted(
            (pending.spec.content_hash(), unit) for pending in job.runs for unit in pending.units
        )
        assert len({event.pid for event in events.all if isinstance(event, Ready)}) == 2
        assert [row.status for row in store.runs()] == ["done"] * 3
        assert store.pending(runs) == []

        submit(client, "long", LONG_JOB)
        events.wait(RunStarted, lambda event: event.job_id == "long")
        pid = client.pid
        assert pid is not None
        client.stop()
        assert not is_alive(pid)
        assert events.end("long") == Done(job_id="long", cancelled=True)


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
