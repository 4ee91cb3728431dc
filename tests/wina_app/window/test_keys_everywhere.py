"""Ctrl+1 to Ctrl+8 and Ctrl+Y, whatever has the focus."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QLineEdit, QPlainTextEdit, QVBoxLayout
from wina_app.pages import PAGES

from tests.wina_app.stored_runs import SOURCE, summary
from tests.wina_app.tour import settle

CTRL = Qt.KeyboardModifier.ControlModifier
FOCUSED = {
    "spin box": lambda window: window.pages["evaluate"].tasks.limit,
    "task list": lambda window: window.pages["evaluate"].tasks.list,
    "run grid": lambda window: window.pages["evaluate"].table,
    "prompt": lambda window: window.pages["playground"].form.findChild(QPlainTextEdit),
    "log": lambda window: window.log.text,
    "log search": lambda window: window.log.search,
    "jobs": lambda window: window.jobs.list,
    "table": lambda window: window.pages["latency"].table,
}


@pytest.fixture
def window(application):
    window = application.window
    application.workbench.workspace.set_model(SOURCE, summary())
    window.dock_area.toggle()
    return window


@pytest.mark.all_pages
def test_pages_are_reached_from_every_control_a_floating_dock_and_a_dialog(window):
    numbers = {key: number for number, key in enumerate(PAGES, start=1)}

    def reaches(widget, key: str) -> bool:
        QTest.keyClick(widget, Qt.Key(Qt.Key.Key_0 + numbers[key]), CTRL)
        return window.current_page.key == key

    for name, find in FOCUSED.items():
        widget = find(window)
        home = next((key for key, page in window.pages.items() if page.isAncestorOf(widget)), "model")
        window.show_page(home)
        widget.setFocus()
        assert reaches(widget, "sparsity"), name
    for key in PAGES:
        assert reaches(window, key)
    window.docks["log"].setFloating(True)
    settle()
    assert reaches(window.log.search, "results")
    dialog, field = QDialog(window), QLineEdit()
    QVBoxLayout(dialog).addWidget(field)
    dialog.show()
    dialog.activateWindow()
    settle()
    assert reaches(field, "sparsity")
    dialog.hide()
    dialog.setModal(True)
    dialog.show()
    dialog.activateWindow()
    settle()
    assert not reaches(field, "studies")
    dialog.deleteLater()


def test_ctrl_y_redoes_on_the_page(application, window):
    workspace = application.workbench.workspace
    window.show_page("sparsity")
    application.sparsity.editing.set_uniform(0.3)
    changed = workspace.plan
    page = window.pages["sparsity"]
    page.heatmap.setFocus()
    QTest.keyClick(page.heatmap, Qt.Key.Key_Z, CTRL)
    assert workspace.plan != changed
    QTest.keyClick(page.heatmap, Qt.Key.Key_Y, CTRL)
    assert workspace.plan == changed
