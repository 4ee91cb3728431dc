"""What a window manager does to the window. Collected by `test_first_use` alone, in the process that has a display."""

import subprocess
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtWidgets import QApplication
from wina_app.application import Application
from wina_app.services.threads import EngineThread

from tests.end_to_end.hands import XDevices
from tests.wina_app.conftest import close
from tests.wina_app.fakes import FakeClient

FRAME = 72
"""Pixels; window managers differ in what of their frame they count to a window's place."""


@pytest.fixture
def open_window(qtbot, qapp: QApplication) -> Iterator[Callable[[], Application]]:
    """Opens the window, as often as it is called; an engine is not needed."""
    opened: list[Application] = []

    def open_() -> Application:
        opened.append(Application(qapp, engine=EngineThread(FakeClient)))
        opened[-1].start()
        qtbot.waitUntil(opened[-1].window.isActiveWindow)
        return opened[-1]

    yield open_
    for application in opened:
        close(qtbot, application)


def test_the_keyboard_is_where_it_was_after_minimizing(open_window, qtbot) -> None:
    application, devices = open_window(), XDevices()
    window, location = application.window, application.window.pages["model"].location
    location.setFocus()
    manage("xdotool", "windowminimize", str(int(window.winId())))
    qtbot.waitUntil(lambda: window.isMinimized() and not window.isActiveWindow())
    manage("xdotool", "type", "lost")
    manage("wmctrl", "-i", "-a", hex(int(window.winId())))
    qtbot.waitUntil(lambda: window.isActiveWindow() and not window.isMinimized())
    devices.type("typed")
    qtbot.waitUntil(lambda: not devices.busy() and location.text() == "typed")


def test_a_window_left_beyond_the_screen_is_back_on_it_at_the_next_start(open_window, qtbot) -> None:
    application = open_window()
    window, screen = application.window, application.window.screen().availableGeometry()
    beyond = screen.right() - 300
    manage("wmctrl", "-i", "-r", hex(int(window.winId())), "-e", f"0,{beyond},{screen.bottom() - 200},-1,-1")
    qtbot.waitUntil(lambda: window.geometry().right() > screen.right())
    manage("wmctrl", "-i", "-c", hex(int(window.winId())))
    qtbot.waitUntil(lambda: window.has_stopped)
    again = open_window().window
    assert screen.contains(again.geometry())
    assert again.size() == window.size()


def test_the_window_is_as_it_was_after_full_screen(open_window, qtbot) -> None:
    application, devices = open_window(), XDevices()
    window, screen = application.window, application.window.screen().geometry()
    place, size = window.pos(), window.size()
    devices.keys("F11")
    qtbot.waitUntil(lambda: not devices.busy() and window.isFullScreen() and window.geometry() == screen)
    devices.keys("F11")
    qtbot.waitUntil(lambda: not devices.busy() and not window.isFullScreen() and window.size() == size)
    assert (window.pos() - place).manhattanLength() <= FRAME


def manage(*command: str) -> None:
    """Ask the window manager."""
    subprocess.run(command, check=True, timeout=120, capture_output=True)
