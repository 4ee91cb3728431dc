"""Buttons that start work and then cancel it: a double-click only starts."""

import pytest
from PySide6.QtCore import Qt
from wina_app.widgets.start_button import StartButton

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture(autouse=True)
def slow_hands(qapp, monkeypatch):
    """A second click belongs to the first however slow the machine is."""
    monkeypatch.setattr(qapp.__class__, "doubleClickInterval", staticmethod(lambda: 1_000_000))


def double_click(qtbot, button):
    """Send the four events of a double-click; Qt's own function sends the third alone."""
    qtbot.mouseClick(button, LEFT)
    qtbot.mouseDClick(button, LEFT)
    qtbot.mouseRelease(button, LEFT)


@pytest.fixture
def button(qtbot) -> tuple[StartButton, list[str]]:
    button, presses = StartButton("Start"), []
    qtbot.addWidget(button)

    def press() -> None:
        presses.append(button.text())
        button.setText("Cancel" if button.text() == "Start" else "Start")

    button.clicked.connect(press)
    button.show()
    return button, presses


def test_a_double_click_starts_and_does_not_cancel(button, qtbot):
    start, presses = button
    double_click(qtbot, start)
    qtbot.mouseClick(start, LEFT)
    assert presses == ["Start"], "nor does the third click"


def test_a_later_click_cancels(button, qtbot, qapp, monkeypatch):
    start, presses = button
    monkeypatch.setattr(qapp.__class__, "doubleClickInterval", staticmethod(lambda: 0))
    qtbot.mouseClick(start, LEFT)
    qtbot.mouseClick(start, LEFT)
    assert presses == ["Start", "Cancel"]
