"""Icons: SVG drawings whose `currentColor` is replaced by colours of the theme."""

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from wina_app.style.theme import tokens
from wina_core.files.paths import resources_folder

_SIZES = (16, 20, 24, 32, 48, 64)


def icon(name: str, colour: str = "") -> QIcon:
    """Return an icon in a colour, by default that of texts, and of the accent on checked buttons."""
    drawing = (resources_folder() / "icons" / f"{name}.svg").read_text(encoding="utf-8")
    t = tokens()
    result = QIcon()
    for mode, state, ink in (
        (QIcon.Mode.Normal, QIcon.State.Off, colour or t.text),
        (QIcon.Mode.Normal, QIcon.State.On, colour or t.accent),
        (QIcon.Mode.Disabled, QIcon.State.Off, t.disabled),
    ):
        renderer = QSvgRenderer(QByteArray(drawing.replace("currentColor", ink).encode()))
        for size in _SIZES:
            result.addPixmap(_rendered(renderer, size), mode, state)
    return result


def _rendered(renderer: QSvgRenderer, size: int) -> QPixmap:
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        renderer.render(painter, QRectF(0, 0, size, size))
    return pixmap
