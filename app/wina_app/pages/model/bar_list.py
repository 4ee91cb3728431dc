"""Horizontal bars of named quantities, with their numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from wina_app.style.theme import GRID, HALF, font, notifier, tokens


@dataclass(frozen=True)
class Bar:
    """One bar; `emphasis` draws it in the accent colour."""

    label: str
    value: float
    text: str
    remark: str = ""
    emphasis: bool = True


class BarList(QWidget):
    """Bars on one scale that begins at zero."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._bars: tuple[Bar, ...] = ()
        self._name = name
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        notifier().changed.connect(self.updateGeometry)

    def show_bars(self, bars: Sequence[Bar]) -> None:
        self._bars = tuple(bars)
        self.setAccessibleDescription("; ".join(f"{bar.label} {bar.text}" for bar in bars))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(GRID * 60, len(self._bars) * self._row_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(GRID * 40, len(self._bars) * self._row_height())  # the full height: nothing scrolls

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002 - Qt's signature
        if not self._bars:
            return
        with QPainter(self) as painter:
            self._paint(painter)

    def _paint(self, painter: QPainter) -> None:
        t = tokens()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(font(tabular=True))
        metrics = QFontMetrics(painter.font())
        label_width = max(metrics.horizontalAdvance(bar.label) for bar in self._bars) + GRID * 2
        text_width = max(metrics.horizontalAdvance(bar.text) for bar in self._bars)
        remark_width = max(metrics.horizontalAdvance(bar.remark) for bar in self._bars)
        room = max(GRID * 6, self.width() - label_width - text_width - remark_width - GRID * 4)
        room = min(room, GRID * 60)
        largest = max(bar.value for bar in self._bars) or 1.0
        height = self._row_height()
        for index, bar in enumerate(self._bars):
            top = index * height
            painter.setPen(QColor(t.text))
            left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(0, top, label_width, height), left, bar.label)
            length = max(1.0, room * bar.value / largest)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(t.accent if bar.emphasis else t.border))
            painter.drawRoundedRect(QRectF(label_width, top + HALF + 1, length, height - GRID - 2), 2, 2)
            painter.setPen(QColor(t.text))
            x = label_width + room + GRID
            painter.drawText(QRectF(x, top, text_width, height), right, bar.text)
            painter.setPen(QColor(t.muted))
            painter.drawText(QRectF(x + text_width + GRID * 2, top, remark_width + GRID, height), left, bar.remark)

    def _row_height(self) -> int:
        return QFontMetrics(font()).height() + GRID
