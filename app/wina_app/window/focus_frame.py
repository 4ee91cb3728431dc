"""An outline around the focused plot or heatmap; the style sheet draws that of other controls."""

from typing import cast

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractScrollArea,
    QApplication,
    QPlainTextEdit,
    QScrollArea,
    QTextEdit,
    QWidget,
)
from shiboken6 import isValid

from wina_app.style.theme import tokens

_STYLED = (QAbstractItemView, QPlainTextEdit, QScrollArea, QTextEdit)


class FocusFrame(QObject):
    """Outline that follows the focus."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._frame: _Frame | None = None
        cast(QApplication, QApplication.instance()).focusChanged.connect(self._follow)

    def _follow(self, _before: QWidget | None, now: QWidget | None) -> None:
        if self._frame is not None and isValid(self._frame):
            self._frame.hide()
            self._frame.deleteLater()
        self._frame = None
        if isinstance(now, QAbstractScrollArea) and not isinstance(now, _STYLED):
            self._frame = _Frame(now)


class _Frame(QWidget):
    """An outline over an area, transparent for the mouse."""

    def __init__(self, area: QAbstractScrollArea) -> None:
        super().__init__(area)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        area.installEventFilter(self)
        self.resize(area.size())
        self.show()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the size of the area."""
        if event.type() == QEvent.Type.Resize and isinstance(watched, QWidget):
            self.resize(watched.size())
        return False

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002 - Qt's signature
        """Draw the outline of the style sheet."""
        with QPainter(self) as painter:
            painter.setPen(QPen(QColor(tokens().accent), 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))
