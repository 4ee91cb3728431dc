"""Checks that answer at once, whatever the engines and the database do."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from wina_core.errors import WinaError, unforeseen

_log = logging.getLogger(__name__)


class Checks(QObject):
    """Short questions about files, each on a thread of its own; answers arrive on the main thread.

    A folder on a network that does not answer keeps no other check waiting, nor the end of the program.
    """

    _answered = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._answered.connect(self._deliver)

    def ask(
        self, question: Callable[[], object], answer: Callable[[Any], None], refused: Callable[[str], None]
    ) -> None:
        """Call `question()` off the main thread, then `answer` with its result, or `refused` with its error's text."""

        def work() -> None:
            try:
                value, receiver = question(), answer
            except WinaError as error:
                value, receiver = str(error), refused
            except Exception as error:
                _log.exception("A check failed")
                value, receiver = unforeseen(error), refused
            try:
                self._answered.emit(receiver, value)
            except RuntimeError:  # the window has closed meanwhile
                _log.debug("A check ended after the window")

        threading.Thread(target=work, name="check", daemon=True).start()

    @Slot(object, object)
    def _deliver(self, receiver: Callable[[Any], None], value: Any) -> None:
        receiver(value)
