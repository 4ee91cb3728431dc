"""The watchdog itself: it barks when it should, and only then."""

from PySide6.QtCore import QTimer

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
