"""Import of libraries on a thread."""

import importlib
import sys
from contextlib import suppress
from threading import Thread

from PySide6.QtCore import QObject, Signal


class BackgroundImport(QObject):
    """Import of libraries on a thread of its own: neither the window nor the store waits for it."""

    finished = Signal()

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names
        self._thread = Thread(target=self._run, name=f"import of {' and '.join(names)}")
        self._importing = False

    def is_needed(self) -> bool:
        """Return whether libraries are still to be imported; they then are, and `finished` is emitted."""
        if not self._importing and not sys.modules.keys() >= set(self._names):
            self._importing = True
            self._thread.start()
        return self._importing

    def join(self) -> None:
        """Wait for the end of the thread; it must not be the last to hold this object, which it would destroy."""
        self._thread.join()

    def _run(self) -> None:
        for name in self._names:
            importlib.import_module(name)
        self._importing = False
        with suppress(RuntimeError):  # the window was closed meanwhile
            self.finished.emit()
