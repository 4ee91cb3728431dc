"""The Sparsity page as it is used: mouse, keys, buttons, files."""

import json

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFileDialog
from wina_app.pages.sparsity.page import SparsityPage

from tests.wina_app.pages.sparsity.sparsity_pages import command, open_page
from tests.wina_app.stored_runs import SOURCE, layout, record_calibration, summary
from wina_core.specs.plans import SparsityPlan

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def page(qtbot, qapp, store):
    return open_page(qtbot, qapp, store)


@pytest.fixture
def filled(page):
    page.workspace.set_model(SOURCE, summary())
    return page


def centre(page: SparsityPage, row: int, column: int) -> QPoint:
    return page.heatmap.geometry_now().cell(row, column).center().toPoint()


def click(qtbot, page: SparsityPage, row: int, column: int) -> None:
    qtbot.mouseClick(page.heatmap.viewport(), LEFT, pos=centre(page, row, column))


def test_without_a_model_the_page_says_what_it_is_for(qtbot, page):
    assert page.is_empty
    assert not page.primary.isEnabled()
    assert page.primary.toolTip()
    assert not page.plan_menu.isEnabled()
    assert page.plan_menu.toolTip() == "Open a model first"
    assert not command(page, "Open a plan from a file").isEnabled()
    with qtbot.waitSignal(page.crumb_clicked) as asked:
        page.empty_triggered.emit()
    assert asked.args == ["model"]
    page.workspace.set_model(SOURCE, summary())
    assert not page.is_empty
    assert page.primary.isEnabled()
    assert page.plan_menu.isEnabled()
    assert command(page, "Open a plan from a file").isEnabled()


def test_click_a_cell_type_and_undo(qtbot, filled):
    plan = filled.workspace.plan
    click(qtbot, filled, 2, 4)
    qtbot.keyClicks(filled.heatmap, "62.5")
    qtbot.keyClick(filled.heatmap, Qt.Key.Key_Return)
    assert filled.workspace.plan.sparsity[2][4] == 0.625
    assert filled.editor.spin.value() == 62.5
    assert "set 1 cell to 62.5 %" in filled.plan_buttons["Undo"].toolTip()
    filled.plan_buttons["Undo"].click()
    assert filled.workspace.plan == plan
    filled.plan_buttons["Redo"].click()
    assert filled.workspace.plan.sparsity[2][4] == 0.625


def test_locks_and_the_kept_budget_are_switched_by_key_button_and_command(qtbot, filled):
    click(qtbot, filled, 2, 4)
    qtbot.keyClicks(filled.heatmap, "l")
    assert filled.editing.locked == {(2, 4)}
    assert filled.editor.lock.isChecked()
    assert "locked" in filled.heatmap.tooltip((2, 4))
    qtbot.keyClicks(filled.heatmap, "80\r")
    assert filled.message.label.text().startswith("The cell is locked")
    filled.editor.lock.click()
    assert filled.editing.locked == frozenset()
    keep = next(action for action in filled.commands if action.text() == "Keep the budget")
    keep.trigger()
    assert filled.editor.keep.isChecked()
    qtbot.keyClicks(filled.heatmap, "80\r")
    assert filled.workspace.plan.sparsity[2][4] == 0.8
    assert filled.workspace.plan.budget == pytest.approx(0.5, abs=1e-9)
    for _ in range(4):
        filled.undo_stack.undo()
    assert not filled.editor.keep.isChecked()
    assert filled.workspace.plan == SparsityPlan.uniform(layout(), 0.5)


def test_a_plan_goes_to_a_file_and_back(filled, tmp_path, monkeypatch):
    path = str(tmp_path / "plan.json")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (path, ""))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (path, ""))
    filled.controller.editing.paint(frozenset({(0, 0)}), 0.7)
    saved = filled.workspace.plan
    command(filled, "Save the plan as a file").trigger()
    filled.controller.editing.set_uniform(0.1)
    command(filled, "Open a plan from a file").trigger()
    assert filled.workspace.plan == saved


def test_read_outs_and_tooltips_tell_how_they_are_computed_and_all_that_is_known(qapp, filled, store):
    assert filled.figures.text("predicted") == "\N{EN DASH}"
    assert "press Calibrate" in filled.figures.tip("predicted")
    assert "weighted by their numbers of weights" in filled.figures.tip("budget")
    command(filled, "Copy the read-outs").trigger()
    lines = qapp.clipboard().text().splitlines()
    assert lines[0] == "Budget\t50.0 %"
    assert len(lines) == 12
    assert "Bits held\t16" in lines
    record_calibration(store, filled.workspace.method, filled.workspace.rotation)
    filled.access.changed.emit()
    text = filled.heatmap.tooltip((5, 6))
    for known in ("layer 5 · down", "target: 50 %", "measured: unknown", "predicted error: 0."):
        assert known in text


def test_the_next_start_restores_allocator_budget_selection_and_kept_budget(qtbot, qapp, store, filled):
    filled.toolbar.allocator.setCurrentIndex(1)
    filled.toolbar.budget.setValue(37.5)
    click(qtbot, filled, 2, 4)
    filled.editor.keep.click()
    filled.profile.hide_series(frozenset({"q"}))
    state = json.loads(json.dumps(filled.view_state()))
    again = open_page(qtbot, qapp, store)
    again.restore_view(state | {"selection": [*state["selection"], [400, 1], "x", [1]]})
    assert again.toolbar.allocator.currentIndex() == 1
    assert again.toolbar.budget.value() == 37.5
    assert again.profile.hidden == {"q"}
    again.workspace.set_model(SOURCE, summary())
    qtbot.waitUntil(lambda: bool(again.heatmap.selection.cells))
    assert again.heatmap.selection.cells == {(2, 4)}
    assert again.editor.keep.isChecked()
