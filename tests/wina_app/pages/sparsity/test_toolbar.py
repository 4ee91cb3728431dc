"""Choices and requests of the Sparsity page's toolbar: method, map, preset, allocation, calibration."""

import pytest
from PySide6.QtCore import Qt
from wina_app.pages.sparsity.page import SparsityPage

from tests.wina_app.pages.sparsity.sparsity_pages import command, open_page
from tests.wina_app.stored_runs import SOURCE, layout, record_calibration, summary
from wina_core.specs import AllocatorSpec
from wina_core.specs.plans import SparsityPlan


@pytest.fixture
def page(qtbot, qapp, store):
    return open_page(qtbot, qapp, store)


@pytest.fixture
def filled(page):
    page.workspace.set_model(SOURCE, summary())
    return page


def show(page: SparsityPage, key: str) -> None:
    """Choose a map with the toolbar's switch."""
    row = page.toolbar.map.findData(key)
    page.toolbar.map.setCurrentIndex(row)
    page.toolbar.map.activated.emit(row)


def test_every_map_is_a_command_with_a_key_and_says_how_to_get_its_data(qtbot, filled, store):
    show(filled, "predicted")
    assert filled.profile.traces == ()
    assert "press Calibrate" in filled.heatmap.remark
    with qtbot.waitSignal(filled.calibrate.clicked):
        filled.calibrate.click()
    record_calibration(store, filled.workspace.method, filled.workspace.rotation)
    filled.access.changed.emit()
    assert filled.heatmap.remark == ""
    assert len(filled.profile.traces) == 7
    for row in range(filled.toolbar.map.count()):
        name = filled.toolbar.map.itemText(row)
        action = command(filled, f"Show: {name}")
        assert action.shortcut().toString().startswith("Alt+")
        action.trigger()
        assert filled.toolbar.map.currentText() == name
    qtbot.keyClick(filled, Qt.Key.Key_6, Qt.KeyboardModifier.AltModifier)
    assert filled.toolbar.map.currentData() == "predicted"


def test_presets_ask_for_the_toolbars_budget_and_the_button_says_what_the_allocator_does(filled):
    toolbar, asked = filled.toolbar, []
    toolbar.budget.setValue(30.0)
    command(filled, "Preset: First and last layer dense").trigger()
    table = filled.workspace.plan.sparsity
    assert table[0] == table[7] == (0.0,) * 7
    assert filled.workspace.plan.budget == pytest.approx(0.3, abs=1e-6)
    next(action for action in toolbar.presets.menu().actions() if "65.0 %" in action.text()).trigger()
    assert filled.workspace.plan == SparsityPlan.uniform(layout(), 0.65)
    assert toolbar.budget.value() == 65.0
    toolbar.allocation_chosen.connect(lambda allocator, budget: asked.append((allocator, budget)))
    assert toolbar.allocate.text() == "Set all"
    toolbar.allocator.setCurrentText("Curves")
    assert toolbar.allocate.text() == "Allocate"
    assert "all layers at once" in toolbar.allocator.toolTip()
    toolbar.allocate.click()
    assert asked == [(AllocatorSpec(name="curves"), 0.65)]
