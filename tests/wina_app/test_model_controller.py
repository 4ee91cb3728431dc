"""Opening models, against a view that only remembers."""

import pytest
from wina_app.controllers.model_controller import ModelController

from tests.wina_app.fakes import Recorded, done, make_workbench, result
from tests.wina_app.stored_runs import summary
from wina_core.engine.protocol import Cancel, Failed, InspectJob, Progress
from wina_core.sources import resolve
from wina_core.specs import ModelSource


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded()
    yield ModelController(workbench, view), view, workbench, engine
    store.store.close()


def test_a_model_is_resolved_loaded_and_put_into_the_workspace(bench):
    controller, view, workbench, engine = bench
    controller.open("demo", "float32")
    source = resolve(ModelSource(location="demo", dtype="float32"))
    assert engine.last.job == InspectJob(model=source)
    engine.answer(result(summary()), done())
    assert (workbench.workspace.source, workbench.workspace.summary) == (source, summary())
    assert view.last("show_summary") == source
    assert view.last("show_loading") is None
    assert view.last("show_recent") == ["demo"]
    assert workbench.workspace.plan.budget == pytest.approx(0.5)


def test_progress_is_shown_while_it_loads(bench):
    controller, view, _, engine = bench
    controller.open("demo")
    engine.answer(lambda job_id: Progress(job_id=job_id, done=5, total=20, unit="bytes", metric="reading weights"))
    assert view.last("show_loading").fraction == 0.25


def test_a_missing_folder_is_an_error_in_place_and_loads_nothing(bench):
    controller, view, workbench, engine = bench
    controller.open("/nowhere/at all")
    assert "/nowhere/at all does not exist" in view.last("show_error")
    assert not engine.submitted
    assert workbench.workspace.source is None


def test_nothing_typed_is_an_error_that_says_what_to_do(bench):
    controller, view, _, engine = bench
    controller.open("   ")
    assert view.last("show_error").startswith("No model is named; choose a folder")
    assert not engine.submitted


def test_a_model_that_fails_to_load_leaves_the_earlier_one(bench):
    controller, view, workbench, engine = bench
    controller.open("demo")
    engine.answer(result(summary()), done())
    before = workbench.workspace.source
    controller.open("demo", "float64")
    engine.answer(lambda job_id: Failed(job_id=job_id, error="The weights are truncated; copy them again."))
    assert view.last("show_error") == "The weights are truncated; copy them again."
    assert workbench.workspace.source == before


def test_loading_can_be_cancelled(bench):
    controller, view, workbench, engine = bench
    controller.open("demo")
    controller.cancel()
    assert engine.sent[-1] == Cancel(job_id=engine.last.job_id)
    engine.answer(done(cancelled=True))
    assert view.last("show_notice") == "Loading was cancelled."
    assert workbench.workspace.source is None


def test_opening_another_model_gives_up_the_first(bench):
    controller, _, workbench, engine = bench
    controller.open("demo")
    first = engine.last.job_id
    controller.open("demo", "float64")
    assert Cancel(job_id=first) in engine.sent
    engine.answer(result(summary()), done())
    assert workbench.workspace.source.dtype == "float64"
