"""The experts of a Mixture of Experts on the Sparsity page: their lines, texts and table."""

import math

import pytest
from wina_app.heatmap.geometry import Detail
from wina_app.pages.sparsity.controller import SparsityController
from wina_app.services.workspace import Workspace

from tests.wina_app.pages.sparsity.sparsity_pages import command, open_page
from tests.wina_app.pages.sparsity.test_controller import FakeView
from tests.wina_app.stored_runs import SOURCE, DirectStore, record_run, run_spec, summary
from wina_core.records import (
    EXPERT_SHARE,
    EXPERT_SPARSITY,
    EXPERT_THRESHOLD,
    EXPERT_TOKENS,
    CalibrationRecord,
    ExpertRecord,
    ModelSummary,
    UnitRecord,
)
from wina_core.specs import NO_ROTATION, CalibrationSpec, MethodSpec, RunSpec

GATE, UP, DOWN = 4, 5, 6
BY_THRESHOLD = MethodSpec(name="wina", selection="threshold")


def with_experts() -> ModelSummary:
    """Four experts in each layer but the first, two of them read by a token."""
    dense = summary()
    shape = dense.shape.model_copy(update={"experts": (0, *(4,) * 7), "active_experts": 2})
    return dense.model_copy(update={"shape": shape})


def gate(metric: str, *values: float) -> ExpertRecord:
    return ExpertRecord(layer=1, projection="gate", metric=metric, values=values)


def record(store) -> RunSpec:
    """Store a run at 50 % that measured two experts of layer 1, and a calibration in which one read too few tokens."""
    spec = run_spec("wina", NO_ROTATION, 0.5).model_copy(
        update={"method": BY_THRESHOLD, "calibration": CalibrationSpec()}
    )
    record_run(store, spec)
    values = {EXPERT_SHARE: (0.9, 0.1), EXPERT_SPARSITY: (0.48, 0.55), EXPERT_THRESHOLD: (0.25, 0.125)}
    experts = tuple(gate(metric, *each) for metric, each in values.items())
    store.record_unit(UnitRecord(run=spec.content_hash(), unit="experts", metrics=(), experts=experts, seconds=1.0))
    calibrated = CalibrationRecord(
        key="k", tokens=4096, layers=(), experts=(gate(EXPERT_TOKENS, 4000.0, 93.0),), seconds=1.0
    )
    store.record_calibration(SOURCE, NO_ROTATION, BY_THRESHOLD, CalibrationSpec(), calibrated)
    return spec


@pytest.fixture
def bench(qapp, store):  # noqa: ARG001 - signals need an application
    """(controller, view) with the stored run's configuration open."""
    record(store)
    workspace, view = Workspace(), FakeView()
    controller = SparsityController(workspace, DirectStore(store), view)
    workspace.set_model(SOURCE, with_experts())
    workspace.set_rotation(NO_ROTATION)
    workspace.set_method(BY_THRESHOLD)
    return controller, view


def test_each_map_shows_the_numbers_that_experts_have(bench):
    controller, view = bench
    shown = {}
    for key in ("target", "measured", "difference", "threshold", "predicted"):
        controller.show(key)
        shown[key] = view.details(1)
    gate = {key: details.values[:, GATE].tolist() for key, details in shown.items()}
    assert gate["target"] == [0.5] * 4
    assert gate["measured"][:2] == [0.48, 0.55]
    assert gate["difference"][:2] == pytest.approx([-0.02, 0.05])
    assert gate["threshold"][:2] == [0.25, 0.125]
    assert all(math.isnan(value) for key in ("measured", "difference", "threshold") for value in gate[key][2:])
    assert all(map(math.isnan, gate["predicted"])), "measured of a layer's experts together"
    assert shown["target"].columns == {GATE, UP, DOWN}
    assert [row[GATE] for row in shown["threshold"].notes] == ["", "shared", "", ""]
    assert shown["measured"].notes == ()


def test_the_page_copies_expands_and_reads_experts_and_remembers_which(qtbot, qapp, store):
    record(store)
    page = open_page(qtbot, qapp, store)
    page.workspace.set_model(SOURCE, with_experts())
    page.heatmap.set_selection(page.heatmap.selection.click((2, GATE)))
    command(page, "Copy the experts").trigger()
    lines = qapp.clipboard().text().splitlines()
    assert len(lines) == 1 + 4 * 3
    assert all(line.startswith("2\t") for line in lines[1:])
    page.heatmap.set_selection(page.heatmap.selection.click((1, GATE)))
    command(page, "Show or hide experts").trigger()
    assert page.heatmap.expanded == {1}
    page.heatmap.read(Detail(1, 2, GATE))
    assert page.editor._subject.text() == "expert 2 · read-only, target of layer 1"
    assert not page.editor.slider.isEnabled(), "nothing to edit"
    page.heatmap.set_selection(page.heatmap.selection.click((1, GATE)))
    assert page.editor._subject.text() == "layer 1 · gate"
    assert page.editor.slider.isEnabled()
    state = page.view_state()
    assert state["experts"] == [1]
    again = open_page(qtbot, qapp, store)
    again.restore_view(state | {"experts": [1, "x", 99]})
    again.workspace.set_model(SOURCE, with_experts())
    qtbot.waitUntil(lambda: again.heatmap.expanded == {1})
    again.workspace.set_model(SOURCE, summary())
    assert again.heatmap.expandable == frozenset()
    show = command(again, "Show or hide experts")
    assert (show.isEnabled(), show.toolTip()) == (False, "The open model is no Mixture of Experts")
