"""Machines of the window: where its jobs run, now and when they continue."""

import pytest

from tests.wina_app.fakes import done, make_workbench
from tests.wina_app.stored_runs import SOURCE
from wina_core.jobs import Done, Failed, InspectJob
from wina_core.remote.registry import load_places, machines_file
from wina_core.specs.machine import Machine


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    for name in ("gpu", "lab"):
        workbench.machines.save(Machine(host=name))
    yield workbench, engine
    store.store.close()


def test_a_job_that_continues_keeps_its_machines(bench):
    workbench, engine = bench
    workbench.machines.choose(["gpu"])
    job_id = workbench.submit(InspectJob(model=SOURCE), "Load")
    engine.answer(lambda job_id: Failed(job_id=job_id, error="no"))
    workbench.machines.choose([])
    workbench.retry(job_id)
    assert engine.last.machines == ("gpu",)
    engine.received.emit(Done(job_id=job_id))


def test_a_renamed_or_removed_machine_is_not_chosen_any_more(bench):
    workbench, engine = bench
    machines = workbench.machines
    machines.choose(["gpu", "lab"])
    machines.save(Machine(host="new"), replaced="gpu")
    assert (list(machines.ssh_machines), machines.chosen) == (["lab", "new"], ("lab",))
    assert list(load_places()) == ["lab", "new"]
    machines.remove("lab")
    workbench.submit(InspectJob(model=SOURCE), "Load")
    engine.answer(done())
    assert engine.last.machines == ()


def test_a_faulty_file_of_machines_is_said_and_kept(bench):
    workbench, _ = bench
    machines_file().write_text("no")
    said = []
    workbench.machines.failed.connect(said.append)
    workbench.machines.load()
    workbench.machines.save(Machine(host="more"))
    assert [f"The machines in {machines_file()} cannot be read" in text for text in said] == [True, True]
    assert machines_file().read_text() == "no"
