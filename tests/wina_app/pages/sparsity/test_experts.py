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


def test_a_cell_of_experts_says_how_many_it_holds_and_how_they_differ(bench):
    controller, _ = bench
    text = controller.cell_text((1, GATE))
    assert "4 experts, 2 read by each token" in text
    assert "experts measured: 48.0 % to 55.0 %" in text
    assert "1 of 4 experts: layer's threshold (fewer than 128 tokens)" in text
    assert "experts measured" not in controller.cell_text((2, GATE)), "nothing is stored of that layer's"
    assert "experts" not in controller.cell_text((1, 0)) + controller.cell_text((0, GATE)), "attention, a dense layer"


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


def test_an_experts_text_says_what_is_known_and_where_its_threshold_is_from(bench):
    controller, _ = bench
    assert controller.expert_text(Detail(1, 1, GATE)).splitlines() == [
        "layer 1 · gate · expert 1",
        "target: 50.0 %, its layer's, which all experts have",
        "measured: 55.0 %",
        "threshold in that run: 0.125",
        "read by 10.0 % of the tokens (50.0 % if routing were uniform)",
        "calibrated on 93 tokens, fewer than 128: it takes its layer's threshold",
    ]
    assert "4,000 tokens: it has a threshold of its own" in controller.expert_text(Detail(1, 0, GATE))
    assert "measured: unknown" in controller.expert_text(Detail(2, 0, UP))


def test_the_table_has_all_numbers_of_the_chosen_layers_experts(bench):
    controller, _ = bench
    head, *lines = [line.split("\t") for line in controller.experts_table([0, 1]).splitlines()]
    assert len(lines) == 4 * 3
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    assert rows[0] == {
        "layer": "1",
        "expert": "0",
        "projection": "gate",
        "target": "0.5",
        "measured": "0.48",
        "threshold": "0.25",
        "share_of_tokens": "0.9",
        "calibration_tokens": "4000",
    }
    assert (rows[-1]["expert"], rows[-1]["projection"], rows[-1]["measured"]) == ("3", "down", "")


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
