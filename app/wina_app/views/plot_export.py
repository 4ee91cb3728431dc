"""Saving what a plot or heatmap shows: PNG at any scale, SVG with every curve as vectors."""

from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPoint, QRect, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPainter, QRegion
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from wina_app.theme import tokens
from wina_app.views.data_plot import DataPlot
from wina_app.views.page import Page
from wina_core.errors import WinaError
from wina_core.export import write_atomically

PNG_SCALE = 3.0
"""Pixels of a saved image per logical pixel of the screen: print quality at the size it is shown."""
_FORMATS = "PNG image (*.png);;SVG drawing (*.svg)"


def offer_export(page: Page, widget: QWidget, name: str) -> None:
    """Give a plot or heatmap a context menu: its own actions, copy as image, save as `name`."""

    def show(where: QPoint) -> None:
        menu = QMenu(widget)
        menu.addActions(widget.actions())
        menu.addAction("Copy image", lambda: QGuiApplication.clipboard().setImage(image_of(widget)))
        menu.addAction("Save image\N{HORIZONTAL ELLIPSIS}", lambda: ask_and_save(page, widget, name))
        menu.exec(widget.mapToGlobal(where))

    widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    widget.customContextMenuRequested.connect(show)


def ask_and_save(page: Page, widget: QWidget, name: str) -> None:
    """Ask for a file name and write what `widget` shows; what goes wrong is shown on the page."""
    chosen, _ = QFileDialog.getSaveFileName(page, "Save image", f"{name}.png", _FORMATS)
    if not chosen:
        return
    try:
        save_plot(widget, Path(chosen))
    except WinaError as error:
        page.show_error(str(error))
    else:
        page.show_notice(f"Saved the picture in {chosen}.")


def save_plot(widget: QWidget, path: Path, scale: float = PNG_SCALE) -> None:
    """Write what `widget` shows; the suffix, .png or .svg, picks the format. Raises WinaError."""
    if path.suffix.lower() == ".png":
        write_atomically(path, _png(widget, scale))
    elif path.suffix.lower() == ".svg":
        write_atomically(path, _svg(widget))
    else:
        raise WinaError(f'A plot cannot be saved as "{path.name}"; choose a name that ends in .png or .svg.')


def image_of(widget: QWidget, scale: float = PNG_SCALE) -> QImage:
    """What `widget` shows at `scale` pixels for each of its own."""
    image = QImage(widget.size() * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(QColor(tokens().surface))
    with QPainter(image) as painter:
        painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.TextAntialiasing)
        _paint(widget, painter, scale)
    return image


def _png(widget: QWidget, scale: float) -> bytes:
    content = QByteArray()
    buffer = QBuffer(content)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image_of(widget, scale).save(buffer, "PNG")
    return content.data()


def _svg(widget: QWidget) -> bytes:
    content = QByteArray()
    area = QRect(QPoint(), widget.size())
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)  # the default, Tiny, knows no clipping
    generator.setOutputDevice(QBuffer(content))
    generator.setSize(widget.size())
    generator.setViewBox(area)
    generator.setResolution(96)
    generator.setTitle(widget.accessibleName())
    with QPainter(generator) as painter:
        painter.fillRect(area, QColor(tokens().surface))
        _paint(widget, painter, 1.0)
    return content.data()


def _paint(widget: QWidget, painter: QPainter, scale: float) -> None:
    if isinstance(widget, DataPlot):
        widget.paint_for_file(painter, scale)
    else:
        widget.render(painter, QPoint(), QRegion(), QWidget.RenderFlag.DrawChildren)
