"""The Results page's table as it is used: order, columns and marks by mouse and keyboard."""

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtWidgets import QApplication, QMenu
from wina_app.pages.results.columns import ColumnChoice
from wina_app.services.settings import Settings

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


def headings(page):
    """As they stand from left to right."""
    header, model = page.table.horizontalHeader(), page.table.model()
    sections = [header.logicalIndex(visual) for visual in range(header.count())]
    return [model.columns[section].key for section in sections if not header.isSectionHidden(section)]


def test_a_heading_sorts_up_down_and_not_at_all(qtbot, page):
    table, header = page.controller.table, page.table.horizontalHeader()
    before = [entry.key for entry in table.listed_rows]
    where = QPoint(header.sectionViewportPosition(BY_KEY["target"]) + 20, header.height() // 2)
    for expected in (0.0, 0.65):
        qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=where)
        assert table.listed_rows[0].target_sparsity == expected
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=where)
    assert [entry.key for entry in table.listed_rows] == before


def test_chosen_columns_are_shown_in_their_order_and_kept(page, settings):
    def choose(text: str) -> None:
        page.list.choose_columns()
        (menu,) = page.list.findChildren(QMenu)
        next(action for action in menu.actions() if action.text() == text).trigger()
        menu.close()
        QApplication.sendPostedEvents(menu, QEvent.Type.DeferredDelete)

    assert headings(page) == ColumnChoice().visible_keys()
    choose("model")
    assert headings(page)[0] == "method"
    page.table.horizontalHeader().moveSection(page.table.horizontalHeader().visualIndex(BY_KEY["method"]), 1)
    assert headings(page)[:2] == ["rotation", "method"]
    assert ColumnChoice(settings.results_columns).visible_keys() == headings(page)
    choose("Default columns")
    assert headings(page) == ColumnChoice().visible_keys()


def test_the_first_column_stays_while_the_others_scroll(qtbot, page):
    page.resize(620, 700)
    first, bar = page.table._first, page.table.horizontalScrollBar()
    assert not first.isVisible()
    bar.setValue(bar.maximum())
    qtbot.waitUntil(first.isVisible)
    qtbot.mouseClick(first.viewport(), Qt.MouseButton.LeftButton, pos=first.viewport().rect().center())
    assert page.table.selected_rows()


def test_tags_and_notes_are_edited_in_the_inspector(qtbot, page, store):
    page.table.selectRow(0)
    run = page.controller.table.run_at(0)
    qtbot.addWidget(page.inspector)
    qtbot.keyClicks(page.inspector.tags, "none of these")
    qtbot.keyClick(page.inspector.tags, Qt.Key.Key_Return)
    page.inspector.note.insertPlainText("look again")
    page.inspector.note.finished.emit()
    page.inspector.pinned.click()
    assert store.run_details()[run][:3] == ("none of these", "look again", True)
    page.undo_stack.undo()
    assert not page.inspector.pinned.isChecked()


def test_the_inspector_says_what_is_known_of_the_selected_run(page, store):
    assert not page.inspector.tags.isEnabled()
    assert page.inspector.tags.toolTip()
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
