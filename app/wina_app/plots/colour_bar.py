"""The colour bar of a heatmap: colours from low to high with title, unit and the pattern for "no data"."""

import math

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from wina_app.plots.colour_maps import ColourScale, hatch, lookup_table
from wina_app.style.theme import GRID, HALF, font, notifier, tokens

_NO_DATA = "no data"
_CENTRE = Qt.AlignmentFlag.AlignHCenter


class ColourBar(QWidget):
    """A horizontal bar with title and unit above, low, middle and high below, and with `gaps` the pattern for "no data"
    beside it."""

    def __init__(self, *, gaps: bool = True) -> None:
        super().__init__()
        self._gaps = gaps
        self._scale: ColourScale | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        notifier().changed.connect(self.update)

    def set_scale(self, scale: ColourScale) -> None:
        if scale == self._scale:
            return  # to lay out the page anew takes as long as to paint it
        self._scale = scale
        self.setAccessibleName(f"Colour bar: {scale.heading} from {scale.text(scale.low)} to {scale.text(scale.high)}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(240, round(2 * QFontMetricsF(font("small")).height()) + GRID + 3 * HALF)

    def minimumSizeHint(self) -> QSize:
        title = QFontMetricsF(font("small", tabular=True)).horizontalAdvance(self._scale.heading if self._scale else "")
        return QSize(max(200, math.ceil(title)), self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002 - Qt's signature
        if self._scale is not None:
            with QPainter(self) as painter:
                _paint(painter, self.width(), self._scale, gaps=self._gaps)


def _paint(painter: QPainter, width: int, scale: ColourScale, *, gaps: bool) -> None:
    t = tokens()
    painter.setFont(font("small", tabular=True))
    line = QFontMetricsF(painter.font()).height()
    missing = QFontMetricsF(painter.font()).horizontalAdvance(_NO_DATA) + HALF
    bar = QRectF(0, line + HALF, max(width - missing - 2 * GRID, 80) if gaps else width, GRID)
    table = lookup_table(scale.name)
    # One pixel high; drawing stretches it over the bar.
    ramp = QImage(table.tobytes(), len(table), 1, 3 * len(table), QImage.Format.Format_RGB888)
    painter.drawImage(bar, ramp)
    if gaps:
        hatch(painter, QRectF(width - missing, bar.top(), missing, GRID))
    painter.setPen(QColor(t.text))
    painter.drawText(QRectF(0, 0, width, line), Qt.AlignmentFlag.AlignLeft, scale.heading)
    painter.setPen(QColor(t.muted))
    numbers = QRectF(0, bar.bottom() + HALF, bar.width(), line)
    last = len(scale.marks) - 1
    for index, value in enumerate(scale.marks):
        align = {0: Qt.AlignmentFlag.AlignLeft, last: Qt.AlignmentFlag.AlignRight}.get(index, _CENTRE)
        middle = bar.width() * index / last
        half = min(middle, bar.width() - middle)
        painter.drawText(numbers if align != _CENTRE else _around(numbers, middle, half), align, scale.text(value))
    if not gaps:
        return
    below = QRectF(width - missing, numbers.top(), missing, line)
    painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, _NO_DATA)


def _around(row: QRectF, middle: float, half: float) -> QRectF:
    return QRectF(row.left() + middle - half, row.top(), 2 * half, row.height())
