"""Jobs on the engines of other machines, which share one queue with this computer's."""

import queue
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.wina_core.engine.engine_events import DEMO, PATIENCE, evaluate, run
from tests.wina_core.engine.fake_pool import FakeClient, Pool
from wina_core.engine.client.job_queue import MakeClient
from wina_core.errors import WinaError
from wina_core.jobs import Assigned, Done, Event, Failed, InspectJob, Log, Ready, Submit
from wina_core.records import Environment
from wina_core.specs import Configuration
from wina_core.specs.studies import StudySpec
from wina_core.store import Recorder, Store

RUNS = tuple(run(sparsity / 10) for sparsity in range(1, 7))
HERE, THERE = (Environment(device="cuda", hardware=name, versions={}) for name in ("A100", "H100"))


class Machines(Pool):
    """A pool of one engine here, with fake machines."""

    def __init__(self) -> None:
        self.away: queue.SimpleQueue[FakeClient] = queue.SimpleQueue()
        super().__init__(machines=self._open)

    def _open(self, name: str) -> Sequence[MakeClient]:
        if name == "nowhere":
            raise WinaError('There is no machine "nowhere".')

        def make(to: Callable[[Event], None]) -> FakeClient:
            client = FakeClient(to, {}, eager=False)
            self.away.put(client)
            return client

        return [make]  # type: ignore[list-item]  # all that a pool needs of one

    def begin(self, *machines: str) -> tuple[FakeClient, FakeClient]:
        """Submit runs, and return the clients of this computer and of the machine, once each that is named has some."""
        self.pool.send(Submit(job_id="a", job=evaluate(*RUNS), machines=machines))
        gpu = self.away.get(timeout=PATIENCE) if "gpu" in machines else self.clients[0]
        for client in (gpu, *(self.clients if "local" in machines else ())):
            client.given()
        return self.clients[0], gpu


@pytest.fixture
def machines() -> Iterator[Machines]:
    machines = Machines()
    yield machines
    machines.pool.stop()


def test_a_job_goes_to_its_machine_alone_and_runs_are_stored_with_its_hardware(
    machines: Machines, store: Store
) -> None:
    local, gpu = machines.begin("gpu")
    local.say(Ready(pid=1, environment=HERE))
    gpu.say(Ready(pid=1, environment=THERE))
    gpu.complete()
    assert machines.events.end("a") == Done(job_id="a")
    assert not local.submits
    store.save_study(StudySpec(name="there", models=(DEMO,), configurations=(Configuration(),)), RUNS)
    recorder = Recorder(store, evaluate(*RUNS))
    for event in machines.events.all:
        recorder.record(event)
    assert [row.hardware for row in store.runs()] == ["H100"] * len(RUNS)
    assert {event.machine for event in machines.events.all if isinstance(event, Assigned)} == {"local", "gpu"}


def test_several_machines_share_the_runs_and_each_takes_more_once_it_is_free(machines: Machines) -> None:
    local, gpu = machines.begin("local", "gpu")
    computed = len(local.runs) + len(gpu.runs)
    while computed < len(RUNS):
        given = len(gpu.submits)
        gpu.complete()
        gpu.given(given + 1)
        computed += len(gpu.runs)
    gpu.complete()
    local.complete()
    assert machines.events.end("a") == Done(job_id="a")
    assert len(local.submits) == 1 < len(gpu.submits)


def test_a_machine_that_cannot_be_reached_leaves_its_runs_to_the_others(machines: Machines) -> None:
    local, gpu = machines.begin("local", "gpu")
    gpu.say(Failed(job_id=gpu.job_id, error="It cannot be reached.", engine_end="stopped with exit code 1"))
    local.complete()
    local.given(2)
    local.complete()
    assert machines.events.end("a") == Done(job_id="a")
    assert [event.text for event in machines.events.all if isinstance(event, Log)] == [
        "It cannot be reached. The job continues on local alone."
    ]


def test_a_job_for_an_unknown_machine_fails_and_others_go_on(machines: Machines) -> None:
    machines.pool.send(Submit(job_id="lost", job=InspectJob(model=DEMO), machines=("nowhere",)))
    assert machines.events.end("lost") == Failed(job_id="lost", error='There is no machine "nowhere".')
    local, _ = machines.begin("local")
    local.complete()
    assert machines.events.end("a") == Done(job_id="a")
