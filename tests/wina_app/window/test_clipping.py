"""Nothing is cut off and nothing lies over something else, in a small window, at 150 % text size, beside open docks."""

from itertools import islice

import pytest
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget
from wina_app.services.settings import Preferences
from wina_app.widgets.controls import ElidedLabel, beside
from wina_app.widgets.scroll_page import ScrollPage

from tests.wina_app.layout_checks import clipped_texts, overlaps
from tests.wina_app.tour import every_dialog, every_page, every_side, furnish, settle

pytestmark = pytest.mark.all_pages

SIZES = (100, 150)
_LOOKS = 3


def _faults(root: QWidget, where: str) -> list[str]:
    """Those that stay: an answer of the store's thread may have come right before, and not be laid out yet."""
    for _ in range(_LOOKS):
        found = [f"{where}: {fault}" for fault in (*clipped_texts(root), *overlaps(root))]
        if not found:
            break
        settle()
    return found


def test_no_text_is_cut_off_on_any_page_at_150_percent(application):
    """Where there is least room; the next test looks everywhere."""
    window = application.window
    try:
        window.apply_preferences(Preferences(text_size=SIZES[-1]))
        furnish(application)
        next(every_side(window))
        faults = [fault for page in every_page(window) for fault in _faults(window, page)]
    finally:
        window.apply_preferences(Preferences())
    assert not faults, "\n".join(faults)


@pytest.mark.nightly
def test_no_text_is_cut_off_on_any_page_or_dialog_at_any_text_size(application):
    window, faults = application.window, []
    try:
        for size in SIZES:
            window.apply_preferences(Preferences(text_size=size))
            for page in every_page(window):
                faults += _faults(window, f"{page}, empty, at {size} %")
        furnish(application)
        for size in SIZES[::-1]:
            window.apply_preferences(Preferences(text_size=size))
            for side in islice(every_side(window), 3 if size == SIZES[-1] else 1):
                for page in every_page(window):
                    faults += _faults(window, f"{page}, {side}, at {size} %")
        assert (window.width(), window.height()) == (1280, 720)
        for size in SIZES:
            window.apply_preferences(Preferences(text_size=size))
            for dialog in every_dialog(application):
                faults += _faults(dialog, f"{type(dialog).__name__} at {size} %")
    finally:
        window.apply_preferences(Preferences())
    assert not faults, "\n".join(faults)


@pytest.fixture
def box(qtbot):
    """Shows widgets in a column of a width, in a given height."""

    def shown(*widgets: QWidget, width: int = 200, height: int = 200) -> QWidget:
        root = QWidget()
        qtbot.addWidget(root)
        column = QVBoxLayout(root)
        column.setSizeConstraint(QVBoxLayout.SizeConstraint.SetNoConstraint)
        for widget in widgets:
            column.addWidget(widget)
        root.resize(width, height)
        root.show()
        settle()
        return root

    return shown


def test_a_text_without_room_is_found(box):
    long, wrapped, high = QLabel("a text that takes far more than so few pixels"), QLabel("several words"), QLabel("x")
    for label in (long, wrapped, high):
        label.setMinimumSize(1, 1)
    wrapped.setWordWrap(True)
    wrapped.setFixedHeight(5)
    assert len(clipped_texts(box(long, wrapped, high, width=60))) == 2
    assert "wide" in clipped_texts(box(QPushButton("a long text"), width=40))[0]


def test_a_text_that_gives_way_and_one_that_scrolls_are_left_alone(box):
    elided = ElidedLabel()
    elided.setText("a text that takes far more than so few pixels")
    scrolled = QWidget()
    QVBoxLayout(scrolled).addWidget(QLabel("a text that takes far more than so few pixels"))
    assert not clipped_texts(box(elided, ScrollPage(scrolled), width=60))


def test_a_row_wraps_where_there_is_no_room_and_takes_the_height_for_it(box):
    row = QWidget()
    buttons = [QPushButton(f"button {number}") for number in range(4)]
    row.setLayout(beside(*buttons))
    root = box(row, width=4 * buttons[0].sizeHint().width() + 80)
    assert len({button.y() for button in buttons}) == 1
    root.resize(2 * buttons[0].sizeHint().width() + 40, 200)
    settle()
    assert len({button.y() for button in buttons}) == 2
    assert not clipped_texts(root)
    assert not overlaps(root)
