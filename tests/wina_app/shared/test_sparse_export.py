"""Exporting a run's gated model from a page, against a view that only remembers."""

import pytest
from wina_app.shared.sparse_export import CANCELLED, SparseExport
from wina_app.widgets.base_page import Page

from tests.wina_app.fakes import Recorded, done, make_workbench, result
from tests.wina_app.stored_runs import GLOBAL, record_run, run_spec
from wina_core.jobs import Failed
from wina_core.records import ExportRecord

SPEC, DENSE_RUN = run_spec("wina", GLOBAL, 0.5), run_spec("dense", GLOBAL, 0.0)
RUN = SPEC.content_hash()


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(Page, ask_compute=False)
    yield SparseExport(workbench, view), view, engine, store.store
    store.store.close()


def test_a_stored_run_goes_to_the_engine_with_its_card_and_the_command_that_does_the_same(bench, tmp_path):
    export, view, engine, store = bench
    export.export(tmp_path / "sparse", lambda _store: SPEC)
    assert engine.last.job.run == "", "it was never stored"
    assert "wina export-model sparse --model ./demo-llama --method wina" in engine.last.job.card
    record_run(store, SPEC)
    export.export_run(tmp_path / "sparse", RUN)
    job = engine.last.job
    assert (job.spec, job.folder, job.run) == (SPEC, str(tmp_path / "sparse"), RUN)
    assert "| demo\\_choice | acc |" in job.card
    assert "wina export-model sparse --model ./demo-llama --method wina" in job.card
    assert engine.last.title == "Export sparse model: wina, global + heads, 50.0 %"
    engine.answer(result(ExportRecord(folder=job.folder, bytes=1)), done())
    assert view.last("show_saved") == tmp_path / "sparse"


def test_what_cannot_be_exported_is_said_before_anything_is_asked_or_computed(bench, tmp_path):
    export, view, engine, _ = bench
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    export.export(tmp_path / "used", lambda _store: SPEC)
    assert "not an empty folder" in view.last("show_error")
    export.export(tmp_path / "new", lambda _store: DENSE_RUN)
    assert "dense model drops nothing" in view.last("show_error")
    export.export_run(tmp_path / "new", "gone")
    assert "no longer stored" in view.last("show_error")
    assert not engine.submitted


def test_a_failure_can_be_retried_and_a_cancelled_export_is_noticed(bench, tmp_path):
    export, view, engine, _ = bench
    export.export(tmp_path / "sparse", lambda _store: SPEC)
    engine.answer(lambda job_id: Failed(job_id=job_id, error="The disk is full; free some space."))
    assert view.last("show_error") == "The disk is full; free some space."
    export._workbench.retry(engine.last.job_id)
    engine.answer(done(cancelled=True))
    assert view.last("show_notice") == CANCELLED
    assert not view.calls("show_saved")
