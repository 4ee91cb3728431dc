"""Readings of the store by a page while results arrive."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from wina_app.services.workbench import Workbench

_PAUSE_MS = 300
"""Pause between two readings of the store while results arrive."""


class StoreReading(QObject):
    """Caller of a page's `read` when results arrive and when the page is shown; a hidden page reads nothing."""

    def __init__(self, workbench: Workbench, read: Callable[[], None], parent: QObject) -> None:
        super().__init__(parent)
        self.visible = False
        self._read = read
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._read_if_visible)
        workbench.results_changed.connect(self._on_results)
        workbench.stopped.connect(self._pause.stop)

    def set_visible(self, visible: bool) -> None:
        self.visible = visible
        self._read_if_visible()

    def _on_results(self) -> None:
        if not self._pause.isActive():  # restarting would postpone the reading for as long as results arrive
            self._pause.start()

    def _read_if_visible(self) -> None:
        if self.visible:
            self._read()
