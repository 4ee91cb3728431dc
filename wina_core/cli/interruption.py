"""Signals that end the command line: the first one cancels its job, a second one ends the process."""

import os
import signal
import sys
from types import FrameType

from wina_core.errors import Cancelled, Terminated


def ending_signals() -> list[int]:
    """Return the signals that end a program; not SIGHUP under nohup, which ignores it, nor on Windows."""
    found: list[int] = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        found.append(signal.SIGHUP)
    return found


class Interruption:
    """The first signal that asked this program to end; a second one ends it at once.

    A second SIGHUP does not: the kernel and the shell both send one when a terminal is closed.
    """

    def __init__(self) -> None:
        self.error: Cancelled | None = None
        """Cancelled after Ctrl-C, Terminated after another signal."""

    def on_signal(self, number: int, _frame: FrameType | None = None) -> None:
        """Take a signal."""
        if self.error is None:
            self.error = Cancelled() if number == signal.SIGINT else Terminated(number)
            _print("\nCancelling at the next batch; press Ctrl-C again to stop at once.")
        elif number in (signal.SIGINT, signal.SIGTERM):
            os._exit(128 + number)


def _print(text: str) -> None:
    """Print on stderr; where its terminal is gone, silence all later output, which would fail too."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
