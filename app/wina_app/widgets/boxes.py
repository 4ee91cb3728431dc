"""Box layouts made with their content in one call."""

from collections.abc import Iterable
from typing import Literal, TypeVar

from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLayout, QVBoxLayout, QWidget

from wina_app.style.theme import GRID

STRETCH: Literal["stretch"] = "stretch"
"""Takes the room that is left."""
Item = QWidget | QLayout | tuple[QWidget | QLayout, int] | int | Literal["stretch"]
"""Widget or layout, alone or with its stretch factor; an extra space in pixels; or `STRETCH`."""
Margins = tuple[int, int, int, int]
Box = TypeVar("Box", bound=QBoxLayout)


def vbox(parent: QWidget | None, *items: Item, margins: Margins = (0, 0, 0, 0), spacing: int = GRID) -> QVBoxLayout:
    """Return a column of items, as the layout of `parent` if given; spacing -1 is the style's own."""
    return _made(QVBoxLayout() if parent is None else QVBoxLayout(parent), items, margins, spacing)


def hbox(parent: QWidget | None, *items: Item, margins: Margins = (0, 0, 0, 0), spacing: int = GRID) -> QHBoxLayout:
    """Return a row of items, as the layout of `parent` if given; spacing -1 is the style's own."""
    return _made(QHBoxLayout() if parent is None else QHBoxLayout(parent), items, margins, spacing)


def _made(layout: Box, items: Iterable[Item], margins: Margins, spacing: int) -> Box:
    layout.setContentsMargins(*margins)
    layout.setSpacing(spacing)
    fill(layout, *items)
    return layout


def fill(layout: QBoxLayout, *items: Item) -> None:
    for item in items:
        content, stretch = item if isinstance(item, tuple) else (item, 0)
        if isinstance(content, QWidget):
            layout.addWidget(content, stretch)
        elif isinstance(content, QLayout):
            layout.addLayout(content, stretch)
        elif isinstance(content, int):
            layout.addSpacing(content)
        else:
            layout.addStretch(1)
