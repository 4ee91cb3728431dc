"""The Results page as it is used: filter, sort, select, plot, copy, export, and results that land meanwhile."""

import csv

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog
from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.page import ResultsPage

from tests.wina_app.stored_runs import NO_ROTATION, record_run, run_spec
from wina_core.analysis.results.columns import BY_KEY


@pytest.fixture
def page(show_page, store):
    return show_page(store)


@pytest.fixture
def filled(show_page, filled_store):
    return show_page(filled_store)


def filter_by(qtbot, page: ResultsPage, text: str) -> None:
    """Type a filter and rest."""
    page.filter.setText(text)
    qtbot.waitSignal(page._rest.timeout).wait()


def row_of(page: ResultsPage, method: str, metric: str, target: float, rotation: str = "none") -> int:
    identity = (method, metric, target, rotation)
    return next(
        number
        for number, entry in enumerate(page.controller.table.listed_rows)
        if (entry.method, entry.metric, entry.target_sparsity, entry.rotation) == identity
    )


def texts(page: ResultsPage, key: str) -> list[str]:
    model = page.table.model()
    return [model.index(row, BY_KEY[key]).data() for row in range(model.rowCount())]


def test_without_results_the_page_says_what_it_is_for(qtbot, page, store):
    assert page.is_empty
    assert not page.primary.isEnabled()
    with qtbot.waitSignal(page.crumb_clicked) as signal:
        page.empty_triggered.emit()
    assert signal.args == ["evaluate"]
    record_run(store, run_spec("wina", NO_ROTATION, 0.5))
    page.access.changed.emit()
    assert not page.is_empty
    assert page.table.model().rowCount() == 3


def test_the_filter_narrows_table_and_plot_alike_and_explains_what_it_cannot_read(qtbot, filled):
    filled.filter.setFocus()
    qtbot.waitUntil(filled.filter.hasFocus)
    qtbot.keyClicks(filled.filter, "method:teal metric:acc")
    assert len(filled.plots.frontier.plot.traces) == 3, "not while typing"
    qtbot.waitSignal(filled._rest.timeout).wait()
    assert set(texts(filled, "method")) == {"teal"}
    assert [trace.name for trace in filled.plots.frontier.plot.traces] == ["teal"]
    filter_by(qtbot, filled, "")
    assert len(filled.plots.frontier.plot.traces) == 3
    before = filled.table.geometry()
    filter_by(qtbot, filled, "methd:wina")
    assert "no column" in filled.problem.text()
    assert filled.problem.isVisible()
    assert filled.table.geometry() == before
    assert filled.table.model().rowCount() == 39, "the table stays as it was"
    filter_by(qtbot, filled, "method:wina")
    assert not filled.problem.isVisible()


def test_results_that_land_are_read_together_and_keep_selection_and_scroll(qtbot, filled, filled_store):
    filled.table.sortByColumn(BY_KEY["value"], Qt.SortOrder.AscendingOrder)
    filled.table.selectRow(20)
    key = filled.controller.table.listed_rows[20].key
    filled.table.verticalScrollBar().setValue(5)
    readings = []
    filled.controller.table.content_changed.connect(lambda: readings.append(filled.controller.table.stored))
    for sparsity in (0.7, 0.75, 0.8):
        record_run(filled_store, run_spec("teal", NO_ROTATION, sparsity))
        filled.access.changed.emit()
    assert readings == [42], "the first one at once"
    qtbot.waitUntil(lambda: len(readings) > 1)
    assert readings == [42, 48]
    (index,) = filled.table.selectionModel().selectedRows()
    assert filled.controller.table.listed_rows[index.row()].key == key
    assert filled.table.verticalScrollBar().value() == 5


def test_a_hidden_page_draws_no_frontier_until_it_is_shown(filled, filled_store, monkeypatch):
    drawn = []
    monkeypatch.setattr("wina_app.pages.results.plots.frontier.frontier", lambda *_: drawn.append(1))
    filled.hide()
    record_run(filled_store, run_spec("teal", NO_ROTATION, 0.75))
    filled.access.changed.emit()
    assert filled.controller.table.rowCount() == 42
    assert not drawn
    filled.show()
    assert drawn == [1]
    filled.hide()
    filled.show()
    assert drawn == [1], "nothing changed meanwhile"


def test_selected_rows_are_copied(qtbot, filled):
    filled.table.clearSelection()
    filled.table.setCurrentIndex(QModelIndex())
    commands = {action.text(): action for action in filled.commands}
    for command, missing in (
        ("Pin or unpin the selected runs", "No run is selected"),
        ("Delete the selected runs", "No run is selected"),
        ("Copy rows as Markdown", "No row is selected"),
    ):
        filled.clear_message()
        commands[command].trigger()
        assert filled.message.label.text().startswith(missing), command
    filled.table.selectRow(row_of(filled, "teal", "acc", 0.25))
    filled.table.setFocus()
    qtbot.keyClick(filled.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    titles, cells = QGuiApplication.clipboard().text().split("\n")
    assert titles.split("\t") == [column.title for column, listed in ColumnChoice().offered if listed]
    assert cells.split("\t")[: BY_KEY["task"]] == ["demo-llama", "teal", "none", "topk", "", "24.8", "24.8", "25.0"]
    commands["Copy rows as Markdown"].trigger()
    assert QGuiApplication.clipboard().text().startswith("| model | method |")
    commands["Copy rows as LaTeX"].trigger()
    assert "\\toprule" in QGuiApplication.clipboard().text()


def test_the_export_is_exactly_what_is_shown(qtbot, filled, tmp_path, monkeypatch):
    chosen, saved = ("", ""), []
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: chosen)
    filled.saved.connect(lambda *said: saved.append(said))
    filter_by(qtbot, filled, "wina acc")
    filled.columns.show("seed")
    filled.table.sortByColumn(BY_KEY["value"], Qt.SortOrder.DescendingOrder)
    listed = filled.controller.table.listed_rows
    assert len(listed) == 8
    chosen = str(tmp_path / "results"), "TSV (*.tsv)"
    filled.primary.click()
    assert saved == [(tmp_path / "results.tsv", "8 rows in results.tsv")], "in the chosen format"
    rows = list(csv.DictReader((tmp_path / "results.tsv").open(), delimiter="\t"))
    assert [float(row["value"]) for row in rows] == [entry.value for entry in listed], "to the last digit"
    assert [(row["target %"], row["seed"]) for row in rows] == [
        (str(100 * entry.target_sparsity), "1234") for entry in listed
    ]
    assert "run" not in rows[0], "columns that are hidden stay out"
    chosen = str(tmp_path / "results.tex"), ""
    filled.primary.click()
    assert (tmp_path / "results.tex").read_text().count("demo\\_choice") == 8
    chosen = str(tmp_path / "missing" / "results.csv"), ""
    filled.primary.click()
    assert "folder does not exist" in filled.message.label.text()


def test_one_selected_run_that_is_gated_can_be_exported(filled):
    table, selection = filled.controller.table, filled.controller.selection
    runs = {table.cells["method"].text(row): str(table.cells["hash"].value(row)) for row in range(table.count)}
    for chosen, possible in (
        ((), False),
        ((runs["wina"],), True),
        ((runs["wina"], runs["teal"]), False),
        ((runs["dense"],), False),
    ):
        selection.select(chosen)
        assert filled.export.button.isEnabled() == filled.export.action.isEnabled() == possible
        assert filled.export.button.toolTip()
