"""Garbage collection on the main thread alone.

Python collects on whichever thread allocates, and cycles hold widgets and items of models: destroyed on the store's or
an engine client's thread while the main thread uses their model, they crash Qt.
"""

import gc

from PySide6.QtCore import QObject, QTimer

_TICK_MS = 100
_MIDDLE_PER_FULL = 1000
"""Collections of the middle generation per full one; Python's default is 10. A full collection of the window's
150,000 objects stops all threads for 0.13 s."""


class GarbageCollector(QObject):
    """Collector that takes the place of the automatic one until it is stopped."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.disable()
        self._timer = QTimer(self, interval=_TICK_MS)
        self._timer.timeout.connect(self._collect)
        self._timer.start()

    def stop(self) -> None:
        """Let Python collect again."""
        self._timer.stop()
        gc.enable()

    def _collect(self) -> None:
        """Collect the generations that are due, as Python would."""
        limits = (*gc.get_threshold()[:2], _MIDDLE_PER_FULL)
        due = [generation for generation, count in enumerate(gc.get_count()) if count > limits[generation]]
        if due:
            gc.collect(due[-1])
