"""Jobs on the engines of other machines, which share one queue with this computer's."""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from tests.wina_core.engine.engine_events import DEMO, PATIENCE, Events, evaluate, run
from tests.wina_core.engine.fake_pool import FakeClient
from wina_core.engine.client.pool import EnginePool
from wina_core.errors import WinaError
from wina_core.jobs import Assigned, Done, Event, Failed, InspectJob, Log, Ready, Submit
from wina_core.records import Environment
from wina_core.specs import Configuration
from wina_core.specs.studies import StudySpec
from wina_core.store import Recorder, Store

RUNS = tuple(run(sparsity / 10) for sparsity in range(1, 7))
HERE, THERE = (Environment(device="cuda", hardware=name, versions={}) for name in ("A100", "H100"))


class Machines:
    """A pool of one engine here, with fake machines."""

    def __init__(self) -> None:
        self.events = Events()
        self.clients: dict[str, FakeClient] = {}
        self._made = threading.Condition()
        make = lambda to, _: self._client("local", to)  # noqa: E731
        self.pool = EnginePool(self.events, [{}], make, machines=self._open)  # type: ignore[arg-type]

    def _client(self, name: str, to: Callable[[Event], None]) -> FakeClient:
        with self._made:
            self.clients[name] = FakeClient(to, {}, eager=False)
            self._made.notify_all()
            return self.clients[name]

    def _open(self, name: str) -> Sequence[Callable[[Callable[[Event], None]], FakeClient]]:
        if name == "nowhere":
            raise WinaError('There is no machine "nowhere".')
        return [partial(self._client, name)]

    def submit(self, *machines: str) -> None:
        self.pool.send(Submit(job_id="a", job=evaluate(*RUNS), machines=machines))
        for machine in machines:
            with self._made:
                assert self._made.wait_for(lambda machine=machine: machine in self.clients, PATIENCE)
            self.clients[machine].given()


@pytest.fixture
def machines() -> Iterator[Machines]:
    machines = Machines()
    yield machines
    machines.pool.stop()


def test_a_job_goes_to_its_machine_alone_and_runs_are_stored_with_its_hardware(
    machines: Machines, store: Store
) -> None:
    machines.submit("gpu")
    gpu, local = machines.clients["gpu"], machines.clients["local"]
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
    machines.submit("local", "gpu")
    gpu, local = machines.clients["gpu"], machines.clients["local"]
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
    machines.submit("local", "gpu")
    gpu, local = machines.clients["gpu"], machines.clients["local"]
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
    machines.submit("local")
    machines.clients["local"].complete()
    assert machines.events.end("a") == Done(job_id="a")
