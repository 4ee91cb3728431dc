"""A pool shares runs among engines of this computer and of machines, and the store says where each was computed."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import DEMO, Events, evaluate, run
from tests.wina_core.remote.fake_machine import HERE, ROOT, FakeMachine
from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import Assigned, Done, Failed, InspectJob, Partial, Ready, Submit
from wina_core.remote.machine_client import open_place
from wina_core.specs import Configuration, ModelSource
from wina_core.specs.studies import StudySpec
from wina_core.store import Recorder, Store

SPECS = [run(0.1 + index / 50) for index in range(12)]
STUDY = evaluate(*SPECS)


def test_local_and_remote_engines_share_runs(
    machine: FakeMachine, tmp_path: Path, events: Events, store: Store
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    machine.pace(0.02)
    (here / "pace").write_text("0.6")
    environment = {"WINA_HOME": str(here), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(HERE / "fake_remote_engine.py")]
    make = lambda to, variables: EngineClient(to, command, environment=variables)  # noqa: E731
    pool = EnginePool(events, [environment], make, machines=open_place)
    pool.start()
    events.wait(Ready)
    pool.send(Submit(job_id="1", job=STUDY, machines=("local", "away")))
    assert events.end("1") == Done(job_id="1")
    pool.stop()
    computed = Counter(event.unit.run for event in events.all if isinstance(event, Partial))
    assert computed == {spec.content_hash(): len(spec.evaluation.units) for spec in SPECS}
    assert {event.machine for event in events.all if isinstance(event, Assigned)} == {"local", "away"}
    store.save_study(StudySpec(name="shared", models=(DEMO,), configurations=(Configuration(),)), SPECS)
    recorder = Recorder(store, STUDY)
    for event in events.all:
        recorder.record(event)
    hardware = Counter(row.hardware for row in store.runs())
    assert min(hardware["fake in away"], hardware["fake in here"]) > 0


@pytest.mark.usefixtures("machine")
def test_a_job_for_an_unknown_machine_fails_and_others_do_not(events: Events) -> None:
    pool = EnginePool(events, machines=open_place)
    inspect = InspectJob(model=ModelSource(location="anything"))
    pool.send(Submit(job_id="1", job=inspect, machines=("awya",)))
    pool.send(Submit(job_id="2", job=inspect, machines=("away",)))
    end = events.end("1")
    assert isinstance(end, Failed)
    assert end.error == 'There is no machine "awya"; did you mean away?'
    assert events.end("2") == Done(job_id="2")
    pool.stop()
