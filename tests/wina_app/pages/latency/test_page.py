"""The Latency page as it is used: tick, type, measure, look, sort, copy, export."""

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog
from wina_app.pages.latency.page import LatencyPage

from tests.wina_app.fakes import load
from tests.wina_app.timed_points import ELSEWHERE, decoded, timed
from tests.wina_app.tour import settle


@pytest.fixture
def window(application, qtbot):
    """The whole window at its Latency page."""
    qtbot.waitUntil(lambda: "results.sqlite" in application.window.status._database.whole())
    application.window.show_page("latency")
    return application


@pytest.fixture
def page(window) -> LatencyPage:
    return window.window.pages["latency"]


def keep(window, *records):
    """Store timed points as jobs do."""
    for record in records:
        method = "record_decoding" if hasattr(record, "tokens_per_second") else "record_latency"
        window.workbench.store.write(lambda store, record=record, method=method: getattr(store, method)(record), print)


def small(page):
    """Three points: dense and WINA at two sparsities."""
    form = page.form.products
    for row in range(form.presets.count()):
        form.presets.item(row).setCheckState(Qt.CheckState.Unchecked)
    form.shapes.setText("64x48")
    form.batches.setText("1")
    form.sparsities.setText("25, 50")
    for box in form.dense_products.boxes.values():
        box.setChecked(False)


def test_choosing_what_is_shown_already_keeps_the_table(page):
    selection = page.table.selectionModel()
    page.kind_chosen.emit("products")
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert page.table.selectionModel() is selection
    assert page.table.selected_rows() == []


def test_the_form_is_restored_by_the_next_start(page):
    small(page)
    page.form.decoding.new_tokens.setValue(7)
    page.kind_chosen.emit("decoding")
    state = page.view_state()
    page.form.products.shapes.setText("")
    page.form.products.tick_presets(("paper",))
    page.form.decoding.new_tokens.setValue(8)
    page.kind_chosen.emit("products")
    page.restore_view(state | {"left plot": "none such"})
    assert page.form.decoding.isVisible()
    assert page.form.decoding.new_tokens.value() == 7
    choice = page.form.products.choice()
    assert (choice.presets, choice.shapes, choice.dense_products) == ((), "64x48", ())
    page.kind_chosen.emit("products")


def test_bad_input_is_said_at_its_field_and_keeps_the_button_from_working(page, qtbot):
    form = page.form.products
    before = [field.geometry() for field in form.fields.values()]
    form.shapes.setText("4096 by 11008")
    form.batches.setFocus()
    form.batches.setText("0")
    trouble = form.fields["batches"].trouble
    qtbot.waitUntil(trouble.isVisible)
    assert trouble.text() == "A batch of 0 is not possible; each must be 1 to 16,384."
    settle()
    assert [field.geometry() for field in form.fields.values()] == before, "nothing moves under the mouse"
    assert trouble.mapTo(form, QPoint()).y() > form.batches.mapTo(form, QPoint()).y()
    assert form.fields["shapes"].trouble.text().startswith('"4096 by 11008" is not a shape')
    assert not form.fields["shapes"].trouble.isVisible(), "it would cover the batches"
    form.shapes.setFocus()
    assert form.fields["shapes"].trouble.isVisible()
    assert not trouble.isVisible()
    assert form.batches.toolTip() == trouble.text()
    assert form.batches.accessibleDescription() == trouble.text()
    (empty,) = [state for state in page._nothing.values() if state.isVisible()]
    for button in (page.primary, empty.button):
        assert not button.isEnabled()
        assert button.toolTip() == form.fields["shapes"].trouble.text()
    small(page)
    qtbot.waitUntil(page.primary.isEnabled)
    assert empty.button.isEnabled()
    assert not empty.button.toolTip()
    assert not trouble.isVisible()


def test_without_points_the_page_says_what_it_is_for_and_its_button_measures(window, page, qtbot):
    small(page)
    qtbot.waitUntil(lambda: page.primary.text() == "Measure 3 points")
    assert not page.export.isEnabled()
    (empty,) = [state for state in page._nothing.values() if state.isVisible()]
    qtbot.mouseClick(empty.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(list(window.workbench.jobs)) == 1)
    qtbot.waitUntil(lambda: not page.primary.isEnabled())
    assert page.primary.toolTip() == "This sweep is queued or running already"
    (entry,) = window.workbench.jobs
    window.workbench.cancel(entry.id)
    qtbot.waitUntil(page.message.isVisible)
    assert "cancelled" in page.message.label.text()
    qtbot.waitUntil(page.primary.isEnabled)


def test_points_appear_in_the_table_and_in_both_plots_where_the_pointer_reads_them(window, page, qtbot):
    keep(window, timed(method="dense"), timed(sparsity=0.25), timed(sparsity=0.5, median=1.5))
    qtbot.waitUntil(lambda: page.table.model().rowCount() == 3)
    assert not any(state.isVisible() for state in page._nothing.values())
    left, right = page.plots.left, page.plots.right
    assert [trace.name for trace in left.traces] == [
        "wina",
        "bound 1 / (1 \N{MINUS SIGN} s)",
        "unstable",
    ]
    assert [trace.name.partition(" ")[0] for trace in right.traces] == ["wina", "16", "unstable"]
    assert right.traces[0].spans == ((1.5, 3.0), (1.125, 2.25))
    assert left.getPlotItem().getAxis("left").labelText == "speed-up over PyTorch dense"
    assert right.getPlotItem().getAxis("left").labelText == "latency, p10 to p90 (ms)"
    left.getPlotItem().vb.setXRange(20.0, 60.0, padding=0)
    assert right.getPlotItem().vb.viewRange()[0] == pytest.approx(left.getPlotItem().vb.viewRange()[0])
    settle()
    right._pointer_moved(right.getPlotItem().vb.mapViewToScene(QPointF(50.0, 1.5)))
    assert "1.5 ms (p10 1.125, p90 2.25)" in page.plots.readout.whole()
    (x,), (y,) = page.plots.left._catch.getData()
    assert (x, y) == (50.0, 2.0)
    assert page.plots.left._catch.isVisible()
    right.leaveEvent(QEvent(QEvent.Type.Leave))
    assert "memory bandwidth 16 GB/s: bound of reading the kept weights at 32 bits" in page.plots.readout.whole()
    assert not page.plots.left._catch.isVisible()


def test_shape_batch_and_machine_are_chosen_in_boxes(window, page, qtbot):
    keep(window, timed(), timed(batch=4), timed(outputs=128), timed(ELSEWHERE, outputs=32))
    qtbot.waitUntil(lambda: page.table.model().rowCount() == 3)
    assert page.machine.currentText() == "a test, 1 of 2 threads"
    page.subject.setFocus()
    qtbot.keyClick(page.subject, Qt.Key.Key_Home)
    assert page.subject.currentText() == "64x48 (down)"
    assert [page.load.itemText(row) for row in range(page.load.count())] == ["1", "4"]
    page.load.setFocus()
    qtbot.keyClick(page.load, Qt.Key.Key_Down)
    assert page.load.currentText() == "4"
    page.machine.setFocus()
    qtbot.keyClick(page.machine, Qt.Key.Key_Home)
    assert page.machine.currentText() == "a GPU"
    assert page.table.model().rowCount() == 1


def test_decoding_has_a_form_a_table_and_plots_of_its_own(window, page, qtbot):
    keep(window, timed(), decoded(0.5))
    page.form.kind.setFocus()
    qtbot.keyClick(page.form.kind, Qt.Key.Key_Down)
    assert page.form.decoding.isVisible()
    assert not page.form.products.isVisible()
    qtbot.waitUntil(lambda: page.table.model().columns[0].title == "model")
    qtbot.waitUntil(lambda: page.table.model().rowCount() == 1)
    assert page.plots.right.getPlotItem().getAxis("left").labelText == "tokens/s, p10 to p90"
    assert not page.y_axis.isEnabled()
    assert page.y_axis.toolTip()
    trouble = page.form.decoding.fields["model"].trouble
    qtbot.waitUntil(trouble.isVisible)
    assert trouble.text() == "Open a model first."
    load(window.workbench)
    qtbot.waitUntil(lambda: page.primary.text() == "Measure 2 points")
    assert page.count.text() == "up to 1:30 min"
    page.form.decoding.budget.setValue(0)
    qtbot.waitUntil(lambda: page.count.text() == "")
    assert page.form.decoding.model.text() == " / ".join(text for _, text in window.workbench.workspace.breadcrumb())
    page.form.decoding.sparsities.setText("150")
    qtbot.waitUntil(lambda: not page.primary.isEnabled())
    assert page.form.decoding.fields["sparsities"].trouble.text().startswith("A sparsity of 150 % is not possible")


def test_rows_are_sorted_selected_copied_and_exported(window, page, qtbot, tmp_path, monkeypatch):
    keep(window, timed(sparsity=0.25), timed(sparsity=0.5, median=1.5))
    qtbot.waitUntil(lambda: page.table.model().rowCount() == 2)
    titles = [column.title for column in page.table.model().columns]
    page.table.sortByColumn(titles.index("median ms"), Qt.SortOrder.AscendingOrder)
    page.table.selectRow(0)
    page.table.setFocus()
    qtbot.keyClick(page.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    heading, row = QGuiApplication.clipboard().text().split("\n")
    assert heading.split("\t") == titles
    cells = dict(zip(titles, row.split("\t"), strict=True))
    assert [cells[title] for title in ("target %", "vs PyTorch dense", "median ms", "p10 ms", "p90 ms", "backend")] == [
        *("50.0", "2", "1.5", "1.125", "2.25", "cpu")
    ]
    path = tmp_path / "latency.tsv"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    qtbot.mouseClick(page.export, Qt.MouseButton.LeftButton)
    assert len(path.read_text().splitlines()) == 3
    assert window.window.toasts.open[-1].accessibleName() == "Saved: 2 points in latency.tsv"
    keep(window, timed(sparsity=0.65))
    qtbot.waitUntil(lambda: page.table.model().rowCount() == 3)
    (chosen,) = page.table.selected_rows()
    assert page.table.model().shown[chosen].row.record.point.sparsity == 0.5, "it stays selected while points land"
