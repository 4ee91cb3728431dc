"""The table with one row per run: metrics as columns, means, widths, and what the next start restores."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from wina_app.pages.results.table import ResultsTable, SortKey
from wina_app.style.theme import GRID

from tests.wina_app.pages.results.results_content import cells_of_rows
from tests.wina_app.stored_runs import CONFIGURATIONS, SPARSITIES
from tests.wina_app.tour import settle
from wina_core.analysis.results.columns import COLUMNS
from wina_core.analysis.results.filter import parse_filter, passing
from wina_core.analysis.results.runs import MEAN, RunResults, is_measure

RUNS = 1 + len(CONFIGURATIONS) * len(SPARSITIES)
ACC = "metric\tdemo_choice\tacc"


def show(table: ResultsTable, rows, line: str = "") -> RunResults:
    cells = cells_of_rows(rows)
    mask = passing(parse_filter(line, COLUMNS), cells)
    runs = RunResults(cells, mask)
    table.show(cells, mask, runs)
    return runs


@pytest.fixture
def rows(filled_store):
    return filled_store.metric_rows()


@pytest.fixture
def page(show_page, filled_store):
    return show_page(filled_store, form="runs")


def test_each_run_is_a_row_with_its_metrics_as_columns(rows):
    runs = show(ResultsTable(), rows)
    assert len(runs) == RUNS
    dense = next(row_number for row_number in range(RUNS) if runs["method"].text(row_number) == "dense")
    assert runs[ACC].text(dense) == "0.710 ± 0.016"
    assert runs["gated"].text(dense) == "–"
    for row_number, run in enumerate(runs.runs):
        (value,) = [row.value for row in rows if (row.run, row.metric) == (run, "acc")]
        assert runs[ACC].value(row_number) == value


def test_the_mean_is_over_the_preferred_metric_of_each_task_for_runs_that_have_all(rows):
    first = next(row for row in rows if row.metric == "acc")
    several = [
        first._replace(task="a", unit="a", value=0.4, stderr=0.03),
        first._replace(task="a", unit="a", metric="acc_norm", value=0.6, stderr=0.03),
        first._replace(task="b", unit="b", value=0.8, stderr=0.04),
        first._replace(task="b", unit="b", run="lacks a", value=0.9),
    ]
    runs = show(ResultsTable(), several)
    assert runs[MEAN].text(0) == "0.700 ± 0.025"
    assert runs[MEAN].text(1) == "–"
    titles = [column.title for column in runs.columns if is_measure(column.key)]
    assert titles == ["mean of tasks", "a acc_norm", "b acc", "a acc"]


def test_the_forms_share_filter_selection_and_plots(qtbot, page):
    assert page.table.model().rowCount() == RUNS
    page.filter.setText("method:teal")
    qtbot.waitUntil(lambda: page.table.model().rowCount() == len(SPARSITIES))
    page.table.selectRow(1)
    run = page.controller.table.run_at(1)
    assert page.controller.selection.runs == (run,)
    page.list.form.buttons["metrics"].click()
    assert page.table.model().rowCount() == 3 * len(SPARSITIES)
    assert page.controller.selection.runs == (run,)
    assert {page.controller.table.run_at(row) for row in page.table.selected_rows()} == {run}
    assert [trace.name for trace in page.plots.frontier.plot.traces] == ["teal"]


def test_a_cell_is_copied_and_the_menu_of_a_heading_sorts_and_hides(page):
    from wina_app.pages.results.table_view import header_menu

    def choose(key: str, text: str) -> None:
        section = [column.key for column in page.controller.table.columns].index(key)
        menu = header_menu(page.table, section)
        next(action for action in menu.actions() if action.text() == text).trigger()

    section = [column.key for column in page.controller.table.columns].index(ACC)
    page.table.setCurrentIndex(page.table.model().index(0, section))
    next(action for action in page.table.actions() if action.text() == "Copy cell").trigger()
    assert QGuiApplication.clipboard().text() == "0.710 ± 0.016", "as it reads"
    choose("method", "Sort descending")
    assert page.controller.table.keys == (SortKey("method", True),)
    choose(ACC, "Clear the sort")
    assert page.controller.table.keys == ()
    choose("status", "Hide the column")
    assert "status" not in page.columns.visible_keys()


def test_the_next_start_restores_the_view(show_page, filled_store, page):
    page.list.form.buttons["metrics"].click()
    page.controller.table.sort_by((SortKey("value", True), SortKey("task")))
    page.filter.setText("method:teal")
    page.controller.set_filter("method:teal")
    page.table.widths = {"value": 20.0}
    page.halves.setSizes([300, 200])
    page.plots.show_plot("layers")
    page.controller.selection.select([page.controller.table.run_at(1)])
    state = page.view_state()
    after = show_page(filled_store)
    after.restore_view(state)
    assert after.view_state() == state
    assert after.table.model().rowCount() == page.table.model().rowCount()


def test_the_preview_is_what_is_saved(page, tmp_path, monkeypatch):
    from PySide6.QtWidgets import QFileDialog
    from wina_app.pages.results.dialogs import PaperDialog

    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "table.tex"), ""))
    page.list.paper.click()
    (dialog,) = page.findChildren(PaperDialog)
    dialog.caption.setText("50 % of the weights_")
    assert "\\caption{50 \\% of the weights\\_}" in dialog.preview.toPlainText()
    assert "\\mathbf{0.702} \\pm 0.016" in dialog.preview.toPlainText(), "the best but the dense reference"
    dialog.save.click()
    assert (tmp_path / "table.tex").read_text() == dialog.preview.toPlainText()
    dialog.bold.setChecked(False)
    assert "mathbf" not in dialog.preview.toPlainText()
    dialog.format.buttons[".md"].click()
    assert dialog.preview.toPlainText().startswith("| method | rotation |"), "the model is the same in all rows"
    dialog.compact.setChecked(False)
    assert dialog.preview.toPlainText().startswith("| model | method |")
    dialog.close()


def test_columns_are_as_wide_as_their_numbers_and_keep_the_users_width(page, qtbot):
    table = page.table
    for width in (1000, 1900, 1280):
        page.resize(width, 700)
        settle()
    page.controller.set_form("metrics")
    qtbot.waitUntil(lambda: not table.model().of_runs)
    page.controller.set_form("runs")
    qtbot.waitUntil(lambda: table.model().of_runs)
    assert table.widths == {}, "the last column is stretched by Qt, not by the user"
    column = [heading.key for heading in table.model().columns].index(ACC)
    texts = [table.model().index(row, column).data() for row in range(RUNS)]
    assert table.columnWidth(column) >= max(map(table.fontMetrics().horizontalAdvance, texts)) + 2 * GRID
    header = table.horizontalHeader()
    edge = QPoint(header.sectionViewportPosition(column) + header.sectionSize(column) - 1, 5)
    qtbot.mousePress(header.viewport(), Qt.MouseButton.LeftButton, pos=edge)
    qtbot.mouseMove(header.viewport(), edge + QPoint(80, 0))
    qtbot.mouseRelease(header.viewport(), Qt.MouseButton.LeftButton, pos=edge + QPoint(80, 0))
    assert table.widths.keys() == {ACC}
