"""The watchdog itself: it barks when it should, and only then."""

import time

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QPushButton

from tests.wina_app.stall_watchdog import StallWatchdog


def test_a_blocked_main_thread_is_noticed_with_the_place(qtbot, qapp):
    watchdog = StallWatchdog(qapp)
    watchdog.start()
    QTimer.singleShot(20, lambda: time.sleep(0.3))
    qtbot.wait(500)
    watchdog.stop()
    assert len(watchdog.stalls) == 1
    assert "test_stall_watchdog.py" in watchdog.stalls[0]


def test_many_short_steps_are_no_stall(qtbot, qapp):
    watchdog = StallWatchdog(qapp)
    watchdog.start()
    steps = QTimer()
    steps.timeout.connect(lambda: time.sleep(0.01))
    steps.start(5)
    qtbot.wait(400)
    steps.stop()
    watchdog.stop()
    assert not watchdog.stalls


def test_only_the_event_loop_and_each_gesture_count_where_the_test_drives(qtbot, qapp, monkeypatch):
    button = QPushButton()
    qtbot.addWidget(button)
    button.show()
    watchdog = StallWatchdog(qapp)
    watchdog.start_within(monkeypatch)
    time.sleep(0.3)
    qtbot.wait(20)
    assert not watchdog.stalls, "the test's own"
    button.clicked.connect(lambda: time.sleep(0.3))
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert len(watchdog.stalls) == 1, "a click"
    QTimer.singleShot(0, lambda: time.sleep(0.3))
    with qtbot.waitSignal(button.destroyed, raising=False, timeout=300):
        pass
    watchdog.stop()
    assert len(watchdog.stalls) == 2, "while waiting"
