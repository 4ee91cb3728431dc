"""What the gate inspector draws, and how one input is followed through its plots."""

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from wina_app.pages.gate_inspector.panel import GateInspector
from wina_app.pages.gate_inspector.view_state import (
    MOST_POINTS,
    boundaries,
    compared_methods,
    logs,
    planned_gates,
    points,
)
from wina_app.style.theme import apply_theme

from tests.wina_app.pages.gate_inspector.samples import answer
from tests.wina_app.stored_runs import SOURCE, layout
from wina_core.analysis.gate_views import InspectedCell
from wina_core.jobs import InspectGateJob
from wina_core.records.gates import GateTarget
from wina_core.specs import NO_ROTATION, MethodSpec
from wina_core.specs.plans import SparsityPlan

METHODS = tuple(MethodSpec(name=name) for name in ("wina", "teal", "cats"))
PLAN = SparsityPlan.uniform(layout(), 0.5)


def inspected(tokens: int = 6, inputs: int = 60) -> InspectedCell:
    gates = tuple(GateTarget(method=method, target=0.5) for method in METHODS)
    job = InspectGateJob(model=SOURCE, rotation=NO_ROTATION, layer=2, projection="down", prompt="The mill", gates=gates)
    return InspectedCell(answer(job, inputs, tokens))


@pytest.fixture(scope="module")
def cell() -> InspectedCell:
    return inspected()


@pytest.fixture
def inspector(qtbot, qapp, cell):
    apply_theme(qapp, "light")
    shown = GateInspector()
    qtbot.addWidget(shown)
    shown.resize(360, 900)
    with qtbot.waitExposed(shown):
        shown.show()
    shown.show_subject("layer 2 · down", compared_methods(METHODS[0], "down", {}), 0.5)
    shown.show_cell(cell, planned_gates(cell, PLAN))
    settle(qtbot, shown)
    return shown


def settle(qtbot, shown: GateInspector) -> None:
    """Let all plots be drawn."""
    qtbot.waitUntil(lambda: not shown._next_plot.isActive())


@pytest.mark.parametrize("token", [0, 3])
def test_every_boundary_parts_what_its_method_keeps_from_what_it_drops(cell, token):
    gates = planned_gates(cell, PLAN)
    wina, teal, _ = gates
    drawn = {gate.method.name: (x, y) for gate, x, y in boundaries(cell, gates, wina, token)}
    assert set(drawn) == {"wina", "teal"}, "CATS scores something else than |x|"
    x, y = logs(cell.inputs[token]), logs(cell.norms)
    (left, right), _ = drawn["teal"]
    assert left == right
    assert ((x >= left) == teal.mask[token]).all()
    (left, right), (top, bottom) = drawn["wina"]
    level = left + top
    assert right + bottom == pytest.approx(level)
    assert ((x + y >= level - 1e-6) == wina.mask[token]).all()


def test_all_tokens_are_drawn_in_part_and_said_to_be():
    many = inspected(tokens=40, inputs=200)
    found = points(many, planned_gates(many, PLAN)[0], None)
    assert (len(found.x), found.total) == (MOST_POINTS, 8000)
    assert set(found.token) == set(range(40))
    assert np.array_equal(found.kept_mask, planned_gates(many, PLAN)[0].mask[found.token, found.neuron])


def test_the_histogram_counts_every_input_once(inspector, cell):
    now = planned_gates(cell, PLAN)[0]
    for token, inputs, borders in ((None, 360, 3), (2, 60, 1)):
        inspector.histogram.show_scores(now, token)
        everything, kept, *lines = inspector.histogram.traces
        assert (sum(everything.y), sum(kept.y), len(lines)) == (inputs, inputs // 2, borders)
    assert lines[0].x[0] == pytest.approx(np.log10(now.boundaries[2]))


def test_the_figures_are_those_of_the_record_and_of_another_target_what_is_known(qtbot, inspector, cell):
    table = inspector.figures
    rows = [[table.item(row, column).text() for column in range(4)] for row in range(table.rowCount())]
    assert [row[0] for row in rows] == ["wina", "teal", "cats"]
    assert rows[0] == ["wina", "50.0", f"{100 * cell.gates[0].decision.kept_energy:.2f}", "0.125"]
    matrix = inspector.agreement
    masks = [gate.mask for gate in cell.gates]
    assert matrix.item(0, 1).text() == f"{100 * (masks[0] == masks[1]).mean():.3g}"
    assert matrix.item(1, 0).text() == f"{100 * (masks[0] & masks[1]).sum() / (masks[0] | masks[1]).sum():.3g}"
    inspector.show_cell(cell, planned_gates(cell, PLAN.with_cells({(2, 6): 0.8})))
    settle(qtbot, inspector)
    assert inspector.figures.item(0, 1).text() == "20.0"
    assert inspector.figures.item(0, 3).text() == "–"
    assert "inspect again" in inspector.figures.item(0, 3).toolTip()
    inspector.show_cell(None, ())
    inspector.show_action("Inspect the gate", "Select one cell of the heatmap first")
    assert not inspector._results.isVisible()
    assert "Select one cell" in inspector.remark.text(), "without a cell it says what it is for"
    assert inspector.form.inspect.toolTip() == "Select one cell of the heatmap first"


def test_an_input_is_followed_through_all_plots(qtbot, inspector, cell):
    inspector.token.setCurrentIndex(3)
    settle(qtbot, inspector)
    found = points(cell, planned_gates(cell, PLAN)[0], 2)
    place = int(np.flatnonzero(found.kept_mask)[0])
    box = inspector.scatter.getPlotItem().vb
    at = box.mapViewToScene(QPointF(found.x[place], found.y[place]))
    inspector.scatter.picked.emit(*_nearest(inspector.scatter, at))
    token, neuron = inspector._focus
    assert token == 2
    assert inspector.input.value() == neuron
    assert f"input {neuron} " in inspector.readout.text()
    assert f"|x| {cell.inputs[2, neuron]:.3g}" in inspector.readout.text()
    column = int(np.flatnonzero(inspector.map._order == neuron)[0])
    assert inspector.map._focus_lines[0].value() == column + 0.5
    assert inspector.map._focus_lines[1].value() == 2.5
    assert inspector.histogram._line.value() == pytest.approx(logs(cell.gates[0].scores[2])[neuron])
    other = inspected()
    inspector.show_cell(other, planned_gates(other, PLAN))
    assert inspector._focus is None
    assert not inspector.histogram._line.isVisible()
    assert not any(line.isVisible() for line in inspector.map._focus_lines)


def _nearest(scatter, scene: QPointF) -> tuple[int, int]:
    """Token and neuron that a click there means."""
    trace, place = scatter.nearest(scene)
    chosen = scatter._points.kept_mask if trace else ~scatter._points.kept_mask
    index = np.flatnonzero(chosen)[place]
    return int(scatter._points.token[index]), int(scatter._points.neuron[index])


def test_the_map_reads_the_input_under_the_pointer_in_any_order(qtbot, inspector, cell):
    inspector.input.setFocus()
    qtbot.keyClick(inspector.input, Qt.Key.Key_Up)
    assert inspector._focus == (0, 1), "chosen by the keyboard"
    assert "input 1 " in inspector.readout.text()
    inspector.sorting.setCurrentIndex(2)
    settle(qtbot, inspector)
    box = inspector.map.getPlotItem().vb
    read: list[str] = []
    inspector.map.readout_changed.connect(read.append)
    at = box.mapViewToScene(QPointF(4.5, 1.5))
    assert inspector.map.input_at(at) == (1, int(inspector.map._order[4]))
    inspector.map._pointer_moved(at)
    assert read[-1].startswith("“ mill” · input")
    assert read[-1].endswith("kept" if cell.gates[0].mask[inspector.map.input_at(at)] else "dropped")
    assert inspector.map.input_at(QPointF(-5, -5)) is None


def test_the_largest_record_does_not_stall_the_window(qtbot, inspector, stall_watchdog):
    large = inspected(tokens=23, inputs=11_008)
    now = planned_gates(large, PLAN)
    stall_watchdog.start()
    inspector.show_cell(large, now)
    settle(qtbot, inspector)
    inspector.show_cell(large, planned_gates(large, PLAN.with_cells({(2, 6): 0.7})))
    settle(qtbot, inspector)
