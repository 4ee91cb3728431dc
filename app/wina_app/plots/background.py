"""Drawing on a thread of its own, so that the window stays responsive."""

from collections.abc import Callable
from functools import cache
from typing import Any

from PySide6.QtCore import QObject, QThreadPool, Signal
from shiboken6 import Shiboken

from wina_core.errors import WinaError

_running: set["_Drawing"] = set()


def draw_in_background(owner: QObject, draw: Callable[[], Any], then: Callable[[Any, str], None]) -> None:
    """Draw on another thread, then call `then` on this one with the result, or with the text of a WinaError.

    Nothing is called where `owner` was deleted meanwhile. Drawings run one after another.
    """
    drawing = _Drawing(owner, draw, then)
    _running.add(drawing)
    _pool().start(drawing.run)


@cache
def _pool() -> QThreadPool:
    pool = QThreadPool()
    pool.setMaxThreadCount(1)
    return pool


class _Drawing(QObject):
    _ended = Signal(object, str)

    def __init__(self, owner: QObject, draw: Callable[[], Any], then: Callable[[Any, str], None]) -> None:
        super().__init__()
        self._owner, self._draw, self._then = owner, draw, then
        self._ended.connect(self._on_ended)

    def run(self) -> None:
        try:
            self._ended.emit(self._draw(), "")
        except WinaError as error:
            self._ended.emit(None, str(error))

    def _on_ended(self, result: Any, error: str) -> None:
        _running.discard(self)
        if Shiboken.isValid(self._owner):
            self._then(result, error)
