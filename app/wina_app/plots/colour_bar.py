"""The key to a heatmap: its colours from low to high with title, unit and the pattern for "no data"."""

import math

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from wina_app.heatmap.painter import hatch
from wina_app.plots.colour_maps import ColourScale, lookup_table
from wina_app.style.theme import GRID, HALF, font, notifier, tokens
from wina_app.style.translation import tr

_NO_DATA = tr("no data")


class ColourBar(QWidget):
    """A horizontal bar: title and unit above, low, middle and high below, and beside it the pattern for what has no
    value, where there can be such."""

    def __init__(self, *, gaps: bool = True) -> None:
        super().__init__()
        self._gaps = gaps
        self._scale: ColourScale | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        notifier().changed.connect(self.update)

    def set_scale(self, scale: ColourScale) -> None:
        """Show another scale; the one that is shown already costs no layout."""
        if scale == self._scale:
            return
        self._scale = scale
        self.setAccessibleName(
            tr(
                "Colour bar: {title} from {low} to {high}",
                title=_title(scale),
                low=scale.text(scale.low),
                high=scale.text(scale.high),
            )
        )
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """A title line, the bar, a line of figures."""
        return QSize(240, round(2 * QFontMetricsF(font("small")).height()) + GRID + 3 * HALF)

    def minimumSizeHint(self) -> QSize:
        """As high as the hint, and with room for the title."""
        title = QFontMetricsF(font("small", tabular=True)).horizontalAdvance(_title(self._scale) if self._scale else "")
        return QSize(max(200, math.ceil(title)), self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002 - Qt's signature
        """Paint all of it; it is small."""
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
    ramp = QImage(table.tobytes(), len(table), 1, 3 * len(table), QImage.Format.Format_RGB888)
    painter.drawImage(bar, ramp)
    if gaps:
        hatch(painter, QRectF(width - missing, bar.top(), missing, GRID))
    painter.setPen(QColor(t.text))
    painter.drawText(QRectF(0, 0, width, line), Qt.AlignmentFlag.AlignLeft, _title(scale))
    painter.setPen(QColor(t.muted))
    figures = QRectF(0, bar.bottom() + HALF, bar.width(), line)
    for value, align in (
        (scale.low, Qt.AlignmentFlag.AlignLeft),
        ((scale.low + scale.high) / 2, Qt.AlignmentFlag.AlignHCenter),
        (scale.high, Qt.AlignmentFlag.AlignRight),
    ):
        painter.drawText(figures, align, scale.text(value))
    if not gaps:
        return
    below = QRectF(width - missing, figures.top(), missing, line)
    painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, _NO_DATA)


def _title(scale: ColourScale) -> str:
    return f"{scale.title} ({scale.unit})" if scale.unit else scale.title
