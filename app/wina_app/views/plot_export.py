"""Saving what a plot or heatmap shows: PNG at any scale, SVG with every curve as vectors."""

from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QRect, QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QGraphicsView, QWidget

from wina_app.theme import tokens
from wina_app.views.page import Page
from wina_core.errors import WinaError
from wina_core.export import write_atomically

PLOT_FORMATS = "PNG image (*.png);;SVG drawing (*.svg)"
"""For file dialogs."""
PNG_SCALE = 3.0
"""Pixels of a saved image per logical pixel of the screen: print quality at the size it is shown."""


def save_plot(widget: QWidget, path: Path, scale: float = PNG_SCALE) -> None:
    """Write what `widget` shows; the suffix, .png or .svg, picks the format. Raises WinaError."""
    if path.suffix.lower() == ".png":
        write_atomically(path, _png(widget, scale))
    elif path.suffix.lower() == ".svg":
        write_atomically(path, _svg(widget))
    else:
        raise WinaError(f'A plot cannot be saved as "{path.name}"; choose a name that ends in .png or .svg.')


def ask_and_save(page: Page, widget: QWidget, name: str) -> None:
    """Ask for a file name and write what `widget` shows; what goes wrong is shown on the page."""
    chosen, _ = QFileDialog.getSaveFileName(page, "Save plot", f"{name}.png", PLOT_FORMATS)
    if not chosen:
        return
    try:
        save_plot(widget, Path(chosen))
    except WinaError as error:
        page.show_error(str(error))


def image_of(widget: QWidget, scale: float = PNG_SCALE) -> QImage:
    """What `widget` shows at `scale` pixels for each of its own."""
    image = QImage(widget.size() * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(QColor(tokens().surface))
    painter = QPainter(image)
    painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.TextAntialiasing)
    _render(widget, painter)
    painter.end()
    return image


def _png(widget: QWidget, scale: float) -> bytes:
    content = QByteArray()
    buffer = QBuffer(content)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image_of(widget, scale).save(buffer, "PNG")
    return content.data()


def _svg(widget: QWidget) -> bytes:
    content = QByteArray()
    buffer = QBuffer(content)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(widget.size())
    generator.setViewBox(QRect(0, 0, widget.width(), widget.height()))
    generator.setTitle(widget.accessibleName())
    generator.setResolution(96)
    painter = QPainter(generator)
    painter.fillRect(QRect(0, 0, widget.width(), widget.height()), QColor(tokens().surface))
    _render(widget, painter)
    painter.end()
    return content.data()


def _render(widget: QWidget, painter: QPainter) -> None:
    if not isinstance(widget, QGraphicsView):
        widget.render(painter)
        return
    # pyqtgraph draws markers from a bitmap unless it is told that it draws for a file.
    drawn = [item for item in widget.scene().items() if hasattr(item, "setExportMode")]
    for item in drawn:
        item.setExportMode(True, {"antialias": True, "resolutionScale": 1.0})
    try:
        widget.render(painter, QRectF(widget.rect()), widget.viewport().rect())
    finally:
        for item in drawn:
            item.setExportMode(False)
