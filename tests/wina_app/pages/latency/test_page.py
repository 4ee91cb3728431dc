"""The Latency page as it is used: tick, type, measure, look, sort, copy, export."""

import csv

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog

from tests.wina_app.fakes import done, load
from tests.wina_app.timed_points import decoded, timed
from tests.wina_app.tour import settle


def record(workbench, *records):
    """Store timed points as jobs do."""
    for one in records:
        method = "record_decoding" if hasattr(one, "tokens_per_second") else "record_latency"
        workbench.store.write(lambda store, one=one, method=method: getattr(store, method)(one), print)


def small(page):
    """Three points: dense and WINA at two sparsities."""
    form = page.form.products
    form.tick_presets(())
    form.shapes.setText("64x48")
    form.batches.setText("1")
    form.sparsities.setText("25, 50")
    for box in form.dense_products.boxes.values():
        box.setChecked(False)


def empty_state(page):
    return next(state for state in page._nothing.values() if state.isVisible())


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
    assert (page.form.products.ticked_presets(), page.form.products.shapes.text()) == ((), "64x48")


def test_bad_input_is_said_at_its_field_and_keeps_the_button_from_working(page, qtbot):
    form = page.form.products
    before = [field.geometry() for field in form.fields.values()]
    form.shapes.setText("4096 by 11008")
    form.batches.setFocus()
    form.batches.setText("0")
    trouble = form.fields["batches"].trouble
    qtbot.waitUntil(trouble.isVisible)
    settle()
    assert [field.geometry() for field in form.fields.values()] == before, "nothing moves under the mouse"
    assert trouble.mapTo(form, QPoint()).y() > form.batches.mapTo(form, QPoint()).y()
    assert not form.fields["shapes"].trouble.isVisible(), "it would cover the batches"
    form.shapes.setFocus()
    assert form.fields["shapes"].trouble.isVisible()
    assert not trouble.isVisible()
    assert form.batches.toolTip() == form.batches.accessibleDescription() == trouble.text()
    buttons = (page.primary, empty_state(page).button)
    for button in buttons:
        assert not button.isEnabled()
        assert button.toolTip() == form.fields["shapes"].trouble.text()
    small(page)
    qtbot.waitUntil(page.primary.isEnabled)
    assert buttons[1].isEnabled()
    assert not buttons[1].toolTip()
    assert not trouble.isVisible()


def test_without_points_the_page_says_what_it_is_for_and_its_button_measures(workbench, page, qtbot):
    small(page)
    qtbot.waitUntil(lambda: page.primary.text() == "Measure 3 points")
    assert not page.export.isEnabled()
    qtbot.mouseClick(empty_state(page).button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not page.primary.isEnabled())
    assert page.primary.toolTip() == "This sweep is queued or running already"
    assert page.progress.isVisible()
    workbench.fake_engine.answer(done(cancelled=True))
    assert "cancelled" in page.message.label.text()
    qtbot.waitUntil(page.primary.isEnabled)


def test_points_appear_in_the_table_and_in_both_plots_where_the_pointer_reads_them(workbench, page, qtbot):
    record(workbench, timed(method="dense"), timed(sparsity=0.25), timed(sparsity=0.5, median=1.5))
    qtbot.waitUntil(lambda: page.table.model().rowCount() == 3)
    left, right = page.plots.left, page.plots.right
    assert [trace.name for trace in left.traces] == ["wina", "bound 1 / (1 \N{MINUS SIGN} s)"]
    assert [trace.name.partition(" ")[0] for trace in right.traces] == ["wina", "16"]
    assert right.traces[0].spans == ((1.5, 3.0), (1.125, 2.25))
    left.getPlotItem().vb.setXRange(20.0, 60.0, padding=0)
    assert right.getPlotItem().vb.viewRange()[0] == pytest.approx(left.getPlotItem().vb.viewRange()[0])
    settle()
    right._pointer_moved(right.getPlotItem().vb.mapViewToScene(QPointF(50.0, 1.5)))
    assert "1.5 ms (p10 1.125, p90 2.25)" in page.plots.readout.whole()
    (x,), (y,) = left._catch.getData()
    assert (x, y) == (50.0, 2.0)
    right.leaveEvent(QEvent(QEvent.Type.Leave))
    assert "memory bandwidth 16 GB/s: bound of reading the kept weights at 32 bits" in page.plots.readout.whole()
    assert not left._catch.isVisible()


def test_decoding_has_a_form_a_table_and_plots_of_its_own(workbench, page, qtbot):
    record(workbench, timed(), decoded(0.5))
    page.form.kind.setFocus()
    qtbot.keyClick(page.form.kind, Qt.Key.Key_Down)
    decoding = page.form.decoding
    assert (decoding.isVisible(), page.form.products.isVisible()) == (True, False)
    assert page.table.model().columns[0].title == "model"
    assert page.table.model().rowCount() == 1
    assert not page.y_axis.isEnabled()
    assert page.y_axis.toolTip()
    qtbot.waitUntil(lambda: decoding.fields["model"].trouble.text() == "Open a model first.")
    load(workbench)
    qtbot.waitUntil(lambda: page.primary.text() == "Measure 2 points")
    assert page.count.text() == "up to 1:30 min"
    decoding.budget.setValue(0)
    qtbot.waitUntil(lambda: page.count.text() == "")
    assert decoding.model.text() == " / ".join(text for _, text in workbench.workspace.breadcrumb())


def test_rows_are_sorted_selected_copied_and_exported_to_the_last_digit(workbench, page, qtbot, tmp_path, monkeypatch):
    record(workbench, timed(sparsity=0.25), timed(sparsity=0.5, median=1.0 / 3.0), decoded(0.5))
    qtbot.waitUntil(lambda: page.table.model().rowCount() == 2)
    titles = [column.title for column in page.table.model().columns]
    page.table.sortByColumn(titles.index("median ms"), Qt.SortOrder.AscendingOrder)
    page.table.selectRow(0)
    page.table.setFocus()
    qtbot.keyClick(page.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    heading, row = QGuiApplication.clipboard().text().split("\n")
    cells = dict(zip(heading.split("\t"), row.split("\t"), strict=True))
    assert [cells[title] for title in ("target %", "median ms", "backend")] == ["50.0", "0.3333", "cpu"]
    chosen, saved = [str(tmp_path / "latency.csv")], []
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (chosen[-1], ""))
    page.saved.connect(lambda path, text: saved.append((path.name, text)))
    qtbot.mouseClick(page.export, Qt.MouseButton.LeftButton)
    rows = list(csv.DictReader((tmp_path / "latency.csv").open()))
    assert [(float(row["median ms"]), float(row["target %"])) for row in rows] == [(1.0 / 3.0, 50.0), (2.0, 25.0)]
    record(workbench, timed(sparsity=0.65))
    qtbot.waitUntil(lambda: page.table.model().rowCount() == 3)
    (selected,) = page.table.selected_rows()
    assert page.table.model().shown[selected].row.record.point.sparsity == 0.5, "it stays selected while points land"
    page.kind_chosen.emit("decoding")
    chosen.append(str(tmp_path / "worth.csv"))
    qtbot.mouseClick(page.export, Qt.MouseButton.LeftButton)
    (row,) = csv.DictReader((tmp_path / "worth.csv").open())
    assert (row["vs dense"], row["missing"]) == ("1.5", "batch 2, 4, 8, our kernels at 0 %")
    assert saved == [("latency.csv", "2 points in latency.csv"), ("worth.csv", "")]
    chosen.append(str(tmp_path / "missing" / "worth.csv"))
    qtbot.mouseClick(page.export, Qt.MouseButton.LeftButton)
    assert "folder does not exist" in page.message.label.text()
