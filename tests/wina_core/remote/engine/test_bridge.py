"""An engine behind ssh looks like one of this computer, and outlives its connection."""

import json
import signal
import sys

import pytest

from tests.wina_core.engine.engine_events import Events, evaluate, run
from tests.wina_core.remote.engine.fake_machine import FakeMachine, connect, kill, wait_until
from wina_core.engine.client.client import EngineClient
from wina_core.files.version import PROTOCOL
from wina_core.jobs import (
    Cancel,
    Done,
    EvaluateJob,
    ExportModelJob,
    Failed,
    InspectJob,
    Log,
    Partial,
    Ready,
    Result,
    RunFinished,
    Started,
    Submit,
)
from wina_core.remote.machines.registry import save_machine
from wina_core.specs import ModelSource

STUDY = evaluate(*(run(sparsity) for sparsity in (0.2, 0.4, 0.6)))
KEEPER = "wina_core.remote.engine.keeper"


def inspect(wish: str) -> InspectJob:
    return InspectJob(model=ModelSource(location=wish))


def wanted(job: EvaluateJob) -> list[str]:
    return sorted(f"{pending.spec.content_hash()} {unit}" for pending in job.runs for unit in pending.units)


def arrived(events: Events) -> list[str]:
    return sorted(f"{event.unit.run} {event.unit.unit}" for event in events.all if isinstance(event, Partial))


def test_results_come_and_shutdown_leaves_nothing(machine: FakeMachine, client: EngineClient, events: Events) -> None:
    client.send(Submit(job_id="1", job=STUDY))
    assert isinstance(events.end("1"), Done)
    assert arrived(events) == wanted(STUDY)
    assert events.wait(Ready).environment.hardware == "fake in away"
    client.stop()
    wait_until(lambda: not machine.processes() and not machine.processes(KEEPER))
    (session,) = machine.sessions
    assert [file.name for file in session.iterdir() if file.name != "lock"] == []


def test_each_result_comes_once_over_connections_that_are_cut(
    machine: FakeMachine, client: EngineClient, events: Events
) -> None:
    machine.cut(["9000 500", "9000 1900", "300 9000", "down", "9000 2600", "down"])
    client.send(Submit(job_id="1", job=STUDY))
    assert isinstance(events.end("1"), Done)
    assert arrived(events) == wanted(STUDY) == sorted(machine.computed)
    assert any("the connection is tried again" in event.text for event in events.all if isinstance(event, Log))


def test_a_first_connection_that_is_refused_fails_the_job_in_one_sentence(
    machine: FakeMachine, client: EngineClient, events: Events
) -> None:
    machine.cut(["down"])
    client.send(Submit(job_id="1", job=STUDY))
    end = events.end("1")
    assert isinstance(end, Failed)
    assert 'The machine "away" cannot be reached' in end.error


@pytest.mark.parametrize(
    ("wish", "engine_end"),
    [("exit 3", "stopped with exit code 3"), (f"signal {int(signal.SIGSEGV)}", "crashed with signal 11")],
)
def test_the_engine_s_end_is_the_bridge_s(wish: str, engine_end: str, client: EngineClient, events: Events) -> None:
    client.send(Submit(job_id="1", job=inspect(wish)))
    end = events.end("1")
    assert isinstance(end, Failed)
    assert engine_end in end.engine_end


def test_the_results_of_a_dead_client_go_to_the_next_one(machine: FakeMachine, events: Events) -> None:
    machine.pace(3.0)
    first = connect(machine.name, early := Events())
    first.send(Submit(job_id="1", job=STUDY))
    early.wait(Partial)
    kill(first)
    machine.pace(0.0)
    wait_until(lambda: len(machine.computed) > len(arrived(early)) + 1)
    second = connect(machine.name, events)
    second.send(Submit(job_id="2", job=STUDY.model_copy(update={"runs": STUDY.runs[::-1]})))
    assert events.end("2") == Done(job_id="2")
    finished = {event.run for event in events.all if isinstance(event, RunFinished)}
    assert finished == {pending.spec.content_hash() for pending in STUDY.runs}
    assert set(arrived(events)) | set(arrived(early)) == set(wanted(STUDY))
    again = len(machine.computed) - len(wanted(STUDY))
    assert again <= len(arrived(early))  # what the first one has acknowledged is in its client's store
    second.stop()


def test_a_dead_keeper_s_engine_counts_as_killed_and_its_results_are_delivered(
    machine: FakeMachine, client: EngineClient, events: Events
) -> None:
    machine.pace(3.0)
    client.send(Submit(job_id="1", job=STUDY))
    events.wait(Partial)
    for keeper in machine.processes(KEEPER):
        keeper.kill()
    end = events.end("1")
    assert isinstance(end, Failed)
    assert "was killed" in end.engine_end
    assert arrived(events) == sorted(machine.computed)
    client.send(Submit(job_id="2", job=inspect("anything")))
    assert events.end("2") == Done(job_id="2")


def test_a_client_that_is_gone_leaves_the_engine_and_sigterm_kills_it(machine: FakeMachine, events: Events) -> None:
    client = connect(machine.name, events)
    client.send(Submit(job_id="1", job=inspect("hang")))
    events.wait(Started)
    client.leave()
    (engine,) = machine.processes()
    client = connect(machine.name, events)
    client.send(Submit(job_id="2", job=inspect("anything")))
    events.wait(Log, lambda event: "still computes" in event.text)
    assert engine.is_running()
    client.stop()  # its job hangs, so that only SIGTERM helps
    wait_until(lambda: not machine.processes() and not machine.processes(KEEPER))


def test_a_job_that_waits_for_a_silent_engine_can_be_cancelled(machine: FakeMachine, events: Events) -> None:
    client = connect(machine.name, events)
    client.send(Submit(job_id="1", job=inspect("anything")))
    events.end("1")
    (engine,) = machine.processes()
    engine.suspend()
    client.send(Submit(job_id="2", job=inspect("anything")))
    client.send(Cancel(job_id="2"))
    assert events.end("2") == Done(job_id="2", cancelled=True)
    client.send(Submit(job_id="3", job=inspect("anything")))
    engine.resume()
    assert events.end("3") == Done(job_id="3")
    client.stop()


def test_two_clients_have_two_engines(machine: FakeMachine, client: EngineClient, events: Events) -> None:
    other = connect(machine.name, others := Events())
    for each in (client, other):
        each.send(Submit(job_id="1", job=inspect("anything")))
    assert events.end("1") == others.end("1") == Done(job_id="1")
    assert len(machine.processes()) == len(machine.sessions) == 2
    other.stop()


def test_another_protocol_is_refused_with_both_versions(
    machine: FakeMachine, client: EngineClient, events: Events
) -> None:
    welcome = json.dumps({"protocol": PROTOCOL + 1, "version": "9.0", "new": 1}, separators=(",", ":"))
    script = f"import sys; sys.stdin.readline(); print('{welcome}', flush=True); sys.stdin.read()"
    save_machine(machine.machine.model_copy(update={"command": (sys.executable, "-c", script)}))
    client.send(Submit(job_id="1", job=inspect("anything")))
    end = events.end("1")
    assert isinstance(end, Failed)
    assert f"9.0 there speaks version {PROTOCOL + 1}" in end.error
    assert f"here speaks {PROTOCOL}; install the same version" in end.error


def test_paths_are_those_of_each_side(machine: FakeMachine, client: EngineClient, events: Events) -> None:
    spec = run(0.5).model_copy(update={"model": ModelSource(location="away:/big/model")})
    client.send(Submit(job_id="1", job=ExportModelJob(spec=spec, folder="/models/sparse")))
    result = events.wait(Result)
    assert result.value.folder == "/models/sparse"  # type: ignore[union-attr]
    asked = (machine.home / "asked").read_text()
    assert '"/there/models/sparse"' in asked
    assert '"/big/model"' in asked
    events.end("1")
