"""The wheel over fields: it scrolls their panel, and changes only a focused field."""

import pytest
from PySide6.QtCore import QPoint, QPointF
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QScrollArea, QVBoxLayout, QWidget
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.fields import choices, decimal, whole_number


def turn(field):
    """Turn the wheel by one notch over the field's centre."""
    place = field.mapTo(field.window(), field.rect().center())
    QTest.wheelEvent(field.window().windowHandle(), QPointF(place), QPoint(0, -120))


def filled(box):
    box.fill([("one", 1), ("two", 2)], 1)
    return box


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda: whole_number(0, 99, 5), "value"),
        (lambda: decimal(0.0, 1.0, 0.5), "value"),
        (lambda: choices([("one", 1, ""), ("two", 2, "")]), "currentIndex"),
        (lambda: filled(ComboBox("count")), "currentIndex"),
    ],
)
def test_the_wheel_scrolls_the_panel_and_changes_only_the_focused_field(qtbot, make, value):
    area, content, field = QScrollArea(), QWidget(), make()
    column = QVBoxLayout(content)
    column.addWidget(field)
    column.addSpacing(2000)
    area.setWidget(content)
    area.resize(300, 200)
    qtbot.addWidget(area)
    area.show()
    qtbot.waitExposed(area)
    area.setFocus()
    qtbot.waitUntil(area.hasFocus)
    before = getattr(field, value)()
    turn(field)
    assert getattr(field, value)() == before
    assert not field.hasFocus()
    assert area.verticalScrollBar().value() > 0
    area.verticalScrollBar().setValue(0)
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    turn(field)
    assert getattr(field, value)() != before
