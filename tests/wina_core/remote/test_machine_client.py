"""An engine behind ssh looks like one of this computer, and ends with its connection."""

import shlex
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import Events, evaluate, run
from tests.wina_core.remote.fake_machine import FakeMachine, connect, wait_until
from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.pool import EnginePool
from wina_core.errors import WinaError
from wina_core.jobs import (
    Cancel,
    Done,
    EvaluateJob,
    ExportModelJob,
    Failed,
    InspectJob,
    Partial,
    Ready,
    Result,
    Started,
    Submit,
    encode,
)
from wina_core.records import Environment
from wina_core.remote import machine_client
from wina_core.remote.machine_client import open_place
from wina_core.remote.registry import remove_machine, save_machine
from wina_core.specs import ModelSource

STUDY = evaluate(*(run(sparsity) for sparsity in (0.2, 0.4, 0.6)))


def inspect(wish: str) -> InspectJob:
    return InspectJob(model=ModelSource(location=wish))


def requested(job: EvaluateJob) -> list[str]:
    return sorted(f"{pending.spec.content_hash()} {unit}" for pending in job.runs for unit in pending.units)


def arrived(events: Events) -> list[str]:
    return sorted(f"{event.unit.run} {event.unit.unit}" for event in events.all if isinstance(event, Partial))


def failure(machine: FakeMachine, command: str) -> str:
    """Return the error of a job on a machine with another command."""
    client = connect(machine.machine.model_copy(update={"command": command}), events := Events())
    client.send(Submit(job_id="1", job=inspect("anything")))
    end = events.end("1")
    client.stop()
    assert isinstance(end, Failed)
    assert "\n" not in end.error
    assert end.error.endswith(".")
    return end.error


def test_results_come_and_shutdown_leaves_nothing(machine: FakeMachine, client: EngineClient, events: Events) -> None:
    client.send(Submit(job_id="1", job=STUDY))
    assert isinstance(events.end("1"), Done)
    assert arrived(events) == requested(STUDY)
    assert events.wait(Ready).environment.hardware == "fake in away"
    client.stop()
    wait_until(lambda: not machine.processes())


def test_cut_connections_lose_the_unit_under_way_and_double_nothing(machine: FakeMachine, events: Events) -> None:
    machine.pace(0.3)
    machine.cut(cuts := ["999999 1500", "999999 2600"])
    pool = EnginePool(events, machines=open_place)
    pool.send(Submit(job_id="1", job=STUDY, machines=(machine.name,)))
    assert events.end("1") == Done(job_id="1")
    pool.stop()
    assert arrived(events) == requested(STUDY)
    computed = Counter(machine.computed)
    assert sorted(computed) == requested(STUDY)
    assert 1 <= computed.total() - len(computed) <= len(cuts)


def test_a_machine_that_the_user_changes_is_used_as_it_is_now(machine: FakeMachine, events: Events) -> None:
    pool = EnginePool(events, machines=open_place)
    job = ExportModelJob(spec=run(0.5), folder="/data/sparse")

    def end(job_id: str) -> Done | Failed:
        pool.send(Submit(job_id=job_id, job=job, machines=(machine.name,)))
        return events.end(job_id)

    assert isinstance(failed := end("1"), Failed)
    assert "not in a folder that is mapped" in failed.error
    save_machine(mapped := machine.machine.model_copy(update={"folders": {"/data": "/there/data"}}))
    assert end("2") == Done(job_id="2")
    first = {process.pid for process in machine.processes()}
    save_machine(mapped.model_copy(update={"command": f"env OMP_NUM_THREADS=1 {mapped.command}"}))
    assert end("3") == Done(job_id="3")
    wait_until(lambda: len(machine.processes()) == 1)
    assert first.isdisjoint(process.pid for process in machine.processes())
    remove_machine(machine.name)
    assert isinstance(removed := end("4"), Failed)
    assert "There is no machine" in removed.error
    pool.stop()


def test_a_lost_connection_fails_the_job_in_one_sentence_with_the_log(
    machine: FakeMachine, client: EngineClient, events: Events
) -> None:
    machine.cut(["999999 1500"])
    client.send(Submit(job_id="1", job=STUDY))
    end = events.end("1")
    assert isinstance(end, Failed)
    assert "on away lost its connection, or was killed (" in end.error  # in ssh's words, or the last of the engine
    assert "Connection reset by peer" in end.detail
    wait_until(lambda: not machine.processes())


@pytest.mark.parametrize(("wish", "code"), [("exit 3", 3), (f"signal {int(signal.SIGSEGV)}", 139)])
def test_the_end_of_an_engine_names_its_machine_and_its_log(
    wish: str, code: int, client: EngineClient, events: Events
) -> None:
    client.send(Submit(job_id="1", job=inspect(wish)))
    end = events.end("1")
    assert isinstance(end, Failed)
    assert f"on away stopped with exit code {code}" in end.engine_end


def test_a_wrong_command_and_other_programs_are_refused_in_one_sentence(machine: FakeMachine) -> None:
    assert 'cannot run "no-such-wina"' in failure(machine, "no-such-wina")
    assert "ended with code 0" in failure(machine, "echo hello")
    assert "sent a line that is no event ('engine')" in failure(machine, "yes")
    quiet = "import sys; print('wina: there is no torch', file=sys.stderr); sys.exit(1)"
    assert "says: there is no torch" in failure(machine, f"{sys.executable} -c {shlex.quote(quiet)}")


@pytest.mark.parametrize(
    ("code", "stderr", "words"),
    [
        (255, "WARNING!\nHost key verification failed.", "(Host key verification failed); try by hand: ssh away true"),
        (255, "", "ssh said nothing"),
        (127, "sh: wina: not found", "pip install wina-workbench"),
        (1, "", "ended with code 1"),
    ],
)
def test_faults_of_ssh_are_sentences(machine: FakeMachine, code: int, stderr: str, words: str) -> None:
    assert words in machine_client.explain_ssh(code, stderr, machine.machine)


def test_what_login_scripts_print_is_left_out(machine: FakeMachine, events: Events) -> None:
    command = f"echo hi; exec {machine.machine.command}"
    client = connect(machine.machine.model_copy(update={"command": command}), events)
    client.send(Submit(job_id="1", job=inspect("anything")))
    assert events.end("1") == Done(job_id="1")
    client.stop()


@pytest.mark.parametrize(("versions", "named"), [({"wina-workbench": "9.0"}, "9.0"), ({}, "unknown")])
def test_another_version_is_refused_with_both(machine: FakeMachine, versions: dict[str, str], named: str) -> None:
    ready = Ready(pid=1, environment=Environment(device="cpu", hardware="x", versions=versions))
    error = failure(machine, f"echo {shlex.quote(encode(ready).strip())}; sleep 60;")
    assert f"wina-workbench {named} there" in error


def test_a_check_says_what_the_engine_computes_with_or_why_there_is_none(machine: FakeMachine) -> None:
    assert machine_client.check_machine(machine.machine).environment.hardware == "fake in away"
    wait_until(lambda: not machine.processes())
    machine.cut(["down"])
    with pytest.raises(WinaError, match=r'The machine "away" cannot be reached .*Connection refused'):
        machine_client.check_machine(machine.machine)


def test_a_job_that_hangs_is_ended_with_its_connection(machine: FakeMachine, events: Events) -> None:
    client = machine_client.MachineClient(events, machine.machine, cancel_grace=0.2)
    client.send(Submit(job_id="1", job=inspect("hang")))
    events.wait(Started)
    client.send(Cancel(job_id="1"))
    assert events.end("1") == Done(job_id="1", cancelled=True)
    wait_until(lambda: not machine.processes())


def test_paths_are_those_of_each_side(machine: FakeMachine, client: EngineClient, events: Events) -> None:
    spec = run(0.5).model_copy(update={"model": ModelSource(location="/models/big")})
    client.send(Submit(job_id="1", job=ExportModelJob(spec=spec, folder="/models/sparse")))
    result = events.wait(Result)
    assert result.value.folder == "/models/sparse"  # type: ignore[union-attr]
    job = ExportModelJob.model_validate_json(Path(machine.home / "asked").read_text())
    assert (job.spec.model.location, job.folder) == ("/there/models/big", "/there/models/sparse")
    events.end("1")
