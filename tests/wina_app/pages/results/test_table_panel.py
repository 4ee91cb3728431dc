"""The Results page's table as it is used: sort keys, groups, columns, marks and deletion by mouse and keyboard."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QLineEdit
from wina_app.pages.results.columns import ColumnChoice
from wina_app.services.settings import Settings
from wina_app.style.theme import GRID, tokens

from wina_core.analysis.results.columns import BY_KEY
from wina_core.store.annotations import RunAnnotations


@pytest.fixture
def store(filled_store):
    return filled_store


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path / "window.json")


@pytest.fixture
def page(show_page, store, settings):
    return show_page(store, settings)


def click_heading(qtbot, page, key, modifier=Qt.KeyboardModifier.NoModifier):
    header = page.table.horizontalHeader()
    page.table.scrollTo(page.table.model().index(0, BY_KEY[key]))
    where = QPoint(header.sectionViewportPosition(BY_KEY[key]) + 20, header.height() // 2)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, modifier, where)


def headings(page):
    """As they stand from left to right."""
    header, model = page.table.horizontalHeader(), page.table.model()
    sections = [header.logicalIndex(visual) for visual in range(header.count())]
    return [model.columns[section].key for section in sections if not header.isSectionHidden(section)]


def commands(page):
    return {action.text(): action for action in page.commands}


def test_headings_sort_up_down_and_not_at_all_and_with_shift_within(qtbot, page):
    table = page.controller.table
    before = [entry.key for entry in table.listed_rows]
    click_heading(qtbot, page, "target")
    click_heading(qtbot, page, "method", Qt.KeyboardModifier.ShiftModifier)
    cells = [(entry.target_sparsity, entry.method) for entry in table.listed_rows]
    assert cells == sorted(cells)
    click_heading(qtbot, page, "target")
    click_heading(qtbot, page, "target")
    assert table.listed_rows[0].target_sparsity == 0.65
    click_heading(qtbot, page, "target")
    assert [entry.key for entry in table.listed_rows] == before


def test_the_keyboard_sorts_by_the_column_it_is_in(qtbot, page):
    page.table.setFocus()
    page.table.setCurrentIndex(page.table.model().index(0, BY_KEY["value"]))
    qtbot.keyClick(page.table, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    values = [entry.value for entry in page.controller.table.listed_rows]
    assert values == sorted(values, reverse=True)


def test_groups_open_and_close_by_click_and_keyboard(qtbot, page):
    page.list.group.setCurrentIndex(page.list.group.findData("method"))
    page.list.group.activated.emit(page.list.group.currentIndex())
    table, view = page.controller.table, page.table
    picture = view.viewport().grab().toImage()
    top, across = view.rowViewportPosition(0) + 2, range(picture.width() // 2, picture.width() - 2 * GRID, GRID)
    assert {picture.pixelColor(x, top).name() for x in across} == {tokens().raised}, "painted across all columns"
    lines = table.rowCount()
    where = QPoint(30, view.rowViewportPosition(0) + 5)
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=where)
    assert table.rowCount() == lines - table.group_at(0).count
    view.setFocus()
    for key, is_open in ((Qt.Key.Key_Right, True), (Qt.Key.Key_Left, False), (Qt.Key.Key_Space, True)):
        qtbot.keyClick(view, key)
        assert table.group_at(0).open is is_open
    commands(page)["Close all groups"].trigger()
    assert table.rowCount() == 3


def test_chosen_columns_are_shown_in_their_order_and_kept(qtbot, page, settings):
    assert headings(page) == ColumnChoice().visible_keys()
    page.list.choose_columns()
    chooser = page.list._chooser
    chooser.list.setFocus()
    chooser.list.setCurrentRow(0)
    qtbot.keyClick(chooser.list, Qt.Key.Key_Space)
    assert headings(page)[0] == "method"
    chooser.list.setCurrentRow(1)
    qtbot.keyClick(chooser.list, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert headings(page)[:2] == ["rotation", "method"]
    chooser.close()
    assert ColumnChoice(settings.results_columns).visible_keys() == headings(page)
    page.table.horizontalHeader().moveSection(0, 1)
    assert headings(page)[:2] == ["method", "rotation"]
    assert ColumnChoice(settings.results_columns).visible_keys() == headings(page)
    chooser.usual.click()
    assert headings(page) == ColumnChoice().visible_keys()


def test_only_what_differs_is_shown_and_the_rest_is_told(page):
    page.controller.set_filter("metric:acc method:teal")
    page.list.differing.setChecked(True)
    assert headings(page) == ["gated", "net", "target", "value"]
    assert "method teal" in page.list.common.whole()
    assert "n 800" in page.list.common.whole()
    page.controller.set_filter("metric:acc")
    assert "method" in headings(page), "it follows what is shown"
    page.list.differing.setChecked(False)
    assert headings(page) == ColumnChoice().visible_keys()
    assert page.list.common.whole() == ""


def test_the_delete_key_deletes_the_selected_runs_and_undo_brings_them_back(qtbot, page, store):
    page.table.setFocus()
    page.table.selectRow(4)
    run = page.controller.table.run_at(4)
    qtbot.keyClick(page.table, Qt.Key.Key_Delete)
    assert [row.run for row in store.deleted_runs()] == [run]
    assert page.controller.table.count == 36
    page.undo_stack.undo()
    assert page.controller.table.count == 39


def test_tags_are_edited_in_the_table_and_in_the_inspector(qtbot, page, store):
    page.table.setFocus()
    page.table.selectRow(0)
    run = page.controller.table.run_at(0)
    commands(page)["Edit the tags of the current run"].trigger()
    (editor,) = page.table.viewport().findChildren(QLineEdit)
    qtbot.keyClicks(editor, "best, report")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: store.run_details()[run].tags == "best, report")
    assert page.inspector.tags.text() == "best, report"
    qtbot.addWidget(page.inspector)
    page.inspector.tags.setText("")
    qtbot.keyClicks(page.inspector.tags, "none of these")
    qtbot.keyClick(page.inspector.tags, Qt.Key.Key_Return)
    page.inspector.note.insertPlainText("look again")
    page.inspector.note.finished.emit()
    page.inspector.pinned.click()
    assert store.run_details()[run][:3] == ("none of these", "look again", True)
    page.undo_stack.undo()
    assert not page.inspector.pinned.isChecked()


def test_the_inspector_says_what_is_known_of_the_selected_run_and_pinned_rows_have_a_bar(page, store):
    assert not page.inspector.tags.isEnabled()
    assert page.inspector.tags.toolTip()
    run = page.controller.table.listed_rows[-1].run
    page.controller.annotations.toggle_pin([run])
    picture, middle = page.table.viewport().grab().toImage(), page.table.rowHeight(0) // 2
    assert picture.pixelColor(1, middle).name() == tokens().accent
    assert picture.pixelColor(1, page.table.rowViewportPosition(4) + middle).name() != tokens().accent
    assert store.run_details()[run].pinned
    run = page.controller.table.run_at(6)
    store.annotate_runs({run: RunAnnotations(note="well")})
    page.controller.refresh()
    page.table.selectRow(6)
    assert page.inspector.title.text() == f"Run {run}"
    assert page.inspector.note.toPlainText() == "well"
    facts = dict(page.controller.annotations.facts(run).cells)
    assert (facts["run"], facts["method"]) == (run, "teal")
    assert page.controller.annotations.facts("another") is None
    page.table.selectAll()
    assert page.inspector.title.text() == "13 runs"


def test_names_of_columns_are_completed_while_they_are_typed(qtbot, page):
    page.filter.setFocus()
    qtbot.keyClicks(page.filter, "acc -me")
    assert page.filter._completer.completionPrefix() == "me"
    assert page.filter._completer.popup().isVisible()
    page.filter._complete("method")
    assert page.filter.text() == "acc -method:"
    qtbot.keyClicks(page.filter, "teal")
    qtbot.waitUntil(lambda: page.controller.table.count == 9)
    assert not page.filter._completer.popup().isVisible(), "what stands after a colon is no name"
