"""Qt without a screen, folders of its own for every test, and a look at what a test leaves behind."""

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QCoreApplication, QEvent, QThread, QTimer
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid
from wina_app.application import Application
from wina_app.services.threads import EngineThread

from tests.wina_app.fakes import FakeClient
from tests.wina_app.stall_watchdog import StallWatchdog
from wina_core.store import Store

PATIENCE_MS = 300_000
"""Of every wait for the window, which only ends what hangs: pytest-qt's own 5 s are too short on a busy machine."""
for _wait in (QtBot.waitActive, QtBot.waitExposed, QtBot.waitSignal, QtBot.waitSignals, QtBot.waitUntil):
    _wait.__kwdefaults__["timeout"] = PATIENCE_MS
_WINDOWS = ("application", "window")
"""What a test was given of these becomes garbage before its garbage is collected: the next test would freeze it, and
restyling, which goes through all widgets, would take ever longer."""
_OWN_BY_QT = ("QTipLabel", "QComboBoxPrivateContainer")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings, database, cache and logs of this test alone."""
    folder = tmp_path / "home"
    monkeypatch.setenv("WINA_HOME", str(folder))
    monkeypatch.delenv("WINA_DATABASE", raising=False)
    return folder


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a widget, a timer or a thread; each of them spoils the tests that follow."""
    if "qapp" not in request.fixturenames and "qtbot" not in request.fixturenames:
        yield
        return
    app = request.getfixturevalue("qapp")
    threads = set(threading.enumerate())
    known = weakref.WeakSet(app.topLevelWidgets())
    gc.freeze()  # with torch loaded by other tests, looking through all objects takes most of a second
    gc.disable()  # on the store's thread it would destroy widgets that the main thread uses, as `GarbageCollector` says
    yield
    for name in _WINDOWS:
        request.node.funcargs.pop(name, None)
    app.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    running = [
        thread
        for thread in threading.enumerate()
        if thread not in threads and not isinstance(thread, threading._DummyThread) and not _is_winding_up(thread)
    ]
    gc.collect()
    timers = [_whose(one) for one in gc.get_objects() if _is_a_running_timer(one)]
    gc.unfreeze()
    gc.enable()
    app.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    widgets = [widget for widget in app.topLevelWidgets() if widget not in known and _is_a_window(widget)]
    assert not [(type(widget).__name__, widget.windowTitle()) for widget in widgets], "widgets were left"
    assert not timers, "timers were left running"
    assert not running, "threads were left"
    assert QThread.currentThread() is QCoreApplication.instance().thread()


def _is_a_running_timer(one: object) -> bool:
    """One that would go on for ever; one that fires once ends by itself."""
    return isinstance(one, QTimer) and isValid(one) and one.isActive() and not one.isSingleShot()


def _whose(timer: QTimer) -> str:
    return f"{timer!r} of {timer.parent()!r}"


def _is_a_window(widget: QWidget) -> bool:
    return widget.parent() is None and widget.metaObject().className() not in _OWN_BY_QT and widget.isVisible()


def _is_winding_up(thread: threading.Thread) -> bool:
    thread.join(timeout=60)
    return not thread.is_alive()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A results database of this test alone."""
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def stall_watchdog(qapp: QApplication) -> Iterator[StallWatchdog]:
    """Fails the test if the main thread computed too long at a time after the test called `start`."""
    watchdog = StallWatchdog(qapp)
    yield watchdog
    watchdog.stop()
    assert not watchdog.stalls, "\n\n".join(watchdog.stalls)


@pytest.fixture
def application(qtbot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """The whole window with its threads, over an engine that takes every job and finishes none by itself."""
    yield from shown(qtbot, Application(qapp, engine=EngineThread(FakeClient)), monkeypatch)


def shown(qtbot, application: Application, patch: pytest.MonkeyPatch) -> Iterator[Application]:
    """Show a window until the test has ended, with the watchdog beside it, then close it."""
    application.window.resize(1280, 720)
    application.start(page="model")
    watchdog = StallWatchdog(application)
    watchdog.start_within(patch)
    yield application
    watchdog.stop()
    close(qtbot, application)
    assert not watchdog.stalls, "\n\n".join(watchdog.stalls)


def close(qtbot, application: Application) -> None:
    """Close the window, cancelling whatever runs, and wait until everything has ended."""
    window = application.window
    window.confirm_quit = lambda: "cancel"
    window.close()
    qtbot.waitUntil(lambda: window.has_stopped)
    window.deleteLater()
    application.log.deleteLater()
