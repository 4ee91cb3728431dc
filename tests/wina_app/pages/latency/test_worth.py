""" "Will it pay here?" on the Latency page: verdicts of this machine first, and what is missing measured there."""

import pytest
from wina_app.pages.latency.worth import WorthController, WorthPanel
from wina_app.widgets.base_page import Page

from tests.wina_app.fakes import Recorded, make_workbench
from tests.wina_app.stored_runs import SOURCE
from tests.wina_app.timed_points import ELSEWHERE, HERE, decoded
from wina_core.jobs import DecodeJob


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(WorthPanel)
    controller = WorthController(workbench, view, Recorded(Page))
    yield controller, view, engine, store
    store.store.close()


def state(view):
    """Return the last note, whether something is missing, and the reason."""
    note, given = view.calls("show_state")[-1], view.named("show_state")
    return note, given["missing"], given["reason"]


def cells(controller, title):
    at = next(at for at, column in enumerate(controller.table.columns) if column.key == title)
    return [entry.texts[at] for entry in controller.table.shown]


def test_rows_of_this_machine_come_first_and_others_are_named(bench):
    controller, view, _, store = bench
    store.store.record_decoding(decoded(0.5, environment=ELSEWHERE))
    store.store.record_decoding(decoded(0.65))
    controller.reading.set_visible(True)
    assert cells(controller, "machine") == [HERE.hardware, "a GPU"]
    assert cells(controller, "sparsity") == ["65", "50"]
    assert cells(controller, "verdict")[0].startswith("pays: 1.50 times")
    assert cells(controller, "vs peer") == ["\N{EN DASH}"] * 2
    note, missing, _ = state(view)
    assert note == "1 configuration timed here, 1 on other machines, named in the last column"
    assert missing


def test_what_this_machines_rows_miss_is_one_job_and_is_not_queued_twice(bench):
    controller, view, engine, store = bench
    for record in (decoded(0.5, environment=ELSEWHERE), decoded(0.5), decoded(0.65)):
        store.store.record_decoding(record)
    controller.reading.set_visible(True)
    controller.measure([])
    (submit,) = engine.submitted
    assert isinstance(submit.job, DecodeJob)
    assert (submit.job.spec.model, submit.job.spec.sparsities) == (SOURCE, (0.0, 0.5, 0.65))
    assert submit.job.spec.batches == (1, 2, 4, 8)
    assert submit.job.stored[HERE.key], "stored points are not measured again"
    assert state(view)[1:] == (False, "All parts are measured or queued")
    controller.measure([])
    assert len(engine.submitted) == 1


def test_selected_rows_alone_are_measured(bench):
    controller, _, engine, store = bench
    for record in (decoded(0.5), decoded(0.65)):
        store.store.record_decoding(record)
    controller.reading.set_visible(True)
    controller.measure([1])
    assert engine.last.job.spec.sparsities == (0.0, 0.65)


def test_nothing_timed_says_what_to_do(bench):
    controller, view, _, _ = bench
    controller.reading.set_visible(True)
    note, missing, reason = state(view)
    assert (note, missing) == ("0 configurations timed here", False)
    assert reason.startswith("Measure the decoding of a configuration first")
