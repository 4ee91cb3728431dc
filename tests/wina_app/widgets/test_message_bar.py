"""Errors and notices over a page: nothing moves, notices expire, everything is in the log."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPlainTextEdit
from wina_app.style.theme import apply_stylesheet
from wina_app.widgets.base_page import Page

LONG = "The file has a line that cannot be read, and so it was not opened. " * 4


@pytest.fixture
def page(qtbot):
    shown = Page("model", "Model")
    shown.set_content(QPlainTextEdit())
    shown.set_primary("Load")
    shown.set_breadcrumb([("model", "a model with quite a long name")])
    apply_stylesheet(shown)
    qtbot.addWidget(shown)
    shown.resize(1000, 500)
    with qtbot.waitExposed(shown):
        shown.show()
    return shown


def test_notices_expire_but_not_under_the_pointer_or_the_focus_and_errors_stay(page, qtbot):
    page.show_notice("The plan was pasted.")
    message = page.message
    assert message.expiry.isActive()
    message.retry.show()
    message.retry.setFocus()
    message.expiry.timeout.emit()
    assert message.isVisible()
    page.setFocus()
    message.retry.clearFocus()
    message.expiry.timeout.emit()
    assert message.isHidden()
    page.show_notice("Another.")
    page.show_error("It broke.")
    assert not message.expiry.isActive()
    message.retry.setFocus()
    qtbot.keyClick(message, Qt.Key.Key_Escape)
    assert message.isHidden()


def test_a_notice_waits_behind_an_error_and_one_that_lasts_behind_both(page):
    message = page.message
    message.show_message("lasting", "Results wait in memory.")
    page.show_notice("The cell is locked.")
    page.show_error("It broke.")
    page.show_notice("The plan was pasted.")
    shown = []
    while message.isVisible():
        shown.append((message.property("role"), message.label.text()))
        message.dismiss()
    assert shown == [
        ("error", "It broke."),
        ("notice", "The plan was pasted."),
        ("notice", "Results wait in memory."),
    ]
