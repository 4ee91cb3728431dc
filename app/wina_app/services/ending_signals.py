"""Signals that end the window, delivered on the main thread.

Python runs its handlers between two of its instructions, and none runs while Qt waits for events. The interpreter
therefore writes each signal's number into a socket, which wakes Qt.
"""

import signal
import socket
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier, Signal

from wina_core.errors import ending_signals


class EndingSignals(QObject):
    """Ctrl-C, SIGTERM and SIGHUP; under nohup, which ignores SIGHUP, it stays ignored."""

    received = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._reading, self._writing = socket.socketpair()
        for end in (self._reading, self._writing):
            end.setblocking(False)
        self._notifier = QSocketNotifier(self._reading.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_arrived)
        self._wakeup_before = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _do_nothing) for number in ending_signals()}

    def stop(self) -> None:
        """Restore the handlers from before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._notifier.setEnabled(False)
        for end in (self._reading, self._writing):
            end.close()

    def _on_arrived(self) -> None:
        for number in self._reading.recv(64):
            if number in self._before:
                self.received.emit(number)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal, so that Python reports it and the system does not end the process."""
