"""The watchdog itself: it barks when it should, and only then."""

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QPushButton

from tests.wina_app.stall_watchdog import StallWatchdog, reference_seconds

LIMIT = 5


def compute(loops: int = 5 * LIMIT) -> None:
    for _ in range(loops):
        reference_seconds()


def test_a_computing_main_thread_is_noticed_with_the_place(qtbot, qapp):
    watchdog, done = StallWatchdog(qapp, LIMIT), []
    watchdog.start()
    QTimer.singleShot(20, lambda: done.append(compute()))
    qtbot.waitUntil(lambda: bool(done))
    watchdog.stop()
    assert len(watchdog.stalls) == 1
    assert "test_stall_watchdog.py" in watchdog.stalls[0]


@pytest.mark.nightly
def test_only_the_event_loop_and_each_gesture_count_where_the_test_drives(qtbot, qapp, monkeypatch):
    button = QPushButton()
    qtbot.addWidget(button)
    button.show()
    watchdog = StallWatchdog(qapp, LIMIT)
    watchdog.start_within(monkeypatch)
    compute()
    qtbot.wait(20)
    assert not watchdog.stalls, "the test's own"
    button.clicked.connect(lambda: compute())
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert len(watchdog.stalls) == 1, "a click"
    QTimer.singleShot(0, compute)
    with qtbot.waitSignal(button.destroyed, raising=False, timeout=300):
        pass
    watchdog.stop()
    assert len(watchdog.stalls) == 2, "while waiting"
