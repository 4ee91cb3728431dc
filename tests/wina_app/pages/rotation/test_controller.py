"""Choosing and measuring rotations, against a view that only remembers."""

import pytest
from wina_app.pages.rotation.controller import NO_MODEL, RotationController
from wina_app.pages.rotation.page import RotationPage

from tests.wina_app.fakes import Recorded, done, load, make_workbench, result
from tests.wina_app.stored_runs import SOURCE, shape, summary
from wina_core.jobs import RotateJob
from wina_core.jobs.planning import MissingProduct
from wina_core.records import LayerRecord, RotationReport
from wina_core.specs import NO_ROTATION, RotationSpec

PER_SITE = RotationSpec(mode="per_site")
REPORT = RotationReport(
    rotation=PER_SITE.content_hash(),
    logits_deviation=3e-7,
    residuals=(LayerRecord(layer=0, projection="q", metric="off_diagonal_energy", value=0.2),),
    shortcut_parameters=983_040,
    seconds=2.0,
)

REASON = "No global rotation is exact here, because its norm is a LayerNorm."


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(RotationPage)
    yield RotationController(workbench, view), view, workbench, engine
    store.store.close()


def test_without_a_model_nothing_can_be_rotated_and_the_reason_is_given(bench):
    controller, view, _, engine = bench
    assert view.named("show_action") == {"running": False, "reason": NO_MODEL, "resumable": False}
    controller.rotate()
    assert not engine.submitted


def test_the_choice_reaches_the_workspace_and_the_engine(bench):
    controller, view, workbench, engine = bench
    load(workbench)
    controller.choose(PER_SITE.model_dump())
    assert workbench.workspace.rotation == PER_SITE
    controller.rotate()
    assert engine.last.job == RotateJob(model=SOURCE, rotation=PER_SITE, spectra=True)
    assert view.named("show_action")["running"]
    engine.answer(result(REPORT), done())
    assert workbench.workspace.rotation_report == REPORT
    assert view.last("show_report") == REPORT


def test_a_stored_measurement_is_shown_again_without_computing(bench):
    controller, view, workbench, engine = bench
    load(workbench)
    controller.choose(PER_SITE.model_dump())
    controller.rotate()
    engine.answer(result(REPORT), done())
    controller.choose(RotationSpec().model_dump())
    assert view.last("show_report") is None
    controller.choose(PER_SITE.model_dump())
    assert view.last("show_report") == REPORT
    assert len(engine.submitted) == 1


def test_a_contradiction_is_said_in_place_and_changes_nothing(bench):
    controller, view, workbench, _ = bench
    load(workbench)
    before = workbench.workspace.rotation
    controller.choose(PER_SITE.model_dump() | {"mlp_basis": ()})
    assert "attention_basis and mlp_basis" in view.last("show_error")
    assert "attention_basis and mlp_basis" in view.named("show_action")["reason"]
    assert workbench.workspace.rotation == before
    controller.choose(PER_SITE.model_dump())
    assert view.named("show_action")["reason"] == ""


def test_a_model_for_which_the_rotation_is_not_exact_gets_that_of_its_heads(bench):
    _, view, workbench, _ = bench
    workbench.workspace.set_rotation(PER_SITE)
    load(workbench, model=summary().model_copy(update={"rotations": ("none",), "rotation_reason": REASON}))
    assert workbench.workspace.rotation == RotationSpec(mode="none", per_head=True)
    assert view.last("show_choice") == workbench.workspace.rotation


def test_a_model_that_an_export_rotated_with_shortcuts_is_not_rotated_again(bench):
    _, _, workbench, _ = bench
    workbench.workspace.set_rotation(PER_SITE)
    model, sizes = summary(), shape().model_copy(update={"shortcuts": "per_site"})
    update = {"rotations": ("none",), "rotation_reason": REASON, "shape": sizes}
    load(workbench, model=model.model_copy(update=update))
    assert workbench.workspace.rotation.is_identity


def test_an_interrupted_rotation_is_continued(bench, monkeypatch):
    controller, view, workbench, engine = bench
    load(workbench)
    assert view.named("show_action")["resumable"] is False
    controller.rotate()
    stages = MissingProduct("rotation", "global", engine.last.job, begun=True)
    monkeypatch.setattr("wina_app.pages.rotation.controller.missing_rotation", lambda *_: stages)
    engine.answer(done(cancelled=True))
    assert view.named("show_action") == {"running": False, "reason": "", "resumable": True}
    assert "Finished stages are kept" in view.last("show_notice")
    workbench.workspace.set_rotation(NO_ROTATION)
    assert view.named("show_action")["resumable"] is False
