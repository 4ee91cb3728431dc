"""A figure drawn anew at a size of its own, without a screen: what files and the clipboard get."""

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QCoreApplication,
    QEvent,
    QIODevice,
    QMarginsF,
    QPoint,
    QRect,
    QRectF,
    QSize,
    QSizeF,
    Qt,
)
from PySide6.QtGui import QColor, QImage, QPageSize, QPainter, QPdfWriter, QPicture, QRegion
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from wina_app.heatmap.heatmap import Heatmap
from wina_app.plots.colour_bar import ColourBar
from wina_app.plots.colour_maps import ColourScale
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.figure import Figure, LinePanel, MapPanel, Panel
from wina_app.style.theme import GRID, font, tokens
from wina_app.style.translation import tr

_LAYOUT_PASSES = 5
"""The labels' widths decide the plot's, which decides where the labels go."""


class PlotSheet(QWidget):
    """The panels of a figure beside each other, `size` pixels large; paint it, then `close` it.

    A map that does not fit makes the sheet larger; it is painted smaller by as much.
    """

    def __init__(self, figure: Figure, size: QSize) -> None:
        super().__init__()
        self.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
        self.titled = len(figure) > 1 or any(isinstance(panel, MapPanel) for panel in figure)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, GRID, GRID, GRID)
        row.setSpacing(2 * GRID)
        self._panels = [_PanelOnSheet(panel, self.titled) for panel in figure]
        for panel in self._panels:
            row.addWidget(panel, 1)
        self.resize(size)
        self.show()  # only what is shown makes room for its titles and labels
        self._settle()
        self._enlarged = max(self.width() / size.width(), self.height() / size.height())
        """As far as its panels cannot be smaller."""
        for _ in range(_LAYOUT_PASSES):
            lacking = max(panel.lacking() for panel in self._panels)
            if lacking > 1.0 or QSize(size * self._enlarged) != self.size():
                self._enlarged *= lacking
                self.resize(size * self._enlarged)
                self._settle()

    def _settle(self) -> None:
        for _ in range(_LAYOUT_PASSES):
            self.layout().activate()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
            for panel in self._panels:
                panel.settle()

    def paint(self, painter: QPainter, scale: float) -> None:
        """Paint all of it, `scale` device pixels for each of the wanted size's."""
        painter.scale(scale / self._enlarged, scale / self._enlarged)
        painter.fillRect(QRect(QPoint(), self.size()), QColor(tokens().surface))
        for panel in self._panels:
            panel.paint(painter, scale / self._enlarged)

    def close(self) -> bool:
        """Take the plots apart, which are no windows of their own."""
        for panel in self._panels:
            panel.release()
        self.deleteLater()
        return super().close()


class _PanelOnSheet(QWidget):
    def __init__(self, panel: Panel, titled: bool) -> None:
        super().__init__()
        self._title = panel.title if titled else ""
        self._children = _map_widgets(panel) if isinstance(panel, MapPanel) else [_plot(panel)]
        self._panel = panel
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 3 * GRID if titled else 0, 0, 0)
        column.setSpacing(GRID)
        for child in self._children:
            column.addWidget(child)

    def lacking(self) -> float:
        """How much larger it would have to be to show all of a map, as a factor."""
        first = self._children[0]
        if not isinstance(first, Heatmap):
            return 1.0
        bars = (first.horizontalScrollBar(), self.width()), (first.verticalScrollBar(), first.height())
        return max(1.0 + bar.maximum() / max(room, 1) for bar, room in bars)

    def settle(self) -> None:
        """Let a plot place its labels."""
        for child in self._children:
            if isinstance(child, DataPlot):
                child.getPlotItem().layout.activate()
                child.show_panel_range(self._panel)

    def paint(self, painter: QPainter, scale: float) -> None:
        """Paint title, plot or map."""
        where = self.mapTo(self.window(), QPoint())
        if self._title:
            painter.setFont(font("body", bold=True))
            painter.setPen(QColor(tokens().text))
            area = QRectF(where.x(), where.y(), self.width(), 3 * GRID)
            text = painter.fontMetrics().elidedText(self._title, Qt.TextElideMode.ElideRight, self.width())
            painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, text)
        for child in self._children:
            at = where + child.pos()
            if isinstance(child, DataPlot):
                child.paint_for_file(painter, QRectF(at, QSizeF(child.size())), scale)
            else:
                child.render(painter, at, QRegion(), QWidget.RenderFlag.DrawChildren)

    def release(self) -> None:
        """Let go of what the plots listen to."""
        for child in self._children:
            child.close()


def _plot(panel: LinePanel) -> DataPlot:
    plot = DataPlot(panel.title)
    plot.show_panel(panel)
    return plot


def _map_widgets(panel: MapPanel) -> Sequence[QWidget]:
    scale = ColourScale(panel.quantity, panel.unit, panel.low, panel.high, panel.text, panel.colours)
    heatmap, bar = Heatmap(panel.title), ColourBar()
    for policy in (heatmap.setVerticalScrollBarPolicy, heatmap.setHorizontalScrollBarPolicy):
        policy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    heatmap.set_table(panel.rows, panel.columns)
    heatmap.set_values(np.asarray(panel.values, dtype=float), scale)
    bar.set_scale(scale)
    return [heatmap, bar]


# ---- formats ---------------------------------------------------------------------------------------------------


def image_of_figure(figure: Figure, size: QSize, scale: float) -> QImage:
    """The figure at `size` logical pixels, `scale` pixels for each of them."""
    image = QImage(round(size.width() * scale), round(size.height() * scale), QImage.Format.Format_RGB32)
    image.fill(QColor(tokens().surface))
    sheet = PlotSheet(figure, size)
    with QPainter(image) as painter:
        painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.TextAntialiasing)
        sheet.paint(painter, scale)
    sheet.close()
    return image


def png_of(image: QImage, dpi: float) -> bytes:
    """As a PNG that says how large it is on paper."""
    content = QByteArray()
    buffer = QBuffer(content)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.setDotsPerMeterX(round(dpi / 0.0254))
    image.setDotsPerMeterY(round(dpi / 0.0254))
    image.save(buffer, "PNG")
    return content.data()


def svg_of(figure: Figure, size: QSize) -> bytes:
    """Vectors, with its words as text."""
    content = QByteArray()
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)  # the default, Tiny, knows no clipping
    generator.setOutputDevice(QBuffer(content))
    generator.setSize(size)
    generator.setViewBox(QRect(QPoint(), size))
    generator.setResolution(QPicture().logicalDpiX())
    generator.setTitle(_title(figure))
    sheet = PlotSheet(figure, size)
    with QPainter(generator) as painter:
        sheet.paint(painter, 1.0)
    sheet.close()
    return content.data()


def pdf_of(figure: Figure, size: QSize, width: float, height: float) -> bytes:
    """One page of `width` x `height` millimetres, for a figure of `size` logical pixels."""
    content = QByteArray()
    buffer = QBuffer(content)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setPageSize(QPageSize(QSizeF(width, height), QPageSize.Unit.Millimeter, "", QPageSize.ExactMatch))
    writer.setPageMargins(QMarginsF())
    writer.setResolution(QPicture().logicalDpiX())  # pyqtgraph's pictures of axes are scaled to any other
    writer.setTitle(_title(figure))
    writer.setCreator("WINA Workbench")
    sheet = PlotSheet(figure, size)
    with QPainter(writer) as painter:
        sheet.paint(painter, painter.device().width() / size.width())
    sheet.close()
    return content.data()


def _title(figure: Figure) -> str:
    return "; ".join(panel.title for panel in figure) or tr("An empty plot")
