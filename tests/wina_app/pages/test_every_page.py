"""Every page opens without an error and without a stall: with nothing, with a model, and with many stored runs."""

import gc
import sys
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QLabel
from wina_app.application import Application
from wina_app.pages.results.table import SortKey

from tests.wina_app.tour import every_page, furnish, settle
from wina_core.store import Store

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
EMPTY = {"rotation", "sparsity", "evaluate", "playground", "results"}
"""Pages that say what they are for, and have nothing to show, before a model is open or anything is stored."""


@pytest.fixture(params=[500, pytest.param(10_000, marks=pytest.mark.nightly)])
def runs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Number of runs in the database of the window, with ten metrics each, as the benchmarks fill it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
        from large_store import METRICS as NAMES
        from large_store import fill, various_runs
    file = tmp_path / "large.sqlite"
    with Store(file) as store:
        fill(store, various_runs(request.param), [names for names in NAMES if names[1] == "acc"])
    gc.collect()  # of the garbage made here: else it may be collected while the window is watched
    monkeypatch.setenv("WINA_DATABASE", f"sqlite:///{file}")
    return request.param


def open_every_page(application: Application, qtbot, empty: set[str]) -> None:
    """Open all pages, of which some are in their empty state; none has anything to complain about."""
    window = application.window
    for key in every_page(window):
        page = window.pages[key]
        assert window.current_page is page
        qtbot.waitUntil(lambda page=page, key=key: page.is_empty == (key in empty))  # it reads once it is shown
        settle()
        assert page.message.isHidden(), f"{key}: {page.message.label.text()}"
        assert window.message.isHidden(), window.message.label.text()


def test_every_page_opens_before_there_is_anything_and_the_wheel_gives_no_field_the_focus(application, qtbot):
    open_every_page(application, qtbot, EMPTY)
    application.window.show_page("model")
    assert application.window.pages["model"].begin.isVisible()
    every = [field for kind in (QAbstractSpinBox, QComboBox) for field in application.window.findChildren(kind)]
    by_wheel = [field for field in every if field.focusPolicy() == Qt.FocusPolicy.WheelFocus]
    assert len(every) > 50
    assert [field.accessibleName() for field in by_wheel] == []


def test_every_page_opens_with_the_demo(application, qtbot):
    furnish(application)
    open_every_page(application, qtbot, set())


def test_every_page_opens_with_many_runs(runs, application, qtbot):
    results = application.window.pages["results"]
    qtbot.waitUntil(lambda: results.table.model().rowCount() == runs)
    open_every_page(application, qtbot, EMPTY - {"results"})
    assert f"{runs:,} runs" in [label.text() for label in results.findChildren(QLabel)]
    results.list.form.buttons["metrics"].click()
    metrics = 10 * runs
    qtbot.waitUntil(lambda: results.table.model().rowCount() == metrics)
    results.plots.show_plot("compare")  # no plot is drawn: the rest is about the table
    table = results.controller.table
    for change in (
        lambda: table.sort_by((SortKey("value", True), SortKey("when"))),
        lambda: results.table.selectRow(metrics // 2),
        *(partial(results.table.verticalScrollBar().setValue, row) for row in range(0, metrics, metrics // 4)),
        results.table.selectAll,
        lambda: qtbot.keyClick(results.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier),
        lambda: results.filter.setText("task:/[0-2]$/ -method:teal"),
    ):
        change()
        qtbot.wait(10)
    qtbot.waitUntil(lambda: 0 < table.count < metrics)
