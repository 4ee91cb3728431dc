"""Icons: SVG drawings whose `currentColor` is replaced by colours of the theme."""

from PySide6.QtCore import QByteArray, QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from wina_app.style.theme import tokens
from wina_core.files.paths import resources_folder


def icon(name: str, colour: str = "") -> QIcon:
    """Return an icon in a colour, by default that of texts, and of the accent on checked buttons."""
    t = tokens()
    return QIcon(_Drawing(name, (colour or t.text, colour or t.accent, t.disabled)))


class _Drawing(QIconEngine):
    """Reads and renders a drawing when it is painted: sizes and states that nobody sees cost nothing."""

    def __init__(self, name: str, colours: tuple[str, str, str]) -> None:
        """Take the colours of buttons that are not checked, are checked, or are disabled."""
        super().__init__()
        self._name, self._colours = name, colours
        self._renderers: dict[str, QSvgRenderer] = {}

    def clone(self) -> QIconEngine:
        return _Drawing(self._name, self._colours)

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        off, on, disabled = self._colours
        colour = disabled if mode == QIcon.Mode.Disabled else on if state == QIcon.State.On else off
        self._renderer(colour).render(painter, QRectF(rect))

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        pixmap = QPixmap(size)
        pixmap.fill(Qt.GlobalColor.transparent)
        with QPainter(pixmap) as painter:
            self.paint(painter, QRect(QPoint(0, 0), size), mode, state)
        return pixmap

    def _renderer(self, colour: str) -> QSvgRenderer:
        if colour not in self._renderers:
            drawing = (resources_folder() / "icons" / f"{self._name}.svg").read_text(encoding="utf-8")
            renderer = QSvgRenderer(QByteArray(drawing.replace("currentColor", colour).encode()))
            renderer.setAspectRatioMode(Qt.AspectRatioMode.KeepAspectRatio)
            self._renderers[colour] = renderer
        return self._renderers[colour]
